//! The webhook's certificate over time: from files that may change, or of its own and made anew twice a day.
//!
//! Owns when it changes. The API server is told of an own one before it is shown.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use service_controllers::error::with_causes;
use service_controllers::webhook::tls::{self, Certificate, REPLACED_AFTER, TlsError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::args::WebhookArgs;
use service_controllers::readiness::Pending;

/// How often files and bundles are looked at.
const LOOK: Duration = Duration::from_mins(1);
/// How soon what failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// What follows from a certificate that the API server does not take.
const UNHEARD: &str = "the API server does not take the webhook's answers, and chooses itself";

/// No certificate to begin with.
#[derive(Debug, thiserror::Error)]
pub enum WebhookCertificateError {
    /// A file is not readable.
    #[error("{flag} {file}: {source}")]
    File {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// What there is, is none.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Where certificates come from.
#[derive(Debug, Clone)]
enum Source {
    Files { certificate: PathBuf, key: PathBuf, name: String },
    Own { names: Vec<String>, configuration: String },
}

/// Keeps the certificate that is shown the right one.
#[derive(Debug)]
pub(super) struct Keeper {
    source: Source,
    shown: watch::Sender<Arc<Certificate>>,
}

impl Source {
    fn make(&self) -> Result<Certificate, WebhookCertificateError> {
        match self {
            Self::Own { names, .. } => Ok(tls::generate(names, Timestamp::now())?),
            Self::Files { certificate, key, name } => {
                let read = |flag, file: &PathBuf| {
                    let file = file.clone();
                    std::fs::read(&file).map_err(move |source| WebhookCertificateError::File {
                        flag,
                        file,
                        source,
                    })
                };
                let (certificate, key) =
                    (read("--tls-cert-file", certificate)?, read("--tls-private-key-file", key)?);
                Ok(tls::from_pem(&certificate, &key, name, Timestamp::now())?)
            }
        }
    }
}

impl Keeper {
    /// The first certificate.
    pub(super) fn start(args: &WebhookArgs) -> Result<Self, WebhookCertificateError> {
        let source = match (&args.serving.tls_cert_file, &args.serving.tls_private_key_file) {
            (Some(certificate), Some(key)) => {
                let name = args.webhook_service.for_the_api_server();
                Source::Files { certificate: certificate.clone(), key: key.clone(), name }
            }
            _ => Source::Own {
                names: args.webhook_service.names(),
                configuration: args.webhook_configuration.clone(),
            },
        };
        let first = Arc::new(source.make()?);
        if let Some(fault) = &first.fault {
            tracing::warn!("{fault}: {UNHEARD}");
        }
        Ok(Self { source, shown: watch::Sender::new(first) })
    }

    /// The certificate that is shown, now and later.
    pub(super) fn current(&self) -> watch::Receiver<Arc<Certificate>> {
        self.shown.subscribe()
    }

    /// Works until `shutdown`. `trusted` ends when the API server knows the authority of what is shown.
    pub(super) async fn keep(self, client: Client, trusted: Pending, shutdown: CancellationToken) {
        let work = async {
            match self.source.clone() {
                Source::Files { .. } => {
                    drop(trusted);
                    self.follow_files().await;
                }
                Source::Own { configuration, .. } => self.rotate(&client, &configuration, trusted).await,
            }
        };
        tokio::select! {
            () = work => {}
            () = shutdown.cancelled() => {}
        }
    }

    /// A certificate that can not be read leaves the one before in use.
    async fn follow_files(&self) {
        let mut told = self.shown.borrow().fault.clone();
        loop {
            sleep(LOOK).await;
            match self.source.make() {
                Ok(certificate) => {
                    if let Some(fault) =
                        certificate.fault.as_ref().filter(|fault| told.as_ref() != Some(*fault))
                    {
                        tracing::warn!("{fault}: {UNHEARD}");
                    }
                    told.clone_from(&certificate.fault);
                    self.shown.send_replace(Arc::new(certificate));
                }
                Err(error) => {
                    let text = error.to_string();
                    if told.as_ref() != Some(&text) {
                        tracing::warn!(error = text, "the certificate before stays in use");
                        told = Some(text);
                    }
                }
            }
        }
    }

    async fn rotate(&self, client: &Client, configuration: &str, trusted: Pending) {
        let mut trusted = Some(trusted);
        let mut next: Option<Arc<Certificate>> = None;
        let mut made = Instant::now();
        let mut told = false;
        loop {
            if next.is_none() && made.elapsed() >= REPLACED_AFTER {
                match self.source.make() {
                    Ok(certificate) => next = Some(Arc::new(certificate)),
                    Err(error) => tracing::error!(%error, "no new certificate; the one before stays in use"),
                }
            }
            let certificate = next.clone().unwrap_or_else(|| Arc::clone(&self.shown.borrow()));
            let authority = certificate.authority.clone().unwrap_or_default();
            let wait = match tls::publish(client, configuration, &authority).await {
                Ok(0) => {
                    drop(trusted.take());
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(
                            name = configuration,
                            "there is no webhook configuration of this name yet: the API server does not ask"
                        );
                    }
                    AGAIN
                }
                Ok(_) => {
                    told = false;
                    drop(trusted.take());
                    if let Some(new) = next.take() {
                        self.shown.send_replace(new);
                        made = Instant::now();
                        tracing::info!("the webhook has a new certificate");
                    }
                    LOOK
                }
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        let error = with_causes(&error);
                        tracing::warn!(error, "the API server does not know the webhook's authority yet");
                    }
                    AGAIN
                }
            };
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::{Method, Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use service_controllers::readiness::Readiness;
    use tower::service_fn;

    use super::*;

    const NAME: &str = "service-control-plane";

    /// An API server with one webhook configuration, which takes no writes while it is `deaf`.
    #[derive(Default)]
    struct Server {
        stored: Mutex<Value>,
        deaf: AtomicBool,
    }

    impl Server {
        fn new() -> Arc<Self> {
            let hook = json!({"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": "https://localhost"}});
            let stored = json!({"metadata": {"name": NAME, "resourceVersion": "1"}, "webhooks": [hook]});
            Arc::new(Self { stored: Mutex::new(stored), deaf: AtomicBool::new(false) })
        }

        fn answer(&self, write: Option<Value>, mutating: bool) -> (u16, Value) {
            if !mutating {
                return (404, json!({"kind": "Status", "code": 404, "reason": "NotFound"}));
            }
            if write.is_some() && self.deaf.load(Ordering::Relaxed) {
                return (503, json!({"kind": "Status", "code": 503, "reason": "ServiceUnavailable"}));
            }
            let mut stored = self.stored.lock();
            if let Some(written) = write {
                *stored = written;
            }
            (200, stored.clone())
        }

        fn client(self: &Arc<Self>) -> Client {
            let server = Arc::clone(self);
            let service = service_fn(move |request: Request<Body>| {
                let server = Arc::clone(&server);
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let write = (parts.method == Method::PUT).then(|| serde_json::from_slice(&body).unwrap());
                    let (code, said) = server.answer(write, parts.uri.path().contains("/mutating"));
                    let answer =
                        Response::builder().status(code).body(Body::from(said.to_string().into_bytes()));
                    Ok::<_, Infallible>(answer.unwrap())
                }
            });
            Client::new(service, "default")
        }

        /// How many authorities the webhook trusts.
        fn trusted(&self) -> usize {
            let bundle = self.stored.lock()["webhooks"][0]["clientConfig"]["caBundle"].clone();
            let bundle: k8s_openapi::ByteString = serde_json::from_value(bundle).unwrap_or_default();
            String::from_utf8(bundle.0).unwrap().matches("BEGIN CERTIFICATE").count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_of_our_own_is_made_anew_twice_a_day_and_shown_when_the_api_server_knows_its_authority()
     {
        let (server, readiness) = (Server::new(), Readiness::default());
        let source = Source::Own { names: vec!["localhost".into()], configuration: NAME.into() };
        let first = Arc::new(source.make().unwrap());
        let keeper = Keeper { source, shown: watch::Sender::new(Arc::clone(&first)) };
        let mut shown = keeper.current();
        let (trusted, shutdown) = (readiness.wait_for("webhook"), CancellationToken::new());
        let work = tokio::spawn(keeper.keep(server.client(), trusted, shutdown.clone()));
        sleep(LOOK).await;
        assert!(readiness.pending().is_empty() && server.trusted() == 1);
        sleep(REPLACED_AFTER.saturating_sub(3 * LOOK)).await;
        assert!(!shown.has_changed().unwrap() && server.trusted() == 1, "it is not old yet");
        server.deaf.store(true, Ordering::Relaxed);
        sleep(10 * LOOK).await;
        assert!(!shown.has_changed().unwrap(), "nobody would take the new one yet");
        server.deaf.store(false, Ordering::Relaxed);
        sleep(LOOK).await;
        assert_eq!(server.trusted(), 2, "both are known while the new one comes into use");
        let second = Arc::clone(&shown.borrow_and_update());
        assert_ne!(second.authority, first.authority);
        sleep(REPLACED_AFTER.saturating_sub(3 * LOOK)).await;
        assert!(!shown.has_changed().unwrap(), "its time begins when it is shown");
        sleep(5 * LOOK).await;
        assert!(shown.has_changed().unwrap() && server.trusted() == 3);
        shutdown.cancel();
        work.await.unwrap();
    }
}
