//! Endpoints: the rules of `service_api` on stored JSON.

use serde_json::Value;
use service_api::endpoints;

use super::typed;
use crate::registry::strategy::{Findings, Strategy, Subresource};

/// The rules of Endpoints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Endpoints;

impl Strategy for Endpoints {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, endpoints::default);
    }

    fn check_create(&self, obj: &mut Value) -> Findings {
        typed::check_create(obj, endpoints::prepare_create, |new| {
            Findings::new(endpoints::validate_create(new), || endpoints::warnings(new, None))
        })
    }

    fn deprecation(&self) -> Option<&'static str> {
        Some(endpoints::DEPRECATED)
    }

    fn check_update(&self, new: &mut Value, old: &Value, _sub: Subresource) -> Findings {
        typed::check_update(new, old, endpoints::prepare_update, |new, old| {
            Findings::new(endpoints::validate_update(new, old), || endpoints::warnings(new, Some(old)))
        })
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("services/endpoints")
    }

    fn create_on_update(&self) -> bool {
        true
    }
}
