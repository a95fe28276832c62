//! What a stored Service still lacks, for an API server that gives no values itself.
//!
//! Owns which values are missing, and that what was taken for the Service before comes first. What it has stays, whatever
//! it is: whether that is right is for [`crate::audit()`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use service_api::service::{cluster_ips, families, needs_health_check, needs_node_port};

use super::{Ledger, Source};
use crate::error::PlanError;
use crate::families;
use crate::prefix::Family;
use crate::spec;

/// What was taken for a Service and is not in it: its process ended in between, or the Service lost it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenBefore {
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Node ports.
    pub ports: Vec<u16>,
    /// Health check node ports.
    pub health_checks: Vec<u16>,
}

impl Ledger {
    /// Fills in the families of a Service as its API server would, and nothing that is taken. `old` is what it replaces.
    ///
    /// # Errors
    /// When it asks for families that contradict each other or the cluster.
    pub fn settle_families(&self, old: Option<&Service>, new: &mut Service) -> Result<(), PlanError> {
        let mut spec = new.spec.clone().unwrap_or_default();
        let old = old.and_then(|old| old.spec.as_ref());
        families::settle(&mut spec, old, self.families).map_err(PlanError::Invalid)?;
        new.spec = Some(spec);
        Ok(())
    }

    /// Fills in what a stored Service lacks: an address of each of its families, its node ports and its health check node
    /// port. A Service that lacks nothing, or is refused, stays as it was.
    ///
    /// # Errors
    /// When no value is left, or its families can not be had.
    pub fn plan_missing(
        &self,
        service: &mut Service,
        before: &TakenBefore,
        source: &mut impl Source,
    ) -> Result<(), PlanError> {
        let mut filled = service.clone();
        self.settle_families(None, &mut filled)?;
        let mut spec = filled.spec.take().unwrap_or_default();
        if spec::holds_addresses(&spec) {
            self.missing_addresses(&mut spec, spec::key(service).name(), &before.addresses, source)?;
        }
        self.missing_ports(&mut spec, before, source)?;
        service.spec = Some(spec);
        Ok(())
    }

    fn missing_addresses(
        &self,
        spec: &mut ServiceSpec,
        name: &str,
        before: &[IpAddr],
        source: &mut impl Source,
    ) -> Result<(), PlanError> {
        let families: Vec<Family> = families(spec).iter().filter_map(|f| Family::parse(f)).collect();
        let mut ips = cluster_ips(spec).to_vec();
        ips.resize(ips.len().max(families.len()), String::new());
        for (i, family) in families.into_iter().enumerate() {
            if !ips[i].is_empty() {
                continue;
            }
            let own = before
                .iter()
                .find(|ip| Family::of(**ip) == family && !ips.contains(&ip.to_string()))
                .copied();
            let chosen = own.map_or_else(|| source.choose_address(&self.addresses, family), Ok);
            let refused = |error| {
                let ranges = self.addresses.fullness(family);
                PlanError::Internal(format!(
                    "failed to allocate a serviceIP for Service {name:?}: {error}{ranges}"
                ))
            };
            ips[i] = chosen.map_err(refused)?.to_string();
        }
        spec.cluster_ip = ips.first().cloned();
        spec.cluster_ips = Some(ips);
        Ok(())
    }

    fn missing_ports(
        &self,
        spec: &mut ServiceSpec,
        before: &TakenBefore,
        source: &mut impl Source,
    ) -> Result<(), PlanError> {
        let mut choice = Choice { ledger: self, named: named(spec), source };
        if needs_node_port(spec) && spec::allocates_node_ports(spec) {
            // Ports of the same number get the same node port: one number serves TCP and UDP.
            let mut of_port: BTreeMap<i32, i32> = BTreeMap::new();
            for port in spec.ports.iter().flatten() {
                if let Some(number) = port.node_port.filter(|number| *number != 0) {
                    of_port.entry(port.port).or_insert(number);
                }
            }
            for port in spec.ports.iter_mut().flatten() {
                if port.node_port.is_some_and(|number| number != 0) {
                    continue;
                }
                let known = of_port.get(&port.port).copied();
                let number =
                    known.map_or_else(|| choice.any(&before.ports, "failed to allocate a nodePort"), Ok)?;
                of_port.insert(port.port, number);
                port.node_port = Some(number);
            }
        }
        if needs_health_check(spec) && spec.health_check_node_port.is_none_or(|number| number == 0) {
            let number = choice.any(&before.health_checks, "failed to allocate a HealthCheck NodePort 0")?;
            spec.health_check_node_port = Some(number);
        }
        Ok(())
    }
}

/// The numbers that a Service has or got, ascending.
fn named(spec: &ServiceSpec) -> Vec<u16> {
    let ports = spec.ports.iter().flatten().filter_map(|port| port.node_port);
    let mut named: Vec<u16> =
        ports.chain(spec.health_check_node_port).filter_map(|port| u16::try_from(port).ok()).collect();
    named.sort_unstable();
    named.dedup();
    named
}

struct Choice<'a, S> {
    ledger: &'a Ledger,
    named: Vec<u16>,
    source: &'a mut S,
}

impl<S: Source> Choice<'_, S> {
    /// One of those that were taken before, or a free one.
    fn any(&mut self, before: &[u16], what: &str) -> Result<i32, PlanError> {
        let own = before.iter().find(|port| self.named.binary_search(port).is_err()).copied();
        let chosen = own.map_or_else(|| self.source.choose_port(&self.ledger.ports, &self.named), Ok);
        let port = chosen.map_err(|error| {
            PlanError::Internal(format!("{what}: {error}{}", self.ledger.ports.fullness()))
        })?;
        if let Err(at) = self.named.binary_search(&port) {
            self.named.insert(at, port);
        }
        Ok(i32::from(port))
    }
}
