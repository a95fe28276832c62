//! What a request addresses: a collection, an object, or a part of one.

use crate::store::ResourceId;

use super::resource_info::Sub;
use super::strategy::Subresource;

/// A resource and, perhaps, one object of it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The kind's place in the table.
    pub id: ResourceId,
    /// The namespace; empty for cluster-scoped kinds and for all namespaces at once.
    pub namespace: String,
    /// The object's name; empty for a collection.
    pub name: String,
    /// The subresource, if one is addressed.
    pub sub: Option<&'static Sub>,
}

impl Target {
    /// One object, whole.
    pub fn object(id: ResourceId, namespace: &str, name: &str) -> Self {
        Self { id, namespace: namespace.to_owned(), name: name.to_owned(), sub: None }
    }

    /// The part that is addressed.
    pub fn part(&self) -> Subresource {
        self.sub.map_or(Subresource::None, |sub| sub.part)
    }

    /// The subresource's name, as managed fields note it.
    pub fn sub_name(&self) -> Option<&'static str> {
        self.sub.map(|sub| sub.name)
    }

    /// The namespace to list; `None` for all.
    pub fn namespace_filter(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_str())
    }
}
