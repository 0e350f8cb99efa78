//! Just enough HTTP to say something to a server and to read what it answers, byte for byte.

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that stays open over many requests.
pub struct Connection(BufReader<TcpStream>);

/// An answer as it came over the wire, the date left out.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Answer {
    pub status: u16,
    /// In the order of their names: actix-web's own order changes from one run to the next.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Connection {
    pub fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::with_capacity(64 * 1024, stream)))
    }

    /// Sends one request or several at once.
    pub fn send(&mut self, requests: &str) -> Result<()> {
        self.0.get_mut().write_all(requests.as_bytes())
    }

    pub fn receive(&mut self) -> Result<Answer> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut headers = Vec::new();
        let mut length = 0;
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().unwrap_or(0);
            }
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        headers.retain(|(name, _)| name != "date");
        headers.sort();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Answer { status, headers, body })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

/// The log-in page, asked for by the client at `network`.
pub fn get(path: &str, network: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {network}\r\n\r\n")
}

/// A link for `email`, asked for by the client at `network`.
pub fn post(email: &str, network: &str) -> String {
    let length = "email=".len() + email.len();
    format!(
        "POST /users/log-in HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {network}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\nemail={email}"
    )
}
