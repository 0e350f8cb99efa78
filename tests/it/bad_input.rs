//! Input that no browser of ours sends: answered with the right status and all the headers, kept and
//! mailed by nobody, and never the server's fault.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::TestApp;
use crate::support::http::{Response, send};

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

/// An app whose ceilings are out of the way.
async fn open() -> TestApp {
    TestApp::with().setting("THROTTLE_ENABLED", "false").run().await
}

/// Sends a request of these bytes, once as a person's and once as a program's, and holds both to the
/// status and the code. Nothing may be left behind.
async fn refused(app: &TestApp, line: &str, headers: &str, body: &[u8], verdict: (u16, &str)) -> Response {
    let (status, code) = verdict;
    let framed = headers.contains("Content-Length") || headers.contains("Transfer-Encoding");
    let length = if framed { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = |accept: &str| {
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n{length}{headers}\r\n");
        [head.as_bytes(), body].concat()
    };
    let case = format!("{line} {headers:?} {}", String::from_utf8_lossy(&body[..body.len().min(80)]));
    let page = send(app.address, &request("text/html")).await;
    assert_eq!(page.status, status, "{case}");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{case}");
    let told = send(app.address, &request("application/json")).await;
    assert_eq!(told.status, status, "{case}");
    let error = &told.json()["error"];
    assert_eq!(error["code"], code, "{case}");
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()) && error["details"].is_object(), "{case}");
    page.assert_guarded();
    told.assert_guarded();
    app.assert_nothing_stored().await;
    page
}

#[tokio::test]
async fn a_field_that_is_not_one_address_is_422() {
    let app = open().await;
    let long = format!("email={}@example.org", "a".repeat(288));
    let deep = format!("{{\"email\":{}", "[".repeat(4000));
    let cases: &[(&str, &[u8])] = &[
        ("", b""),
        (FORM, b""),
        (FORM, b"email"),
        (FORM, b"email="),
        (FORM, b"Email=a@example.org"),
        (FORM, b"email=a@example.org&email=b@example.org"),
        (FORM, b"email=a@example.org&email=a@example.org"),
        (FORM, b"email[]=a@example.org"),
        (FORM, b"email=a\xff@example.org"),
        (FORM, b"email=a%ff@example.org"),
        (FORM, b"email=a%00@example.org"),
        (FORM, b"email=a@example.org%00"),
        (FORM, b"email=a@example.org%0d%0aBcc:e@evil.example"),
        (FORM, b"email=a@example.org%0d%0a"),
        (FORM, b"email=a@example.org\r\n"),
        (FORM, b"{\"email\":\"a@example.org\"}"),
        (FORM, long.as_bytes()),
        (JSON, b""),
        (JSON, b"null"),
        (JSON, b"[]"),
        (JSON, b"\"a@example.org\""),
        (JSON, b"[{\"email\":\"a@example.org\"}]"),
        (JSON, b"{\"email\":[\"a@example.org\"]}"),
        (JSON, b"{\"email\":{\"x\":\"a@example.org\"}}"),
        (JSON, b"{\"email\":1}"),
        (JSON, b"{\"email\":null}"),
        (JSON, b"{\"email\":\"a@example.org\",\"email\":\"b@example.org\"}"),
        (JSON, b"{\"email\":\"a@example.org\"} x"),
        (JSON, b"{\"email\":\"a\xff@example.org\"}"),
        (JSON, b"{\"email\":\"a\\u0000@example.org\"}"),
        (JSON, b"{\"email\":\"a\\ud800@example.org\"}"),
        (JSON, b"{\"email\":\"a@example.org\\r\\nBcc:e@evil.example\"}"),
        (JSON, b"email=a@example.org"),
        (JSON, deep.as_bytes()),
    ];
    for path in ["/users/log-in", "/users/register"] {
        for (headers, body) in cases {
            refused(&app, &format!("POST {path}"), headers, body, (422, "invalid_email")).await;
        }
    }
}

#[tokio::test]
async fn a_body_of_another_kind_is_415() {
    let app = open().await;
    let good = b"email=a@example.org";
    for headers in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: \u{ff}\r\n",
        "Content-Type: application/x-www-form-urlencoded, text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Encoding: gzip\r\n",
    ] {
        refused(&app, "POST /users/log-in", headers, good, (415, "unsupported_media_type")).await;
    }
}

