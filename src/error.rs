//! Each error's audience. The only place that knows status, code, words and log level.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};

use crate::config::Config;
use crate::domain::return_to::ReturnTo;
use crate::mail::messages::span;
use crate::store::StoreError;
use crate::store::links::DeadLink;
use crate::throttle::Refusal;

/// What a visitor is told in place of what was asked for.
#[derive(Debug)]
pub enum Error {
    TooMany(Refusal, Form),
    InvalidEmail(Form),
    DomainNotAllowed(Form),
    RegistrationClosed,
    BodyTooLarge,
    BodyBroken,
    TooSlow,
    UnsupportedMediaType,
    CrossOrigin,
    CodeWrong,
    Link(DeadLink, WayOn),
    Unauthenticated,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Unavailable(StoreError),
}

/// The form an error is shown on, as it was filled in.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// Kept after an address that couldn't be read; never repeated on a refusal.
    pub typed: String,
    pub return_to: Option<ReturnTo>,
    pub shown_on: ShownOn,
}

impl Form {
    /// Nothing in it but whose form it is.
    pub fn is_plain(&self) -> bool {
        matches!(self.shown_on, ShownOn::LogIn | ShownOn::Register) && self.typed.is_empty() && self.return_to.is_none()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShownOn {
    LogIn,
    Register,
    /// Of what this browser asked for last.
    CheckEmail,
    /// A page of its own.
    #[default]
    Alone,
}

/// What somebody with a dead link is offered, by what their browser may know.
#[derive(Clone, Debug, Default)]
pub enum WayOn {
    /// A field for the address.
    #[default]
    Field,
    /// A new link in one press.
    NewLink {
        email: String,
        /// Whether by the registration's form.
        registering: bool,
        return_to: Option<ReturnTo>,
        /// This very browser used the link, and isn't logged in by it any more.
        logged_out: bool,
    },
    /// No new link is needed: this browser is logged in to that very account.
    GoOn { email: String, location: String },
}

impl Error {
    /// The code that programs read.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooMany(..) => "rate_limit_exceeded",
            Self::InvalidEmail(_) => "invalid_email",
            Self::DomainNotAllowed(_) => "domain_not_allowed",
            Self::RegistrationClosed => "registration_closed",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyBroken => "body_broken",
            Self::TooSlow => "request_timeout",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::CrossOrigin => "cross_origin",
            Self::CodeWrong => "code_wrong",
            Self::Link(DeadLink::Used, _) => "link_used",
            Self::Link(DeadLink::Expired, _) => "link_expired",
            Self::Link(DeadLink::Unknown, _) => "link_unknown",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::Unavailable(_) => "unavailable",
        }
    }

    /// Whether it stands on the page where codes are typed.
    pub fn is_of_the_code(&self) -> bool {
        match self {
            Self::CodeWrong => true,
            Self::TooMany(_, form) => form.shown_on == ShownOn::CheckEmail,
            _ => false,
        }
    }

    /// Title and sentence of the page, and the message of the JSON.
    pub fn words(&self, config: &Config) -> (&'static str, String) {
        let (title, sentence) = match self {
            Self::TooMany(refusal, _) => return ("Too many attempts", too_many(refusal)),
            Self::CrossOrigin => {
                let sentence = format!("Open {} directly and try again.", config.app_name);
                return ("We couldn't check where this came from", sentence);
            }
            Self::Link(DeadLink::Expired, _) => {
                return ("This link is too old", format!("Links work for {}.", span(config.link_lifetime)));
            }
            Self::InvalidEmail(_) => ("Error", "Enter an e-mail address like name@school.edu"),
            Self::CodeWrong => {
                ("Error", "That code isn't right, or it's too old. Check the newest e-mail, or send a new one.")
            }
            Self::DomainNotAllowed(_) => {
                ("Error", "Use your school's e-mail address. Others can't create an account here.")
            }
            Self::RegistrationClosed => ("New accounts are closed", "No new accounts can be created here right now."),
            Self::BodyTooLarge => ("That was too much", "What was sent is too long. Go back and try again with less."),
            Self::BodyBroken => ("That broke off", "Not all of it arrived. Please try again."),
            Self::TooSlow => ("That took too long", "Your connection was too slow. Please try again."),
            Self::UnsupportedMediaType => ("We couldn't read that", "Send a form or JSON."),
            Self::Link(DeadLink::Used, way_on) => ("This link was already used", used(way_on)),
            Self::Link(DeadLink::Unknown, _) => (
                "This link doesn't work",
                "Part of it may be missing. Open it from the e-mail again, or get a new one.",
            ),
            Self::Unauthenticated => ("Please log in", "You need to log in to see this."),
            Self::Forbidden => {
                ("You can't see this", "Your account may not open this page. Ask whoever looks after it.")
            }
            Self::NotFound => ("There's nothing here", "Check the address, or start at the log-in page."),
            Self::MethodNotAllowed => ("That can't be done here", "Start at the log-in page."),
            Self::Unavailable(_) => ("We can't do this right now", "Nothing was lost. Please try again in a minute."),
        };
        (title, sentence.to_owned())
    }

    /// One line in the log for what the operator should know; a refusal stands on its request's line, and
    /// the rest shows as its status only.
    pub fn log(&self) {
        if let Self::Unavailable(cause) = self {
            tracing::error!(%cause, "a request could not be served");
        }
    }
}

fn used(way_on: &WayOn) -> &'static str {
    match way_on {
        WayOn::GoOn { .. } => "Each link works once. You don't need a new one here.",
        WayOn::NewLink { logged_out: true, .. } => {
            "You logged in with it here before, and you've been logged out since. To log in again, get a new one."
        }
        _ => "Each link works once. Are you logged in on another device? If you need to log in here, get a new one.",
    }
}

fn too_many(refusal: &Refusal) -> String {
    match refusal.retry_after_minutes() {
        1 => "Too many attempts. Please try again in about 1 minute.".to_owned(),
        minutes => format!("Too many attempts. Please try again in about {minutes} minutes."),
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl ResponseError for Error {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::TooMany(..) => StatusCode::TOO_MANY_REQUESTS,
            Self::InvalidEmail(_) | Self::DomainNotAllowed(_) | Self::CodeWrong => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RegistrationClosed | Self::CrossOrigin => StatusCode::FORBIDDEN,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyBroken => StatusCode::BAD_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Link(..) => StatusCode::GONE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The bare status: `web::errors` writes the page or the JSON, which need the request.
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status_code())
    }
}
