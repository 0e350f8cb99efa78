//! The mailbox in the browser, for whoever tries Doorpost out on their own machine.

use actix_web::http::header::{CONTENT_SECURITY_POLICY, HOST};
use actix_web::web::{Path, Query};
use actix_web::{HttpRequest, HttpResponse};
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::client::Client;
use super::pages::{Layout, MailPage, MailboxPage, html};
use super::{Shared, wants_json};
use crate::app::App;
use crate::config::values::is_loopback;
use crate::error::Error;
use crate::mail::{Mail, Mailbox, Mailer};

/// `?part=html` shows a mail's HTML as a mail program would.
#[derive(Debug, Deserialize)]
pub struct PartQuery {
    part: Option<String>,
}

pub async fn list_page(request: HttpRequest, app: Shared, client: Client) -> Result<HttpResponse, Error> {
    let mails = mailbox(&app, &request, client)?.list();
    if wants_json(&request) {
        return Ok(HttpResponse::Ok().json(mails.iter().map(describe).collect::<Vec<_>>()));
    }
    Ok(html(&MailboxPage { layout: Layout::of(&app), mails }))
}

pub async fn mail_page(
    request: HttpRequest,
    app: Shared,
    client: Client,
    id: Path<String>,
    query: Option<Query<PartQuery>>,
) -> Result<HttpResponse, Error> {
    let mail = mailbox(&app, &request, client)?.find(&id).ok_or(Error::NotFound)?;
    if wants_json(&request) {
        return Ok(HttpResponse::Ok().json(describe(&mail)));
    }
    if query.is_some_and(|query| query.part.as_deref() == Some("html")) {
        // A mail brings its styles along, as it must.
        let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
        return Ok(HttpResponse::Ok()
            .insert_header((CONTENT_SECURITY_POLICY, policy))
            .content_type("text/html; charset=utf-8")
            .body(mail.html));
    }
    Ok(html(&MailPage { layout: Layout::of(&app), mail }))
}

/// Other people's links lie in it: only this machine may look, whatever `BIND` says, and under a name of
/// this machine (DNS rebinding: another site's name may lead here too).
fn mailbox<'a>(app: &'a App, request: &HttpRequest, client: Client) -> Result<&'a Mailbox, Error> {
    let host = request.headers().get(HOST).and_then(|host| Url::parse(&format!("http://{}", host.to_str().ok()?)).ok());
    let ours = client.address.is_loopback() && host.is_none_or(|host| is_loopback(&host));
    match &app.mailer {
        Mailer::Mailbox(mailbox) if ours => Ok(mailbox),
        _ => Err(Error::NotFound),
    }
}

fn describe(mail: &Mail) -> serde_json::Value {
    json!({
        "id": mail.id,
        "to": mail.to,
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "link": mail.link,
        "sent_at": mail.sent_at,
    })
}
