//! What the operator writes: read once, judged as a whole, answered in words.

use std::path::Path;

use doorpost::config::Config;
use doorpost::config::settings::SETTINGS;
use doorpost::store::Store;
use sqlx::AnyPool;

use crate::support::process::{Place, free_address};

fn load(settings: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    load_in(Path::new("/nowhere"), settings)
}

fn load_in(folder: &Path, settings: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    Config::load(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())), folder)
}

/// The one thing that is wrong.
#[track_caller]
fn problem(settings: &[(&str, &str)]) -> String {
    let problems = load(settings).expect_err("it is refused");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].clone()
}

#[test]
fn all_problems_are_told_at_once_and_nothing_is_created() {
    let place = Place::new()
        .setting("THROTTLE_IP_BURTS_LIMIT", "50")
        .setting("LINK_LIFETIME_SECONDS", "a quarter of an hour")
        .setting("BASE_URL", "https://auth.school.example");
    let run = place.run(&[]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    let lines: Vec<_> = run.err.lines().skip(1).map(str::trim).collect();
    assert_eq!(lines.len(), 3, "one line each: {}", run.err);
    assert!(lines[0].starts_with("THROTTLE_IP_BURTS_LIMIT: ") && lines[0].contains(" THROTTLE_IP_BURST_LIMIT?"));
    assert!(lines[1].starts_with("LINK_LIFETIME_SECONDS: \"a quarter of an hour\" is not a whole number"));
    assert!(lines[2].starts_with("SMTP_URL: must be set") && lines[2].contains("https://auth.school.example"));
    assert_eq!((place.files(), run.out), (Vec::new(), String::new()));
}

#[test]
fn a_wrong_value_of_each_kind_is_answered_with_its_name() {
    for (name, value) in [
        ("BIND", "8080"),
        ("BIND", "unix:relative.sock"),
        ("ADMIN_BIND", "no"),
        ("ADMIN_BIND", "127.0.0.1:8080"),
        ("BASE_URL", "auth.school.example"),
        ("BASE_URL", "ftp://localhost"),
        ("BASE_URL", "http://localhost/auth"),
        ("BASE_URL", "http://user@localhost"),
        ("DATABASE_URL", "mysql://localhost/doorpost"),
        ("DATABASE_URL", "sqlite::memory:"),
        ("DATABASE_URL", "sqlite:"),
        ("SMTP_URL", "mail.example:465"),
        ("SMTP_URL", "http://mail.example"),
        ("SMTP_URL", "smtp://user@mail.example"),
        ("SMTP_URL", "smtps://mail.example?tls=none"),
        ("SMTP_URL", "smtp://mail.example?tls=perhaps"),
        ("SMTP_URL", "smtp://mail.example?ca=/nowhere.pem"),
        ("MAIL_FROM", "nobody"),
        ("MAIL_FROM", "School <login@school.example>\r\nBcc: e@evil.example"),
        ("MAIL_CONCURRENCY", "0"),
        ("MAIL_TIMEOUT_SECONDS", "30s"),
        ("APP_NAME", "A name that is longer than any page, mail or telephone could ever show"),
        ("SUPPORT_EMAIL", "help"),
        ("REGISTRATION", "shut"),
        ("REGISTRATION_DOMAINS", "school.edu,not a host"),
        ("SESSION_IDLE_SECONDS", "31536000"),
        ("SESSION_LIFETIME_SECONDS", "-1"),
        ("COOKIE_DOMAIN", "other.example"),
        ("RETURN_HOSTS", "https://app.school.example"),
        ("THROTTLE_ENABLED", "yes"),
        ("THROTTLE_EMAIL_LIMIT", "0"),
        ("THROTTLE_IP_HOURLY_LIMIT", "off"),
        ("THROTTLE_EMAIL_WINDOW_SECONDS", "1.5"),
        ("THROTTLE_NETWORKS", "198.51.100.0/24"),
        ("THROTTLE_NETWORKS", "198.51.100.0/24=0/5"),
        ("THROTTLE_NETWORKS", "198.51.100.0/24=6/60,198.51.100.7/24=7/70"),
        ("THROTTLE_STORE", "redis"),
        ("THROTTLE_IPV6_PREFIX", "129"),
        ("THROTTLE_MEMORY_MIB", "64 MiB"),
        ("TRUSTED_PROXIES", "everyone"),
        ("TRUSTED_PROXY_HOPS", "-1"),
        ("LOG_FORMAT", "xml"),
        ("RUST_LOG", "doorpost=loud"),
    ] {
        let problems = load(&[(name, value)]).expect_err(&format!("{name}={value} is refused"));
        assert!(problems.iter().all(|line| line.starts_with(&format!("{name}: "))), "{value}: {problems:?}");
        assert!(problems.iter().all(|line| !line.contains('\n')), "one line each: {problems:?}");
    }
}

#[test]
fn a_name_that_begins_like_ours_is_answered_with_the_nearest() {
    for (name, nearest) in [
        ("THROTTLE_IP_BURTS_LIMIT", "THROTTLE_IP_BURST_LIMIT"),
        ("TRUSTED_PROXYS", "TRUSTED_PROXIES"),
        ("MAIL_TIMEOUT", "MAIL_TIMEOUT_SECONDS"),
        ("SMTP_UR", "SMTP_URL"),
        ("DATABSE_URL", "DATABASE_URL"),
        ("smtp_url", "SMTP_URL"),
        ("MAIL_FROM_FILE", "MAIL_FROM"),
    ] {
        let told = problem(&[(name, "x")]);
        assert!(told.starts_with(&format!("{name}: ")) && told.contains(&format!(" {nearest}?")), "{told}");
    }
}

#[test]
fn what_a_desktop_and_a_shell_set_stops_nothing() {
    let others = ["SESSION_MANAGER", "SESSION_NAME", "SESSION_ID", "HOME", "PATH", "MAIL", "HOSTNAME", "TERM", "LANG"];
    load(&others.map(|name| (name, "local/desk:@/tmp/.ICE-unix/1"))).unwrap();
    assert!(load(&[("SMTP_URL", ""), ("MAIL_REPLY_TO", " "), ("COOKIE_DOMAIN", "")]).unwrap().smtp.is_none(), "unset");
}

#[test]
fn a_dotenv_file_is_read_and_the_environment_wins() {
    let folder = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(folder.path().join(".env"), text).unwrap();
    write("# ours\nAPP_NAME=\"Evening School\"\nLINK_LIFETIME_SECONDS=60\n");
    let config = load_in(folder.path(), &[("LINK_LIFETIME_SECONDS", "120")]).unwrap();
    assert_eq!((config.app_name.as_str(), config.link_lifetime.as_secs()), ("Evening School", 120));
    write("APP_NAM=x\nLINK_LIFETIME_SECONDS=soon\nSMTP_URL is smtp://user:hunter2@mail.example\n");
    let problems = load_in(folder.path(), &[]).unwrap_err();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems.iter().any(|line| line.starts_with("APP_NAM: ") && line.contains("APP_NAME?")), "{problems:?}");
    assert!(!problems.concat().contains("hunter2"), "{problems:?}");
}

