//! The running proxy: watches, syncs, health, metrics, Events, from start to stop.
//!
//! Owns the one loop that everything goes through. What the rules are is the planner's, and how they get there is the syncer's.

mod report;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use prometheus_client::registry::Registry;
use service_api::address::Family;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    addresses,
    config::{NodePortAddresses, NodeView, RuleSettings},
    conntrack::{Cleaner, Fronts, UdpServices, fronts},
    endpoint::ServiceKey,
    health::{BindError, Health, HealthPorts, Wanted, bind},
    metrics::Metrics,
    nft::{netlink::Netlink, run::Kernel, run::RunError},
    plan::of_port,
    sync::{Known, Report, Syncer},
    track::{Cluster, Touched},
};
use report::Reporter;
use watches::{Input, Synced, watches};

/// Events that are taken in before the rules are looked after.
const AT_ONCE: usize = 1000;

/// How a proxy runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The node's name.
    pub node_name: String,
    /// Whose Services these are, if not everybody's.
    pub proxy_name: Option<String>,
    /// The families of the tables.
    pub families: Vec<Family>,
    /// The choices about the rules.
    pub rules: RuleSettings,
    /// Where `/healthz` and `/livez` answer.
    pub health: Option<SocketAddr>,
    /// Where `/metrics` answers.
    pub metrics: Option<SocketAddr>,
    /// A port that is taken ends the process.
    pub bind_hard_fail: bool,
    /// How often the table is suspected, and what failed is tried again.
    pub sync_period: Duration,
    /// The least time between two syncs.
    pub min_sync_period: Duration,
}

