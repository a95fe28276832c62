//! Our own kinds: what holds a node port, which ranges there are, and what is given to whom.
//!
//! Owns the Rust types from which the CustomResourceDefinitions under `manifests/crds` are made, and the same rules as
//! functions for a server that does not run CEL. It never chooses a port or an address and never counts what is taken.
//!
//! ```text
//!   NodePortRange   as ServiceCIDR: which ports there are, and for what kind of choice
//!   NodePort        as IPAddress: creating it is taking the port, deleting it gives the port back
//!   ServicePool     which part of the ranges the Services of a selector get
//! ```

pub mod nodeport;
pub mod nodeportrange;
pub mod servicepool;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt as _;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use nodeport::{NodePort, NodePortSpec};
pub use nodeportrange::{NodePortRange, NodePortRangeSpec, NodePortRangeStatus, Role};
pub use servicepool::{Fallback, Reservation, ServicePool, ServicePoolSpec, ServicePoolStatus};

/// The API group of our kinds.
pub const GROUP: &str = "service-control-plane.io";
/// Its only version so far.
pub const VERSION: &str = "v1alpha1";

/// The largest port number.
pub const LAST_PORT: i32 = 65535;

/// Ports from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(crates(kube_core = "::kube_core"), validation = ("self.firstPort <= self.lastPort", "the last port comes before the first"))]
pub struct PortSpan {
    /// The first port.
    #[schemars(range(min = 1, max = 65535))]
    pub first_port: i32,
    /// The last port.
    #[schemars(range(min = 1, max = 65535))]
    pub last_port: i32,
}

/// How many values of one part are taken, and how many can still be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fill {
    /// Values that are taken.
    pub used: i64,
    /// Values that are not; no more than the largest 64-bit number.
    pub free: i64,
}

impl Fill {
    /// From counts of any size.
    pub fn of(used: u64, free: u64) -> Self {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Self { used: number(used), free: number(free) }
    }
}

/// [`Fill`] of each band.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BandFill {
    /// The band that automatic choice leaves alone as long as it can.
    pub lower: Fill,
    /// The band that automatic choice takes from first.
    pub upper: Fill,
}

/// The definitions of all kinds, in the order of their names.
pub fn definitions() -> [CustomResourceDefinition; 3] {
    [NodePortRange::crd(), NodePort::crd(), ServicePool::crd()]
}
