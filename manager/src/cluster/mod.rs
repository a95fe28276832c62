//! The way to the API server: from a kubeconfig, or a pod's environment, to a client that had an answer.
//!
//! Owns credentials and how they are renewed. It knows nothing of what is asked for.

mod connection;
mod kubeconfig;
mod proxy;
mod token_file;

pub use kubeconfig::FileError;
pub use proxy::ProxyError;
pub use token_file::TokenFileError;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use http::Uri;
use kube::{
    Client, Config,
    client::{AuthError, ClientBuilder},
    config::{AuthInfo, ExecConfig, InClusterError},
};
use service_controllers::{error::with_causes, report::metrics::RequestMetrics};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};

use crate::args::PlaceArgs;
use connection::{Connection, Line};
use kubeconfig::Read;
use token_file::TokenFile;

/// How long to wait for the API server at the start.
const REACHABLE_WITHIN: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(500);
/// Where a pod finds its service account (kubernetes.io, "Accessing the Kubernetes API from a Pod").
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// An API server that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No usable kubeconfig.
    #[error("--kubeconfig {file}: {}", with_causes(source.as_ref()))]
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: Box<FileError>,
    },
    /// Not in a cluster.
    #[error("no --kubeconfig is given, and this is no pod with a service account: {}", missing_in_pod(.0))]
    InCluster(#[from] InClusterError),
    /// Not where a request can go: kube's client takes it and panics at the first one.
    #[error("the server {0:?} is no http or https URL")]
    Url(String),
    /// The kubeconfig leads elsewhere by now, where nobody asked for these controllers.
    #[error("the kubeconfig leads to {now} now, and led to {before} at the start")]
    Moved {
        /// The server at the start.
        before: String,
        /// The server now.
        now: String,
    },
    /// No token to begin with.
    #[error("no token for {url}: {source}")]
    Token {
        /// The server.
        url: String,
        /// Why not.
        source: TokenFileError,
    },
    /// The program that gets the credentials gets none.
    #[error("no credentials for {url}: the command {command:?} of the kubeconfig {reason}")]
    Plugin {
        /// The server.
        url: String,
        /// The program.
        command: String,
        /// What it says, or why it says nothing.
        reason: String,
    },
    /// Credentials that kube's client panics at.
    #[error(
        "no request to {0} can carry the credentials; is there a line end or another control character in the token?"
    )]
    Unsendable(String),
    /// No client for it.
    #[error("cannot talk to {url}: {}", with_causes(source.as_ref()))]
    Client {
        /// The server.
        url: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// It does not answer.
    #[error("{url} does not answer: {}", with_causes(source.as_ref()))]
    Unreachable {
        /// The server.
        url: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// It takes the connection, and says nothing.
    #[error("{url} does not answer: nothing came within {} s", REACHABLE_WITHIN.as_secs())]
    Silent {
        /// The server.
        url: String,
    },
    /// It knows us, and does not let us in.
    #[error("{url} refuses the credentials: {message}")]
    Refused {
        /// The server.
        url: String,
        /// What it says.
        message: String,
    },
}

/// What of a pod's environment is not there, by its name.
fn missing_in_pod(error: &InClusterError) -> String {
    let file = |name: &str, source: &std::io::Error| {
        format!("{SERVICE_ACCOUNT}/{name}: {source}; a pod with automountServiceAccountToken has it")
    };
    match error {
        InClusterError::ReadEnvironmentVariable(source) => {
            format!("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set: {source}")
        }
        InClusterError::ParseClusterPort(source) => format!("KUBERNETES_SERVICE_PORT: {source}"),
        InClusterError::ReadDefaultNamespace(source) => file("namespace", source),
        InClusterError::ReadCertificateBundle(source) => file("ca.crt", source),
        error => error.to_string(),
    }
}

/// Where the way to a server is written down.
#[derive(Debug, Clone, Default)]
struct Source {
    /// A kubeconfig; without one the environment of a pod.
    file: Option<PathBuf>,
    /// The context of that file, once it has been read: it is not left for another one that becomes current later.
    context: Option<String>,
    /// The server that was found there at the start.
    server: Option<Uri>,
}

impl Source {
    /// Reads the settings as they are now, and remembers where they lead.
    async fn read(&mut self) -> Result<Config, ClusterError> {
        let mut config = match &self.file {
            Some(file) => {
                let environment = proxy::Environment::of_process();
                let read = kubeconfig::read(file, self.context.as_deref(), &environment).await;
                let Read { config, context } = read.map_err(|source| ClusterError::Kubeconfig {
                    file: file.clone(),
                    source: Box::new(source),
                })?;
                self.context = Some(context);
                config
            }
            None => Config::incluster()?,
        };
        // A create that is sent again behind the controllers' back may be done twice, and they wait themselves.
        config.default_retry = false;
        // Requests have a time limit of their own, and a watch may be silent for long.
        config.read_timeout = None;
        let now = &config.cluster_url;
        if !matches!(now.scheme_str(), Some("http" | "https")) {
            return Err(ClusterError::Url(now.to_string()));
        }
        match &self.server {
            Some(before) if before != now => {
                Err(ClusterError::Moved { before: before.to_string(), now: now.to_string() })
            }
            _ => {
                self.server = Some(now.clone());
                Ok(config)
            }
        }
    }
}

/// Who watches the way to the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    /// Counts requests.
    pub(crate) requests: RequestMetrics,
    /// Told that credentials were read again.
    pub(crate) renewed: Arc<Notify>,
}

