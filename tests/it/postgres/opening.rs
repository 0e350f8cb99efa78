//! What the operator reads when the database can't be used: a sentence that says what to change.

use std::fs;

use sqlx::Connection;

use crate::support::postgres::Postgres;
use crate::support::process::{Place, free_address};
use crate::support::until;

/// Starts on `url`, and wants it to end with a sentence that holds each of the words.
#[track_caller]
fn assert_told(url: &str, words: &[&str]) {
    let place = Place::new().setting("DATABASE_URL", url).setting("ADMIN_BIND", "off");
    let run = place.setting("BIND", &free_address().to_string()).run(&[]);
    let said = run.err.lines().nth(1).unwrap_or_default();
    assert_eq!((run.code, run.err.lines().count()), (Some(1), 2), "{url}: {}", run.err);
    assert!(words.iter().all(|word| said.contains(word)), "{url}: {}", run.err);
    assert!(!run.err.contains("s3cret"), "{}", run.err);
}

#[tokio::test]
async fn each_mistake_is_a_sentence_at_the_start() {
    let postgres = Postgres::start().await;
    let url = postgres.url();
    for statement in [
        "CREATE DATABASE stale",
        "ALTER DATABASE stale SET default_transaction_read_only = on",
        "CREATE ROLE guest LOGIN PASSWORD 's3cret'",
    ] {
        postgres.execute(statement);
    }
    let with = |user: &str, database: &str| {
        let host = url.split(['@', '/']).nth(3).unwrap();
        format!("postgres://{user}@{host}/{database}")
    };
    assert_told(&with("doorpost:s3cret", "doorpost"), &["password authentication failed", "check user and password"]);
    assert_told(&with("doorpost:doorpost", "nothing"), &["\"nothing\" does not exist", "create it"]);
    assert_told(&with("doorpost:doorpost", "stale"), &["read-only", "name one that can be written to"]);
    assert_told(&with("guest:s3cret", "doorpost"), &["permission denied", "must own the database"]);
    let nobody = format!("postgres://doorpost:s3cret@{}/doorpost", free_address());
    assert_told(&nobody, &["can't be reached", "check host and port"]);
    let tls = format!("{url}?sslmode=require");
    assert_told(&tls, &["TLS"]);
    // From now on it wants TLS.
    fs::write(postgres.data().join("pg_hba.conf"), "hostssl all all all scram-sha-256\n").unwrap();
    postgres.execute("SELECT pg_reload_conf()");
    let plain = format!("{url}?sslmode=disable");
    until("it wants TLS", 10, async || sqlx::PgConnection::connect(&plain).await.is_err()).await;
    assert_told(&plain, &["no encryption", "add ?sslmode=require"]);
}

#[tokio::test]
async fn a_standby_is_no_place_to_write_to() {
    let mut postgres = Postgres::start().await;
    postgres.crash().await;
    // Without a primary it waits for one, and answers who only reads.
    fs::write(postgres.data().join("standby.signal"), "").unwrap();
    postgres.start_again().await;
    assert_told(&postgres.url(), &["standby", "name the primary"]);
}

#[tokio::test]
async fn a_url_that_names_nothing_is_a_mistake_of_the_settings() {
    for (url, word) in [
        ("postgres://", "no host"),
        ("postgres://localhost", "no database"),
        ("postgres://localhost/", "no database"),
        ("postgres://local host/doorpost", "is not like postgres://"),
    ] {
        let run = Place::new().setting("DATABASE_URL", url).run(&[]);
        assert_eq!(run.code, Some(2), "{url}: {}", run.err);
        assert!(run.err.contains("DATABASE_URL: ") && run.err.contains(word), "{url}: {}", run.err);
    }
    let run = Place::new().setting("DATABASE_URL", "sqlite:data/x.db").setting("THROTTLE_STORE", "postgres").run(&[]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("THROTTLE_STORE: postgres needs a DATABASE_URL that begins with postgres://"));
}
