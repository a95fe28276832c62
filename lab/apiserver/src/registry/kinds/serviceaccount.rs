//! ServiceAccount: a name, as far as the lab goes.

use serde_json::Value;
use service_api::errors::FieldErrors;
use service_api::meta::Naming;

use super::meta;
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of ServiceAccount.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn validate_create(&self, obj: &Value) -> FieldErrors {
        meta::faults(obj, Naming::SUBDOMAIN)
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        meta::update_faults(new, old)
    }

    fn returns_deleted(&self) -> bool {
        true
    }
}
