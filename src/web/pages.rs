//! One struct a template.

use actix_web::HttpResponse;
use askama::Template;

use crate::app::App;
use crate::domain::return_to::ReturnTo;
use crate::error::{Error, Form, ShownOn};
use crate::mail::Mail;

/// What every page shows.
#[derive(Clone, Copy)]
pub struct Layout<'a> {
    pub app: &'a str,
    pub style: &'a str,
    pub icon: &'a str,
    pub support: Option<&'a str>,
    /// Whether new accounts can be made.
    pub open: bool,
}

impl<'a> Layout<'a> {
    pub fn of(app: &'a App) -> Self {
        Self {
            app: &app.config.app_name,
            style: &app.assets.style,
            icon: &app.assets.icon,
            support: app.config.support_email.as_deref(),
            open: app.config.registration_open,
        }
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
        let encoded = |to: &ReturnTo| form_urlencoded::byte_serialize(to.as_str().as_bytes()).collect::<String>();
        self.form.return_to.as_ref().map(|to| format!("?return_to={}", encoded(to))).unwrap_or_default()
    }
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
    pub typed: Option<String>,
    pub registering: bool,
    pub lifetime: String,
    /// Whether the mails lie in the mailbox in the browser.
    pub mailbox: bool,
}

#[derive(Template)]
#[template(path = "confirm.html")]
pub struct ConfirmPage<'a> {
    pub layout: Layout<'a>,
    pub registering: bool,
    pub email: String,
    pub host: Option<String>,
    pub same_browser: bool,
    pub action: String,
}

#[derive(Template)]
#[template(path = "settings.html")]
pub struct SettingsPage<'a> {
    pub layout: Layout<'a>,
    pub email: String,
    pub devices: i64,
}

/// A link that doesn't work, with a form to get a new one.
#[derive(Template)]
#[template(path = "dead_link.html")]
pub struct DeadLinkPage<'a> {
    pub layout: Layout<'a>,
    pub title: &'a str,
    pub sentence: String,
    /// The address this browser last asked for, if it did.
    pub typed: String,
}

#[derive(Template)]
#[template(path = "error.html")]
pub struct ErrorPage<'a> {
    pub layout: Layout<'a>,
    pub title: &'a str,
    pub sentence: String,
    /// Whether to say whom to ask.
    pub trouble: bool,
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
pub fn of_error(app: &App, error: &Error, typed: String) -> HttpResponse {
    let layout = Layout::of(app);
    let (title, sentence) = error.words();
    match error {
        Error::TooMany(_, form) | Error::InvalidEmail(form) | Error::DomainNotAllowed(form)
            if form.shown_on != ShownOn::Alone =>
        {
            let in_field = !matches!(error, Error::TooMany(..));
            html(&AskPage { layout, form, error: Some(&Problem { sentence, in_field }), notice: None })
        }
        Error::Link(_) => html(&DeadLinkPage { layout, title, sentence, typed }),
        _ => {
            let trouble = matches!(error, Error::Unavailable(_));
            html(&ErrorPage { layout, title, sentence, trouble })
        }
    }
}

/// A page with status 200. A template that can't be rendered is a 500.
pub fn html(page: &impl Template) -> HttpResponse {
    match page.render() {
        Ok(text) => HttpResponse::Ok().content_type("text/html; charset=utf-8").body(text),
        Err(error) => {
            tracing::error!(%error, "a page can't be rendered");
            HttpResponse::InternalServerError().finish()
        }
    }
}
