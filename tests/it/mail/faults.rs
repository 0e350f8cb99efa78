//! A mail server that fails, and the one outcome each of its failures has.

use std::time::Duration;

use doorpost::store::marks::Fate;
use doorpost::worker::Outcome;
use tokio::task::JoinSet;

use super::{ask, header, mail_for, start, start_with};
use crate::support::TestApp;
use crate::support::smtp::Act::{Drop, Say, Silence};
use crate::support::smtp::SmtpServer;

/// One command after the other, and several at once.
const WAYS: [bool; 2] = [false, true];

/// An app with one mail in its queue.
async fn one_waiting() -> (TestApp, SmtpServer) {
    one_waiting_by(false).await
}

async fn one_waiting_by(pipelining: bool) -> (TestApp, SmtpServer) {
    let (app, smtp) = start().await;
    if pipelining {
        smtp.pipeline();
    }
    ask(&app, "/users/register", "ada@example.org").await;
    (app, smtp)
}

async fn assert_failed_once_and_the_next_one_leaves(app: &TestApp, smtp: &SmtpServer) {
    assert_eq!(app.work().await, [Outcome::Failed]);
    assert_eq!((app.rows("outbox").await, smtp.accepted().len()), (0, 0));
    assert_eq!(app.metric(r#"doorpost_mails_total{outcome="failed"}"#).as_deref(), Some("1"));
    assert_eq!(mail_for(app, smtp, "/users/register", "bob@example.org").await.to, ["bob@example.org"]);
}

#[tokio::test]
async fn a_refused_recipient_fails_once() {
    for way in WAYS {
        let (app, smtp) = one_waiting_by(way).await;
        smtp.next("RCPT", Say("550 no such user"));
        assert_failed_once_and_the_next_one_leaves(&app, &smtp).await;
    }
}

#[tokio::test]
async fn a_refused_message_fails_once() {
    for way in WAYS {
        let (app, smtp) = one_waiting_by(way).await;
        smtp.next("END", Say("554 looks like spam"));
        assert_failed_once_and_the_next_one_leaves(&app, &smtp).await;
    }
}

#[tokio::test]
async fn greylisting_is_waited_out_on_the_schedule() {
    let (app, smtp) = one_waiting().await;
    let pauses = [2, 8, 20, 55, 150, 150];
    for _ in pauses {
        smtp.next("RCPT", Say("450 come back later"));
    }
    assert_eq!(app.work().await, [Outcome::Later]);
    for (tries, pause) in pauses.into_iter().enumerate() {
        app.advance(pause - 1);
        assert_eq!(app.work().await, [], "not before {pause} seconds");
        app.advance(1);
        let last = tries == pauses.len() - 1;
        assert_eq!(app.work().await, [if last { Outcome::Sent } else { Outcome::Later }]);
    }
    app.browser().post(&smtp.only().link(), "").await.assert_found("/users/settings");
}

#[tokio::test]
async fn whatever_may_pass_is_tried_again_and_exactly_one_mail_arrives() {
    let faults = [
        ("GREETING", Say("421 too busy")),
        ("GREETING", Drop),
        ("EHLO", Drop),
        ("MAIL", Say("451 not now")),
        ("RCPT", Drop),
        ("DATA", Say("451 not now")),
        ("DATA", Drop),
        ("DATA", Say("250 ok")),
        // Taken for the replies to what follows, these would make a refused mail one that left.
        ("MAIL", Say("250 ok\r\n250 ok\r\n250 ok")),
        ("END", Say("452 disk full")),
    ];
    for ((place, act), way) in faults.into_iter().flat_map(|fault| WAYS.map(|way| (fault, way))) {
        let (app, smtp) = one_waiting_by(way).await;
        smtp.next(place, act);
        assert_eq!(app.work().await, [Outcome::Later], "{place} {act:?}");
        app.advance(2);
        assert_eq!(app.work().await, [Outcome::Sent], "{place} {act:?}");
        smtp.only();
        assert_eq!(app.rows("outbox").await, 0);
    }
}

#[tokio::test]
async fn silence_costs_a_mail_its_time_out_and_no_more() {
    let mut apps = JoinSet::new();
    let places = ["GREETING", "EHLO", "MAIL", "RCPT", "DATA", "INSIDE", "END"];
    for (place, way) in places.into_iter().flat_map(|place| WAYS.map(|way| (place, way))) {
        apps.spawn(async move {
            let (app, smtp) = start_with(&[("MAIL_TIMEOUT_SECONDS", "1")]).await;
            if way {
                smtp.pipeline();
            }
            ask(&app, "/users/register", "ada@example.org").await;
            smtp.next(place, Silence);
            let tried = tokio::time::timeout(Duration::from_secs(5), app.work()).await;
            let outcome = if ["INSIDE", "END"].contains(&place) { Outcome::Unsure } else { Outcome::Later };
            assert_eq!(tried.expect("a time-out"), [outcome], "{place}");
            app.advance(2);
            assert_eq!(app.work().await, [Outcome::Sent], "{place}");
        });
    }
    apps.join_all().await;
}

#[tokio::test]
async fn a_copy_after_a_lost_acceptance_has_the_same_id_and_either_link_works_once() {
    let (app, smtp) = one_waiting().await;
    smtp.next("END", Drop);
    assert_eq!(app.work().await, [Outcome::Unsure]);
    app.advance(2);
    assert_eq!(app.work().await, [Outcome::Sent]);
    let [first, second] = <[_; 2]>::try_from(smtp.accepted()).unwrap();
    assert_eq!(header(&first, "Message-ID"), header(&second, "Message-ID"));
    // A mailbox that drops the second copy shows the first, so its link must work; and only one of them.
    app.browser().post(&first.link(), "").await.assert_found("/users/settings");
    assert_eq!(app.browser().post(&second.link(), "").await.status, 410);
}

#[tokio::test]
async fn the_code_of_either_copy_works_and_both_share_their_tries() {
    for (copy, wrong, status) in [(0, 4, 302), (1, 4, 302), (0, 5, 422), (1, 5, 422)] {
        let (app, smtp) = start_with(&[("THROTTLE_CODE_LIMIT", "100")]).await;
        let mut ada = app.browser();
        ada.ask("/users/register", "ada@example.org").await;
        smtp.next("END", Drop);
        app.work().await;
        app.advance(2);
        app.work().await;
        for _ in 0..wrong {
            assert_eq!(ada.post("/users/log-in/code", "code=UUU-UU0").await.status, 422, "no code at all");
            assert_eq!(ada.post("/users/log-in/code", "code=000-000").await.status, 422);
        }
        let form = format!("code={}", smtp.accepted()[copy].code());
        assert_eq!(ada.post("/users/log-in/code", &form).await.status, status, "copy {copy} after {wrong} wrong ones");
    }
}

#[tokio::test]
async fn a_mail_is_given_up_when_its_link_would_be_too_old() {
    let (app, smtp) = one_waiting().await;
    let mut tries = 0;
    loop {
        smtp.next("MAIL", Say("451 not now"));
        match app.work().await[..] {
            [Outcome::Later] => tries += 1,
            [Outcome::Expired] => break,
            ref other => assert_eq!(other, []),
        }
        app.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(tries, 10);
    assert_eq!((app.rows("outbox").await, smtp.accepted().len()), (0, 0));
    assert_eq!(app.metric(r#"doorpost_mails_total{outcome="expired"}"#).as_deref(), Some("1"));
}

#[tokio::test]
async fn what_has_left_is_not_given_back_when_the_rest_is() {
    let (app, _smtp) = one_waiting().await;
    ask(&app, "/users/register", "bob@example.org").await;
    let (store, lease) = (&app.app.store, Duration::from_secs(60));
    let mails = store.claim(app.clock.now(), lease, 9).await.unwrap().mails;
    assert_eq!(store.give_back_all_but(vec![mails[0].id.clone()]).await.unwrap(), 1);
    let due = store.claim(app.clock.now(), lease, 9).await.unwrap().mails;
    assert_eq!(due.iter().map(|mail| &mail.id).collect::<Vec<_>>(), [&mails[1].id]);
    assert_eq!(store.mark(&[&mails[0]], Fate::Over, false).await.unwrap(), std::slice::from_ref(&mails[0].id));
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_marks_nothing() {
    let (app, _smtp) = one_waiting().await;
    let store = &app.app.store;
    let lease = Duration::from_secs(60);
    let stopped = store.claim(app.clock.now(), lease, 9).await.unwrap().mails.remove(0);
    assert!(store.claim(app.clock.now(), lease, 9).await.unwrap().mails.is_empty(), "it is in hand");
    app.advance(60);
    let other = store.claim(app.clock.now(), lease, 9).await.unwrap().mails.remove(0);
    assert_eq!(stopped.id, other.id);
    let hold = Fate::Hold { held_at: 0, due_at: 0 };
    for fate in [Fate::Over, Fate::Retry(0), hold, Fate::GiveBack, Fate::SetAside(0)] {
        assert!(store.mark(&[&stopped], fate, false).await.unwrap().is_empty(), "{fate:?}");
    }
    assert_eq!(store.mark(&[&other], Fate::Over, false).await.unwrap(), std::slice::from_ref(&other.id));
}

#[tokio::test]
async fn a_server_that_never_says_good_bye_has_the_mail_all_the_same() {
    for act in [Silence, Drop, Say("421 closing")] {
        let (app, smtp) = start_with(&[("MAIL_TIMEOUT_SECONDS", "1")]).await;
        ask(&app, "/users/register", "ada@example.org").await;
        smtp.next("QUIT", act);
        assert_eq!(app.work().await, [Outcome::Sent], "{act:?}");
        app.hang_up().await;
        smtp.only();
    }
}

#[tokio::test]
async fn no_copy_follows_once_its_link_was_used() {
    let (app, smtp) = one_waiting().await;
    smtp.next("END", Drop);
    assert_eq!(app.work().await, [Outcome::Unsure]);
    app.browser().post(&smtp.only().link(), "").await.assert_found("/users/settings");
    app.advance(2);
    assert_eq!(app.work().await, [Outcome::Dropped]);
    smtp.only();
}