#[tokio::test]
async fn a_body_over_8_kib_is_413_and_spends_nothing() {
    let app = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "1").run().await;
    let megabyte = vec![b'a'; 1 << 20];
    let chunked = [b"100000\r\n", megabyte.as_slice(), b"\r\n0\r\n\r\n"].concat();
    let fields = "a=1&".repeat(100_000);
    let chunks = format!("{FORM}Transfer-Encoding: chunked\r\n");
    let over = format!("email=a@example.org&x={}", "x".repeat(8 * 1024 - 21));
    for (headers, body) in [
        (FORM, megabyte.as_slice()),
        (FORM, fields.as_bytes()),
        (FORM, over.as_bytes()),
        (JSON, &megabyte),
        ("", &megabyte),
        (&chunks, &chunked),
    ] {
        let page = refused(&app, "POST /users/register", headers, body, (413, "body_too_large")).await;
        assert_eq!(page.header("connection"), Some("close"), "the rest isn't read");
    }
    let just = &over[..8 * 1024];
    let answer = app.browser().post("/users/register", just).await;
    assert_eq!(answer.status, 302, "8 KiB are allowed, and nothing was spent: {}", answer.body);
    assert_eq!(app.deliver().await.len(), 1);
}

#[tokio::test]
async fn a_token_that_none_of_ours_could_be_is_an_unknown_link() {
    let app = open().await;
    let long = "a".repeat(4000);
    for token in [
        "aaaaaaaaaaaaaaaaaaaaaaaaa1",
        "aaaaaaaaaaaaaaaaaaaaaaaaab",
        "AAAAAAAAAAAAAAAAAAAAAAAAAA",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "aaaaaaaaaaaaaaaaaaaaaaaaa=",
        "a",
        "%00",
        "aaaaaaaaaaaaaaaaaaaaaaaa%0d%0a",
        "aaaaaaaaaaaaaaaaaaaaaaaaaa%00",
        "%27%20OR%201=1--",
        "..%2f..%2fetc%2fpasswd",
        "%E2%84%AAaaaaaaaaaaaaaaaaaaaaaaaaa",
        &long,
    ] {
        for method in ["GET", "POST"] {
            refused(&app, &format!("{method} /users/log-in/{token}"), "", b"", (410, "link_unknown")).await;
        }
    }
}

#[tokio::test]
async fn a_link_in_capitals_is_another_link() {
    let app = open().await;
    app.browser().ask("/users/register", "ada@example.org").await;
    let link = app.link().await;
    let token = link.rsplit('/').next().unwrap();
    let shouted = format!("/users/log-in/{}", token.to_ascii_uppercase());
    assert_eq!(app.browser().post(&shouted, "").await.status, 410);
    app.browser().post(&link, "").await.assert_found("/users/settings");
}

#[tokio::test]
async fn a_request_from_elsewhere_is_403_and_spends_nothing() {
    let app = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "1").run().await;
    let port = app.address.port();
    for headers in [
        "Sec-Fetch-Site: cross-site\r\n".to_owned(),
        "Sec-Fetch-Site: same-site\r\n".to_owned(),
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\n".to_owned(),
        format!("Sec-Fetch-Site: cross-site\r\nOrigin: http://localhost:{port}\r\n"),
        "Origin: null\r\n".to_owned(),
        "Origin: \r\n".to_owned(),
        "Origin: http://evil.example\r\n".to_owned(),
        "Origin: http://localhost\r\n".to_owned(),
        "Origin: http://localhost:1\r\n".to_owned(),
        format!("Origin: https://localhost:{port}\r\n"),
        format!("Origin: http://localhost:{port}.evil.example\r\n"),
        format!("Origin: http://localhost:{port}@evil.example\r\n"),
        format!("Origin: http://localhost:{port}\r\nOrigin: http://evil.example\r\n"),
        "Referer: http://evil.example/users/log-in\r\n".to_owned(),
        format!("Origin: null\r\nReferer: http://localhost:{port}/\r\n"),
    ] {
        for path in ["/users/log-in", "/users/register", "/users/log-in/aaaaaaaaaaaaaaaaaaaaaaaaaa", "/users/log-out"] {
            let headers = format!("{FORM}{headers}");
            refused(&app, &format!("POST {path}"), &headers, b"email=a@example.org", (403, "cross_origin")).await;
        }
    }
    app.browser().ask("/users/register", "a@example.org").await.assert_found("/users/check-email");
    assert_eq!(app.deliver().await.len(), 1);
}

