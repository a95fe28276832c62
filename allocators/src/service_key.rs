//! The name of a Service, cheap to copy.
//!
//! Owns nothing else: what a Service holds is the ledgers' business.

use std::fmt;
use std::sync::Arc;

/// The namespace and name of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey(Arc<(Box<str>, Box<str>)>);

impl ServiceKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self(Arc::new((namespace.into().into_boxed_str(), name.into().into_boxed_str())))
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.0.0
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.1
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace(), self.name())
    }
}
