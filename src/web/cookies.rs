//! The three cookies: the session, which browser this is, and what it last asked for.

use actix_web::cookie::{Cookie, SameSite, time::Duration};
use actix_web::http::header::{COOKIE, HeaderValue, SET_COOKIE};
use actix_web::{HttpRequest, HttpResponse};
use data_encoding::BASE64URL_NOPAD;

use crate::app::App;
use crate::clock::Millis;
use crate::config::Config;
use crate::domain::email::Email;
use crate::domain::return_to::{ReturnPolicy, ReturnTo};
use crate::domain::token::{BrowserSecret, SessionToken};
use crate::store::outbox::Purpose;

/// How long a browser is known again. The longest that browsers keep a cookie.
const BROWSER_DAYS: i64 = 400;

/// Stands for a browser's secret.
const SECRET: &str = "SECRET";

/// How many cookies of the session's name are looked at.
const MOST_SESSIONS: usize = 4;

/// How many times of asking are remembered.
pub const MOST_TIMES: usize = 10;

/// Names and attributes, which follow from `BASE_URL` and `COOKIE_DOMAIN`.
pub struct Cookies {
    session: String,
    browser: String,
    asked: String,
    secure: bool,
    domain: Option<String>,
    session_seconds: i64,
    asked_seconds: i64,
    /// A browser's cookie, cut where its secret stands.
    introduction: [String; 2],
}

/// What this browser last asked for: shown on the check-email page, so that a typo is seen.
#[derive(Clone, Debug)]
pub struct Asked {
    pub purpose: Purpose,
    /// As typed. It was an address when the cookie was set, and is checked again when read.
    pub typed: String,
    /// Where the person was going.
    pub return_to: Option<ReturnTo>,
    /// When this browser asked for this inbox, the last time last; the older ones are forgotten.
    pub times: Vec<Millis>,
}

impl Cookies {
    pub fn new(config: &Config) -> Self {
        let secure = config.is_https();
        // `__Host-`: no sibling host and no plain-text page can set it (session fixation).
        let host = if secure { "__Host-" } else { "" };
        let session = match (&config.cookie_domain, secure) {
            (Some(_), true) => "__Secure-",
            _ => host,
        };
        let mut cookies = Self {
            introduction: Default::default(),
            session: format!("{session}doorpost_session"),
            browser: format!("{host}doorpost_browser"),
            asked: format!("{host}doorpost_asked"),
            secure,
            domain: config.cookie_domain.clone(),
            session_seconds: config.session_lifetime.as_secs() as i64,
            // For as long as a code may be typed, and as the inbox's ceiling counts.
            asked_seconds: (2 * config.link_lifetime).max(config.throttle.email.window).as_secs() as i64,
        };
        let whole = cookies.cookie(&cookies.browser, SECRET.to_owned(), Some(Duration::days(BROWSER_DAYS))).to_string();
        let (before, behind) = whole.split_once(SECRET).expect("the value stands in it");
        cookies.introduction = [before.to_owned(), behind.to_owned()];
        cookies
    }

    /// The session tokens a browser sent. More than one when another host tossed in a cookie of the same
    /// name: the real one must be found, and ended at log-out, all the same.
    pub fn sessions_of(&self, request: &HttpRequest) -> Vec<SessionToken> {
        if !request.headers().contains_key(COOKIE) {
            return Vec::new();
        }
        let Ok(cookies) = request.cookies() else { return Vec::new() };
        let named = cookies.iter().filter(|cookie| cookie.name() == self.session);
        named.filter_map(|cookie| SessionToken::parse(cookie.value())).take(MOST_SESSIONS).collect()
    }

