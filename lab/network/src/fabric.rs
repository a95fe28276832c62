//! The lab's namespaces and the links between them.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::{
    error::NetworkError,
    layout::{self, NodePlace, host_bits, machine, shared_bits},
    leftovers::{self, Mark},
    links::Links,
    namespace::{self, Namespace},
};

/// What a network is for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The nodes.
    pub nodes: Vec<NodePlace>,
    /// Where cluster IPs come from; the machine reaches them by way of the first node.
    pub service_ranges: Vec<IpNet>,
}

/// The network of one lab: the machine's bridge, and a namespace for each node and pod. [`Fabric::remove`] removes all of it.
#[derive(Debug)]
pub struct Fabric {
    id: String,
    nodes: Vec<Node>,
    services: Vec<IpNet>,
    machine: Links,
    pods: AtomicU64,
    _mark: Mark,
}

#[derive(Debug)]
struct Node {
    place: NodePlace,
    namespace: Namespace,
    links: Links,
}

/// A pod's place in the network.
#[derive(Debug)]
pub(crate) struct PodLink {
    /// Its namespace.
    pub namespace: Namespace,
    link: String,
    node: usize,
}

impl Fabric {
    /// Makes the namespaces of the nodes and joins them. What labs have left that were killed is removed first.
    pub async fn make(settings: Settings) -> Result<Self, NetworkError> {
        layout::check(&settings.nodes)?;
        if !nix::unistd::geteuid().is_root() {
            return Err(NetworkError::NotRoot);
        }
        let machine = Links::of_machine()
            .map_err(|source| NetworkError::Namespace { name: "of the machine".to_owned(), source })?;
        leftovers::remove(&machine).await;
        let needed = layout::needed(&settings.nodes, &settings.service_ranges);
        layout::free(&needed, &machine.reached().await?)?;
        let id = std::process::id().to_string();
        let mark = Mark::set(&id)?;
        let mut fabric = Self {
            id,
            nodes: Vec::new(),
            services: settings.service_ranges.clone(),
            machine,
            pods: AtomicU64::new(0),
            _mark: mark,
        };
        match fabric.join(settings).await {
            Ok(()) => Ok(fabric),
            Err(error) => {
                fabric.remove().await;
                Err(error)
            }
        }
    }

    async fn join(&mut self, settings: Settings) -> Result<(), NetworkError> {
        let bridge = self.machine.bridge(&layout::bridge(&self.id)).await?;
        let own = settings.nodes.first().map(|node| node.addresses.clone()).unwrap_or_default();
        for ip in own {
            self.machine.address(bridge, machine(ip), shared_bits(ip)).await?;
        }
        for (number, place) in settings.nodes.iter().enumerate() {
            let node = self.node(number, place, bridge).await?;
            self.nodes.push(node);
        }
        for node in &self.nodes {
            let eth0 = node.links.index("eth0").await?;
            for other in settings.nodes.iter().filter(|other| **other != node.place) {
                to_pods(&node.links, eth0, other).await?;
            }
            to_pods(&self.machine, bridge, &node.place).await?;
        }
        let first = settings.nodes.first().map(|node| node.addresses.clone()).unwrap_or_default();
        for range in &settings.service_ranges {
            if let Some(by) = first.iter().find(|ip| ip.is_ipv4() == range.addr().is_ipv4()) {
                self.machine.route(*range, bridge, Some(*by)).await?;
            }
        }
        Ok(())
    }

    async fn node(&self, number: usize, place: &NodePlace, bridge: u32) -> Result<Node, NetworkError> {
        let namespace = Namespace::make(&layout::node_namespace(&self.id, &place.name))?;
        prepare(&namespace, true)?;
        self.machine.pair(&layout::uplink(&self.id, number), &namespace, Some(bridge)).await?;
        let links = Links::of(&namespace)?;
        links.up("lo").await?;
        let eth0 = links.up("eth0").await?;
        for ip in &place.addresses {
            links.address(eth0, *ip, shared_bits(*ip)).await?;
            links.route(everything(*ip), eth0, Some(machine(*ip))).await?;
        }
        Ok(Node { place: place.clone(), namespace, links })
    }

    /// The namespaces of the nodes, by the nodes' names.
    pub fn nodes(&self) -> HashMap<String, Namespace> {
        self.nodes.iter().map(|node| (node.place.name.clone(), node.namespace.clone())).collect()
    }

    /// Where cluster IPs come from.
    pub(crate) fn service_ranges(&self) -> &[IpNet] {
        &self.services
    }

