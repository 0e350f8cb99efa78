//! The code of the mail, typed in the browser that asked.

use actix_web::http::header::LOCATION;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, Responder};

use super::Shared;
use super::body::{self, Fields};
use super::client::Client;
use super::link::{SignIn, checked, go_on, location, sign_in};
use super::session::SignedIn;
use crate::app::App;
use crate::domain::code::Code;
use crate::domain::token::{BrowserSecret, Hash};
use crate::error::{Error, Form, ShownOn};
use crate::store::codes::Candidate;

/// Somebody reloads the address of the form: it stands on the page before.
pub async fn to_form() -> impl Responder {
    HttpResponse::Found().insert_header((LOCATION, "/users/check-email")).finish()
}

/// Takes a code once and starts a session. Wrong, unknown and exhausted codes run the same statements and
/// read the same.
pub async fn enter(
    request: HttpRequest,
    app: Shared,
    client: Client,
    signed_in: Option<SignedIn>,
    payload: Payload,
) -> Result<HttpResponse, Error> {
    let body = body::read(payload).await?;
    // Code guessing: counted by what this very browser has asked for, whatever its cookies say.
    let (browser, _) = app.cookies.browser_of(&request, &app);
    let inboxes = app.store.inboxes_of(&browser.hash()).await?;
    let allowed = app.throttle.code((client.network, client.key), &inboxes).await;
    allowed.map_err(|refusal| Error::TooMany(refusal, Form { shown_on: ShownOn::CheckEmail, ..Form::default() }))?;
    let fields = Fields::parse(&request, &body)?;
    // What can't be a code isn't looked for, whoever types it.
    let code = fields.get("code").and_then(Code::parse).ok_or(Error::CodeWrong)?;
    let link = find(&app, &code, &browser).await?.ok_or(Error::CodeWrong)?;
    let session = code.session(&browser, &link);
    match sign_in(&request, &app, &link, (&browser, &session), ("code", fields.stay())).await? {
        SignIn::Done(answer) => Ok(answer),
        // The link of the same mail was faster, in this very browser.
        SignIn::Ended { return_to } if is_for(&app, &link, signed_in.as_ref()).await? => {
            Ok(go_on(&request, location(checked(&app, return_to.as_deref()).as_ref()), Vec::new()))
        }
        SignIn::Ended { .. } | SignIn::Dead(_) => Err(Error::CodeWrong),
    }
}

/// Whether it is the account of this link that somebody is signed in to.
async fn is_for(app: &App, link: &Hash, signed_in: Option<&SignedIn>) -> Result<bool, Error> {
    let Some(SignedIn(session)) = signed_in else { return Ok(false) };
    Ok(app.store.recall_link(link).await?.is_some_and(|link| link.email == session.user.email))
}

/// The link whose code it is. Code guessing: the try is counted before it is looked at.
async fn find(app: &App, code: &Code, browser: &BrowserSecret) -> Result<Option<Hash>, Error> {
    let browser = browser.hash();
    let fits =
        |candidate: &Candidate| code.fits(&candidate.digest, &app.code_key, browser.as_str(), candidate.link.as_str());
    Ok(app.store.try_codes(&browser, app.clock.now(), fits).await?)
}
