//! The counters through the front door, and the store under them.

use std::time::Duration;

use doorpost::throttle::{Answer, Counter, Hit, Keys, SharedCounters, log::Verdict, memory::Memory};
use tokio::task::JoinSet;

use crate::support::TestApp;

#[tokio::test]
async fn the_ceilings_are_shared_by_both_endpoints_and_settled_in_order() {
    let app = TestApp::start().await;
    let mut browser = app.browser();
    for (path, email) in
        [("/users/log-in", "a@x.example"), ("/users/register", "a@x.example"), ("/users/log-in", "a@x.example")]
    {
        browser.ask(path, email).await.assert_found("/users/check-email");
    }
    // The fourth is refused by the inbox and has spent the network's counters; so has junk.
    assert_eq!(
        browser.clone().json().ask("/users/register", "a@x.example").await.json()["error"]["details"]["scope"],
        "email"
    );
    assert_eq!(browser.ask("/users/log-in", "junk").await.status, 422);
    let refused = browser.clone().json().ask("/users/log-in", "b@x.example").await;
    let details = serde_json::json!({ "scope": "ip", "limit": 5, "window_seconds": 60, "retry_after_seconds": 60 });
    assert_eq!((refused.status, &refused.json()["error"]["details"]), (429, &details));
    assert_eq!(refused.header("retry-after"), Some("60"));
    app.advance(60);
    browser.ask("/users/log-in", "b@x.example").await.assert_found("/users/check-email");
    app.work().await;
}

#[tokio::test]
async fn the_refusal_is_the_form_with_a_sentence_above_the_field() {
    let app = TestApp::start().await;
    let mut browser = app.browser();
    for n in 0..5 {
        browser.ask("/users/register", &format!("a{n}@x.example")).await;
    }
    app.advance(1);
    let page = browser.post("/users/register", "email=secret%40x.example&return_to=/courses").await;
    assert_eq!(page.assert_guarded().status, 429);
    let (sentence, field) = (
        page.body.find("Too many attempts. Please try again in about 1 minute."),
        page.body.find("<input id=\"email\""),
    );
    assert!(sentence.unwrap() < field.unwrap(), "{}", page.body);
    assert!(!page.body.contains("secret") && page.body.contains("value=\"/courses\"") && page.cookies().count() == 0);
    assert_eq!(page.header("retry-after"), Some("59"));
    app.work().await;
}

#[tokio::test]
async fn twenty_an_hour_drip_through() {
    let app = TestApp::start().await;
    let mut allowed = 0;
    for n in 0..30 {
        allowed += usize::from(app.browser().ask("/users/log-in", &format!("a{n}@x.example")).await.status == 302);
        app.advance(61);
    }
    assert_eq!(allowed, 20);
    let answer = app.browser().ask("/users/log-in", "b@x.example").await;
    assert_eq!(answer.header("retry-after"), Some((3600 - 30 * 61).to_string().as_str()));
    app.work().await;
}

#[tokio::test]
async fn the_noisy_neighbour_behind_the_same_proxy_stops_nobody() {
    let app = TestApp::start().await;
    for n in 0..50 {
        app.browser_at("203.0.113.66").ask("/users/log-in", &format!("a{n}@x.example")).await;
    }
    app.browser_at("203.0.113.7").ask("/users/log-in", "quiet@x.example").await.assert_found("/users/check-email");
    app.work().await;
}

#[tokio::test]
async fn forty_parallel_posts_never_exceed_a_ceiling() {
    let app = TestApp::start().await;
    let mut posts = JoinSet::new();
    for n in 0..40 {
        let (mut one_inbox, mut one_network) =
            (app.browser_at(&format!("198.51.100.{n}")), app.browser_at("203.0.113.9"));
        posts.spawn(async move {
            let inbox = one_inbox.ask("/users/log-in", "victim@x.example").await.status;
            (inbox, one_network.ask("/users/log-in", &format!("a{n}@x.example")).await.status)
        });
    }
    let answers = posts.join_all().await;
    let allowed = |status: &dyn Fn(&(u16, u16)) -> u16| answers.iter().filter(|pair| status(pair) == 302).count();
    assert_eq!((allowed(&|pair| pair.0), allowed(&|pair| pair.1)), (3, 5));
    app.work().await;
}

#[tokio::test]
async fn shared_networks_have_ceilings_of_their_own() {
    let networks = "198.51.100.0/24=8/100,198.51.100.7=2/100";
    let app = TestApp::with().setting("THROTTLE_NETWORKS", networks).run().await;
    for (client, limit) in [("198.51.100.9", 8), ("198.51.100.7", 2), ("203.0.113.9", 5)] {
        for n in 0..=limit {
            let wanted = if n < limit { 302 } else { 429 };
            let answer = app.browser_at(client).ask("/users/log-in", &format!("a{n}.{client}@x.example")).await;
            assert_eq!(answer.status, wanted, "{client} {n}");
        }
    }
    app.work().await;
}

#[tokio::test]
async fn everything_else_anonymous_has_a_counter_and_a_session_is_exempt() {
    let app = TestApp::with().setting("THROTTLE_ANONYMOUS_LIMIT", "4").run().await;
    let mut ada = app.account("ada@x.example").await;
    let mut stranger = app.browser_at("198.18.0.1");
    for n in 0..6 {
        let wanted = if n < 4 { 404 } else { 429 };
        assert_eq!(stranger.get("/nothing/here").await.assert_guarded().status, wanted);
        assert_eq!(ada.get("/users/settings").await.status, 200);
    }
    stranger.ask("/users/log-in", "b@x.example").await.assert_found("/users/check-email");
    app.work().await;
}

