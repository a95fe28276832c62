//! The life of a server: what it needs to start, its port, its connections, its end.
//!
//! `build` opens the store, brings it up and binds the port; nothing is served before [`Bound::run`]. Several servers
//! may share one [`Api`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use ipnet::IpNet;
use jiff::Timestamp;
use rustls::ServerConfig;
use service_allocators::{ClusterFamilies, Family, NodePortRange, PortLedger, PortSharing};
use service_tls::{Authority, TlsError, write_private};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::bootstrap::{self, BootstrapError, Keeper, RangeOrigin};
use crate::http::auth::Token;
use crate::http::documents::{Discovery, Health};
use crate::http::heavy::Heavy;
use crate::http::metrics::RequestMetrics;
use crate::http::pods::PodServer;
use crate::http::resources::ServerState;
use crate::http::router::{App, Beside, router, trusting};
use crate::namespace_defaults::Defaults;
use crate::registry::verbs::Api;
use crate::registry::{Allocation, LabIndex, Registry, kinds};
use crate::store::{Store, StoreError, StoreOptions};
use crate::{address, event_ttl, gc, kubeconfig, namespace_defaults, namespace_lifecycle, repair};

/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a client may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(30);
/// How long requests under way may go on when the server ends.
const DRAIN: Duration = Duration::from_secs(5);
/// While connections cannot be accepted, that is told so often.
const REMIND: Duration = Duration::from_mins(1);

/// The controllers that belong to the API server's side and run in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// `garbage-collector-controller`.
    pub garbage_collector: bool,
    /// `namespace-controller`.
    pub namespaces: bool,
    /// `serviceaccount-controller`.
    pub accounts: bool,
    /// `root-ca-certificate-publisher-controller`.
    pub root_ca: bool,
}

impl Controllers {
    /// All of them.
    pub const ALL: Self = Self { garbage_collector: true, namespaces: true, accounts: true, root_ca: true };
    /// None: nothing happens that no client asked for.
    pub const NONE: Self =
        Self { garbage_collector: false, namespaces: false, accounts: false, root_ca: false };
}

/// What a lab is to be.
#[derive(Clone, Debug)]
pub struct LabConfig {
    /// Where to listen.
    pub bind_address: IpAddr,
    /// The port; 0 takes any free one.
    pub port: u16,
    /// One range of cluster IPs, or two of different families.
    pub service_cidrs: Vec<IpNet>,
    /// Where these ranges come from.
    pub range_origin: RangeOrigin,
    /// The range of node ports.
    pub node_ports: NodePortRange,
    /// Whether several Services may hold one node port, each for protocols of its own.
    pub port_sharing: PortSharing,
    /// Who gives Services their addresses and ports.
    pub allocation: Allocation,
    /// Where objects and the certificate authority are kept; `None`: in memory.
    pub data_dir: Option<PathBuf>,
    /// The bearer token; `None`: a new random one.
    pub token: Option<Token>,
    /// Which controllers run.
    pub controllers: Controllers,
    /// How long an Event stays after its last write; zero: for ever.
    pub event_ttl: Duration,
    /// Where a kubeconfig is written, if anywhere.
    pub kubeconfig: Option<PathBuf>,
}

impl LabConfig {
    /// On any free port of 127.0.0.1, in memory, with upstream's default ranges and all controllers.
    pub fn local() -> Self {
        let range = IpNet::V4(ipnet::Ipv4Net::new_assert(Ipv4Addr::new(10, 96, 0, 0), 12));
        Self {
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            service_cidrs: vec![range],
            range_origin: RangeOrigin::default(),
            node_ports: NodePortRange::default(),
            port_sharing: PortSharing::default(),
            allocation: Allocation::default(),
            data_dir: None,
            token: None,
            controllers: Controllers::ALL,
            event_ttl: event_ttl::DEFAULT_TTL,
            kubeconfig: None,
        }
    }
}

