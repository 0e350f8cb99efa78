//! An app that shows what it was told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A running app; each of its pages says where one is.
pub struct Upstream {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, heads) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let seen = heads.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, seen.clone()));
            }
        });
        Self { address, heads }
    }

    /// The heads of the requests since this was asked last, as they came.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.heads.lock().unwrap())
    }

    /// The headers of the one request since then whose names begin like this, in lower case, sorted.
    #[track_caller]
    pub fn only(&self, like: &str) -> Vec<(String, String)> {
        let heads = self.take();
        assert_eq!(heads.len(), 1, "{heads:?}");
        let pairs = heads[0].lines().skip(1).filter_map(|line| line.split_once(':'));
        let pairs = pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
        let mut pairs: Vec<_> = pairs.filter(|(name, _)| name.starts_with(like)).collect();
        pairs.sort();
        pairs
    }
}

async fn answer(mut stream: TcpStream, seen: Arc<Mutex<Vec<String>>>) -> std::io::Result<()> {
    let (mut head, mut chunk) = (Vec::new(), [0; 8192]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk).await? {
            0 => return Ok(()),
            n => head.extend_from_slice(&chunk[..n]),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().replace('&', "&amp;").replace('<', "&lt;");
    seen.lock().unwrap().push(head);
    let page = format!("<!DOCTYPE html><title>App</title><main><h1>The app</h1><p>at {path}</p></main>");
    let length = page.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
    );
    stream.write_all(answer.as_bytes()).await
}
