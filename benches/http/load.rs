//! Load from core 1, by wrk: doorpost and its control take turns.

use std::process::Command;

use crate::client::{Answer, get, post};
use crate::server::Server;

/// Turns of each.
const TURNS: usize = 7;
const NETWORK: &str = "203.0.113.9";

/// One kind of request, and the settings under which it gets one kind of answer.
pub struct Scenario {
    pub name: &'static str,
    /// A link for a new address each time, or else the page.
    pub posts: bool,
    /// Requests before the first that is measured.
    pub before: usize,
    pub status: u16,
    pub settings: &'static [(&'static str, &'static str)],
}

impl Scenario {
    /// Requests a second of doorpost and of its control, each the median of its turns.
    pub fn measure(&self) -> (f64, f64) {
        let mut figures = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            // A process a turn: what one left behind is no burden on the other.
            let real = Server::doorpost(self.settings);
            let answer = self.answer_of(&real);
            figures.0.push(self.load(&real));
            drop(real);
            figures.1.push(self.load(&Server::control(&answer)));
        }
        (crate::median(figures.0), crate::median(figures.1))
    }

    fn answer_of(&self, real: &Server) -> Answer {
        for _ in 0..self.before {
            real.ask(&post("somebody@school.example", NETWORK));
        }
        let wanted =
            if self.posts { post("person1000000@school.example", NETWORK) } else { get("/users/log-in", NETWORK) };
        let answer = real.ask(&wanted);
        assert_eq!(answer.status, self.status, "{}", self.name);
        answer
    }

    fn load(&self, server: &Server) -> f64 {
        let mut wrk = Command::new("taskset");
        wrk.args(["-c", "1", "wrk", "-t1", "-c32", "-d2s"]).args(["-H", &format!("X-Forwarded-For: {NETWORK}")]);
        if self.posts {
            wrk.args(["-s", "benches/http/post.lua"]);
        }
        let output = wrk.arg(format!("http://{}/users/log-in", server.address)).output();
        let output = output.expect("taskset, from util-linux, starts wrk");
        let text = String::from_utf8_lossy(&output.stdout);
        self.check(&text);
        figure(&text, "Requests/sec:").unwrap_or_else(|| panic!("wrk said: {text}"))
    }

    /// A figure of anything but the wanted answers would be worth nothing.
    fn check(&self, text: &str) {
        let all = text.lines().find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok());
        let errors = figure(text, "Non-2xx or 3xx responses:").unwrap_or(0.0);
        let wanted = if self.status < 400 { Some(0.0) } else { all };
        let sound = all > Some(0.0) && Some(errors) == wanted && !text.contains("Socket errors");
        assert!(sound, "{}: wrk said: {text}", self.name);
    }
}

fn figure(text: &str, label: &str) -> Option<f64> {
    text.lines().find_map(|line| line.trim().strip_prefix(label)?.trim().parse().ok())
}
