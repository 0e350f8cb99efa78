//! The link of the mail: a page that only shows, and a button that enters.

use actix_web::cookie::Cookie;
use actix_web::http::header::LOCATION;
use actix_web::web::{Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::body::{self, Fields};
use super::pages::{ConfirmPage, Here, Layout, html};
use super::session::SignedIn;
use super::{Shared, agent_of, cookies, dead_link, wants_json};
use crate::app::App;
use crate::domain::return_to::ReturnTo;
use crate::domain::token::{BrowserSecret, Hash, LinkToken, SessionToken};
use crate::error::{Error, WayOn};
use crate::store::links::{DeadLink, Entry, Link, Use};
use crate::store::outbox::Purpose;

/// Where people land who weren't going anywhere.
pub const HOME: &str = "/users/settings";

/// Shows whose account it is, and a button. Scanners fetch this with HEAD and GET, often: it consumes
/// nothing, signs nobody in and creates nothing.
pub async fn confirm_page(
    request: HttpRequest,
    app: Shared,
    signed_in: Option<SignedIn>,
    token: Path<String>,
) -> Result<HttpResponse, Error> {
    let token = LinkToken::parse(&token).ok_or_else(|| dead_link::malformed(&request, &app))?;
    let link = match app.store.look_at_link(&token.hash(), app.clock.now()).await? {
        Ok(link) => link,
        Err(why) => return Err(dead_link::error(why, &token, &request, &app, signed_in.as_ref()).await),
    };
    let (secret, new_browser) = app.cookies.browser_of(&request, &app);
    let same_browser = secret.hash().as_str() == link.browser;
    tracing::info!(purpose = link.purpose.text(), same_browser, "link opened");
    let signed_in_as = signed_in.map(|SignedIn(session)| session.user.email.clone());
    let mut answer = if wants_json(&request) {
        as_json(&app, &link, same_browser, signed_in_as)
    } else {
        html(&as_page(&app, &token, &link, same_browser, signed_in_as))
    };
    if let Some(cookie) = new_browser {
        cookies::set(&mut answer, &cookie);
    }
    Ok(answer)
}

/// `signed_in_as` is told to nobody but the browser that holds that session's cookie.
fn as_json(app: &App, link: &Link, same_browser: bool, signed_in_as: Option<String>) -> HttpResponse {
    let goes_to = checked(app, link.return_to.as_deref());
    HttpResponse::Ok().json(json!({
        "email": link.email,
        "purpose": link.purpose.text(),
        "return_to": goes_to.as_ref().map(ReturnTo::as_str),
        "same_browser": same_browser,
        "signed_in_as": signed_in_as,
        "method": "POST",
        "fields": ["stay"],
    }))
}

fn as_page<'a>(
    app: &'a App,
    token: &LinkToken,
    link: &Link,
    same_browser: bool,
    signed_in_as: Option<String>,
) -> ConfirmPage<'a> {
    let goes_to = checked(app, link.return_to.as_deref());
    let here = match signed_in_as {
        None => Here::Nobody,
        Some(email) if email == link.email => Here::Same,
        Some(email) => Here::Other { email, location: location(goes_to.as_ref()).to_owned() },
    };
    ConfirmPage {
        layout: Layout::of(app),
        registering: link.purpose == Purpose::Register && !matches!(here, Here::Same),
        email: link.email.clone(),
        // A path on this host needs no word: the page's own name stands above.
        host: goes_to.and_then(|to| to.host().map(str::to_owned)),
        same_browser,
        action: format!("/users/log-in/{}", token.text()),
        here,
    }
}

