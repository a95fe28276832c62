//! Pools beside plain models: nothing is given twice, nothing leaks, and without a pool the choice is upstream's.

mod histories;
mod rules;

use k8s_openapi::api::core::v1::Service;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::json;

use super::*;
use crate::families::ClusterFamilies;
use crate::ip::RangeState;
use crate::plan::{Plan, PlanOptions};
use crate::port::{NodePortRange, PortSharing};
use crate::{PlanError, prefix::Family};

/// A cluster of two ranges: 10.96.0.0/24 and 64 node ports from 30000 on.
fn ledger() -> Ledger {
    let ports = PortLedger::new(NodePortRange::new(30000, 30063).unwrap(), PortSharing::WithinService);
    let mut ledger = Ledger::new(ClusterFamilies::single(Family::V4), ports);
    let range = ["10.96.0.0/24".parse().unwrap()];
    ledger.addresses.set_range("kubernetes", &range, RangeState::Ready).unwrap();
    ledger
}

fn pool(name: &str, spec: serde_json::Value) -> ServicePool {
    ServicePool::new(name, serde_json::from_value(spec).unwrap())
}

#[allow(clippy::needless_pass_by_value)] // as `json!` gives it
fn service(name: &str, spec: serde_json::Value) -> Service {
    let mut service = json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"tier": "gold"}},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]},
    });
    for (key, value) in spec.as_object().cloned().unwrap_or_default() {
        service["spec"][key] = value;
    }
    serde_json::from_value(service).unwrap()
}

/// A small cluster: what is taken, and pools that follow it.
struct Cluster {
    ledger: Ledger,
    pools: Pools,
    now: Seconds,
    share: Share,
    rng: StdRng,
    /// Whether Services are looked at as members of a pool.
    members: bool,
}

impl Cluster {
    fn new(objects: &[ServicePool]) -> Self {
        Self {
            ledger: ledger(),
            pools: Pools::new(objects),
            now: 1000,
            share: Share::WHOLE,
            rng: StdRng::seed_from_u64(5),
            members: true,
        }
    }

    fn plan(&mut self, service: &mut Service) -> Result<Plan, PlanError> {
        let pool = if self.members { self.pools.find(service, &BTreeMap::new()) } else { None };
        let mut source = Steered {
            pools: &self.pools,
            pool,
            service: crate::spec::key(service),
            share: self.share,
            now: self.now,
            rng: &mut self.rng,
        };
        self.ledger.plan_create_from(service, &mut source, PlanOptions::default())
    }

    #[allow(clippy::needless_pass_by_value)] // as `json!` gives it
    fn create(&mut self, name: &str, spec: serde_json::Value) -> Result<Service, String> {
        let mut service = service(name, spec);
        let plan = self.plan(&mut service).map_err(|error| error.to_string())?;
        self.commit(&plan);
        Ok(service)
    }

    fn delete(&mut self, service: &Service) {
        let plan = self.ledger.plan_delete(service);
        self.commit(&plan);
    }

    fn commit(&mut self, plan: &Plan) {
        self.ledger.commit(plan);
        for address in &plan.release_addresses {
            self.pools.give_back(Value::Address(*address), Some(&plan.service), self.now);
        }
        for port in &plan.release_ports {
            self.pools.give_back(Value::Port(*port), Some(&plan.service), self.now);
        }
        for address in &plan.take_addresses {
            self.pools.take(Value::Address(*address));
        }
        for claim in &plan.take_ports {
            self.pools.take(Value::Port(claim.port));
        }
    }
}

fn ip(service: &Service) -> String {
    service.spec.as_ref().unwrap().cluster_ip.clone().unwrap()
}

fn port(service: &Service) -> i32 {
    service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port.unwrap()
}
