//! Garbage collection by `metadata.ownerReferences`: upstream's `garbage-collector-controller`.
//!
//! Owns what becomes of dependents when their owner goes: they are deleted after it (background), before it
//! (foreground) or let go (orphan). It reads the store's owner index and acts through the ordinary verbs, so that each of
//! its writes is checked and watched like a client's. It never looks at an object that nobody owns or that owns nobody.
//!
//! ```text
//! event of any kind -> Task (an owner is gone | an object waits for its dependents | an object has owners) -> verbs
//! ```

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::follow::{Batches, follow};
use crate::registry::Target;
use crate::registry::error::ApiError;
use crate::registry::object::{self, is_deleting, meta, meta_list};
use crate::registry::options::{DeleteOptions, Preconditions, Propagation, WriteOptions};
use crate::registry::owner_index::ObjectKey;
use crate::registry::verbs::{self, Api, Computed, FOREGROUND, ORPHAN, Rules};
use crate::store::{Event, EventType, ResourceId, Stored};

/// How often everything that has an owner is looked at again, whatever the events said.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// The User-Agent of upstream's collector, as field manager of its writes.
const MANAGER: &str = "kube-controller-manager";

/// Collects until `closing`.
pub async fn run(api: Arc<Api>, closing: CancellationToken) {
    let collector = Collector { api };
    let mut events = collector.events();
    let mut sweep = tokio::time::interval(SWEEP_EVERY);
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            Some(batch) = events.next() => collector.take(&batch),
            _ = sweep.tick() => collector.sweep(),
        }
    }
}

struct Collector {
    api: Arc<Api>,
}

impl Collector {
    /// Events of all kinds; the next sweep finds what a kind that fell behind missed.
    fn events(&self) -> Batches {
        follow(&self.api, self.api.registry.ids().map(|(id, _)| id))
    }

    fn take(&self, batch: &[Arc<Event>]) {
        for event in batch {
            let place = Place::of(event);
            if event.ty == EventType::Deleted {
                self.owner_gone(event);
            } else if has_owners(&event.object) && !event.previous.as_deref().is_some_and(has_owners) {
                self.check_owners(&place);
            }
            if event.ty != EventType::Deleted && contains(&event.object.body, b"\"deletionTimestamp\"") {
                self.finish(&place);
            }
        }
    }

    /// Looks at everything that has an owner or waits for its dependents.
    fn sweep(&self) {
        let owned: BTreeSet<ObjectKey> = self.api.store.read(|view| {
            view.index().owners.owner_uids().flat_map(|(_, keys)| keys.iter().cloned()).collect()
        });
        for key in &owned {
            self.check_owners(&Place::from(key));
        }
        let waiting: Vec<Place> = self.api.store.read(|view| {
            let ids = self.api.registry.ids().map(|(id, _)| id);
            ids.flat_map(|id| view.list(id, None, None).map(move |stored| (id, stored)).collect::<Vec<_>>())
                .filter(|(_, stored)| contains(&stored.body, b"\"deletionTimestamp\""))
                .map(|(id, stored)| Place::new(id, &stored.namespace, &stored.name))
                .collect()
        });
        for place in &waiting {
            self.finish(place);
        }
    }

    /// An object is gone: its dependents are looked at, and owners that wait for it.
    fn owner_gone(&self, event: &Event) {
        let has_uid = |uid: &str| self.api.store.read(|view| view.index().owners.has_dependents(uid));
        let owned = has_owners(&event.object);
        let body = object::parse(&event.object.body);
        let uid = meta(&body, "uid");
        if has_uid(uid) {
            for key in self.dependents(uid) {
                self.check_owners(&Place::from(&key));
            }
        }
        if owned {
            for owner in owners_of(&body) {
                if let Some(place) = self.place_of_owner(&owner, meta(&body, "namespace")) {
                    self.finish(&place);
                }
            }
        }
    }

