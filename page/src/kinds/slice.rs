//! EndpointSlices: counted for the list of Services, and read in full for one of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{Kind, Shown, list, slim, text};

/// The label that names a slice's Service.
pub(crate) const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The label that says who keeps it.
const MANAGER_LABEL: &str = "endpointslice.kubernetes.io/managed-by";

/// What is read of an EndpointSlice.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Slice {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) address_type: String,
    #[serde(default, deserialize_with = "list")]
    pub(crate) ports: Vec<SlicePort>,
    #[serde(default, deserialize_with = "list")]
    pub(crate) endpoints: Vec<Endpoint>,
}

/// A port of a slice.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct SlicePort {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<i32>,
}

/// An endpoint.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Endpoint {
    #[serde(deserialize_with = "list")]
    pub(crate) addresses: Vec<String>,
    pub(crate) conditions: Conditions,
    pub(crate) hostname: Option<String>,
    pub(crate) target_ref: Option<Target>,
    pub(crate) node_name: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) hints: Option<Hints>,
}

/// An endpoint's conditions; what is not said counts as the API says.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

/// What an endpoint stands for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Target {
    pub(crate) kind: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
}

/// Whose traffic an endpoint is meant for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Hints {
    #[serde(deserialize_with = "list")]
    for_zones: Vec<Named>,
    #[serde(deserialize_with = "list")]
    for_nodes: Vec<Named>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

impl Hints {
    /// The zones whose traffic it is.
    pub(crate) fn zones(&self) -> impl Iterator<Item = &str> {
        self.for_zones.iter().map(|zone| zone.name.as_str())
    }

    /// The nodes whose traffic it is.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.for_nodes.iter().map(|node| node.name.as_str())
    }

    fn is_empty(&self) -> bool {
        self.for_zones.is_empty() && self.for_nodes.is_empty()
    }
}

/// What an endpoint's conditions mean for traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Condition {
    /// It gets traffic.
    Ready,
    /// It goes, and gets traffic only while none is ready.
    Serving,
    /// It goes and serves no more.
    Terminating,
    /// It gets no traffic.
    Unready,
}

impl Conditions {
    /// What they mean: `ready` counts as true where it is not said, `serving` as `ready`, `terminating` as false.
    pub(crate) fn meaning(self) -> Condition {
        let ready = self.ready.unwrap_or(true);
        let serving = self.serving.unwrap_or(ready);
        match (self.terminating.unwrap_or(false), ready, serving) {
            (_, true, _) => Condition::Ready,
            (true, false, true) => Condition::Serving,
            (true, false, false) => Condition::Terminating,
            (false, false, _) => Condition::Unready,
        }
    }
}

/// A slice as the list of Services needs it.
#[derive(Serialize)]
struct Row<'a> {
    ns: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<&'a str>,
    family: &'a str,
    /// So many endpoints are ready, serving while they go, terminating, and not ready.
    counts: [usize; 4],
    #[serde(skip_serializing_if = "is_zero")]
    hinted: usize,
    /// Changes with each write, so that who shows the slice knows when to read it again.
    version: &'a str,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands out references
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Slice {
    /// The Service that it belongs to.
    pub(crate) fn service(&self) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(SERVICE_LABEL).map(String::as_str)
    }

    /// Who keeps it.
    pub(crate) fn manager(&self) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(MANAGER_LABEL).map(String::as_str)
    }
}

impl Shown for Slice {
    const KIND: Kind = Kind::Slices;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn row(&self) -> String {
        let mut counts = [0; 4];
        for endpoint in &self.endpoints {
            counts[endpoint.conditions.meaning() as usize] += 1;
        }
        let hinted = |endpoint: &&Endpoint| endpoint.hints.as_ref().is_some_and(|hints| !hints.is_empty());
        text(&Row {
            ns: self.metadata.namespace.as_deref().unwrap_or_default(),
            name: self.metadata.name.as_deref().unwrap_or_default(),
            service: self.service(),
            family: &self.address_type,
            counts,
            hinted: self.endpoints.iter().filter(hinted).count(),
            version: self.metadata.resource_version.as_deref().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case(json!({}), Condition::Ready)]
    #[case(json!({"ready": false}), Condition::Unready)]
    #[case(json!({"ready": false, "serving": true, "terminating": true}), Condition::Serving)]
    #[case(json!({"ready": false, "serving": false, "terminating": true}), Condition::Terminating)]
    // publishNotReadyAddresses: it gets traffic, whatever else is said.
    #[case(json!({"ready": true, "serving": false, "terminating": true}), Condition::Ready)]
    fn conditions(#[case] given: Value, #[case] expected: Condition) {
        assert_eq!(serde_json::from_value::<Conditions>(given).unwrap().meaning(), expected);
    }

    #[test]
    fn a_slice_is_counted() {
        let slice: Slice = serde_json::from_value(json!({
            "metadata": {"namespace": "demo", "name": "hello-x", "resourceVersion": "7", "labels": {SERVICE_LABEL: "hello"}},
            "addressType": "IPv4", "ports": null,
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "hints": {"forZones": [{"name": "a"}]}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}, "hints": {}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": true, "terminating": true}}
            ]
        }))
        .unwrap();
        let expected = json!({"ns": "demo", "name": "hello-x", "service": "hello", "family": "IPv4", "counts": [1, 1, 0, 1], "hinted": 1, "version": "7"});
        assert_eq!(serde_json::from_str::<Value>(&slice.row()).unwrap(), expected);
    }
}