    /// The machine's addresses on the nodes' network.
    pub fn machine_addresses(&self) -> Vec<IpAddr> {
        let own = self.nodes.first().into_iter().flat_map(|node| &node.place.addresses);
        own.map(|ip| machine(*ip)).collect()
    }

    /// Makes a pod's namespace on a node and joins it; none if there is no such node.
    pub(crate) async fn pod(
        &self,
        node: &str,
        (namespace, name): (&str, &str),
        addresses: &[IpAddr],
    ) -> Result<Option<PodLink>, NetworkError> {
        let Some(node_number) = self.nodes.iter().position(|of| of.place.name == node) else {
            return Ok(None);
        };
        let number = self.pods.fetch_add(1, Ordering::Relaxed);
        let made = Namespace::make(&layout::pod_namespace(&self.id, number, namespace, name))?;
        let link = PodLink { namespace: made, link: format!("pod{number}"), node: node_number };
        match self.join_pod(&link, addresses).await {
            Ok(()) => Ok(Some(link)),
            Err(error) => {
                self.remove_pod(&link).await;
                Err(error)
            }
        }
    }

    async fn join_pod(&self, pod: &PodLink, addresses: &[IpAddr]) -> Result<(), NetworkError> {
        let node = &self.nodes[pod.node];
        prepare(&pod.namespace, false)?;
        let there = node.links.pair(&pod.link, &pod.namespace, None).await?;
        let links = Links::of(&pod.namespace)?;
        links.up("lo").await?;
        let eth0 = links.up("eth0").await?;
        for ip in addresses {
            let alone = |ip: IpAddr| IpNet::new(ip, host_bits(ip)).map_err(|_| NetworkError::Family(ip));
            let family = |of: &&IpAddr| of.is_ipv4() == ip.is_ipv4();
            let gateway = *node.place.addresses.iter().find(family).ok_or(NetworkError::Family(*ip))?;
            // The node answers for its own address on each link.
            node.links.address(there, gateway, host_bits(gateway)).await?;
            node.links.route(alone(*ip)?, there, None).await?;
            links.address(eth0, *ip, host_bits(*ip)).await?;
            links.route(alone(gateway)?, eth0, None).await?;
            links.route(everything(*ip), eth0, Some(gateway)).await?;
        }
        Ok(())
    }

    /// Removes a pod's namespace.
    pub(crate) async fn remove_pod(&self, pod: &PodLink) {
        // The other end goes with this one, at once: the namespace alone goes when the kernel finds time.
        let _ = self.nodes[pod.node].links.delete(&pod.link).await;
        if let Err(error) = pod.namespace.remove() {
            tracing::warn!(%error, "a pod's network is not removed");
        }
    }

    /// Removes everything that was made.
    pub async fn remove(self) {
        namespace::remove_all(&layout::prefix(&self.id));
        if let Err(error) = self.machine.delete(&layout::bridge(&self.id)).await {
            tracing::warn!(%error, "the lab's bridge is not removed");
        }
        for number in 0..self.nodes.len() {
            let _ = self.machine.delete(&layout::uplink(&self.id, number)).await;
        }
    }
}

/// Routes to the pods of a node, by its address.
async fn to_pods(links: &Links, link: u32, node: &NodePlace) -> Result<(), NetworkError> {
    for range in &node.pod_ranges {
        if let Some(by) = node.addresses.iter().find(|ip| ip.is_ipv4() == range.addr().is_ipv4()) {
            links.route(*range, link, Some(*by)).await?;
        }
    }
    Ok(())
}

fn everything(of: IpAddr) -> IpNet {
    match of {
        IpAddr::V4(_) => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
    }
}

/// Addresses are used at once, packets may come back another way, and a node hands on what is not for it.
fn prepare(namespace: &Namespace, node: bool) -> Result<(), NetworkError> {
    let mut settings = vec![("net/ipv4/conf/all/rp_filter", "0"), ("net/ipv4/conf/default/rp_filter", "0")];
    if node {
        settings.push(("net/ipv4/ip_forward", "1"));
    }
    // A kernel without IPv6 has none of these.
    if Path::new("/proc/sys/net/ipv6").exists() {
        settings.extend([
            ("net/ipv6/conf/all/accept_dad", "0"),
            ("net/ipv6/conf/default/accept_dad", "0"),
            ("net/ipv6/conf/default/dad_transmits", "0"),
        ]);
        if node {
            settings.push(("net/ipv6/conf/all/forwarding", "1"));
        }
    }
    for (name, value) in settings {
        let path = Path::new("/proc/sys").join(name);
        let written: io::Result<()> = namespace.within(|| std::fs::write(&path, value));
        written.map_err(|source| NetworkError::Setting { path, source })?;
    }
    Ok(())
}
