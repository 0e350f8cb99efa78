//! Is it up, what isn't there, and the one line per request.

use std::time::Duration;

use actix_web::dev::ServiceResponse;
use actix_web::http::Method;
use actix_web::{HttpResponse, Responder};
use serde_json::json;

use super::client::Client;
use crate::app::App;
use crate::clock::Micros;
use crate::error::Error;
use crate::throttle::Refusal;

/// Never throttled.
pub async fn health() -> impl Responder {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

pub async fn not_found() -> Result<HttpResponse, Error> {
    Err(Error::NotFound)
}

pub async fn method_not_allowed() -> Result<HttpResponse, Error> {
    Err(Error::MethodNotAllowed)
}

/// Counts an answer and logs it. The route's pattern and not its path: paths hold link tokens, and
/// whatever a stranger wrote.
pub fn note(answer: &ServiceResponse, app: &App, client: Client, started: Micros) {
    let took = Duration::from_micros(app.clock.monotonic() - started);
    let route = answer.request().match_pattern().unwrap_or_else(|| "-".to_owned());
    let status = answer.status().as_u16();
    let method = known_method(answer.request().method());
    let (micros, network) = (took.as_micros() as u64, client.key.short());
    let network = network.as_str();
    match answer.response().extensions().get::<Refusal>() {
        // The one line of a refused request: a flood is written down once a request and not twice.
        Some(refusal) => {
            let (counter, retry_after) = (refusal.counter.name(), refusal.retry_after_seconds());
            tracing::info!(method, route, status, micros, network, counter, retry_after, "refused");
        }
        None => tracing::info!(method, route, status, micros, network, "request"),
    }
    app.metrics.answered(route, status, took);
}

/// A method's name, if it is one of the usual: any other is a stranger's text.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
