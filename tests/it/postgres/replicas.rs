//! One outbox, one daily limit and one set of sessions between replicas.

use std::collections::HashSet;

use doorpost::worker::{Outcome, Postman};
use tokio::task::JoinSet;

use crate::support::smtp::{Security, SmtpServer};
use crate::support::{TestApp, path_of};

#[tokio::test]
async fn attack_11_fifty_uses_of_one_link_through_three_replicas_are_one_session() {
    for round in 0..5 {
        let app = TestApp::with().setting("THROTTLE_ANONYMOUS_LIMIT", "off").run().await;
        let replicas = [app.replica().await, app.replica().await];
        app.browser().ask("/users/register", "ada@example.org").await;
        let link = app.link().await;
        let mut using = JoinSet::new();
        for n in 0..50 {
            let (mut browser, link) = ([&app, &replicas[0], &replicas[1]][n % 3].browser(), link.clone());
            using.spawn(async move { browser.post(&link, "").await.status });
        }
        let answers = using.join_all().await;
        assert_eq!(answers.iter().filter(|status| **status == 302).count(), 1, "round {round}: {answers:?}");
        assert_eq!(answers.iter().filter(|status| **status == 410).count(), 49, "round {round}: {answers:?}");
        assert_eq!((app.rows("sessions").await, app.rows("users").await), (1, 1));
    }
}

#[tokio::test]
async fn siblings_used_at_once_on_two_replicas_are_one_session() {
    for round in 0..10 {
        let app = TestApp::start().await;
        let replica = app.replica().await;
        for _ in 0..3 {
            app.browser().ask("/users/register", "ada@example.org").await;
        }
        let links: Vec<_> = app.deliver().await.iter().map(path_of).collect();
        let mut using = JoinSet::new();
        for (n, link) in links.into_iter().enumerate() {
            let mut browser = [&app, &replica][n % 2].browser();
            using.spawn(async move { browser.post(&link, "").await.status });
        }
        let mut answers = using.join_all().await;
        answers.sort_unstable();
        assert_eq!(answers, [302, 410, 410], "round {round}");
    }
}

#[tokio::test]
async fn attack_34_a_session_ended_on_one_replica_is_refused_by_the_other_within_five_seconds() {
    let app = TestApp::start().await;
    let replica = app.replica().await;
    let ada = app.account("ada@example.org").await;
    let mut elsewhere = replica.browser();
    elsewhere.cookies = ada.cookies.clone();
    assert_eq!(elsewhere.get("/users/settings").await.status, 200);
    let mut here = app.browser();
    here.cookies = ada.cookies.clone();
    here.post("/users/log-out", "").await;
    app.clock.advance(std::time::Duration::from_secs(5));
    elsewhere.get("/users/settings").await.assert_found("/users/log-in?return_to=%2Fusers%2Fsettings");
}

/// Two replicas with four workers each, until nothing is due any more.
async fn work_together(apps: [&TestApp; 2]) -> [usize; 2] {
    let mut sent = [0; 2];
    let mut workers = JoinSet::new();
    for (which, app) in [0, 1].into_iter().flat_map(|which| (0..4).map(move |_| (which, apps[which].app.clone()))) {
        workers.spawn(async move {
            let (mut postman, mut sent) = (Postman::default(), 0);
            loop {
                let outcomes = postman.deliver(&app, || false).await.unwrap();
                sent += outcomes.iter().filter(|outcome| **outcome == Outcome::Sent).count();
                if outcomes.is_empty() {
                    postman.close().await;
                    return (which, sent);
                }
            }
        });
    }
    for (which, mails) in workers.join_all().await {
        sent[which] += mails;
    }
    sent
}

/// Requests for so many mails, as they lie in the queue.
async fn queue(app: &TestApp, mails: usize) {
    sqlx::query(
        "INSERT INTO outbox (id, purpose, email, browser, inbox, agent, asked_at, deadline_at, due_at, tries)
         SELECT lpad(n::text, 36, '0'), 'register', 'a' || n || '@example.org', '', '', 'a browser', $1, $2, $1, 0
         FROM generate_series(1, $3) AS n",
    )
    .bind(app.clock.now())
    .bind(app.clock.now() + 900_000)
    .bind(mails as i64)
    .execute(&app.database)
    .await
    .unwrap();
}

#[tokio::test]
async fn fault_19_two_replicas_send_each_of_ten_thousand_mails_once_and_both_are_busy() {
    let smtp = SmtpServer::start(Security::Plain).await;
    smtp.pipeline();
    let app = TestApp::with().setting("SMTP_URL", &smtp.url("?tls=none")).run().await;
    let replica = app.replica().await;
    queue(&app, 10_000).await;
    let sent = work_together([&app, &replica]).await;
    assert_eq!(sent.iter().sum::<usize>(), 10_000);
    assert!(sent.iter().all(|mails| *mails > 2000), "both are busy: {sent:?}");
    let accepted = smtp.accepted();
    let people: HashSet<_> = accepted.iter().map(|mail| mail.to.concat()).collect();
    assert_eq!((accepted.len(), people.len(), app.rows("outbox").await), (10_000, 10_000, 0));
}

#[tokio::test]
async fn fault_25_the_daily_limit_is_one_for_both() {
    let smtp = SmtpServer::start(Security::Plain).await;
    let settings = [("MAIL_DAILY_LIMIT", "100"), ("MAIL_DAILY_RESERVE_PERCENT", "0")];
    let start = settings.iter().fold(TestApp::with(), |start, (name, value)| start.setting(name, value));
    let app = start.setting("SMTP_URL", &smtp.url("?tls=none")).run().await;
    let replica = app.replica().await;
    queue(&app, 300).await;
    let sent = work_together([&app, &replica]).await;
    assert_eq!((sent.iter().sum::<usize>(), smtp.accepted().len()), (100, 100), "{sent:?}");
    app.clock.advance(std::time::Duration::from_secs(2));
    assert_eq!(work_together([&app, &replica]).await, [0, 0]);
    sqlx::query("DELETE FROM outbox").execute(&app.database).await.unwrap();
}

#[tokio::test]
async fn the_schema_is_brought_up_to_date_once_however_many_start_together() {
    let app = TestApp::start().await;
    let url = crate::support::database::schema_in(app.database_url.split('?').next().unwrap());
    let mut starting = JoinSet::new();
    for _ in 0..6 {
        let url = url.clone();
        starting.spawn(async move { doorpost::store::Store::open(&url).await.map(drop) });
    }
    for opened in starting.join_all().await {
        opened.unwrap();
    }
}
