//! Why the controllers stop or do not start.

/// An error of the set of controllers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process holds the lease now, or may soon; this one must not write any more.
    #[error("the lease {namespace}/{name} was lost; start again to stand by")]
    LeaseLost {
        /// Namespace of the lease.
        namespace: String,
        /// Name of the lease.
        name: String,
    },
    /// A task of the set ended in a panic.
    #[error("a task of the controllers ended unexpectedly, which is a fault of ours: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    /// A stable name for metrics and Events.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::LeaseLost { .. } => "LeaseLost",
            Self::Task(_) => "Task",
        }
    }
}
