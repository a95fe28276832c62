//! The certificate of the port: made here by default, and made anew before it runs out; or from files, which are read again
//! when they change.

use std::{
    fmt, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use service_tls::{Authority, TlsError};
use tokio::time::{Instant, sleep};

/// One that is made here holds for a year at least, and is made anew after so long.
const RENEW: Duration = Duration::from_hours(24 * 180);
/// Whether files have changed is looked at so often.
const LOOK: Duration = Duration::from_mins(1);

/// A certificate that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// One that is made here.
    #[error(transparent)]
    Make(#[from] TlsError),
    /// A file that cannot be read, or has something else in it.
    #[error("{flag} {file}: {reason}")]
    File {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// TLS cannot be spoken with it.
    #[error("--tls-cert-file and --tls-private-key-file: {0}")]
    Rustls(#[from] rustls::Error),
}

/// Where it comes from.
#[derive(Debug, Clone)]
enum Source {
    Made(Vec<IpAddr>),
    Files { certificate: PathBuf, key: PathBuf },
}

/// The certificate that is shown now.
pub struct Certificate {
    source: Source,
    shown: RwLock<Arc<CertifiedKey>>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Certificate").field("source", &self.source).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.shown.read()))
    }
}

impl Certificate {
    /// One that is made here, for `localhost` and some addresses. Nobody can check it.
    pub fn made(addresses: &[IpAddr]) -> Result<Arc<Self>, CertificateError> {
        Self::of(Source::Made(addresses.to_vec()))
    }

    /// The one in a file, with the rest of its chain, and its key in another.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Arc<Self>, CertificateError> {
        Self::of(Source::Files { certificate: certificate.to_owned(), key: key.to_owned() })
    }

    fn of(source: Source) -> Result<Arc<Self>, CertificateError> {
        let shown = RwLock::new(Arc::new(source.get()?));
        Ok(Arc::new(Self { source, shown }))
    }

    /// What a server needs to show it; ALPN offers HTTP/2 first.
    pub fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, CertificateError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Self>::clone(self));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Keeps it fresh for ever. One that cannot be read stays as it was, which is told.
    pub async fn keep_fresh(self: Arc<Self>) {
        let (mut made, mut seen) = (Instant::now(), self.source.changed());
        loop {
            sleep(LOOK).await;
            let changed = self.source.changed();
            let due = match self.source {
                Source::Made(_) => made.elapsed() >= RENEW,
                Source::Files { .. } => changed != seen,
            };
            if due {
                (made, seen) = (Instant::now(), changed);
                self.renew();
            }
        }
    }

    fn renew(&self) {
        match self.source.get() {
            Ok(new) => {
                *self.shown.write() = Arc::new(new);
                tracing::info!("the certificate of the port for metrics and readiness is renewed");
            }
            Err(error) => tracing::warn!(
                %error,
                "the certificate of the port for metrics and readiness stays as it was"
            ),
        }
    }
}

impl Source {
    fn get(&self) -> Result<CertifiedKey, CertificateError> {
        let (chain, key) = match self {
            Self::Made(addresses) => Authority::generate()?.certificate(addresses)?,
            Self::Files { certificate, key } => {
                let failed = |flag, file: &Path, error: &dyn fmt::Display| CertificateError::File {
                    flag,
                    file: file.to_owned(),
                    reason: error.to_string(),
                };
                let chain = CertificateDer::pem_file_iter(certificate)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(|error| failed("--tls-cert-file", certificate, &error))?;
                if chain.is_empty() {
                    return Err(failed("--tls-cert-file", certificate, &"there is no certificate in it"));
                }
                let key = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| failed("--tls-private-key-file", key, &error))?;
                (chain, key)
            }
        };
        Ok(CertifiedKey::from_der(chain, key, &ring::default_provider())?)
    }

    /// When its files were written last.
    fn changed(&self) -> Option<[Option<SystemTime>; 2]> {
        let written = |file: &Path| -> io::Result<SystemTime> { std::fs::metadata(file)?.modified() };
        match self {
            Self::Made(_) => None,
            Self::Files { certificate, key } => Some([written(certificate).ok(), written(key).ok()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
        let missing = Certificate::from_files(&certificate, &key).unwrap_err().to_string();
        assert!(missing.starts_with("--tls-cert-file ") && missing.contains("tls.crt"), "{missing}");
        // An authority on disk is a pair of such files.
        Authority::load_or_generate(dir.path()).unwrap();
        std::fs::rename(dir.path().join("ca.crt"), &certificate).unwrap();
        std::fs::rename(dir.path().join("ca.key"), &key).unwrap();
        let shown = Certificate::from_files(&certificate, &key).unwrap();
        let first = shown.shown.read().cert.clone();
        std::fs::write(&key, "no key").unwrap();
        shown.renew();
        assert_eq!(shown.shown.read().cert, first, "what cannot be used changes nothing");
        Authority::load_or_generate(&dir.path().join(".")).unwrap();
        std::fs::rename(dir.path().join("ca.crt"), &certificate).unwrap();
        std::fs::rename(dir.path().join("ca.key"), &key).unwrap();
        shown.renew();
        assert_ne!(shown.shown.read().cert, first);
        shown.server_config().unwrap();
    }

    #[test]
    fn one_that_is_made_is_made_anew() {
        let shown = Certificate::made(&["127.0.0.1".parse().unwrap()]).unwrap();
        let first = shown.shown.read().cert.clone();
        shown.renew();
        assert_ne!(shown.shown.read().cert, first);
    }
}
