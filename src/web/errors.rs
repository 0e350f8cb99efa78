//! Errors as pages or JSON: the one place where an error meets the request it answers.

use actix_web::HttpResponse;
use actix_web::ResponseError;
use actix_web::dev::ServiceResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, CONTENT_SECURITY_POLICY, LOCATION, RETRY_AFTER};
use serde_json::json;

use super::{pages, wants_json};
use crate::app::App;
use crate::domain::return_to::{self, ReturnTo};
use crate::error::{Error, WayOn};

/// Writes the page or the JSON of an answer that is an error; leaves any other as it is.
pub fn render(answer: ServiceResponse, app: &App) -> ServiceResponse {
    let Some(error) = answer.response().error().map(known) else { return answer };
    error.log();
    let request = answer.request();
    let mut response = if wants_json(request) {
        as_json(error, app)
    } else if let Error::Unauthenticated = error {
        to_log_in(request.uri().path_and_query().map_or("/", |path| path.as_str()))
    } else if error.is_of_the_code() {
        let sentence = error.words(&app.config).1;
        let problem = pages::Problem { sentence, in_field: matches!(error, Error::CodeWrong) };
        let asked = app.cookies.asked_of(request, &app.return_policy);
        pages::html(&pages::CheckEmailPage::of(app, asked, Some(problem)))
    } else {
        pages::of_error(app, error)
    };
    if response.status() == StatusCode::OK {
        *response.status_mut() = error.status_code();
    }
    if let Error::TooMany(refusal, _) = error {
        response.headers_mut().insert(RETRY_AFTER, refusal.retry_after_seconds().into());
        response.extensions_mut().insert(*refusal);
    }
    if let Error::Forbidden = error {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, app.headers.abroad.clone());
    }
    if let Error::MethodNotAllowed = error {
        let allowed = allowed_methods(request.match_pattern().as_deref());
        response.headers_mut().insert(ALLOW, allowed);
    }
    if matches!(error, Error::BodyTooLarge | Error::BodyBroken | Error::TooSlow) {
        // The rest of the body is not worth reading.
        response.head_mut().set_connection_type(actix_web::http::ConnectionType::Close);
    }
    answer.into_response(response)
}

/// An error of ours, or one of actix-web's own extractors, which is a client's odd request.
fn known(error: &actix_web::Error) -> &Error {
    error.as_error::<Error>().unwrap_or(&Error::NotFound)
}

fn as_json(error: &Error, app: &App) -> HttpResponse {
    let (_, message) = error.words(&app.config);
    let details = match error {
        Error::TooMany(refusal, _) => json!({
            "scope": refusal.counter.scope(),
            "limit": refusal.limit,
            "window_seconds": refusal.window.as_secs(),
            "retry_after_seconds": refusal.retry_after_seconds(),
        }),
        Error::Link(_, WayOn::GoOn { email, location }) => json!({ "signed_in_as": email, "location": location }),
        Error::Link(_, WayOn::NewLink { email, return_to, .. }) => {
            json!({ "email": email, "return_to": return_to.as_ref().map(ReturnTo::as_str) })
        }
        _ => json!({}),
    };
    let error_body = json!({ "code": error.code(), "message": message, "details": details });
    HttpResponse::Ok().json(json!({ "error": error_body }))
}

/// A program's answer, whatever it accepts.
pub fn plain(error: &Error, app: &App) -> HttpResponse {
    let mut answer = as_json(error, app);
    *answer.status_mut() = error.status_code();
    answer
}

/// A page that needs a session: to the log-in page, and back afterwards.
fn to_log_in(wanted: &str) -> HttpResponse {
    // A destination longer than any we take back only makes an answer that proxies refuse.
    let wanted = if wanted.len() <= return_to::MAX_BYTES { wanted } else { "/" };
    let query: String = form_urlencoded::byte_serialize(wanted.as_bytes()).collect();
    HttpResponse::Found().insert_header((LOCATION, format!("/users/log-in?return_to={query}"))).finish()
}

fn allowed_methods(route: Option<&str>) -> actix_web::http::header::HeaderValue {
    actix_web::http::header::HeaderValue::from_static(match route {
        Some("/users/log-in" | "/users/register" | "/users/log-in/code" | "/users/log-in/{token}") => "GET, HEAD, POST",
        Some("/users/log-out") => "POST",
        _ => "GET, HEAD",
    })
}
