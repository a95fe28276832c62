//! The one task behind the Deployments and ReplicaSets: it follows changes and carries out what the plans say.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::claims::{self, Claim, Key, Loose};
use super::replicas;
use super::rollout::{self, COLLISIONS, REVISION};
use crate::events::{self, About};
use crate::local::{DEPLOYMENTS, GroupResource, Local, PODS, REPLICA_SETS};
use crate::registry::error::ApiError;
use crate::registry::object::{meta, parse};
use crate::store::{Event, EventType, Stored};

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
        let (pods, mut pod_watch) = local.list_and_watch(PODS)?;
        let mut seen = Seen::default();
        for (kind, objects) in [(DEPLOYMENTS, &deployments), (REPLICA_SETS, &sets), (PODS, &pods)] {
            for stored in objects {
                seen.see(kind, stored, true);
            }
        }
        loop {
            runner.settle(&mut seen);
            let followed = tokio::select! {
                () = &mut stop => return Ok(()),
                batch = deployment_watch.next_batch() => batch.map(|events| seen.follow(DEPLOYMENTS, &events)),
                batch = set_watch.next_batch() => batch.map(|events| seen.follow(REPLICA_SETS, &events)),
                batch = pod_watch.next_batch() => batch.map(|events| seen.follow(PODS, &events)),
            };
            // Too far behind: look at everything again.
            if followed.is_err() {
                break;
            }
        }
    }
}

/// What is to be looked at again, and what has no owner.
#[derive(Default)]
struct Seen {
    deployments: BTreeSet<Key>,
    sets: BTreeSet<Key>,
    loose_sets: Loose,
    loose_pods: Loose,
}

impl Seen {
    fn follow(&mut self, kind: GroupResource, events: &[Arc<Event>]) {
        for event in events {
            self.see(kind, &event.object, event.ty != EventType::Deleted);
        }
    }