#[test]
fn a_secret_may_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let smtp = file("smtp", "smtps://user:hunter2@mail.example\n");
    let key = file("key", "s3cret\n");
    let config = load(&[("SMTP_URL_FILE", &smtp), ("THROTTLE_KEY_SECRET_FILE", &key)]).unwrap();
    assert_eq!(config.smtp.as_ref().unwrap().host, "mail.example");
    assert_eq!(config.throttle.key_secret.as_ref().unwrap().0, "s3cret");
    assert!(!format!("{config:?}").contains("hunter2") && !format!("{config:?}").contains("s3cret"));
    let both = problem(&[("SMTP_URL_FILE", &smtp), ("SMTP_URL", "smtp://mail.example")]);
    assert!(both.starts_with("SMTP_URL_FILE: set together with SMTP_URL"), "{both}");
    let nowhere = problem(&[("THROTTLE_KEY_SECRET_FILE", "/nowhere/key")]);
    assert!(nowhere.starts_with("THROTTLE_KEY_SECRET_FILE: /nowhere/key can't be read"), "{nowhere}");
}

#[test]
fn an_empty_name_beside_its_file_is_unset_and_an_empty_file_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let path = path.to_str().unwrap();
    std::fs::write(path, "smtps://user:hunter2@mail.example").unwrap();
    assert!(load(&[("SMTP_URL_FILE", path), ("SMTP_URL", "")]).unwrap().smtp.is_some());
    std::fs::write(path, "\n").unwrap();
    assert!(problem(&[("SMTP_URL_FILE", path)]).starts_with("SMTP_URL_FILE: "));
}

