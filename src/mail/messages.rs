//! What the mails say: text first, HTML second, the bare URL in both, nothing a visitor wrote but
//! the address.

use std::time::{Duration, UNIX_EPOCH};

use askama::Template;
use lettre::Message;
use lettre::address::{Address, AddressError};
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::clock::Millis;
use crate::config::Config;

/// A mail, made and ready to leave.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The queue row it answers.
    pub id: String,
    pub to: String,
    pub subject: String,
    pub text: String,
    pub html: String,
    pub link: String,
    pub code: String,
    pub sent_at: Millis,
    pub message: Message,
}

/// What a mail is made from.
#[derive(Debug)]
pub struct Letter<'a> {
    /// The queue row: the Message-ID follows from it, so that a second copy has the same one.
    pub id: &'a str,
    pub to: &'a str,
    pub kind: Kind,
    /// Typed where it was asked for: `K7Q-2MX`.
    pub code: &'a str,
    pub link: String,
    pub agent: &'a str,
    pub asked_at: Millis,
    pub now: Millis,
}

/// Which of the three mails it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    SignIn,
    Welcome,
    /// Somebody registered with the address of an account.
    AlreadyRegistered,
}

/// The mail can't be made; its reason never repeats an address.
#[derive(Debug)]
pub struct Unmakeable(pub String);

#[derive(Template)]
#[template(path = "mail.txt")]
struct Text<'a>(&'a Words<'a>);

#[derive(Template)]
#[template(path = "mail.html")]
struct Html<'a>(&'a Words<'a>);

/// The sentences of a mail, the same in both of its parts.
struct Words<'a> {
    app: &'a str,
    title: String,
    lead: &'a str,
    button: &'a str,
    code: &'a str,
    link: &'a str,
    lifetime: String,
    until: String,
    asked: String,
    agent: &'a str,
}

impl Letter<'_> {
    /// Writes the mail.
    pub fn write(&self, config: &Config) -> Result<Mail, Unmakeable> {
        let words = self.words(config);
        let text = Text(&words).render().map_err(|e| Unmakeable(e.to_string()))?;
        let html = Html(&words).render().map_err(|e| Unmakeable(e.to_string()))?;
        // A subject of its own every time: some mail programs hide a mail in an older one's thread.
        let subject = format!("{} is your {} code", self.code, words.app);
        let message = self.message(config, &subject, (&text, &html))?;
        Ok(Mail {
            id: self.id.to_owned(),
            to: self.to.to_owned(),
            subject,
            text,
            html,
            link: self.link.clone(),
            code: self.code.to_owned(),
            sent_at: self.now,
            message,
        })
    }

    fn words<'a>(&'a self, config: &'a Config) -> Words<'a> {
        let app = &config.app_name;
        let (title, lead, button) = match self.kind {
            Kind::SignIn => (format!("Log in to {app}"), "", "Log in"),
            Kind::Welcome => (format!("Create your {app} account"), "", "Create account"),
            Kind::AlreadyRegistered => {
                (format!("Log in to {app}"), "You already have an account, so this link logs you in.", "Log in")
            }
        };
        let until = self.now + config.link_lifetime.as_millis() as Millis;
        Words {
            app,
            title,
            lead,
            button,
            code: self.code,
            link: &self.link,
            lifetime: span(config.link_lifetime),
            until: time_of_day(until),
            asked: day_and_time(self.asked_at),
            agent: self.agent,
        }
    }

    fn message(&self, config: &Config, subject: &str, (text, html): (&str, &str)) -> Result<Message, Unmakeable> {
        let unmakeable = |_: AddressError| Unmakeable("the address can't be written to".into());
        let to: Address = self.to.parse().map_err(unmakeable)?;
        let domain = config.mail_from.email.domain();
        let mut builder = Message::builder()
            .message_id(Some(format!("<{}@{domain}>", self.id)))
            .date(UNIX_EPOCH + Duration::from_millis(self.now.max(0) as u64))
            .from(config.mail_from.clone())
            // No display name: nothing of the visitor's but the address enters a header.
            .to(Mailbox::new(None, to))
            .subject(subject);
        if let Some(reply_to) = &config.mail_reply_to {
            builder = builder.reply_to(reply_to.clone());
        }
        // RFC 3834, and Exchange's own word for it: no out-of-office answers, please.
        for (name, value) in [("Auto-Submitted", "auto-generated"), ("X-Auto-Response-Suppress", "All")] {
            let name = HeaderName::new_from_ascii_str(name);
            builder = builder.raw_header(HeaderValue::new(name, value.to_owned()));
        }
        let parts = MultiPart::alternative()
            .singlepart(SinglePart::plain(text.to_owned()))
            .singlepart(SinglePart::html(html.to_owned()));
        builder.multipart(parts).map_err(|e| Unmakeable(e.to_string()))
    }
}

/// "15 minutes", "1 hour": how people say it.
pub fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    let (count, unit) = match seconds {
        s if s % 86_400 == 0 => (s / 86_400, "day"),
        s if s % 3600 == 0 => (s / 3600, "hour"),
        s if s % 60 == 0 => (s / 60, "minute"),
        s => (s, "second"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

fn utc(at: Millis) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(at / 1000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn time_of_day(at: Millis) -> String {
    utc(at).format(format_description!("[hour]:[minute] UTC")).unwrap_or_default()
}

fn day_and_time(at: Millis) -> String {
    let format = format_description!("[day padding:none] [month repr:long] at [hour]:[minute] UTC");
    utc(at).format(format).unwrap_or_default()
}
