//! Why a pool does not give a value.
//!
//! Owns the texts that a user sees. It never decides anything.

use crate::service_key::ServiceKey;
use crate::value::{Seconds, Value};

/// Why a pool does not give a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolRefusal {
    /// Kept for another Service.
    #[error("{value} is reserved for Service {owner} by ServicePool {pool}")]
    Reserved {
        /// The value.
        value: Value,
        /// For whom.
        owner: ServiceKey,
        /// By which pool.
        pool: String,
    },
    /// Given back a short time ago.
    #[error("{value} was given back {}and ServicePool {pool} keeps it from others for another {left} s", by(.owner.as_ref()))]
    Cooling {
        /// The value.
        value: Value,
        /// Who gave it back, where that is known.
        owner: Option<ServiceKey>,
        /// The pool.
        pool: String,
        /// For how long.
        left: Seconds,
    },
    /// In a pool that is for others alone.
    #[error("{value} is in ServicePool {pool}, which is for other Services alone")]
    Exclusive {
        /// The value.
        value: Value,
        /// The pool.
        pool: String,
    },
    /// Not in the Service's own pool.
    #[error("{value} is outside of ServicePool {pool}, which this Service takes its values from")]
    Outside {
        /// The value.
        value: Value,
        /// The pool.
        pool: String,
    },
    /// Nothing left, and nothing from elsewhere.
    #[error("ServicePool {pool} has nothing left and allows no value from elsewhere")]
    Full {
        /// The pool.
        pool: String,
    },
}

fn by(owner: Option<&ServiceKey>) -> String {
    owner.map(|owner| format!("by Service {owner} ")).unwrap_or_default()
}
