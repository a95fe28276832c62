//! The port as a client sees it.

use axum::body::Bytes;
use http::{Request, Response};
use kube::client::Body;
use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use service_controllers::readiness::Readiness;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tower::service_fn;

use super::*;
use crate::trace::Verbosity;

/// Takes any certificate.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

async fn send(address: SocketAddr, request: &str) -> String {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

async fn ask(address: SocketAddr, path: &str) -> String {
    send(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await
}

/// A port that is open but for /metrics and the flags, which nobody may have: the API server has no reviews.
async fn bound(ip: &str, open: &str) -> (Bound, Shown) {
    let nothing = service_fn(|_: Request<Body>| async {
        let body = Bytes::from_static(br#"{"kind":"Status","code":404,"reason":"NotFound"}"#);
        Ok::<_, std::convert::Infallible>(Response::builder().status(404).body(Body::from(body)).unwrap())
    });
    let open = open.split(',').map(|path| path.parse().unwrap()).collect();
    let shown = Shown {
        readiness: Readiness::default(),
        metrics: Arc::new(RwLock::new(Registry::default())),
        verbosity: Verbosity::default(),
        access: Arc::new(Access::new(kube::Client::new(nothing, "default"), open)),
        page: None,
    };
    let tls = Certificate::made(&[]).unwrap().server_config().unwrap();
    (bind(ip.parse().unwrap(), 0, tls).await.unwrap(), shown)
}

#[tokio::test]
async fn readiness_and_metrics_are_shown_until_the_end() {
    let (bound, shown) = bound("127.0.0.1", "/readyz,/metrics").await;
    let (address, shutdown) = (bound.address(), CancellationToken::new());
    let caches = shown.readiness.wait_for("caches");
    let serving = tokio::spawn(bound.serve(shown, shutdown.clone()));
    let early = ask(address, "/readyz").await;
    assert!(early.starts_with("HTTP/1.1 503") && early.contains("waiting for caches"), "{early}");
    assert!(ask(address, "/readyz?verbose").await.contains("[-]caches failed"));
    drop(caches);
    assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(ask(address, "/readyz?verbose").await.ends_with("[+]caches ok\nreadyz check passed\n"));
    assert!(ask(address, "/metrics").await.contains("text/plain; version=0.0.4"));
    let tls = Certificate::made(&[]).unwrap().server_config().unwrap();
    let taken = bind(address.ip(), address.port(), tls).await.unwrap_err().to_string();
    assert!(taken.contains("--secure-port"), "{taken}");
    shutdown.cancel();
    serving.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn who_has_no_right_or_speaks_no_tls_is_told_so() {
    let (bound, shown) = bound("127.0.0.1", "/livez").await;
    let address = bound.address();
    let serving = tokio::spawn(bound.serve(shown, CancellationToken::new()));
    assert!(ask(address, "/livez").await.ends_with("ok"));
    let refused = ask(address, "/metrics").await;
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("system:anonymous"), "{refused}");
    let put = "PUT /debug/flags/v HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1\r\n\r\n4";
    assert!(send(address, put).await.starts_with("HTTP/1.1 403"));
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let _ = plain.read_to_string(&mut answer).await;
    assert!(answer.contains("400") && answer.contains("HTTP request to an HTTPS server"), "{answer}");
    serving.abort();
}

#[tokio::test]
async fn the_verbosity_is_changed_by_a_put() {
    let (bound, shown) = bound("127.0.0.1", "/debug/*").await;
    let (address, verbosity) = (bound.address(), shown.verbosity.clone());
    let serving = tokio::spawn(bound.serve(shown, CancellationToken::new()));
    let put = |body: &str| {
        let head = "PUT /debug/flags/v HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length:";
        format!("{head} {}\r\n\r\n{body}", body.len())
    };
    let refused = send(address, &put("many")).await;
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("\"many\" is no level"), "{refused}");
    // Nothing is logged in this process.
    let refused = send(address, &put("4")).await;
    assert!(refused.starts_with("HTTP/1.1 500") && verbosity.set(4).is_err(), "{refused}");
    assert!(send(address, "GET /debug/flags/v HTTP/1.0\r\n\r\n").await.contains("405"));
    let own = put("4").replace("/flags/v", "/levels/endpoint-controller");
    let refused = send(address, &own).await;
    assert!(
        refused.starts_with("HTTP/1.1 404") && refused.contains("there are endpointslice-controller"),
        "{refused}"
    );
    assert!(ask(address, "/debug/levels").await.ends_with(r#"{"controllers":{},"v":0}"#));
    serving.abort();
}

#[tokio::test]
async fn no_address_is_every_address_of_both_families() {
    for ip in ["0.0.0.0", "::"] {
        let (bound, shown) = bound(ip, "/livez").await;
        let (port, both) = (bound.address().port(), bound.address().is_ipv6());
        let serving = tokio::spawn(bound.serve(shown, CancellationToken::new()));
        assert!(ask((Ipv4Addr::LOCALHOST, port).into(), "/livez").await.ends_with("ok"));
        // A machine without IPv6 has no such address.
        if both && std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            assert!(ask((Ipv6Addr::LOCALHOST, port).into(), "/livez").await.ends_with("ok"));
        }
        serving.abort();
    }
}