/// Why a lab does not start.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The store cannot be opened.
    #[error("open the store: {0}")]
    Store(#[from] StoreError),
    /// The first objects cannot be made.
    #[error("bring up the store: {0}")]
    Bootstrap(#[from] BootstrapError),
    /// There is no certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be had.
    #[error("listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The kubeconfig cannot be written.
    #[error("write kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Opens the store of a configuration and fills in what every cluster has.
pub fn open(config: &LabConfig, bound: SocketAddr) -> Result<Arc<Api>, BuildError> {
    let registry = Registry::new(kinds::entries());
    let primary = primary_family(config);
    let families = if config.service_cidrs.len() > 1 {
        ClusterFamilies::dual(primary)
    } else {
        ClusterFamilies::single(primary)
    };
    let ports = PortLedger::new(config.node_ports, config.port_sharing);
    let mut index = LabIndex::new(&registry, families, ports);
    index.services.allocation = config.allocation;
    let mut options = StoreOptions::in_memory(registry.storage_names());
    options.data_dir.clone_from(&config.data_dir);
    let store = Store::open(&options, index)?;
    let settings = own_objects(config, bound);
    for notice in bootstrap::run(&store, &registry, &settings, Timestamp::now())? {
        tracing::warn!(%notice, "start");
    }
    Ok(Arc::new(Api { registry, store }))
}

/// The family of Services that ask for none.
fn primary_family(config: &LabConfig) -> Family {
    config.service_cidrs.first().map_or(Family::V4, |range| Family::of(range.addr()))
}

/// What the cluster's own objects are to be, for a server that listens at `bound`.
fn own_objects(config: &LabConfig, bound: SocketAddr) -> bootstrap::Settings {
    let advertise = address::published(bound, primary_family(config));
    bootstrap::Settings {
        service_cidrs: config.service_cidrs.clone(),
        origin: config.range_origin,
        node_ports: config.node_ports,
        advertise,
    }
}

/// Opens the store, binds the port and writes the kubeconfig.
pub async fn build(config: LabConfig) -> Result<Bound, BuildError> {
    let listener = listen(&config).await?;
    let address = local_address(&listener, &config)?;
    let api = open(&config, address)?;
    Bound::new(config, listener, address, api, Keeper::First)
}

/// Binds the port of one more server on a store that is open.
pub async fn build_on(config: LabConfig, api: Arc<Api>) -> Result<Bound, BuildError> {
    let listener = listen(&config).await?;
    let address = local_address(&listener, &config)?;
    Bound::new(config, listener, address, api, Keeper::Another)
}

async fn listen(config: &LabConfig) -> Result<TcpListener, BuildError> {
    let address = SocketAddr::new(config.bind_address, config.port);
    TcpListener::bind(address).await.map_err(|source| BuildError::Listen { address, source })
}

fn local_address(listener: &TcpListener, config: &LabConfig) -> Result<SocketAddr, BuildError> {
    let address = SocketAddr::new(config.bind_address, config.port);
    listener.local_addr().map_err(|source| BuildError::Listen { address, source })
}

/// Where clients on this machine reach a server that listens there.
fn advertised(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, address.port())
}

/// A lab without a port and without tasks of its own, for clients in this process: what happens in it depends on their
/// requests alone, and on a clock that may be paused.
pub struct Portless {
    app: Arc<App>,
}

impl Portless {
    /// Opens the store of a configuration; its address, kubeconfig and controllers are of no meaning.
    pub fn open(config: &LabConfig) -> Result<Self, BuildError> {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);
        let token = config.token.clone().unwrap_or_else(Token::random);
        let app = app(open(config, address)?, token, address);
        app.health.set_ready(true);
        Ok(Self { app })
    }

    /// Kinds and objects.
    pub fn api(&self) -> Arc<Api> {
        Arc::clone(&self.app.shared.api)
    }

    /// A tower service that wants the token.
    pub fn router(&self) -> Router {
        router(Arc::clone(&self.app))
    }

    /// A tower service that trusts its caller; `kube::Client::new` takes it.
    pub fn trusting(&self) -> Router {
        trusting(Arc::clone(&self.app))
    }
}

fn app(api: Arc<Api>, token: Token, address: SocketAddr) -> Arc<App> {
    let discovery = Discovery::new(&api.registry, &address.to_string());
    Arc::new(App {
        shared: ServerState { api, closing: CancellationToken::new(), token },
        health: Health::default(),
        discovery,
        metrics: RequestMetrics::default(),
        heavy: Heavy::default(),
        pods: OnceLock::new(),
        beside: OnceLock::new(),
    })
}

/// A server that has its port and does not serve yet.
#[must_use = "a server serves only while it runs"]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<ServerConfig>,
    authority: Authority,
    app: Arc<App>,
    controllers: Controllers,
    event_ttl: Duration,
    own_objects: bootstrap::Settings,
    keeper: Keeper,
}

