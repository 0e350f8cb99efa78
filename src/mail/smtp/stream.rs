//! The socket under an SMTP connection: with TCP_NODELAY, which lettre's own lacks, so that the final
//! dot doesn't wait 40 ms for a delayed acknowledgement.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

#[expect(deprecated, reason = "lettre's one public way to TLS over a stream of our own")]
use lettre::transport::smtp::client::AsyncNetworkStream;
use lettre::transport::smtp::client::{AsyncTokioStream, TlsParameters};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt};

pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// TLS from the first byte.
#[expect(deprecated, reason = "lettre's one public way to TLS over a stream of our own")]
pub async fn encrypt(tcp: TcpStream, tls: TlsParameters) -> Result<Encrypted, lettre::transport::smtp::Error> {
    let peer = tcp.peer_addr();
    let mut stream = AsyncNetworkStream::use_existing_tokio1(Box::new(tcp));
    stream.upgrade_tls(tls).await?;
    Ok(Encrypted { stream: stream.compat(), peer: peer.ok() })
}

/// lettre's encrypted stream, made to look like a stream of tokio's, as its connection wants it.
pub struct Encrypted {
    #[expect(deprecated, reason = "lettre's one public way to TLS over a stream of our own")]
    stream: Compat<AsyncNetworkStream>,
    peer: Option<SocketAddr>,
}

impl AsyncTokioStream for Encrypted {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.peer.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encrypted")
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
