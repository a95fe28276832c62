//! Why an address, a port or a whole Service is refused, in upstream's words.
//!
//! Owns the texts that clients see. It never decides anything.

use std::fmt;
use std::net::IpAddr;

use service_api::errors::{FieldErrors, aggregate};

use crate::prefix::ServicePrefix;
use crate::refusal::PoolRefusal;

/// Why an address can not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No ready range can give it away.
    #[error("the provided network does not match the current range")]
    MismatchedNetwork,
    /// A ready range covers it, as its network or broadcast address.
    #[error(
        "provided IP can not be given to a Service, the usable addresses of {prefix} are {first} to {last}"
    )]
    NotUsable {
        /// The range.
        prefix: ServicePrefix,
        /// Its first usable address.
        first: IpAddr,
        /// Its last usable address.
        last: IpAddr,
    },
    /// A dry run's way to say that no range has it.
    #[error("provided IP is not in the valid range. The range of valid IPs is {0}")]
    NotInRange(ServicePrefix),
    /// It is taken.
    #[error("provided IP is already allocated")]
    Allocated,
    /// No address is left.
    #[error("range is full")]
    Full,
    /// No range is ready.
    #[error("allocator not ready")]
    NotReady,
    /// A pool keeps it.
    #[error(transparent)]
    Pool(#[from] PoolRefusal),
}

/// Why a Service is refused. Nothing has been taken.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanError {
    /// A 422 with these causes, in upstream's order.
    Invalid(FieldErrors),
    /// A 500 `InternalError` that is not the user's mistake, such as a range that is full; the
    /// text goes into its one cause, and behind `Internal error occurred: ` into its message.
    Internal(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(errors) => f.write_str(&aggregate(errors)),
            Self::Internal(text) => write!(f, "Internal error occurred: {text}"),
        }
    }
}

impl std::error::Error for PlanError {}
