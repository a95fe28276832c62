//! The cluster IPs of one Service.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;
use service_api::address::parse_lenient;
use service_api::errors::invalid;
use service_api::service::{cluster_ips, families, is_headless, needs_cluster_ip};

use super::{Ledger, PlanOptions, Source};
use crate::error::{AddressError, PlanError};
use crate::families::is_unchanged_preference;
use crate::prefix::Family;
use crate::spec;

type Moved = (Vec<IpAddr>, Vec<IpAddr>);

impl Ledger {
    /// An address for each family of a Service that has none yet. Returns those to take.
    pub(super) fn assign_addresses(
        &self,
        spec: &mut ServiceSpec,
        name: &str,
        source: &mut impl Source,
        options: PlanOptions,
    ) -> Result<Vec<IpAddr>, PlanError> {
        if !spec::holds_addresses(spec) {
            return Ok(Vec::new());
        }
        let taken = self.fill(spec, 0, name, source, options)?;
        spec.cluster_ip = cluster_ips(spec).first().cloned();
        Ok(taken)
    }

    /// What an update takes and releases.
    pub(super) fn move_addresses(
        &self,
        old: &ServiceSpec,
        new: &mut ServiceSpec,
        name: &str,
        source: &mut impl Source,
        options: PlanOptions,
    ) -> Result<Moved, PlanError> {
        if is_unchanged_preference(old, new) {
            return Ok(Moved::default());
        }
        if !needs_cluster_ip(old) {
            return Ok((self.assign_addresses(new, name, source, options)?, Vec::new()));
        }
        let held = spec::held_addresses(old);
        if is_headless(old) || !needs_cluster_ip(new) {
            return Ok((Vec::new(), held));
        }
        match (families(old).len(), families(new).len()) {
            // There is no address of the other family to be had; that it may not become headless is told later.
            (1, 2) if is_headless(new) && !self.families.is_dual() => Ok(Moved::default()),
            (1, 2) => Ok((self.fill(new, 1, name, source, options)?, Vec::new())),
            (2, 1) => Ok((Vec::new(), held.into_iter().skip(1).collect())),
            _ => Ok(Moved::default()),
        }
    }

    /// Gives `clusterIPs` an address for each family from number `start` on: what is asked for
    /// there, or a free one. Returns them.
    fn fill(
        &self,
        spec: &mut ServiceSpec,
        start: usize,
        name: &str,
        source: &mut impl Source,
        options: PlanOptions,
    ) -> Result<Vec<IpAddr>, PlanError> {
        let families: Vec<Family> = families(spec).iter().filter_map(|f| Family::parse(f)).collect();
        let ips = spec.cluster_ips.get_or_insert_default();
        ips.resize(ips.len().max(families.len()), String::new());
        // What is asked for comes first: its refusal is the more useful answer.
        for ip in ips.iter().skip(start).filter(|ip| !ip.is_empty()) {
            let asked = parse_lenient(ip).ok_or(AddressError::MismatchedNetwork);
            asked.and_then(|address| self.ask(address, source, options)).map_err(|error| {
                let lies = match (&error, parse_lenient(ip)) {
                    (AddressError::MismatchedNetwork, Some(address)) => self.addresses.closed_around(address),
                    _ => String::new(),
                };
                let detail = format!("failed to allocate IP {ip}: {error}{lies}");
                PlanError::Invalid(vec![invalid("spec.clusterIPs", ips.as_slice(), detail)].into())
            })?;
        }
        let mut taken = Vec::new();
        for (ip, family) in ips.iter_mut().zip(families).skip(start) {
            if ip.is_empty() {
                let chosen = if options.dry_run {
                    self.addresses.placeholder(family)
                } else {
                    source.choose_address(&self.addresses, family)
                };
                let chosen = chosen.map_err(|error| {
                    let ranges = match error {
                        AddressError::Full => self.addresses.fullness(family),
                        _ => String::new(),
                    };
                    PlanError::Internal(format!(
                        "failed to allocate a serviceIP for Service {name:?}: {error}{ranges}"
                    ))
                })?;
                *ip = chosen.to_string();
                taken.push(chosen);
            } else if let Some(address) = parse_lenient(ip) {
                taken.push(address);
            }
        }
        Ok(taken)
    }

    fn ask(&self, address: IpAddr, source: &impl Source, options: PlanOptions) -> Result<(), AddressError> {
        if options.dry_run {
            self.addresses.check_dry_run(address)?;
        } else {
            self.addresses.check(address)?;
        }
        source.admit_address(address)
    }
}
