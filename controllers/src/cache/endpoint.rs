//! An endpoint of a slice as it is kept: well under 200 bytes.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Interners, Target};
use crate::objects::EndpointWire;
use crate::text::{Address, Text};

/// Whom an endpoint should serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    /// Zones.
    pub zones: SmallVec<[Text; 1]>,
    /// Nodes.
    pub nodes: SmallVec<[Text; 1]>,
}

impl Hints {
    /// Hints for a node of which nothing but the name is known.
    #[must_use]
    pub fn for_node(name: &Text) -> Self {
        Self { zones: SmallVec::new(), nodes: [Arc::clone(name)].into_iter().collect() }
    }
}

/// An endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Addresses, one in practice.
    pub addresses: SmallVec<[Address; 1]>,
    /// Ready for traffic.
    pub ready: Option<bool>,
    /// Serving, terminating or not.
    pub serving: Option<bool>,
    /// Terminating.
    pub terminating: Option<bool>,
    /// Host name.
    pub hostname: Option<Text>,
    /// What it stands for.
    pub target: Option<Target>,
    /// Node.
    pub node: Option<Text>,
    /// Zone.
    pub zone: Option<Text>,
    /// Whom it should serve.
    pub hints: Option<Arc<Hints>>,
}

impl Endpoint {
    /// Reads an endpoint of a slice in `namespace`.
    pub(crate) fn read(wire: EndpointWire, namespace: &str, shared: &mut Interners) -> Self {
        let hints = wire.hints.map(|h| Hints {
            zones: h.for_zones.iter().map(|z| shared.texts.text(&z.name)).collect(),
            nodes: h.for_nodes.iter().map(|n| shared.texts.text(&n.name)).collect(),
        });
        Self {
            addresses: wire.addresses.iter().map(|a| a.as_str().into()).collect(),
            ready: wire.conditions.ready,
            serving: wire.conditions.serving,
            terminating: wire.conditions.terminating,
            hostname: wire.hostname.as_deref().map(|h| shared.texts.text(h)),
            target: wire.target_ref.map(|t| Target::read(t, namespace, shared)),
            node: wire.node_name.as_deref().map(|n| shared.texts.text(n)),
            zone: wire.zone.as_deref().map(|z| shared.texts.text(z)),
            hints: hints.map(|h| shared.hints(h)),
        }
    }

    /// The name of the pod it stands for.
    #[must_use]
    pub fn pod(&self) -> Option<&Text> {
        match &self.target {
            Some(Target::Pod { name, .. }) => Some(name),
            Some(Target::PodAt(pod)) => Some(&pod.name),
            Some(Target::Other(_)) | None => None,
        }
    }

    /// Whether proxies may send traffic here; an unknown condition counts as ready (API reference).
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready != Some(false)
    }

    /// Whether both stand for the same thing: addresses, host name and the object referred to.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.addresses == other.addresses && self.hostname == other.hostname && self.pod() == other.pod()
    }

    /// The object it stands for, whatever its version.
    #[must_use]
    pub fn unversioned_target(&self) -> Option<Cow<'_, Target>> {
        self.target.as_ref().map(Target::unversioned)
    }

    /// Whether both are equal but for their hints and the version of the object referred to.
    #[must_use]
    pub fn equals_beside_hints(&self, other: &Self) -> bool {
        self.is_same(other)
            && (self.ready, self.serving, self.terminating) == (other.ready, other.serving, other.terminating)
            && self.node == other.node
            && self.zone == other.zone
            && self.unversioned_target() == other.unversioned_target()
    }
}
