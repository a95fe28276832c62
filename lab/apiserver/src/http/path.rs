//! Which resource a path addresses.
//!
//! Pure. Knows the layout of API paths and the table of kinds, no verbs and no handlers.

use std::borrow::Cow;

use crate::registry::{Registry, Target};

use super::params::decode;

/// Splits a path into decoded segments; a trailing slash is dropped.
fn segments(path: &str) -> Vec<Cow<'_, str>> {
    path.trim_matches('/').split('/').map(|segment| decode(segment, false)).collect()
}

/// Resolves `/api/v1/…` or `/apis/{group}/{version}/…`; `None` when there is no such resource. The flag tells the old
/// `/watch/` form.
pub(crate) fn resolve(registry: &Registry, path: &str) -> Option<(Target, bool)> {
    let segments = segments(path);
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !group.is_empty() => (*group, *version, rest),
        _ => return None,
    };
    let (watch, rest) = match rest {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, resource, rest @ ..] if !is_namespace_sub(group, resource) => {
            (*namespace, [&[*resource], rest].concat())
        }
        rest => ("", rest.to_vec()),
    };
    let (resource, name, sub) = match rest.as_slice() {
        [resource] => (*resource, "", None),
        [resource, name] => (*resource, *name, None),
        [resource, name, sub] => (*resource, *name, Some(*sub)),
        _ => return None,
    };
    let id = registry.id(group, resource)?;
    let entry = registry.entry(id);
    let misplaced = match (entry.namespaced(), namespace.is_empty()) {
        (true, true) => !name.is_empty(),
        (false, false) => true,
        _ => false,
    };
    let unnamed = rest.len() > 1 && name.is_empty();
    if entry.version != version || misplaced || unnamed {
        return None;
    }
    let sub = match sub {
        Some(sub) => Some(entry.subresource(sub)?),
        None => None,
    };
    Some((Target { id, namespace: namespace.to_owned(), name: name.to_owned(), sub }, watch))
}

/// `namespaces/{name}/status` is a subresource of a namespace, not a resource inside it.
fn is_namespace_sub(group: &str, segment: &str) -> bool {
    group.is_empty() && matches!(segment, "status" | "finalize")
}
