//! A ledger and its pools, kept up by the objects of a cluster.
//!
//! Owns what each kind of object means for what is taken: an address while an IPAddress of
//! that name exists or a Service has it, a port
//! while a Service names it or a NodePort of that name exists, a range while its object says so. It watches nothing;
//! its callers tell it of each change, and of the time.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use service_api::crds;
use service_api::crds::nodeport::port_of;

use crate::families::ClusterFamilies;
use crate::plan::Ledger;
use crate::pools::{PoolFault, Pools, Seconds, Value};
use crate::port::holds::PortHolds;
use crate::port::{NodePortRange, PortLedger};
use crate::prefix::PrefixError;
use crate::service_key::ServiceKey;

/// See the module.
#[derive(Debug, Clone)]
pub struct LiveLedger {
    /// What is taken.
    pub ledger: Ledger,
    /// What the ServicePools keep back.
    pub pools: Pools,
    objects: BTreeMap<String, crds::ServicePool>,
    holds: PortHolds,
    addresses: HashMap<IpAddr, Hold>,
    /// Of addresses that several Services have, all of them; older servers wrote such objects.
    shared: BTreeMap<IpAddr, Vec<ServiceKey>>,
}

/// What takes an address. There is one for each that is taken: it is kept small.
#[derive(Debug, Clone, Default)]
struct Hold {
    /// There is an IPAddress of that name.
    object: bool,
    /// The Service that has it, or the first of several.
    service: Option<ServiceKey>,
}

impl LiveLedger {
    /// Nothing is taken, and there are no pools; `ports` says which node ports there are and who may share one.
    pub fn new(families: ClusterFamilies, ports: PortLedger) -> Self {
        Self {
            ledger: Ledger::new(families, ports),
            pools: Pools::default(),
            objects: BTreeMap::new(),
            holds: PortHolds::default(),
            addresses: HashMap::new(),
            shared: BTreeMap::new(),
        }
    }

    /// The Services that have the address.
    pub fn services_with(&self, address: IpAddr) -> &[ServiceKey] {
        if let Some(all) = self.shared.get(&address) {
            return all;
        }
        self.addresses.get(&address).map_or(&[], |hold| hold.service.as_slice())
    }

    /// An IPAddress of this name is stored. What is no address is left alone.
    pub fn set_address(&mut self, name: &str, now: Seconds) {
        if let Ok(address) = name.parse() {
            self.hold_address(address, |hold| hold.object = true, || None, now);
        }
    }

    /// The IPAddress of this name is gone; `owner` tells whose it was, where there are pools that care.
    pub fn remove_address(&mut self, name: &str, owner: impl FnOnce() -> Option<ServiceKey>, now: Seconds) {
        if let Ok(address) = name.parse() {
            self.hold_address(address, |hold| hold.object = false, owner, now);
        }
    }

    /// The addresses of a Service were `before` and are `after`.
    pub fn move_addresses(
        &mut self,
        service: &ServiceKey,
        before: &[IpAddr],
        after: &[IpAddr],
        now: Seconds,
    ) {
        let owner = || Some(service.clone());
        for address in before.iter().filter(|address| !after.contains(address)) {
            let first = self.without(*address, service);
            self.hold_address(*address, |hold| hold.service = first, owner, now);
        }
        for address in after.iter().filter(|address| !before.contains(address)) {
            let first = self.with(*address, service);
            self.hold_address(*address, |hold| hold.service = Some(first), owner, now);
        }
    }

    /// Notes one more Service that has an address, and gives the first of them.
    fn with(&mut self, address: IpAddr, service: &ServiceKey) -> ServiceKey {
        let held = self.services_with(address);
        let Some(first) = held.first().cloned() else { return service.clone() };
        let all = [held, std::slice::from_ref(service)].concat();
        self.shared.insert(address, all);
        first
    }

    /// Notes that a Service has an address no more, and gives the first of those that still do.
    fn without(&mut self, address: IpAddr, service: &ServiceKey) -> Option<ServiceKey> {
        let left = self.services_with(address).iter().filter(|held| *held != service);
        let left: Vec<ServiceKey> = left.cloned().collect();
        let first = left.first().cloned();
        if left.len() > 1 {
            self.shared.insert(address, left);
        } else {
            self.shared.remove(&address);
        }
        first
    }

