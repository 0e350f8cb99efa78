//! Where values come from: the environment, then `.env`, then a secret's file. Names that look like
//! ours and aren't are found here.

use std::collections::BTreeMap;
use std::path::Path;

use super::settings::{self, SETTINGS};

/// First words that nobody else uses: any unknown name that begins so is a mistake.
const OURS: &[&str] =
    &["THROTTLE", "TRUSTED", "MAIL", "SMTP", "LINK", "SESSION", "REGISTRATION", "RETURN", "COOKIE", "ADMIN", "SUPPORT"];
/// Set by desktops, though it begins like one of ours.
const OTHERS: &[&str] = &["SESSION_MANAGER", "SESSION_NAME", "SESSION_ID"];

/// The values that were set, by name, and what was wrong with how they were set.
#[derive(Default)]
pub struct Sources {
    pub values: BTreeMap<String, String>,
    pub problems: Vec<String>,
}

impl Sources {
    /// Reads the environment and, in `folder`, a file `.env` that the environment wins over.
    pub fn read(environment: impl Iterator<Item = (String, String)>, folder: &Path) -> Self {
        let mut sources = Self::default();
        sources.read_dotenv(&folder.join(".env"));
        for (name, value) in environment {
            sources.take(name, value, false);
        }
        // An empty value is an unset one: that is what compose files and shells leave behind.
        sources.values.retain(|_, value| !value.trim().is_empty());
        sources.read_secret_files();
        sources
    }

    fn read_dotenv(&mut self, path: &Path) {
        let entries = match dotenvy::from_path_iter(path) {
            Ok(entries) => entries,
            Err(dotenvy::Error::Io(e)) if e.kind() == std::io::ErrorKind::NotFound => return,
            Err(e) => return self.problems.push(format!(".env: can't be read: {e}")),
        };
        for entry in entries {
            match entry {
                Ok((name, value)) => self.take(name, value, true),
                // dotenvy's text repeats the line, which may hold a secret.
                Err(dotenvy::Error::LineParse(_, at)) => {
                    self.problems
                        .push(format!(".env: a line can't be read (near its character {at}): write NAME=value"));
                }
                Err(e) => self.problems.push(format!(".env: can't be read: {e}")),
            }
        }
    }

    /// Keeps a value of ours. In `.env` every name should be ours; the environment holds others' too.
    fn take(&mut self, name: String, value: String, all_ours: bool) {
        let secret_file = name.strip_suffix("_FILE").and_then(settings::named).is_some_and(|s| s.secret);
        if settings::named(&name).is_some() || secret_file {
            if value.contains(|c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER) {
                self.problems
                    .push(format!("{name}: holds a control character or isn't UTF-8; write it as one line of text"));
            }
            self.values.insert(name, value);
        } else if let Some(near) = mistaken_for(&name, all_ours) {
            self.problems.push(format!("{name}: no such setting; {near}"));
        }
    }

    fn read_secret_files(&mut self) {
        for setting in SETTINGS.iter().filter(|setting| setting.secret) {
            let file_name = format!("{}_FILE", setting.name);
            let Some(path) = self.values.remove(&file_name) else { continue };
            if self.values.contains_key(setting.name) {
                self.problems.push(format!("{file_name}: set together with {}; keep one", setting.name));
                continue;
            }
            match std::fs::read_to_string(&path) {
                // Not unset: a secret that went missing must not start the server without it.
                Ok(text) if text.trim().is_empty() => self.problems.push(format!("{file_name}: {path} is empty")),
                Ok(text) => {
                    self.values.insert(setting.name.to_owned(), text.trim().to_owned());
                }
                Err(e) => self.problems.push(format!("{file_name}: {path} can't be read: {e}")),
            }
        }
    }
}

/// What to do about an unknown name that was likely meant to be one of ours.
fn mistaken_for(name: &str, all_ours: bool) -> Option<String> {
    if OTHERS.contains(&name) {
        return None;
    }
    let upper = name.to_ascii_uppercase();
    let nearest = SETTINGS.iter().map(|setting| setting.name).min_by_key(|ours| distance(&upper, ours))?;
    let far = distance(&upper, nearest);
    let first_word = upper.split('_').next().unwrap_or_default();
    let goes_on = |ours: &str| upper.strip_prefix(ours).is_some_and(|rest| rest.starts_with('_'));
    let first = upper.contains('_') && OURS.contains(&first_word);
    let begins_like_ours = first || SETTINGS.iter().any(|setting| goes_on(setting.name));
    let near = upper.len() >= 7 && far <= 2;
    let hint = if far <= upper.len() / 2 { format!("did you mean {nearest}?") } else { "see doorpost config".into() };
    (all_ours || begins_like_ours || near).then_some(hint)
}

/// Letters to change. A beginning of a name (MAIL_TIMEOUT) is nearer than its missing letters say.
fn distance(name: &str, ours: &str) -> usize {
    let missing = if ours.starts_with(name) { ours.len() - name.len() } else { 0 };
    strsim::damerau_levenshtein(name, ours).saturating_sub(missing)
}
