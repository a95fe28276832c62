//! Events that may have to wait for the answer to a write of the same object.

use crate::objects::{EndpointsWire, MetaWire, SliceWire};
use crate::text::Text;

/// An event of a slice.
#[derive(Debug)]
pub enum SliceEvent {
    /// As it is now.
    Seen(Box<SliceWire>),
    /// The metadata that it has now.
    Changed(Box<MetaWire>),
    /// What had this metadata is gone.
    Deleted(Box<MetaWire>),
    /// A list did not have it.
    Missing {
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
}

/// An event of an `Endpoints` object.
#[derive(Debug)]
pub enum EndpointsEvent {
    /// As it is now.
    Seen(Box<EndpointsWire>),
    /// The metadata that it has now.
    Changed(Box<MetaWire>),
    /// What had this metadata is gone.
    Deleted(Box<MetaWire>),
    /// A list did not have it.
    Missing {
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
}
