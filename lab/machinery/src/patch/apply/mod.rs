//! Server-side apply: merges what a manager applies into the live object and settles who owns which field.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::{Map, Value};
use service_api::status;

use super::{PatchFault, displaced, structured, users_fault};
use crate::decode::{self, FieldValidation, bad_request, scan, time, typed};
use crate::managed_fields::compare;
use crate::managed_fields::entries::{self, ManagedFieldsEntry, Operation};
use crate::managed_fields::set::{self, FieldSet};
use crate::managed_fields::{self, UpdateContext};
use crate::schema::KindSchema;

/// Who owns the fields of an object that nobody applied before.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Where client-side apply keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Who applies, to what, and how.
#[derive(Clone, Copy, Debug)]
pub struct ApplyContext<'a> {
    /// The query parameter `fieldManager`; not empty.
    pub manager: &'a str,
    /// The subresource the request addresses (`"status"`), if any.
    pub subresource: Option<&'a str>,
    /// Take over fields that others own.
    pub force: bool,
    /// The time that a changed entry gets.
    pub now: Timestamp,
    /// What to do with duplicate keys in the patch.
    pub validation: FieldValidation,
}

/// The outcome of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The new object with its `managedFields`; equal to the live object when nothing changed.
    pub value: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Applies a YAML or JSON `body` to `live` (`None`: the object does not exist and is to be created).
///
/// The result is in its printed form but not defaulted yet.
///
/// # Errors
/// 409 with the conflicts, 400 for a body of another kind or that cannot be read, 422 for a field that the
/// schema does not have or that does not fit.
pub fn apply(
    kind: &'static KindSchema,
    live: Option<&Value>,
    body: &[u8],
    ctx: &ApplyContext<'_>,
) -> Result<Applied, Box<Status>> {
    let (patch, duplicates) = read(body)?;
    check_type(kind, &patch)?;
    if patch.get("metadata").and_then(|m| m["managedFields"].as_array()).is_some() {
        return Err(bad_request("metadata.managedFields must be nil"));
    }
    let stored = live.and_then(|live| live["metadata"].get("managedFields").cloned());
    let live =
        live.map_or_else(|| decode::with_type_meta(kind, empty(kind)), managed_fields::clone_unmanaged);
    let mut managed = stored.clone().map(entries::trusted).unwrap_or_default();
    if managed.is_empty() {
        // An object that is not tracked belongs to nobody in particular.
        let changes = compare::compare(kind, kind.zero(), &live, ctx.subresource);
        let before =
            UpdateContext { manager: BEFORE_FIRST_APPLY, subresource: ctx.subresource, now: ctx.now };
        managed_fields::record_update(&mut managed, changes, kind, &before);
    }
    let patch = Value::Object(patch);
    check_fields(kind, &patch)?;
    let merged = apply_typed(kind, &live, &patch, managed, ctx)?;
    let value = finish(kind, &live, &patch, stored, merged, ctx)?;
    let warnings = strict_findings(duplicates, ctx.validation)?;
    Ok(Applied { value, warnings })
}

fn empty(kind: &'static KindSchema) -> Map<String, Value> {
    kind.zero().as_object().cloned().unwrap_or_default()
}

/// A patch and its duplicate keys.
type Read = (Map<String, Value>, Vec<String>);

/// Reads the patch.
fn read(body: &[u8]) -> Result<Read, Box<Status>> {
    let undecodable = |e: &dyn std::fmt::Display| bad_request(format!("error decoding YAML: {e}"));
    let converted;
    let mut duplicates = Vec::new();
    // JSON is YAML; reading it as JSON is cheaper and keeps integers.
    let text = if scan::check(body).is_ok() && typed::duplicates(body).is_empty() {
        body
    } else {
        let (json, found) = decode::yaml_to_json(body)
            .map_err(|e| undecodable(&format_args!("error converting YAML to JSON: {e}")))?;
        duplicates.extend(found);
        converted = json;
        &converted
    };
    let value = decode::value(text).map(|mut value| {
        decode::integral(&mut value);
        value
    });
    match value {
        Ok(Value::Object(map)) => Ok((map, duplicates)),
        Ok(Value::Null) => Ok((Map::new(), duplicates)),
        Ok(other) => {
            let kind = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            Err(undecodable(&format_args!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )))
        }
        Err(e) => Err(undecodable(&e)),
    }
}

fn strict_findings(duplicates: Vec<String>, validation: FieldValidation) -> Result<Vec<String>, Box<Status>> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(duplicates.into_iter().map(decode::yaml_warning).collect()),
        FieldValidation::Strict if duplicates.is_empty() => Ok(duplicates),
        FieldValidation::Strict => {
            let found = duplicates.join(", ");
            Err(bad_request(format!("error strict decoding YAML: error converting YAML to JSON: {found}")))
        }
    }
}