/// A client for an API server that answers.
pub(crate) async fn connect(kubeconfig: Option<&Path>, watched: Watched) -> Result<Client, ClusterError> {
    start(Source { file: kubeconfig.map(Path::to_owned), ..Source::default() }, watched).await
}

async fn start(mut source: Source, watched: Watched) -> Result<Client, ClusterError> {
    let config = source.read().await?;
    let url = config.cluster_url.to_string();
    if let Some(authority) = config.cluster_url.authority() {
        watched.requests.name_host(authority.as_str());
    }
    let client = client(config, source, watched).await?;
    reach(&client, &url).await?;
    Ok(client)
}

/// Where a kubeconfig leads, as kubectl is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// The file; without it the one that kubectl takes, or the environment of a pod.
    pub(crate) file: Option<PathBuf>,
    /// The context; without it the current one.
    pub(crate) context: Option<String>,
}

impl From<&PlaceArgs> for Place {
    fn from(args: &PlaceArgs) -> Self {
        Self { file: args.kubeconfig.clone(), context: args.context.clone() }
    }
}

/// A client for the API server that kubectl would talk to.
pub(crate) async fn connect_as_kubectl(
    place: impl Into<Place>,
    watched: Watched,
) -> Result<Client, ClusterError> {
    let place = place.into();
    let file = place.file.or_else(usual_file);
    start(Source { file, context: place.context, ..Source::default() }, watched).await
}

/// The kubeconfig that kubectl takes: the first that there is of `KUBECONFIG`, or the one in the home directory.
fn usual_file() -> Option<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
    let listed: Option<Vec<PathBuf>> = listed.map(|list| std::env::split_paths(&list).collect());
    let home = || std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect();
    let files: Vec<PathBuf> = listed.unwrap_or_else(home);
    files.into_iter().find(|file| file.is_file())
}

