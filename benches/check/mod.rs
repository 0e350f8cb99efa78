//! A gateway's question whether somebody who is signed in may pass, beside a bare actix-web server that
//! answers every request with an empty 200.

use std::fs;

use sqlx::AnyPool;
use tempfile::TempDir;

use crate::client::Answer;
use crate::load::Load;
use crate::median;
use crate::server::{Server, folder};
use crate::{database, http};

/// Turns of each.
const TURNS: usize = 7;
/// As Caddy asks: the browser's own headers, and what it says of the request.
const ASKED: Load = Load { script: Some("benches/check.lua"), status: 200, seconds: 2 };
/// The digest of what the script has for a session: 32 times the byte 7.
const SESSION: &str = "4bb06f8e4e3a7715d201d573d0aa423762e55dabd61a2c02278fa56cc6d294e0";
/// Long after any benchmark.
const YEAR_3000: i64 = 32_503_680_000_000;

pub fn measure() {
    let empty = Answer { status: 200, headers: vec![("content-length".into(), "0".into())], body: Vec::new() };
    let mut rates = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let real = Server::doorpost_in(signed_in(), &[]);
        assert!(real.ask(&question()).is_identity(), "the session is known");
        rates.0.push(ASKED.run(&real).rate);
        drop(real);
        rates.1.push(ASKED.run(&Server::control(http::CONTROL, &empty)).rate);
    }
    let (real, control) = (median(rates.0), median(rates.1));
    println!("{:<26}{:>12}{:>12}{:>8}  wanted", "GET /auth/check, 200", "doorpost", "empty 200", "ratio");
    println!("{:<26}{real:>12.0}{control:>12.0}{:>8.2}  0.70 or more", "answers/s", real / control);
}

impl Answer {
    fn is_identity(&self) -> bool {
        self.status == 200 && self.headers.iter().any(|(name, value)| name == "remote-groups" && value == "a,b")
    }
}

/// What the script says, once.
fn question() -> String {
    let script = fs::read_to_string(ASKED.script.unwrap_or_default()).expect("the script is there");
    let cookie = script.lines().find_map(|line| line.split_once("\"Cookie\"] = \"")?.1.strip_suffix('"'));
    format!("GET /auth/check HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\n\r\n", cookie.expect("it has a cookie"))
}

/// A folder whose database knows the session.
fn signed_in() -> TempDir {
    let folder = folder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pool = database::open(&folder.path().join(database::FILE)).await;
        start_session(&pool).await.expect("the session can be written");
        pool.close().await;
    });
    folder
}

async fn start_session(pool: &AnyPool) -> sqlx::Result<()> {
    let id = "01980000-0000-7000-8000-000000000000";
    let user = sqlx::query("INSERT INTO users (id, email, created_at) VALUES ($1, 'ada@school.example', 0)");
    user.bind(id).execute(pool).await?;
    let groups = sqlx::query("INSERT INTO user_groups (user_id, name) VALUES ($1, 'a'), ($1, 'b')");
    groups.bind(id).execute(pool).await?;
    let session = sqlx::query(
        "INSERT INTO sessions (id, token_hash, user_id, agent, created_at, seen_at, expires_at)
         VALUES ($1, $2, $1, 'Firefox on Windows', 0, $3, $3)",
    );
    session.bind(id).bind(SESSION).bind(YEAR_3000).execute(pool).await.map(drop)
}
