//! One struct a template.

use actix_web::HttpResponse;
use actix_web::body::MessageBody;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use askama::Template;

use super::again::Again;
use super::cookies::Asked;
use crate::app::App;
use crate::domain::provider;
use crate::domain::return_to::ReturnTo;
use crate::error::{Error, Form, ShownOn, WayOn};
use crate::mail::Mail;
use crate::store::outbox::Purpose;

/// What every page shows.
#[derive(Clone, Copy)]
pub struct Layout<'a> {
    pub app: &'a str,
    /// What stands before each path: nothing on our own host.
    pub base: &'a str,
    pub style: &'a str,
    pub icon: &'a str,
    pub support: Option<&'a str>,
    /// Whether new accounts can be made.
    pub open: bool,
    /// Whether mail is not leaving. The same for everybody: nothing of whoever looks is in it.
    pub delayed: bool,
}

impl<'a> Layout<'a> {
    pub fn of(app: &'a App) -> Self {
        Self {
            app: &app.config.app_name,
            base: "",
            style: &app.assets.style,
            icon: &app.assets.icon,
            support: app.config.support_email.as_deref(),
            open: app.config.registration_open,
            delayed: app.health.is_delayed(),
        }
    }

    /// Of a page that a gateway shows in an app's place, under the app's name.
    fn abroad(app: &'a App) -> Self {
        Self { base: app.config.base_url.as_str().trim_end_matches('/'), ..Self::of(app) }
    }
}

/// Log in and register.
#[derive(Template)]
#[template(path = "ask.html")]
pub struct AskPage<'a> {
    pub layout: Layout<'a>,
    pub form: &'a Form,
    pub error: Option<&'a Problem>,
    pub notice: Option<&'a str>,
}

impl AskPage<'_> {
    fn registering(&self) -> bool {
        self.form.shown_on == ShownOn::Register
    }

    /// Carries the destination over to the other form.
    fn return_query(&self) -> String {
        return_query(self.form.return_to.as_ref())
    }
}

/// `?return_to=…`, or nothing.
pub fn return_query(return_to: Option<&ReturnTo>) -> String {
    let encoded = |to: &ReturnTo| form_urlencoded::byte_serialize(to.as_str().as_bytes()).collect::<String>();
    return_to.map(|to| format!("?return_to={}", encoded(to))).unwrap_or_default()
}

/// What is wrong, above the field.
pub struct Problem {
    pub sentence: String,
    /// Whether it is the typed address, or else a ceiling.
    pub in_field: bool,
}

#[derive(Template)]
#[template(path = "check_email.html")]
pub struct CheckEmailPage<'a> {
    pub layout: Layout<'a>,
    pub asked: Option<Asked>,
    pub lifetime: String,
    /// Whether the mails lie in the mailbox in the browser.
    pub mailbox: bool,
    /// What is wrong with a code.
    pub error: Option<Problem>,
    /// Whether, and how often, a link may be asked for once more.
    pub again: Again,
    /// The webmail that opens the address, and where.
    pub webmail: Option<(&'static str, &'static str)>,
    /// The address that was probably meant.
    pub meant: Option<String>,
}

impl<'a> CheckEmailPage<'a> {
    pub fn of(app: &'a App, asked: Option<Asked>, error: Option<Problem>) -> Self {
        let lifetime = crate::mail::messages::span(app.config.link_lifetime);
        let mailbox = matches!(app.mailer, crate::mail::Mailer::Mailbox(_));
        let again = asked.as_ref().map_or(Again::Unknown, |asked| Again::of(app, asked));
        let (user, domain) = asked.as_ref().and_then(|asked| asked.typed.rsplit_once('@')).unwrap_or_default();
        let domain = domain.to_ascii_lowercase();
        let meant = provider::meant(&domain).map(|meant| format!("{user}@{meant}"));
        let webmail = provider::webmail(&domain);
        Self { layout: Layout::of(app), asked, lifetime, mailbox, error, again, webmail, meant }
    }

