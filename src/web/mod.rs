//! What people and programs meet. Reading order: `guard`, then `ask` and `link`, the two ways in.

pub mod account;
pub mod admin;
mod again;
pub mod ask;
pub mod assets;
pub mod body;
pub mod check;
pub mod client;
pub mod code;
pub mod cookies;
pub mod dead_link;
pub mod errors;
pub mod guard;
pub mod health;
pub mod link;
pub mod mailbox;
pub mod pages;
pub mod plain;
pub mod server;
pub mod session;
pub mod sessions;

use actix_web::HttpRequest;
use actix_web::http::header::{ACCEPT, USER_AGENT};
use actix_web::web::Data;

use crate::app::App;
use crate::domain::agent::browser_kind;

/// The one [`App`], as handlers take it.
pub type Shared = Data<App>;

/// Which kind of browser a request comes from, in fixed words.
fn agent_of(request: &HttpRequest) -> String {
    let agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    browser_kind(agent.unwrap_or_default())
}

/// Whether a request names pages among what it takes: a browser that shows them does, a monitor seldom.
pub fn accepts_html(request: &HttpRequest) -> bool {
    let accept = request.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok());
    let mut kinds =
        accept.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next().map(str::trim));
    kinds.any(|kind| kind.eq_ignore_ascii_case("text/html"))
}

/// Whether a request wants JSON rather than pages: its `Accept` ranks `application/json` above
/// `text/html`, a type named in full above a wildcard, and the first of two equals.
pub fn wants_json(request: &HttpRequest) -> bool {
    let accept = request.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok());
    let (mut json, mut html) = (None, None);
    for (place, range) in accept.flat_map(|value| value.split(',')).enumerate() {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0);
        let rank = (quality > 0.0).then_some((quality, std::cmp::Reverse(place)));
        if kind.eq_ignore_ascii_case("application/json") {
            json = json.or(rank);
        } else if kind.eq_ignore_ascii_case("text/html") {
            html = html.or(rank);
        }
    }
    match (json, html) {
        (Some(json), Some(html)) => json > html,
        (json, _) => json.is_some(),
    }
}
