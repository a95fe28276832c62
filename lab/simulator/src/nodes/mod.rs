//! Simulated nodes: Node objects, a trivial scheduler, kubelets without containers, and what happens to the pods of a node
//! that is lost.
//!
//! Pods bound to a simulated node get an address from its pod range, start, become ready, fail, flap and end as their
//! annotations say, all by the clock; nothing runs and nothing listens. What a pod looks like at a moment is a pure
//! function ([`lifecycle`]); this module only asks it when an event or a moment comes, and writes the answer through
//! the same verbs that HTTP uses. Where pods do run, somebody asks their probes ([`Prober`]), and what they find counts.

use std::sync::Arc;

mod kubelet;
mod lifecycle;
mod loss;
mod probes;
mod probing;
mod registration;
mod runner;
mod scheduler;
pub mod simulated_node;
mod taints;

#[cfg(test)]
mod tests;

pub use loss::{Times, run as watch_over};
pub use probing::{Ended, Found};
pub use runner::{ProbeRequest, Prober, run};
pub use simulated_node::{Settings, SettingsError, SimulatedNode, simulated_nodes};

/// Namespace and name of a pod.
type Key = (Arc<str>, Arc<str>);
