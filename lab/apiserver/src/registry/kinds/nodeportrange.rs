//! NodePortRange: ports that there are, and for what kind of choice.
//!
//! The ledger takes it up when it is stored and drops it when it is gone.

use serde_json::Value;
use service_api::crds::nodeportrange;
use service_api::errors::FieldErrors;

use super::{own, typed};
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of NodePortRange.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodePortRange;

impl Strategy for NodePortRange {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, nodeportrange::default);
    }

    fn prepare_create(&self, obj: &mut Value) {
        typed::edit(obj, nodeportrange::prepare_create);
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        own::judge(obj, nodeportrange::validate_create)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        if sub == Subresource::Status {
            typed::edit_update(new, old, nodeportrange::prepare_status_update);
        } else {
            typed::edit_update(new, old, nodeportrange::prepare_update);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
        match sub {
            Subresource::Status => own::judge_update(new, old, nodeportrange::validate_status_update),
            _ => own::judge_update(new, old, nodeportrange::validate_update),
        }
    }
}
