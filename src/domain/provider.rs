//! What a mail domain says by its name alone: which webmail opens it, and whether it is a slip of one that
//! everybody knows. Never looks at accounts.

use strsim::osa_distance;

/// Domains that many students have, and that slips are measured against.
const KNOWN: [&str; 13] = [
    "gmail.com",
    "googlemail.com",
    "outlook.com",
    "hotmail.com",
    "live.com",
    "yahoo.com",
    "icloud.com",
    "proton.me",
    "protonmail.com",
    "aol.com",
    "gmx.net",
    "gmx.de",
    "web.de",
];

/// Domains that look like slips and aren't.
const REAL: [&str; 6] = ["mail.com", "email.com", "fmail.com", "zmail.com", "cloud.com", "protonmail.ch"];

/// Names this short are a slip away from somebody's own (`aon.com`, `line.com`): only their ending is mended.
const SHORT: usize = 4;

/// Webmails: their names, where they open, and the domains they read.
const WEBMAILS: [(&str, &str, &[&str]); 7] = [
    ("Gmail", "https://mail.google.com/", &["gmail.com", "googlemail.com"]),
    ("Outlook", "https://outlook.live.com/mail/", &["outlook.", "hotmail.", "live.", "msn.com"]),
    ("Yahoo Mail", "https://mail.yahoo.com/", &["yahoo.", "ymail.com", "rocketmail.com"]),
    ("iCloud Mail", "https://www.icloud.com/mail", &["icloud.com", "me.com", "mac.com"]),
    ("Proton Mail", "https://mail.proton.me/", &["proton.me", "protonmail.com", "pm.me"]),
    ("GMX", "https://www.gmx.net/", &["gmx.", "gmx.net"]),
    ("WEB.DE", "https://web.de/", &["web.de"]),
];

/// The name of the webmail that reads a domain's mail, and where it opens.
pub fn webmail(domain: &str) -> Option<(&'static str, &'static str)> {
    let reads = |known: &&str| if known.ends_with('.') { of_a_country(domain, known) } else { domain == *known };
    let found = WEBMAILS.iter().find(|(_, _, domains)| domains.iter().any(reads))?;
    Some((found.0, found.1))
}

/// The domain that was probably meant: `gmail.com` for `gamil.com` or `gmail.con`.
pub fn meant(domain: &str) -> Option<&'static str> {
    if webmail(domain).is_some() || KNOWN.contains(&domain) || REAL.contains(&domain) {
        return None;
    }
    let near = |known: &&&str| is_near(domain, known);
    KNOWN.iter().filter(near).min_by_key(|known| osa_distance(domain, known)).copied()
}

/// One slip, or two where there is much to slip on.
fn is_near(domain: &str, known: &str) -> bool {
    let name = known.split('.').next().unwrap_or_default();
    let ending_only = domain.split('.').next() == Some(name);
    let most = if known.len() >= 10 { 2 } else { 1 };
    (name.len() > SHORT || ending_only) && osa_distance(domain, known) <= most
}

/// `yahoo.de`, `yahoo.co.uk`: the name before the dot, and behind it no more than a country.
fn of_a_country(domain: &str, name: &str) -> bool {
    let Some(rest) = domain.strip_prefix(name) else { return false };
    let ending = rest.strip_prefix("co.").or_else(|| rest.strip_prefix("com.")).unwrap_or(rest);
    rest == "com" || ending.len() == 2 && ending.bytes().all(|b| b.is_ascii_lowercase()) && rest != "co" && rest != "cm"
}
