//! The certificate that the webhook shows, and the authorities that the API server trusts for it.
//!
//! Owns how a certificate is made, when it is made anew, and how the `caBundle` of the webhook configurations is kept.
//! Each replica has an authority of its own that never leaves its memory; the bundle has those of all replicas.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::PostParams;
use kube::{Api, Client};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::client::danger::ServerCertVerifier as _;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore, ServerConfig};

/// How many days after that on which it is made a certificate is good for.
const DAYS: i64 = 2;
/// How old it gets: the rest is for clocks that differ and API servers that are slow to look.
pub const REPLACED_AFTER: Duration = Duration::from_hours(12);
/// The most authorities in a bundle: those of replicas that are gone are pushed out by new ones.
const MOST: usize = 16;
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate cannot be made.
    #[error("make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The TLS library refuses it.
    #[error("use a certificate: {0}")]
    Rustls(#[from] rustls::Error),
    /// A file has none.
    #[error("{what}: {source}")]
    Pem {
        /// Which file.
        what: String,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
}

/// A certificate in use.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// What a server needs to show it.
    pub config: Arc<ServerConfig>,
    /// The authority that signed it, in PEM; `None` when it is somebody else's.
    pub authority: Option<String>,
    /// Why an API server will not take it, as far as that can be told without its authority: its time and its name.
    pub fault: Option<String>,
}

/// A new authority and a certificate that it signs for `names`, good from the day before `now` until two days after it.
///
/// # Errors
/// When the cryptography library makes none.
pub fn generate(names: &[String], now: Timestamp) -> Result<Certificate, TlsError> {
    let day = |days: i64| {
        let date = (now + SignedDuration::from_hours(24 * days)).to_zoned(TimeZone::UTC).date();
        date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let (from, until) = (day(-1), day(DAYS));
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name.push(DnType::CommonName, format!("service-webhook-ca {now}"));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    (params.not_before, params.not_after) = (from, until);
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);

    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, "service-webhook");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    (params.not_before, params.not_after) = (from, until);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(Certificate { config: server(vec![certificate], key)?, authority: Some(authority), fault: None })
}

