//! NodePort: a port of every node that is taken, and by whom.
//!
//! Creating one is taking the port, deleting it gives the port back; the ledger follows the objects. Those of Services
//! are written with the Service.

use jiff::Timestamp;
use serde_json::{Value, json};
use service_api::crds::nodeport::{self, NodePortSpec, PortParent};
use service_api::crds::{GROUP, VERSION};
use service_api::errors::FieldErrors;

use super::{own, typed};
use crate::registry::strategy::{Strategy, Subresource};

pub(crate) const RESOURCE: &str = "nodeports";

/// The rules of NodePort.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodePort;

impl Strategy for NodePort {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, nodeport::default);
    }

    fn prepare_create(&self, obj: &mut Value) {
        typed::edit(obj, nodeport::prepare_create);
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        own::judge(obj, nodeport::validate_create)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _sub: Subresource) {
        typed::edit_update(new, old, nodeport::prepare_update);
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        own::judge_update(new, old, nodeport::validate_update)
    }
}

/// The NodePort of this name with this spec; `held` is what is stored of it now.
pub(crate) fn object(name: &str, spec: &NodePortSpec, held: Option<Value>, now: Timestamp) -> Value {
    let mut object = held.unwrap_or_else(|| {
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "NodePort",
            "metadata": {
                "name": name, "uid": uuid::Uuid::new_v4().to_string(),
                "creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            },
        })
    });
    object["spec"] = json!(spec);
    object
}

/// Is the port that of this holder?
pub(crate) fn belongs_to(port: &Value, parent: &PortParent) -> bool {
    port.pointer("/spec/parentRef").is_some_and(|held| *held == json!(parent))
}

/// Has the stored port this spec already?
pub(crate) fn says(port: &Value, spec: &NodePortSpec) -> bool {
    port.get("spec").is_some_and(|held| *held == json!(spec))
}
