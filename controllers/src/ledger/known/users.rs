//! Who fills the pools, counted as Services change.
//!
//! Owns when all Services are gone through for it: once after the pools were cut anew, and only if somebody asks.

use service_allocators::ServiceKey;
use service_allocators::pools::{Kind, PoolUsers, Pools, Value};

use super::Known;
use crate::ledger::services::Facts;

/// The counts, while they are those of the pools that there are.
#[derive(Debug, Default)]
pub(super) struct Users {
    counted: Option<PoolUsers>,
    #[cfg(test)]
    recounts: usize,
}

/// The values that a Service has.
fn values(facts: &Facts) -> impl Iterator<Item = Value> + '_ {
    let addresses = facts.addresses().iter().map(|address| Value::Address(*address));
    addresses.chain(facts.ports().iter().map(|(port, _)| Value::Port(*port)))
}

impl Users {
    /// A Service that was `old` is `new`; either may be missing.
    pub(super) fn follow(
        &mut self,
        pools: &Pools,
        key: &ServiceKey,
        old: Option<&Facts>,
        new: Option<&Facts>,
    ) {
        let Some(users) = &mut self.counted else { return };
        if pools.is_empty() {
            return;
        }
        let parts = |facts: Option<&Facts>, each: &mut dyn FnMut(&str, Kind)| {
            for value in facts.into_iter().flat_map(values) {
                if let Some(pool) = pools.pool_of(value) {
                    each(pool, value.kind());
                }
            }
        };
        parts(old, &mut |pool, kind| users.remove(pool, kind, key.namespace()));
        parts(new, &mut |pool, kind| users.add(pool, kind, key.namespace()));
    }

    /// The pools are others.
    pub(super) fn forget(&mut self) {
        self.counted = None;
    }
}

impl Known {
    /// Counts who fills the pools, if that is not known.
    pub(crate) fn count_users(&mut self) {
        if self.users.counted.is_some() {
            return;
        }
        self.users.counted = Some(PoolUsers::default());
        #[cfg(test)]
        {
            self.users.recounts += 1;
        }
        for (key, facts) in &self.services {
            self.users.follow(&self.live.pools, key, None, Some(facts));
        }
    }

    /// The namespaces whose Services have most of a pool, of all kinds of values or of one, with how many, the largest first
    /// and at most `most` of them; nothing before [`Self::count_users`].
    pub(crate) fn largest_users(
        &self,
        pool: &str,
        kind: Option<Kind>,
        most: usize,
    ) -> impl Iterator<Item = (&str, u64)> {
        self.users.counted.iter().flat_map(move |users| users.largest(pool, kind, most))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};
    use serde_json::json;
    use service_allocators::PortSharing;

    use super::*;
    use crate::ledger::{Changes, Ledger};

    fn service(number: usize, namespace: usize, version: usize, ip: usize, port: usize) -> Service {
        let name = format!("s{number}");
        let object = json!({"metadata": {"name": name, "namespace": format!("n{namespace}"), "uid": name,
                "resourceVersion": version.to_string()},
            "spec": {"type": "NodePort", "clusterIP": format!("10.96.0.{ip}"), "clusterIPs": [format!("10.96.0.{ip}")],
                "ports": [{"port": 80, "nodePort": 30000 + port}]}});
        serde_json::from_value(object).unwrap()
    }

    fn set_pool(known: &mut Known, addresses: &[&str], used: i64) {
        let pool = json!({"metadata": {"name": "gold"},
            "spec": {"addresses": addresses, "nodePorts": [{"firstPort": 30000, "lastPort": 30009}]},
            "status": {"ipv4": {"lower": {"used": used, "free": 0}, "upper": {"used": 0, "free": 0}}}});
        known.set_pool(serde_json::from_value(pool).unwrap());
    }

    fn largest(known: &mut Known) -> Vec<(String, u64)> {
        known.count_users();
        known.largest_users("gold", None, 3).map(|(namespace, count)| (namespace.to_owned(), count)).collect()
    }

    /// Whatever happens to Services, counts are those that a walk through all of them gives, which is made once for the pools as
    /// they are.
    #[test]
    fn work_grows_with_what_changes_and_counts_are_right() {
        let mut rng = StdRng::seed_from_u64(7);
        let ledger = Ledger::new("30000-30099".parse().unwrap(), PortSharing::WithinService, |_: Changes| {});
        ledger.with(|known| {
            set_pool(known, &["10.96.0.16/28"], 0);
            for version in 1..500 {
                let (number, ip, port) =
                    (rng.random_range(0..40), rng.random_range(1..64), rng.random_range(0..40));
                if rng.random_range(0..4) == 0 {
                    let key = ServiceKey::new(format!("n{}", number % 5), format!("s{number}"));
                    known.remove_service(&key, 0);
                } else {
                    known.set_service(&service(number, number % 5, version, ip, port), 0);
                }
                let found = largest(known);
                let counted = known.users.counted.take();
                let recounts = known.users.recounts;
                assert_eq!(found, largest(known));
                assert_eq!(counted, known.users.counted, "after {version} changes");
                known.users.recounts = recounts;
                set_pool(known, &["10.96.0.16/28"], 7);
            }
            assert_eq!(known.users.recounts, 1, "nothing but the first look went through all Services");
            set_pool(known, &["10.96.0.32/28"], 0);
            largest(known);
            assert_eq!(known.users.recounts, 2, "the pool is another");
            known.remove_pool("gold");
            assert_eq!(largest(known), []);
        });
    }
}
