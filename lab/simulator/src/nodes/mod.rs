//! Simulated nodes: Node objects, a trivial scheduler, and kubelets without containers.
//!
//! Pods bound to a simulated node get an address from its pod range, start, become ready, fail, flap and end as their
//! annotations say, all by the clock; nothing runs and nothing listens. What a pod looks like at a moment is a pure
//! function ([`lifecycle`]); this module only asks it when an event or a moment comes, and writes the answer through
//! the same verbs that HTTP uses.

pub mod lifecycle;
pub mod machine;
mod probes;
mod runner;
mod scheduler;

#[cfg(test)]
mod tests;

pub use machine::{Machine, Settings, SettingsError, machines};
pub use runner::run;