    /// Changes what takes an address, and lets the ledger and the pools follow.
    fn hold_address(
        &mut self,
        address: IpAddr,
        change: impl FnOnce(&mut Hold),
        owner: impl FnOnce() -> Option<ServiceKey>,
        now: Seconds,
    ) {
        let hold = self.addresses.entry(address).or_default();
        change(hold);
        if hold.object || hold.service.is_some() {
            self.ledger.addresses.insert(address);
            if !self.pools.is_empty() {
                self.pools.take(Value::Address(address));
            }
        } else {
            self.addresses.remove(&address);
            let was_taken = self.ledger.addresses.remove(address);
            if was_taken && !self.pools.is_empty() {
                self.give_back(Value::Address(address), owner().as_ref(), now);
            }
        }
    }

    /// A Service that was `old` is `new`; either may be missing. This is about its ports; [`Self::move_addresses`] is about
    /// its addresses.
    pub fn set_service(&mut self, old: Option<&Service>, new: Option<&Service>, now: Seconds) {
        let Some(service) = new.or(old) else { return };
        let plan = Ledger::port_changes(service, old, new);
        let moved = plan.release_ports.iter().copied().chain(plan.take_ports.iter().map(|c| c.port));
        let before: Vec<(u16, bool)> = moved.map(|port| (port, self.ledger.ports.contains(port))).collect();
        for port in &plan.release_ports {
            self.holds.set_service(&mut self.ledger.ports, *port, &plan.service, None);
        }
        for claim in &plan.take_ports {
            self.holds.set_service(&mut self.ledger.ports, claim.port, &plan.service, Some(claim.protocols));
        }
        self.tell_pools(&before, Some(&plan.service), now);
    }

    /// A NodePort is stored, new or changed.
    pub fn set_port(&mut self, port: &crds::NodePort, now: Seconds) {
        let name = port.metadata.name.as_deref().unwrap_or_default();
        self.move_port(name, now, |holds, ledger| holds.set_object(ledger, port));
    }

    /// The NodePort of this name is gone.
    pub fn remove_port(&mut self, name: &str, now: Seconds) {
        self.move_port(name, now, |holds, ledger| holds.remove_object(ledger, name));
    }

    fn move_port(&mut self, name: &str, now: Seconds, change: impl FnOnce(&mut PortHolds, &mut PortLedger)) {
        let before: Vec<(u16, bool)> =
            port_of(name).into_iter().map(|port| (port, self.ledger.ports.contains(port))).collect();
        let holders = before.first().map(|(port, _)| self.ledger.ports.holders(*port));
        let owner = holders.and_then(|holders| holders.first()).map(|holder| holder.owner.clone());
        change(&mut self.holds, &mut self.ledger.ports);
        self.tell_pools(&before, owner.as_ref(), now);
    }

    /// A ServiceCIDR is stored, new or changed.
    ///
    /// # Errors
    /// When a CIDR of it can not be a range; the others are in use.
    pub fn set_cidr(&mut self, cidr: &ServiceCIDR) -> Result<(), PrefixError> {
        self.ledger.addresses.set_service_cidr(cidr)
    }

    /// The ServiceCIDR of this name is gone.
    pub fn remove_cidr(&mut self, name: &str) {
        self.ledger.addresses.remove_range(name);
    }

    /// A NodePortRange is stored, new or changed. Returns whether it has ports; without any it counts as gone. One on its
    /// way out gives no ports any more.
    pub fn set_port_range(&mut self, range: &crds::NodePortRange) -> bool {
        let name = range.metadata.name.as_deref().unwrap_or_default();
        let port = |number: i32| u16::try_from(number).ok();
        let ends = port(range.spec.first_port).zip(port(range.spec.last_port));
        let band = range.spec.lower_band.and_then(|band| u32::try_from(band).ok());
        let Some(ports) = ends.and_then(|(first, last)| NodePortRange::new(first, last)) else {
            self.remove_port_range(name);
            return false;
        };
        if range.metadata.deletion_timestamp.is_some() {
            self.remove_port_range(name);
        } else {
            self.ledger.ports.set_range(name, ports, range.spec.role, band);
        }
        true
    }

