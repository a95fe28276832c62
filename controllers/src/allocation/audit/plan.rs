//! What is wrong about the values of one Service, and what can be put right: pure.

use std::net::IpAddr;

use service_allocators::pools::Seconds;
use service_allocators::{
    Claim, Finding, Holding, Limits, PortRanges, PortSharing, ServiceKey, ServicePrefix, audit,
};
use service_api::crds::Role;
use service_api::crds::nodeport::port_of;
use smallvec::SmallVec;

use crate::allocation::draft::Draft;
use crate::ledger::{Entry, EntryKind, Known};
use crate::report::words::few;

/// How long an entry of an API server may be without its Service, as upstream.
pub(crate) const LEAK_GRACE: Seconds = 60;

/// What a look at one Service comes to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Verdict {
    /// What contradicts what.
    pub(crate) findings: Vec<Finding>,
    /// Entries that are missing.
    pub(crate) creates: Vec<Draft>,
    /// Entries that say something else than they should.
    pub(crate) claims: Vec<(Entry, Draft)>,
    /// Entries that nobody has.
    pub(crate) frees: Vec<Entry>,
    /// Entries that get the finalizer.
    pub(crate) guards: Vec<Entry>,
    /// Entries that lose it.
    pub(crate) unguards: Vec<Entry>,
    /// In how many seconds something may be to be said.
    pub(crate) later: Option<Seconds>,
}

impl Verdict {
    /// Whether all is as it should be.
    pub(crate) fn is_clean(&self) -> bool {
        !self.is_doubtful() && self.guards.is_empty()
    }

    /// What is put right, in words, as `make the entry of 10.96.0.5; free 30005`.
    pub(crate) fn words(&self) -> String {
        let of_entries = |entries: &[Entry]| entries.iter().map(|entry| entry.name.to_string()).collect();
        let parts: [(&str, Vec<String>); 5] = [
            ("make the entry of", self.creates.iter().map(|draft| draft.name.to_string()).collect()),
            ("correct", self.claims.iter().map(|(entry, _)| entry.name.to_string()).collect()),
            ("free", of_entries(&self.frees)),
            ("put the finalizer on", of_entries(&self.guards)),
            ("take the finalizer off", of_entries(&self.unguards)),
        ];
        let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> =
            parts.map(|(verb, names)| format!("{verb} {}", few(names.into_iter()))).collect();
        parts.join("; ")
    }

    /// Whether anything in it has to be read anew before something is done about it.
    pub(crate) fn is_doubtful(&self) -> bool {
        let is_idle = self.creates.is_empty() && self.claims.is_empty() && self.frees.is_empty();
        !is_idle || !self.findings.is_empty() || !self.unguards.is_empty()
    }
}

/// Looks at the addresses of a Service; with `protect` its entries stay while it has them, whoever deletes them.
pub(crate) fn addresses(known: &Known, key: &ServiceKey, protect: bool, now: Seconds) -> Verdict {
    let mut verdict = Verdict::default();
    // A Service on its way out keeps its values until it is gone.
    let facts = known.service(key).filter(|facts| !facts.going);
    if known.service(key).is_some_and(|facts| facts.going) {
        return verdict;
    }
    if are_in_order(known, key) {
        guard(known, key, protect, &mut verdict);
        return verdict;
    }
    let claims: Vec<Claim> = facts.into_iter().map(|facts| without_ports(facts.claim())).collect();
    let own = claims.iter().flat_map(|claim| &claim.addresses);
    let entries = own
        .filter_map(|ip| known.entry(EntryKind::Address, &ip.to_string()))
        .chain(known.entries_of(key).filter(|entry| entry.kind == EntryKind::Address));
    let mut holdings: Vec<Holding> = Vec::new();
    for entry in entries {
        let Some(address) = entry.address() else { continue };
        if holdings.iter().any(|holding| holding.address == address) {
            continue;
        }
        let has = facts.is_some_and(|facts| facts.addresses().contains(&address));
        let age = now - entry.created;
        if !has && entry.managed && age < LEAK_GRACE {
            verdict.later = Some(verdict.later.unwrap_or(LEAK_GRACE).min(LEAK_GRACE - age).max(1));
            continue;
        }
        holdings.push(Holding {
            address,
            parent: entry.parent.clone(),
            managed: entry.managed && !entry.going,
        });
    }
    verdict.findings = audit(&claims, &holdings, &limits(known));
    verdict.findings.retain(|finding| !is_of_others(finding, key));
    for finding in &verdict.findings {
        match finding {
            Finding::AddressNotAllocated { address, .. } => {
                verdict.creates.extend(draft(known, key, EntryKind::Address, address.to_string()));
            }
            Finding::AddressLeaked { address, .. } => {
                verdict.frees.extend(known.entry(EntryKind::Address, &address.to_string()).cloned());
            }
            _ => {}
        }
    }
    guard(known, key, protect, &mut verdict);
    verdict
}

