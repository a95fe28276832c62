//! Why a list or a watch came to nothing.

use crate::api::RequestError;

/// A list or watch that came to nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WatchError {
    /// The version it should go on from is not kept any more: a list is needed.
    #[error("the version to continue from has expired: {0}")]
    Expired(String),
    /// The server was put back to an earlier state: a list is needed.
    #[error("the server's versions went back from {from} to {to}")]
    Back {
        /// The last version known.
        from: String,
        /// The version that the server is at.
        to: String,
    },
    /// The server does not answer as it should.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The answer breaks off.
    #[error("the connection broke off: {0}")]
    Broken(String),
    /// The answer is nothing an API server says.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
}
