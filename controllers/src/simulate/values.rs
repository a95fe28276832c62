//! Addresses and ports in a simulated cluster: what Services without them would get, and who is left without a range.
//!
//! Owns the ledger for one step; what is chosen is the allocators'.

use k8s_openapi::api::core::v1::Service;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use service_allocators::prefix::Family;
use service_allocators::ranges::{Objects, Questions, Shown, survey};
use service_allocators::{ClusterFamilies, Ledger, NodePortRange, PlanOptions, PortLedger, PortSharing};
use service_api::crds::Role;
use service_api::errors::FieldErrors;
use service_api::service::{self, cluster_ips, spec_of, type_of, validate_create, validate_update};

use super::report::Write;
use crate::explain::Snapshot;
use crate::explain::kind::Kind;

/// The range of a cluster of which none is known: the default of kubeadm.
const USUAL_RANGE: &str = "10.96.0.0/12";

/// Everything that is taken.
fn ledger(snapshot: &Snapshot) -> Ledger {
    let ports = PortLedger::without_ranges(PortSharing::WithinService);
    let mut ledger = Ledger::new(ClusterFamilies::dual(Family::V4), ports);
    for cidr in &snapshot.cidrs {
        // What can not be read gives no addresses.
        let _ = ledger.addresses.set_service_cidr(cidr);
    }
    if snapshot.cidrs.is_empty() {
        let net = USUAL_RANGE.parse().into_iter().collect::<Vec<_>>();
        let _ = ledger.addresses.set_range("kubernetes", &net, service_allocators::RangeState::Ready);
    }
    for range in &snapshot.port_ranges {
        let end = |number: i32| u16::try_from(number).ok();
        let ends = end(range.spec.first_port).zip(end(range.spec.last_port));
        let band = range.spec.lower_band.and_then(|band| u32::try_from(band).ok());
        if let Some(ports) = ends.and_then(|(first, last)| NodePortRange::new(first, last)) {
            let name = range.metadata.name.as_deref().unwrap_or_default();
            ledger.ports.set_range(name, ports, range.spec.role, band);
        }
    }
    if snapshot.port_ranges.is_empty() {
        ledger.ports.set_range("kubernetes", NodePortRange::default(), Role::Dynamic, None);
    }
    for address in snapshot.addresses.keys() {
        ledger.addresses.insert(*address);
    }
    for service in snapshot.services.values() {
        ledger.insert_existing(service);
    }
    ledger
}

/// Gives Services that have no cluster IP yet, as manifests have none, what they would get.
pub(super) fn give(snapshot: &mut Snapshot, notes: &mut Vec<String>) -> Vec<Write> {
    let lacks = |service: &&Service| {
        let spec = spec_of(service);
        type_of(spec) != "ExternalName"
            && spec.cluster_ip.as_deref().is_none_or(str::is_empty)
            && cluster_ips(spec).is_empty()
    };
    let lacking: Vec<Service> = snapshot.services.values().filter(lacks).cloned().collect();
    if lacking.is_empty() {
        return Vec::new();
    }
    if snapshot.cidrs.is_empty() {
        notes.push(format!("no ServiceCIDR is known: addresses are taken to come from {USUAL_RANGE}"));
    }
    let mut ledger = ledger(snapshot);
    // The choice among free values is random; here it is the same each time.
    let mut random = StdRng::seed_from_u64(0);
    let mut writes = Vec::new();
    for mut new in lacking {
        service::default(&mut new);
        service::prepare_create(&mut new);
        let name = key(&new);
        match ledger.plan_create(&mut new, &mut random, PlanOptions::default()) {
            Ok(plan) => {
                ledger.commit(&plan);
                let faults = validate_create(&new);
                if !faults.is_empty() {
                    notes.push(format!("Service {name} would be refused: {}", listed(&faults)));
                }
                let made = plan.take_addresses.iter().map(|ip| (Kind::IpAddress, ip.to_string()));
                let ports = plan.take_ports.iter().map(|claim| (Kind::NodePort, claim.port.to_string()));
                writes.extend(made.chain(ports).map(|(kind, value)| taken(&name, kind, value)));
                put(snapshot, &new, notes);
            }
            Err(error) => notes.push(format!("Service {name} would be refused: {error}")),
        }
    }
    writes
}

/// A Service after an edit, with the values that the server would give it; why it would be refused, if it would.
pub(super) fn edited(snapshot: &Snapshot, old: &Service, mut new: Service) -> Result<Service, String> {
    let ledger = ledger(snapshot);
    let mut random = StdRng::seed_from_u64(0);
    // What a manifest lacks it lacks afterwards too: slices are known by the uid of their Service.
    let uid = old.metadata.uid.clone();
    let old = &stored(old.clone());
    new = stored(new);
    service::default(&mut new);
    service::prepare_update(&mut new, old);
    ledger
        .plan_update(old, &mut new, &mut random, PlanOptions::default())
        .map(|_| ())
        .map_err(|error| format!("Service {} would be refused: {error}", key(old)))?;
    let faults = validate_update(&new, old);
    if faults.is_empty() {
        new.metadata.uid = uid;
        Ok(new)
    } else {
        Err(format!("Service {} would be refused: {}", key(old), listed(&faults)))
    }
}

/// A Service with what a server gives to every object; a manifest has none of it.
fn stored(mut service: Service) -> Service {
    let given = |field: &mut Option<String>| {
        field.get_or_insert_with(|| "1".to_owned());
    };
    given(&mut service.metadata.resource_version);
    given(&mut service.metadata.uid);
    service
}

fn listed(faults: &FieldErrors) -> String {
    faults.listed().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn taken(service: &str, kind: Kind, value: String) -> Write {
    let what = if kind == Kind::IpAddress { "address" } else { "node port" };
    Write {
        verb: "Create",
        kind: kind.name(),
        namespace: String::new(),
        message: format!("the {what} {value}, one of those that are free"),
        name: value,
        service: service.to_owned(),
        lines: Vec::new(),
        bytes: 0,
        event_bytes: 0,
        nodes: 0,
    }
}

fn put(snapshot: &mut Snapshot, service: &Service, notes: &mut Vec<String>) {
    let added = serde_json::to_vec(service).and_then(|json| snapshot.add(Kind::Service, &json));
    if let Err(error) = added {
        notes.push(format!("Service {}: {error}", key(service)));
    }
}

fn key(service: &Service) -> String {
    let meta = &service.metadata;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", part(&meta.namespace), part(&meta.name))
}

/// Services whose values no range has.
pub(super) fn notes(snapshot: &Snapshot) -> Option<String> {
    if snapshot.cidrs.is_empty() {
        return None;
    }
    let objects = Objects {
        services: snapshot.services.values().cloned().collect(),
        cidrs: snapshot.cidrs.clone(),
        port_ranges: snapshot.port_ranges.clone(),
        ..Objects::default()
    };
    let report = survey(&objects, &Questions::default());
    let outside = &report.outside;
    (outside.count > 0).then(|| format!("{} values would be in no range: {}", outside.count, Shown(outside)))
}
