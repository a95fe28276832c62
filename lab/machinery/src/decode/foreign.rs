//! Bodies that say they are something else than the resource they are sent to.

use crate::schema::{self, KindSchema};

/// What a body is, with the gaps filled in from the resource.
#[derive(Debug)]
pub(super) struct Named {
    group: String,
    /// Version inside the group.
    pub(super) version: String,
    /// Kind.
    pub(super) kind: String,
}

impl Named {
    /// The schema of what the body says it is.
    pub(super) fn schema(&self) -> Option<&'static KindSchema> {
        schema::find(&self.group, &self.version, &self.kind)
    }
}

/// Why a body is not for this resource.
#[derive(Debug)]
pub(super) enum Foreign {
    /// Another kind.
    Kind(String),
    /// The kind in another version.
    Version(String),
}

/// Kinds that the API server knows and the lab does not serve: a body of one is foreign, not unknown.
const OTHER_KINDS: &[(&str, &str, &str)] = &[
    (
        "",
        "v1",
        "PersistentVolume PersistentVolumeClaim ReplicationController ResourceQuota LimitRange PodTemplate List",
    ),
    ("apps", "v1", "DaemonSet StatefulSet ControllerRevision"),
    ("batch", "v1", "Job CronJob"),
    ("networking.k8s.io", "v1", "Ingress IngressClass NetworkPolicy"),
    ("rbac.authorization.k8s.io", "v1", "Role RoleBinding ClusterRole ClusterRoleBinding"),
    ("autoscaling", "v1", "HorizontalPodAutoscaler"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("storage.k8s.io", "v1", "StorageClass CSIDriver CSINode VolumeAttachment"),
];

/// Older versions of served kinds that the API server still reads.
const OLDER: &[(&str, &str, &str)] = &[
    ("discovery.k8s.io", "v1beta1", "EndpointSlice"),
    ("networking.k8s.io", "v1beta1", "ServiceCIDR"),
    ("networking.k8s.io", "v1beta1", "IPAddress"),
    ("coordination.k8s.io", "v1beta1", "Lease"),
    ("events.k8s.io", "v1beta1", "Event"),
    ("apps", "v1beta1", "Deployment"),
    ("apps", "v1beta2", "Deployment"),
    ("apps", "v1beta2", "ReplicaSet"),
    ("events.k8s.io", "v1", "Event"),
    ("", "v1", "Event"),
];

/// Older versions of bodies that have the same fields and are taken for the served one.
const ALIKE: &[(&str, &str, &str)] = &[("policy", "v1beta1", "Eviction")];

/// Completes what the body says of itself.
pub(super) fn named(expected: &KindSchema, api_version: &str, kind: &str) -> Named {
    let (group, version) = match api_version.split_once('/') {
        Some((group, version)) => (group, version),
        None if api_version.is_empty() => (expected.group, expected.version),
        None => ("", api_version),
    };
    let kind = if kind.is_empty() { expected.kind } else { kind };
    Named { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
}

/// Is the body of the expected kind and version?
pub(super) fn check(expected: &'static KindSchema, named: &Named) -> Result<(), Foreign> {
    let Named { group, version, kind } = named;
    let alike = || ALIKE.contains(&(group.as_str(), version.as_str(), kind.as_str()));
    if kind == expected.kind && group == expected.group && (version == expected.version || alike()) {
        return Ok(());
    }
    let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    let lists = |list: &[(&str, &str, &str)], kind: &str| {
        list.iter().any(|(g, v, kinds)| g == group && v == version && kinds.split(' ').any(|k| k == kind))
    };
    // Every group knows the options; every listable kind has a list.
    let item = kind.strip_suffix("List").unwrap_or(kind);
    let known =
        schema::find(group, version, item).is_some() || lists(OTHER_KINDS, item) || lists(OLDER, item);
    if !known {
        return Err(Foreign::Kind(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        )));
    }
    if kind == expected.kind && lists(OLDER, kind) {
        return Err(Foreign::Version(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            expected.api_version
        )));
    }
    Err(Foreign::Kind(format!(
        "converting ({version}.{kind}) to ({}.{}): unknown conversion",
        internal_package(expected),
        expected.kind
    )))
}

/// Can objects of that kind be written in that version? Upstream forgets the managers of those that can not.
pub(crate) fn is_version_of(kind: &KindSchema, api_version: &str) -> bool {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let older = |(g, v, name): &(&str, &str, &str)| *g == group && *v == version && *name == kind.kind;
    let gone = kind.group == "discovery.k8s.io";
    api_version == kind.api_version || (!gone && OLDER.iter().any(older))
}

/// The Go package of the internal type.
fn internal_package(kind: &KindSchema) -> &'static str {
    match kind.group {
        "apps" => "apps",
        "authentication.k8s.io" => "authentication",
        "authorization.k8s.io" => "authorization",
        "autoscaling" => "autoscaling",
        "coordination.k8s.io" => "coordination",
        "discovery.k8s.io" => "discovery",
        "networking.k8s.io" => "networking",
        "policy" => "policy",
        _ => "core",
    }
}
