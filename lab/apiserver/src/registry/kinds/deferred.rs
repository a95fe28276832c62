//! Services whose values come after they are stored: `--allocation=reconcile`.
//!
//! Owns what a server that allocates nothing still decides in the transaction: the families of a Service, and that nobody
//! names a value that another has. It takes nothing and writes no IPAddress or NodePort.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service as ServiceObject;
use service_allocators::{Claim, PlanError, PortSharing, Protocols, ServiceKey};
use service_api::crds::nodeport::PortParent;
use service_api::errors::{FieldErrors, invalid};
use service_api::{crds, service};

use super::{ipaddress, nodeport};
use crate::registry::Tx;
use crate::registry::strategy::Context;
use crate::store::Stored;

const TAKEN: &str = "provided IP is already allocated";
const TAKEN_PORT: &str = "provided port is already allocated";

/// Settles the families of a Service.
///
/// # Errors
/// When they cannot be had, or when it names values that another has.
pub(super) fn settle(
    old: Option<&ServiceObject>,
    new: &mut ServiceObject,
    tx: &Tx<'_>,
    ctx: &Context<'_>,
) -> Result<(), PlanError> {
    tx.index().services.live.ledger.settle_families(old, new)?;
    let faults = taken(old, new, tx, ctx);
    if faults.is_empty() { Ok(()) } else { Err(PlanError::Invalid(faults)) }
}

/// The old version of a Service as if it had had the health check node port that it gets now: what stays the same for good
/// is given once.
pub(super) fn given_since(old: &ServiceObject, new: &ServiceObject) -> ServiceObject {
    let mut old = old.clone();
    if let (Some(old), Some(new)) = (&mut old.spec, &new.spec)
        && old.health_check_node_port.is_none_or(|port| port == 0)
    {
        old.health_check_node_port = new.health_check_node_port;
    }
    old
}

/// A fault for each value that the Service comes to name and another has.
fn taken(old: Option<&ServiceObject>, new: &ServiceObject, tx: &Tx<'_>, ctx: &Context<'_>) -> FieldErrors {
    let before = old.map(Claim::of);
    let after = Claim::of(new);
    let had = |address: &IpAddr| before.as_ref().is_some_and(|claim| claim.addresses.contains(address));
    let mut faults = FieldErrors::new();
    for address in after.addresses.iter().filter(|address| !had(address)) {
        if address_of_another(*address, &after.service, tx, ctx) {
            let detail = format!("failed to allocate IP {address}: {TAKEN}");
            let ips = service::cluster_ips(service::spec_of(new));
            faults.push(invalid("spec.clusterIPs", ips, detail));
        }
    }
    for (port, protocols) in
        after.ports.iter().filter(|port| before.as_ref().is_none_or(|claim| !claim.ports.contains(port)))
    {
        if port_of_another(*port, *protocols, &after.service, tx, ctx) {
            faults.push(invalid("spec.ports.nodePort", i32::from(*port), TAKEN_PORT));
        }
    }
    faults
}

fn address_of_another(address: IpAddr, own: &ServiceKey, tx: &Tx<'_>, ctx: &Context<'_>) -> bool {
    let services = &tx.index().services;
    let id = ctx.registry.id(ipaddress::GROUP, ipaddress::RESOURCE);
    let entry = id.and_then(|id| tx.get(id, "", &address.to_string())).and_then(|stored| stored.parse().ok());
    services.services_with(address).iter().any(|service| service != own)
        || entry.is_some_and(|entry| !ipaddress::belongs_to(&entry, own.namespace(), own.name()))
}

fn port_of_another(
    port: u16,
    protocols: Protocols,
    own: &ServiceKey,
    tx: &Tx<'_>,
    ctx: &Context<'_>,
) -> bool {
    let ledger = &tx.index().services.live.ledger.ports;
    let shares = ledger.sharing() == PortSharing::PerProtocol;
    let held = ledger.holders(port).iter();
    let by_service = held
        .into_iter()
        .any(|holder| holder.owner != *own && (!shares || holder.protocols.overlap(protocols)));
    let id = ctx.registry.id(crds::GROUP, nodeport::RESOURCE);
    let parent = PortParent::service(own.namespace(), own.name());
    let is_foreign =
        |stored: &Stored| stored.parse().is_ok_and(|object| !nodeport::belongs_to(&object, &parent));
    let by_object =
        id.and_then(|id| tx.get(id, "", &port.to_string())).is_some_and(|stored| is_foreign(stored));
    by_service || by_object
}
