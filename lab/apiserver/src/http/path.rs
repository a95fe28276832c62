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

/// What a path addresses, whether or not it is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// API group; empty for the core group.
    pub(crate) group: String,
    /// Version inside the group.
    pub(crate) version: String,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: String,
    /// The resource's path segment.
    pub(crate) resource: String,
    /// Empty for a collection.
    pub(crate) name: String,
    /// The subresource; empty for none.
    pub(crate) subresource: String,
    /// The old form `…/watch/…`.
    pub(crate) watch: bool,
    /// There are more segments than these parts, or an empty one.
    malformed: bool,
}

/// Takes `/api/v1/…` or `/apis/{group}/{version}/…` apart; `None` for another path, and for one that ends at the version.
pub(crate) fn place(path: &str) -> Option<Place> {
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
    let (resource, name, subresource, malformed) = match rest.as_slice() {
        [resource] => (*resource, "", "", false),
        [resource, name] => (*resource, *name, "", name.is_empty()),
        [resource, name, sub] => (*resource, *name, *sub, name.is_empty() || sub.is_empty()),
        [resource, name, sub, ..] => (*resource, *name, *sub, true),
        [] => return None,
    };
    Some(Place {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        watch,
        malformed,
    })
}

/// The target of a path; `None` when there is no such resource. The flag tells the old `/watch/` form.
pub(crate) fn resolve(registry: &Registry, path: &str) -> Option<(Target, bool)> {
    let place = place(path).filter(|place| !place.malformed)?;
    let id = registry.id(&place.group, &place.resource)?;
    let info = registry.info(id);
    let misplaced = match (info.namespaced(), place.namespace.is_empty()) {
        (true, true) => !place.name.is_empty(),
        (false, false) => true,
        _ => false,
    };
    if info.version != place.version || misplaced {
        return None;
    }
    let sub = match place.subresource.as_str() {
        "" => None,
        sub => Some(info.subresource(sub)?),
    };
    Some((Target { id, namespace: place.namespace, name: place.name, sub }, place.watch))
}

/// `namespaces/{name}/status` is a subresource of a namespace, not a resource inside it.
fn is_namespace_sub(group: &str, segment: &str) -> bool {
    group.is_empty() && matches!(segment, "status" | "finalize")
}
