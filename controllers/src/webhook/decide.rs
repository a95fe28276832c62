//! What is said about one Service: pure.
//!
//! Owns the decision which of the planner's choices are passed on: those of a kind that a pool concerns. What the planner
//! refuses for any other reason than a pool is left to the API server, which says it better.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use rand::Rng;
use service_allocators::plan::Source;
use service_allocators::pools::{Kind, PoolId, PoolRefusal, Seconds, Share, Steered, Value};
use service_allocators::{
    AddressError, AddressLedger, Family, PlanOptions, PortError, PortLedger, ServiceKey,
};
use service_api::address::parse_lenient;
use service_api::service::{
    self, cluster_ips, needs_cluster_ip, needs_health_check, needs_node_port, ports, spec_of,
};

use super::review::{Operation, Services, Verdict};
use crate::ledger::Known;

/// One question.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) known: &'a Known,
    pub(super) services: &'a Services,
    pub(super) share: Share,
    pub(super) now: Seconds,
}

/// A [`Source`] that remembers why a pool gave nothing.
struct Recording<S> {
    inner: S,
    refusal: Option<PoolRefusal>,
}

impl<S: Source> Source for Recording<S> {
    fn choose_address(&mut self, ledger: &AddressLedger, family: Family) -> Result<IpAddr, AddressError> {
        let chosen = self.inner.choose_address(ledger, family);
        if let Err(AddressError::Pool(refusal)) = &chosen {
            self.refusal = Some(refusal.clone());
        }
        chosen
    }

    fn choose_port(&mut self, ledger: &PortLedger, except: &[u16]) -> Result<u16, PortError> {
        let chosen = self.inner.choose_port(ledger, except);
        if let Err(PortError::Pool(refusal)) = &chosen {
            self.refusal = Some(refusal.clone());
        }
        chosen
    }
}

impl Asked<'_> {
    /// Whether the values that the Service asks for are none that a pool forbids it.
    pub(super) fn validate(&self) -> Verdict {
        let mut rng = rand::rng();
        let Some((_, source)) = self.steered(&mut rng) else { return Verdict::LeaveAlone };
        let held = self.services.old.as_ref().map(values).unwrap_or_default();
        let asked = values(&self.services.new).into_iter().filter(|value| !held.contains(value));
        let refusal = asked.into_iter().find_map(|value| match value {
            Value::Address(address) => source.admit_address(address).err().map(|e| e.to_string()),
            Value::Port(port) => source.admit_port(port).err().map(|e| e.to_string()),
        });
        refusal.map_or(Verdict::LeaveAlone, Verdict::Refuse)
    }

    /// The values that the Service gets, and the answer that says so.
    pub(super) fn mutate(&self, rng: &mut impl Rng) -> (Verdict, Vec<Value>) {
        let nothing = (Verdict::LeaveAlone, Vec::new());
        if let Verdict::Refuse(why) = self.validate() {
            return (Verdict::Refuse(why), Vec::new());
        }
        let Some((pool, inner)) = self.steered(rng) else { return nothing };
        let key = inner.service.clone();
        let mut source = Recording { inner, refusal: None };
        let mut planned = self.services.new.clone();
        let ledger = &self.known.live.ledger;
        let plan = match &self.services.old {
            None => ledger.plan_create_from(&mut planned, &mut source, PlanOptions::default()),
            Some(old) => {
                service::prepare_update(&mut planned, old);
                ledger.plan_update_from(old, &mut planned, &mut source, PlanOptions::default())
            }
        };
        let Ok(plan) = plan else {
            let refusal = source.refusal.map(|refusal| refusal.to_string());
            return (refusal.map_or(Verdict::LeaveAlone, Verdict::Refuse), Vec::new());
        };
        let steers = |kind| self.known.live.pools.steers(pool, &key, kind);
        let mut operations = Vec::new();
        let mut chosen = Vec::new();
        let asked = spec_of(&self.services.new);
        let given = spec_of(&planned);
        if plan.take_addresses.iter().any(|a| steers(Kind::of(Family::of(*a))))
            && cluster_ips(asked) != cluster_ips(given)
        {
            operations.extend(addresses(given));
            chosen.extend(plan.take_addresses.iter().copied().map(Value::Address));
        }
        if steers(Kind::Port) {
            let (set, ports) = node_ports(asked, given);
            let is_new = |port: &u16| plan.take_ports.iter().any(|claim| claim.port == *port);
            chosen.extend(ports.into_iter().filter(is_new).map(Value::Port));
            operations.extend(set);
        }
        if operations.is_empty() { nothing } else { (Verdict::Set(operations), chosen) }
    }

    /// The choice for the Service; `None` when no pool concerns it.
    fn steered<'r, R>(&self, rng: &'r mut R) -> Option<(Option<PoolId>, Steered<'r, R>)>
    where
        Self: 'r,
    {
        let service = &self.services.new;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let key = ServiceKey::new(text(&service.metadata.namespace), text(&service.metadata.name));
        let pools = &self.known.live.pools;
        let pool = pools.find(service, self.known.labels(key.namespace()));
        if !Kind::ALL.into_iter().any(|kind| pools.steers(pool, &key, kind)) {
            return None;
        }
        let steered = Steered { pools, pool, service: key, share: self.share, now: self.now, rng };
        Some((pool, steered))
    }
}

/// All values that a Service names.
fn values(service: &Service) -> Vec<Value> {
    let spec = spec_of(service);
    let addresses = cluster_ips(spec).iter().filter(|_| needs_cluster_ip(spec));
    let single = spec.cluster_ip.iter().filter(|_| cluster_ips(spec).is_empty() && needs_cluster_ip(spec));
    let addresses = addresses.chain(single).filter_map(|text| parse_lenient(text)).map(Value::Address);
    let node_ports = ports(spec).iter().filter(|_| needs_node_port(spec)).filter_map(|port| port.node_port);
    let health = spec.health_check_node_port.filter(|_| needs_health_check(spec));
    let numbers = node_ports.chain(health).filter_map(|port| u16::try_from(port).ok());
    addresses.chain(numbers.filter(|port| *port != 0).map(Value::Port)).collect()
}

fn addresses(given: &ServiceSpec) -> [Operation; 2] {
    [
        Operation::set("/spec/clusterIP", given.cluster_ip.clone()),
        Operation::set("/spec/clusterIPs", cluster_ips(given)),
    ]
}

/// The ports that were left open and are chosen now, and how they are set.
fn node_ports(asked: &ServiceSpec, given: &ServiceSpec) -> (Vec<Operation>, Vec<u16>) {
    let mut operations = Vec::new();
    let mut chosen = Vec::new();
    let is_open = |number: Option<i32>| number.unwrap_or_default() == 0;
    let mut set = |path: String, before: Option<i32>, after: Option<i32>| {
        if let Some(number) = after.filter(|number| *number != 0 && is_open(before)) {
            operations.push(Operation::set(path, number));
            chosen.extend(u16::try_from(number));
        }
    };
    for (i, (before, after)) in ports(asked).iter().zip(ports(given)).enumerate() {
        set(format!("/spec/ports/{i}/nodePort"), before.node_port, after.node_port);
    }
    set("/spec/healthCheckNodePort".to_owned(), asked.health_check_node_port, given.health_check_node_port);
    (operations, chosen)
}
