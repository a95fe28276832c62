//! Where in the lab's network a container's programs run. Owns no program, and starts none.

use crate::{namespace::Namespace, upload::Uploads};

/// Where a command runs.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The pod's namespace.
    pub namespace: Namespace,
    /// The pod's host name.
    pub host: String,
    /// What it has as `/etc/resolv.conf`; none for the machine's.
    pub resolver: Option<String>,
    /// The image of the container.
    pub image: String,
    /// The files that were sent to the pod.
    pub uploads: Uploads,
}
