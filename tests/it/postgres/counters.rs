//! One limit, however many replicas count by it.

use std::collections::HashMap;
use std::time::Duration;

use doorpost::client_ip::Network;
use doorpost::throttle::log::Verdict;
use doorpost::throttle::postgres::PostgresCounters;
use doorpost::throttle::{Counter, Hit, Keys, SharedCounters};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::TestApp;
use crate::support::postgres::Postgres;

/// Three apps, each with pools of its own.
async fn three(settings: &[(&str, &str)]) -> [TestApp; 3] {
    let start = settings.iter().fold(TestApp::with(), |start, (name, value)| start.setting(name, value));
    let first = start.run().await;
    let (second, third) = (first.replica().await, first.replica().await);
    [first, second, third]
}

/// So many requests at the same instant, in turns to each of the apps; how many were let in.
async fn at_once(apps: &[TestApp], requests: usize, who: impl Fn(usize) -> (String, String)) -> usize {
    let mut asking = JoinSet::new();
    for n in 0..requests {
        let (network, email) = who(n);
        let mut browser = apps[n % apps.len()].browser_at(&network);
        let path = if n % 2 == 0 { "/users/log-in" } else { "/users/register" };
        asking.spawn(async move { browser.ask(path, &email).await.status });
    }
    let answers = asking.join_all().await;
    assert!(answers.iter().all(|status| [302, 429].contains(status)), "{answers:?}");
    answers.iter().filter(|status| **status == 302).count()
}

#[tokio::test]
async fn three_replicas_hold_one_ceiling_in_every_window() {
    let apps = three(&[]).await;
    for window in 0..4 {
        if window > 0 {
            apps[0].advance(900);
        }
        let one_inbox = |n| (format!("198.51.{}.{n}", 100 + window), "ada@example.org".to_owned());
        assert_eq!(at_once(&apps, 60, one_inbox).await, 3, "one inbox, window {window}");
        let one_network = |n| ("203.0.113.7".to_owned(), format!("a{window}.{n}@example.org"));
        assert_eq!(at_once(&apps, 60, one_network).await, 5, "one network, window {window}");
        assert_eq!(at_once(&apps, 20, one_network).await, 0, "and then none");
    }
    apps[0].advance(60);
    // Four times five are the twenty of an hour.
    let one_network = |n| ("203.0.113.7".to_owned(), format!("b{n}@example.org"));
    assert_eq!(at_once(&apps, 20, one_network).await, 0);
    apps[0].work().await;
}

#[tokio::test]
async fn a_refusal_touches_nothing_behind_it_and_junk_makes_no_inbox() {
    let app = TestApp::start().await;
    for n in 0..5 {
        app.browser_at("203.0.113.7").ask("/users/log-in", &format!("a{n}@example.org")).await;
    }
    app.browser_at("203.0.113.8").ask("/users/log-in", "no address").await;
    let rows = async || {
        // In a network's row burst and hourly, in an inbox's one log.
        let rows = "SELECT COUNT(*), sum(cardinality(first))::bigint, sum(cardinality(second))::bigint
                    FROM throttle_hits";
        sqlx::query_as::<_, (i64, i64, i64)>(rows).fetch_one(&app.database).await.unwrap()
    };
    assert_eq!(rows().await, (2 + 5, 6 + 5, 6));
    for n in 0..20 {
        let refused = app.browser_at("203.0.113.7").ask("/users/log-in", &format!("b{n}@example.org")).await;
        assert_eq!(refused.status, 429);
    }
    assert_eq!(rows().await, (2 + 5, 6 + 5, 6), "the same rows with the same hits");
    app.work().await;
}

#[tokio::test]
async fn what_counts_no_more_is_removed() {
    let app = TestApp::start().await;
    // The first hit makes the table.
    app.browser_at("203.0.113.7").ask("/users/log-in", "ada@example.org").await;
    let many = "INSERT INTO throttle_hits (key, at) SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), now()
                FROM generate_series(1, 4500) AS n";
    sqlx::query(many).execute(&app.database).await.unwrap();
    let sweep = async || app.app.throttle.sweep().await.unwrap_or_default();
    for (seconds, removed) in [(0, 0), (3590, 0), (11, 4502), (0, 0)] {
        app.advance(seconds);
        assert_eq!(sweep().await, removed, "after {seconds} s more");
    }
    app.work().await;
}

#[tokio::test]
async fn fault_21_the_databases_clock_an_hour_back_locks_nobody_out_for_longer_than_a_window() {
    let app = TestApp::start().await;
    for _ in 0..3 {
        app.browser_at("203.0.113.7").ask("/users/log-in", "ada@example.org").await;
    }
    // As if all of that had been written down by a clock that was an hour ahead.
    let ahead = "UPDATE throttle_hits SET at = at + interval '1 hour',
                     first = ARRAY(SELECT hit + interval '1 hour' FROM unnest(first) AS hit),
                     second = ARRAY(SELECT hit + interval '1 hour' FROM unnest(second) AS hit)";
    sqlx::query(ahead).execute(&app.database).await.unwrap();
    let ask = async || app.browser_at("203.0.113.7").ask("/users/log-in", "ada@example.org").await.status;
    assert_eq!(ask().await, 429, "the inbox is full");
    app.app.throttle.sweep().await.unwrap_or_default();
    app.advance(899);
    assert_eq!(ask().await, 429);
    app.advance(2);
    assert_eq!(ask().await, 302);
    app.work().await;
}