    /// The NodePortRange of this name is gone.
    pub fn remove_port_range(&mut self, name: &str) {
        self.ledger.ports.remove_range(name);
    }

    /// A ServicePool is stored, new or changed. Returns what is wrong with any of the pools then; nothing when only its
    /// status is new.
    pub fn set_pool(&mut self, pool: &crds::ServicePool) -> &[PoolFault] {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let is_new = self.objects.get(&name).is_none_or(|known| known.spec != pool.spec);
        if is_new {
            self.objects.insert(name, pool.clone());
            self.make_pools();
        }
        self.pools.restore(pool, &self.ledger);
        if is_new { self.pools.faults() } else { &[] }
    }

    /// The ServicePool of this name is gone. Returns what is wrong with any of the others then.
    pub fn remove_pool(&mut self, name: &str) -> &[PoolFault] {
        self.objects.remove(name);
        self.make_pools();
        self.pools.faults()
    }

    fn make_pools(&mut self) {
        let mut pools = Pools::new(self.objects.values());
        pools.adopt(&self.pools, &self.ledger);
        self.pools = pools;
    }

    fn give_back(&mut self, value: Value, owner: Option<&ServiceKey>, now: Seconds) {
        self.pools.advance(now, &self.ledger);
        self.pools.give_back(value, owner, now);
    }

