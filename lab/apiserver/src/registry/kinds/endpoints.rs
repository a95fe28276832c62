//! Endpoints: the rules of `service_api` on stored JSON.

use serde_json::Value;
use service_api::endpoints;
use service_api::errors::FieldErrors;

use super::typed;
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of Endpoints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Endpoints;

impl Strategy for Endpoints {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, endpoints::default);
    }

    fn prepare_create(&self, obj: &mut Value) {
        typed::edit(obj, endpoints::prepare_create);
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        typed::judge(obj, endpoints::validate_create)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, _sub: Subresource) -> Vec<String> {
        typed::warn(new, old, endpoints::warnings)
    }

    fn deprecation(&self) -> Option<&'static str> {
        Some(endpoints::DEPRECATED)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _sub: Subresource) {
        typed::edit_update(new, old, endpoints::prepare_update);
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        typed::judge_update(new, old, endpoints::validate_update)
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("services/endpoints")
    }

    fn create_on_update(&self) -> bool {
        true
    }
}