fn check_type(kind: &KindSchema, patch: &Map<String, Value>) -> Result<(), Box<Status>> {
    let text = |field: &str| patch.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, sent) = (text("apiVersion"), text("kind"));
    if api_version == kind.api_version && sent == kind.kind {
        return Ok(());
    }
    let (group, version) = match api_version.split_once('/') {
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(pair) => pair,
        None => ("", api_version),
    };
    Err(bad_request(format!("invalid object type: {group}/{version}, Kind={sent}")))
}

fn check_fields(kind: &'static KindSchema, patch: &Value) -> Result<(), Box<Status>> {
    structured::validate(kind, patch).map_err(|faults| {
        let joined = structured::joined(&faults);
        let message = format!("failed to create typed patch object ({}): {joined}", title(kind, patch));
        users_fault(kind, name_of(patch), message, faults)
    })
}

struct Merged {
    /// The merged and pruned object.
    object: Value,
    managed: Vec<ManagedFieldsEntry>,
    /// The entry of the applier, to be added with its time.
    own: ManagedFieldsEntry,
    /// The applier's entry before.
    last: Option<ManagedFieldsEntry>,
}

fn apply_typed(
    kind: &'static KindSchema,
    live: &Value,
    patch: &Value,
    mut managed: Vec<ManagedFieldsEntry>,
    ctx: &ApplyContext<'_>,
) -> Result<Merged, Box<Status>> {
    let mut own = ManagedFieldsEntry {
        manager: ctx.manager.to_owned(),
        operation: Operation::Apply,
        api_version: kind.api_version.to_owned(),
        subresource: ctx.subresource.unwrap_or_default().to_owned(),
        time: None,
        fields: structured::field_set(kind, patch),
    };
    for path in compare::reset_paths(kind, ctx.subresource) {
        set::remove_below(&mut own.fields, path);
    }
    let last = managed.iter().position(|e| e.same_manager(&own)).map(|at| managed.swap_remove(at));
    let merged = structured::merge(kind, live, patch);
    let mut object = match &last {
        Some(last) => prune(kind, merged, &last.fields, &own.fields, &managed),
        None => merged,
    };
    structured::strip_unowned(&mut own.fields);
    let displaced = match ctx.subresource {
        None => displaced::take(kind, live, patch, &mut object),
        Some(_) => Value::Null,
    };
    let changes = compare::compare(kind, live, &object, ctx.subresource);
    if !ctx.force {
        let mut contested = structured::field_set(kind, &displaced);
        set::union(&mut contested, &changes.changed);
        let forgiven = forgiven(kind, live, &displaced, ctx.manager);
        let conflicts = conflicts(&managed, &contested, &forgiven);
        if !conflicts.is_empty() {
            return Err(conflict_status(&conflicts));
        }
    }
    managed.retain_mut(|entry| {
        set::subtract(&mut entry.fields, &changes.changed);
        set::subtract(&mut entry.fields, &changes.removed);
        !entry.fields.is_empty()
    });
    Ok(Merged { object, managed, own, last })
}

/// Removes what the manager applied last time, does not apply any more, and nobody else owns.
fn prune(
    kind: &'static KindSchema,
    merged: Value,
    last: &FieldSet,
    own: &FieldSet,
    others: &[ManagedFieldsEntry],
) -> Value {
    let mut owned = own.clone();
    for entry in others {
        set::union(&mut owned, &entry.fields);
    }
    let mut given_up = last.clone();
    set::subtract(&mut given_up, &owned);
    if given_up.is_empty() {
        return merged;
    }
    let named = |set: &FieldSet| structured::with_named_fields(kind, set);
    let (last, owned) = (named(last), named(&owned));
    let all = named(&structured::field_set(kind, &merged));
    // First without all that was applied, then with what anyone owns put back.
    let bare = structured::without(kind, &merged, &last);
    let mut unowned = all.clone();
    set::subtract(&mut unowned, &named(&structured::field_set(kind, &bare)));
    set::subtract(&mut unowned, &owned);
    let kept = structured::without(kind, &merged, &unowned);
    // What was never applied stays, whoever wrote it.
    let mut gone = all;
    set::subtract(&mut gone, &named(&structured::field_set(kind, &kept)));
    structured::without(kind, &merged, &set::intersection(&gone, &last))
}

/// An owner's title and the paths of its fields.
type Conflict = (String, Vec<String>);

