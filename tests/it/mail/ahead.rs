//! A server that takes several commands at once is told of the next mail with the end of the one before.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use doorpost::worker::{Outcome, Postman};

use super::{ask, start};
use crate::support::TestApp;
use crate::support::smtp::Act::{self, Drop, Say};
use crate::support::smtp::SmtpServer;

/// An app with seven mails in its queue, which leave in batches of one, two and four.
async fn seven_waiting() -> (TestApp, SmtpServer) {
    let (app, smtp) = start().await;
    smtp.pipeline();
    for student in 0..7 {
        ask(&app, "/users/register", &format!("student{student}@example.org")).await;
    }
    (app, smtp)
}

/// Whatever a server does after it has been told to expect the sixth mail, the third of four.
#[tokio::test]
async fn whatever_meets_a_mail_that_was_begun_ahead_each_arrives_once() {
    let faults: [(&str, &str, Act, usize); 9] = [
        ("MAIL", "250 ok", Drop, 0),
        ("MAIL", "250 ok", Say("421 too many mails"), 0),
        ("MAIL", "250 ok", Say("250 ok\r\n250 ok\r\n250 ok"), 1),
        ("RCPT", "250 ok", Drop, 1),
        ("RCPT", "250 ok", Say("450 come back later"), 1),
        ("DATA", "354 go on", Drop, 1),
        ("DATA", "354 go on", Say("451 not now"), 1),
        ("END", "250 queued", Say("452 disk full"), 1),
        ("END", "250 queued", Say("250 queued\r\n250 ok"), 1),
    ];
    for (place, usual, act, put_off) in faults {
        let (app, smtp) = seven_waiting().await;
        for _ in 0..5 {
            smtp.next(place, Say(usual));
        }
        smtp.next(place, act);
        let mut later = 0;
        while app.rows("outbox").await > 0 {
            later += app.work().await.iter().filter(|outcome| **outcome == Outcome::Later).count();
            app.advance(2);
        }
        assert_eq!(later, put_off, "{place} {act:?}");
        let to: Vec<_> = smtp.accepted().iter().flat_map(|mail| mail.to.clone()).collect();
        assert_eq!((to.len(), to.iter().collect::<BTreeSet<_>>().len()), (7, 7), "{place} {act:?}: {to:?}");
    }
}

#[tokio::test]
async fn a_mail_refused_for_good_takes_none_with_it_that_was_begun_ahead() {
    for place in ["RCPT", "END"] {
        let (app, smtp) = seven_waiting().await;
        for _ in 0..5 {
            smtp.next(place, Say(if place == "END" { "250 queued" } else { "250 ok" }));
        }
        smtp.next(place, Say("550 5.1.1 no such user"));
        let outcomes = app.work().await;
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Failed).count(), 1, "{place}");
        let to: BTreeSet<_> = smtp.accepted().iter().flat_map(|mail| mail.to.clone()).collect();
        assert_eq!((to.len(), app.rows("outbox").await), (6, 0), "{place}");
    }
}

/// It would take a farewell for the mail's first line.
#[tokio::test]
async fn a_mail_that_was_begun_and_is_given_back_leaves_whole_on_another_connection() {
    let (app, smtp) = seven_waiting().await;
    let mut postman = Postman::default();
    let looks = AtomicUsize::new(0);
    // After three mails and the first of the next four.
    let stopping = || looks.fetch_add(1, Ordering::Relaxed) >= 4;
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        outcomes.extend(postman.deliver(&app.app, stopping).await.unwrap());
    }
    postman.close().await;
    assert_eq!(outcomes, [[Outcome::Sent; 4].as_slice(), &[Outcome::GivenBack; 3]].concat());
    assert_eq!(smtp.accepted().len(), 4);
    assert_eq!(app.work().await, [Outcome::Sent; 3]);
    let mails = smtp.accepted();
    let to: BTreeSet<_> = mails.iter().flat_map(|mail| mail.to.clone()).collect();
    assert_eq!((mails.len(), to.len(), smtp.opened()), (7, 7, 2));
    assert!(mails.iter().all(|mail| !mail.raw.starts_with(b"QUIT")));
}
