//! Which address and which port a Service gets.
//!
//! ```text
//!   Service (defaulted)                      ServiceCIDRs, IPAddresses, stored Services
//!        |                                        |
//!        v                                        v
//!   plan::Ledger::plan_*  --- reads --->  plan::Ledger { addresses, ports }
//!        |  families   ipFamilies, ipFamilyPolicy        |          |
//!        |  pools      ServicePools: whose part           |          |
//!        |                                               v          v
//!        v                                              ip        port      prefix, bands
//!   plan::Plan  --- commit, with the objects, --->        \        /
//!               in the caller's transaction                 free        k-th free number
//! ```
//!
//! This crate owns the arithmetic of ranges and bands, the sets of what is taken, the uniform
//! choice among what is free, and the plan for one Service as a whole. It is pure: it does no I/O,
//! reads no clock, and its randomness is passed in. It never creates an object, so a plan is only
//! true once its caller has stored the Service and its IPAddress objects together.

pub mod audit;
pub mod bands;
pub mod error;
pub mod families;
pub mod free;
pub mod ip;
pub mod live;
mod pick;
pub mod plan;
pub mod pools;
pub mod port;
pub mod prefix;
pub mod ranges;
mod refusal;
mod service_key;
mod spec;
mod value;

pub use audit::{Claim, Finding, Holding, Limits, audit};
pub use error::{AddressError, PlanError};
pub use families::ClusterFamilies;
pub use ip::{AddressLedger, RangeState, RangeUsage};
pub use live::LiveLedger;
pub use plan::{Ledger, Plan, PlanOptions, PortClaim};
pub use port::{NodePortRange, PortError, PortLedger, PortRanges, PortSharing, Protocols};
pub use prefix::{Family, ServicePrefix};
pub use service_key::ServiceKey;
