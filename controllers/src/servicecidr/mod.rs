//! The ServiceCIDR controller: a range is not removed while addresses depend on it (KEP-1880).
//!
//! `plan` decides, `state` keeps ranges and addresses and turns decisions into requests.

pub mod plan;
pub mod state;
