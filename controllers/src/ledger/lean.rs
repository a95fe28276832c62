//! Services and IPAddresses as a watch reads them: without what nothing here is decided on.
//!
//! Owns what is left out: managed fields, which are half of an object, and status. What is read is of the usual types.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::networking::v1::{IPAddress, IPAddressSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};

use super::watched;
use crate::objects::{IdentityWire, ObjectKind, Watched};

/// A kind that is read lean.
pub(super) trait Kept: Sized + Clone + Debug + Send + Sync + 'static {
    const KIND: ObjectKind;
    type Spec: for<'de> Deserialize<'de> + Default;

    /// The object of these parts.
    fn of(metadata: ObjectMeta, spec: Self::Spec) -> Self;

    fn metadata(&self) -> &ObjectMeta;
}

impl Kept for Service {
    const KIND: ObjectKind = ObjectKind::Services;
    type Spec = ServiceSpec;

    fn of(metadata: ObjectMeta, spec: ServiceSpec) -> Self {
        Self { metadata, spec: Some(spec), status: None }
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Kept for IPAddress {
    const KIND: ObjectKind = ObjectKind::Addresses;
    type Spec = IPAddressSpec;

    fn of(metadata: ObjectMeta, spec: IPAddressSpec) -> Self {
        Self { metadata, spec }
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// An object of a kind, read lean.
#[derive(Debug, Clone)]
pub(super) struct Lean<K>(pub(super) K);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(bound = "S: Deserialize<'de> + Default")]
struct Parts<S> {
    metadata: Meta,
    #[serde(default)]
    spec: S,
}

impl<'de, K: Kept> Deserialize<'de> for Lean<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Parts { metadata, spec } = Parts::<K::Spec>::deserialize(deserializer)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            ..ObjectMeta::default()
        };
        Ok(Self(K::of(metadata, spec)))
    }
}

impl<K: Kept> Watched for Lean<K> {
    const KIND: ObjectKind = K::KIND;

    fn version(&self) -> &str {
        watched::version(self.0.metadata())
    }

    fn identity(&self) -> IdentityWire {
        watched::identity(self.0.metadata())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_decided_on_is_read_and_the_rest_is_not() {
        let object = json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop", "uid": "u",
                "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3,
                "labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["x/y"],
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]},
            "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80}]}, "status": {"loadBalancer": {}}});
        let Lean(lean) = serde_json::from_value::<Lean<Service>>(object.clone()).unwrap();
        let mut whole: Service = serde_json::from_value(object).unwrap();
        whole.metadata.managed_fields = None;
        whole.metadata.generation = None;
        whole.status = None;
        assert_eq!(lean, whole);
    }
}
