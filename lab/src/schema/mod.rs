//! What the fields of every served kind are: the tree that decoding, patches, field ownership and OpenAPI walk.
//!
//! Names, types and descriptions come from `k8s-openapi`; what its schemas do not tell (list keys, atomicity, Go type
//! names, what an empty value prints as) stands in our own tables. It never looks at a request and holds no state.

/// The schema of one kind in one API version.
#[derive(Debug)]
pub struct KindSchema {
    /// API group, empty for core.
    pub group: &'static str,
    /// Version inside the group, such as `v1`.
    pub version: &'static str,
    /// Kind, such as `Service`.
    pub kind: &'static str,
}

static KINDS: [KindSchema; 1] = [KindSchema { group: "", version: "v1", kind: "Service" }];

/// The schema of a served kind, or `None`.
pub fn find(group: &str, version: &str, kind: &str) -> Option<&'static KindSchema> {
    KINDS.iter().find(|k| k.group == group && k.version == version && k.kind == kind)
}