#[test]
fn config_lists_every_setting_and_hides_the_secrets() {
    let secrets = ["hunter2", "s3cret"];
    let place = Place::new()
        .setting("SMTP_URL", "smtps://user:hunter2@mail.example")
        .setting("THROTTLE_KEY_SECRET", "s3cret")
        .setting("APP_NAME", "Evening School");
    let (table, json) = (place.run(&["config"]), place.run(&["config", "--json"]));
    assert_eq!((table.code, json.code), (Some(0), Some(0)), "{}{}", table.err, json.err);
    let all: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    for setting in SETTINGS {
        assert!(table.out.lines().any(|line| line.split(' ').next() == Some(setting.name)), "{}", setting.name);
        assert_eq!(all[setting.name]["default"], setting.default, "{}", setting.name);
    }
    assert_eq!(
        (&all["APP_NAME"]["value"], &all["BIND"]["value"]),
        (&"Evening School".into(), &"127.0.0.1:8080".into())
    );
    for output in [table.out, table.err, json.out, json.err] {
        assert!(secrets.iter().all(|secret| !output.contains(secret)), "{output}");
    }
    assert!(place.files().is_empty());
}

#[test]
fn config_tells_what_is_wrong_and_an_unknown_command_is_a_matter_of_usage() {
    let place = Place::new().setting("MAIL_CONCURRENCY", "many").setting("SMTP_URL", "user:hunter2@mail.example");
    for arguments in [&["config"][..], &["config", "--json"], &[]] {
        let run = place.run(arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}");
        assert!(run.err.contains("MAIL_CONCURRENCY: \"many\"") && run.err.contains("SMTP_URL: "), "{}", run.err);
        assert!(!run.err.contains("hunter2") && !run.out.contains("hunter2"), "{}{}", run.out, run.err);
    }
    for arguments in [&["confgi"][..], &["config", "--yaml"], &["--port", "80"]] {
        assert_eq!(Place::new().run(arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn an_address_in_use_is_said_in_a_sentence() {
    let address = free_address();
    let _taken = std::net::TcpListener::bind(address).unwrap();
    let (free, taken) = (free_address().to_string(), address.to_string());
    for (bind, admin, name) in [(&taken, "off", "BIND: "), (&free, taken.as_str(), "ADMIN_BIND: ")] {
        let place = Place::new().setting("BIND", bind).setting("ADMIN_BIND", admin);
        let run = place.run(&[]);
        assert_eq!(run.code, Some(1), "{}", run.err);
        let said = run.err.lines().nth(1).unwrap_or_default().trim();
        assert!(said.starts_with(&format!("{name}can't listen on {taken}")), "{}", run.err);
        assert_eq!((run.err.lines().count(), place.files()), (2, Vec::new()), "{}", run.err);
    }
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_left_alone() {
    let place = Place::new().setting("BIND", &free_address().to_string()).setting("ADMIN_BIND", "off");
    let url = &place.database_url;
    drop(Store::open(url).await.unwrap());
    let pool = AnyPool::connect(url).await.unwrap();
    for statement in [
        "INSERT INTO users (id, email, created_at) VALUES ('1', 'ada@example.org', 0)",
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         SELECT 9999, 'later', success, checksum, execution_time FROM _sqlx_migrations",
    ] {
        sqlx::query(statement).execute(&pool).await.unwrap();
    }
    let run = place.run(&[]);
    assert_eq!(run.code, Some(1), "{}{}", run.out, run.err);
    assert!(run.err.contains("written by a newer Doorpost") && run.err.contains("Nothing was changed"), "{}", run.err);
    for table in ["SELECT COUNT(*) FROM users", "SELECT COUNT(*) FROM _sqlx_migrations WHERE version = 9999"] {
        assert_eq!(sqlx::query_as::<_, (i64,)>(table).fetch_one(&pool).await.unwrap().0, 1, "{table}");
    }
}

#[test]
fn the_readme_and_the_example_file_list_every_setting_with_its_default() {
    let read = |name: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let (readme, example) = (read("README.md"), read(".env.example"));
    for setting in SETTINGS {
        let row = readme.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{}`", setting.name)));
        let row = row.unwrap_or_else(|| panic!("{} is in no table of the README", setting.name));
        let default = format!("`{}`", setting.default);
        assert!(setting.default.is_empty() || row.contains(&default), "{}: {row}", setting.name);
        let assigned = format!("{}=", setting.name);
        let shown = example.lines().any(|line| line.trim_start_matches(['#', ' ']).starts_with(&assigned));
        assert!(shown, "{} is not in .env.example", setting.name);
    }
}
