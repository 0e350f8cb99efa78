//! `SMTP_URL`: one variable that says where the mail server is and how far it is to be trusted.

use std::fmt;

use percent_encoding::percent_decode_str;
use url::Url;

use super::values::Hidden;

/// A mail server. Prints without its password.
#[derive(Clone)]
pub struct SmtpUrl {
    pub host: String,
    pub port: u16,
    pub tls: Tls,
    pub credentials: Option<(String, Hidden)>,
    /// A further root certificate, PEM.
    pub ca: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// `smtps://`: TLS from the first byte.
    Implicit,
    /// `smtp://`: STARTTLS or nothing; a stripped STARTTLS is a failure, never plain text.
    Required,
    /// `?tls=none`: plain text, for a trusted relay on this machine.
    None,
}

impl SmtpUrl {
    /// Reads the URL. The error never repeats the value, which holds a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shape = "is not like smtps://user:password@mail.example:465 or \
                     smtp://user:password@mail.example:587 (percent-encode special characters)";
        let url = Url::parse(text).map_err(|_| shape.to_owned())?;
        let mut tls = match url.scheme() {
            "smtps" => Tls::Implicit,
            "smtp" => Tls::Required,
            _ => return Err(shape.into()),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(shape)?;
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(shape.into());
        }
        let mut ca = None;
        for (name, value) in url.query_pairs() {
            match (&*name, &*value) {
                ("tls", "none") if tls == Tls::Implicit => {
                    return Err("smtps:// and tls=none exclude each other; use smtp://".into());
                }
                ("tls", "none") => tls = Tls::None,
                ("tls", "required") => {}
                ("ca", file) => ca = Some(read_ca(file)?),
                _ => return Err(format!("{name:?} is not known; use ?tls=none or ?ca=file.pem")),
            }
        }
        let default_port = match tls {
            Tls::Implicit => 465,
            Tls::Required => 587,
            Tls::None => 25,
        };
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(default_port),
            tls,
            credentials: credentials(&url)?,
            ca,
        })
    }
}

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmtpUrl({}:{}, {:?})", self.host, self.port, self.tls)
    }
}

fn read_ca(file: &str) -> Result<Vec<u8>, String> {
    let pem = std::fs::read(file).map_err(|e| format!("ca={file} can't be read: {e}"))?;
    lettre::transport::smtp::client::Certificate::from_pem(&pem)
        .map_err(|_| format!("ca={file} holds no certificate in PEM form"))?;
    Ok(pem)
}

fn credentials(url: &Url) -> Result<Option<(String, Hidden)>, String> {
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        (user, Some(password)) if !user.is_empty() => Ok(Some((plain(user), Hidden(plain(password))))),
        _ => Err("needs both a user and a password, or neither".into()),
    }
}
