//! The admin listener: what monitoring asks. Never throttled, and on loopback unless the operator says
//! otherwise.

use actix_web::{HttpResponse, web};
use serde_json::json;

use super::Shared;

/// The admin listener's routes.
pub fn routes(table: &mut web::ServiceConfig) {
    table.route("/metrics", web::get().to(metrics)).route("/ready", web::get().to(ready));
}

async fn metrics(app: Shared) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
        .body(app.metrics.render())
}

/// Whether a link that somebody asks for now would reach them: the database takes rows, and mail is
/// leaving. If not, what to change.
async fn ready(app: Shared) -> HttpResponse {
    let database = app.store.check(app.clock.now()).await.err().map(|error| ("database", error.to_string()));
    let mail = app.health.reasons().into_iter().map(|reason| ("mail", reason));
    let reasons: Vec<_> = database.into_iter().chain(mail).collect();
    if reasons.is_empty() {
        return HttpResponse::Ok().json(json!({ "status": "ready" }));
    }
    let reasons: Vec<_> = reasons.iter().map(|(part, reason)| json!({ "part": part, "reason": reason })).collect();
    HttpResponse::ServiceUnavailable().json(json!({ "status": "unready", "reasons": reasons }))
}