/// Why a proxy ends.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No way to nftables.
    #[error(transparent)]
    Kernel(#[from] RunError),
    /// A port.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The thread for connection tracking.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Removes the tables.
pub fn clean_up(families: &[Family]) -> Result<(), RunError> {
    Syncer::new(Netlink::open()?, families).clean_up()
}

/// Whether the kernel has nftables and this process may use them: to be known before an API server is waited for.
pub fn check() -> Result<(), RunError> {
    Netlink::open()?.generation().map(|_| ())
}

/// Runs until the token is cancelled. The rules stay.
pub async fn run(client: Client, settings: Settings, shutdown: CancellationToken) -> Result<(), AgentError> {
    let kernel = Netlink::open()?;
    let servers = match bind(settings.health, settings.metrics).await {
        Err(error) if !settings.bind_hard_fail => {
            tracing::warn!(%error, "goes on without ports for health and metrics");
            None
        }
        bound => Some(bound?),
    };
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    // Later than a sync and its retries should ever be.
    let health = Health::new(settings.sync_period * 2 + Duration::from_secs(5));
    let registry = Arc::new(parking_lot::Mutex::new(registry));
    let serving = servers
        .map(|servers| tokio::spawn(servers.serve(health.clone(), Arc::clone(&registry), shutdown.clone())));
    let cleaner = Cleaner::start(&settings.families).map_err(AgentError::Thread)?;
    let reporter = Reporter::new(client.clone(), settings.node_name.clone(), metrics.clone());
    Agent::new(kernel, settings, health, metrics, reporter, cleaner).run(client, &shutdown).await;
    if let Some(serving) = serving {
        let _ = serving.await;
    }
    Ok(())
}

struct Agent<K> {
    settings: Settings,
    cluster: Cluster,
    node: NodeView,
    syncer: Syncer<K>,
    health: Health,
    ports: HealthPorts,
    metrics: Metrics,
    reporter: Reporter,
    cleaner: Cleaner,
    udp: UdpServices,
    synced: Synced,
    /// Services whose health check ports and UDP entries are to be looked after.
    changed: BTreeSet<ServiceKey>,
    /// When the endpoints that were taken in changed.
    triggers: Vec<jiff::Timestamp>,
    last_sync: Option<Instant>,
    started: bool,
}

impl<K: Kernel> Agent<K> {
    fn new(
        kernel: K,
        settings: Settings,
        health: Health,
        metrics: Metrics,
        reporter: Reporter,
        cleaner: Cleaner,
    ) -> Self {
        Self {
            cluster: Cluster::new(&settings.node_name).for_proxy(settings.proxy_name.clone()),
            node: NodeView::default(),
            syncer: Syncer::new(kernel, &settings.families),
            ports: HealthPorts::new(health.clone()),
            health,
            metrics,
            reporter,
            cleaner,
            udp: UdpServices::default(),
            synced: Synced::default(),
            changed: BTreeSet::new(),
            triggers: Vec::new(),
            last_sync: None,
            started: false,
            settings,
        }
    }

    async fn run(mut self, client: Client, shutdown: &CancellationToken) {
        let mut inputs = pin!(watches(&client, &self.settings));
        let mut period = every(self.settings.sync_period);
        loop {
            let due = self.due();
            tokio::select! {
                () = shutdown.cancelled() => break,
                input = inputs.next() => match input {
                    Some(input) => self.take(input),
                    None => break,
                },
                () = sleep_until(due.into()) => {
                    let report = self.syncer.overdue(Instant::now());
                    self.report(&report);
                }
                _ = period.tick() => self.suspect().await,
            }
            for _ in 0..AT_ONCE {
                match inputs.next().now_or_never() {
                    Some(Some(input)) => self.take(input),
                    _ => break,
                }
            }
            if self.synced.complete() && self.may_sync() {
                self.sync(shutdown).await;
            }
        }
        tracing::info!("the rules stay as they are; --cleanup removes them");
    }

    /// When something is due without an event.
    fn due(&self) -> Instant {
        let far = Instant::now() + self.settings.sync_period;
        let gap = self.last_sync.map(|last| last + self.settings.min_sync_period);
        let waits = self.synced.complete() && self.syncer.has_work(Instant::now());
        let waiting = gap.filter(|_| waits);
        [self.syncer.due(), waiting].into_iter().flatten().min().unwrap_or(far)
    }

    fn may_sync(&self) -> bool {
        let now = Instant::now();
        self.syncer.has_work(now)
            && self.last_sync.is_none_or(|last| now >= last + self.settings.min_sync_period)
    }

    fn take(&mut self, input: Input) {
        let touched = match input {
            Input::Service(seen) => {
                self.synced.services |= watches::ends(&seen);
                self.cluster.on_service(seen)
            }
            Input::Slice(seen) => {
                self.synced.slices |= watches::ends(&seen);
                if self.started {
                    self.triggers.extend(watches::trigger(&seen));
                }
                self.cluster.on_slice(seen)
            }
            Input::Node(seen) => {
                self.synced.node |= watches::ends(&seen);
                self.cluster.on_node(seen)
            }
            Input::Cidr(seen) => self.cluster.on_cidr(seen),
            Input::Failed(kind, error) => {
                // A server that does not know ServiceCIDRs has none.
                self.reporter.watch_failed(kind, &error);
                return;
            }
            Input::Works(kind) => {
                self.reporter.watch_works(kind);
                return;
            }
        };
        self.touch(touched);
    }

    fn touch(&mut self, touched: Touched) {
        if touched.is_empty() {
            return;
        }
        if touched.base || touched.everything {
            self.see_node();
            self.changed.extend(self.cluster.services().map(|(key, _)| key.clone()));
        }
        let known = Known { cluster: &self.cluster, node: &self.node, settings: &self.settings.rules };
        self.syncer.touch(&touched, known);
        self.changed.extend(touched.services);
        let now = jiff::Timestamp::now();
        self.metrics.last_queued.set(now.as_duration().as_secs_f64());
        if self.synced.complete() {
            self.health.queued(Instant::now());
        }
    }

    /// The node as the planner sees it.
    fn see_node(&mut self) {
        let info = self.cluster.node().cloned().unwrap_or_default();
        self.health.set_eligible(!info.leaving);
        self.reporter.node(&info, &self.settings.families);
        let by_network = matches!(self.settings.rules.node_port_addresses, NodePortAddresses::In(_));
        let interfaces = if by_network {
            addresses::of_interfaces().unwrap_or_else(|error| {
                tracing::warn!(%error, "the addresses of the interfaces are not known; node ports may not answer");
                self.node.interfaces.clone()
            })
        } else {
            Vec::new()
        };
        self.node = NodeView { info, interfaces };
    }

    async fn sync(&mut self, shutdown: &CancellationToken) {
        let start = Instant::now();
        let mut report = Report::default();
        while self.syncer.has_work(Instant::now()) && !shutdown.is_cancelled() {
            let known = Known { cluster: &self.cluster, node: &self.node, settings: &self.settings.rules };
            report.merge(self.syncer.step(known, Instant::now()));
            // Others get their turn between transactions.
            tokio::task::yield_now().await;
        }
        self.last_sync = Some(Instant::now());
        self.report(&report);
        if !self.syncer.is_settled() {
            return;
        }
        self.metrics.sync_duration.observe(start.elapsed().as_secs_f64());
        self.health.updated();
        if !self.started {
            self.started = true;
            let services = self.cluster.services().count();
            tracing::info!(services, transactions = report.transactions, "the rules are in the kernel");
        }
        let now = jiff::Timestamp::now();
        for trigger in self.triggers.drain(..) {
            self.metrics.programming.observe(now.duration_since(trigger).as_secs_f64());
        }
        self.after_sync().await;
    }

    fn report(&mut self, report: &Report) {
        if report.transactions > 0 {
            self.metrics.last_sync.set(jiff::Timestamp::now().as_duration().as_secs_f64());
        }
        self.reporter.synced(report, &self.syncer.refused().cloned().collect());
    }

    /// Health check ports and stale entries of what changed.
    async fn after_sync(&mut self) {
        let mut stale = Fronts::new();
        let changed = std::mem::take(&mut self.changed);
        for key in &changed {
            let slices = self.cluster.slices(key);
            let now = self.cluster.service(key).map(|service| fronts(service, slices)).unwrap_or_default();
            stale.extend(self.udp.set(key, now));
        }
        if !stale.is_empty() {
            self.cleaner.clean(stale, self.local_addresses());
        }
        for key in changed {
            let wanted = self.health_port(&key);
            self.set_health_port(&key, wanted).await;
        }
        self.metrics
            .conntrack_deleted
            .inc_by(self.cleaner.deleted().saturating_sub(self.metrics.conntrack_deleted.get()));
    }

    /// Addresses of the node where node ports may be tracked.
    fn local_addresses(&self) -> BTreeSet<IpAddr> {
        let interfaces = addresses::of_interfaces().unwrap_or_default();
        interfaces.into_iter().chain(self.node.info.addresses.iter().copied()).collect()
    }

    fn health_port(&self, key: &ServiceKey) -> Option<Wanted> {
        let service = self.cluster.service(key)?;
        let port = service.health_port?;
        let slices = self.cluster.slices(key);
        let mut endpoints: BTreeMap<Family, usize> = BTreeMap::new();
        for ip in &service.cluster_ips {
            let family = Family::of(*ip);
            let here: BTreeSet<IpAddr> = (service.ports.iter())
                .flat_map(|port| of_port(slices, port, family))
                .filter(|(_, endpoint)| endpoint.local && endpoint.ready)
                .map(|(place, _)| place.ip)
                .collect();
            endpoints.insert(family, here.len());
        }
        Some(Wanted { port, endpoints })
    }

    async fn set_health_port(&mut self, key: &ServiceKey, wanted: Option<Wanted>) {
        let (node, rules) = (&self.node, &self.settings.rules);
        let set = self.ports.set(key, wanted, |family| node.node_port_ips(rules, family)).await;
        if let Err((address, error)) = set {
            self.reporter.health_port_failed(key, address, &error);
        }
        self.metrics.health_ports_failed.set(i64::try_from(self.ports.again().len()).unwrap_or(0));
    }

    /// Looks whether somebody else changed the rules, and tries again what failed.
    async fn suspect(&mut self) {
        if !self.started {
            return;
        }
        if let Err(error) = self.syncer.suspect() {
            tracing::warn!(%error, "whether somebody changed the rules is not known");
        }
        if matches!(self.settings.rules.node_port_addresses, NodePortAddresses::In(_)) {
            let before = self.node.interfaces.clone();
            self.see_node();
            if before != self.node.interfaces {
                self.touch(Touched { base: true, everything: true, ..Touched::default() });
            }
        }
        for (key, wanted) in self.ports.again() {
            self.set_health_port(&key, Some(wanted)).await;
        }
        let unusable: u32 = (self.cluster.services())
            .filter_map(|(key, _)| self.cluster.slices(key))
            .flat_map(|slices| slices.values().map(|slice| slice.unusable))
            .sum();
        self.metrics.unusable_endpoints.set(unusable.into());
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
