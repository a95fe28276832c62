//! `run`: the controllers against any API server, alone or as one of several replicas.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use service_controllers::{error::with_causes, lease::Candidate, report::metrics::Metrics, set};
use service_lab::tls::Authority;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::util::MapRequestLayer;

use super::{CommandError, controllers};
use crate::{
    admin::{self, Shown},
    args::{LeaseArgs, RunArgs},
    ready::Readiness,
    shutdown,
};

/// How long to wait for the API server at the start.
const REACHABLE_WITHIN: Duration = Duration::from_secs(10);
/// Sooner than the time limit of any request.
const NEAR: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(500);
const USER_AGENT: &str = concat!("service-controller-manager/", env!("CARGO_PKG_VERSION"));

/// An API server that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No usable kubeconfig.
    #[error("--kubeconfig {file}: {source}")]
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: Box<KubeconfigError>,
    },
    /// Not in a cluster.
    #[error("no --kubeconfig is given, and this is no pod in a cluster: {0}")]
    InCluster(#[from] kube::config::InClusterError),
    /// Not where a request can go: kube's client takes it and panics at the first one.
    #[error("the server {0:?} is no http or https URL")]
    Url(String),
    /// No client for it.
    #[error("cannot talk to {url}: {source}")]
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
    /// It knows us, and does not let us in.
    #[error("{url} refuses the credentials: {message}")]
    Refused {
        /// The server.
        url: String,
        /// What it says.
        message: String,
    },
}

