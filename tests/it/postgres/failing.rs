//! The counters' database fails in every way it can, and people get in all the same: counted by this process,
//! logged and counted each time it was asked, and back by itself once it is well again.

use std::time::Duration;

use doorpost::throttle::postgres::PostgresCounters;
use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinSet;

use crate::support::TestApp;
use crate::support::postgres::Postgres;

/// An app whose counters, and nothing else of it, lie in a server of their own; and one request counted there.
async fn counted_apart(settings: &[&'static str]) -> (TestApp, Postgres) {
    let postgres = Postgres::with(settings).await;
    let counters = PostgresCounters::new(&postgres.url(), Duration::from_secs(3600)).unwrap();
    let app = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "2").counters(counters).run().await;
    ask(&app, "203.0.113.1", 302).await;
    assert_eq!((failures(&app), hits(&postgres).await), (0, 3));
    (app, postgres)
}

async fn ask(app: &TestApp, network: &str, status: u16) {
    let asking = async { app.browser_at(network).ask("/users/log-in", &format!("{network}@example.org")).await };
    let answer = tokio::time::timeout(Duration::from_secs(3), asking).await.expect("an answer soon");
    assert_eq!(answer.status, status, "{network}");
}

fn failures(app: &TestApp) -> u64 {
    let counted = app.metric("doorpost_throttle_store_failures_total{store=\"postgres\"}");
    counted.map_or(0, |count| count.parse().unwrap())
}

async fn hits(postgres: &Postgres) -> i64 {
    postgres
        .number("SELECT COALESCE(sum(cardinality(first) + cardinality(second)), 0)::bigint FROM throttle_hits")
        .await
}

/// While it fails: let in, held by this process's counters, and asked once a second only.
async fn assert_fails_open(app: &TestApp) {
    let before = failures(app);
    for status in [302, 302, 429] {
        ask(app, "203.0.113.2", status).await;
    }
    assert_eq!(failures(app), before + 1, "the fuse is open after the first");
    app.clock.advance(Duration::from_secs(2));
    ask(app, "203.0.113.3", 302).await;
    assert_eq!(failures(app), before + 2, "asked again, failed again, said again");
}

/// Once it is well again: counted there.
async fn assert_heals(app: &TestApp, postgres: &Postgres) {
    let (failed, counted) = (failures(app), hits(postgres).await);
    app.clock.advance(Duration::from_secs(2));
    ask(app, "203.0.113.4", 302).await;
    ask(app, "203.0.113.5", 302).await;
    assert_eq!((failures(app), hits(postgres).await), (failed, counted + 6));
    app.work().await;
}

#[tokio::test]
async fn fault_18_table_dropped() {
    let (app, postgres) = counted_apart(&[]).await;
    postgres.execute("DROP TABLE throttle_hits");
    ask(&app, "203.0.113.2", 302).await;
    assert_eq!(failures(&app), 1);
    // It is made again by whoever asks next.
    app.clock.advance(Duration::from_secs(2));
    ask(&app, "203.0.113.3", 302).await;
    assert_eq!((failures(&app), hits(&postgres).await), (1, 3));
    assert_heals(&app, &postgres).await;
}

#[tokio::test]
async fn fault_18_table_locked() {
    let (app, postgres) = counted_apart(&[]).await;
    let mut lock = PgConnection::connect(&postgres.url()).await.unwrap();
    lock.execute("BEGIN; LOCK TABLE throttle_hits").await.unwrap();
    assert_fails_open(&app).await;
    lock.execute("ROLLBACK").await.unwrap();
    assert_heals(&app, &postgres).await;
}

#[tokio::test]
async fn fault_18_server_stopped() {
    let (app, mut postgres) = counted_apart(&[]).await;
    postgres.crash().await;
    assert_fails_open(&app).await;
    postgres.start_again().await;
    // After a crash what isn't logged is empty: nobody is locked out by it.
    assert_heals(&app, &postgres).await;
}

#[tokio::test]
async fn fault_18_server_frozen() {
    let (app, postgres) = counted_apart(&[]).await;
    postgres.freeze();
    assert_fails_open(&app).await;
    postgres.thaw();
    assert_heals(&app, &postgres).await;
}

#[tokio::test]
async fn fault_18_no_connection_left() {
    let settings = ["max_connections=8", "superuser_reserved_connections=0", "max_wal_senders=0"];
    let (app, postgres) = counted_apart(&settings).await;
    // Others take what there is, and the counters' own is cut off.
    let mut others = Vec::new();
    while let Ok(connection) = PgConnection::connect(&postgres.url()).await {
        others.push(connection);
    }
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%throttle_hits%' AND pid <> pg_backend_pid()";
    others[0].execute(cut).await.unwrap();
    others.push(PgConnection::connect(&postgres.url()).await.unwrap());
    assert_fails_open(&app).await;
    drop(others);
    assert_heals(&app, &postgres).await;
}

#[tokio::test]
async fn fault_18_a_stampede_on_one_key_is_no_failure() {
    let (app, postgres) = counted_apart(&["fsync=off"]).await;
    let mut stampede = JoinSet::new();
    for n in 0..600 {
        let mut browser = app.browser_at("203.0.113.9");
        stampede.spawn(async move { browser.ask("/users/log-in", &format!("a{n}@example.org")).await.status });
    }
    let answers = stampede.join_all().await;
    assert_eq!(answers.iter().filter(|status| **status == 302).count(), 2, "the ceiling");
    assert_eq!((failures(&app), hits(&postgres).await), (0, 9));
    app.work().await;
}
