//! One figure: doorpost and its control take turns.

use super::CONTROL;
use crate::client::{Answer, get, post};
use crate::load::Load;
use crate::median;
use crate::server::{NETWORK, Server};

/// Turns of each.
const TURNS: usize = 7;

/// One kind of request, and the settings under which it gets one kind of answer.
pub struct Scenario {
    pub name: &'static str,
    pub load: Load,
    /// Requests before the first that is measured.
    pub before: usize,
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
            figures.0.push(self.load.run(&real).rate);
            drop(real);
            figures.1.push(self.load.run(&Server::control(CONTROL, &answer)).rate);
        }
        (median(figures.0), median(figures.1))
    }

    fn answer_of(&self, real: &Server) -> Answer {
        for _ in 0..self.before {
            real.ask(&post("somebody@school.example", NETWORK));
        }
        let posted = post("person1000000@school.example", NETWORK);
        let answer = real.ask(&if self.load.script.is_some() { posted } else { get("/users/log-in", NETWORK) });
        assert_eq!(answer.status, self.load.status, "{}", self.name);
        answer
    }
}