/// A counter store that fails: with an error, or by never answering.
struct Broken(bool);

impl SharedCounters for Broken {
    fn settle<'a>(&'a self, _: &'a [Hit]) -> Answer<'a, Vec<Verdict>> {
        let silent = self.0;
        Box::pin(async move {
            if silent {
                std::future::pending::<()>().await;
            }
            Err(Box::new("the table is gone") as _)
        })
    }

    fn sweep(&self) -> Answer<'_, u64> {
        Box::pin(async { Ok(0) })
    }

    fn name(&self) -> &'static str {
        "broken"
    }
}

/// Allowed, logged and counted; and the counters of this process still hold the ceiling.
#[tokio::test]
async fn a_broken_counter_store_lets_people_in() {
    for silent in [false, true] {
        let app = TestApp::with().counters(Broken(silent)).run().await;
        let failures = || app.metric("doorpost_throttle_store_failures_total{store=\"broken\"}");
        app.browser().ask("/users/log-in", "a@x.example").await.assert_found("/users/check-email");
        assert_eq!(failures().as_deref(), Some("1"));
        for n in 0..5 {
            let wanted = if n < 4 { 302 } else { 429 };
            assert_eq!(app.browser().ask("/users/log-in", &format!("a{n}@x.example")).await.status, wanted);
        }
        assert_eq!(failures().as_deref(), Some("1"), "while the fuse is open nobody waits for the store");
        app.advance(61);
        app.browser().ask("/users/log-in", "b@x.example").await.assert_found("/users/check-email");
        assert_eq!(failures().as_deref(), Some("2"), "asked again, and failed again");
        app.work().await;
    }
}

/// A store that answers is believed, and a flood is refused from memory without asking it again.
#[tokio::test]
async fn a_denial_is_remembered_until_its_instant() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    struct Full(Arc<AtomicU32>);
    impl SharedCounters for Full {
        fn settle<'a>(&'a self, _: &'a [Hit]) -> Answer<'a, Vec<Verdict>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(vec![Verdict::Deny { retry_after: Duration::from_secs(10) }]) })
        }

        fn sweep(&self) -> Answer<'_, u64> {
            Box::pin(async { Ok(0) })
        }

        fn name(&self) -> &'static str {
            "full"
        }
    }
    let asked = Arc::new(AtomicU32::new(0));
    let settings = TestApp::with().setting("THROTTLE_ANONYMOUS_LIMIT", "off");
    let app = settings.counters(Full(asked.clone())).run().await;
    for _ in 0..100 {
        assert_eq!(app.browser().ask("/users/log-in", "a@x.example").await.status, 429);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    app.advance(10);
    app.browser().ask("/users/log-in", "a@x.example").await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

fn hit(counter: Counter, keys: &Keys, n: u32) -> Hit {
    let address = std::net::Ipv4Addr::from(n).into();
    let key = keys.network(doorpost::client_ip::Network::of(address, 64));
    Hit { counter, key, window: Duration::from_secs(900), limit: 3 }
}

#[test]
fn attack_26_erasing_a_counter_by_flood() {
    let keys = Keys::new(None);
    let memory = Memory::new(8 * 1024 * 1024, |_| Duration::from_secs(900));
    let victim = hit(Counter::Email, &keys, 1);
    for _ in 0..3 {
        assert!(matches!(memory.hit(&victim, 1).unwrap(), Verdict::Allow { .. }));
    }
    // Far more than twice what the room for inboxes holds, and as many keys of networks.
    for n in 2..60_000 {
        memory.hit(&hit(Counter::Email, &keys, n), 2).unwrap();
        memory.hit(&hit(Counter::IpBurst, &keys, n), 2).unwrap();
    }
    let denied = Verdict::Deny { retry_after: Duration::from_secs(900) - Duration::from_micros(1) };
    assert_eq!(memory.hit(&victim, 2).unwrap(), denied, "the victim is still at the ceiling");
}

#[test]
fn keys_are_digests_that_need_the_secret() {
    let address = std::net::Ipv4Addr::new(203, 0, 113, 9).into();
    let network = doorpost::client_ip::Network::of(address, 64);
    let secret = |text: &str| Keys::new(Some(&doorpost::config::Hidden(text.to_owned())));
    let (plain, one, two) =
        (Keys::new(None).network(network), secret("one").network(network), secret("two").network(network));
    assert!(plain != one && one != two && one == secret("one").network(network));
    assert_eq!(plain.to_string().len(), 12);
}

#[tokio::test]
async fn the_refusal_names_whole_seconds_rounded_up_and_holds_until_then() {
    // To the microsecond, which only a clock that stands still allows.
    let start = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "1").setting("THROTTLE_STORE", "memory");
    let app = start.run().await;
    app.browser().ask("/users/log-in", "a@x.example").await.assert_found("/users/check-email");
    app.clock.advance(Duration::from_micros(1_999_500));
    let refused = app.browser().ask("/users/log-in", "b@x.example").await;
    assert_eq!(refused.header("retry-after"), Some("59"), "58.0005 s");
    app.clock.advance(Duration::from_micros(58_000_499));
    assert_eq!(app.browser().ask("/users/log-in", "b@x.example").await.header("retry-after"), Some("1"));
    app.clock.advance(Duration::from_micros(1));
    app.browser().ask("/users/log-in", "b@x.example").await.assert_found("/users/check-email");
    app.work().await;
}