/// Whether a Service has just the addresses that its entries say, and all of them in a range: what nearly every one is.
fn are_in_order(known: &Known, key: &ServiceKey) -> bool {
    let Some(facts) = known.service(key) else { return false };
    let addresses = facts.addresses();
    let own = known.entries_of(key).filter(|entry| entry.kind == EntryKind::Address);
    let of_entries: SmallVec<[Option<IpAddr>; 2]> = own.map(Entry::address).collect();
    facts.invalid().is_empty()
        && of_entries.len() == addresses.len()
        && addresses
            .iter()
            .all(|ip| of_entries.contains(&Some(*ip)) && known.live.ledger.addresses.is_usable(*ip))
}

/// Which entries of a Service get the finalizer, and which lose it: those that it does not have, and all without `protect`.
fn guard(known: &Known, key: &ServiceKey, protect: bool, verdict: &mut Verdict) {
    let has = |entry: &Entry| {
        let facts = known.service(key);
        entry.address().is_some_and(|address| facts.is_some_and(|facts| facts.addresses().contains(&address)))
    };
    for entry in known.entries_of(key).filter(|entry| entry.kind == EntryKind::Address) {
        match (protect && has(entry), entry.guarded) {
            (true, false) if !entry.going && entry.version > 0 => verdict.guards.push(entry.clone()),
            (false, true) if entry.going || !protect => verdict.unguards.push(entry.clone()),
            _ => {}
        }
    }
}

fn without_ports(claim: Claim) -> Claim {
    Claim { ports: Vec::new(), ..claim }
}

fn is_of_others(finding: &Finding, key: &ServiceKey) -> bool {
    match finding {
        Finding::AddressLeaked { parent, .. } => parent != key,
        other => other.service() != Some(key),
    }
}

/// What may be had, with the ranges that are on their way out: what they gave is in order.
fn limits(known: &Known) -> Limits {
    let mut limits = Limits::of(&known.live.ledger);
    let prefixes =
        known.cidrs().values().flat_map(|cidr| cidr.spec.iter().flat_map(|s| s.cidrs.iter().flatten()));
    limits.ranges.extend(prefixes.filter_map(|prefix| prefix.parse::<ServicePrefix>().ok()));
    let going = known
        .port_ranges()
        .values()
        .filter(|range| range.metadata.deletion_timestamp.is_some() && range.spec.role != Role::Excluded);
    let span = |range: &service_api::crds::NodePortRange| {
        let end = |port: i32| u16::try_from(port).ok();
        service_allocators::NodePortRange::new(end(range.spec.first_port)?, end(range.spec.last_port)?)
    };
    let PortRanges(ranges) = &mut limits.node_ports;
    ranges.extend(going.filter_map(span));
    limits
}

fn draft(known: &Known, key: &ServiceKey, kind: EntryKind, name: String) -> Option<Draft> {
    let facts = known.service(key)?;
    let parent_uid = facts.uid.clone();
    Some(Draft { kind, name: name.into(), parent: key.clone(), parent_uid, port: None })
}

