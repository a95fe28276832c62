//! The lab's own certificate authority and the certificate its server shows.
//!
//! The authority is kept in the data directory, so that a kubeconfig outlives a restart; the server's certificate is
//! made anew at each start and never leaves memory.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Zoned;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig, crypto::ring};

mod private_file;

pub use private_file::write_private;

const NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of the authority cannot be read or written.
    #[error("certificate authority in {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the file system says.
        source: io::Error,
    },
    /// One of the two files of the authority is missing or damaged.
    #[error(
        "certificate authority in {path} is damaged ({why}); remove ca.crt and ca.key there to get a new one"
    )]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A certificate cannot be made.
    #[error("certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The TLS library refuses what we made.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

/// Who signs the server's certificate.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// A new one, kept nowhere.
    pub fn generate() -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let params = authority_params();
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// The one kept in `dir`, or a new one that is kept there from now on.
    pub fn load_or_generate(dir: &Path) -> Result<Self, TlsError> {
        let (cert_path, key_path) = (dir.join("ca.crt"), dir.join("ca.key"));
        match (read(&cert_path)?, read(&key_path)?) {
            (Some(pem), Some(key)) => {
                let damaged = |why: String| TlsError::Damaged { path: dir.to_owned(), why };
                let key = KeyPair::from_pem(&key).map_err(|error| damaged(error.to_string()))?;
                check_certificate(&pem, &key).map_err(damaged)?;
                Ok(Self { issuer: Issuer::new(authority_params(), key), pem })
            }
            (None, None) => {
                let new = Self::generate()?;
                let file = |path: &Path, source| TlsError::File { path: path.to_owned(), source };
                write_private(&key_path, &new.issuer.key().serialize_pem())
                    .map_err(|e| file(&key_path, e))?;
                write_private(&cert_path, &new.pem).map_err(|e| file(&cert_path, e))?;
                Ok(new)
            }
            (cert, _) => Err(TlsError::Damaged {
                path: dir.to_owned(),
                why: format!("{} is missing", if cert.is_none() { "ca.crt" } else { "ca.key" }),
            }),
        }
    }

    /// The authority's certificate, for clients.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A server's certificate for the lab's names and `addresses`, and its key.
    pub fn certificate(
        &self,
        addresses: &[IpAddr],
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(NAMES.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        for address in addresses {
            params.subject_alt_names.push(SanType::IpAddress(*address));
        }
        params.distinguished_name.push(DnType::CommonName, "service-lab");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut params, 1);
        let cert = params.signed_by(&key, &self.issuer)?;
        let chain = vec![cert.der().clone()];
        Ok((chain, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()))))
    }

    /// What the server needs to speak TLS under the lab's names and `addresses`; ALPN offers HTTP/2 first.
    pub fn server_config(&self, addresses: &[IpAddr]) -> Result<Arc<ServerConfig>, TlsError> {
        let (chain, key) = self.certificate(addresses)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Whether clients could trust this certificate, and it is of this key.
fn check_certificate(pem: &str, key: &KeyPair) -> Result<(), String> {
    let none = |why: &dyn std::fmt::Display| format!("ca.crt is no certificate: {why}");
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| none(&error))?;
    RootCertStore::empty().add(certificate.clone()).map_err(|error| none(&error))?;
    let public = key.public_key_raw();
    if certificate.windows(public.len()).any(|part| part == public) {
        return Ok(());
    }
    Err("ca.crt is not the certificate of ca.key".to_owned())
}

fn read(path: &Path) -> Result<Option<String>, TlsError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TlsError::File { path: path.to_owned(), source }),
    }
}

/// The same at each start: what is signed later must name this issuer.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "service-lab-ca");
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, 20);
    params
}

/// From the start of last year for so many whole years; clocks differ.
fn set_validity(params: &mut CertificateParams, years: i32) {
    let year = i32::from(Zoned::now().year());
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + 1 + years, 1, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_outlives_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let first = Authority::load_or_generate(dir.path()).unwrap();
        let second = Authority::load_or_generate(dir.path()).unwrap();
        assert_eq!(first.pem(), second.pem());
        second.server_config(&["127.0.0.1".parse().unwrap()]).unwrap();
    }

    #[test]
    fn half_an_authority_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        Authority::load_or_generate(dir.path()).unwrap();
        fs::remove_file(dir.path().join("ca.key")).unwrap();
        let error = Authority::load_or_generate(dir.path()).err().unwrap();
        assert!(error.to_string().contains("ca.key is missing"), "{error}");
    }

    #[test]
    fn a_damaged_certificate_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let whole = Authority::load_or_generate(dir.path()).unwrap().pem().to_owned();
        let other = Authority::generate().unwrap().pem().to_owned();
        let mut zeroed = whole.clone().into_bytes();
        zeroed[200..264].fill(0);
        for (damaged, why) in [
            (&whole.as_bytes()[..40], "ca.crt is no certificate"),
            (zeroed.as_slice(), "ca.crt is no certificate"),
            (other.as_bytes(), "ca.crt is not the certificate of ca.key"),
        ] {
            fs::write(dir.path().join("ca.crt"), damaged).unwrap();
            let error = Authority::load_or_generate(dir.path()).err().unwrap();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
