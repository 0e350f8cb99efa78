//! The server goes away and comes back while people ask.

use std::collections::HashSet;
use std::time::Duration;

use crate::support::load::Load;
use crate::support::postgres::Postgres;
use crate::support::process::Place;
use crate::support::smtp::{Security, SmtpServer};
use crate::support::{TestApp, until};

/// Two real servers on it, and a mail server.
async fn replicas(postgres: &Postgres) -> (Place, SmtpServer) {
    let smtp = SmtpServer::start(Security::Plain).await;
    let place = Place::new().setting("SMTP_URL", &smtp.url("?tls=none")).setting("MAIL_TIMEOUT_SECONDS", "2");
    (place.setting("DATABASE_URL", &postgres.url()), smtp)
}

#[tokio::test]
async fn fault_16_restarted_under_traffic() {
    let mut postgres = Postgres::start().await;
    let (place, smtp) = replicas(&postgres).await;
    let (first, second) = (place.start().await, place.start().await);
    let loads = [Load::through_gaps(first.address, 4), Load::through_gaps(second.address, 4)];
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        postgres.crash().await;
        let gap = first.browser().ask("/users/log-in", "ada@example.org").await;
        assert_eq!(gap.status, 503, "in the gap");
        postgres.start_again().await;
        until("it is back", 15, async || {
            first.browser().ask("/users/register", "back@example.org").await.status != 503
        })
        .await;
    }
    let mut promised = Vec::new();
    for load in loads {
        promised.extend(load.promised().await);
    }
    assert!(promised.len() > 20, "{}", promised.len());
    let arrived = async || {
        let people: HashSet<_> = smtp.accepted().iter().map(|mail| mail.to.concat()).collect();
        promised.iter().all(|email| people.contains(email))
    };
    until("everybody who was promised a mail has it", 60, arrived).await;
    // Copies, where the server went between the acceptance and the mark, are known by their id.
    let mails = smtp.accepted();
    let ids: HashSet<_> = mails.iter().map(|mail| (mail.to.concat(), mail.header("Message-ID"))).collect();
    let asked: HashSet<_> = ids.iter().map(|(to, _)| to.clone()).filter(|to| to != "back@example.org").collect();
    assert_eq!(ids.iter().filter(|(to, _)| to != "back@example.org").count(), asked.len(), "one id a request");
}

#[tokio::test]
async fn fault_17_dies_while_a_commit_is_in_flight() {
    let mut postgres = Postgres::start().await;
    let app = TestApp::with().on(&postgres.url()).setting("THROTTLE_ENABLED", "false").run().await;
    let replica = app.replica().await;
    for round in 0..5 {
        let email = format!("ada{round}@example.org");
        app.browser().ask("/users/register", &email).await.assert_found("/users/check-email");
        let link = app.link().await;
        let mut using = tokio::task::JoinSet::new();
        for n in 0..16 {
            let (mut browser, link) = ([&app, &replica][n % 2].browser(), link.clone());
            using.spawn(async move { browser.post(&link, "").await.status });
        }
        tokio::time::sleep(Duration::from_millis(2 * round)).await;
        postgres.crash().await;
        let first = using.join_all().await;
        postgres.start_again().await;
        // Asking again is safe.
        until("it is back", 15, async || app.browser().get(&link).await.status != 503).await;
        let again = app.browser().post(&link, "").await.status;
        let sign_ins = first.iter().chain([&again]).filter(|status| **status == 302).count();
        let sessions = "SELECT COUNT(*) FROM sessions JOIN users ON users.id = user_id WHERE email = $1";
        let sessions: (i64,) = loop {
            if let Ok(row) = sqlx::query_as(sessions).bind(&email).fetch_one(&app.database).await {
                break row;
            }
        };
        assert!(sign_ins <= 1 && sessions.0 == 1, "round {round}: {first:?}, {again}, {} sessions", sessions.0);
    }
}

#[tokio::test]
async fn a_frozen_server_is_answered_for_and_forgiven() {
    let postgres = Postgres::start().await;
    let (place, smtp) = replicas(&postgres).await;
    let doorpost = place.start().await;
    postgres.freeze();
    let link = "/users/log-in/aaaaaaaaaaaaaaaaaaaaaaaaaa";
    let mut known = doorpost.browser();
    known.cookies.insert("doorpost_session".into(), "a".repeat(52));
    let mut others = [doorpost.browser(), doorpost.browser(), doorpost.browser()];
    let [asks, looks, enters] = &mut others;
    let answers = tokio::time::timeout(Duration::from_secs(15), async {
        tokio::join!(
            asks.ask("/users/register", "ada@example.org"),
            looks.get(link),
            enters.post(link, ""),
            known.get("/users/settings"),
        )
    });
    let (asked, looked, entered, known) = answers.await.expect("an answer to each");
    assert_eq!([asked.status, looked.status, entered.status, known.status], [503; 4]);
    assert_eq!(doorpost.browser().get("/users/log-in").await.status, 200, "what needs no database is there");
    postgres.thaw();
    until("it is back", 15, async || doorpost.browser().ask("/users/register", "ada@example.org").await.status == 302)
        .await;
    until("the mail arrives", 15, async || !smtp.accepted().is_empty()).await;
}
