//! One plan for a whole Service: cluster IPs, node ports and the health check node port.
//!
//! Owns the ledger of everything that is taken, and the decision what a Service gets and gives
//! back on create, update and delete - all or nothing. Planning changes the Service that is
//! planned and nothing else; only [`Ledger::commit`] changes the ledger. It never writes an object.

mod addresses;
mod missing;
mod ports;
mod source;

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use rand::Rng;
use service_api::service::spec_of;

use crate::error::PlanError;
use crate::families::{self, ClusterFamilies};
use crate::ip::AddressLedger;
use crate::port::{PortLedger, Protocols};
use crate::service_key::ServiceKey;
use crate::spec;

pub use missing::TakenBefore;
pub use source::{Source, WholeRanges};

/// How to plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanOptions {
    /// Nothing will be stored: automatic values are upstream's placeholders (the network address
    /// of the range, ports from 32769 on), and the plan takes and releases nothing.
    pub dry_run: bool,
}

/// A port that a Service holds after the plan, which it did not hold before, or for other protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortClaim {
    /// The port.
    pub port: u16,
    /// All protocols that the Service holds it for.
    pub protocols: Protocols,
}

/// What a Service takes and releases. Nothing has happened yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a plan does nothing until it is committed together with the objects it is about"]
pub struct Plan {
    /// The Service.
    pub service: ServiceKey,
    /// Addresses whose IPAddress objects are to be created.
    pub take_addresses: Vec<IpAddr>,
    /// Addresses whose IPAddress objects are to be deleted, when they belong to the Service.
    pub release_addresses: Vec<IpAddr>,
    /// Ports that it comes to hold, ascending.
    pub take_ports: Vec<PortClaim>,
    /// Ports that it ceases to hold, ascending.
    pub release_ports: Vec<u16>,
}

impl Plan {
    /// A plan that changes nothing.
    pub fn empty(service: ServiceKey) -> Self {
        Self {
            service,
            take_addresses: Vec::new(),
            release_addresses: Vec::new(),
            take_ports: Vec::new(),
            release_ports: Vec::new(),
        }
    }

    /// Whether nothing is taken and nothing released.
    pub fn is_empty(&self) -> bool {
        self.take_addresses.is_empty()
            && self.release_addresses.is_empty()
            && self.take_ports.is_empty()
            && self.release_ports.is_empty()
    }

    fn set_ports(&mut self, before: &BTreeMap<u16, Protocols>, after: &BTreeMap<u16, Protocols>) {
        let changed = after.iter().filter(|(port, protocols)| before.get(port) != Some(protocols));
        self.take_ports = changed.map(|(&port, &protocols)| PortClaim { port, protocols }).collect();
        self.release_ports = before.keys().filter(|port| !after.contains_key(port)).copied().collect();
    }
}

/// Everything that is taken in the cluster.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// Cluster IPs.
    pub addresses: AddressLedger,
    /// Node ports.
    pub ports: PortLedger,
    /// The IP families that Services may have.
    pub families: ClusterFamilies,
}

impl Ledger {
    /// A ledger without address ranges, in which nothing is taken.
    pub fn new(families: ClusterFamilies, ports: PortLedger) -> Self {
        Self { addresses: AddressLedger::new(), ports, families }
    }

    /// Plans a Service that is about to be created, and fills in `clusterIP`, `clusterIPs`,
    /// `ipFamilies`, `ipFamilyPolicy`, node ports and `healthCheckNodePort`.
    ///
    /// The Service must have its static defaults; it may be invalid otherwise. When it is refused
    /// it stays as it was.
    pub fn plan_create(
        &self,
        service: &mut Service,
        rng: &mut impl Rng,
        options: PlanOptions,
    ) -> Result<Plan, PlanError> {
        self.plan_create_from(service, &mut WholeRanges(rng), options)
    }

