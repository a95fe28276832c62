//! The ServiceCIDR controller: a range is not removed while addresses depend on it (KEP-1880).
//!
//! A kube-runtime `Controller` with its `finalizer`. `reconcile` is its table of contents, `run` puts it on the watch that all
//! kinds have, `state` is what is remembered of the ranges, `object` what is read of a ServiceCIDR, `plan` decides, and
//! `apply` writes.

mod apply;
pub(crate) mod object;
pub mod plan;
pub(crate) mod reconcile;
pub(crate) mod run;
pub(crate) mod state;
