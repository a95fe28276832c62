//! A lab without HTTP for the tests of this crate: a store, the table of kinds, and creates and deletes that take the
//! steps of the real verbs.

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};
use service_allocators::{ClusterFamilies, Family, NodePortRange, PortLedger, PortSharing};

use super::error::ApiError;
use super::strategy::{Context, Findings, Subresource};
use super::{LabIndex, Registry, kinds};
use crate::bootstrap;
use crate::store::{Store, StoreOptions};

pub(crate) struct Lab {
    pub(crate) registry: Registry,
    pub(crate) store: Store<LabIndex>,
}

/// A lab in which nothing exists.
pub(crate) fn empty(ranges: &[&str]) -> Lab {
    let registry = Registry::new(kinds::entries());
    let ranges: Vec<IpNet> = ranges.iter().map(|range| range.parse().unwrap()).collect();
    let primary = if ranges[0].addr().is_ipv4() { Family::V4 } else { Family::V6 };
    let families =
        if ranges.len() == 2 { ClusterFamilies::dual(primary) } else { ClusterFamilies::single(primary) };
    let index =
        LabIndex::new(&registry, families, PortLedger::new(NodePortRange::default(), PortSharing::default()));
    let names = registry.entries().iter().map(|info| format!("{}/{}", info.group, info.resource));
    let store = Store::open(&StoreOptions::in_memory(names), index).unwrap();
    Lab { registry, store }
}

/// A lab with the cluster's own objects.
pub(crate) fn lab(ranges: &[&str]) -> Lab {
    let lab = empty(ranges);
    let settings = bootstrap::Settings {
        service_cidrs: ranges.iter().map(|range| range.parse().unwrap()).collect(),
        origin: bootstrap::RangeOrigin::Flag,
        node_ports: NodePortRange::default(),
        advertise: "192.168.10.10:6443".parse().unwrap(),
    };
    bootstrap::run(&lab.store, &lab.registry, &settings, Timestamp::UNIX_EPOCH).unwrap();
    lab
}

