//! EndpointSlice: the rules of `service_api` on stored JSON.

use serde_json::Value;
use service_api::endpointslice;
use service_api::errors::FieldErrors;

use super::typed;
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of EndpointSlice.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, endpointslice::default);
    }

    fn prepare_create(&self, obj: &mut Value) {
        typed::edit(obj, endpointslice::prepare_create);
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        typed::judge(obj, endpointslice::validate_create)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, _sub: Subresource) -> Vec<String> {
        typed::warn(new, old, endpointslice::warnings)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _sub: Subresource) {
        typed::edit_update(new, old, endpointslice::prepare_update);
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        typed::judge_update(new, old, endpointslice::validate_update)
    }
}