#[tokio::test]
async fn keys_are_stored_as_digests_of_sixteen_bytes() {
    let app = TestApp::with().setting("THROTTLE_KEY_SECRET", "0123456789abcdef0123456789abcdef").run().await;
    app.browser_at("203.0.113.7").ask("/users/log-in", "ada@example.org").await;
    let keys = "SELECT encode(key, 'hex') FROM throttle_hits";
    let keys: Vec<(String,)> = sqlx::query_as(keys).fetch_all(&app.database).await.unwrap();
    assert!(keys.len() == 2 && keys.iter().all(|(key,)| key.len() == 32), "{keys:?}");
    let plain = Keys::new(None).network(Network::of([203, 0, 113, 7].into(), 64));
    assert!(keys.iter().all(|(key,)| !key.starts_with(&plain.to_string())), "keyed with the secret");
    app.work().await;
}

/// Every decision is written down by the database itself, at the instant by which it was made.
const AUDIT: &str = "
    CREATE TABLE audit (key BYTEA, at TIMESTAMPTZ);
    CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO audit VALUES (NEW.key, NEW.at); RETURN NULL; END $$;
    CREATE TRIGGER audit AFTER INSERT OR UPDATE ON throttle_hits
        FOR EACH ROW WHEN (NEW.first[cardinality(NEW.first)] = NEW.at) EXECUTE FUNCTION audit()";

#[tokio::test]
async fn no_instant_exists_at_which_a_window_holds_more_than_its_limit() {
    const WINDOW: Duration = Duration::from_millis(50);
    let app = TestApp::start().await;
    app.browser().ask("/users/log-in", "ada@example.org").await;
    app.work().await;
    crate::support::database::execute(&app.database_url, AUDIT.to_owned());
    let hits: Vec<_> = (1..=3).map(|host| hit(host, WINDOW)).collect();
    let mut hammering = JoinSet::new();
    for _ in 0..4 {
        let counters = PostgresCounters::new(&app.database_url, WINDOW).unwrap();
        let hits = hits.clone();
        hammering.spawn(async move {
            let (mut allowed, mut refused) = (0, 0);
            for n in 0..1500 {
                match counters.settle(&hits[n % 3..][..1]).await.unwrap_or_default()[..] {
                    [Verdict::Allow { .. }] => allowed += 1,
                    _ => refused += 1,
                }
            }
            (allowed, refused)
        });
    }
    let tries = hammering.join_all().await;
    let (allowed, refused) = tries.iter().fold((0, 0), |(a, r), (allowed, refused)| (a + allowed, r + refused));
    let audit = "SELECT encode(key, 'hex'), (extract(epoch FROM at) * 1000000)::bigint FROM audit ORDER BY at";
    let audit: Vec<(String, i64)> = sqlx::query_as(audit).fetch_all(&app.database).await.unwrap();
    assert_eq!(audit.len(), allowed, "every allowed hit, and no other");
    assert!(allowed > 30 && refused > 1000, "{allowed} allowed, {refused} refused");
    let mut instants: HashMap<String, Vec<i64>> = HashMap::new();
    audit.into_iter().for_each(|(key, at)| instants.entry(key).or_default().push(at));
    let closest = instants.values().flat_map(|at| at.windows(6).map(|six| six[5] - six[0])).min().unwrap();
    assert!(closest >= WINDOW.as_micros() as i64, "a sixth hit after {closest} µs");
}

fn hit(host: u8, window: Duration) -> Hit {
    let key = Keys::new(None).network(Network::of([192, 0, 2, host].into(), 64));
    Hit { counter: Counter::IpBurst, key, window, limit: 5 }
}

#[tokio::test]
async fn a_flood_on_one_key_costs_the_database_nothing_after_the_first_refusal() {
    const REFUSED: usize = 100_000;
    let postgres = Postgres::with(&["fsync=off", "shared_preload_libraries=pg_stat_statements"]).await;
    postgres.execute("CREATE EXTENSION pg_stat_statements");
    let app = TestApp::with().on(&postgres.url()).run().await;
    for n in 0..6 {
        app.browser_at("203.0.113.7").ask("/users/log-in", &format!("a{n}@example.org")).await;
    }
    app.work().await;
    postgres.execute("SELECT pg_stat_statements_reset()");
    let body = "email=b%40example.org";
    let request = format!(
        "POST /users/log-in HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.7\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(flood(&app, &request, REFUSED).await, REFUSED);
    let ours = "SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_statements
                WHERE query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE 'SET %'";
    assert_eq!(postgres.number(ours).await, 0, "statements of any kind");
}

/// Sends a request as often, over one connection; how many were refused.
async fn flood(app: &TestApp, request: &str, times: usize) -> usize {
    const TOGETHER: usize = 200;
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let write = async {
        for _ in 0..times / TOGETHER {
            writing.write_all(request.repeat(TOGETHER).as_bytes()).await.unwrap();
        }
    };
    let read = async {
        let (mut refused, mut bytes, mut rest) = (0, vec![0; 1 << 16], Vec::new());
        while refused < times {
            let got = reading.read(&mut bytes).await.unwrap();
            assert_ne!(got, 0, "closed after {refused}");
            rest.extend_from_slice(&bytes[..got]);
            const SIGN: &[u8] = b"HTTP/1.1 429";
            while let Some(at) = rest.windows(SIGN.len()).position(|window| window == SIGN) {
                rest.drain(..at + SIGN.len());
                refused += 1;
            }
            rest.drain(..rest.len().saturating_sub(SIGN.len()));
        }
        refused
    };
    tokio::join!(write, read).1
}
