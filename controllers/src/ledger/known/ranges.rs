//! ServiceCIDRs, NodePortRanges and ServicePools, as far as they are known.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use service_allocators::port::DEFAULT_RANGE;
use service_allocators::{ClusterFamilies, Family};
use service_api::crds::{self, Role, ServicePool};

use super::Known;

/// The ServiceCIDR that says which families the cluster has, as upstream.
const DEFAULT_CIDR: &str = "kubernetes";

impl Known {
    /// ServiceCIDRs by name.
    pub fn cidrs(&self) -> &BTreeMap<String, ServiceCIDR> {
        &self.cidrs
    }

    pub(crate) fn set_cidr(&mut self, cidr: &ServiceCIDR) {
        let name = cidr.metadata.name.as_deref().unwrap_or_default();
        if let Err(error) = self.live.set_cidr(cidr) {
            tracing::warn!(servicecidr = name, %error, "a range can not give addresses");
        }
        let nets = cidr.spec.as_ref().and_then(|s| s.cidrs.as_deref()).unwrap_or_default();
        let family = |text: &String| text.parse::<ipnet::IpNet>().ok().map(|net| Family::of(net.addr()));
        if name == DEFAULT_CIDR
            && let Some(primary) = nets.first().and_then(family)
        {
            self.live.ledger.families = if nets.len() > 1 {
                ClusterFamilies::dual(primary)
            } else {
                ClusterFamilies::single(primary)
            };
        }
        self.cidrs.insert(name.to_owned(), cidr.clone());
        self.ranges_changed();
    }

    pub(in crate::ledger) fn remove_cidr(&mut self, name: &str) {
        self.live.remove_cidr(name);
        self.cidrs.remove(name);
        self.ranges_changed();
    }

    /// NodePortRanges by name.
    pub fn port_ranges(&self) -> &BTreeMap<String, crds::NodePortRange> {
        &self.port_ranges
    }

    /// A NodePortRange is stored; that of [`DEFAULT_RANGE`] takes the place of what the flag says.
    pub(crate) fn set_port_range(&mut self, range: &crds::NodePortRange) {
        let name = range.metadata.name.clone().unwrap_or_default();
        let same = |known: &crds::NodePortRange| {
            known.spec == range.spec && known.metadata.deletion_timestamp == range.metadata.deletion_timestamp
        };
        let only_status = self.port_ranges.get(&name).is_some_and(same);
        if !only_status && !self.live.set_port_range(range) {
            tracing::warn!(nodeportrange = name, "a range has no ports");
        }
        self.port_ranges.insert(name, range.clone());
        self.range_changed(only_status);
    }

    pub(in crate::ledger) fn remove_port_range(&mut self, name: &str) {
        self.live.remove_port_range(name);
        self.port_ranges.remove(name);
        if name == DEFAULT_RANGE {
            self.live.ledger.ports.set_range(DEFAULT_RANGE, self.node_ports, Role::Dynamic, None);
        }
        self.ranges_changed();
    }

    /// ServicePools by name.
    pub fn pools(&self) -> &BTreeMap<String, ServicePool> {
        &self.pools
    }

    pub(crate) fn set_pool(&mut self, pool: ServicePool) {
        for fault in self.live.set_pool(&pool) {
            tracing::warn!(servicepool = fault.pool, "{}", fault.text);
        }
        let name = pool.metadata.name.clone().unwrap_or_default();
        let same_spec = |known: &ServicePool| known.spec == pool.spec;
        let only_status = self.pools.get(&name).is_some_and(same_spec);
        if !only_status {
            self.users.forget();
        }
        self.pools.insert(name, pool);
        self.range_changed(only_status);
    }

    pub(in crate::ledger) fn remove_pool(&mut self, name: &str) {
        self.live.remove_pool(name);
        self.users.forget();
        self.pools.remove(name);
        self.ranges_changed();
    }

    /// A range or pool is new or changed. What only says how full it is concerns nobody but who says so.
    fn range_changed(&mut self, only_status: bool) {
        if only_status {
            self.changes.fill = true;
        } else {
            self.ranges_changed();
        }
    }

    fn ranges_changed(&mut self) {
        self.changes.ranges = true;
        self.wake();
    }
}