/// Waits until the API server answers.
async fn reach(client: &Client, url: &str) -> Result<(), ClusterError> {
    let deadline = Instant::now() + REACHABLE_WITHIN;
    loop {
        let Ok(answer) = timeout_at(deadline, client.apiserver_version()).await else {
            return Err(ClusterError::Silent { url: url.to_owned() });
        };
        match answer {
            Ok(version) => {
                tracing::info!(url, version = version.git_version, "API server");
                return Ok(());
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
                return Err(ClusterError::Refused { url: url.to_owned(), message: status.message.clone() });
            }
            // It is there, and whoever ends, starts again and lists all anew makes it no less busy.
            Err(kube::Error::Api(status)) if status.code == 429 => {
                tracing::info!(url, "API server is busy");
                return Ok(());
            }
            Err(source) if Instant::now() + RETRY >= deadline => {
                return Err(ClusterError::Unreachable { url: url.to_owned(), source: Box::new(source) });
            }
            Err(error) => tracing::debug!(%error, url, "API server does not answer yet"),
        }
        sleep(RETRY).await;
    }
}

/// A client that reads its credentials again where the server refuses them.
async fn client(config: Config, source: Source, watched: Watched) -> Result<Client, ClusterError> {
    let namespace = config.default_namespace.clone();
    let again = move || -> BoxFuture<'static, Result<Line, ClusterError>> {
        let mut source = source.clone();
        Box::pin(async move { line(source.read().await?).await })
    };
    let connection = Connection::new(line(config).await?, Box::new(again), watched);
    Ok(Client::new(connection, namespace))
}

/// A way to the server, with the credentials that are there now. A command that gives them may take its time, in which the
/// process can be told to end.
async fn line(config: Config) -> Result<Line, ClusterError> {
    let url = config.cluster_url.to_string();
    let line = tokio::task::spawn_blocking(move || line_now(config)).await;
    line.unwrap_or_else(|_| Err(ClusterError::Unsendable(url)))
}

fn line_now(mut config: Config) -> Result<Line, ClusterError> {
    let url = config.cluster_url.to_string();
    let token = token_file(&mut config.auth_info)
        .map_err(|source| ClusterError::Token { url: url.clone(), source })?;
    let exec = config.auth_info.exec.clone();
    let builder =
        ClientBuilder::try_from(config).map_err(|error| no_client(error, url.clone(), exec.as_ref()))?;
    // kube lays a layer at once; if it did not there would be no client.
    Line::new(builder, token).ok_or_else(|| ClusterError::Client {
        url,
        source: Box::new(kube::Error::Service("the client was not made".into())),
    })
}

/// Takes the token file out of the credentials: kube sends what is in it as it is, with the line end, which no server takes.
/// As with client-go a token beside it counts only if the file has none.
fn token_file(credentials: &mut AuthInfo) -> Result<Option<TokenFile>, TokenFileError> {
    let Some(path) = credentials.token_file.take() else { return Ok(None) };
    match TokenFile::open(path, std::time::Instant::now()) {
        Ok(file) => {
            credentials.token = None;
            Ok(Some(file))
        }
        Err(error) if credentials.token.is_some() => {
            tracing::warn!(%error, "the token file cannot be used; the token beside it in the kubeconfig is");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Why there is no client, with the program's name and words where a program gets the credentials.
fn no_client(error: kube::Error, url: String, exec: Option<&ExecConfig>) -> ClusterError {
    let reason = match (&error, exec) {
        (kube::Error::Auth(AuthError::AuthExecStart(source)), Some(exec)) => {
            let hint = exec.install_hint.iter().flat_map(|hint| hint.lines()).map(str::trim);
            let hint: Vec<&str> = hint.filter(|line| !line.is_empty()).collect();
            Some(format!("cannot be started: {source} {}", hint.join(" ")))
        }
        (kube::Error::Auth(AuthError::AuthExecRun { out, .. }), Some(_)) => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            Some(format!("failed ({}): {}", out.status, said.join(" ")))
        }
        _ => None,
    };
    match reason {
        Some(reason) => ClusterError::Plugin {
            url,
            command: exec.and_then(|exec| exec.command.clone()).unwrap_or_default(),
            reason: reason.trim_end_matches([' ', ':']).to_owned(),
        },
        None => ClusterError::Client { url, source: Box::new(error) },
    }
}

#[cfg(test)]
mod tests;