#[tokio::test]
async fn attack_03_a_forged_host_changes_no_link() {
    let app = open().await;
    let base = format!("http://localhost:{}/users/log-in/", app.address.port());
    for (target, host) in [
        ("/users/register", "Host: evil.example\r\n"),
        ("/users/register", "Host: localhost\r\nForwarded: host=evil.example;proto=gopher\r\n"),
        ("/users/register", "Host: localhost\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: gopher\r\n"),
        ("http://evil.example/users/register", "Host: evil.example\r\n"),
        ("/users/register", "Host: a\r\nHost: evil.example\r\n"),
    ] {
        let body = "email=a@example.org";
        let request = format!("POST {target} HTTP/1.1\r\n{host}{FORM}Content-Length: {}\r\n\r\n{body}", body.len());
        let answer = send(app.address, request.as_bytes()).await;
        let mails = app.deliver().await;
        if answer.status == 400 {
            assert!(mails.is_empty(), "{host}");
            continue;
        }
        answer.assert_found("/users/check-email").assert_guarded();
        assert!(mails[0].link.starts_with(&base), "{host}: {}", mails[0].link);
        assert!(!format!("{}{}{answer:?}", mails[0].text, mails[0].html).contains("evil"), "{host}");
    }
}

#[tokio::test]
async fn unknown_paths_are_404_and_unknown_methods_405() {
    let app = open().await;
    for path in ["/nothing", "/users", "/users/log-in/", "/users/log-in/a/b", "//users/log-in", "/static/x.css", "/%ff"]
    {
        for method in ["GET", "POST", "PUT"] {
            refused(&app, &format!("{method} {path}"), "", b"", (404, "not_found")).await;
            if path.starts_with("/static") {
                break;
            }
        }
    }
    let (read, both) = ("GET, HEAD", "GET, HEAD, POST");
    for (path, allowed) in [
        ("/", read),
        ("/users/log-in", both),
        ("/users/register", both),
        ("/users/check-email", read),
        ("/users/log-in/aaaaaaaaaaaaaaaaaaaaaaaaaa", both),
        ("/users/settings", read),
        ("/users/log-out", "POST"),
        ("/health", read),
        ("/static/x.css", read),
    ] {
        for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get"] {
            let page = refused(&app, &format!("{method} {path}"), "", b"", (405, "method_not_allowed")).await;
            assert_eq!(page.header("allow"), Some(allowed), "{method} {path}");
        }
    }
    // The server as a whole, which is no page of ours.
    refused(&app, "OPTIONS *", "", b"", (404, "not_found")).await;
    refused(&app, "GET /users/log-out", "", b"", (405, "method_not_allowed")).await;
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let app = open().await;
    app.browser().ask("/users/register", "ada@example.org").await;
    let link = app.link().await;
    let paths =
        ["/", "/users/log-in", "/users/register", "/users/check-email", "/users/settings", "/health", "/nothing"];
    let style = app.app.assets.style.as_str();
    for path in paths.into_iter().chain([link.as_str(), style, "/users/log-in/a", "/dev/mailbox"]) {
        // With the cookies of the first visit, the second sets none.
        let mut browser = app.browser();
        browser.get(path).await;
        let (get, head) = (browser.get(path).await, browser.head(path).await);
        assert_eq!(head.body, "", "{path}");
        assert_eq!(Response { body: String::new(), ..get }.without_date(), head.without_date(), "{path}");
    }
    assert_eq!((app.rows("users").await, app.rows("sessions").await), (0, 0));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_not_taken_for_a_whole_one() {
    let app = open().await;
    for rest in [
        "Content-Length: 23\r\n\r\nemail=ada@example.co",
        "Transfer-Encoding: chunked\r\n\r\n14\r\nemail=ada@example.co\r\n",
        "Transfer-Encoding: chunked\r\n\r\n14\r\nemail=ada@example.co\r\nZZ\r\n",
        "Transfer-Encoding: chunked\r\n\r\n14\r\nemail=ada@example.co\r\nfffffffffffffffff\r\n",
    ] {
        let request = format!("POST /users/register HTTP/1.1\r\nHost: localhost\r\n{FORM}{rest}");
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{rest:?}: {answer}");
        app.assert_nothing_stored().await;
    }
}

