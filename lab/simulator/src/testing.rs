//! A lab without a port for the tests of this crate.

use std::sync::Arc;

use service_lab_apiserver::server::{LabConfig, Portless};

use crate::registry::verbs::Api;

/// The verbs of a lab with the cluster's own objects, its cluster IPs in 10.96.0.0/12.
pub(crate) fn api() -> Arc<Api> {
    Portless::open(&LabConfig::local()).unwrap().api()
}
