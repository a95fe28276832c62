//! ServiceCIDR: a range that Services take addresses from.
//!
//! The ledger takes it up when it is stored and drops it when it is gone or says that it is not ready. Source: KEP-1880.

use serde_json::Value;
use service_api::errors::FieldErrors;
use service_api::servicecidr;

use super::typed;
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of ServiceCIDR.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceCIDR;

impl Strategy for ServiceCIDR {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, servicecidr::default);
    }

    fn prepare_create(&self, obj: &mut Value) {
        typed::edit(obj, servicecidr::prepare_create);
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        typed::judge(obj, servicecidr::validate_create)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        if sub == Subresource::Status {
            typed::edit_update(new, old, servicecidr::prepare_status_update);
        } else {
            typed::edit_update(new, old, servicecidr::prepare_update);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
        match sub {
            Subresource::Status => typed::judge_update(new, old, servicecidr::validate_status_update),
            _ => typed::judge_update(new, old, servicecidr::validate_update),
        }
    }
}
