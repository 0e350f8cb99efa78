//! What was accepted, and what stands in it.

use mail_parser::{Message, MessageParser};

/// A message as it was accepted.
#[derive(Clone, Debug, Default)]
pub struct Received {
    pub from: String,
    pub to: Vec<String>,
    /// Without the doubled dots.
    pub raw: Vec<u8>,
    pub encrypted: bool,
    pub hello: String,
    /// User and password.
    pub login: Option<(String, String)>,
}

impl Received {
    pub fn parse(&self) -> Message<'_> {
        MessageParser::default().parse(&self.raw).expect("a message")
    }

    pub fn header(&self, name: &str) -> String {
        self.parse().header_raw(name).unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
    }

    pub fn text(&self) -> String {
        self.parse().body_text(0).expect("a text part").into_owned()
    }

    pub fn html(&self) -> String {
        self.parse().body_html(0).expect("an HTML part").into_owned()
    }

    /// The code in the subject.
    pub fn code(&self) -> String {
        let parsed = self.parse();
        let subject = parsed.subject().expect("a subject");
        subject.split(' ').next().expect("it begins with the code").to_owned()
    }

    /// The path of the link in the text part.
    pub fn link(&self) -> String {
        let text = self.text();
        let url = text.lines().find(|line| line.starts_with("http")).expect("a link on a line of its own");
        url[url.find("/users/").expect("a link of ours")..].to_owned()
    }
}
