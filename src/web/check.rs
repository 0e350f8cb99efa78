//! The answer to a gateway that asks whether a request may pass: Caddy's `forward_auth`, nginx's
//! `auth_request`, Traefik's `forwardAuth`.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use actix_web::{HttpRequest, HttpResponse};

use super::session::SignedIn;
use super::{Shared, errors};
use crate::app::App;
use crate::domain::group::Group;
use crate::error::Error;
use crate::store::sessions::Session;
use crate::telemetry::{Counter, Metrics};

/// How gateways are answered.
pub struct Checks {
    signed_in: Counter,
    signed_out: Counter,
    forbidden: Counter,
}

impl Checks {
    pub fn new(metrics: &Metrics) -> Self {
        let of = |result| metrics.session_checks(result);
        Self { signed_in: of("signed_in"), signed_out: of("signed_out"), forbidden: of("forbidden") }
    }
}

/// 200 with who it is; 302 to the log-in page for a page, else 401; 403 where a group is wanted that the
/// account isn't in.
pub async fn check(request: HttpRequest, app: Shared) -> Result<HttpResponse, Error> {
    let Some(SignedIn(session)) = SignedIn::look_up(&request, &app).await? else {
        app.checks.signed_out.inc();
        return Ok(turn_away(&request, &app));
    };
    if !may_pass(request.query_string(), &Forwarded::of(&request, &app), &session) {
        app.checks.forbidden.inc();
        return Err(Error::Forbidden);
    }
    app.checks.signed_in.inc();
    Ok(identity(&session))
}

/// Whether the account is in the group that is wanted, if one is. A slip in the gateway's settings (`?groups=`, a
/// second group, a name that no group can have) is no reason to let everybody pass.
fn may_pass(query: &str, forwarded: &Forwarded, session: &Session) -> bool {
    if forwarded.is_the_visitors(query) {
        return true;
    }
    let mut wanted = form_urlencoded::parse(query.as_bytes());
    match (wanted.next(), wanted.next()) {
        (None, _) => true,
        (Some((name, group)), None) if name == "group" => {
            Group::parse(&group).is_some_and(|group| group.is_in(&session.groups))
        }
        _ => false,
    }
}

/// Always all of them, empty if unknown: some gateways leave the client's own in place of one that is
/// missing.
fn identity(session: &Session) -> HttpResponse {
    let mut answer = HttpResponse::Ok().finish();
    let headers = answer.headers_mut();
    let tells = [
        ("remote-user", &session.user.id),
        ("remote-email", &session.user.email),
        ("remote-name", &session.user.email),
        ("remote-groups", &session.groups),
    ];
    for (name, value) in tells {
        let value = HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(""));
        headers.insert(HeaderName::from_static(name), value);
    }
    answer
}

fn turn_away(request: &HttpRequest, app: &App) -> HttpResponse {
    let forwarded = Forwarded::of(request, app);
    if !forwarded.is_page(request) {
        return errors::plain(&Error::Unauthenticated, app);
    }
    let return_to = forwarded.wish(app).and_then(|wish| app.return_policy.parse(&wish));
    let query = super::pages::return_query(return_to.as_ref());
    let location = app.url(&format!("/users/log-in{query}"));
    HttpResponse::Found().insert_header((LOCATION, location)).finish()
}

/// What the gateway says of the request that it holds back.
#[derive(Default)]
struct Forwarded<'a> {
    method: Option<&'a str>,
    proto: Option<&'a str>,
    host: Option<&'a str>,
    uri: Option<&'a str>,
}

impl<'a> Forwarded<'a> {
    /// Host poisoning: a trusted proxy's words, and nobody else's.
    fn of(request: &'a HttpRequest, app: &App) -> Self {
        let peer = request.peer_addr().map(|peer| peer.ip());
        if !app.trust.believes(peer) {
            return Self::default();
        }
        let headers = request.headers();
        Self {
            method: only(headers, "x-forwarded-method"),
            proto: only(headers, "x-forwarded-proto"),
            host: only(headers, "x-forwarded-host"),
            uri: only(headers, "x-forwarded-uri"),
        }
    }

    /// Whether the query is the page's own: Caddy hands that on where its `uri` has none and doesn't end with `?`.
    /// One that speaks of groups never is, for the visitor could have copied it from the gateway's settings.
    fn is_the_visitors(&self, query: &str) -> bool {
        let pages = self.uri.and_then(|uri| uri.split_once('?')).map(|(_, query)| query);
        let speaks = |name: &str| name.to_ascii_lowercase().starts_with("group");
        pages == Some(query) && !form_urlencoded::parse(query.as_bytes()).any(|(name, _)| speaks(&name))
    }

    /// A browser that wants to show something, and that can be sent elsewhere.
    fn is_page(&self, request: &HttpRequest) -> bool {
        let reads = self.method.is_none_or(|method| matches!(method, "GET" | "HEAD"));
        reads && super::accepts_html(request) && !super::wants_json(request)
    }

    /// Where the browser was going, a path if that is on our own host. Whether it may go there is the policy's
    /// affair.
    fn wish(&self, app: &App) -> Option<String> {
        let (proto, host, uri) = (self.proto?, self.host?, self.uri?);
        let sound =
            matches!(proto, "http" | "https") && uri.starts_with('/') && !host.contains(['/', '\\', '@', '?', '#']);
        let ours = format!("{proto}://{host}") == app.config.base_url.origin().ascii_serialization();
        sound.then(|| if ours { uri.to_owned() } else { format!("{proto}://{host}{uri}") })
    }
}

/// The one value of a header: of two, one isn't the gateway's.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name);
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}
