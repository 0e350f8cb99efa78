//! Whether this browser may ask for another mail to the same inbox: what it is told before it presses.

use std::time::Duration;

use actix_web::HttpRequest;

use super::cookies::{Asked, MOST_TIMES};
use crate::app::App;
use crate::clock::Millis;
use crate::domain::email::Email;
use crate::throttle::Key;

/// How much is left of the inbox's ceiling, by what this browser itself has asked for. Never by the
/// counter: the address stands in a cookie, and a forged one would tell how often a stranger has asked.
/// The counter may therefore refuse all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Nothing is counted, or nothing is known.
    Unknown,
    Left(u32),
    /// None before so long.
    In(Duration),
}

impl Again {
    pub fn of(app: &App, asked: &Asked) -> Self {
        let (throttle, now) = (&app.config.throttle, app.clock.now());
        let limit = throttle.email.limit as usize;
        if !throttle.enabled || limit > MOST_TIMES {
            return Self::Unknown;
        }
        let mut within: Vec<_> = recent(app, &asked.times, now).collect();
        within.sort_unstable();
        match within.len().checked_sub(limit) {
            None => Self::Left((limit - within.len()) as u32),
            Some(over) => {
                let opens = within[over] + throttle.email.window.as_millis() as Millis;
                Self::In(Duration::from_millis((opens - now).max(1) as u64))
            }
        }
    }

    /// Whether there is any use in pressing the button.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::In(_))
    }

    pub fn sentence(&self) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Left(1) => Some("You can ask once more for now.".to_owned()),
            Self::Left(times) => Some(format!("You can ask {times} more times for now.")),
            Self::In(wait) => match wait.as_millis().div_ceil(60_000) {
                1 => Some("You can ask again in about 1 minute.".to_owned()),
                minutes => Some(format!("You can ask again in about {minutes} minutes.")),
            },
        }
    }
}

/// When this browser has asked for this inbox, now included.
pub fn times(request: &HttpRequest, app: &App, inbox: Key, now: Millis) -> Vec<Millis> {
    let before = app
        .cookies
        .asked_of(request, &app.return_policy)
        .filter(|asked| Email::parse(&asked.typed).is_ok_and(|email| app.throttle.keys().inbox(&email) == inbox));
    let before = before.map(|asked| asked.times).unwrap_or_default();
    recent(app, &before, now).chain([now]).collect()
}

/// Those that the ceiling still counts.
fn recent(app: &App, times: &[Millis], now: Millis) -> impl Iterator<Item = Millis> {
    let window = app.config.throttle.email.window.as_millis() as Millis;
    times.iter().copied().filter(move |time| *time <= now && now.saturating_sub(*time) < window)
}
