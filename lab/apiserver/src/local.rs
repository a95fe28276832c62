//! Requests from inside the process: the verbs of the API without HTTP, for the simulated nodes, the workloads and the
//! demo.
//!
//! Every request takes the same steps as one that came over the network, validation and managed fields included; only
//! the wire is left out. It never writes to the store beside the verbs.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::decode;
use crate::registry::error::ApiError;
use crate::registry::object;
use crate::registry::options::{DeleteOptions, Preconditions, Propagation, WriteOptions};
use crate::registry::resource_info::ResourceInfo;
use crate::registry::verbs::{self, Answer, Api, Computed, Rules, WriteOutcome};
use crate::registry::{LabIndex, Target};
use crate::store::{ResourceId, Stored, Watch};

/// A client of the lab inside its process, under one name.
#[derive(Clone)]
pub struct Local {
    api: Arc<Api>,
    manager: &'static str,
}

/// Group and plural of a kind.
pub type GroupResource = (&'static str, &'static str);

/// Pods.
pub const PODS: GroupResource = ("", "pods");
/// Nodes.
pub const NODES: GroupResource = ("", "nodes");
/// Namespaces.
pub const NAMESPACES: GroupResource = ("", "namespaces");
/// ServiceAccounts.
pub const SERVICE_ACCOUNTS: GroupResource = ("", "serviceaccounts");
/// ConfigMaps.
pub const CONFIG_MAPS: GroupResource = ("", "configmaps");
/// Events, in their stored form.
pub const EVENTS: GroupResource = ("", "events");
/// Deployments.
pub const DEPLOYMENTS: GroupResource = ("apps", "deployments");
/// ReplicaSets.
pub const REPLICA_SETS: GroupResource = ("apps", "replicasets");

impl Local {
    /// A client whose writes are noted under `manager`.
    pub fn new(api: Arc<Api>, manager: &'static str) -> Self {
        Self { api, manager }
    }

    /// What it talks to.
    pub fn api(&self) -> &Api {
        &self.api
    }

    fn target(&self, kind: GroupResource, namespace: &str, name: &str) -> Result<Target, ApiError> {
        let id = self.id(kind)?;
        Ok(Target::object(id, namespace, name))
    }

    fn id(&self, (group, resource): GroupResource) -> Result<ResourceId, ApiError> {
        self.api
            .registry
            .id(group, resource)
            .ok_or_else(|| ApiError::internal(&format!("the lab does not serve {resource}.{group}")))
    }

    fn options(&self) -> WriteOptions {
        WriteOptions { manager: self.manager.to_owned(), ..WriteOptions::default() }
    }

    /// The object, if there is one.
    pub fn get(&self, kind: GroupResource, namespace: &str, name: &str) -> Option<Value> {
        let target = self.target(kind, namespace, name).ok()?;
        let stored = self.api.store.read(|view| view.get(target.id, namespace, name).cloned())?;
        Some(object::parse(&stored.body))
    }

    /// The objects of one namespace, or of all.
    pub fn list(&self, kind: GroupResource, namespace: Option<&str>) -> Vec<Value> {
        let Ok(id) = self.id(kind) else { return Vec::new() };
        let stored: Vec<Arc<Stored>> =
            self.api.store.read(|view| view.list(id, namespace, None).cloned().collect());
        stored.iter().map(|stored| object::parse(&stored.body)).collect()
    }

    /// The objects of a kind that name `uid` as an owner. Costs no look at the others.
    pub fn owned(&self, kind: GroupResource, uid: &str) -> Vec<Value> {
        let Ok(id) = self.id(kind) else { return Vec::new() };
        let stored: Vec<Arc<Stored>> = self.api.store.read(|view| {
            let keys = view.index().owners.dependents(uid).filter(|key| key.resource == id);
            keys.filter_map(|key| view.get(id, &key.namespace, &key.name).cloned()).collect()
        });
        stored.iter().map(|stored| object::parse(&stored.body)).collect()
    }

