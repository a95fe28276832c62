//! The label, annotation and manager names that the controllers read and write.
//!
//! Owns nothing but constants; it never interprets them.

/// Label of an `EndpointSlice`: the Service it belongs to (KEP-752).
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of an `EndpointSlice`: the controller that keeps it (KEP-752).
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Label of slices and `Endpoints` whose Service has no cluster IP.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// Value of [`MANAGED_BY`] for slices made from pods.
pub const SLICE_MANAGER: &str = "endpointslice-controller.k8s.io";
/// Value of [`MANAGED_BY`] for slices mirrored from custom `Endpoints`.
pub const MIRROR_MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Label of `Endpoints` written by the Endpoints controller.
pub const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Value of [`ENDPOINTS_MANAGED_BY`].
pub const ENDPOINTS_MANAGER: &str = "endpoint-controller";
/// Annotation: the moment of the change that caused the latest write.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Annotation of `Endpoints` that had to be cut to 1000 addresses.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Label of `Endpoints` that must not be mirrored.
pub const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation that marks an object as the lock of a leader election.
pub const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotation kept by `kubectl apply`.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotation of a Service that asks for topology hints (KEP-2433).
pub const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The older name of [`TOPOLOGY_MODE`].
pub const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// Label of a node: its zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Labels that take a node out of the topology account.
pub const CONTROL_PLANE_ROLES: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
/// Finalizer of a `ServiceCIDR` whose addresses may be in use (KEP-1880).
pub const SERVICE_CIDR_FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Label of an `IPAddress`: the controller that keeps it (KEP-1880).
pub const IPADDRESS_MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// Value of [`IPADDRESS_MANAGED_BY`] for addresses of Services.
pub const IPADDRESS_MANAGER: &str = "ipallocator.k8s.io";
/// Label of an `IPAddress`: `IPv4` or `IPv6`.
pub const IP_FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
/// Annotation of an Event: the number of the reconcile that led to it, as in the log.
pub const RECONCILE_ID: &str = "service-control-plane.io/reconcile-id";

/// The user agent of all requests of the controllers.
pub const USER_AGENT: &str = "service-controller-manager";

/// Whether a label of a slice is the controller's own business and neither copied from the Service
/// nor compared with it.
#[must_use]
pub fn is_reserved(label: &str) -> bool {
    label == SERVICE_NAME || label == MANAGED_BY || label == HEADLESS
}
