//! What every request meets before its handler, and every answer after it.

use actix_web::HttpMessage;
use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERER,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::middleware::Next;
use url::Url;

use super::client::Client;
use super::session::SignedIn;
use super::{Shared, errors};
use crate::app::App;
use crate::config::Config;
use crate::error::{Error, Form};

/// The most a body may hold. A form with an address and a destination is far below it.
pub const MAX_BODY: usize = 8 * 1024;

/// Judges the request, lets it through, and dresses the answer.
pub async fn guard(request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse, actix_web::Error> {
    let app = request.app_data::<Shared>().expect("the app is always there").clone();
    let started = app.clock.monotonic();
    let client = Client::of(&request, &app);
    request.extensions_mut().insert(client);
    // Never an Err from here: a middleware's Err skips the headers below.
    let answer = match admit(&request, &app, client).await {
        Ok(()) => next.call(request).await?,
        Err(error) => request.error_response(error),
    };
    let mut answer = errors::render(answer, &app);
    app.headers.dress(answer.headers_mut());
    super::health::note(&answer, &app, client, started);
    Ok(answer)
}

/// Size, origin, session, `anonymous` counter, in this order: the first two spend nothing.
async fn admit(request: &ServiceRequest, app: &App, client: Client) -> Result<(), Error> {
    if is_unsafe(request.method()) {
        if declared_length(request.headers()) > MAX_BODY {
            return Err(Error::BodyTooLarge);
        }
        same_origin(request.headers(), &app.config.base_url)?;
    }
    if !is_counted(request) || asks_for_a_link(request) {
        return Ok(());
    }
    if let Some(signed_in) = SignedIn::look_up(request.request(), app).await? {
        request.extensions_mut().insert(signed_in);
        return Ok(());
    }
    app.throttle.anonymous(client.key).await.map_err(|refusal| Error::TooMany(refusal, Form::default()))
}

fn is_unsafe(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

fn declared_length(headers: &HeaderMap) -> usize {
    headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0)
}

/// Cross-site request forgery, without tokens: browsers say where a request comes from, and no page
/// can forge it. A request with none of the three headers wasn't sent by a browser.
fn same_origin(headers: &HeaderMap, base: &Url) -> Result<(), Error> {
    let site = HeaderName::from_static("sec-fetch-site");
    let mut sites = headers.get_all(&site).peekable();
    let ours = if sites.peek().is_some() {
        // `none`: typed, reloaded or bookmarked.
        sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
    } else {
        let name = if headers.contains_key(ORIGIN) { ORIGIN } else { REFERER };
        headers.get_all(name).all(|value| origin_is(value, base))
    };
    if ours { Ok(()) } else { Err(Error::CrossOrigin) }
}

fn origin_is(value: &HeaderValue, base: &Url) -> bool {
    let origin = value.to_str().ok().and_then(|text| Url::parse(text).ok());
    origin.is_some_and(|origin| origin.origin() == base.origin())
}

/// Not counted: what monitoring, caches and gateways fetch.
fn is_counted(request: &ServiceRequest) -> bool {
    let path = request.path();
    path != "/health" && !path.starts_with("/static/") && path != "/auth/check"
}

/// The two POSTs have counters of their own.
fn asks_for_a_link(request: &ServiceRequest) -> bool {
    request.method() == Method::POST && matches!(request.path(), "/users/log-in" | "/users/register")
}

/// The headers of every answer, made once.
pub struct Headers {
    policy: HeaderValue,
    /// Of a page that is shown under another host's name: what belongs to it comes from ours.
    pub abroad: HeaderValue,
}

impl Headers {
    pub fn new(config: &Config) -> Self {
        // Browsers check form-action on every hop of the redirect that answers a form.
        let hosts = config.return_hosts.iter().map(|host| format!(" {}://{}", config.base_url.scheme(), host.text()));
        let policy = format!(
            "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; \
             form-action 'self'{}; frame-ancestors 'none'",
            hosts.collect::<String>()
        );
        let ours = config.base_url.origin().ascii_serialization();
        let abroad = format!(
            "default-src 'none'; style-src {ours}; img-src {ours}; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        let value = |policy: &str| HeaderValue::from_str(policy).expect("host names make a sound header");
        Self { policy: value(&policy), abroad: value(&abroad) }
    }

    /// Click-jacking, MIME sniffing, script injection, a page kept by a shared computer. A handler
    /// that set a policy or how long to keep its answer is left its own.
    fn dress(&self, headers: &mut HeaderMap) {
        if !headers.contains_key(CONTENT_SECURITY_POLICY) {
            headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        }
        if !headers.contains_key(CACHE_CONTROL) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // Not no-referrer: that makes form posts send `Origin: null`.
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin"));
    }
}
