//! What a Service means: defaulting, what a create or update may leave out or must drop,
//! validation, and warnings.
//!
//! Choosing addresses, families and ports is not done here; see `service-allocators`.
//! Rules: Service v1 reference; KEP-563 (dual-stack), KEP-1864 (LB node ports), KEP-2086
//! (internalTrafficPolicy), KEP-1860 (ipMode), KEP-4444 (trafficDistribution), KEP-5311 (names).

mod default;
mod families;
mod fields;
mod node_ports;
mod prepare;
mod status_rules;
mod validate;
mod validate_ports;
mod validate_update;
mod warnings;

pub use default::default;
pub use families::validate_cluster_ips;
pub use fields::{
    CLUSTER_IP_NONE, cluster_ip, cluster_ips, externally_accessible, families, is_headless, needs_cluster_ip,
    needs_health_check, needs_node_port, policy, ports, protocol, spec_of, type_of,
};
pub use node_ports::carry_over_node_ports;
pub use prepare::{carry_over, drop_type_dependent, prepare_create, prepare_status_update, prepare_update};
pub use status_rules::{status_warnings, validate_load_balancer_status, validate_status_update};
pub use validate::validate_create;
pub(crate) use validate_ports::PROTOCOLS;
pub use validate_ports::{MAX_PORTS, port_faults};
pub use validate_update::validate_update;
pub use warnings::warnings;
