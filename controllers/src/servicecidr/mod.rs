//! The ServiceCIDR controller: a range is not removed while addresses depend on it (KEP-1880).
//!
//! A kube-runtime `Controller` with its `finalizer`. `reconcile` is its table of contents, `object` what is read of a
//! ServiceCIDR and written to it, `plan` decides.

pub mod object;
pub mod plan;
pub mod reconcile;