/// Uses the link once and starts a session, in place of whichever this browser had.
pub async fn enter(
    request: HttpRequest,
    app: Shared,
    signed_in: Option<SignedIn>,
    token: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Error> {
    // What is too long, breaks off or can't be read uses nothing up.
    let body = body::read(payload).await?;
    let stay = Fields::parse(&request, &body)?.stay();
    let token = LinkToken::parse(&token).ok_or_else(|| dead_link::malformed(&request, &app))?;
    let (browser, _) = app.cookies.browser_of(&request, &app);
    let session = SessionToken::of(&token, &browser);
    match sign_in(&request, &app, &token.hash(), (&browser, &session), ("link", stay)).await? {
        SignIn::Done(answer) => Ok(answer),
        SignIn::Ended { .. } => ended(&request, &app, signed_in, &token).await,
        SignIn::Dead(why) => Err(dead_link::error(why, &token, &request, &app, signed_in.as_ref()).await),
    }
}

/// What using a link, or the code beside it, came to.
pub enum SignIn {
    Done(HttpResponse),
    /// This browser used it before, and the session that it got is over.
    Ended {
        return_to: Option<String>,
    },
    Dead(DeadLink),
}

/// Uses a link once, opened or by its code (`by`), and starts the session.
pub async fn sign_in(
    request: &HttpRequest,
    app: &App,
    link: &Hash,
    (browser, session): (&BrowserSecret, &SessionToken),
    (by, stay): (&'static str, bool),
) -> Result<SignIn, Error> {
    // Session fixation: whatever cookie came along, the session is new.
    let previous: Vec<Hash> = app.cookies.sessions_of(request).iter().map(SessionToken::hash).collect();
    let entry = Use {
        link,
        browser: &browser.hash(),
        session: &session.hash(),
        previous: &previous,
        agent: &agent_of(request),
        now: app.clock.now(),
        session_lifetime: app.config.session_lifetime,
    };
    let return_to = match app.store.use_link(&entry).await? {
        Entry::SignedIn { user, return_to } => {
            // The ones that this browser had before are over.
            app.sessions.ended();
            app.metrics.signed_in(by);
            tracing::info!(user = user.id, by, "signed in");
            return_to
        }
        // Pressed twice, and the first answer may be lost: the same session once more if it still lives.
        Entry::Repeat { return_to } if lives(app, session).await? => return_to,
        Entry::Repeat { return_to } => return Ok(SignIn::Ended { return_to }),
        Entry::Dead(why) => return Ok(SignIn::Dead(why)),
    };
    let goes_to = checked(app, return_to.as_deref());
    let given = app.cookies.signed_in(session, browser, stay);
    Ok(SignIn::Done(go_on(request, location(goes_to.as_ref()), given)))
}

async fn lives(app: &App, session: &SessionToken) -> Result<bool, Error> {
    Ok(app.store.session(&session.hash(), app.clock.now(), app.config.session_idle).await?.is_some())
}

/// The session that this browser once got by the link is over, and stays so. Who has logged in to the
/// account anew since then goes where the link leads; others are told.
async fn ended(
    request: &HttpRequest,
    app: &App,
    signed_in: Option<SignedIn>,
    token: &LinkToken,
) -> Result<HttpResponse, Error> {
    match dead_link::error(DeadLink::Used, token, request, app, signed_in.as_ref()).await {
        Error::Link(_, WayOn::GoOn { location, .. }) => Ok(go_on(request, &location, Vec::new())),
        error => Err(error),
    }
}

/// Checked when it was asked for, and again now: the settings may have changed since.
pub fn checked(app: &App, return_to: Option<&str>) -> Option<ReturnTo> {
    return_to.and_then(|wish| app.return_policy.parse(wish))
}

/// Where a destination, or none, leads.
pub fn location(goes_to: Option<&ReturnTo>) -> &str {
    goes_to.map_or(HOME, ReturnTo::as_str)
}

/// The answer to somebody who is signed in.
pub fn go_on(request: &HttpRequest, location: &str, given: Vec<Cookie<'static>>) -> HttpResponse {
    let mut answer = if wants_json(request) {
        HttpResponse::Ok().json(json!({ "status": "signed_in", "location": location }))
    } else {
        HttpResponse::Found().insert_header((LOCATION, location)).finish()
    };
    for cookie in given {
        cookies::set(&mut answer, &cookie);
    }
    answer
}
