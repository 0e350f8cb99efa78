//! What an app is told, and what nobody can tell it.

use crate::support::gateway::{APP, Chain, Kind};
use crate::support::http::Browser;

/// Asked for as a browser does.
fn at_the_app(browser: &Browser) -> Browser {
    browser.clone().at(APP).header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
}

#[tokio::test]
async fn who_is_logged_in_is_told_to_the_app_and_the_session_is_not() {
    for kind in Kind::ALL {
        let chain = Chain::start(kind).await;
        let mut ada = at_the_app(&chain.account("ada@example.org").await);
        chain.apps[0].app.store.set_group("ada@example.org", "staff", true).await.unwrap();
        chain.apps.iter().for_each(|app| app.app.sessions.ended());
        ada.cookies.insert("theme".into(), "dark".into());
        ada.cookies.insert("a_doorpost_session".into(), "mine".into());
        ada.cookies.insert("__Host-doorpost_asked".into(), "x".into());
        let answer = ada.get("/courses?x=1&y=%20").await;
        assert_eq!(answer.status, 200, "{kind:?}: {}", answer.body);
        let head = chain.upstream.take().remove(0);
        assert!(head.starts_with("GET /courses?x=1&y=%20 HTTP/1."), "{kind:?}: {head}");
        assert!(!head.contains("doorpost_session=") || head.contains("a_doorpost_session=mine"), "{kind:?}: {head}");
        ada.get("/").await;
        let told = chain.upstream.only("remote");
        let (names, values): (Vec<_>, Vec<_>) = told.iter().map(|(name, value)| (&**name, &**value)).unzip();
        assert_eq!(names, ["remote-email", "remote-groups", "remote-name", "remote-user"], "{kind:?}");
        assert_eq!(values[..3], ["ada@example.org", "staff", "ada@example.org"], "{kind:?}");
        assert_eq!(values[3].len(), 36, "{kind:?}: {told:?}");
        ada.get("/").await;
        let cookies = chain.upstream.only("cookie");
        let (_, cookie) = &cookies[0];
        let mut left: Vec<_> = cookie.split(';').map(str::trim).filter(|pair| !pair.is_empty()).collect();
        left.sort_unstable();
        assert_eq!(left, ["a_doorpost_session=mine", "theme=dark"], "{kind:?}: {cookies:?}");
        assert!(!chain.log().contains(&ada.cookies["__Secure-doorpost_session"]), "{kind:?}");
    }
}

/// Attack: forged identity.
#[tokio::test]
async fn forged_identity_headers_never_reach_the_app() {
    for kind in Kind::ALL {
        let chain = Chain::start(kind).await;
        let ada = at_the_app(&chain.account("ada@example.org").await);
        let mut names = vec![
            "Remote-User",
            "Remote_User",
            "REMOTE_USER",
            "remote-USER",
            "Remote-Email",
            "Remote_Email",
            "Remote-Name",
            "Remote-Groups",
            "Remote_Groups",
            "Remote-groups",
            "Remote.User",
            "remote.groups",
        ];
        // nginx can't take out what it isn't told the name of.
        names.extend((kind != Kind::Nginx).then_some("Remote-Anything"));
        let mut forged = names.iter().fold(ada, |browser, name| browser.header(name, "admin").header(name, "root"));
        assert_eq!(forged.get("/").await.status, 200, "{kind:?}");
        let told = chain.upstream.only("remote");
        assert!(told.iter().all(|(_, value)| value != "admin" && value != "root"), "{kind:?}: {told:?}");
        // Caddy 2.11 leaves out the groups of who has none.
        assert!(
            told.len() <= 4 && told.iter().filter(|(name, _)| name == "remote-user").count() == 1,
            "{kind:?}: {told:?}"
        );
        // Nor of who isn't logged in, who doesn't get there at all.
        let mut stranger = at_the_app(&chain.browser()).header("Remote-User", "admin");
        assert_eq!(stranger.get("/").await.status, 302, "{kind:?}");
        assert!(chain.upstream.take().is_empty(), "{kind:?}");
    }
}

