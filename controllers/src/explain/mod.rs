//! Why pods are endpoints or are not, and where addresses and ports come from: pure functions from a snapshot of objects
//! to explanations that serialize.
//!
//! ```text
//!   objects -> snapshot -> planned (the controllers' own plans) -> pods, near, hinted, legacy, policies, origin -> report
//! ```
//!
//! Owns the schema of explanations (`report`, `reason`) and what of an object is kept for them (`snapshot`). It decides
//! nothing of its own: whether a pod is an endpoint is `crate::verdict`'s to say, and what would be written the plans'.

mod claims;
mod details;
mod findings;
mod hinted;
pub mod kind;
mod legacy;
mod near;
mod origin;
mod others;
pub(crate) mod planned;
mod pods;
mod policies;
pub mod reason;
pub mod report;
mod service;
pub mod snapshot;
#[cfg(test)]
mod tests;
mod values;
mod wire;

pub use kind::Kind;
pub use others::{pod, slice};
pub use reason::Reason;
pub use service::service;
pub use snapshot::{Snapshot, Subject};
pub use values::{address, cidr, node_port};

/// What an explanation depends on beside the objects: how the controllers are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// At most so many endpoints are put into one slice.
    pub max_endpoints_per_slice: usize,
    /// The time, in seconds since 1970: a ServiceCIDR stays a moment after its deletion.
    pub now: i64,
}

impl Default for Question {
    fn default() -> Self {
        Self { max_endpoints_per_slice: 100, now: 0 }
    }
}

/// Names that are like one that does not exist, of pods, slices or ServiceCIDRs; the most like first.
#[must_use]
pub fn near_names(snapshot: &Snapshot, subject: &Subject) -> Vec<String> {
    match subject {
        Subject::Service { namespace, name } => near_services(snapshot, namespace, name),
        Subject::Pod { namespace, name } => {
            let space = snapshot.index.namespace(namespace);
            near::near_names(name, space.into_iter().flat_map(|space| space.pods.names()).map(|name| &**name))
        }
        Subject::Slice { namespace, name } => near::near_names(name, snapshot.slice_names(namespace)),
        Subject::Cidr(name) => {
            near::near_names(name, snapshot.cidrs.iter().filter_map(|cidr| cidr.metadata.name.as_deref()))
        }
        Subject::Address(_) | Subject::NodePort(_) | Subject::Selected { .. } | Subject::All => Vec::new(),
    }
}

/// Names of Services that are like one that does not exist, the most like first; of other namespaces as `namespace/name`.
#[must_use]
fn near_services(snapshot: &Snapshot, namespace: &str, name: &str) -> Vec<String> {
    let all = || snapshot.service_names.iter();
    let same = all().filter(|(other, _)| other != namespace).filter(|(_, other)| other == name);
    let elsewhere = same.map(|(namespace, name)| format!("{namespace}/{name}"));
    let own = all().filter(|(other, _)| other == namespace).map(|(_, name)| name.as_str());
    near::near_names(name, own).into_iter().chain(elsewhere).take(5).collect()
}
