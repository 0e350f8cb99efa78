//! A link that doesn't work: what this browser may be offered in its place.

use actix_web::HttpRequest;

use super::cookies::Asked;
use super::link::{checked, location};
use super::session::SignedIn;
use crate::app::App;
use crate::domain::token::LinkToken;
use crate::error::{Error, WayOn};
use crate::store::links::{DeadLink, Link};
use crate::store::outbox::Purpose;

/// The answer to what can't be a link of ours.
pub fn malformed(request: &HttpRequest, app: &App) -> Error {
    Error::Link(DeadLink::Unknown, way_on(DeadLink::Unknown, None, request, app, None))
}

/// The answer to a dead link.
pub async fn error(
    why: DeadLink,
    token: &LinkToken,
    request: &HttpRequest,
    app: &App,
    signed_in: Option<&SignedIn>,
) -> Error {
    match app.store.recall_link(&token.hash()).await {
        Ok(was) => Error::Link(why, way_on(why, was, request, app, signed_in)),
        Err(error) => Error::Unavailable(error),
    }
}

fn way_on(why: DeadLink, was: Option<Link>, request: &HttpRequest, app: &App, signed_in: Option<&SignedIn>) -> WayOn {
    let used = why == DeadLink::Used;
    if let (true, Some(link), Some(SignedIn(session))) = (used, &was, signed_in)
        && session.user.email == link.email
    {
        let goes_to = checked(app, link.return_to.as_deref());
        return WayOn::GoOn { email: link.email.clone(), location: location(goes_to.as_ref()).to_owned() };
    }
    let known = was.and_then(|link| of_its_own(link, used, request, app));
    known
        .or_else(|| app.cookies.asked_of(request, &app.return_policy).map(|asked| of_the_last(asked, used, app)))
        .unwrap_or_default()
}

/// The browser that asked for the link, or used it, knows the address. To any other a dead link says
/// nothing of whose it was.
fn of_its_own(link: Link, used: bool, request: &HttpRequest, app: &App) -> Option<WayOn> {
    let browser = app.cookies.known_browser(request)?.hash();
    let logged_out = link.used_browser.as_deref() == Some(browser.as_str());
    (logged_out || link.browser == browser.as_str()).then(|| WayOn::NewLink {
        registering: registers(link.purpose, used, app),
        return_to: checked(app, link.return_to.as_deref()),
        email: link.email,
        logged_out,
    })
}

/// What this browser asked for last, which may have been another link.
fn of_the_last(asked: Asked, used: bool, app: &App) -> WayOn {
    WayOn::NewLink {
        registering: registers(asked.purpose, used, app),
        email: asked.typed,
        return_to: asked.return_to,
        logged_out: false,
    }
}

/// Whoever used a link has an account.
fn registers(purpose: Purpose, used: bool, app: &App) -> bool {
    purpose == Purpose::Register && !used && app.config.registration_open
}