#[tokio::test]
async fn an_app_that_is_open_to_everybody_sees_no_session_and_no_forged_identity() {
    for kind in Kind::CADDIES {
        let chain = Chain::local(kind).await;
        let mut ada = chain.account("ada@example.org").await.header("Remote-Email", "admin@example.org");
        let open = ada.get("/open/").await;
        assert!(open.status == 200 && open.body.contains("Open to everybody"), "{kind:?}: {}", open.body);
        let members = ada.get("/members/").await;
        assert!(members.body.contains("Hello ada@example.org."), "{kind:?}: {}", members.body);
        ada.get("/open").await.assert_found("/open/");
        assert_eq!(chain.browser().header("Accept", "text/html").get("/members/").await.status, 302, "{kind:?}");
    }
}

/// Attack: a forged address.
#[tokio::test]
async fn an_app_and_doorpost_see_the_address_that_the_gateway_sees() {
    let claims = ["X-Forwarded-For", "Forwarded", "X-Real-IP"];
    for kind in Kind::ALL {
        let chain = Chain::start(kind).await;
        let ada = at_the_app(&chain.account("ada@example.org").await);
        let mut forged = claims.iter().fold(ada, |browser, name| browser.header(name, "203.0.113.66"));
        forged.get("/").await;
        let head = chain.upstream.take().remove(0).to_ascii_lowercase();
        assert!(!head.contains("203.0.113.66"), "{kind:?}: {head}");
        assert!(head.contains("x-forwarded-for: 127.0.0.1"), "{kind:?}: {head}");
    }
}

#[tokio::test]
async fn who_may_not_pass_is_told_by_page_or_by_json() {
    for kind in Kind::ALL {
        let chain = Chain::start(kind).await;
        let mut page = at_the_app(&chain.browser());
        let to = "https://auth.school.example/users/log-in?return_to=https%3A%2F%2Fapp.school.example%2Fa%2520b%3Fx%3D1%26y%3D2";
        page.get("/a%20b?x=1&y=2").await.assert_found(to);
        let mut program = chain.browser().at(APP).json();
        for answer in [program.get("/").await, page.post("/", "x=1").await] {
            assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &"unauthenticated".into()), "{kind:?}");
        }
        assert!(chain.upstream.take().is_empty(), "{kind:?}");
    }
}

#[tokio::test]
async fn an_app_for_one_group_shows_everybody_else_why_not() {
    for kind in Kind::ALL {
        let chain = Chain::for_group(kind, Some("staff"), &[]).await;
        let mut ada = at_the_app(&chain.account("ada@example.org").await);
        for path in ["/", "/?x=1", "/?group=staff", "/?group="] {
            let answer = ada.get(path).await;
            assert_eq!(answer.status, 403, "{kind:?} {path}");
            assert!(answer.words().contains("You can't see this"), "{kind:?} {path}: {}", answer.body);
            answer.assert_guarded();
        }
        assert!(chain.upstream.take().is_empty(), "{kind:?}");
        chain.apps[0].app.store.set_group("ada@example.org", "staff", true).await.unwrap();
        chain.apps.iter().for_each(|app| app.app.sessions.ended());
        assert_eq!(ada.get("/?x=1&group=other").await.status, 200, "{kind:?}");
        assert!(chain.upstream.only("remote").contains(&("remote-groups".into(), "staff".into())), "{kind:?}");
    }
}

#[tokio::test]
async fn an_app_whose_host_is_not_allowed_leads_to_the_default_page() {
    for kind in Kind::ALL {
        let chain = Chain::with(kind, &[("RETURN_HOSTS", "other.school.example")]).await;
        at_the_app(&chain.browser()).get("/x").await.assert_found("https://auth.school.example/users/log-in");
        // Asked by nobody's gateway, and with words of the client's own.
        let mut direct = chain.browser().header("Accept", "text/html");
        direct.get("/auth/check").await.assert_found("https://auth.school.example/users/log-in");
        let mut forged = direct.header("X-Forwarded-Host", "evil.example").header("X-Forwarded-Uri", "/x");
        let location = forged.get("/auth/check").await.header("location").unwrap().to_owned();
        assert!(location.starts_with("https://auth.school.example/users/log-in"), "{kind:?}: {location}");
        assert!(!location.contains("evil"), "{kind:?}: {location}");
    }
}