impl Bound {
    fn new(
        config: LabConfig,
        listener: TcpListener,
        address: SocketAddr,
        api: Arc<Api>,
        keeper: Keeper,
    ) -> Result<Self, BuildError> {
        let reached = advertised(address);
        let own_objects = own_objects(&config, address);
        let authority = match &config.data_dir {
            Some(dir) => Authority::load_or_generate(dir)?,
            None => Authority::generate()?,
        };
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let mut names = loopback.to_vec();
        let own = address::of_machine(address).into_iter().map(|own| own.ip());
        let more = [reached.ip(), own_objects.advertise.ip()].into_iter().chain(own);
        names.extend(more.filter(|ip| !loopback.contains(ip)));
        names.extend(config.service_cidrs.iter().filter_map(|range| range.hosts().next()));
        let tls = authority.server_config(&names)?;
        let token = config.token.unwrap_or_else(Token::random);
        if let Some(path) = config.kubeconfig {
            let text = kubeconfig::render(&format!("https://{reached}"), authority.pem(), &token);
            write_private(&path, &text).map_err(|source| BuildError::Kubeconfig { path, source })?;
        }
        let app = app(api, token, reached);
        Ok(Self {
            listener,
            address,
            tls,
            authority,
            app,
            controllers: config.controllers,
            event_ttl: config.event_ttl,
            own_objects,
            keeper,
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients on this machine.
    pub fn url(&self) -> String {
        format!("https://{}", advertised(self.address))
    }

    /// By which addresses other machines reach a server that listens on all, as far as they are known; none for one that
    /// listens on a single address.
    pub fn addresses_of_machine(&self) -> Vec<SocketAddr> {
        address::of_machine(self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that clients must trust.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// What clients must show.
    pub fn token(&self) -> &Token {
        &self.app.shared.token
    }

    /// Kinds and objects, for another server or for a look inside.
    pub fn api(&self) -> Arc<Api> {
        Arc::clone(&self.app.shared.api)
    }

    /// Lets this answer for the pods themselves; only the first one counts.
    pub fn serve_pods(&self, pods: Arc<dyn PodServer>) {
        let _ = self.app.pods.set(pods);
    }

    /// Has requests for a path (without a slash at its end) and all below it answered by a router that decides itself who may
    /// ask; only the first one counts.
    pub fn serve_beside(&self, root: &'static str, router: Router) {
        let _ = self.app.beside.set(Beside { root, router });
    }

    /// The server without its port: a tower service that wants the token, as the port does.
    pub fn router(&self) -> Router {
        router(Arc::clone(&self.app))
    }

    fn namespace_defaults(&self) -> Defaults {
        Defaults {
            account: self.controllers.accounts,
            root_ca: self.controllers.root_ca.then(|| self.ca_pem().to_owned()),
        }
    }

    /// Serves until `shutdown`; then ends watches, lets requests under way finish for a moment, and returns.
    pub async fn run(self, shutdown: CancellationToken) {
        let app = Arc::clone(&self.app);
        let _ends_watches = app.shared.closing.clone().drop_guard();
        let mut tasks = JoinSet::new();
        if self.controllers.garbage_collector {
            tasks.spawn(gc::run(self.api(), app.shared.closing.clone()));
        }
        if self.controllers.namespaces {
            tasks.spawn(namespace_lifecycle::run(self.api(), app.shared.closing.clone()));
        }
        let defaults = self.namespace_defaults();
        tasks.spawn(namespace_defaults::run(self.api(), defaults, app.shared.closing.clone()));
        let own_objects = self.own_objects.clone();
        tasks.spawn(bootstrap::keep(self.api(), own_objects, self.keeper, app.shared.closing.clone()));
        tasks.spawn(event_ttl::run(self.api(), self.event_ttl, app.shared.closing.clone()));
        tasks.spawn(repair::run(self.api(), app.shared.closing.clone()));
        let acceptor = TlsAcceptor::from(Arc::clone(&self.tls));
        let service = router(Arc::clone(&app));
        let (mut connections, mut told) = (JoinSet::new(), None);
        app.health.set_ready(true);
        tracing::info!(address = %self.address, "serving");
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (acceptor, service) = (acceptor.clone(), service.clone());
                    connections.spawn(connection(stream, acceptor, service, app.shared.closing.clone()));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: what is open must be able to go on.
                    if told.is_none_or(|told: Instant| told.elapsed() >= REMIND) {
                        told = Some(Instant::now());
                        tracing::warn!(%error, "connections are not accepted; told once a minute");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        app.health.set_ready(false);
        drop(self.listener);
        app.shared.closing.cancel();
        let drained = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            tracing::warn!("connections did not end in time");
        }
        tasks.shutdown().await;
    }
}

/// Serves one connection until it ends or the server does.
async fn connection(stream: TcpStream, acceptor: TlsAcceptor, service: Router, closing: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let service = service.map_request(|request: Request<Incoming>| request.map(axum::body::Body::new));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let served =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut served = std::pin::pin!(served);
    let mut ending = false;
    loop {
        tokio::select! {
            result = served.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "connection");
                }
                return;
            }
            () = closing.cancelled(), if !ending => {
                ending = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}
