//! Why the controllers stop or do not start.

/// An error of the set of controllers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process holds the lease now, or may soon; this one must not write any more.
    #[error("the lease {namespace}/{name} was lost: {why}; start again to stand by")]
    LeaseLost {
        /// Namespace of the lease.
        namespace: String,
        /// Name of the lease.
        name: String,
        /// How.
        why: String,
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

/// An error with its causes, each said once: a client's own text mostly ends before the reason.
#[must_use]
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    #[test]
    fn causes_are_said_once() {
        let link = |text, source: Option<Link>| Link { text, source: source.map(Box::new) };
        let error = link("client: connect", Some(link("connect", Some(link("refused", None)))));
        assert_eq!(with_causes(&error), "client: connect: refused");
    }
}