/// A certificate from the texts of two PEM files, as cert-manager writes them, looked at at `now`. `name` is what the API
/// server calls the webhook.
///
/// # Errors
/// When one of them has none, or they do not belong together.
pub fn from_pem(
    certificates: &[u8],
    key: &[u8],
    name: &str,
    now: Timestamp,
) -> Result<Certificate, TlsError> {
    let pem = |what: &str| {
        let what = what.to_owned();
        move |source| TlsError::Pem { what, source }
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
    let chain = chain.map_err(pem("the certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(pem("the private key"))?;
    let fault = chain.first().and_then(|leaf| out_of_time(leaf, now).or_else(|| of_another(leaf, name)));
    Ok(Certificate { config: server(chain, key)?, authority: None, fault })
}

/// Whether a certificate is for other names.
fn of_another(leaf: &CertificateDer<'_>, name: &str) -> Option<String> {
    let parsed = ParsedCertificate::try_from(leaf).ok()?;
    let asked = ServerName::try_from(name).ok()?;
    verify_server_name(&parsed, &asked).is_err().then(|| {
        format!("the certificate is not for {name}, which is what the API server calls the webhook (--webhook-service)")
    })
}

/// Whether a certificate's time is over or has not come.
fn out_of_time(leaf: &CertificateDer<'_>, now: Timestamp) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(leaf.clone().into_owned()).ok()?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    let name = ServerName::try_from("localhost").ok()?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).ok()?));
    match verifier.verify_server_cert(leaf, &[], &name, &[], now) {
        Err(rustls::Error::InvalidCertificate(error)) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                Some("the certificate has expired".to_owned())
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Some("the certificate is not valid yet".to_owned())
            }
            _ => None,
        },
        _ => None,
    }
}

fn server(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A bundle with `authority` in it; `None` when it is there already. The oldest are pushed out.
fn with_authority(bundle: &[u8], authority: &str) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(bundle);
    let mut all: Vec<&str> = Vec::new();
    let mut rest = &*text;
    while let Some(start) = rest.find(BEGIN) {
        let Some(length) = rest[start..].find(END) else { break };
        all.push(&rest[start..start + length + END.len()]);
        rest = &rest[start + length + END.len()..];
    }
    let own = authority.trim();
    if all.contains(&own) {
        return None;
    }
    let surplus = (all.len() + 1).saturating_sub(MOST);
    all.drain(..surplus);
    all.push(own);
    Some((all.join("\n") + "\n").into_bytes())
}

/// Puts `authority` into the `caBundle` of both webhook configurations called `name`. Returns how many there are.
///
/// # Errors
/// When the API server does not take it; asking again is right.
pub async fn publish(client: &Client, name: &str, authority: &str) -> Result<usize, kube::Error> {
    let mut found = 0;
    let api = Api::<MutatingWebhookConfiguration>::all(client.clone());
    if let Some(mut configuration) = api.get_opt(name).await? {
        found += 1;
        let bundles = configuration.webhooks.iter_mut().flatten().map(|w| &mut w.client_config.ca_bundle);
        if add(bundles, authority) {
            api.replace(name, &PostParams::default(), &configuration).await?;
        }
    }
    let api = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    if let Some(mut configuration) = api.get_opt(name).await? {
        found += 1;
        let bundles = configuration.webhooks.iter_mut().flatten().map(|w| &mut w.client_config.ca_bundle);
        if add(bundles, authority) {
            api.replace(name, &PostParams::default(), &configuration).await?;
        }
    }
    Ok(found)
}

/// Adds the authority to each bundle; says whether any changed.
fn add<'a>(bundles: impl Iterator<Item = &'a mut Option<ByteString>>, authority: &str) -> bool {
    let mut changed = false;
    for bundle in bundles {
        let known = bundle.as_ref().map_or(&[][..], |bytes| &bytes.0);
        if let Some(new) = with_authority(known, authority) {
            *bundle = Some(ByteString(new));
            changed = true;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_the_newest_authorities() {
        let pem = |i: usize| format!("{BEGIN}\n{i}\n{END}\n");
        let mut bundle = Vec::new();
        for i in 0..MOST + 3 {
            bundle = with_authority(&bundle, &pem(i)).unwrap();
        }
        let text = String::from_utf8(bundle.clone()).unwrap();
        assert_eq!(text.matches(BEGIN).count(), MOST);
        assert!(text.contains(&pem(MOST + 2)) && !text.contains("\n2\n"));
        assert_eq!(with_authority(&bundle, &pem(MOST + 2)), None);
        assert_eq!(with_authority(b"garbage", &pem(1)).unwrap(), pem(1).into_bytes());
    }

    #[test]
    fn a_certificate_of_our_own_is_one_that_a_client_takes() {
        let names = ["service-webhook.kube-system.svc".to_owned()];
        let made = generate(&names, Timestamp::now()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let authority = made.authority.unwrap();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
        let client = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "service-webhook.kube-system.svc".try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = rustls::ServerConnection::new(made.config).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut &wire[..]).unwrap();
            server.process_new_packets().unwrap();
            let mut wire = Vec::new();
            server.write_tls(&mut wire).unwrap();
            client.read_tls(&mut &wire[..]).unwrap();
            client.process_new_packets().unwrap();
        }
    }

    /// An API server with both configurations, each with two webhooks, and how often they were written.
    #[derive(Default)]
    struct Configurations {
        stored: parking_lot::Mutex<std::collections::BTreeMap<String, serde_json::Value>>,
        writes: std::sync::atomic::AtomicUsize,
    }

    impl Configurations {
        fn with(names: &[&str]) -> Arc<Self> {
            let path =
                |kind: &str| format!("/apis/admissionregistration.k8s.io/v1/{kind}/service-control-plane");
            let hook = |name: &str| {
                serde_json::json!({"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                    "clientConfig": {"url": "https://localhost"}})
            };
            let stored = names.iter().map(|kind| {
                let object = serde_json::json!({"metadata": {"name": "service-control-plane", "resourceVersion": "1"},
                    "webhooks": [hook("a.example.com"), hook("b.example.com")]});
                (path(kind), object)
            });
            Arc::new(Self { stored: parking_lot::Mutex::new(stored.collect()), ..Self::default() })
        }

        fn client(self: &Arc<Self>) -> Client {
            use http_body_util::BodyExt as _;
            let server = Arc::clone(self);
            let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
                let server = Arc::clone(&server);
                async move {
                    let (parts, body) = request.into_parts();
                    let path = parts.uri.path().to_owned();
                    if parts.method == http::Method::PUT {
                        let body = body.collect().await.unwrap().to_bytes();
                        server.writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        server.stored.lock().insert(path.clone(), serde_json::from_slice(&body).unwrap());
                    }
                    let found = server.stored.lock().get(&path).cloned();
                    let code = if found.is_some() { 200 } else { 404 };
                    let none = serde_json::json!({"kind": "Status", "code": 404, "reason": "NotFound"});
                    let text = found.unwrap_or(none).to_string().into_bytes();
                    let answer = http::Response::builder().status(code).body(kube::client::Body::from(text));
                    Ok::<_, std::convert::Infallible>(answer.unwrap())
                }
            });
            Client::new(service, "default")
        }

        fn writes(&self) -> usize {
            self.writes.load(std::sync::atomic::Ordering::Relaxed)
        }

        /// How many authorities each webhook trusts.
        fn trusted(&self) -> Vec<usize> {
            let stored = self.stored.lock();
            let hooks = stored.values().flat_map(|object| object["webhooks"].as_array().unwrap().clone());
            hooks
                .map(|hook| {
                    let bundle: ByteString =
                        serde_json::from_value(hook["clientConfig"]["caBundle"].clone()).unwrap();
                    String::from_utf8(bundle.0).unwrap().matches(BEGIN).count()
                })
                .collect()
        }
    }

    const BOTH: [&str; 2] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

    #[tokio::test]
    async fn both_configurations_trust_the_authorities_of_all_replicas() {
        let (server, name) = (Configurations::with(&BOTH), "service-control-plane");
        let client = server.client();
        let pem = |i: usize| format!("{BEGIN}\n{i}\n{END}\n");
        assert_eq!(publish(&client, name, &pem(1)).await.unwrap(), 2);
        assert_eq!((server.writes(), server.trusted()), (2, vec![1; 4]));
        assert_eq!(publish(&client, name, &pem(1)).await.unwrap(), 2);
        assert_eq!(server.writes(), 2, "what is there already is not written again");
        publish(&client, name, &pem(2)).await.unwrap();
        assert_eq!((server.writes(), server.trusted()), (4, vec![2; 4]), "the other replica's stays");
        // Somebody applied the manifest anew, without any authority.
        let applied = Configurations::with(&BOTH);
        *server.stored.lock() = applied.stored.lock().clone();
        publish(&client, name, &pem(1)).await.unwrap();
        assert_eq!(server.trusted(), [1; 4]);
    }

    #[tokio::test]
    async fn where_there_are_no_configurations_nothing_is_written() {
        let server = Configurations::with(&[]);
        assert_eq!(publish(&server.client(), "service-control-plane", "x").await.unwrap(), 0);
        let server = Configurations::with(&BOTH[..1]);
        assert_eq!(publish(&server.client(), "service-control-plane", "x").await.unwrap(), 1);
        assert_eq!(server.writes(), 1);
    }

    #[test]
    fn files_that_are_none_are_named() {
        let now = Timestamp::now();
        let error = from_pem(b"", b"", "a", now).unwrap_err().to_string();
        assert!(error.starts_with("the private key"), "{error}");
        let [one, other] = [(); 2].map(|()| rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap());
        let error =
            from_pem(one.cert.pem().as_bytes(), other.signing_key.serialize_pem().as_bytes(), "a", now);
        assert!(
            error.unwrap_err().to_string().starts_with("use a certificate"),
            "they do not belong together"
        );
    }

    #[test]
    fn a_certificate_out_of_its_time_or_for_another_name_says_so() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["a".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2026, 2, 1));
        let certificate = params.self_signed(&key).unwrap().pem();
        let fault = |name: &str, now: &str| {
            let now = now.parse().unwrap();
            from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes(), name, now).unwrap().fault
        };
        assert_eq!(fault("a", "2026-01-15T00:00:00Z"), None);
        assert_eq!(fault("a", "2026-02-02T00:00:00Z").as_deref(), Some("the certificate has expired"));
        assert_eq!(fault("a", "2025-12-31T00:00:00Z").as_deref(), Some("the certificate is not valid yet"));
        let of_another = fault("service-webhook.kube-system.svc", "2026-01-15T00:00:00Z").unwrap();
        assert!(of_another.starts_with("the certificate is not for service-webhook.kube-system.svc"));
    }
}