    /// All objects, and a watch of what happens after.
    ///
    /// # Errors
    /// When the lab does not serve the kind.
    pub fn list_and_watch(
        &self,
        kind: GroupResource,
    ) -> Result<(Vec<Arc<Stored>>, Watch<LabIndex>), ApiError> {
        let (objects, _, watch) = self.api.store.list_and_watch(self.id(kind)?, None);
        Ok((objects, watch))
    }

    /// Creates an object; `apiVersion` and `kind` may be left out.
    ///
    /// # Errors
    /// As the API refuses a POST.
    pub fn create(&self, kind: GroupResource, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let target = self.target(kind, namespace, "")?;
        let object = self.complete(&target, object)?;
        value(verbs::create(&self.api, &target, object, &self.options(), Timestamp::now())?)
    }

    /// Changes an object in one transaction; nothing is written when nothing changes.
    ///
    /// # Errors
    /// As the API refuses a PUT; 404 when there is none.
    pub fn update(
        &self,
        kind: GroupResource,
        (namespace, name): (&str, &str),
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, ApiError> {
        let target = self.target(kind, namespace, name)?;
        self.change(&target, change)
    }

    /// Changes the status of an object in one transaction.
    ///
    /// # Errors
    /// As the API refuses a PUT of the subresource.
    pub fn update_status(
        &self,
        kind: GroupResource,
        (namespace, name): (&str, &str),
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, ApiError> {
        let mut target = self.target(kind, namespace, name)?;
        target.sub = self.info(&target).subresource("status");
        self.change(&target, change)
    }

    fn change(&self, target: &Target, change: impl FnOnce(&mut Value)) -> Result<Value, ApiError> {
        let rules = Rules::default();
        let compute = |old: Option<&Value>| {
            let mut new = old.cloned().unwrap_or_default();
            change(&mut new);
            Ok(Computed { object: self.complete(target, &new)?, warnings: Vec::new(), tracked: false })
        };
        value(verbs::change(&self.api, target, &self.options(), Timestamp::now(), rules, compute)?)
    }

    /// Binds a pod to a node.
    ///
    /// # Errors
    /// When it is bound or being deleted.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<(), ApiError> {
        let target = self.target(PODS, namespace, pod)?;
        let binding = serde_json::json!({
            "metadata": {"name": pod, "namespace": namespace}, "target": {"kind": "Node", "name": node},
        });
        verbs::bind(&self.api, &target, &binding, &self.options(), Timestamp::now())?;
        Ok(())
    }

    /// Deletes an object. `grace`: seconds it may live on; `uid`: only this one, not its successor of the same name.
    ///
    /// # Errors
    /// 404 when there is none, 409 when it is another one.
    pub fn delete(
        &self,
        kind: GroupResource,
        (namespace, name): (&str, &str),
        grace: Option<i64>,
        uid: Option<&str>,
    ) -> Result<(), ApiError> {
        let target = self.target(kind, namespace, name)?;
        let options = DeleteOptions {
            grace_seconds: grace,
            preconditions: Preconditions { uid: uid.map(str::to_owned), resource_version: None },
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        verbs::delete(&self.api, &target, &options, Timestamp::now())?;
        Ok(())
    }

    fn info(&self, target: &Target) -> &ResourceInfo {
        self.api.info(target)
    }

    /// The object in its printed form, with the defaults of its kind.
    fn complete(&self, target: &Target, object: &Value) -> Result<Value, ApiError> {
        let schema = self.api.registry.schema(target.id);
        let mut object = decode::normalise(schema, object).map_err(ApiError::bad_request)?;
        self.info(target).strategy.default(&mut object);
        Ok(object)
    }
}

fn value(outcome: WriteOutcome) -> Result<Value, ApiError> {
    match outcome.answer {
        Answer::Stored(stored) => Ok(object::parse(&stored.body)),
        Answer::Value(value) => Ok(value),
        Answer::Status(status) => {
            serde_json::to_value(status).map_err(|error| ApiError::internal(&error.to_string()))
        }
    }
}
