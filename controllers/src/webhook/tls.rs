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
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
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
    /// Why an API server will not take it, as far as that can be told without its authority: its time.
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

/// A certificate from the texts of two PEM files, as cert-manager writes them, looked at at `now`.
///
/// # Errors
/// When one of them has none, or they do not belong together.
pub fn from_pem(certificates: &[u8], key: &[u8], now: Timestamp) -> Result<Certificate, TlsError> {
    let pem = |what: &str| {
        let what = what.to_owned();
        move |source| TlsError::Pem { what, source }
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
    let chain = chain.map_err(pem("the certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(pem("the private key"))?;
    let fault = chain.first().and_then(|leaf| fault(leaf, now));
    Ok(Certificate { config: server(chain, key)?, authority: None, fault })
}

/// Whether a certificate's time is over or has not come.
fn fault(leaf: &CertificateDer<'_>, now: Timestamp) -> Option<String> {
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

    #[test]
    fn files_that_are_none_are_named() {
        let now = Timestamp::now();
        let error = from_pem(b"", b"", now).unwrap_err().to_string();
        assert!(error.starts_with("the private key"), "{error}");
        let [one, other] = [(); 2].map(|()| rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap());
        let error = from_pem(one.cert.pem().as_bytes(), other.signing_key.serialize_pem().as_bytes(), now);
        assert!(
            error.unwrap_err().to_string().starts_with("use a certificate"),
            "they do not belong together"
        );
    }

    #[test]
    fn a_certificate_out_of_its_time_says_so() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["a".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2026, 2, 1));
        let certificate = params.self_signed(&key).unwrap().pem();
        let fault = |now: &str| {
            let now = now.parse().unwrap();
            from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes(), now).unwrap().fault
        };
        assert_eq!(fault("2026-01-15T00:00:00Z"), None);
        assert_eq!(fault("2026-02-02T00:00:00Z").as_deref(), Some("the certificate has expired"));
        assert_eq!(fault("2025-12-31T00:00:00Z").as_deref(), Some("the certificate is not valid yet"));
    }
}
