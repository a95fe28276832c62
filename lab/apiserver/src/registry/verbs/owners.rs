//! Owner references that a client repeats: they are stored once, and the client is told.

use std::collections::HashSet;

use serde_json::Value;

use crate::registry::object::meta_mut;

/// When upstream looks at the owners of an object, as its warning says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// In the body of a create or an update.
    Sent,
    /// In what a patch made of the object, which is looked at behind mutating admission only.
    Patched,
}

/// Drops repeated owner references. Returns the text of the warning, if there were any.
pub(super) fn dedup(object: &mut Value, seen: Seen) -> Option<String> {
    let repeated = |object: &Value| {
        let list = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        list.is_some_and(|list| list.len() > 1)
    };
    if !repeated(object) {
        return None;
    }
    let Some(Value::Array(list)) = meta_mut(object).get_mut("ownerReferences") else { return None };
    let mut known: HashSet<Value> = HashSet::with_capacity(list.len());
    let mut dropped: Vec<String> = Vec::new();
    list.retain(|reference| {
        let first = known.insert(reference.clone());
        if !first {
            dropped.push(reference["uid"].as_str().unwrap_or_default().to_owned());
        }
        first
    });
    let uids = (!dropped.is_empty()).then(|| dropped.join(", "))?;
    let when = if seen == Seen::Patched { " after mutating admission happens" } else { "" };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
         reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_repeated_owner_is_kept_once() {
        let (one, two) = (json!({"uid": "1"}), json!({"uid": "2"}));
        let mut object = json!({"metadata": {"ownerReferences": [one, two, one]}});
        let patched = dedup(&mut object.clone(), Seen::Patched).unwrap();
        assert!(patched.contains("duplicate entries after mutating admission happens; API"), "{patched}");
        let warning = dedup(&mut object, Seen::Sent).unwrap();
        assert!(warning.contains("duplicate entries; API"), "{warning}");
        assert!(warning.ends_with("duplicate UID(s) observed: 1"), "{warning}");
        assert_eq!(object["metadata"]["ownerReferences"], json!([{"uid": "1"}, {"uid": "2"}]));
        assert_eq!(dedup(&mut object, Seen::Sent), None);
    }
}
