//! The packet rules: what they are, how they differ, how they look as text, where a packet lands, and how the kernel gets them.
//!
//! Owns the model of one table. It knows nothing of Services: [`crate::plan`] fills the model.

pub mod diff;
pub mod fake;
pub mod json;
pub mod model;
pub mod netlink;
pub mod render;
pub mod run;
pub mod trace;
pub mod wire;
