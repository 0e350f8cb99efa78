//! The link of the mail: a page that only shows, and a button that enters.

use actix_web::cookie::Cookie;
use actix_web::http::header::LOCATION;
use actix_web::web::{Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::pages::{ConfirmPage, Layout, html};
use super::{Shared, agent_of, body, cookies, wants_json};
use crate::app::App;
use crate::domain::token::{BrowserSecret, Hash, LinkToken, SessionToken};
use crate::error::Error;
use crate::store::links::{DeadLink, Entry, Link, Use};
use crate::store::outbox::Purpose;

/// Where people land who weren't going anywhere.
pub const HOME: &str = "/users/settings";

/// Shows whose account it is, and a button. Scanners fetch this with HEAD and GET, often: it consumes
/// nothing, signs nobody in and creates nothing.
pub async fn confirm_page(request: HttpRequest, app: Shared, token: Path<String>) -> Result<HttpResponse, Error> {
    let token = LinkToken::parse(&token).ok_or(Error::Link(DeadLink::Unknown))?;
    let link = app.store.look_at_link(&token.hash(), app.clock.now()).await?.map_err(Error::Link)?;
    let (secret, new_browser) = app.cookies.browser_of(&request, &app);
    let same_browser = secret.hash().as_str() == link.browser;
    tracing::info!(purpose = link.purpose.text(), same_browser, "link opened");
    let mut answer = if wants_json(&request) {
        HttpResponse::Ok().json(json!({
            "email": link.email,
            "purpose": link.purpose.text(),
            "return_to": link.return_to,
            "same_browser": same_browser,
        }))
    } else {
        html(&confirm(&app, &link, same_browser, &token))
    };
    if let Some(cookie) = new_browser {
        cookies::set(&mut answer, &cookie);
    }
    Ok(answer)
}

fn confirm<'a>(app: &'a App, link: &Link, same_browser: bool, token: &LinkToken) -> ConfirmPage<'a> {
    let goes_to = link.return_to.as_deref().and_then(|wish| app.return_policy.parse(wish));
    ConfirmPage {
        layout: Layout::of(app),
        registering: link.purpose == Purpose::Register,
        email: link.email.clone(),
        host: goes_to.and_then(|to| to.host().map(str::to_owned)),
        same_browser,
        action: format!("/users/log-in/{}", token.text()),
    }
}

/// Uses the link once and starts a session.
pub async fn enter(
    request: HttpRequest,
    app: Shared,
    token: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Error> {
    // The form has no fields; what is too long or breaks off uses nothing up.
    body::read(payload).await?;
    let token = LinkToken::parse(&token).ok_or(Error::Link(DeadLink::Unknown))?;
    let (browser, new_browser) = app.cookies.browser_of(&request, &app);
    // Session fixation: whatever cookie came along, the session is new.
    let session = SessionToken::of(&token, &browser);
    let previous: Vec<Hash> = app.cookies.sessions_of(&request).iter().map(SessionToken::hash).collect();
    let entry = Use {
        link: &token.hash(),
        browser: &browser.hash(),
        session: &session.hash(),
        previous: &previous,
        agent: &agent_of(&request),
        now: app.clock.now(),
        session_lifetime: app.config.session_lifetime,
    };
    match app.store.use_link(&entry).await? {
        Entry::Dead(why) => Err(Error::Link(why)),
        Entry::SignedIn { user, return_to } => {
            app.metrics.signed_in("link");
            tracing::info!(user = user.id, "signed in");
            Ok(go_on(&request, &app, return_to, Some(&session), new_browser))
        }
        Entry::Repeat { return_to } => repeat(&request, &app, return_to, &browser, &token).await,
    }
}

/// A double click, whose first answer may be lost: the same session once more if it still lives.
async fn repeat(
    request: &HttpRequest,
    app: &App,
    return_to: Option<String>,
    browser: &BrowserSecret,
    token: &LinkToken,
) -> Result<HttpResponse, Error> {
    let session = SessionToken::of(token, browser);
    let live = app.store.session(&session.hash(), app.clock.now(), app.config.session_idle).await?;
    Ok(go_on(request, app, return_to, live.map(|_| &session), None))
}

fn go_on(
    request: &HttpRequest,
    app: &App,
    return_to: Option<String>,
    session: Option<&SessionToken>,
    new_browser: Option<Cookie<'static>>,
) -> HttpResponse {
    // Checked when it was asked for, and again now: the settings may have changed since.
    let checked = return_to.and_then(|wish| app.return_policy.parse(&wish));
    let location = checked.as_ref().map_or(HOME, |to| to.as_str());
    let mut answer = if wants_json(request) {
        HttpResponse::Ok().json(json!({ "status": "signed_in", "location": location }))
    } else {
        HttpResponse::Found().insert_header((LOCATION, location)).finish()
    };
    for cookie in session.map(|token| app.cookies.session(token)).into_iter().chain(new_browser) {
        cookies::set(&mut answer, &cookie);
    }
    answer
}