    fn dependents(&self, uid: &str) -> Vec<ObjectKey> {
        self.api.store.read(|view| view.index().owners.dependents(uid).cloned().collect())
    }

    /// Deletes an object none of whose owners is left, and drops references to owners that are gone.
    fn check_owners(&self, place: &Place) {
        let Some(body) = self.read(place) else { return };
        if is_deleting(&body) {
            return;
        }
        let owners = owners_of(&body);
        let states: Vec<Owned> = owners.iter().map(|owner| self.state_of(owner, &body)).collect();
        if states.is_empty() {
            return;
        }
        let solid = states.contains(&Owned::Here);
        let dangling = states.contains(&Owned::Gone);
        let waiting = states.contains(&Owned::Waits);
        if solid {
            if dangling || waiting {
                let kept: Vec<&str> = owners
                    .iter()
                    .zip(&states)
                    .filter(|(_, state)| **state == Owned::Here)
                    .map(|(owner, _)| owner.uid.as_str())
                    .collect();
                self.keep_owners(place, &kept);
            }
            return;
        }
        // An owner that waits is deleted in the foreground; so are the objects between it and its last dependents.
        let propagation = if waiting && self.has_dependents(&body) {
            Propagation::Foreground
        } else {
            finalizer_policy(&body)
        };
        self.delete(place, &body, propagation);
    }

    fn has_dependents(&self, body: &Value) -> bool {
        self.api.store.read(|view| view.index().owners.has_dependents(meta(body, "uid")))
    }

    /// Takes the collector's finalizer off a deleted object when what it waits for is done.
    fn finish(&self, place: &Place) {
        let Some(body) = self.read(place) else { return };
        if !is_deleting(&body) {
            return;
        }
        let finalizers = meta_list(&body, "finalizers");
        let uid = meta(&body, "uid").to_owned();
        if finalizers.contains(&ORPHAN) {
            for key in self.dependents(&uid) {
                self.drop_owner(&Place::from(&key), &uid);
            }
            if self.dependents(&uid).is_empty() {
                self.drop_finalizer(place, ORPHAN);
            }
        } else if finalizers.contains(&FOREGROUND) {
            let blocking = |key: &&ObjectKey| self.blocks(&Place::from(*key), &uid);
            let dependents = self.dependents(&uid);
            for key in dependents.iter().filter(blocking) {
                self.check_owners(&Place::from(key));
            }
            // Those that could be deleted at once are gone by now.
            if !dependents.iter().any(|key| blocking(&key)) {
                self.drop_finalizer(place, FOREGROUND);
            }
        }
    }

    fn blocks(&self, dependent: &Place, uid: &str) -> bool {
        let body = self.read(dependent);
        body.is_some_and(|body| owners_of(&body).iter().any(|owner| owner.uid == uid && owner.blocks))
    }

    fn state_of(&self, owner: &Owner, dependent: &Value) -> Owned {
        let Some(place) = self.place_of_owner(owner, meta(dependent, "namespace")) else {
            // A kind that this server does not know: nothing can be said, so nothing is done.
            return Owned::Here;
        };
        match self.read(&place) {
            Some(body) if meta(&body, "uid") == owner.uid => {
                let foreground = is_deleting(&body) && meta_list(&body, "finalizers").contains(&FOREGROUND);
                if foreground { Owned::Waits } else { Owned::Here }
            }
            _ => Owned::Gone,
        }
    }

    /// Where an owner must be: in the dependent's namespace or in none.
    fn place_of_owner(&self, owner: &Owner, namespace: &str) -> Option<Place> {
        let id = self.api.registry.id_of_kind(&owner.api_version, &owner.kind)?;
        let namespace = if self.api.registry.info(id).namespaced() { namespace } else { "" };
        Some(Place::new(id, namespace, &owner.name))
    }

    fn read(&self, place: &Place) -> Option<Value> {
        let found = self.api.store.read(|view| view.get(place.id, &place.namespace, &place.name).cloned());
        found.map(|stored| object::parse(&stored.body))
    }

