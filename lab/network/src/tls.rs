//! TLS towards pods. Their certificates are not checked, as a kubelet and an API server do not.

use std::{
    io,
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// A connection in TLS or without.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Takes whatever certificate there is, if its owner has its key.
#[derive(Debug)]
struct Whatever(Arc<CryptoProvider>);

impl ServerCertVerifier for Whatever {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn config() -> Result<Arc<ClientConfig>, Error> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let provider = Arc::new(ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Whatever(provider)))
        .with_no_client_auth();
    Ok(Arc::clone(CONFIG.get_or_init(|| Arc::new(config))))
}

/// The connection to a pod's address, in TLS if that is wanted.
pub(crate) async fn connection(
    stream: TcpStream,
    to: IpAddr,
    secure: bool,
) -> io::Result<Box<dyn Connection>> {
    if !secure {
        return Ok(Box::new(stream));
    }
    let connector = TlsConnector::from(config().map_err(io::Error::other)?);
    let connected = connector.connect(ServerName::from(to), stream).await;
    // Whoever answers in something else speaks HTTP, most likely.
    let connected = connected.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => io::Error::other("http: server gave HTTP response to HTTPS client"),
        _ => error,
    })?;
    Ok(Box::new(connected))
}
