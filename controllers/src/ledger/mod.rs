//! What is known of all Services' addresses and node ports, for whoever decides on them.
//!
//! ```text
//!   watches --> feed --> Known: live ledger, entries by parent, Services, ranges, pools
//!                          |
//!                          +--> what changed, told to the listener
//! ```
//!
//! Owns one watch per kind and the state that follows from their events. It decides nothing and writes nothing. Whoever
//! wrote something puts the answer in as the watch would, so that nobody decides on less than what was written here.

mod entry;
mod feed;
mod known;
mod lean;
mod services;
mod watched;

use std::sync::Arc;

use parking_lot::Mutex;
use service_allocators::{NodePortRange, PortSharing};

pub use entry::{Entry, EntryKind, IN_USE, LAST_CLAIM, MANAGED_BY, MANAGER, SERVICE_UID};
pub use feed::{Fed, Wanted, feed};
pub use known::{Changes, Happened, Known, Mark};
pub use services::Facts;

/// What is told of changes.
type Listener = Box<dyn Fn(Changes) + Send + Sync>;

/// What is known, shared by those who ask and those who tell.
#[derive(Clone)]
pub struct Ledger(Arc<Shared>);

struct Shared {
    known: Mutex<Known>,
    listener: Listener,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl Ledger {
    /// A ledger that knows nothing yet; `node_ports` are those of a cluster without NodePortRanges, and `listener` is told
    /// of every change, outside of any lock.
    pub fn new(
        node_ports: NodePortRange,
        sharing: PortSharing,
        listener: impl Fn(Changes) + Send + Sync + 'static,
    ) -> Self {
        let known = Mutex::new(Known::new(node_ports, sharing));
        Self(Arc::new(Shared { known, listener: Box::new(listener) }))
    }

    /// From now on the listener is told of nothing. Whoever begins later looks at all that is known then.
    #[must_use]
    pub(crate) fn silent(self) -> Self {
        self.0.known.lock().keep_silent(true);
        self
    }

    /// From now on the listener is told of every change.
    pub(crate) fn tell(&self) {
        self.0.known.lock().keep_silent(false);
    }

    /// Looks at what is known, or changes it; the listener is told what changed.
    pub fn with<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        let (outcome, changes) = {
            let mut known = self.0.known.lock();
            let outcome = look(&mut known);
            (outcome, known.take_changes())
        };
        if !changes.is_empty() {
            (self.0.listener)(changes);
        }
        outcome
    }
}