    /// Tells the pools of ports that came to be held or free.
    fn tell_pools(&mut self, before: &[(u16, bool)], owner: Option<&ServiceKey>, now: Seconds) {
        for (port, held) in before.iter().filter(|_| !self.pools.is_empty()).copied().collect::<Vec<_>>() {
            match (held, self.ledger.ports.contains(port)) {
                (false, true) => self.pools.take(Value::Port(port)),
                (true, false) => self.give_back(Value::Port(port), owner, now),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pools::Kind;
    use crate::{Family, PortSharing};

    fn live() -> LiveLedger {
        let ports = PortLedger::without_ranges(PortSharing::WithinService);
        let mut live = LiveLedger::new(ClusterFamilies::single(Family::V4), ports);
        let cidr = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/24"]}});
        live.set_cidr(&serde_json::from_value(cidr).unwrap()).unwrap();
        let range = json!({"metadata": {"name": "a"}, "spec": {"firstPort": 30000, "lastPort": 30009}});
        assert!(live.set_port_range(&serde_json::from_value(range).unwrap()));
        live
    }

    #[test]
    fn pools_know_what_came_before_and_after_them() {
        let mut live = live();
        live.set_address("10.96.0.20", 0);
        let pool = json!({"metadata": {"name": "p"}, "spec": {
            "addresses": ["10.96.0.16/28"], "nodePorts": [{"firstPort": 30000, "lastPort": 30004}]}});
        assert_eq!(live.set_pool(&serde_json::from_value(pool).unwrap()), []);
        live.set_address("10.96.0.21", 0);
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "a", "name": "b"},
            "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]},
        }))
        .unwrap();
        live.set_service(None, Some(&service), 0);
        let used =
            |live: &LiveLedger, kind| live.pools.usage(&live.ledger).next().unwrap().total(kind).unwrap().0;
        assert_eq!((used(&live, Kind::V4), used(&live, Kind::Port)), (2, 1));
        live.set_service(Some(&service), None, 0);
        live.remove_address("10.96.0.20", || None, 0);
        assert_eq!((used(&live, Kind::V4), used(&live, Kind::Port)), (1, 0));
        let web = ServiceKey::new("shop", "web");
        let address = ["10.96.0.21".parse().unwrap()];
        live.move_addresses(&web, &[], &address, 0);
        live.remove_address("10.96.0.21", || None, 0);
        assert!(live.ledger.addresses.contains(address[0]), "its Service still has it");
        assert_eq!(live.services_with(address[0]).first(), Some(&web));
        live.move_addresses(&web, &address, &[], 0);
        assert_eq!(used(&live, Kind::V4), 0);
        live.remove_pool("p");
        assert!(live.pools.is_empty());
    }

    #[test]
    fn what_cools_down_survives_a_restart_in_the_status_of_its_pool() {
        let mut pool: crds::ServicePool = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
            "addresses": ["10.96.0.16/28"], "nodePorts": [{"firstPort": 30000, "lastPort": 30004}],
            "coolDownSeconds": 60}}))
        .unwrap();
        let mut before = live();
        before.set_pool(&pool);
        let (web, api) = (ServiceKey::new("shop", "web"), ServiceKey::new("shop", "api"));
        let [one, two]: [IpAddr; 2] = ["10.96.0.20".parse().unwrap(), "10.96.0.21".parse().unwrap()];
        before.move_addresses(&web, &[], &[one, two], 100);
        before.move_addresses(&web, &[one, two], &[], 100);
        let port: crds::NodePort = serde_json::from_value(json!({"metadata": {"name": "30002"}, "spec": {
            "protocols": ["TCP"], "parentRef": {"resource": "services", "namespace": "shop", "name": "api"}}}))
        .unwrap();
        before.set_port(&port, 100);
        before.remove_port("30002", 130);
        let cooling = before.pools.cooling_down("p", 130, 10);
        let said: Vec<&str> = cooling.iter().map(|cooling| cooling.value.as_str()).collect();
        assert_eq!(said, ["30002", "10.96.0.21", "10.96.0.20"], "the latest first");
        assert_eq!((cooling[0].service.as_str(), cooling[0].since), ("shop/api", 130));
        assert_eq!(before.pools.cooling_down("p", 160, 10).len(), 1, "the addresses have cooled down");
        assert_eq!(before.pools.cooling_down("p", 130, 2).len(), 2);

        // The next process reads the status, and what is taken in any order.
        pool.status = Some(crds::ServicePoolStatus { cooling_down: cooling, ..Default::default() });
        let mut after = live();
        after.set_address("10.96.0.21", 0);
        after.set_pool(&pool);
        let kept = |live: &LiveLedger, value: Value, key: &ServiceKey, now| {
            let mut rng = rand::rng();
            let id = live.pools.names().next().map(|(id, _)| id);
            let (share, service) = (crate::pools::Share::WHOLE, key.clone());
            let steered =
                crate::pools::Steered { pools: &live.pools, pool: id, service, share, now, rng: &mut rng };
            match value {
                Value::Address(address) => crate::plan::Source::admit_address(&steered, address).is_err(),
                Value::Port(port) => crate::plan::Source::admit_port(&steered, port).is_err(),
            }
        };
        assert!(kept(&after, Value::Address(one), &api, 140));
        assert!(!kept(&after, Value::Address(one), &web, 140), "its last owner may have it");
        assert!(!kept(&after, Value::Address(one), &api, 160));
        assert!(kept(&after, Value::Port(30002), &web, 140));
        assert_eq!(after.pools.cooling_down("p", 140, 10).len(), 2, "what is taken does not cool down");
        // What was given back since is not made older by a status of before.
        after.remove_address("10.96.0.21", || Some(api.clone()), 150);
        after.set_pool(&pool);
        assert_eq!(after.pools.cooling_down("p", 150, 1)[0].since, 150);
    }

    #[test]
    fn an_address_is_taken_until_the_last_of_its_services_goes() {
        let mut live = live();
        let address = ["10.96.0.21".parse().unwrap()];
        let keys = ["a", "b", "c"].map(|name| ServiceKey::new("shop", name));
        for key in &keys {
            live.move_addresses(key, &[], &address, 0);
        }
        assert_eq!(live.services_with(address[0]), keys);
        for (i, left) in [(0, &keys[1..]), (2, &keys[1..2]), (1, &[])] {
            assert!(live.ledger.addresses.contains(address[0]));
            live.move_addresses(&keys[i], &address, &[], 0);
            assert_eq!(live.services_with(address[0]), left);
        }
        assert!(!live.ledger.addresses.contains(address[0]));
    }

    #[test]
    fn a_range_without_ports_is_none() {
        let mut live = live();
        let absurd = json!({"metadata": {"name": "a"}, "spec": {"firstPort": 9, "lastPort": 1}});
        assert!(!live.set_port_range(&serde_json::from_value(absurd).unwrap()));
        assert_eq!(live.ledger.ports.available(), 0);
        live.remove_cidr("kubernetes");
        assert!(!live.ledger.addresses.has_ranges(Family::V4));
    }
}