#[tokio::test]
async fn an_error_for_programs_says_what_and_for_how_long() {
    let app = TestApp::with()
        .setting("THROTTLE_IP_BURST_LIMIT", "2")
        .setting("REGISTRATION_DOMAINS", "school.edu")
        .run()
        .await;
    let mut program = app.browser().json();
    let error = |answer: Response| (answer.status, answer.json()["error"].clone());
    let (status, told) = error(program.ask("/users/register", "a@example.org").await);
    assert_eq!((status, &told["code"]), (422, &"domain_not_allowed".into()));
    program.ask("/users/register", "a@school.edu").await;
    let refused = program.ask("/users/register", "a@school.edu").await;
    assert_eq!(refused.header("retry-after"), Some("60"));
    let (status, told) = error(refused);
    assert_eq!((status, &told["code"]), (429, &"rate_limit_exceeded".into()));
    let details = serde_json::json!({ "scope": "ip", "limit": 2, "window_seconds": 60, "retry_after_seconds": 60 });
    assert_eq!(told["details"], details);
    let link = app.link().await;
    app.browser().post(&link, "").await.assert_found("/users/settings");
    let (status, told) = error(program.post(&link, "").await);
    assert_eq!((status, &told["code"]), (410, &"link_used".into()));
    app.advance(60);
    program.ask("/users/log-in", "a@school.edu").await;
    let link = app.link().await;
    app.advance(901);
    let (status, told) = error(program.post(&link, "").await);
    assert_eq!((status, &told["code"]), (410, &"link_expired".into()));
    let (status, told) = error(app.browser().json().get("/users/settings").await);
    assert_eq!((status, &told["code"]), (401, &"unauthenticated".into()));
}

#[tokio::test]
async fn closed_registration_is_403_and_a_broken_database_503() {
    let app = TestApp::with().setting("REGISTRATION", "closed").run().await;
    let page = refused(&app, "POST /users/register", FORM, b"email=a@school.edu", (403, "registration_closed")).await;
    let title = "New accounts are closed";
    assert!(page.body.contains(title) && app.browser().get("/users/register").await.body.contains(title));
    sqlx::query("DROP TABLE outbox").execute(&app.database).await.unwrap();
    let page = app.browser().ask("/users/log-in", "a@example.org").await;
    assert_eq!(page.status, 503);
    page.assert_guarded();
    let told = app.browser().json().ask("/users/log-in", "a@example.org").await;
    assert_eq!((told.status, &told.json()["error"]["code"]), (503, &"unavailable".into()));
    assert!(!format!("{page:?}{told:?}").contains("outbox"), "no table's name");
}

#[tokio::test]
async fn what_was_typed_comes_back_escaped() {
    let app = open().await;
    let typed = "email=%22%3E%3Cscript%3Ealert(1)%3C/script%3E'%26amp;&return_to=/x?%22%3E%3Cscript%3E'%26y";
    for path in ["/users/log-in", "/users/register"] {
        let page = refused(&app, &format!("POST {path}"), FORM, typed.as_bytes(), (422, "invalid_email")).await;
        assert!(!page.body.contains("<script") && !page.body.contains("\"'"), "{}", page.body);
        let value = r#"value="&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#39;&#38;amp;""#;
        assert!(page.body.contains(value), "{}", page.body);
        assert!(page.body.contains(r#"name="return_to" value="/x?%22%3E%3Cscript%3E%27&#38;y""#), "{}", page.body);
    }
}

#[tokio::test]
async fn a_head_without_end_is_refused_and_the_server_goes_on() {
    let app = open().await;
    for request in [
        format!("GET /users/log-in HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "a".repeat(8 << 20)),
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 20)),
        format!("GET /users/log-in HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X-Many: a\r\n".repeat(5000)),
        "GET /users/log-in HTTP/9.9\r\n\r\n".to_owned(),
        "POST /users/log-in HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n".to_owned(),
        "POST /users/log-in HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(),
        "POST /users/log-in HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            .to_owned(),
    ] {
        let answer = send(app.address, request.as_bytes()).await;
        assert_eq!(answer.status / 100, 4, "{} {}", answer.status, &request[..60]);
    }
    app.assert_nothing_stored().await;
    assert_eq!(app.browser().get("/health").await.status, 200);
}