    /// Takes an object in as it is now; not `there`: as it was last.
    fn see(&mut self, kind: GroupResource, stored: &Stored, there: bool) {
        let object = parse(&stored.body);
        let namespace = meta(&object, "namespace");
        let own: Key = (namespace.to_owned(), meta(&object, "name").to_owned());
        let now = there.then_some(&object);
        if kind == DEPLOYMENTS {
            self.loose_sets.see_owner(&own, now);
            self.deployments.insert(own);
            return;
        }
        if kind == REPLICA_SETS {
            self.loose_pods.see_owner(&own, now);
            self.deployments.extend(self.loose_sets.see(&own, now));
            self.sets.insert(own);
        } else {
            // A pod that ends or has ended is nobody's to take.
            let active = now.filter(|pod| replicas::is_active(pod));
            self.sets.extend(self.loose_pods.see(&own, active));
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

struct Runner<'a> {
    local: &'a Local,
}

impl Runner<'_> {
    fn settle(&self, seen: &mut Seen) {
        for (namespace, name) in std::mem::take(&mut seen.deployments) {
            if let Err(error) = self.deployment(&namespace, &name, &seen.loose_sets) {
                tracing::warn!(%namespace, deployment = %name, %error, "a Deployment could not be carried out");
            }
        }
        for (namespace, name) in std::mem::take(&mut seen.sets) {
            if let Err(error) = self.replica_set(&namespace, &name, &seen.loose_pods) {
                tracing::warn!(%namespace, replicaset = %name, %error, "a ReplicaSet could not be carried out");
            }
        }
    }

    fn deployment(&self, namespace: &str, name: &str, loose: &Loose) -> Result<(), ApiError> {
        let Some(deployment) = self.local.get(DEPLOYMENTS, namespace, name) else { return Ok(()) };
        let sets = self.claimed(REPLICA_SETS, &deployment, "Deployment", loose)?;
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let plan = rollout::plan(&deployment, &sets, &now);
        if let Some((revision, set)) = &plan.revision {
            self.note_revision(DEPLOYMENTS, namespace, name, *revision)?;
            if let Some(set) = set {
                self.note_revision(REPLICA_SETS, namespace, set, *revision)?;
            }
        }
        if let Some(set) = &plan.create {
            self.make_set(&deployment, set)?;
        }
        for (set, size) in &plan.resize {
            let mut before = 0;
            found(self.local.update(REPLICA_SETS, (namespace, set), |object| {
                before = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
                object["spec"]["replicas"] = json!(size);
            }))?;
            self.tell_scaled(&deployment, set, before, *size);
        }
        for set in &plan.delete {
            found(self.local.delete(REPLICA_SETS, (namespace, set), None, None))?;
        }
        self.report(DEPLOYMENTS, &deployment, &plan.status)
    }

    /// Makes a ReplicaSet. A name that something else has is counted, so that another one is tried next.
    fn make_set(&self, deployment: &Value, set: &Value) -> Result<(), ApiError> {
        let (namespace, name) = (meta(deployment, "namespace"), meta(set, "name"));
        match self.local.create(REPLICA_SETS, namespace, set) {
            Err(error) if error.code() == 409 => {
                let holder = self.local.get(REPLICA_SETS, namespace, name);
                if holder.as_ref().and_then(claims::controller) == Some(meta(deployment, "uid")) {
                    return Ok(());
                }
                found(self.local.update_status(
                    DEPLOYMENTS,
                    (namespace, meta(deployment, "name")),
                    |object| {
                        let count = object.pointer(COLLISIONS).and_then(Value::as_i64).unwrap_or_default();
                        object["status"]["collisionCount"] = json!(count + 1);
                    },
                ))
            }
            Err(error) => Err(error),
            Ok(_) => {
                let size = set.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
                self.tell_scaled(deployment, name, 0, size);
                Ok(())
            }
        }
    }

    fn tell_scaled(&self, deployment: &Value, set: &str, from: i64, to: i64) {
        let about = About { object: deployment, component: "deployment-controller", host: "" };
        let way = if to > from { "up" } else { "down" };
        let text = format!("Scaled {way} replica set {set} from {from} to {to}");
        events::tell(self.local, &about, ("Normal", "ScalingReplicaSet"), &text, None);
    }

    fn note_revision(
        &self,
        kind: GroupResource,
        namespace: &str,
        name: &str,
        revision: i64,
    ) -> Result<(), ApiError> {
        found(self.local.update(kind, (namespace, name), |object| {
            object["metadata"]["annotations"][REVISION] = json!(revision.to_string());
        }))
    }

    fn replica_set(&self, namespace: &str, name: &str, loose: &Loose) -> Result<(), ApiError> {
        let Some(set) = self.local.get(REPLICA_SETS, namespace, name) else { return Ok(()) };
        let pods = self.claimed(PODS, &set, "ReplicaSet", loose)?;
        let near = if replicas::is_too_large(&set, &pods) { self.pods_beside(&set) } else { Vec::new() };
        let plan = replicas::plan(&set, &pods, &near);
        let about = About { object: &set, component: "replicaset-controller", host: "" };
        for _ in 0..plan.create {
            let pod = self.local.create(PODS, namespace, &replicas::pod(&set))?;
            let text = format!("Created pod: {}", meta(&pod, "name"));
            events::tell(self.local, &about, ("Normal", "SuccessfulCreate"), &text, None);
        }
        for pod in &plan.delete {
            found(self.local.delete(PODS, (namespace, pod), None, None))?;
            let text = format!("Deleted pod: {pod}");
            events::tell(self.local, &about, ("Normal", "SuccessfulDelete"), &text, None);
        }
        self.report(REPLICA_SETS, &set, &plan.status)
    }

    /// The pods of the other ReplicaSets of the same Deployment.
    fn pods_beside(&self, set: &Value) -> Vec<Value> {
        let Some(deployment) = claims::controller(set) else { return Vec::new() };
        let sets = self.local.owned(REPLICA_SETS, deployment);
        let others = sets.iter().map(|other| meta(other, "uid")).filter(|uid| *uid != meta(set, "uid"));
        others.flat_map(|uid| self.local.owned(PODS, uid)).collect()
    }

    fn report(&self, kind: GroupResource, object: &Value, status: &Value) -> Result<(), ApiError> {
        if object.get("status") == Some(status) {
            return Ok(());
        }
        let place = (meta(object, "namespace"), meta(object, "name"));
        found(self.local.update_status(kind, place, |object| object["status"] = status.clone()))
    }

    /// What is the owner's, after it took what nobody has and let go what its selector no longer chooses.
    fn claimed(
        &self,
        kind: GroupResource,
        owner: &Value,
        owner_kind: &str,
        loose: &Loose,
    ) -> Result<Vec<Value>, ApiError> {
        let (namespace, uid) = (meta(owner, "namespace"), meta(owner, "uid"));
        let mut found_objects: BTreeMap<String, Value> = BTreeMap::new();
        let named = loose.chosen_by(owner);
        let near = named.iter().filter_map(|name| self.local.get(kind, namespace, name));
        for object in self.local.owned(kind, uid).into_iter().chain(near) {
            found_objects.insert(meta(&object, "name").to_owned(), object);
        }
        let mut own = Vec::new();
        for (name, object) in found_objects {
            let place = (namespace, name.as_str());
            let active = kind != PODS || replicas::is_active(&object);
            match claims::claim(owner, &object) {
                Claim::Keep => own.push(object),
                Claim::Leave => {}
                // Upstream's controllers do not look at pods that have ended.
                Claim::Take | Claim::Release if !active => {}
                Claim::Take => own.extend(self.take(kind, place, owner, owner_kind)?),
                Claim::Release => found(self.local.update(kind, place, |object| {
                    if claims::claim(owner, object) == Claim::Release {
                        claims::remove_owner(object, uid);
                    }
                }))?,
            }
        }
        Ok(own)
    }

    /// Makes the owner the object's controller, unless it is gone or somebody else's meanwhile.
    fn take(
        &self,
        kind: GroupResource,
        place: (&str, &str),
        owner: &Value,
        owner_kind: &str,
    ) -> Result<Option<Value>, ApiError> {
        let taken = self.local.update(kind, place, |object| {
            if claims::claim(owner, object) == Claim::Take {
                claims::add_owner(object, replicas::owner(owner, owner_kind));
            }
        });
        match taken {
            Ok(object) => Ok((claims::claim(owner, &object) == Claim::Keep).then_some(object)),
            Err(error) if error.code() == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What is gone meanwhile needs nothing any more.
fn found<T>(done: Result<T, ApiError>) -> Result<(), ApiError> {
    match done {
        Err(error) if error.code() == 404 => Ok(()),
        done => done.map(|_| ()),
    }
}
