//! How often Services were given addresses and node ports, and how often they were refused: upstream's counters.
//!
//! Owns what counts as an attempt, read off what a Service asked for and what became of it; names and labels are upstream's.
//! It decides nothing and keeps nothing else.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as Metrics;
use service_allocators::{
    AddressError, AddressLedger, Family as IpFamily, Ledger, Plan, PortError, PortLedger, ServicePrefix,
    plan::Source,
};
use service_api::service::{cluster_ips, ports, spec_of};

/// Prometheus' own buckets, which upstream takes.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Whether the value was asked for or chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Static,
    Dynamic,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRange {
    cidr: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfAddress {
    cidr: String,
    scope: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPort {
    scope: &'static str,
}

impl Scope {
    const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Dynamic => "dynamic",
        }
    }
}

/// The counters.
pub(crate) struct Attempts {
    addresses: Family<OfAddress, Counter>,
    addresses_refused: Family<OfAddress, Counter>,
    durations: Family<OfRange, Histogram>,
    ports: Family<OfPort, Counter>,
    ports_refused: Family<OfPort, Counter>,
}

impl fmt::Debug for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attempts")
    }
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            addresses: Family::default(),
            addresses_refused: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            ports: Family::default(),
            ports_refused: Family::default(),
        }
    }
}

/// What a Service asks for, before anything is chosen for it.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    addresses: Vec<IpAddr>,
    ports: Vec<i32>,
}

impl Asked {
    /// What `new` asks for that `old`, if there is one, does not have.
    pub(crate) fn of(new: &Service, old: Option<&Service>) -> Self {
        let had = old.map(Self::all).unwrap_or_default();
        let mut asked = Self::all(new);
        asked.addresses.retain(|address| !had.addresses.contains(address));
        asked.ports.retain(|port| !had.ports.contains(port));
        asked
    }

    fn all(service: &Service) -> Self {
        let spec = spec_of(service);
        let node_ports = ports(spec).iter().filter_map(|port| port.node_port);
        Self {
            addresses: cluster_ips(spec).iter().filter_map(|text| text.parse().ok()).collect(),
            ports: node_ports.chain(spec.health_check_node_port).filter(|port| *port != 0).collect(),
        }
    }
}

/// A source that remembers what it could not choose.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    source: S,
    lacked: Option<Lacked>,
}

/// What a source could not choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacked {
    /// An address of this family.
    Address(IpFamily),
    /// A node port.
    Port,
}

impl<S> Watched<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, lacked: None }
    }

    /// What could not be chosen last, if something could not.
    pub(crate) fn lacked(&self) -> Option<Lacked> {
        self.lacked
    }
}

impl<S: Source> Source for Watched<S> {
    fn choose_address(&mut self, ledger: &AddressLedger, family: IpFamily) -> Result<IpAddr, AddressError> {
        let chosen = self.source.choose_address(ledger, family);
        self.lacked = chosen.is_err().then_some(Lacked::Address(family));
        chosen
    }

    fn choose_port(&mut self, ledger: &PortLedger, except: &[u16]) -> Result<u16, PortError> {
        let chosen = self.source.choose_port(ledger, except);
        self.lacked = chosen.is_err().then_some(Lacked::Port);
        chosen
    }

    fn admit_address(&self, address: IpAddr) -> Result<(), AddressError> {
        self.source.admit_address(address)
    }

    fn admit_port(&self, port: u16) -> Result<(), PortError> {
        self.source.admit_port(port)
    }
}

/// The smallest ready range that has an address.
fn range_of(ledger: &Ledger, address: IpAddr) -> Option<ServicePrefix> {
    let ready = ledger.addresses.usage().filter(|range| range.ready && range.prefix.covers(address));
    ready.map(|range| range.prefix).max_by_key(|prefix| prefix.net().prefix_len())
}

impl Attempts {
    /// A Service is given what a plan takes; `took` is how long the plan took.
    pub(crate) fn given(&self, ledger: &Ledger, asked: &Asked, plan: &Plan, took: Duration) {
        for address in &plan.take_addresses {
            let Some(range) = range_of(ledger, *address) else { continue };
            let scope = if asked.addresses.contains(address) { Scope::Static } else { Scope::Dynamic };
            let cidr = range.to_string();
            self.durations.get_or_create(&OfRange { cidr: cidr.clone() }).observe(took.as_secs_f64());
            self.addresses.get_or_create(&OfAddress { cidr, scope: scope.name() }).inc();
        }
        for claim in &plan.take_ports {
            // A port that the Service holds already, and now for another protocol too, is not given anew.
            if ledger.ports.holders(claim.port).iter().any(|holder| holder.owner == plan.service) {
                continue;
            }
            let named = asked.ports.contains(&i32::from(claim.port));
            let scope = if named { Scope::Static } else { Scope::Dynamic };
            self.ports.get_or_create(&OfPort { scope: scope.name() }).inc();
        }
    }

