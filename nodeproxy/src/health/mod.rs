//! What load balancers, the kubelet and people ask over HTTP: whether this proxy works, whether this node has endpoints of a
//! Service, metrics.
//!
//! Owns the ports and the state behind the answers. It decides nothing about rules.

mod ports;
mod server;
mod state;

pub use ports::{HealthPorts, Wanted};
pub use server::{BindError, Servers, bind};
pub use state::{Health, Shown};