    fn registering(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.purpose == Purpose::Register)
    }

    /// Carries the destination over to a form for another address.
    fn return_query(&self) -> String {
        return_query(self.asked.as_ref().and_then(|asked| asked.return_to.as_ref()))
    }
}

#[derive(Template)]
#[template(path = "confirm.html")]
pub struct ConfirmPage<'a> {
    pub layout: Layout<'a>,
    pub registering: bool,
    pub email: String,
    /// Where it leads, if that is another host.
    pub host: Option<String>,
    pub same_browser: bool,
    pub action: String,
    pub here: Here,
}

/// Who is logged in in the browser that looks at a link.
pub enum Here {
    Nobody,
    /// The link's own account.
    Same,
    Other {
        email: String,
        /// Where they go on to as who they are.
        location: String,
    },
}

impl ConfirmPage<'_> {
    fn same(&self) -> bool {
        matches!(self.here, Here::Same)
    }

    fn other(&self) -> bool {
        matches!(self.here, Here::Other { .. })
    }
}

#[derive(Template)]
#[template(path = "settings.html")]
pub struct SettingsPage<'a> {
    pub layout: Layout<'a>,
    pub email: String,
    pub devices: i64,
}

/// A link that doesn't work, with a way on.
#[derive(Template)]
#[template(path = "dead_link.html")]
pub struct DeadLinkPage<'a> {
    pub layout: Layout<'a>,
    pub title: &'a str,
    pub sentence: String,
    pub way_on: &'a WayOn,
}

#[derive(Template)]
#[template(path = "error.html")]
pub struct ErrorPage<'a> {
    pub layout: Layout<'a>,
    pub title: &'a str,
    pub sentence: String,
    /// Whether to say whom to ask.
    pub trouble: bool,
    /// Whether it is known that who reads it is signed in.
    pub signed_in: bool,
}

#[derive(Template)]
#[template(path = "mailbox.html")]
pub struct MailboxPage<'a> {
    pub layout: Layout<'a>,
    pub mails: Vec<Mail>,
}

#[derive(Template)]
#[template(path = "mail_page.html")]
pub struct MailPage<'a> {
    pub layout: Layout<'a>,
    pub mail: Mail,
}

/// The page of an error.
pub fn of_error(app: &App, error: &Error) -> HttpResponse {
    let layout = if let Error::Forbidden = error { Layout::abroad(app) } else { Layout::of(app) };
    let (title, sentence) = error.words(&app.config);
    match error {
        Error::TooMany(_, form) if form.is_plain() => app.plain_pages.refused(app, form.shown_on, &sentence),
        Error::TooMany(_, form) | Error::InvalidEmail(form) | Error::DomainNotAllowed(form)
            if form.shown_on != ShownOn::Alone =>
        {
            let in_field = !matches!(error, Error::TooMany(..));
            html(&AskPage { layout, form, error: Some(&Problem { sentence, in_field }), notice: None })
        }
        Error::Link(_, way_on) => html(&DeadLinkPage { layout, title, sentence, way_on }),
        _ => {
            let trouble = matches!(error, Error::Unavailable(_));
            let signed_in = matches!(error, Error::Forbidden);
            html(&ErrorPage { layout, title, sentence, trouble, signed_in })
        }
    }
}

/// A page with status 200. A template that can't be rendered is a 500.
pub fn html(page: &impl Template) -> HttpResponse {
    match page.render() {
        Ok(text) => of_text(text),
        Err(error) => unrendered(&error),
    }
}

/// A page that is rendered already.
pub fn of_text(text: impl MessageBody + 'static) -> HttpResponse {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    HttpResponse::Ok().insert_header((CONTENT_TYPE, html)).body(text)
}

pub fn unrendered(error: &askama::Error) -> HttpResponse {
    tracing::error!(%error, "a page can't be rendered");
    HttpResponse::InternalServerError().finish()
}
