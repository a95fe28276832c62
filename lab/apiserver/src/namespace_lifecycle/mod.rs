//! Emptying of deleted namespaces: upstream's `namespace-controller`.
//!
//! A namespace that is marked for deletion loses its content; when nothing is left, its finalizer `kubernetes` goes, and
//! with it the namespace. It deletes through the ordinary verbs and forces nothing: what has finalizers or a grace period
//! holds the namespace until it is gone, and the namespace's conditions say so.

mod conditions;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::conditions::Content;
use crate::registry::error::ApiError;
use crate::registry::object::{self, is_deleting};
use crate::registry::options::{DeleteOptions, Propagation, WriteOptions};
use crate::registry::strategy::Subresource;
use crate::registry::verbs::{self, Api, Computed, Rules};
use crate::registry::{LabIndex, Target};
use crate::store::{ListWatch, ResourceId, View};

/// The finalizer in a namespace's spec that is this controller's to remove.
const FINALIZER: &str = "kubernetes";
/// How long it waits before it looks again at a namespace that is not empty yet.
const AGAIN: Duration = Duration::from_millis(500);
/// The field manager of its writes.
const MANAGER: &str = "kube-controller-manager";

/// Empties namespaces until `closing`.
pub async fn run(api: Arc<Api>, closing: CancellationToken) {
    let Some(id) = api.registry.id("", "namespaces") else { return };
    let mut namespaces = ListWatch::new(&api.store, id, |_: &View<'_, LabIndex>| ());
    loop {
        let waiting = deleted_namespaces(&api, id);
        let mut left = false;
        for name in &waiting {
            left |= !empty(&api, id, name);
        }
        tokio::select! {
            () = closing.cancelled() => return,
            _ = namespaces.next() => {}
            () = tokio::time::sleep(AGAIN), if left => {}
        }
    }
}

fn deleted_namespaces(api: &Api, id: ResourceId) -> Vec<String> {
    let all = api.store.read(|view| view.list(id, None, None).cloned().collect::<Vec<_>>());
    let marked = all.iter().filter(|stored| is_deleting(&object::parse(&stored.body)));
    marked.map(|stored| stored.name.to_string()).collect()
}

/// Deletes what a namespace holds, says how far that is and, when nothing is left, lets it go. `true`: there is nothing
/// more to do.
fn empty(api: &Api, id: ResourceId, name: &str) -> bool {
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let kinds = || api.registry.ids().filter(|(_, info)| info.namespaced());
    let mut content = Content::default();
    for (kind, _) in kinds() {
        let objects = api.store.read(|view| view.list(kind, Some(name), None).cloned().collect::<Vec<_>>());
        let target = Target::object(kind, name, "");
        if let Err(error) = verbs::delete_collection(api, &target, &objects, &options, Timestamp::now()) {
            tracing::warn!(namespace = name, %error, "empty a namespace");
            content.failures.push(error.to_string());
        }
    }
    for (kind, info) in kinds() {
        let objects = api.store.read(|view| view.list(kind, Some(name), None).cloned().collect::<Vec<_>>());
        if !objects.is_empty() {
            content.remaining.push((format!("{}.{}", info.resource, info.group), objects.len()));
        }
        for stored in &objects {
            content.count_finalizers(&object::parse(&stored.body));
        }
    }
    let done = content.remaining.is_empty() && content.failures.is_empty();
    let said = report(api, id, name, &content);
    let result = if done { said.and_then(|()| finalize(api, id, name)) } else { said };
    match result {
        Err(error) if error.code() != 404 => {
            tracing::warn!(namespace = name, %error, "finish a namespace");
            false
        }
        _ => done,
    }
}

/// Takes the finalizer off.
fn finalize(api: &Api, id: ResourceId, name: &str) -> Result<(), ApiError> {
    edit(api, id, name, Subresource::Finalize, |namespace| {
        if let Some(Value::Array(list)) = namespace.pointer_mut("/spec/finalizers") {
            list.retain(|finalizer| finalizer != FINALIZER);
        }
    })
}

/// Says in the namespace's conditions how far its deletion is.
fn report(api: &Api, id: ResourceId, name: &str, content: &Content) -> Result<(), ApiError> {
    edit(api, id, name, Subresource::Status, |namespace| {
        let conditions = &mut namespace["status"]["conditions"];
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        let Value::Array(list) = conditions else { return };
        for condition in content.conditions() {
            condition.put(list, Timestamp::now());
        }
    })
}

fn edit(
    api: &Api,
    id: ResourceId,
    name: &str,
    part: Subresource,
    change: impl FnOnce(&mut Value),
) -> Result<(), ApiError> {
    let sub = api.registry.info(id).subresources.iter().find(|sub| sub.part == part);
    let target = Target { sub, ..Target::object(id, "", name) };
    let options = WriteOptions { manager: MANAGER.to_owned(), ..WriteOptions::default() };
    let done = verbs::change(api, &target, &options, Timestamp::now(), Rules::default(), |live| {
        let mut object = live.cloned().unwrap_or_default();
        change(&mut object);
        Ok(Computed { object, warnings: Vec::new(), tracked: false })
    });
    done.map(drop)
}
