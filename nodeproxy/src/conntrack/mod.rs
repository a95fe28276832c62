//! Stale entries of connection tracking: UDP has no connections, so a client that keeps sending is led to an endpoint that is gone
//! until its entry goes.
//!
//! Owns which entries are stale (pure), and a thread that finds and removes them off the sync path. It touches nothing but UDP
//! entries whose destination is a Service's.

mod netlink;
mod worker;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use service_api::address::Family;

pub use worker::Cleaner;

use crate::{
    endpoint::{Place, Protocol, ServiceKey},
    plan::of_port,
    track::{ServiceInfo, Slices},
};

/// Where clients send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Front {
    /// An address and a port.
    Address(IpAddr, u16),
    /// A port of the node's addresses, in a family.
    NodePort(Family, u16),
}

/// For each front of a Service the endpoints that serve.
pub type Fronts = BTreeMap<Front, BTreeSet<Place>>;

/// An entry: where a client sent to, and who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Where the client sent to.
    pub destination: Place,
    /// Who answers.
    pub answers: Place,
}

/// The UDP fronts of a Service with the endpoints that serve, whatever its policies are: a change of policy leaves old flows alone,
/// as it does for TCP.
pub fn fronts(service: &ServiceInfo, slices: Option<&Slices>) -> Fronts {
    let mut fronts = Fronts::new();
    for port in service.ports.iter().filter(|port| port.protocol == Protocol::Udp) {
        for ip in &service.cluster_ips {
            let family = Family::of(*ip);
            let serving: BTreeSet<Place> = (of_port(slices, port, family).into_iter())
                .filter(|(_, endpoint)| endpoint.serving)
                .map(|(place, _)| place)
                .collect();
            let outside = service.external_ips.iter().chain(&service.vips);
            for ip in outside.filter(|ip| Family::of(**ip) == family).chain([ip]) {
                fronts.insert(Front::Address(*ip, port.port), serving.clone());
            }
            if let Some(node_port) = port.node_port {
                fronts.insert(Front::NodePort(family, node_port), serving.clone());
            }
        }
    }
    fronts
}

/// What is known of all UDP Services.
#[derive(Debug, Default)]
pub struct UdpServices(HashMap<ServiceKey, Fronts>);

impl UdpServices {
    /// Takes in a Service as it is now. The fronts that may have stale entries: those that lost an endpoint or are no front any more.
    /// A front with its first endpoints counts too: what was sent there before was led nowhere.
    pub fn set(&mut self, key: &ServiceKey, now: Fronts) -> Fronts {
        let before =
            if now.is_empty() { self.0.remove(key) } else { self.0.insert(key.clone(), now.clone()) };
        let before = before.unwrap_or_default();
        let mut stale = Fronts::new();
        for (front, places) in &before {
            match now.get(front) {
                None => drop(stale.insert(*front, BTreeSet::new())),
                Some(left) if !places.is_subset(left) => drop(stale.insert(*front, left.clone())),
                Some(_) => {}
            }
        }
        for (front, places) in now {
            if !places.is_empty() && before.get(&front).is_none_or(BTreeSet::is_empty) {
                stale.insert(front, places);
            }
        }
        stale
    }
}

/// Whether an entry leads from a front to something that does not serve it. `local` are the node's addresses.
pub fn is_stale(flow: &Flow, fronts: &Fronts, local: &BTreeSet<IpAddr>) -> bool {
    let to = flow.destination;
    let by_address = fronts.get(&Front::Address(to.ip, to.port));
    let by_port =
        || local.contains(&to.ip).then(|| fronts.get(&Front::NodePort(to.family(), to.port))).flatten();
    by_address.or_else(by_port).is_some_and(|serving| !serving.contains(&flow.answers))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn place(text: &str) -> Place {
        let (ip, port) = text.rsplit_once(':').unwrap();
        Place { ip: ip.parse().unwrap(), port: port.parse().unwrap() }
    }

    fn dns(places: &[&str]) -> Fronts {
        let places: BTreeSet<_> = places.iter().map(|text| place(text)).collect();
        let address = Front::Address("10.96.0.10".parse().unwrap(), 53);
        [(address, places.clone()), (Front::NodePort(Family::V4, 30053), places)].into()
    }

    #[rstest]
    #[case("10.96.0.10:53", "10.1.0.1:53", false)]
    #[case("10.96.0.10:53", "10.1.0.9:53", true)]
    #[case("10.96.0.10:54", "10.1.0.9:53", false)]
    #[case("192.0.2.1:30053", "10.1.0.9:53", true)]
    #[case("8.8.8.8:30053", "8.8.8.8:30053", false)]
    fn an_entry_is_stale_if_who_answers_does_not_serve(
        #[case] to: &str,
        #[case] answers: &str,
        #[case] stale: bool,
    ) {
        let flow = Flow { destination: place(to), answers: place(answers) };
        let local = ["192.0.2.1".parse().unwrap()].into();
        assert_eq!(is_stale(&flow, &dns(&["10.1.0.1:53"]), &local), stale);
    }

    #[test]
    fn only_what_may_have_stale_entries_is_looked_for() {
        let (mut services, key) = (UdpServices::default(), ServiceKey::new("kube-system", "dns"));
        assert_eq!(services.set(&key, dns(&[])).len(), 0);
        assert_eq!(
            services.set(&key, dns(&["10.1.0.1:53"])).len(),
            2,
            "what was sent before was led nowhere"
        );
        assert_eq!(services.set(&key, dns(&["10.1.0.1:53", "10.1.0.2:53"])).len(), 0);
        assert_eq!(services.set(&key, dns(&["10.1.0.2:53"])), dns(&["10.1.0.2:53"]));
        assert_eq!(services.set(&key, Fronts::new()), dns(&[]));
    }
}
