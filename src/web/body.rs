//! A small body, read whole: at most 8 KiB, within ten seconds.

use std::task::Poll;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use actix_web::web::{Bytes, BytesMut, Payload};

use super::guard::MAX_BODY;
use crate::error::Error;

/// How long a body may take. actix-web itself waits for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the body. Too long or too slow spends nothing: no counter was asked yet.
pub async fn read(mut payload: Payload) -> Result<Bytes, Error> {
    let reading = async {
        let mut body = BytesMut::new();
        while let Some(chunk) = next_chunk(&mut payload).await {
            // What came is not what was meant: `ada@example.co` may be half of `ada@example.com`.
            let chunk = chunk.map_err(|_| Error::BodyBroken)?;
            if body.len() + chunk.len() > MAX_BODY {
                return Err(Error::BodyTooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    };
    let mut reading = std::pin::pin!(reading);
    // Most bodies arrive with their head and need no timer.
    match std::future::poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
        Poll::Ready(body) => body,
        Poll::Pending => tokio::time::timeout(PATIENCE, reading).await.unwrap_or(Err(Error::TooSlow)),
    }
}

async fn next_chunk(payload: &mut Payload) -> Option<Result<Bytes, actix_web::error::PayloadError>> {
    use futures_core::Stream;
    std::future::poll_fn(|cx| std::pin::Pin::new(&mut *payload).poll_next(cx)).await
}

/// The fields that our forms have. Others are passed over, so that a body of thousands costs nothing.
const KNOWN: [&str; 6] = ["email", "return_to", "code", "everywhere", "stay", "stay_shown"];

/// The text fields of a form or a JSON object. A name that stands there twice has no value.
#[derive(Debug, Default)]
pub struct Fields([Option<Field>; KNOWN.len()]);

/// What stands under a name: a text, or something that doesn't count as one.
type Field = Option<String>;

impl Fields {
    /// Reads the fields. An error is a content type that isn't a form or JSON; text that can't be
    /// read as what it claims to be has no fields.
    pub fn parse(request: &HttpRequest, body: &[u8]) -> Result<Self, Error> {
        let encoded = request.headers().get(CONTENT_ENCODING).is_some_and(|kind| kind != "identity");
        let mut kinds = request.headers().get_all(CONTENT_TYPE);
        let kind = kinds.next().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let is = |known: &str| kind.eq_ignore_ascii_case(known);
        if encoded || kinds.next().is_some() {
            return Err(Error::UnsupportedMediaType);
        }
        if is("application/x-www-form-urlencoded") {
            Ok(Self::form(body))
        } else if is("application/json") {
            Ok(Self::json(body))
        } else if kind.is_empty() && body.is_empty() {
            Ok(Self::default())
        } else {
            Err(Error::UnsupportedMediaType)
        }
    }

    /// The field's text, if it is there exactly once and whole.
    pub fn get(&self, name: &str) -> Option<&str> {
        let place = KNOWN.iter().position(|known| *known == name)?;
        self.0[place].as_ref()?.as_deref()
    }

    /// Whether to stay logged in when the browser closes. An unchecked box isn't sent at all, so a page
    /// that shows the box says so beside it; who was shown none stays.
    pub fn stay(&self) -> bool {
        match self.get("stay") {
            Some(choice) => choice != "false",
            None => self.get("stay_shown").is_none(),
        }
    }

    fn form(body: &[u8]) -> Self {
        let mut fields = Self::default();
        for (name, value) in form_urlencoded::parse(body) {
            // Invalid UTF-8 was replaced: not what was sent, so it doesn't count as a value.
            let whole = value.is_ascii() || !value.contains(char::REPLACEMENT_CHARACTER);
            fields.add(&name, whole.then(|| value.into_owned()));
        }
        fields
    }

    fn json(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// One form, two recipients: a name that comes twice has no value.
    fn add(&mut self, name: &str, value: Field) {
        if let Some(place) = KNOWN.iter().position(|known| *known == name) {
            let field = &mut self.0[place];
            *field = Some(if field.is_none() { value } else { None });
        }
    }
}

impl<'de> serde::Deserialize<'de> for Fields {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> serde::de::Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
            let text = match value {
                serde_json::Value::String(text) => Some(text),
                serde_json::Value::Bool(flag) => Some(flag.to_string()),
                _ => None,
            };
            fields.add(&name, text);
        }
        Ok(fields)
    }
}
