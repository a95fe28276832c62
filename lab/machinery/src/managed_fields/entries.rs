//! The entries of `metadata.managedFields`: reading, ordering, capping and writing them.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::set::{self, FieldSet};

/// How many managers that update (rather than apply) an object keeps apart.
const MAX_UPDATERS: usize = 10;
/// Who owns what the oldest of more updaters owned.
const ANCIENT: &str = "ancient-changes";

/// What a manager did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    /// Server-side apply.
    Apply,
    /// Anything else that writes.
    Update,
}

/// One manager's fields.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ManagedFieldsEntry {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    /// RFC 3339, whole seconds, UTC; so text sorts as time does.
    pub(crate) time: Option<String>,
    pub(crate) fields: FieldSet,
}

/// What tells one manager from another: name, operation, subresource and, of updaters, API version.
type Manager = (String, Operation, String, String);

impl ManagedFieldsEntry {
    fn key(&self) -> Manager {
        let version =
            if self.operation == Operation::Apply { String::new() } else { self.api_version.clone() };
        (self.manager.clone(), self.operation, self.subresource.clone(), version)
    }

    /// Do the two stand for the same manager? Appliers are one across API versions.
    pub(crate) fn same_manager(&self, other: &ManagedFieldsEntry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The manager as a conflict names it.
    pub(crate) fn title(&self) -> String {
        let through = match self.subresource.as_str() {
            "" => String::new(),
            subresource => format!(" with subresource {subresource:?}"),
        };
        let using = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => format!(" using {}", self.api_version),
        };
        format!("{:?}{through}{using}", self.manager)
    }
}

/// Is this the request to forget all managers, `[{}]`?
pub(crate) fn is_reset(managed: &Value) -> bool {
    let [one] = managed.as_array().map_or(&[][..], Vec::as_slice) else { return false };
    one.as_object().is_some_and(Map::is_empty)
}

/// Reads entries that the server wrote itself.
pub(crate) fn trusted(managed: Value) -> Vec<ManagedFieldsEntry> {
    let Value::Array(entries) = managed else { return Vec::new() };
    entries.into_iter().filter_map(|entry| read(entry).ok()).collect()
}

/// Reads entries that a client sent.
///
/// # Errors
/// What is wrong with the first bad entry.
pub(crate) fn untrusted(managed: Value) -> Result<Vec<ManagedFieldsEntry>, String> {
    let Value::Array(values) = managed else { return Ok(Vec::new()) };
    let mut entries: Vec<ManagedFieldsEntry> = Vec::with_capacity(values.len());
    let mut known: HashMap<Manager, usize> = HashMap::with_capacity(values.len());
    for value in values {
        if value.get("fieldsType").and_then(Value::as_str) != Some("FieldsV1") {
            return Err("fieldsType must be `FieldsV1`".to_owned());
        }
        let mut entry = read(value)?;
        if entry.api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        entry.fields = set::parse(&Value::Object(entry.fields))?;
        let next = entries.len();
        let at = *known.entry(entry.key()).or_insert(next);
        match entries.get_mut(at) {
            Some(same) => *same = entry,
            None => entries.push(entry),
        }
    }
    Ok(entries)
}