/// Looks at the node ports of a Service.
pub(crate) fn node_ports(known: &Known, key: &ServiceKey) -> Verdict {
    let mut verdict = Verdict::default();
    let facts = known.service(key);
    if facts.is_some_and(|facts| facts.going) {
        return verdict;
    }
    let mut own = known.entries_of(key).filter(|entry| entry.kind == EntryKind::Port);
    if own.next().is_none() && facts.is_none_or(|facts| facts.ports().is_empty()) {
        return verdict;
    }
    if let Some(facts) = facts {
        let claims = in_the_right(known, key, facts.claim());
        verdict.findings = audit(&claims, &[], &limits(known));
        verdict.findings.retain(|finding| finding.service() == Some(key));
    }
    if !known.serves("nodeports") {
        return verdict;
    }
    let per_protocol = known.live.ledger.ports.sharing() == PortSharing::PerProtocol;
    let wanted = facts.map(|facts| facts.node_ports(per_protocol)).unwrap_or_default();
    for (name, spec) in &wanted {
        let draft = draft(known, key, EntryKind::Port, name.clone())
            .map(|draft| Draft { port: Some(Box::new(spec.clone())), ..draft });
        let Some(draft) = draft else { continue };
        match known.entry(EntryKind::Port, name) {
            None => {
                // One that was never there is only late; one that was there was taken away.
                if known.was_lost(EntryKind::Port, name)
                    && let Some(port) = port_of(name)
                {
                    let (service, entry) = (key.clone(), name.clone());
                    verdict.findings.push(Finding::PortNotAllocated { service, port, entry });
                }
                verdict.creates.push(draft);
            }
            Some(entry) if entry.parent.as_ref() != Some(key) => {}
            Some(entry) => {
                let is_new = entry.parent_uid.as_ref().is_some_and(|uid| *uid != draft.parent_uid);
                if is_new || entry.port != draft.port {
                    verdict.claims.push((entry.clone(), draft));
                }
            }
        }
    }
    // What is made for a Service before it gets its values is not unused.
    let is_next = |entry: &Entry| {
        facts.is_some_and(|facts| facts.lacking().is_some() && entry.parent_uid.as_ref() == Some(&facts.uid))
    };
    let unused = known.entries_of(key).filter(|entry| {
        entry.kind == EntryKind::Port
            && entry.managed
            && entry.version > 0
            && !entry.going
            && !wanted.contains_key(&*entry.name)
            && !is_next(entry)
    });
    verdict.frees = unused.cloned().collect();
    verdict
}

/// The ports of a Service and of those that share one, whoever is in the right first: the holder of the entry, then the
/// older one.
fn in_the_right(known: &Known, key: &ServiceKey, own: Claim) -> Vec<Claim> {
    let mut others: Vec<ServiceKey> = Vec::new();
    for (port, _) in &own.ports {
        let holders = known.live.ledger.ports.holders(*port).iter().map(|holder| holder.owner.clone());
        others.extend(holders.filter(|other| other != key));
    }
    others.sort_unstable();
    others.dedup();
    let ports_only = |claim: Claim| Claim { addresses: Vec::new(), invalid: Vec::new(), ..claim };
    let mut claims: Vec<Claim> = others
        .iter()
        .filter_map(|other| known.service(other))
        .map(|facts| ports_only(facts.claim()))
        .collect();
    claims.push(ports_only(own));
    claims.sort_by_key(|claim| {
        let has_entry = claim.ports.iter().any(|(port, _)| {
            let entry = known.entry(EntryKind::Port, &port.to_string());
            entry.is_some_and(|entry| entry.parent.as_ref() == Some(&claim.service))
        });
        let created = known.service(&claim.service).map(|facts| facts.created);
        (!has_entry, created, claim.service.clone())
    });
    claims
}

