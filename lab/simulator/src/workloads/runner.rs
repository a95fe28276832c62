//! The one task behind the Deployments and ReplicaSets: it follows changes and carries out what the plans say.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::replicas::{self, is_owned_by};
use super::rollout::{self, REVISION};
use crate::events::{self, About};
use crate::local::{DEPLOYMENTS, Kind, Local, PODS, REPLICA_SETS};
use crate::registry::LabIndex;
use crate::registry::error::ApiError;
use crate::registry::object::{meta, parse};
use crate::store::{Gone, Stored, Watch};

/// Namespace and name of an object.
type Key = (String, String);

/// Runs the stand-in until `stop` comes about.
///
/// # Errors
/// When the lab does not serve the kinds it needs.
pub async fn run(local: &Local, stop: impl Future<Output = ()>) -> Result<(), ApiError> {
    let mut stop = pin!(stop);
    let runner = Runner { local };
    loop {
        let (deployments, mut deployment_watch) = local.list_and_watch(DEPLOYMENTS)?;
        let (sets, mut set_watch) = local.list_and_watch(REPLICA_SETS)?;
        let (_, mut pod_watch) = local.list_and_watch(PODS)?;
        let mut dirty = Dirty::default();
        dirty.deployments.extend(deployments.iter().map(|deployment| key(deployment)));
        dirty.sets.extend(sets.iter().map(|set| key(set)));
        loop {
            runner.settle(&mut dirty);
            let seen = tokio::select! {
                () = &mut stop => return Ok(()),
                seen = objects(&mut deployment_watch) => seen.map(|objects| dirty.see(DEPLOYMENTS, &objects)),
                seen = objects(&mut set_watch) => seen.map(|objects| dirty.see(REPLICA_SETS, &objects)),
                seen = objects(&mut pod_watch) => seen.map(|objects| dirty.see(PODS, &objects)),
            };
            // Too far behind: look at everything again.
            if seen.is_err() {
                break;
            }
        }
    }
}

async fn objects(watch: &mut Watch<LabIndex>) -> Result<Vec<Value>, Gone> {
    let batch = watch.next_batch().await?;
    Ok(batch.iter().map(|event| parse(&event.object.body)).collect())
}

fn key(stored: &Stored) -> Key {
    (stored.namespace.to_string(), stored.name.to_string())
}

/// What is to be looked at again.
#[derive(Default)]
struct Dirty {
    deployments: BTreeSet<Key>,
    sets: BTreeSet<Key>,
}

impl Dirty {
    fn see(&mut self, kind: Kind, objects: &[Value]) {
        for object in objects {
            let namespace = meta(object, "namespace");
            let own = (namespace.to_owned(), meta(object, "name").to_owned());
            if kind == DEPLOYMENTS {
                self.deployments.insert(own);
                continue;
            }
            if kind == REPLICA_SETS {
                self.sets.insert(own);
            }
            let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            for reference in references.into_iter().flatten() {
                let name = reference["name"].as_str().unwrap_or_default();
                let owner = (namespace.to_owned(), name.to_owned());
                match reference["kind"].as_str() {
                    Some("ReplicaSet") => self.sets.insert(owner),
                    Some("Deployment") => self.deployments.insert(owner),
                    _ => false,
                };
            }
        }
    }
}

struct Runner<'a> {
    local: &'a Local,
}

impl Runner<'_> {
    fn settle(&self, dirty: &mut Dirty) {
        for (namespace, name) in std::mem::take(&mut dirty.deployments) {
            if let Err(error) = self.deployment(&namespace, &name) {
                tracing::warn!(%namespace, deployment = %name, %error, "a Deployment could not be carried out");
            }
        }
        for (namespace, name) in std::mem::take(&mut dirty.sets) {
            if let Err(error) = self.replica_set(&namespace, &name) {
                tracing::warn!(%namespace, replicaset = %name, %error, "a ReplicaSet could not be carried out");
            }
        }
    }

    fn deployment(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let Some(deployment) = self.local.get(DEPLOYMENTS, namespace, name) else { return Ok(()) };
        let sets = self.owned(REPLICA_SETS, meta(&deployment, "uid"));
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let plan = rollout::plan(&deployment, &sets, &now);
        let about = About { object: &deployment, component: "deployment-controller", host: "" };
        let scaled = |set: &str, from: i64, to: i64| {
            let way = if to > from { "up" } else { "down" };
            let text = format!("Scaled {way} replica set {set} from {from} to {to}");
            events::tell(self.local, &about, ("Normal", "ScalingReplicaSet"), &text, None);
        };
        if let Some((revision, set)) = &plan.revision {
            self.note_revision(DEPLOYMENTS, namespace, name, *revision)?;
            if let Some(set) = set {
                self.note_revision(REPLICA_SETS, namespace, set, *revision)?;
            }
        }
        if let Some(set) = &plan.create {
            match self.local.create(REPLICA_SETS, namespace, set) {
                Err(error) if error.code() != 409 => return Err(error),
                _ => scaled(
                    meta(set, "name"),
                    0,
                    set.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default(),
                ),
            }
        }
        for (set, size) in &plan.resize {
            let mut before = 0;
            found(self.local.update(REPLICA_SETS, (namespace, set), |object| {
                before = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
                object["spec"]["replicas"] = json!(size);
            }))?;
            scaled(set, before, *size);
        }
        for set in &plan.delete {
            found(self.local.delete(REPLICA_SETS, (namespace, set), None, None))?;
        }
        self.report(DEPLOYMENTS, &deployment, &plan.status)
    }

    fn note_revision(&self, kind: Kind, namespace: &str, name: &str, revision: i64) -> Result<(), ApiError> {
        found(self.local.update(kind, (namespace, name), |object| {
            object["metadata"]["annotations"][REVISION] = json!(revision.to_string());
        }))
    }

    fn replica_set(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let Some(set) = self.local.get(REPLICA_SETS, namespace, name) else { return Ok(()) };
        let pods = self.owned(PODS, meta(&set, "uid"));
        let plan = replicas::plan(&set, &pods);
        let about = About { object: &set, component: "replicaset-controller", host: "" };
        for _ in 0..plan.create {
            let pod = self.local.create(PODS, namespace, &replicas::pod(&set))?;
            let text = format!("Created pod: {}", meta(&pod, "name"));
            events::tell(self.local, &about, ("Normal", "SuccessfulCreate"), &text, None);
        }
        for pod in &plan.delete {
            found(self.local.delete(PODS, (namespace, pod), None, None))?;
            events::tell(
                self.local,
                &about,
                ("Normal", "SuccessfulDelete"),
                &format!("Deleted pod: {pod}"),
                None,
            );
        }
        self.report(REPLICA_SETS, &set, &plan.status)
    }

    fn report(&self, kind: Kind, object: &Value, status: &Value) -> Result<(), ApiError> {
        if object.get("status") == Some(status) {
            return Ok(());
        }
        let place = (meta(object, "namespace"), meta(object, "name"));
        found(self.local.update_status(kind, place, |object| object["status"] = status.clone()))
    }

    fn owned(&self, kind: Kind, uid: &str) -> Vec<Value> {
        let all = self.local.owned(kind, uid);
        all.into_iter().filter(|object| is_owned_by(object, uid)).collect()
    }
}

/// What is gone meanwhile needs nothing any more.
fn found<T>(done: Result<T, ApiError>) -> Result<(), ApiError> {
    match done {
        Err(error) if error.code() == 404 => Ok(()),
        done => done.map(|_| ()),
    }
}