fn read(entry: Value) -> Result<ManagedFieldsEntry, String> {
    let Value::Object(mut entry) = entry else { return Err("entries must be objects".to_owned()) };
    let mut text = |name: &str| match entry.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let operation = match text("operation").as_deref() {
        Some("Apply") => Operation::Apply,
        Some("Update") => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let manager = text("manager").unwrap_or_default();
    let api_version = text("apiVersion").unwrap_or_default();
    let subresource = text("subresource").unwrap_or_default();
    let time = text("time");
    let fields = match entry.remove("fieldsV1") {
        Some(Value::Object(fields)) => fields,
        _ => FieldSet::new(),
    };
    Ok(ManagedFieldsEntry { manager, operation, api_version, subresource, time, fields })
}

/// The entries as the API shows them, sorted: appliers first, then by time and name.
pub(crate) fn write(mut entries: Vec<ManagedFieldsEntry>) -> Value {
    entries.sort_by(|a, b| {
        (a.operation, &a.time, &a.manager, &a.api_version, &a.subresource).cmp(&(
            b.operation,
            &b.time,
            &b.manager,
            &b.api_version,
            &b.subresource,
        ))
    });
    Value::Array(entries.into_iter().map(write_one).collect())
}

fn write_one(entry: ManagedFieldsEntry) -> Value {
    let mut map = Map::new();
    let mut put = |name: &str, text: String| {
        if !text.is_empty() {
            map.insert(name.to_owned(), Value::String(text));
        }
    };
    put("manager", entry.manager);
    put("operation", if entry.operation == Operation::Apply { "Apply" } else { "Update" }.to_owned());
    put("apiVersion", entry.api_version);
    put("time", entry.time.unwrap_or_default());
    put("fieldsType", "FieldsV1".to_owned());
    put("subresource", entry.subresource);
    map.insert("fieldsV1".to_owned(), Value::Object(entry.fields));
    Value::Object(map)
}

/// Adds `entry` to the manager's own, the older fields kept.
pub(crate) fn add(entries: &mut Vec<ManagedFieldsEntry>, entry: ManagedFieldsEntry) {
    match entries.iter_mut().find(|e| e.same_manager(&entry)) {
        Some(same) => {
            set::union(&mut same.fields, &entry.fields);
            same.time = entry.time;
        }
        None => entries.push(entry),
    }
}

/// Merges the oldest updaters of one API version into `ancient-changes` until there are few enough.
pub(crate) fn cap(entries: &mut Vec<ManagedFieldsEntry>) {
    let mut updaters = entries.iter().filter(|e| e.operation == Operation::Update).count();
    if updaters <= MAX_UPDATERS {
        return;
    }
    let mut order: Vec<usize> = (0..entries.len())
        .filter(|at| entries.get(*at).is_some_and(|e| e.operation == Operation::Update))
        .collect();
    order.sort_by(|a, b| {
        let key =
            |at: &usize| entries.get(*at).map(|e| (e.time.clone(), e.manager.clone(), e.subresource.clone()));
        key(a).cmp(&key(b))
    });
    let mut gone = vec![false; entries.len()];
    let mut first_of: HashMap<String, usize> = HashMap::new();
    for at in order {
        if updaters <= MAX_UPDATERS {
            break;
        }
        let Some(entry) = entries.get(at).cloned() else { continue };
        let Some(bucket) = first_of.get(&entry.api_version) else {
            first_of.insert(entry.api_version, at);
            continue;
        };
        // The first of its version becomes the bucket as soon as a second joins it.
        if let Some(bucket) = entries.get_mut(*bucket) {
            ANCIENT.clone_into(&mut bucket.manager);
            bucket.subresource.clear();
            set::union(&mut bucket.fields, &entry.fields);
            bucket.time = entry.time;
        }
        if let Some(gone) = gone.get_mut(at) {
            *gone = true;
        }
        updaters -= 1;
    }
    let mut gone = gone.into_iter();
    entries.retain(|_| !gone.next().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, time: u32) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: manager.to_owned(),
            operation: Operation::Update,
            api_version: "v1".to_owned(),
            subresource: String::new(),
            time: Some(format!("2026-01-01T00:00:{time:02}Z")),
            fields: set::parse(&json!({"f:metadata": {"f:labels": {format!("f:{manager}"): {}}}})).unwrap(),
        }
    }

    #[test]
    fn the_eleventh_updater_makes_the_oldest_two_ancient() {
        let mut entries: Vec<ManagedFieldsEntry> = (0..11).map(|n| entry(&format!("m{n:02}"), n)).collect();
        cap(&mut entries);
        assert_eq!(entries.len(), 10);
        let ancient = entries.iter().find(|e| e.manager == ANCIENT).unwrap();
        assert_eq!(ancient.time.as_deref(), Some("2026-01-01T00:00:01Z"));
        assert_eq!(
            Value::Object(ancient.fields.clone()),
            json!({"f:metadata": {"f:labels": {"f:m00": {}, "f:m01": {}}}})
        );
        // The next one joins the bucket, which by then is the oldest of its version.
        entries.push(entry("m11", 11));
        cap(&mut entries);
        assert_eq!(entries.len(), 10);
        assert_eq!(entries.iter().filter(|e| e.manager == ANCIENT).count(), 1);
    }

    #[test]
    fn ten_updaters_stay() {
        let mut entries: Vec<ManagedFieldsEntry> = (0..10).map(|n| entry(&format!("m{n}"), n)).collect();
        let before = entries.clone();
        cap(&mut entries);
        assert_eq!(entries, before);
    }

    #[test]
    fn what_is_written_is_read_again_and_sorted() {
        let mut applier = entry("z", 9);
        applier.operation = Operation::Apply;
        let written = write(vec![entry("b", 2), entry("a", 2), entry("c", 1), applier.clone()]);
        let names: Vec<String> = trusted(written.clone()).into_iter().map(|e| e.manager).collect();
        assert_eq!(names, ["z", "c", "a", "b"]);
        assert_eq!(untrusted(written.clone()).unwrap(), trusted(written));
    }

    #[test]
    fn entries_of_clients_are_checked() {
        let good = json!({"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
        assert!(untrusted(json!([good])).is_ok());
        for (field, value) in [("operation", "Patch"), ("apiVersion", ""), ("fieldsType", "FieldsV2")] {
            let mut bad = good.clone();
            bad[field] = value.into();
            assert!(untrusted(json!([bad])).is_err(), "{field}");
        }
    }

    #[test]
    fn conflicts_name_managers_as_upstream_does() {
        let mut updater = entry("kubectl", 0);
        assert_eq!(updater.title(), "\"kubectl\" using v1");
        updater.subresource = "status".to_owned();
        assert_eq!(updater.title(), "\"kubectl\" with subresource \"status\" using v1");
        updater.operation = Operation::Apply;
        updater.subresource.clear();
        assert_eq!(updater.title(), "\"kubectl\"");
    }
}
