//! The house rules that a compiler doesn't hold.

use std::path::{Path, PathBuf};

use doorpost::config::settings::{SETTINGS, named};

/// A file of ours: its path below the root, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Its lines of code, numbered; comments may name what they like.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        lines.filter(|(_, line)| !line.starts_with("//"))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folder`.
fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    walk(root().join(folder), &mut found);
    assert!(!found.is_empty(), "nothing in {folder}");
    found
}

fn walk(folder: PathBuf, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push(Source { path: path.strip_prefix(root()).unwrap().display().to_string(), text });
        }
    }
}

/// Names in capitals between quotation marks.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let capitals = |name: &&str| name.len() > 3 && name.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
    text.split('"').skip(1).step_by(2).filter(capitals)
}

#[test]
fn no_part_names_what_lies_above_it() {
    for (part, foreign) in [
        ("web", &["sqlx"][..]),
        ("store", &["actix", "crate::web", "crate::worker"]),
        ("domain", &["actix", "sqlx", "crate::clock", "crate::app", "crate::store", "crate::web"]),
        ("mail", &["crate::web", "crate::worker", "actix", "sqlx"]),
        ("throttle", &["crate::web", "crate::worker", "actix"]),
        ("config", &["crate::app", "crate::web", "crate::worker", "crate::store"]),
        ("worker", &["crate::web", "actix", "sqlx"]),
    ] {
        for source in sources(&format!("src/{part}")) {
            for (at, line) in source.code() {
                let named = foreign.iter().find(|name| line.contains(**name));
                assert!(named.is_none(), "{}:{at} names {}: {line}", source.path, named.unwrap());
            }
        }
    }
}

#[test]
fn only_the_store_speaks_sql() {
    // And the one statement that settles the shared counters, which no other database could.
    let ours = ["src/store/", "src/throttle/postgres"];
    for source in sources("src").iter().filter(|source| !ours.iter().any(|ours| source.path.starts_with(ours))) {
        for (at, line) in source.code() {
            assert!(!line.contains("sqlx") && !line.contains("SELECT "), "{}:{at}: {line}", source.path);
        }
    }
}

#[test]
fn every_file_can_be_read_in_one_go() {
    for source in sources("src") {
        let lines = source.text.lines().count();
        assert!(lines <= 260, "{} has {lines} lines: split it where the idea splits", source.path);
    }
}

#[test]
fn nothing_is_left_unfinished_or_skipped() {
    // Put together here, so that this file isn't a finding of its own.
    let marks = [concat!("todo", "!"), concat!("unimplemented", "!"), concat!("#[ign", "ore"), concat!("dbg", "!(")];
    for source in sources("src").iter().chain(&sources("tests")) {
        let mark = marks.iter().find(|mark| source.text.contains(**mark));
        assert!(mark.is_none(), "{}: {}", source.path, mark.unwrap());
    }
}

#[test]
fn the_table_of_settings_is_what_is_read() {
    let reader = std::fs::read_to_string(root().join("src/config/mod.rs")).unwrap();
    let reads: Vec<_> = reader.lines().filter(|line| line.contains("self.")).flat_map(names_in).collect();
    for name in &reads {
        assert!(named(name).is_some(), "{name} is read and not in the table");
    }
    for setting in SETTINGS {
        assert!(reads.contains(&setting.name), "{} is in the table and never read", setting.name);
    }
}