    /// The session's cookie: it lasts as long as the session can, or with `stay` off until the browser
    /// closes. On the server the session ends by its own clocks either way.
    pub fn session(&self, token: &SessionToken, stay: bool) -> Cookie<'static> {
        let age = stay.then_some(Duration::seconds(self.session_seconds));
        self.with_domain(self.cookie(&self.session, token.text(), age))
    }

    /// All that a browser is given at sign-in. Who doesn't stay leaves nothing on a shared computer: with
    /// the browser's secret, the next person there could post the used link again and get its session.
    pub fn signed_in(&self, token: &SessionToken, browser: &BrowserSecret, stay: bool) -> Vec<Cookie<'static>> {
        let forgotten = (!stay).then(|| self.no_asked());
        [self.session(token, stay), self.browser(browser, stay)].into_iter().chain(forgotten).collect()
    }

    pub fn no_session(&self) -> Cookie<'static> {
        self.with_domain(self.cookie(&self.session, String::new(), Some(Duration::ZERO)))
    }

    /// This browser's secret, if it has one.
    pub fn known_browser(&self, request: &HttpRequest) -> Option<BrowserSecret> {
        if !request.headers().contains_key(COOKIE) {
            return None;
        }
        request.cookie(&self.browser).and_then(|cookie| BrowserSecret::parse(cookie.value()))
    }

    /// This browser's secret; a fresh one, with the cookie to set, when it has none yet.
    pub fn browser_of(&self, request: &HttpRequest, app: &App) -> (BrowserSecret, Option<Cookie<'static>>) {
        match self.known_browser(request) {
            Some(secret) => (secret, None),
            None => {
                let secret = BrowserSecret::fresh(app.random);
                let cookie = self.browser(&secret, true);
                (secret, Some(cookie))
            }
        }
    }

    /// Gives a browser that has none a secret with this answer. Whoever first comes to the page has it, so it is
    /// put together from what is ready; and a monitor, which shows nobody a page, needs none.
    pub fn introduce(&self, request: &HttpRequest, app: &App, answer: &mut HttpResponse) {
        if super::accepts_html(request) && self.known_browser(request).is_none() {
            let [before, behind] = &self.introduction;
            let cookie = [before, &*BrowserSecret::fresh(app.random).text(), behind].concat();
            let cookie = HeaderValue::try_from(cookie).expect("our cookies are sound headers");
            answer.headers_mut().append(SET_COOKIE, cookie);
        }
    }

    fn browser(&self, secret: &BrowserSecret, stay: bool) -> Cookie<'static> {
        self.cookie(&self.browser, secret.text(), stay.then_some(Duration::days(BROWSER_DAYS)))
    }

    /// What the cookie says, checked again: it is the client's word.
    pub fn asked_of(&self, request: &HttpRequest, policy: &ReturnPolicy) -> Option<Asked> {
        let cookie = request.cookie(&self.asked)?;
        let mut parts = cookie.value().split('.');
        let purpose = match parts.next()? {
            "log_in" => Purpose::LogIn,
            "register" => Purpose::Register,
            _ => return None,
        };
        let typed = decoded(parts.next()?)?;
        Email::parse(&typed).ok()?;
        let return_to = parts.next().and_then(decoded).and_then(|wish| policy.parse(&wish));
        let times = parts.filter_map(|time| time.parse().ok()).take(MOST_TIMES).collect();
        Some(Asked { purpose, typed, return_to, times })
    }

    pub fn asked(&self, asked: &Asked) -> Cookie<'static> {
        let return_to = asked.return_to.as_ref().map_or("", |to| to.as_str());
        let coded = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let mut value = format!("{}.{}.{}", asked.purpose.text(), coded(&asked.typed), coded(return_to));
        for time in &asked.times[asked.times.len().saturating_sub(MOST_TIMES)..] {
            value.push_str(&format!(".{time}"));
        }
        self.cookie(&self.asked, value, Some(Duration::seconds(self.asked_seconds)))
    }

    pub fn no_asked(&self) -> Cookie<'static> {
        self.cookie(&self.asked, String::new(), Some(Duration::ZERO))
    }

    /// Without an age it lasts until the browser closes.
    fn cookie(&self, name: &str, value: String, age: Option<Duration>) -> Cookie<'static> {
        let mut cookie = Cookie::build(name.to_owned(), value)
            .path("/")
            .http_only(true)
            .secure(self.secure)
            // Not Strict: that cookie is missing on the first click from a webmail.
            .same_site(SameSite::Lax)
            .finish();
        cookie.set_max_age(age);
        cookie
    }

    fn with_domain(&self, mut cookie: Cookie<'static>) -> Cookie<'static> {
        if let Some(domain) = &self.domain {
            cookie.set_domain(domain.clone());
        }
        cookie
    }
}

/// Adds a cookie of ours to an answer.
pub fn set(answer: &mut HttpResponse, cookie: &Cookie<'static>) {
    answer.add_cookie(cookie).expect("our cookies are sound headers");
}

fn decoded(coded: &str) -> Option<String> {
    String::from_utf8(BASE64URL_NOPAD.decode(coded.as_bytes()).ok()?).ok()
}