impl Lab {
    fn context(&self, dry_run: bool) -> Context<'_> {
        Context { registry: &self.registry, now: Timestamp::UNIX_EPOCH, dry_run }
    }

    // The method alone is not general enough over the view's lifetime.
    #[allow(clippy::redundant_closure_for_method_calls)]
    pub(crate) fn revision(&self) -> u64 {
        self.store.read(|view| view.revision())
    }

    pub(crate) fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let id = self.registry.id(group, resource).unwrap();
        self.store
            .read(|view| view.get(id, namespace, name).map(|s| serde_json::from_slice(&s.body).unwrap()))
    }

    pub(crate) fn names(&self, group: &str, resource: &str) -> Vec<String> {
        let id = self.registry.id(group, resource).unwrap();
        self.store.read(|view| view.list(id, None, None).map(|s| s.name.to_string()).collect())
    }

    pub(crate) fn create(&self, group: &str, resource: &str, object: Value) -> Result<Value, ApiError> {
        self.create_as(group, resource, object, false)
    }

    pub(crate) fn dry_run(&self, group: &str, resource: &str, object: Value) -> Result<Value, ApiError> {
        self.create_as(group, resource, object, true)
    }

    fn create_as(
        &self,
        group: &str,
        resource: &str,
        mut object: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        let id = self.registry.id(group, resource).unwrap();
        let info = self.registry.info(id);
        let rules = &info.strategy;
        object["apiVersion"] = json!(info.api_version());
        object["kind"] = json!(info.kind);
        object["metadata"]["uid"] = json!(uuid::Uuid::new_v4().to_string());
        object["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
        rules.default(&mut object);
        let ctx = self.context(dry_run);
        let work = |tx: &mut super::Tx<'_>| {
            let Findings { faults, .. } = rules.allocate_create(&mut object, Subresource::None, tx, &ctx)?;
            rules.begin_create(&mut object, tx, &ctx)?;
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            if !faults.is_empty() {
                return Err(ApiError::invalid(info, &name, faults));
            }
            if tx.get(id, &namespace, &name).is_some() {
                return Err(ApiError::already_exists(info, &name));
            }
            Ok(serde_json::from_slice(&tx.put(id, object.clone())?.body).unwrap())
        };
        if dry_run { self.store.dry_run(work) } else { self.store.write(work).map_err(ApiError::from) }
    }

    pub(crate) fn update(
        &self,
        (group, resource, namespace, name): (&str, &str, &str, &str),
        sub: Subresource,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, ApiError> {
        let id = self.registry.id(group, resource).unwrap();
        let info = self.registry.info(id);
        let rules = &info.strategy;
        let old = self.get(group, resource, namespace, name).unwrap();
        let mut new = old.clone();
        change(&mut new);
        rules.default(&mut new);
        let ctx = self.context(false);
        let stored = self.store.write(|tx| {
            let Findings { faults, .. } = rules.allocate_update(&mut new, &old, sub, tx, &ctx)?;
            if faults.is_empty() { Ok(tx.put(id, new)?) } else { Err(ApiError::invalid(info, name, faults)) }
        });
        Ok(serde_json::from_slice(&stored.map_err(ApiError::from)?.body).unwrap())
    }

    /// Stores an object as an older server may have: past all rules.
    pub(crate) fn put_unchecked(&self, group: &str, resource: &str, object: &Value) {
        let id = self.registry.id(group, resource).unwrap();
        let info = self.registry.info(id);
        let mut object = object.clone();
        object["apiVersion"] = json!(info.api_version());
        object["kind"] = json!(info.kind);
        let done: Result<(), crate::store::WriteError<ApiError>> =
            self.store.write(|tx| Ok(tx.put(id, object).map(|_| ())?));
        done.unwrap();
    }

    /// Removes an object past all rules.
    pub(crate) fn remove_unchecked(&self, group: &str, resource: &str, namespace: &str, name: &str) {
        let id = self.registry.id(group, resource).unwrap();
        let last = self.get(group, resource, namespace, name).unwrap();
        let done: Result<(), crate::store::WriteError<ApiError>> =
            self.store.write(|tx| Ok(tx.delete(id, namespace, name, last).map(|_| ())?));
        done.unwrap();
    }

    pub(crate) fn delete(&self, (group, resource, namespace, name): (&str, &str, &str, &str)) {
        let id = self.registry.id(group, resource).unwrap();
        let old = self.get(group, resource, namespace, name).unwrap();
        let ctx = self.context(false);
        let done: Result<(), _> = self.store.write(|tx| {
            let rules = &self.registry.info(id).strategy;
            rules.after_delete(&old, tx, &ctx)?;
            tx.delete(id, namespace, name, old.clone())?;
            rules.restore(&old, tx, &ctx)
        });
        done.map_err(ApiError::from).unwrap();
    }
}

/// What an index that is told of the lab's objects afresh says.
pub(crate) fn reload(lab: &Lab, ranges: &[&str]) -> super::ledger_index::Usage {
    let copy = empty(ranges);
    let objects: Vec<_> = lab.store.read(|view| {
        let ids = (0..).zip(lab.registry.entries()).map(|(at, _)| crate::store::ResourceId(at));
        ids.flat_map(|id| {
            view.list(id, None, None).map(move |stored| (id, stored.body.clone())).collect::<Vec<_>>()
        })
        .collect()
    });
    let written: Result<(), crate::store::WriteError<crate::store::ObjectError>> = copy.store.write(|tx| {
        for (id, body) in &objects {
            tx.put(*id, serde_json::from_slice(body).unwrap())?;
        }
        Ok(())
    });
    written.unwrap();
    copy.store.read(|view| view.index().services.usage())
}

impl Lab {
    /// The verbs of this lab.
    pub(crate) fn into_api(self) -> super::verbs::Api {
        super::verbs::Api { registry: self.registry, store: self.store }
    }
}
