//! `lab --network`: the nodes' and pods' namespaces, and a proxy on each node.

use std::{io, net::SocketAddr, sync::Arc, thread, time::Duration};

use ipnet::IpNet;
use kube::Client;
use service_api::address::Family;
use service_lab_apiserver::{http::pods::PodServer, local::Local, registry::verbs::Api};
use service_lab_network::{Fabric, Namespace, NetworkError, NodePlace, Pods, Settings};
use service_lab_simulator::nodes::{SimulatedNode, simulated_node};
use service_nodeproxy::{
    agent,
    config::{LocalTraffic, RuleSettings},
};
use tokio_util::sync::CancellationToken;

/// Ports of a node's proxy, each in its own namespace.
const HEALTH: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 10256);
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 10249);
const SYNC_PERIOD: Duration = Duration::from_secs(30);

/// A network that was made.
pub(super) struct Network {
    fabric: Fabric,
    pods: Pods,
    families: Vec<Family>,
}

/// Makes the network of these nodes.
pub(super) async fn make(nodes: &[SimulatedNode], services: &[IpNet]) -> Result<Network, NetworkError> {
    let place = |node: &SimulatedNode| NodePlace {
        name: node.name.clone(),
        addresses: node.addresses.clone(),
        pod_ranges: node.pod_ranges.clone(),
    };
    let settings = Settings { nodes: nodes.iter().map(place).collect(), service_ranges: services.to_vec() };
    let families = services.iter().map(|range| Family::of(range.addr())).collect();
    Ok(Network { fabric: Fabric::make(settings).await?, pods: Pods::default(), families })
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

    /// Runs the proxies and follows the pods, until `shutdown`; then everything that was made is removed.
    pub(super) async fn run(self, api: Arc<Api>, client: Client, shutdown: CancellationToken) {
        let mut proxies = Vec::new();
        for (node, namespace) in self.fabric.nodes() {
            match proxy(node.clone(), namespace, self.settings(&node), client.clone(), shutdown.clone()) {
                Ok(proxy) => proxies.push(proxy),
                Err(error) => tracing::error!(node, %error, "the node has no proxy"),
            }
        }
        let local = Local::new(api, "kubelet");
        if let Err(error) =
            service_lab_network::follow(&local, &self.fabric, &self.pods, shutdown.clone()).await
        {
            tracing::error!(%error, "pods are not joined to the network");
        }
        shutdown.cancelled().await;
        let _ = tokio::task::spawn_blocking(move || {
            for proxy in proxies {
                let _ = proxy.join();
            }
        })
        .await;
        self.fabric.remove().await;
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

/// Starts a node's proxy on a thread that is in the node's namespace.
fn proxy(
    node: String,
    namespace: Namespace,
    settings: agent::Settings,
    client: Client,
    shutdown: CancellationToken,
) -> io::Result<thread::JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name(format!("proxy {node}")).spawn(move || {
        let run = || -> Result<(), Box<dyn std::error::Error>> {
            namespace.enter()?;
            Ok(runtime.block_on(agent::run(client, settings, shutdown))?)
        };
        if let Err(error) = run() {
            tracing::error!(node, %error, "the node's proxy ended");
        }
    })
}
