//! What a Service and its entries need: pure, with chance as an argument.
//!
//! ```text
//!   lacks a value  -> values taken for it before, then free ones: entries to make, then the Service is patched
//!   has a value    -> an entry that says so
//!   has it no more -> the Service is marked, then the entry is freed
//! ```
//!
//! The mark makes a new version of the Service, so that nobody who decided on an older one can still give it that value.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use rand::Rng;
use serde_json::{Value, json};
use service_allocators::plan::{Source, TakenBefore};
use service_allocators::pools::{Seconds, Share, Steered};
use service_allocators::{
    AddressError, AddressLedger, Family, PlanError, PortError, PortLedger, PortSharing, ServiceKey,
};
use service_api::crds::nodeport::Purpose;
use service_api::service::spec_of;

use crate::allocation::draft::Draft;
use crate::ledger::{Entry, EntryKind, Facts, Known};
use crate::report::words::few;
use crate::text::Uid;

/// The annotation of a Service that says which values it gave back last.
pub(crate) const RELEASED: &str = "service-control-plane.io/released";

/// Why a Service does not have what it should.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// The reason of the Event.
    pub(crate) reason: &'static str,
    /// What happened, with numbers.
    pub(crate) message: String,
}

/// What is to be done for a Service, in this order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Decision {
    /// Entries to make.
    pub(crate) creates: Vec<Draft>,
    /// Entries that are there and are claimed anew.
    pub(crate) claims: Vec<(Entry, Draft)>,
    /// What changes in the Service: a merge patch without preconditions.
    pub(crate) patch: Option<Value>,
    /// The version and the uid of the Service that this was decided on.
    pub(crate) basis: Option<(u64, Uid)>,
    /// Entries that are not the Service's any more.
    pub(crate) frees: Vec<Entry>,
    /// What cannot be done.
    pub(crate) problems: BTreeSet<Problem>,
}

