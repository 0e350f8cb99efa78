//! The address parser and the destinations, row by row of their vectors.

use doorpost::domain::email::Email;
use doorpost::domain::host::HostPattern;
use doorpost::domain::return_to::ReturnPolicy;
use url::Url;

/// Spells out what the vectors escape: `\r`, `\n`, `\xNN`, `\uNNNN`, `(N times c)`, `(N times c, after a /)`.
pub fn unescape(text: &str) -> String {
    if let Some(rest) = text.strip_prefix('(') {
        let (times, rest) = rest.split_once(" times ").unwrap();
        let (what, rest) = rest.split_once([')', ',']).unwrap();
        let (before, after) = if rest.starts_with(" after a /") { ("/", "") } else { ("", rest) };
        return format!("{before}{}{after}", what.repeat(times.parse().unwrap()));
    }
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        plain += before;
        let (length, character) = match escape.as_bytes()[0] {
            b'r' => (1, '\r'),
            b'n' => (1, '\n'),
            b'x' => (3, u8::from_str_radix(&escape[1..3], 16).unwrap() as char),
            b'u' => (5, char::from_u32(u32::from_str_radix(&escape[1..5], 16).unwrap()).unwrap()),
            _ => panic!("unknown escape in {text}"),
        };
        plain.push(character);
        rest = &escape[length..];
    }
    plain + rest
}

pub fn rows(vectors: &str) -> impl Iterator<Item = Vec<&str>> {
    vectors.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

#[test]
fn every_address_is_read_as_its_row_says() {
    let mut seen = 0;
    for row in rows(include_str!("../vectors/email.tsv")) {
        let parsed = Email::parse(&unescape(row[0]));
        let folded = parsed.as_ref().map_or("REJECT", |email| email.as_str());
        assert_eq!(folded, row[1], "{}", row[0]);
        assert_eq!(parsed.map_or(String::new(), |email| email.inbox()), row[2], "inbox of {}", row[0]);
        seen += 1;
    }
    assert_eq!(seen, 41);
}

#[test]
fn every_destination_is_judged_as_its_row_says() {
    let hosts = vec![HostPattern::parse("app.school.example").unwrap()];
    let policy = ReturnPolicy::new(Url::parse("https://auth.school.example").unwrap(), hosts);
    let mut seen = 0;
    for row in rows(include_str!("../vectors/return_to.tsv")) {
        let sent = policy.parse(&unescape(row[0]));
        let wanted = if row[1].starts_with("https://APP") { row[1].to_ascii_lowercase() } else { row[1].to_owned() };
        assert_eq!(sent.as_ref().map_or("DEFAULT", |to| to.as_str()), wanted, "{}", row[0]);
        seen += 1;
    }
    assert_eq!(seen, 27);
}

#[test]
fn a_destination_is_sent_percent_encoded_and_wildcards_mean_hosts_below() {
    let hosts = vec![HostPattern::parse("*.school.example").unwrap()];
    let policy = ReturnPolicy::new(Url::parse("https://auth.school.example").unwrap(), hosts);
    let sent = |wish: &str| policy.parse(wish).map(|to| to.as_str().to_owned());
    assert_eq!(sent("/kürse?q=ä b").as_deref(), Some("/k%C3%BCrse?q=%C3%A4%20b"));
    assert_eq!(sent("https://a.b.school.example/x").as_deref(), Some("https://a.b.school.example/x"));
    for outside in [
        "https://school.example/",
        "https://notschool.example/",
        "https://auth.other.example/x",
        "https://a.school.example//evil.example",
        "/%2f/evil.example",
        "/%2e%2e//evil.example",
        "/x%0d%0aSet-Cookie:a",
    ] {
        assert_eq!(sent(outside), None, "{outside}");
    }
}

#[test]
fn a_folded_address_reads_as_itself() {
    for row in rows(include_str!("../vectors/email.tsv")) {
        if let Ok(email) = Email::parse(&unescape(row[0])) {
            assert_eq!(Email::parse(email.as_str()), Ok(email));
        }
    }
}
