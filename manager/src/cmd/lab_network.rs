//! `lab --network`: the nodes' and pods' namespaces, who gives each node its rules, and the kubelets' way to the pods.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use ipnet::IpNet;
use kube::Client;
use serde_json::json;
use service_api::address::Family;
use service_lab_apiserver::{
    http::pods::PodServer,
    local::{CONFIG_MAPS, Local},
    registry::{error::ApiError, verbs::Api},
};
use service_lab_network::{Fabric, Namespace, NetworkError, NodePlace, Pods, Settings};
use service_lab_simulator::nodes::{self, Found, ProbeRequest, Prober, SimulatedNode, simulated_node};
use service_nodeproxy::{
    agent,
    config::{LocalTraffic, RuleSettings},
};
use tokio_util::sync::CancellationToken;

use super::node_proxy::{self, NodeRules};

/// Ports of a node's proxy, each in its own namespace.
const HEALTH: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 10256);
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 10249);
const SYNC_PERIOD: Duration = Duration::from_secs(30);

/// Where the configuration of the proxies is shown.
const SYSTEM: &str = "kube-system";
const PROXY: &str = "kube-proxy";

/// A network that was made.
pub(super) struct Network {
    fabric: Fabric,
    pods: Pods,
    local: Local,
    families: Vec<Family>,
    command: Vec<String>,
}

/// How the nodes' programs reach the API server.
pub(super) struct ApiServer {
    /// Its address on this machine.
    pub address: SocketAddr,
    /// The way of those in this process.
    pub client: Client,
    /// The way of the others.
    pub kubeconfig: PathBuf,
}

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum LabNetworkError {
    /// It cannot be made.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The kernel takes no rules.
    #[error("--network needs nftables, and a node's rules cannot be written: {0}")]
    Rules(io::Error),
}

/// Makes the network of these nodes; whoever gives them their rules is our proxy, or the program of this command line.
pub(super) async fn make(
    api: Arc<Api>,
    nodes: &[SimulatedNode],
    services: &[IpNet],
    command: &[String],
) -> Result<Network, LabNetworkError> {
    let place = |node: &SimulatedNode| NodePlace {
        name: node.name.clone(),
        addresses: node.addresses.clone(),
        pod_ranges: node.pod_ranges.clone(),
    };
    let settings = Settings { nodes: nodes.iter().map(place).collect(), service_ranges: services.to_vec() };
    let families: Vec<Family> = services.iter().map(|range| Family::of(range.addr())).collect();
    let local = Local::new(api, "kubelet");
    let fabric = Fabric::make(settings).await?;
    // There is nothing to remove yet: a kernel that takes this takes rules.
    let takes =
        |namespace: &Namespace| namespace.within(|| agent::clean_up(&families).map_err(io::Error::other));
    if let Some(Err(error)) = fabric.nodes().values().next().map(takes) {
        fabric.remove().await;
        return Err(LabNetworkError::Rules(error));
    }
    let pods = Pods::new(local.clone());
    Ok(Network { fabric, pods, local, families, command: command.to_vec() })
}

impl Network {
    /// Says how a person gets in; this is the command's output, not its log.
    pub(super) fn announce(&self) {
        let machine: Vec<_> = self.fabric.machine_addresses().iter().map(ToString::to_string).collect();
        println!(
            "This machine is {} on the nodes' network and reaches node ports and cluster IPs.",
            machine.join(", ")
        );
        let nodes = self.fabric.nodes();
        if let Some(first) = nodes.keys().min().and_then(|name| nodes.get(name)) {
            println!("A shell on a node: ip netns exec {} bash", first.name());
        }
    }

    /// What answers for the pods.
    pub(super) fn pods(&self) -> Arc<dyn PodServer> {
        Arc::new(self.pods.clone())
    }

    /// What asks the probes of the pods.
    pub(super) fn prober(&self) -> Arc<dyn Prober> {
        Arc::new(PodProber(self.pods.clone()))
    }

    /// Runs the proxies and follows the pods, until `shutdown`; then everything that was made is removed.
    pub(super) async fn run(self, server: ApiServer, shutdown: CancellationToken) {
        let _reached = self.fabric.pass_on_to(server.address);
        if let Err(error) = self.publish_configuration() {
            tracing::warn!(%error, "the configuration of the proxies is not shown");
        }
        let mut proxies = Vec::new();
        for (node, namespace) in self.fabric.nodes() {
            let rules = NodeRules { settings: self.settings(&node), node: node.clone(), namespace };
            let started = if self.command.is_empty() {
                rules.start(server.client.clone(), shutdown.clone())
            } else {
                rules.start_program(&self.command, &server.kubeconfig, shutdown.clone())
            };
            match started {
                Ok(proxy) => proxies.push(proxy),
                Err(error) => tracing::error!(node, %error, "the node has no proxy"),
            }
        }
        let followed = service_lab_network::follow(&self.fabric, &self.pods, shutdown.clone()).await;
        if let Err(error) = followed {
            tracing::error!(%error, "pods are not joined to the network");
        }
        shutdown.cancelled().await;
        for proxy in proxies {
            proxy.ended().await;
        }
        self.fabric.remove().await;
    }

    /// The ConfigMap in which people look for how kube-proxy is set up.
    fn publish_configuration(&self) -> Result<(), ApiError> {
        let configuration = node_proxy::configuration(&self.settings(""));
        let text = serde_saphyr::to_string(&configuration).unwrap_or_else(|_| configuration.to_string());
        let map = json!({"metadata": {"name": PROXY, "namespace": SYSTEM, "labels": {"app": PROXY}}, "data": {"config.conf": text}});
        match self.local.create(CONFIG_MAPS, SYSTEM, &map) {
            Err(error) if error.code() == 409 => Ok(()),
            done => done.map(|_| ()),
        }
    }

    fn settings(&self, node: &str) -> agent::Settings {
        let pods = self.families.iter().map(|family| simulated_node::pods_of_all_nodes(*family));
        agent::Settings {
            node_name: node.to_owned(),
            proxy_name: None,
            families: self.families.clone(),
            rules: RuleSettings {
                local_traffic: LocalTraffic::ClusterCidrs(pods.collect()),
                ..RuleSettings::default()
            },
            health: Some(HEALTH),
            metrics: Some(METRICS),
            bind_hard_fail: false,
            sync_period: SYNC_PERIOD,
            min_sync_period: Duration::ZERO,
        }
    }
}

/// The kubelets' way to the pods.
struct PodProber(Pods);

impl Prober for PodProber {
    fn ask(&self, request: ProbeRequest) -> BoxFuture<'static, Found> {
        let pods = self.0.clone();
        Box::pin(async move {
            let pod = (request.namespace.as_str(), request.pod.as_str());
            match pods.probe(pod, &request.container, &request.probe).await {
                Ok(()) => Found::Passed,
                Err(why) => Found::Failed(why),
            }
        })
    }

    fn ended(&self) -> BoxFuture<'_, (String, String, nodes::Ended)> {
        Box::pin(async {
            let (namespace, pod, ended) = self.0.ended().await;
            let ended = match ended {
                service_lab_network::Ended::Container { name, code } => {
                    nodes::Ended::Container { name, code }
                }
                service_lab_network::Ended::Evicted(why) => nodes::Ended::Evicted(why),
            };
            (namespace, pod, ended)
        })
    }
}
