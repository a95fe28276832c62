//! Why the controllers stop or do not start.

/// An error of the set of controllers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process holds the lease now; this one must not write any more.
    #[error("the lease {namespace}/{name} was lost: {why}; exit and start again to stand by")]
    LeaseLost {
        /// Namespace of the lease.
        namespace: String,
        /// Name of the lease.
        name: String,
        /// What happened.
        why: String,
    },
    /// A controller name in the settings.
    #[error("unknown controller {0:?}; known are {known}, * for all, and -NAME to leave one out", known = known())]
    UnknownController(String),
    /// A task of the set ended in a panic.
    #[error("a task of the controllers ended unexpectedly: {0}")]
    Task(#[from] tokio::task::JoinError),
}

fn known() -> String {
    crate::watch::world::Controller::ALL.map(crate::watch::world::Controller::name).join(", ")
}

impl Error {
    /// A stable name for metrics and Events.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::LeaseLost { .. } => "LeaseLost",
            Self::UnknownController(_) => "UnknownController",
            Self::Task(_) => "Task",
        }
    }
}
