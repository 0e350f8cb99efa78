//! Where people land, through the whole chain: every row of the vectors.

use url::form_urlencoded::byte_serialize;

use crate::addresses::{rows, unescape};
use crate::support::gateway::{APP, Chain, Kind};

const OPEN: &[(&str, &str)] =
    &[("THROTTLE_IP_BURST_LIMIT", "1000"), ("THROTTLE_IP_HOURLY_LIMIT", "1000"), ("THROTTLE_EMAIL_LIMIT", "1000")];

#[tokio::test]
async fn every_destination_is_reached_or_dropped_as_its_row_says() {
    for kind in Kind::ALL {
        let chain = Chain::with(kind, OPEN).await;
        chain.account("ada@example.org").await;
        let mut seen = 0;
        for row in rows(include_str!("../../vectors/return_to.tsv")) {
            let wish = unescape(row[0]);
            // Each character of the vectors is a byte, and so it is here.
            let bytes: Vec<u8> = wish.chars().map(|c| c as u8).collect();
            let wish: String = byte_serialize(&bytes).collect();
            let mut browser = chain.browser();
            let page = browser.get(&format!("/users/log-in?return_to={wish}")).await;
            assert_eq!(page.status, 200, "{kind:?} {}", row[0]);
            let form = format!("email=ada%40example.org&return_to={wish}");
            browser.post("/users/log-in", &form).await.assert_found("/users/check-email");
            let landed = browser.post(&chain.mail().await.link(), "").await;
            let wanted = if row[1] == "DEFAULT" { "/users/settings" } else { row[1] };
            assert_eq!((landed.status, landed.header("location")), (302, Some(wanted)), "{kind:?} {}", row[0]);
            seen += 1;
        }
        assert_eq!(seen, 27);
    }
}

#[tokio::test]
async fn who_asked_for_a_page_of_the_app_lands_there_by_link_and_by_code() {
    for (kind, by_code) in Kind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let chain = Chain::with(kind, OPEN).await;
        chain.account("ada@example.org").await;
        let mut browser = chain.browser().header("Accept", "text/html");
        let turned_away = browser.clone().at(APP).get("/a/b%20c?x=%26&y=1#z").await;
        let location = turned_away.header("location").unwrap().replace("https://auth.school.example", "");
        let (_, wish) = location.split_once("return_to=").unwrap();
        browser.get(&location).await;
        let form = format!("email=ada%40example.org&return_to={wish}");
        browser.post("/users/log-in", &form).await.assert_found("/users/check-email");
        let mail = chain.mail().await;
        let landed = if by_code {
            browser.post("/users/log-in/code", &format!("code={}", mail.code())).await
        } else {
            browser.post(&mail.link(), "").await
        };
        let there = landed.header("location").unwrap().strip_prefix("https://app.school.example");
        assert_eq!(there.map(|path| path.split('#').next().unwrap()), Some("/a/b%20c?x=%26&y=1"), "{kind:?} {by_code}");
        assert_eq!(browser.at(APP).get(there.unwrap()).await.status, 200, "{kind:?}");
        // None of the way in stands in the gateway's log.
        let (log, link) = (chain.log(), mail.link());
        let (_, token) = link.rsplit_once('/').unwrap();
        assert!(!log.contains(token) && !log.contains(&mail.code()) && !log.contains("ada@"), "{kind:?}: {log}");
    }
}
