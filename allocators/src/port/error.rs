//! Why a node port is refused, in upstream's words.

use super::{PortRanges, Protocols, ServiceKey};
use crate::refusal::PoolRefusal;

/// Why a node port can not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// It is outside of the range.
    #[error("provided port is not in the valid range. The range of valid ports is {0}")]
    NotInRange(PortRanges),
    /// It is taken, for just the protocol that was asked for.
    #[error("provided port is already allocated")]
    Allocated,
    /// It is taken, and not only for the protocol that was asked for: say by whom and for what.
    #[error("provided port is already allocated: Service {owner} holds it for {protocols}")]
    Held {
        /// Who holds it.
        owner: ServiceKey,
        /// The protocols it is held for.
        protocols: Protocols,
    },
    /// No port is left.
    #[error("range is full")]
    Full,
    /// A pool keeps it.
    #[error(transparent)]
    Pool(#[from] PoolRefusal),
}
