//! The ceilings through a gateway: each client by its own address, and by no other.

use crate::support::gateway::{Chain, Kind};

#[tokio::test]
async fn one_client_is_refused_and_the_other_one_served() {
    for kind in Kind::ALL {
        let chain = Chain::start(kind).await;
        let mut loud = chain.browser_from([127, 0, 0, 2]);
        for n in 0..5 {
            let answer = loud.ask("/users/log-in", &format!("student{n}@example.org")).await;
            answer.assert_found("/users/check-email");
        }
        assert_eq!(loud.ask("/users/log-in", "ada@example.org").await.status, 429, "{kind:?}");
        let mut other = chain.browser_from([127, 0, 0, 3]);
        other.ask("/users/log-in", "ada@example.org").await.assert_found("/users/check-email");
        for app in &chain.apps {
            let forwarded = app.metric(r#"doorpost_client_ip_total{reason="forwarded"}"#);
            let others = ["missing", "too_few", "unparsable", "is_proxy", "untrusted_peer"];
            let others = others.map(|reason| app.metric(&format!(r#"doorpost_client_ip_total{{reason="{reason}"}}"#)));
            assert!(
                others.iter().all(|count| count.as_deref().is_none_or(|count| count == "0")),
                "{kind:?} {others:?}"
            );
            assert!(chain.apps.len() > 1 || forwarded.is_some(), "{kind:?}");
        }
    }
}

/// Attack: a new address with each request.
#[tokio::test]
async fn whoever_writes_addresses_into_headers_is_counted_as_one_client() {
    let garbage = ["unknown", "::ffff:1.2.3.4", "1.2.3.4, 5.6.7.8", "\"[2001:db8::1]\"", ",,,", "127.0.0.1"];
    for kind in Kind::ALL {
        let chain = Chain::start(kind).await;
        let mut statuses = Vec::new();
        for (n, garbage) in garbage.iter().enumerate() {
            let mut forger = chain.browser_from([127, 0, 0, 4]).header("X-Forwarded-For", &format!("198.51.100.{n}"));
            forger = forger.header("X-Forwarded-For", garbage).header("X-Real-IP", &format!("198.51.100.{n}"));
            forger = forger.header("Forwarded", &format!("for=198.51.100.{n}"));
            statuses.push(forger.ask("/users/register", &format!("student{n}@example.org")).await.status);
        }
        assert_eq!(statuses, [302, 302, 302, 302, 302, 429], "{kind:?}");
    }
}