    /// [`Self::plan_create`] with values from elsewhere than the whole ranges.
    pub fn plan_create_from(
        &self,
        service: &mut Service,
        source: &mut impl Source,
        options: PlanOptions,
    ) -> Result<Plan, PlanError> {
        let mut spec = service.spec.clone().unwrap_or_default();
        let mut plan = Plan::empty(spec::key(service));
        families::settle(&mut spec, None, self.families).map_err(PlanError::Invalid)?;
        plan.take_addresses = self.assign_addresses(&mut spec, plan.service.name(), source, options)?;
        self.assign_ports(&mut spec, source, options)?;
        plan.set_ports(&BTreeMap::new(), &spec::held_ports(&spec));
        service.spec = Some(spec);
        Ok(finish(plan, options))
    }

    /// Plans an update of `old` to `new`, and fills in `new` as [`Self::plan_create`] does.
    ///
    /// Values that `new` leaves out to keep must have been carried over from `old` before.
    pub fn plan_update(
        &self,
        old: &Service,
        new: &mut Service,
        rng: &mut impl Rng,
        options: PlanOptions,
    ) -> Result<Plan, PlanError> {
        self.plan_update_from(old, new, &mut WholeRanges(rng), options)
    }

    /// [`Self::plan_update`] with values from elsewhere than the whole ranges.
    pub fn plan_update_from(
        &self,
        old: &Service,
        new: &mut Service,
        source: &mut impl Source,
        options: PlanOptions,
    ) -> Result<Plan, PlanError> {
        let old_spec = spec_of(old);
        let mut spec = new.spec.clone().unwrap_or_default();
        let mut plan = Plan::empty(spec::key(old));
        families::settle(&mut spec, Some(old_spec), self.families).map_err(PlanError::Invalid)?;
        let moved = self.move_addresses(old_spec, &mut spec, plan.service.name(), source, options)?;
        (plan.take_addresses, plan.release_addresses) = moved;
        self.move_ports(&plan.service, old_spec, &mut spec, source, options)?;
        plan.set_ports(&spec::held_ports(old_spec), &spec::held_ports(&spec));
        new.spec = Some(spec);
        Ok(finish(plan, options))
    }

    /// Plans the removal of `old` from the store: it gives back all it holds.
    pub fn plan_delete(&self, old: &Service) -> Plan {
        let mut plan = Plan::empty(spec::key(old));
        plan.release_addresses = spec::held_addresses(spec_of(old));
        plan.set_ports(&spec::held_ports(spec_of(old)), &BTreeMap::new());
        plan
    }

    /// Does what a plan says. Doing it twice is the same as doing it once.
    pub fn commit(&mut self, plan: &Plan) {
        for &address in &plan.release_addresses {
            self.addresses.remove(address);
        }
        for &address in &plan.take_addresses {
            self.addresses.insert(address);
        }
        for &port in &plan.release_ports {
            self.ports.release(port, &plan.service);
        }
        for claim in &plan.take_ports {
            self.ports.hold(claim.port, &plan.service, claim.protocols);
        }
    }

    /// Takes what a stored Service holds, for a start on stored objects that has no plans to
    /// commit. Taking something twice is no error; [`crate::audit()`] finds who disagrees.
    pub fn insert_existing(&mut self, service: &Service) {
        let spec = spec_of(service);
        for address in spec::held_addresses(spec) {
            self.addresses.insert(address);
        }
        self.follow_ports(None, Some(service));
    }

    /// Follows a stored change of a Service's ports: from `old` to `new`, either of which may be
    /// missing. For callers that keep the ledger by watching objects; addresses follow the
    /// IPAddress objects, by [`AddressLedger::insert`] and [`AddressLedger::remove`].
    pub fn follow_ports(&mut self, old: Option<&Service>, new: Option<&Service>) {
        let Some(service) = new.or(old) else { return };
        self.commit(&Self::port_changes(service, old, new));
    }

    /// What a stored change of the ports of `service`, from `old` to `new`, takes and releases.
    pub fn port_changes(service: &Service, old: Option<&Service>, new: Option<&Service>) -> Plan {
        let held =
            |s: Option<&Service>| s.and_then(|s| s.spec.as_ref()).map(spec::held_ports).unwrap_or_default();
        let mut plan = Plan::empty(spec::key(service));
        plan.set_ports(&held(old), &held(new));
        plan
    }
}

fn finish(plan: Plan, options: PlanOptions) -> Plan {
    if options.dry_run { Plan::empty(plan.service) } else { plan }
}

#[cfg(test)]
mod tests;
