//! EndpointSlice: the rules of `service_api` on stored JSON.

use serde_json::Value;
use service_api::endpointslice;

use super::typed;
use crate::registry::strategy::{Findings, Strategy, Subresource};

/// The rules of EndpointSlice.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, endpointslice::default);
    }

    fn check_create(&self, obj: &mut Value) -> Findings {
        typed::check_create(obj, endpointslice::prepare_create, |new| {
            Findings::new(endpointslice::validate_create(new), || endpointslice::warnings(new, None))
        })
    }

    fn check_update(&self, new: &mut Value, old: &Value, _sub: Subresource) -> Findings {
        typed::check_update(new, old, endpointslice::prepare_update, |new, old| {
            Findings::new(endpointslice::validate_update(new, old), || {
                endpointslice::warnings(new, Some(old))
            })
        })
    }
}