/// The fields of others among those that the apply changes or displaces, by their owners; not those that are forgiven.
fn conflicts(managed: &[ManagedFieldsEntry], contested: &FieldSet, forgiven: &FieldSet) -> Vec<Conflict> {
    let mut sorted: Vec<&ManagedFieldsEntry> = managed.iter().collect();
    sorted.sort_by(|a, b| (&a.manager, &a.operation).cmp(&(&b.manager, &b.operation)));
    let mut out = Vec::new();
    for entry in sorted {
        let mut taken = set::intersection(&entry.fields, contested);
        set::subtract(&mut taken, forgiven);
        if taken.is_empty() {
            continue;
        }
        let mut paths = Vec::new();
        set::each_member(&taken, &mut |path| paths.push(set::path_text(path)));
        out.push((entry.title(), paths));
    }
    out
}

/// The fields that `kubectl` itself set by client-side apply: it moves to server-side apply.
fn forgiven(kind: &'static KindSchema, live: &Value, displaced: &Value, manager: &str) -> FieldSet {
    let annotation = live["metadata"]["annotations"][LAST_APPLIED].as_str().filter(|_| manager == "kubectl");
    let Some(last_applied) = annotation.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return FieldSet::new();
    };
    // A field that differs from what was applied was changed by somebody else since.
    let mut allowed = structured::field_set(kind, &last_applied);
    set::union(&mut allowed, &structured::field_set(kind, &displaced::of_those_in(displaced, &last_applied)));
    let drift = compare::compare(kind, &structured::merge(kind, live, &last_applied), live, None);
    set::subtract(&mut allowed, &drift.changed);
    set::subtract(&mut allowed, &drift.removed);
    allowed
}

fn conflict_status(conflicts: &[Conflict]) -> Box<Status> {
    let pairs =
        conflicts.iter().flat_map(|(title, paths)| paths.iter().map(|path| (title.clone(), path.clone())));
    Box::new(status::apply_conflict(&pairs.collect::<Vec<_>>()))
}

/// The printed form of the outcome with its managers; the live object itself when nothing changed.
fn finish(
    kind: &'static KindSchema,
    live: &Value,
    patch: &Value,
    stored: Option<Value>,
    merged: Merged,
    ctx: &ApplyContext<'_>,
) -> Result<Value, Box<Status>> {
    let Merged { mut object, mut managed, mut own, last } = merged;
    sync_last_applied(&mut object, patch, ctx.manager);
    let mut value = printed(kind, &object, patch)?;
    let same_object = value == *live;
    let same_set =
        last.as_ref().is_some_and(|last| last.fields == own.fields && last.api_version == own.api_version);
    own.time = match last {
        Some(last) if same_object && same_set => last.time,
        // Who applies what is there already owns it from now on, but wrote nothing.
        None if same_object => None,
        _ => Some(time::seconds(ctx.now)),
    };
    if !own.fields.is_empty() {
        managed.push(own);
    }
    let written = entries::write(managed);
    if written.as_array().is_some_and(|entries| !entries.is_empty())
        && let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut)
    {
        // Equal entries keep the very form they are stored in.
        let managed = if stored.as_ref() == Some(&written) { stored.unwrap_or_default() } else { written };
        metadata.insert("managedFields".to_owned(), managed);
    }
    Ok(value)
}

/// The printed form of the outcome.
fn printed(kind: &'static KindSchema, object: &Value, patch: &Value) -> Result<Value, Box<Status>> {
    let cannot = |field: &str, words: String| {
        let message = format!(
            "failed to convert new object ({}) to proper version: unable to convert unstructured object to {}: {words}",
            title(kind, patch),
            type_title(kind)
        );
        let fault = PatchFault { field: field.to_owned(), reason: "FieldValueTypeInvalid", words };
        users_fault(kind, name_of(patch), message, vec![fault])
    };
    let json = serde_json::to_vec(object).map_err(|e| cannot("", e.to_string()))?;
    let (map, _) = typed::read(kind.root(), &json).map_err(|e| cannot(e.path(), e.of_map()))?;
    Ok(decode::with_type_meta(kind, map))
}

fn name_of(patch: &Value) -> &str {
    patch["metadata"]["name"].as_str().unwrap_or_default()
}

fn type_title(kind: &KindSchema) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

/// A patch as upstream's faults name it.
fn title(kind: &KindSchema, patch: &Value) -> String {
    let (name, namespace) = patch.as_object().map(structured::name_of).unwrap_or_default();
    format!("{namespace}/{name}; {}", type_title(kind))
}

/// Keeps the annotation of client-side apply, where there is one, in step with what `kubectl` applies.
fn sync_last_applied(object: &mut Value, patch: &Value, manager: &str) {
    if manager != "kubectl" {
        return;
    }
    let Some(annotations) =
        object.get_mut("metadata").and_then(|m| m.get_mut("annotations")?.as_object_mut())
    else {
        return;
    };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = managed_fields::clone_unmanaged(patch);
    if let Some(annotations) = applied["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    annotations.insert(LAST_APPLIED.to_owned(), Value::String(format!("{applied}\n")));
}

#[cfg(test)]
mod tests;
