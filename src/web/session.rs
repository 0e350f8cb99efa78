//! Who is signed in: looked up once by the guard, asked for by the pages that need it.

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest};

use crate::app::App;
use crate::error::Error;
use crate::store::sessions::Session;

/// A live session. As a handler's argument it turns everybody else away to the log-in page.
#[derive(Clone, Debug)]
pub struct SignedIn(pub Arc<Session>);

impl SignedIn {
    /// The live session of the request's cookie. Without a cookie nothing is asked.
    pub async fn look_up(request: &HttpRequest, app: &App) -> Result<Option<Self>, Error> {
        for token in app.cookies.sessions_of(request) {
            let session = app.sessions.look_up(token, app).await?;
            if session.is_some() {
                return Ok(session.map(Self));
            }
        }
        Ok(None)
    }
}

impl FromRequest for SignedIn {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(request.extensions().get::<Self>().cloned().ok_or(Error::Unauthenticated))
    }
}