    fn delete(&self, place: &Place, body: &Value, propagation: Propagation) {
        let options = DeleteOptions {
            preconditions: Preconditions {
                uid: Some(meta(body, "uid").to_owned()),
                resource_version: Some(meta(body, "resourceVersion").to_owned()),
            },
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        settle(place, verbs::delete(&self.api, &place.target(), &options, Timestamp::now()).map(drop));
    }

    fn keep_owners(&self, place: &Place, uids: &[&str]) {
        self.edit(place, |object| {
            let uids: HashSet<&str> = uids.iter().copied().collect();
            edit_owners(object, |owners| {
                owners.retain(|owner| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid)));
            });
        });
    }

    fn drop_owner(&self, place: &Place, uid: &str) {
        self.edit(place, |object| {
            edit_owners(object, |owners| owners.retain(|owner| owner["uid"] != uid));
        });
    }

    fn drop_finalizer(&self, place: &Place, finalizer: &str) {
        self.edit(place, |object| {
            let left: Vec<&str> =
                meta_list(object, "finalizers").into_iter().filter(|known| *known != finalizer).collect();
            let left = (!left.is_empty()).then(|| json!(left));
            object::set_meta(object, "finalizers", left);
        });
    }

    fn edit(&self, place: &Place, change: impl FnOnce(&mut Value)) {
        let options = WriteOptions { manager: MANAGER.to_owned(), ..WriteOptions::default() };
        let result =
            verbs::change(&self.api, &place.target(), &options, Timestamp::now(), Rules::default(), |live| {
                let mut object = live.cloned().unwrap_or_default();
                change(&mut object);
                Ok(Computed { object, warnings: Vec::new(), tracked: false })
            });
        settle(place, result.map(drop));
    }
}

/// What is gone or has changed meanwhile comes again as an event; the rest is worth a line.
fn settle(place: &Place, result: Result<(), ApiError>) {
    if let Err(error) = result.or_else(|e| if matches!(e.code(), 404 | 409) { Ok(()) } else { Err(e) }) {
        tracing::warn!(namespace = %place.namespace, name = %place.name, %error, "garbage collection");
    }
}

/// How an owner stands to its dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owned {
    /// It is there.
    Here,
    /// It is being deleted and waits for this dependent.
    Waits,
    /// It is not there, or another object has its name.
    Gone,
}

/// An owner reference.
#[derive(Debug)]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    blocks: bool,
}

fn owners_of(object: &Value) -> Vec<Owner> {
    let list = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|owner| {
            let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
            Owner {
                api_version: text("apiVersion"),
                kind: text("kind"),
                name: text("name"),
                uid: text("uid"),
                blocks: owner["blockOwnerDeletion"] == true,
            }
        })
        .collect()
}

fn edit_owners(object: &mut Value, change: impl FnOnce(&mut Vec<Value>)) {
    let metadata = object::meta_mut(object);
    if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
        change(owners);
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

/// The policy that finalizers already on an object ask for.
fn finalizer_policy(object: &Value) -> Propagation {
    let finalizers = meta_list(object, "finalizers");
    if finalizers.contains(&ORPHAN) {
        Propagation::Orphan
    } else if finalizers.contains(&FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

/// Where an object is.
#[derive(Clone, Debug)]
struct Place {
    id: ResourceId,
    namespace: String,
    name: String,
}

impl Place {
    fn new(id: ResourceId, namespace: &str, name: &str) -> Self {
        Self { id, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn of(event: &Event) -> Self {
        Self::new(event.object.resource, &event.object.namespace, &event.object.name)
    }

    fn target(&self) -> Target {
        Target::object(self.id, &self.namespace, &self.name)
    }
}

impl From<&ObjectKey> for Place {
    fn from(key: &ObjectKey) -> Self {
        Self::new(key.resource, &key.namespace, &key.name)
    }
}

fn has_owners(object: &Stored) -> bool {
    contains(&object.body, b"\"ownerReferences\"")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