impl Decision {
    /// Whether there is nothing to do, and nothing to tell.
    #[must_use]
    pub(crate) fn is_done(&self) -> bool {
        self.is_idle() && self.problems.is_empty()
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub(crate) fn is_idle(&self) -> bool {
        self.creates.is_empty() && self.claims.is_empty() && self.patch.is_none() && self.frees.is_empty()
    }

    /// The decision in words, as `give 10.96.0.5, 30005; free 30006`.
    pub(crate) fn words(&self) -> String {
        let gives = self.patch.as_ref().is_some_and(|patch| patch.get("spec").is_some());
        let made = self.creates.iter().map(|draft| draft.name.to_string());
        let claimed = self.claims.iter().map(|(entry, _)| entry.name.to_string());
        let freed = self.frees.iter().map(|entry| entry.name.to_string());
        let parts: [(&str, Vec<String>); 3] = if gives {
            [("give", made.chain(claimed).collect()), ("claim again", Vec::new()), ("free", freed.collect())]
        } else {
            [
                ("make the entry of", made.collect()),
                ("claim again", claimed.collect()),
                ("free", freed.collect()),
            ]
        };
        let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> =
            parts.map(|(verb, names)| format!("{verb} {}", few(names.into_iter()))).collect();
        if parts.is_empty() { "write what it has".to_owned() } else { parts.join("; ") }
    }
}

/// Decides for one Service.
pub(crate) fn decide(known: &Known, key: &ServiceKey, now: Seconds, rng: &mut impl Rng) -> Decision {
    let entries: Vec<&Entry> = known.entries_of(key).filter(|entry| !entry.going).collect();
    let Some(facts) = known.service(key) else {
        let frees = entries.into_iter().filter(|entry| entry.parent_uid.is_some()).cloned().collect();
        return Decision { frees, ..Decision::default() };
    };
    let own: Vec<&Entry> =
        entries.iter().copied().filter(|entry| entry.parent_uid.as_ref() == Some(&facts.uid)).collect();
    let mut decision = Decision { basis: Some((facts.version, facts.uid.clone())), ..Decision::default() };
    let target = match facts.lacking() {
        Some(service) => match fill_in(known, key, service, &own, (now, rng)) {
            Ok(target) => {
                decision.patch = difference(service, &target);
                Cow::Owned(Facts::of(key, facts.uid.clone(), &target))
            }
            Err(problem) => {
                decision.problems.insert(problem);
                Cow::Borrowed(facts)
            }
        },
        None => Cow::Borrowed(facts),
    };
    let wanted = wanted(known, key, &target);
    for draft in &wanted {
        follow(known, facts, draft, &mut decision);
    }
    let is_wanted = |entry: &Entry| wanted.iter().any(|w| w.kind == entry.kind && w.name == entry.name);
    let frees = entries.into_iter().filter(|entry| entry.parent_uid.is_some() && !is_wanted(entry));
    decision.frees = frees.cloned().collect();
    if decision.frees.iter().any(|entry| own.contains(&entry)) && decision.patch.is_none() {
        decision.patch = Some(mark(&decision.frees, now));
    }
    decision
}

/// The Service with all its values.
fn fill_in(
    known: &Known,
    key: &ServiceKey,
    service: &Service,
    own: &[&Entry],
    (now, rng): (Seconds, &mut impl Rng),
) -> Result<Service, Problem> {
    let before = taken_before(known, key, own);
    let pools = &known.live.pools;
    let pool = pools.find(service, known.labels(key.namespace()));
    let inner = Steered { pools, pool, service: key.clone(), share: Share::WHOLE, now, rng };
    let mut source = Recording { inner, reason: "AllocationFailed" };
    let mut target = service.clone();
    let planned = known.live.ledger.plan_missing(&mut target, &before, &mut source);
    let reason = source.reason;
    planned.map_err(|error| Problem {
        reason,
        message: match error {
            PlanError::Internal(text) => text,
            error @ PlanError::Invalid(_) => error.to_string(),
        },
    })?;
    Ok(target)
}

/// A [`Source`] that remembers which range was full, by upstream's reasons.
struct Recording<S> {
    inner: S,
    reason: &'static str,
}

impl<S: Source> Source for Recording<S> {
    fn choose_address(&mut self, ledger: &AddressLedger, family: Family) -> Result<IpAddr, AddressError> {
        let chosen = self.inner.choose_address(ledger, family);
        if chosen == Err(AddressError::Full) {
            self.reason = "ServiceCIDRFull";
        }
        chosen
    }

