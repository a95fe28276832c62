//! ServicePool: which part of the ranges the Services of a selector get.
//!
//! The ledger's pools are made anew when one is stored or gone.

use serde_json::Value;
use service_api::crds::servicepool;
use service_api::errors::FieldErrors;

use super::{own, typed};
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of ServicePool.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServicePool;

impl Strategy for ServicePool {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, servicepool::default);
    }

    fn prepare_create(&self, obj: &mut Value) {
        typed::edit(obj, servicepool::prepare_create);
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        own::judge(obj, servicepool::validate_create)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        if sub == Subresource::Status {
            typed::edit_update(new, old, servicepool::prepare_status_update);
        } else {
            typed::edit_update(new, old, servicepool::prepare_update);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
        match sub {
            Subresource::Status => own::judge_update(new, old, servicepool::validate_status_update),
            _ => own::judge_update(new, old, servicepool::validate_update),
        }
    }
}
