//! Which address a request is counted as: the table, and the front door.

use std::net::IpAddr;

use doorpost::client_ip::{Network, Trust};
use doorpost::config::Config;

use crate::support::TestApp;

fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some(at) = rest.windows(2).position(|pair| pair == b"\\x") {
        out.extend_from_slice(&rest[..at]);
        out.push(u8::from_str_radix(std::str::from_utf8(&rest[at + 2..at + 4]).unwrap(), 16).unwrap());
        rest = &rest[at + 4..];
    }
    out.extend_from_slice(rest);
    out
}

#[test]
fn every_request_is_counted_as_its_row_says() {
    let mut seen = 0;
    for line in include_str!("../vectors/client_ip.tsv").lines().filter(|line| !line.starts_with('#')) {
        let row: Vec<_> = line.split('\t').collect();
        let settings = [("TRUSTED_PROXY_HOPS".to_owned(), row[2].to_owned())];
        let config = Config::load(settings.into_iter(), std::path::Path::new("/nonexistent")).unwrap();
        let lines: Vec<Vec<u8>> = match row[3] {
            "-" => vec![],
            "(empty)" => vec![vec![]],
            lines => lines.split('|').map(bytes).collect(),
        };
        let peer: IpAddr = row[1].parse().unwrap();
        let (address, reason) = Trust::new(&config).client_ip(Some(peer), lines.iter().map(Vec::as_slice));
        let counted = (Network::of(address, 64).to_string(), reason.label());
        assert_eq!(counted, (row[4].to_owned(), row[5]), "{}", row[0]);
        seen += 1;
    }
    assert_eq!(seen, 35);
}

#[test]
fn a_unix_socket_is_trusted() {
    let config = Config::load(std::iter::empty(), std::path::Path::new("/nonexistent")).unwrap();
    let (address, reason) = Trust::new(&config).client_ip(None, std::iter::once(b"203.0.113.9".as_slice()));
    assert_eq!((address.to_string().as_str(), reason.label()), ("203.0.113.9", "forwarded"));
}

#[tokio::test]
async fn a_dual_stack_listener_counts_ipv4_clients_as_ipv4() {
    let app = TestApp::with().listen("[::]:0").run().await;
    let ipv4 = ([127, 0, 0, 1], app.address.port()).into();
    for n in 0..5 {
        let mut browser = crate::support::http::Browser::new(ipv4).from("203.0.113.9");
        browser.ask("/users/log-in", &format!("a{n}@example.org")).await.assert_found("/users/check-email");
    }
    let mut same = crate::support::http::Browser::new(ipv4).from("::ffff:203.0.113.9");
    assert_eq!(same.ask("/users/log-in", "b@example.org").await.status, 429);
    assert_eq!(app.metric("doorpost_client_ip_total{reason=\"forwarded\"}").as_deref(), Some("6"));
    app.work().await;
}
