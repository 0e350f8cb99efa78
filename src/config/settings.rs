//! Every setting there is: its name, its default and what it means. `doorpost config`, the
//! near-miss check and the README's table all follow from this one.

/// One environment variable of ours.
pub struct Setting {
    pub name: &'static str,
    /// What an unset variable means; empty for "unset".
    pub default: &'static str,
    /// Never printed, and may come from the file named by `NAME_FILE`.
    pub secret: bool,
    pub about: &'static str,
}

const fn plain(name: &'static str, default: &'static str, about: &'static str) -> Setting {
    Setting { name, default, secret: false, about }
}

const fn secret(name: &'static str, default: &'static str, about: &'static str) -> Setting {
    Setting { name, default, secret: true, about }
}

/// In the order in which an operator meets them.
pub const SETTINGS: &[Setting] = &[
    plain("BIND", "127.0.0.1:8080", "address to listen on, or unix:/path"),
    plain("ADMIN_BIND", "127.0.0.1:8081", "address of /metrics and /ready, unix:/path, or off"),
    plain("BASE_URL", "http://localhost:8080", "what links start with; https in production"),
    secret("DATABASE_URL", "sqlite:data/doorpost.db", "sqlite:FILE or postgres://user:pass@host/database"),
    secret("SMTP_URL", "", "smtps://user:pass@host:465 or smtp://user:pass@host:587"),
    plain("MAIL_FROM", "Doorpost <doorpost@localhost>", "sender of the mails"),
    plain("MAIL_REPLY_TO", "", "where answers to the mails go"),
    plain("MAIL_CONCURRENCY", "4", "mails sent at the same time"),
    plain("MAIL_TIMEOUT_SECONDS", "30", "longest that sending one mail may take"),
    plain("MAIL_DAILY_LIMIT", "off", "mails your plan allows in any 24 hours, or off ..."),
    plain("MAIL_DAILY_RESERVE_PERCENT", "20", "... and the last part, for addresses that have an account"),
    plain("APP_NAME", "Doorpost", "the name on pages and mails"),
    plain("SUPPORT_EMAIL", "", "the address people in trouble are given"),
    plain("REGISTRATION", "open", "open or closed"),
    plain("REGISTRATION_DOMAINS", "", "only these mail domains may register: school.edu,*.school.edu"),
    plain("LINK_LIFETIME_SECONDS", "900", "how long a link works"),
    plain("SESSION_LIFETIME_SECONDS", "2592000", "how long somebody stays logged in"),
    plain("SESSION_IDLE_SECONDS", "1209600", "how long without a visit"),
    plain("COOKIE_DOMAIN", "", "share the session with sibling hosts: school.example"),
    plain("RETURN_HOSTS", "", "hosts people may be sent back to: app.school.example,*.school.example"),
    plain("THROTTLE_ENABLED", "true", "false switches every ceiling off"),
    plain("THROTTLE_IP_BURST_LIMIT", "5", "requests for a link per client network ..."),
    plain("THROTTLE_IP_BURST_WINDOW_SECONDS", "60", "... in this many seconds"),
    plain("THROTTLE_IP_HOURLY_LIMIT", "20", "requests for a link per client network ..."),
    plain("THROTTLE_IP_HOURLY_WINDOW_SECONDS", "3600", "... in this many seconds"),
    plain("THROTTLE_EMAIL_LIMIT", "3", "requests for a link per inbox ..."),
    plain("THROTTLE_EMAIL_WINDOW_SECONDS", "900", "... in this many seconds"),
    plain("THROTTLE_CODE_LIMIT", "5", "typed codes per inbox and client network ..."),
    plain("THROTTLE_CODE_WINDOW_SECONDS", "900", "... in this many seconds"),
    plain("THROTTLE_ANONYMOUS_LIMIT", "600", "other requests per client network, or off ..."),
    plain("THROTTLE_ANONYMOUS_WINDOW_SECONDS", "60", "... in this many seconds"),
    plain("THROTTLE_NETWORKS", "", "ceilings of shared networks: 198.51.100.0/24=60/600"),
    plain(
        "THROTTLE_STORE",
        "",
        "where the counters live: memory, or postgres with such a DATABASE_URL; by the database",
    ),
    secret("THROTTLE_KEY_SECRET", "", "key of the counters' and the codes' digests; the same on every replica"),
    plain("THROTTLE_IPV6_PREFIX", "64", "bits of an IPv6 address that make one client network"),
    plain("THROTTLE_MEMORY_MIB", "64", "most memory the counters may take"),
    plain("TRUSTED_PROXIES", "127.0.0.0/8,::1/128", "networks whose X-Forwarded-For is believed"),
    plain("TRUSTED_PROXY_HOPS", "1", "proxies between the client and this server; 0 for none"),
    plain("LOG_FORMAT", "text", "text or json"),
    plain("RUST_LOG", "info", "what is logged: error, warn, info, debug, trace, or by module"),
];

/// The setting called `name`.
pub fn named(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}
