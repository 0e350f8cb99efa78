//! `doorpost config`: every setting, its value and where that differs from the default.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use crate::config::Config;

/// Prints the table, then what is wrong with it, if anything is.
pub fn run(as_json: bool) -> ExitCode {
    let settings = Config::describe(super::environment(), Path::new("."));
    let mut out = String::new();
    if as_json {
        let object = |(setting, value): &(&crate::config::settings::Setting, String)| {
            (setting.name.to_owned(), json!({ "value": value, "default": setting.default, "about": setting.about }))
        };
        let all: serde_json::Map<_, _> = settings.iter().map(object).collect();
        out = serde_json::to_string_pretty(&all).expect("strings make sound JSON") + "\n";
    } else {
        for (setting, value) in &settings {
            let value = if value.is_empty() { "(unset)" } else { value };
            let default = match setting.default {
                "" => "unset",
                default => default,
            };
            let note =
                if value == default || value == "(unset)" { String::new() } else { format!(" [default: {default}]") };
            let _ = writeln!(out, "{:34} {value}{note}\n{:34}   {}", setting.name, "", setting.about);
        }
    }
    super::print(&out);
    super::settings("can't start").map_or_else(|code| code, |_| ExitCode::SUCCESS)
}