/// The values that a finding is about, as the names of entries.
pub(crate) fn entry_of(finding: &Finding) -> Option<(EntryKind, String)> {
    let address = |ip: &IpAddr| Some((EntryKind::Address, ip.to_string()));
    match finding {
        Finding::AddressNotAllocated { address: ip, .. }
        | Finding::AddressOfAnother { address: ip, .. }
        | Finding::AddressOutOfRange { address: ip, .. }
        | Finding::AddressLeaked { address: ip, .. } => address(ip),
        Finding::PortNotAllocated { entry, .. } => Some((EntryKind::Port, entry.clone())),
        Finding::PortOfAnother { port, .. } | Finding::PortOutOfRange { port, .. } => {
            Some((EntryKind::Port, port.to_string()))
        }
        Finding::AddressNotValid { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::super::words::reason;
    use super::*;
    use crate::ledger::{Changes, Ledger};

    const NOW: Seconds = 1_000_000;

    fn ledger() -> Ledger {
        let ledger = Ledger::new("30000-30019".parse().unwrap(), PortSharing::WithinService, |_: Changes| {});
        ledger.with(|known| {
            let cidr = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/24"]}});
            known.set_cidr(&serde_json::from_value(cidr).unwrap());
        });
        ledger
    }

    fn service(known: &mut Known, name: &str, metadata: &Value, spec: &Value) {
        let mut object = json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
            "resourceVersion": "5"}, "spec": spec});
        for (key, value) in metadata.as_object().into_iter().flatten() {
            object["metadata"][key] = value.clone();
        }
        known.set_service(&serde_json::from_value(object).unwrap(), NOW);
    }

    fn address(known: &mut Known, ip: &str, parent: &str, managed: bool, age: Seconds) {
        let created = jiff::Timestamp::from_second(NOW - age).unwrap().to_string();
        let labels = if managed {
            json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
        } else {
            json!({})
        };
        let object = json!({"metadata": {"name": ip, "uid": format!("uid-{ip}"), "resourceVersion": "3",
                "creationTimestamp": created, "labels": labels},
            "spec": {"parentRef": {"resource": "services", "namespace": "shop", "name": parent}}});
        known.set_address(&serde_json::from_value(object).unwrap(), NOW);
    }

    fn key(name: &str) -> ServiceKey {
        ServiceKey::new("shop", name)
    }

    fn reasons(known: &Known, verdict: &Verdict) -> Vec<&'static str> {
        verdict.findings.iter().map(|finding| reason(known, finding)).collect()
    }

    #[rstest]
    #[case::in_order("10.96.0.5", Some(("a", true, 0)), &[])]
    #[case::by_hand("10.96.0.5", Some(("a", false, 0)), &[])]
    #[case::missing("10.96.0.5", None, &["ClusterIPNotAllocated"])]
    #[case::anothers("10.96.0.5", Some(("z", true, 100)), &["ClusterIPAlreadyAllocated"])]
    #[case::outside("10.97.0.5", Some(("a", true, 0)), &["ClusterIPOutOfRange"])]
    #[case::network("10.96.0.0", Some(("a", true, 0)), &["ClusterIPOutOfRange"])]
    #[case::broadcast("10.96.0.255", Some(("a", true, 0)), &["ClusterIPOutOfRange"])]
    #[case::no_address("ten", None, &["ClusterIPNotValid"])]
    fn the_addresses_of_a_service(
        #[case] ip: &str,
        #[case] entry: Option<(&str, bool, Seconds)>,
        #[case] found: &[&str],
    ) {
        ledger().with(|known| {
            service(
                known,
                "a",
                &json!({}),
                &json!({"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip]}),
            );
            if let Some((parent, managed, age)) = entry {
                address(known, ip, parent, managed, age);
            }
            let verdict = addresses(known, &key("a"), false, NOW);
            assert_eq!(reasons(known, &verdict), found);
            assert_eq!(verdict.creates.len(), usize::from(found == ["ClusterIPNotAllocated"]));
            assert_eq!(verdict.frees, []);
        });
    }

    /// Report 92928: no false alarm for what is on its way out.
    #[test]
    fn a_service_on_its_way_out_is_left_alone() {
        ledger().with(|known| {
            let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/x"]});
            let spec = json!({"type": "NodePort", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"],
                "ports": [{"port": 80, "nodePort": 80}]});
            service(known, "a", &going, &spec);
            assert_eq!(addresses(known, &key("a"), true, NOW), Verdict::default());
            assert_eq!(node_ports(known, &key("a")), Verdict::default());
        });
    }

    #[rstest]
    #[case::young("gone", true, LEAK_GRACE - 20, &[], Some(20))]
    #[case::old("gone", true, LEAK_GRACE, &["IPAddressNotAllocated"], None)]
    #[case::by_hand("gone", false, LEAK_GRACE, &[], None)]
    #[case::wrong("a", true, LEAK_GRACE, &["IPAddressWrongReference"], None)]
    fn an_entry_that_no_service_has(
        #[case] parent: &str,
        #[case] managed: bool,
        #[case] age: Seconds,
        #[case] found: &[&str],
        #[case] later: Option<Seconds>,
    ) {
        ledger().with(|known| {
            service(
                known,
                "a",
                &json!({}),
                &json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}),
            );
            address(known, "10.96.0.9", parent, managed, age);
            let verdict = addresses(known, &key(parent), false, NOW);
            assert_eq!(reasons(known, &verdict), found);
            assert_eq!((verdict.frees.len(), verdict.later), (found.len(), later));
        });
    }

    /// service-allocation-controller makes the entry first.
    #[test]
    fn an_entry_that_a_service_is_about_to_get_is_not_freed() {
        ledger().with(|known| {
            let port = |uid: &str| -> service_api::crds::NodePort {
                serde_json::from_value(json!({"metadata": {"name": "30005", "uid": "e", "resourceVersion": "6",
                    "annotations": {"service-control-plane.io/service-uid": uid},
                    "labels": {"service-control-plane.io/managed-by": "service-controller-manager"}},
                    "spec": {"protocols": ["TCP"], "parentRef": {"resource": "services", "namespace": "shop", "name": "a"}}}))
                .unwrap()
            };
            let frees = |known: &Known| node_ports(known, &key("a")).frees.len();
            let spec = |node_port: Value| {
                json!({"type": "NodePort", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"],
                    "ports": [{"port": 80, "nodePort": node_port}]})
            };
            known.set_port(&port("uid-a"), NOW);
            assert_eq!(frees(known), 1, "there is no Service");
            service(known, "a", &json!({}), &spec(Value::Null));
            assert_eq!(frees(known), 0, "it gets the port next");
            service(known, "a", &json!({"uid": "another"}), &spec(Value::Null));
            assert_eq!(frees(known), 1, "that is not the one");
            service(known, "a", &json!({"resourceVersion": "7"}), &spec(json!(30006)));
            assert_eq!(frees(known), 1, "it has another one");
        });
    }

    #[rstest]
    #[case::gets_it(true, false, false, true, (1, 0))]
    #[case::has_it(true, true, false, true, (0, 0))]
    #[case::is_kept(true, true, true, true, (0, 0))]
    #[case::too_late(true, false, true, true, (0, 0))]
    #[case::goes_with_its_service(true, true, true, false, (0, 1))]
    #[case::leaks_first(true, true, false, false, (0, 0))]
    #[case::is_switched_off(false, true, false, true, (0, 1))]
    #[case::was_never_on(false, false, false, true, (0, 0))]
    fn a_finalizer_keeps_what_a_service_has(
        #[case] protect: bool,
        #[case] guarded: bool,
        #[case] going: bool,
        #[case] lives: bool,
        #[case] changes: (usize, usize),
    ) {
        ledger().with(|known| {
            if lives {
                let spec =
                    json!({"type": "ClusterIP", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"]});
                service(known, "a", &json!({}), &spec);
            }
            address(known, "10.96.0.5", "a", true, 0);
            let mut entry = known.entry(EntryKind::Address, "10.96.0.5").unwrap().clone();
            (entry.guarded, entry.going, entry.version) = (guarded, going, 9);
            known.set_entry(entry, NOW);
            let verdict = addresses(known, &key("a"), protect, NOW);
            assert_eq!((verdict.guards.len(), verdict.unguards.len()), changes);
        });
    }

    #[test]
    fn of_two_services_on_a_port_the_older_one_is_in_the_right() {
        ledger().with(|known| {
            let spec = json!({"type": "NodePort", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"],
                "ports": [{"port": 80, "nodePort": 30005}]});
            service(known, "a", &json!({"creationTimestamp": "2026-01-02T00:00:00Z"}), &spec);
            service(known, "b", &json!({"creationTimestamp": "2026-01-01T00:00:00Z"}), &spec);
            let (a, b) = (node_ports(known, &key("a")), node_ports(known, &key("b")));
            assert_eq!((reasons(known, &a), reasons(known, &b)), (vec!["PortAlreadyAllocated"], vec![]));
            let outside = json!({"type": "NodePort", "clusterIP": "10.96.0.6", "clusterIPs": ["10.96.0.6"],
                "ports": [{"port": 80, "nodePort": 32000}]});
            service(known, "c", &json!({}), &outside);
            let verdict = node_ports(known, &key("c"));
            assert_eq!(reasons(known, &verdict), ["PortOutOfRange"]);
            assert_eq!(verdict.creates.len(), 1, "the ledger says who has it nevertheless");
        });
    }
}
