//! The counters that replicas share beside a plain upsert, and requests on one and two replicas beside SQLite.

mod cluster;

use crate::load::Load;
use crate::median;
use crate::server::Server;
use cluster::Cluster;
use doorpost::throttle::postgres::statement::settling;

/// Turns of each.
const TURNS: usize = 5;
/// Every request from another network, for another address.
const MANY: &str = "benches/many.lua";
const ACCEPTED: Load = Load { script: Some(MANY), status: 302, seconds: 4 };
const REFUSED: Load = Load { script: Some(crate::load::ONE), status: 429, seconds: 2 };

pub fn measure() {
    counters();
    println!();
    requests();
}

/// A counter as most have it: fixed windows, which let twice the limit through, by one upsert of one row.
const CONTROL: &str = "
INSERT INTO control AS was (key, began, hits)
VALUES ({network}, (date_part('epoch', clock_timestamp()) / 60)::bigint, 1)
ON CONFLICT (key) DO UPDATE
SET hits = CASE WHEN was.began = EXCLUDED.began THEN was.hits + 1 ELSE 1 END, began = EXCLUDED.began
RETURNING hits";
const CONTROL_TABLE: &str = "CREATE UNLOGGED TABLE control (key BYTEA PRIMARY KEY, began BIGINT NOT NULL, hits BIGINT
    NOT NULL) WITH (fillfactor = 70)";
/// Who hits: of ten thousand networks and as many inboxes, any.
const WHO: &str = "\\set network random(1, 10000)\n\\set inbox random(10001, 20000)\n";

fn counters() {
    let cluster = Cluster::start();
    // Makes the counters' table.
    let server = Server::doorpost(&[("DATABASE_URL", &cluster.url())]);
    server.ask(&crate::client::post("person1000000@school.example", crate::server::NETWORK));
    drop(server);
    cluster.execute(CONTROL_TABLE);
    // Windows so short that every hit is allowed, and logs as long as the usual limits.
    let key = |who: &str| format!("decode(lpad(to_hex(:{who}::bigint), 32, '0'), 'hex')");
    let (network, inbox) = (key("network"), key("inbox"));
    let window = "'1 millisecond'";
    let values = [&network, window, "5", window, "20", &inbox, window, "3"];
    let mut settling = settling([2, 1].into_iter());
    for (at, value) in values.iter().enumerate().rev() {
        settling = settling.replace(&format!("${}", at + 1), value);
    }
    let control = CONTROL.replace("{network}", &network);
    let mut rates = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        rates.0.push(cluster.rate(&format!("{WHO}{}", one_line(&settling))));
        rates.1.push(cluster.rate(&format!("{WHO}{}", one_line(&control))));
    }
    let (ours, control) = (median(rates.0), median(rates.1));
    println!("{:<34}{:>10}{:>10}{:>8}  wanted", "PostgreSQL, 8 clients", "doorpost", "upsert", "ratio");
    println!(
        "{:<34}{ours:>10.0}{control:>10.0}{:>8.2}  0.45 or more",
        "three counters in one, a second",
        ours / control
    );
    cluster.execute("TRUNCATE throttle_hits");
    cluster.execute(
        "INSERT INTO throttle_hits (key, at, first) SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), now(),
         ARRAY[now(), now(), now()] FROM generate_series(1, 100000) AS n",
    );
    let bytes = cluster.number("SELECT pg_total_relation_size('throttle_hits') / 100000");
    println!("{:<34}{bytes:>10}", "bytes a key with three hits");
}

fn one_line(statement: &str) -> String {
    statement.split_whitespace().collect::<Vec<_>>().join(" ") + ";\n"
}

fn requests() {
    println!("{:<34}{:>10}{:>10}{:>10}", "POST /users/log-in, a second", "SQLite", "1 replica", "2 replicas");
    for (name, load, before) in [("accepted, durable", ACCEPTED, 0), ("refused", REFUSED, 6)] {
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..3 {
            for (replicas, rates) in rates.iter_mut().enumerate() {
                rates.push(rate(replicas, &load, before));
            }
        }
        let [sqlite, one, two] = rates.map(median);
        println!("{name:<34}{sqlite:>10.0}{one:>10.0}{two:>10.0}");
    }
}

/// Of so many replicas on PostgreSQL together, or with none of one process on SQLite.
fn rate(replicas: usize, load: &Load, before: usize) -> f64 {
    let cluster = (replicas > 0).then(Cluster::start);
    let url = cluster.as_ref().map(Cluster::url);
    let settings: Vec<_> = url.iter().map(|url| ("DATABASE_URL", url.as_str())).collect();
    let servers: Vec<_> = (0..replicas.max(1)).map(|_| Server::doorpost(&settings)).collect();
    for server in &servers {
        for _ in 0..before {
            server.ask(&crate::client::post("somebody@school.example", crate::server::NETWORK));
        }
    }
    std::thread::scope(|scope| {
        let loads: Vec<_> = servers.iter().map(|server| scope.spawn(|| load.run(server).rate)).collect();
        loads.into_iter().map(|load| load.join().expect("the load ends well")).sum()
    })
}
