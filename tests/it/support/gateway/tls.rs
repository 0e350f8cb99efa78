//! The client's half of TLS, from an address of its choice.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::support::http::{Response, exchange};

/// How a browser speaks to a gateway.
#[derive(Clone, Debug)]
pub struct Tls {
    /// As it stands in `Host`.
    pub host: String,
    /// Where it comes from: any address of 127.0.0.0/8 is this machine.
    pub from: Ipv4Addr,
    trusted: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts what the certificate in `pem` vouches for.
    pub fn trusting(pem: &[u8], host: &str) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(ring::default_provider().into());
        let config = config.with_safe_default_protocol_versions().unwrap();
        let trusted = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        Self { host: host.to_owned(), from: Ipv4Addr::LOCALHOST, trusted }
    }

    /// Sends raw bytes on a connection of its own; none if the gateway doesn't answer.
    pub async fn send(&self, gateway: SocketAddr, bytes: &[u8]) -> Option<Response> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((IpAddr::from(self.from), 0))).unwrap();
        let stream = socket.connect(gateway).await.ok()?;
        let name = self.host.split(':').next().unwrap_or_default().to_owned();
        let connector = TlsConnector::from(self.trusted.clone());
        let stream = connector.connect(ServerName::try_from(name).unwrap(), stream).await.ok()?;
        exchange(stream, bytes).await
    }
}