    /// A Service is refused; `lacked` is what could not be chosen for it. What is wrong with it otherwise is no attempt.
    pub(crate) fn refused(&self, ledger: &Ledger, asked: &Asked, lacked: Option<Lacked>) {
        let address = |range: &ServicePrefix, scope: Scope| {
            let labels = OfAddress { cidr: range.to_string(), scope: scope.name() };
            self.addresses_refused.get_or_create(&labels).inc();
        };
        let port = |scope: Scope| {
            self.ports_refused.get_or_create(&OfPort { scope: scope.name() }).inc();
        };
        match lacked {
            Some(Lacked::Address(family)) => {
                let ready = ledger.addresses.usage().filter(|range| range.ready);
                let own = ready.filter(|range| range.prefix.family() == family);
                own.for_each(|range| address(&range.prefix, Scope::Dynamic));
            }
            Some(Lacked::Port) => port(Scope::Dynamic),
            None => {
                let taken = asked.addresses.iter().find(|address| ledger.addresses.check(**address).is_err());
                if let Some(taken) = taken {
                    if let Some(range) = range_of(ledger, *taken) {
                        address(&range, Scope::Static);
                    }
                } else if asked.ports.iter().any(|port| !is_free(ledger, *port)) {
                    port(Scope::Static);
                }
            }
        }
    }

    /// Registers them where they are shown.
    pub(crate) fn show(&self, metrics: &mut Metrics) {
        metrics.register(
            "kube_apiserver_clusterip_allocator_allocation",
            "Number of Cluster IPs allocations",
            self.addresses.clone(),
        );
        metrics.register(
            "kube_apiserver_clusterip_allocator_allocation_errors",
            "Number of errors trying to allocate Cluster IPs",
            self.addresses_refused.clone(),
        );
        metrics.register(
            "kube_apiserver_clusterip_allocator_allocation_duration_seconds",
            "Seconds that the plan of an allocated Cluster IP took",
            self.durations.clone(),
        );
        metrics.register(
            "kube_apiserver_nodeport_allocator_allocation",
            "Number of NodePort allocations",
            self.ports.clone(),
        );
        metrics.register(
            "kube_apiserver_nodeport_allocator_allocation_errors",
            "Number of errors trying to allocate NodePort",
            self.ports_refused.clone(),
        );
    }
}

fn is_free(ledger: &Ledger, port: i32) -> bool {
    let in_range = ledger.ports.check_range(port).is_ok();
    in_range && u16::try_from(port).is_ok_and(|port| ledger.ports.holders(port).is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::registry::testing::{Lab, lab};

    /// Creates a Service; whether it was.
    fn create(lab: &Lab, name: &str, spec: &Value) -> bool {
        let object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
        lab.create("", "services", object).is_ok()
    }

    fn counted(lab: &Lab) -> Vec<String> {
        let text = crate::metrics::render(&lab.store).unwrap();
        let lines = text.lines().filter(|line| line.contains("_allocation_") && !line.starts_with('#'));
        let mut lines: Vec<String> =
            lines.filter(|line| !line.contains("duration")).map(ToOwned::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_is_given_and_what_is_refused_is_counted_by_how_it_was_asked_for() {
        let lab = lab(&["10.96.0.0/29"]);
        assert!(create(&lab, "named", &json!({"clusterIP": "10.96.0.2", "ports": [{"port": 80}]})));
        let ports = json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81}]);
        assert!(create(&lab, "node", &json!({"type": "NodePort", "ports": ports})));
        assert!(!create(&lab, "twice", &json!({"clusterIP": "10.96.0.2", "ports": [{"port": 80}]})));
        assert!(!create(
            &lab,
            "taken",
            &json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]})
        ));
        let range = "kube_apiserver_clusterip_allocator_allocation";
        let port = "kube_apiserver_nodeport_allocator_allocation";
        assert_eq!(
            counted(&lab),
            [
                format!("{range}_errors_total{{cidr=\"10.96.0.0/29\",scope=\"static\"}} 1"),
                format!("{range}_total{{cidr=\"10.96.0.0/29\",scope=\"dynamic\"}} 1"),
                // One of them is that of the Service `kubernetes`.
                format!("{range}_total{{cidr=\"10.96.0.0/29\",scope=\"static\"}} 2"),
                format!("{port}_errors_total{{scope=\"static\"}} 1"),
                format!("{port}_total{{scope=\"dynamic\"}} 1"),
                format!("{port}_total{{scope=\"static\"}} 1"),
            ]
        );
    }

    #[test]
    fn a_full_range_is_a_refusal_of_what_is_chosen() {
        let lab = lab(&["10.96.0.0/30"]);
        let given =
            (0..9).take_while(|at| create(&lab, &format!("s{at}"), &json!({"ports": [{"port": 80}]})));
        assert!(given.count() < 3);
        let errors = "kube_apiserver_clusterip_allocator_allocation_errors_total";
        let full = format!("{errors}{{cidr=\"10.96.0.0/30\",scope=\"dynamic\"}} 1");
        assert!(counted(&lab).contains(&full), "{:?}", counted(&lab));
    }
}
