//! The account page, and the ways out.

use actix_web::http::header::LOCATION;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, Responder};
use serde_json::json;

use super::body::{self, Fields};
use super::link::HOME;
use super::pages::{Layout, SettingsPage, html};
use super::session::SignedIn;
use super::{Shared, cookies, wants_json};
use crate::error::Error;

/// `/`: to the account page when signed in, else to the log-in page.
pub async fn home(signed_in: Option<SignedIn>) -> impl Responder {
    let location = if signed_in.is_some() { HOME } else { "/users/log-in" };
    HttpResponse::Found().insert_header((LOCATION, location)).finish()
}

pub async fn settings_page(
    request: HttpRequest,
    app: Shared,
    SignedIn(session): SignedIn,
) -> Result<HttpResponse, Error> {
    let user = &session.user;
    let devices = app.store.count_sessions(&user.id, app.clock.now(), app.config.session_idle).await?;
    if wants_json(&request) {
        return Ok(HttpResponse::Ok().json(json!({ "id": user.id, "email": user.email, "devices": devices })));
    }
    Ok(html(&SettingsPage { layout: Layout::of(&app), email: user.email.clone(), devices }))
}

/// Ends the session on the server, or with the field `everywhere` all of the account's. Somebody who
/// isn't signed in any more gets the same answer: what they want is true.
pub async fn log_out(
    request: HttpRequest,
    app: Shared,
    signed_in: Option<SignedIn>,
    payload: Payload,
) -> Result<HttpResponse, Error> {
    let body = body::read(payload).await?;
    let everywhere = Fields::parse(&request, &body)?.get("everywhere").is_some_and(|value| value != "false");
    if let Some(SignedIn(session)) = signed_in {
        if everywhere {
            app.store.end_all_sessions(&session.user.id).await?;
        }
        for token in app.cookies.sessions_of(&request) {
            app.store.end_session(&token.hash()).await?;
        }
        app.sessions.ended();
        tracing::info!(user = session.user.id, everywhere, "signed out");
    }
    let mut answer = if wants_json(&request) {
        HttpResponse::Ok().json(json!({ "status": "signed_out" }))
    } else {
        HttpResponse::Found().insert_header((LOCATION, "/users/log-in?logged_out=1")).finish()
    };
    // On a shared computer, the next person isn't shown the address either.
    for cookie in [app.cookies.no_session(), app.cookies.no_asked()] {
        cookies::set(&mut answer, &cookie);
    }
    Ok(answer)
}