    fn choose_port(&mut self, ledger: &PortLedger, except: &[u16]) -> Result<u16, PortError> {
        let chosen = self.inner.choose_port(ledger, except);
        if chosen == Err(PortError::Full) {
            self.reason = "PortRangeFull";
        }
        chosen
    }
}

/// What was taken for the Service and is not in it; not what another Service has meanwhile.
fn taken_before(known: &Known, key: &ServiceKey, own: &[&Entry]) -> TakenBefore {
    let mut before = TakenBefore::default();
    for entry in own {
        if let Some(address) = entry.address()
            && known.live.services_with(address).is_empty()
        {
            before.addresses.push(address);
        }
        let Some(port) = entry.number() else { continue };
        let held = known.live.ledger.ports.holders(port);
        if held.iter().any(|holder| holder.owner != *key) {
            continue;
        }
        match entry.port.as_ref().map(|spec| spec.purpose) {
            Some(Purpose::HealthCheck) => before.health_checks.push(port),
            _ => before.ports.push(port),
        }
    }
    before
}

/// The entries that a Service with these values should have.
fn wanted(known: &Known, key: &ServiceKey, target: &Facts) -> Vec<Draft> {
    let draft = |kind, name: String, port| Draft {
        kind,
        name: name.into(),
        parent: key.clone(),
        parent_uid: target.uid.clone(),
        port,
    };
    let addresses =
        target.addresses().iter().map(|ip: &IpAddr| draft(EntryKind::Address, ip.to_string(), None));
    let per_protocol = known.live.ledger.ports.sharing() == PortSharing::PerProtocol;
    let ports = target.node_ports(per_protocol).into_iter().filter(|_| known.serves("nodeports"));
    addresses.chain(ports.map(|(name, spec)| draft(EntryKind::Port, name, Some(Box::new(spec))))).collect()
}

/// What an entry needs so that it says what it should.
fn follow(known: &Known, facts: &Facts, draft: &Draft, decision: &mut Decision) {
    let Some(entry) = known.entry(draft.kind, &draft.name) else {
        if is_in_range(known, draft) {
            decision.creates.push(draft.clone());
        } else {
            decision.problems.insert(out_of_range(draft));
        }
        return;
    };
    if entry.parent.as_ref() != Some(&draft.parent) {
        decision.problems.insert(of_another(draft, entry.parent.as_ref()));
        return;
    }
    let is_new = match draft.kind {
        EntryKind::Address => !entry.address().is_some_and(|ip| facts.addresses().contains(&ip)),
        EntryKind::Port => !entry.number().is_some_and(|port| facts.ports().iter().any(|(p, _)| *p == port)),
    };
    let is_ours = entry.parent_uid.as_ref() == Some(&draft.parent_uid);
    let says = entry.port == draft.port;
    // What an API server or a person made for the Service is right as it is.
    let is_foreign = entry.parent_uid.is_none() && draft.kind == EntryKind::Address;
    if !is_foreign && (is_new || !is_ours || !says) {
        decision.claims.push((entry.clone(), draft.clone()));
    }
}

fn is_in_range(known: &Known, draft: &Draft) -> bool {
    match draft.kind {
        EntryKind::Address => {
            let address: Option<IpAddr> = draft.name.parse().ok();
            address.is_some_and(|ip| {
                known.live.ledger.addresses.usage().any(|range| range.prefix.offset(ip).is_some())
            })
        }
        EntryKind::Port => true,
    }
}

fn out_of_range(draft: &Draft) -> Problem {
    let message = format!(
        "Cluster IP {} is not within any configured Service CIDR; please recreate service, or create a ServiceCIDR that has it",
        draft.name
    );
    Problem { reason: "ClusterIPOutOfRange", message }
}

fn of_another(draft: &Draft, holder: Option<&ServiceKey>) -> Problem {
    let (reason, value, kind) = match draft.kind {
        EntryKind::Address => ("ClusterIPAlreadyAllocated", "Cluster IP", "IPAddress"),
        EntryKind::Port => ("PortAlreadyAllocated", "Port", "NodePort"),
    };
    let holder = holder.map_or_else(
        || format!("what is no Service, see spec.parentRef of the {kind}"),
        |holder| format!("Service {holder}"),
    );
    let message = format!("{value} {} was assigned to {holder}; please recreate service", draft.name);
    Problem { reason, message }
}

/// The merge patch that makes `target` of `service`; `None` when nothing differs.
fn difference(service: &Service, target: &Service) -> Option<Value> {
    let (before, after) = (spec_of(service), spec_of(target));
    if before == after {
        return None;
    }
    let mut spec = json!({
        "clusterIP": after.cluster_ip, "clusterIPs": after.cluster_ips,
        "ipFamilies": after.ip_families, "ipFamilyPolicy": after.ip_family_policy,
    });
    if before.ports != after.ports {
        spec["ports"] = json!(after.ports);
    }
    if before.health_check_node_port != after.health_check_node_port {
        spec["healthCheckNodePort"] = json!(after.health_check_node_port);
    }
    Some(json!({"spec": spec}))
}

/// The patch that says what a Service gave back.
fn mark(frees: &[Entry], now: Seconds) -> Value {
    let names: Vec<&str> = frees.iter().map(|entry| &*entry.name).collect();
    let text = format!("{} at {now}", names.join(" "));
    json!({"metadata": {"annotations": {RELEASED: text}}})
}
