//! Asking for a link, to log in or to register. The straight way: address, counters, one row, answer.
//! Nothing here looks an account up, so there is nothing to leak.

use actix_web::http::header::LOCATION;
use actix_web::web::{Payload, Query};
use actix_web::{HttpRequest, HttpResponse, Responder};
use serde::Deserialize;
use serde_json::json;

use super::body::{self, Fields};
use super::client::Client;
use super::cookies::{self, Asked};
use super::pages::{AskPage, CheckEmailPage, Layout};
use super::{Shared, again, agent_of, wants_json};
use crate::app::App;
use crate::clock::Millis;
use crate::domain::email::Email;
use crate::domain::return_to::ReturnTo;
use crate::error::{Error, Form, ShownOn};
use crate::store::outbox::{NewMail, Purpose};

/// What the log-in and register pages take in their address.
#[derive(Debug, Default, Deserialize)]
pub struct AskQuery {
    return_to: Option<String>,
    logged_out: Option<String>,
}

pub async fn log_in_page(request: HttpRequest, app: Shared, query: Option<Query<AskQuery>>) -> impl Responder {
    ask_page(&request, &app, ShownOn::LogIn, query)
}

pub async fn register_page(request: HttpRequest, app: Shared, query: Option<Query<AskQuery>>) -> HttpResponse {
    if app.config.registration_open {
        return ask_page(&request, &app, ShownOn::Register, query);
    }
    // Nothing went wrong: the page says so. Only a POST is refused.
    if wants_json(&request) {
        return HttpResponse::Ok().json(json!({ "registration": "closed" }));
    }
    super::pages::of_error(&app, &Error::RegistrationClosed)
}

fn ask_page(request: &HttpRequest, app: &App, shown_on: ShownOn, query: Option<Query<AskQuery>>) -> HttpResponse {
    let query = query.map(Query::into_inner).unwrap_or_default();
    let return_to = query.return_to.and_then(|wish| app.return_policy.parse(&wish));
    let form = Form { typed: String::new(), return_to, shown_on };
    if wants_json(request) {
        let return_to = form.return_to.as_ref().map(ReturnTo::as_str);
        let fields = ["email", "return_to"];
        return HttpResponse::Ok().json(json!({ "method": "POST", "fields": fields, "return_to": return_to }));
    }
    let mut page = if form.return_to.is_none() && query.logged_out.is_none() {
        app.plain_pages.of(app, shown_on)
    } else {
        let notice = query.logged_out.is_some().then_some("You're logged out on this device.");
        super::pages::html(&AskPage { layout: Layout::of(app), form: &form, error: None, notice })
    };
    // Known before it asks: a double click must not make two browsers of one, each with a code of its own.
    app.cookies.introduce(request, app, &mut page);
    page
}

pub async fn log_in(
    request: HttpRequest,
    app: Shared,
    client: Client,
    payload: Payload,
) -> Result<HttpResponse, Error> {
    ask(Purpose::LogIn, &request, &app, client, payload).await
}

pub async fn register(
    request: HttpRequest,
    app: Shared,
    client: Client,
    payload: Payload,
) -> Result<HttpResponse, Error> {
    ask(Purpose::Register, &request, &app, client, payload).await
}

async fn ask(
    purpose: Purpose,
    request: &HttpRequest,
    app: &App,
    client: Client,
    payload: Payload,
) -> Result<HttpResponse, Error> {
    let body = body::read(payload).await?;
    app.watch.asked(client, app);
    let fields = Fields::parse(request, &body);
    let form = form_of(purpose, app, fields.as_ref().ok());
    if let Err(refusal) = app.throttle.still_refused((client.network, client.key)) {
        return Err(Error::TooMany(refusal, form));
    }
    let wish = fields.and_then(|fields| Wish::read(purpose, app, &fields, &form));
    let email = wish.as_ref().ok().map(|wish| &wish.email);
    // Whatever was sent, it spends the network's counters; the inbox's only if all was well.
    let allowed = app.throttle.ask((client.network, client.key), email).await;
    allowed.map_err(|refusal| Error::TooMany(refusal, form))?;
    enqueue(wish?, request, app, client).await
}

/// The form as it was sent, without the address, which a refusal never repeats.
fn form_of(purpose: Purpose, app: &App, fields: Option<&Fields>) -> Form {
    let wish = fields.and_then(|fields| fields.get("return_to"));
    let shown_on = match purpose {
        Purpose::LogIn => ShownOn::LogIn,
        Purpose::Register => ShownOn::Register,
    };
    Form { typed: String::new(), return_to: wish.and_then(|wish| app.return_policy.parse(wish)), shown_on }
}

/// What a person wants, read and checked.
struct Wish {
    purpose: Purpose,
    email: Email,
    typed: String,
    return_to: Option<ReturnTo>,
}

impl Wish {
    fn read(purpose: Purpose, app: &App, fields: &Fields, form: &Form) -> Result<Self, Error> {
        if purpose == Purpose::Register && !app.config.registration_open {
            return Err(Error::RegistrationClosed);
        }
        let text = fields.get("email").unwrap_or_default();
        let typed = text.trim().to_owned();
        let Ok(email) = Email::parse(text) else {
            return Err(Error::InvalidEmail(Form { typed, ..form.clone() }));
        };
        let domains = &app.config.registration_domains;
        let allowed = domains.is_empty() || domains.iter().any(|domain| domain.matches(email.domain()));
        if purpose == Purpose::Register && !allowed {
            return Err(Error::DomainNotAllowed(Form { typed, ..form.clone() }));
        }
        Ok(Self { purpose, email, typed, return_to: form.return_to.clone() })
    }
}

/// One row, the same for a known and an unknown address, durable before the answer.
async fn enqueue(wish: Wish, request: &HttpRequest, app: &App, client: Client) -> Result<HttpResponse, Error> {
    let (secret, new_browser) = app.cookies.browser_of(request, app);
    let now = app.clock.now();
    let inbox = app.throttle.keys().inbox(&wish.email);
    let mail = NewMail {
        purpose: wish.purpose,
        browser: secret.hash(),
        inbox: app.code_key.inbox(&wish.email),
        agent: agent_of(request),
        return_to: wish.return_to.clone(),
        email: wish.email,
        asked_at: now,
        deadline_at: now + app.config.link_lifetime.as_millis() as Millis,
    };
    app.store.enqueue(mail).await?;
    app.wake.notify_one();
    tracing::info!(
        purpose = wish.purpose.text(),
        network = client.key.short().as_str(),
        inbox = inbox.short().as_str(),
        "asked"
    );
    let mut answer = if wants_json(request) {
        HttpResponse::Accepted().json(json!({ "status": "check_email" }))
    } else {
        HttpResponse::Found().insert_header((LOCATION, "/users/check-email")).finish()
    };
    let times = again::times(request, app, inbox, now);
    let asked = Asked { purpose: wish.purpose, typed: wish.typed, return_to: wish.return_to, times };
    let asked = app.cookies.asked(&asked);
    for cookie in new_browser.into_iter().chain([asked]) {
        cookies::set(&mut answer, &cookie);
    }
    Ok(answer)
}

/// "Check your email": the same for an address with an account and one without.
pub async fn check_email_page(request: HttpRequest, app: Shared) -> impl Responder {
    let asked = app.cookies.asked_of(&request, &app.return_policy);
    if wants_json(&request) {
        let email = asked.map(|asked| asked.typed);
        return HttpResponse::Ok().json(json!({ "status": "check_email", "email": email }));
    }
    super::pages::html(&CheckEmailPage::of(&app, asked, None))
}
