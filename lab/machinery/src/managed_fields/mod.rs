//! Who set which field: `metadata.managedFields` of every write, as upstream keeps it.
//!
//! Pure: the caller says who writes and what time it is. Sets of fields are worked on in the form that they are stored
//! in (see [`set`]), so that a create costs one walk over the object.

use jiff::Timestamp;
use serde_json::Value;

use crate::decode::time;
use crate::schema::KindSchema;

pub(crate) mod compare;
pub(crate) mod entries;
pub(crate) mod set;

use entries::{ManagedFieldsEntry, Operation};

/// At most this many bytes of a User-Agent become the name of a manager.
const MAX_MANAGER: usize = 128;

/// Who writes, and through what.
#[derive(Clone, Copy, Debug)]
pub struct UpdateContext<'a> {
    /// The manager, see [`manager_name`].
    pub manager: &'a str,
    /// The subresource the request addresses (`"status"`), if any.
    pub subresource: Option<&'a str>,
    /// The time that a changed entry gets.
    pub now: Timestamp,
}

/// Computes `new`'s `managedFields` after a create (`old` is `None`), update or patch.
///
/// To be called on the decoded and defaulted object before allocation, as upstream does: what the server itself fills in
/// afterwards has no owner. `new` may carry the `managedFields` that the client sent: `[{}]` forgets all managers, valid
/// entries replace the stored ones, anything else is ignored.
pub fn track_update(
    kind: &'static KindSchema,
    old: Option<&Value>,
    new: &mut Value,
    ctx: &UpdateContext<'_>,
) {
    let sent = take_managed(new);
    let stored = old.and_then(|o| o["metadata"].get("managedFields"));
    let reset = ctx.subresource.is_none() && sent.as_ref().is_some_and(entries::is_reset);
    let sent = sent.filter(|_| ctx.subresource.is_none() && !reset);
    // Most clients send back what they were given, or nothing.
    let as_stored = !reset && (sent.is_none() || sent.as_ref() == stored);
    if as_stored && old.is_some() && stored.is_none() {
        // Tracking starts again with the next apply.
        return;
    }
    let changes = compare::compare(kind, old.unwrap_or(kind.zero()), new, ctx.subresource);
    if as_stored && changes.is_empty() {
        if let (Some(managed), Some(metadata)) =
            (sent.or_else(|| stored.cloned()), new.get_mut("metadata").and_then(Value::as_object_mut))
        {
            metadata.insert("managedFields".to_owned(), managed);
        }
        return;
    }
    let of_stored = || stored.cloned().map(entries::trusted).unwrap_or_default();
    let mut managed = match sent {
        _ if reset => Vec::new(),
        Some(sent) if as_stored => entries::trusted(sent),
        Some(sent) => entries::untrusted(sent).ok().filter(|sent| !sent.is_empty()).unwrap_or_else(of_stored),
        None => of_stored(),
    };
    if managed.is_empty() && old.is_some() {
        return;
    }
    managed.retain(|entry| crate::decode::is_version_of(kind, &entry.api_version));
    record_update(&mut managed, changes, kind, ctx);
    put_managed(new, managed);
}

/// A copy of an object without its managers, which may be the larger part of it.
pub(crate) fn clone_unmanaged(object: &Value) -> Value {
    let Value::Object(object) = object else { return object.clone() };
    let copy = object.iter().map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        _ => (name.clone(), value.clone()),
    });
    Value::Object(copy.collect())
}

/// Moves what changed from whoever owned it to the manager of the write.
pub(crate) fn record_update(
    managed: &mut Vec<ManagedFieldsEntry>,
    changes: compare::Changes,
    kind: &KindSchema,
    ctx: &UpdateContext<'_>,
) {
    if changes.is_empty() {
        return;
    }
    managed.retain_mut(|entry| {
        set::subtract(&mut entry.fields, &changes.changed);
        set::subtract(&mut entry.fields, &changes.removed);
        !entry.fields.is_empty()
    });
    if !changes.changed.is_empty() {
        let entry = ManagedFieldsEntry {
            manager: ctx.manager.to_owned(),
            operation: Operation::Update,
            api_version: kind.api_version.to_owned(),
            subresource: ctx.subresource.unwrap_or_default().to_owned(),
            time: Some(time::seconds(ctx.now)),
            fields: changes.changed,
        };
        entries::add(managed, entry);
    }
    entries::cap(managed);
}

/// Takes `metadata.managedFields` out of an object.
pub(crate) fn take_managed(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// Puts the entries into an object; none are no field at all.
pub(crate) fn put_managed(object: &mut Value, managed: Vec<ManagedFieldsEntry>) {
    if managed.is_empty() {
        return;
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), entries::write(managed));
    }
}

/// Puts the old `managedFields` back when their times are all that a write would change, so that it is no write.
pub fn settle_times(old: &Value, new: &mut Value) {
    let (Some(before), Some(after)) =
        (old["metadata"].get("managedFields"), new["metadata"].get("managedFields"))
    else {
        return;
    };
    if before == after || !same_but_times(before, after) || !same_but_managed(old, new) {
        return;
    }
    let before = before.clone();
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), before);
    }
}

fn same_but_times(before: &Value, after: &Value) -> bool {
    let mut before = entries::trusted(before.clone());
    let mut after = entries::trusted(after.clone());
    for entry in before.iter_mut().chain(&mut after) {
        entry.time = None;
    }
    entries::write(before) == entries::write(after)
}

fn same_but_managed(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old == new };
    old.len() == new.len()
        && old.iter().all(|(name, value)| match (name.as_str(), value, new.get(name)) {
            ("metadata", Value::Object(old), Some(Value::Object(new))) => {
                old.len() == new.len()
                    && old.iter().all(|(name, value)| name == "managedFields" || new.get(name) == Some(value))
            }
            (_, value, other) => other == Some(value),
        })
}

/// The manager of a write: the query parameter `fieldManager`, or what stands before the first `/` of the User-Agent
/// (printable characters only, at most 128 bytes).
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let mut name = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        name.push(c);
    }
    if name.is_empty() { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