/// Runs until a signal comes or the lease is lost.
pub(super) async fn run(args: RunArgs) -> Result<(), CommandError> {
    args.lease.check()?;
    controllers::warn_of_others(&args.controllers.selection);
    controllers::warn_of_lab_only(&args.controllers.selection);
    let shutdown = shutdown::on_signal().map_err(CommandError::Signals)?;
    let tls = Authority::generate()?.server_config(&[args.bind_address])?;
    let admin = admin::bind(args.bind_address, args.secure_port, Some(tls)).await?;
    tracing::info!(address = %admin.address(), "metrics and readiness");
    let client = tokio::select! {
        client = connect(args.kubeconfig.as_deref()) => client?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let shown = Shown { readiness: Readiness::default(), metrics: Arc::new(RwLock::new(registry)) };
    let mut settings = controllers::settings(&args.sync, &args.controllers.selection);
    settings.kube_api_qps = args.rate.kube_api_qps;
    settings.kube_api_burst = args.rate.kube_api_burst;
    settings.leader_election = args.lease.leader_elect.then(|| election(&args.lease));
    settings.metrics = metrics;
    report_readiness(&shown.readiness, &settings);
    let serving = tokio::spawn(admin.serve(shown, shutdown.child_token()));
    tokio::spawn(keep_a_timer_near());
    let stopped = set::start(client, settings, shutdown.clone()).await;
    shutdown.cancel();
    if let Err(error) = serving.await {
        std::panic::resume_unwind(error.into_panic());
    }
    Ok(stopped?)
}

/// tokio wakes its driver, by a system call and a turn of its loop, for a timer that is due before all others. With one that
/// is always near, the time limit of a request is not.
async fn keep_a_timer_near() {
    let mut near = tokio::time::interval(NEAR);
    loop {
        near.tick().await;
    }
}

/// Ready when the caches are filled; a replica that waits for the lease is ready to take over.
fn report_readiness(readiness: &Readiness, settings: &set::Settings) {
    if settings.leader_election.is_some() {
        return;
    }
    let (pending, filled): (_, CancellationToken) = (readiness.wait_for("caches"), settings.ready.clone());
    tokio::spawn(async move {
        filled.cancelled().await;
        drop(pending);
    });
}

fn election(args: &LeaseArgs) -> Candidate {
    let host = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let host = host.map_or("unknown".to_owned(), |host| host.trim().to_owned());
    Candidate {
        namespace: args.leader_elect_resource_namespace.clone(),
        name: args.leader_elect_resource_name.clone(),
        identity: format!("{host}_{}", uuid::Uuid::new_v4()),
        duration: args.leader_elect_lease_duration.0,
        renew_deadline: args.leader_elect_renew_deadline.0,
        retry_period: args.leader_elect_retry_period.0,
    }
}

/// A client for an API server that answers.
async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ClusterError> {
    let mut config = match kubeconfig {
        Some(file) => from_file(file)
            .await
            .map_err(|source| ClusterError::Kubeconfig { file: file.to_owned(), source: Box::new(source) })?,
        None => Config::incluster()?,
    };
    // A create that is sent again behind the controllers' back may be done twice, and they wait themselves.
    config.default_retry = false;
    // Requests have a time limit of their own, and a watch may be silent for long.
    config.read_timeout = None;
    let url = config.cluster_url.to_string();
    if !matches!(config.cluster_url.scheme_str(), Some("http" | "https")) {
        return Err(ClusterError::Url(url));
    }
    let client = client(config)
        .map_err(|source| ClusterError::Client { url: url.clone(), source: Box::new(source) })?;
    reach(&client, &url).await?;
    Ok(client)
}

/// Waits until the API server answers.
async fn reach(client: &Client, url: &str) -> Result<(), ClusterError> {
    let deadline = Instant::now() + REACHABLE_WITHIN;
    loop {
        match client.apiserver_version().await {
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
            Err(source) if Instant::now() >= deadline => {
                return Err(ClusterError::Unreachable { url: url.to_owned(), source: Box::new(source) });
            }
            Err(error) => tracing::debug!(%error, url, "API server does not answer yet"),
        }
        sleep(RETRY).await;
    }
}

/// A client whose requests say whose they are, unless they do so already: a header of the configuration would be there twice.
fn client(config: Config) -> Result<Client, kube::Error> {
    let named = MapRequestLayer::new(|mut request: http::Request<Body>| {
        let agent = http::HeaderValue::from_static(USER_AGENT);
        request.headers_mut().entry(http::header::USER_AGENT).or_insert(agent);
        request
    });
    Ok(ClientBuilder::try_from(config)?.with_layer(&named).build())
}

async fn from_file(file: &Path) -> Result<Config, KubeconfigError> {
    Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        task::JoinHandle,
    };

    use super::*;

    /// A server for one request, which it gives the head of.
    async fn serve(answer: &'static str) -> (Client, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let head = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(head).unwrap()
        });
        let mut config = Config::new(url.parse().unwrap());
        config.default_retry = false;
        (client(config).unwrap(), head)
    }

    #[rstest]
    #[case::of_its_own(Some("somebody"), "somebody")]
    #[case::of_the_process(None, USER_AGENT)]
    #[tokio::test]
    async fn a_request_has_one_user_agent(#[case] own: Option<&str>, #[case] expected: &str) {
        let (client, head) = serve("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
        let mut request = http::Request::get("/version");
        if let Some(own) = own {
            request = request.header(http::header::USER_AGENT, own);
        }
        client.request_text(request.body(Vec::new()).unwrap()).await.unwrap();
        let head = head.await.unwrap();
        let agents: Vec<&str> = head.lines().filter_map(|line| line.strip_prefix("user-agent: ")).collect();
        assert_eq!(agents, [expected]);
    }

    #[rstest]
    #[case::busy(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 17\r\n\r\nToo many requests",
        true
    )]
    #[case::unwilling("HTTP/1.1 401 Unauthorized\r\ncontent-length: 12\r\n\r\nUnauthorized", false)]
    #[tokio::test]
    async fn a_busy_server_has_been_reached(#[case] answer: &'static str, #[case] reached: bool) {
        let (client, _) = serve(answer).await;
        // There is no second answer.
        assert_eq!(reach(&client, "url").await.is_ok(), reached);
    }
}
