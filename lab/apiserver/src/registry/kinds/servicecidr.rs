//! ServiceCIDR: a range that Services take addresses from.
//!
//! The ledger takes it up when it is stored and drops it when it is gone or says that it is not ready. Source: KEP-1880.

use serde_json::Value;
use service_api::servicecidr;

use super::typed;
use crate::registry::strategy::{Findings, Strategy, Subresource};

/// The rules of ServiceCIDR.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceCIDR;

impl Strategy for ServiceCIDR {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, servicecidr::default);
    }

    fn check_create(&self, obj: &mut Value) -> Findings {
        typed::check_create(obj, servicecidr::prepare_create, |new| {
            Findings::new(servicecidr::validate_create(new), Vec::new)
        })
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        if sub == Subresource::Status {
            typed::edit_update(new, old, servicecidr::prepare_status_update);
        } else {
            typed::edit_update(new, old, servicecidr::prepare_update);
        }
    }

    fn check_update(&self, new: &mut Value, old: &Value, sub: Subresource) -> Findings {
        if sub == Subresource::Status {
            return typed::check_update(new, old, servicecidr::prepare_status_update, |new, old| {
                Findings::new(servicecidr::validate_status_update(new, old), Vec::new)
            });
        }
        typed::check_update(new, old, servicecidr::prepare_update, |new, old| {
            Findings::new(servicecidr::validate_update(new, old), Vec::new)
        })
    }
}
