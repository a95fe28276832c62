//! What explanations read of objects beside what the controllers read: why a pod is not ready, who changed an object, and
//! Events.
//!
//! Owns the form on the wire only.

use serde::Deserialize;

use crate::objects::list;

/// A pod, as far as its readiness is explained.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodDetailWire {
    pub spec: PodSpecDetail,
    pub status: PodStatusDetail,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpecDetail {
    #[serde(deserialize_with = "list")]
    pub readiness_gates: Vec<GateWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GateWire {
    pub condition_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatusDetail {
    pub phase: String,
    pub reason: String,
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<PodConditionWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodConditionWire {
    pub r#type: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
}

/// The part of an object's metadata that says who changed it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HistoryWire {
    pub creation_timestamp: Option<String>,
    #[serde(deserialize_with = "list")]
    pub managed_fields: Vec<ManagerWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ManagerWire {
    pub manager: String,
    pub operation: String,
    pub subresource: String,
    pub time: Option<String>,
}

/// An Event, of whichever of the two groups.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EventWire {
    pub involved_object: InvolvedWire,
    pub r#type: String,
    pub reason: String,
    pub message: String,
    pub count: Option<i64>,
    pub last_timestamp: Option<String>,
    pub first_timestamp: Option<String>,
    pub event_time: Option<String>,
    pub series: Option<SeriesWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InvolvedWire {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SeriesWire {
    pub count: Option<i64>,
    pub last_observed_time: Option<String>,
}
