//! Which kinds the page shows, and what it keeps of an object of each: one row, as the browser gets it.
//!
//! Pure: objects in, rows out. A row has the fields that the page shows and no others, so that what changes elsewhere in an
//! object changes nothing here.

mod ledger;
mod service;
mod slice;

use std::{borrow::Cow, collections::BTreeMap, fmt::Debug};

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1 as core, discovery::v1 as discovery, networking::v1 as networking},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use service_api::crds;

pub(crate) use self::{
    ledger::{Address, Cidr, Node, NodePort, Pool, PortRange},
    service::Service,
    slice::{Condition, Endpoint, SERVICE_LABEL, Slice},
};

/// A kind that the page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Services.
    Services,
    /// EndpointSlices.
    Slices,
    /// IPAddresses.
    Addresses,
    /// ServiceCIDRs.
    Cidrs,
    /// NodePorts.
    NodePorts,
    /// NodePortRanges.
    PortRanges,
    /// ServicePools.
    Pools,
    /// Nodes, for their zones.
    Nodes,
}

impl Kind {
    /// All of them, in the order of their tables.
    pub(crate) const ALL: [Self; 8] = [
        Self::Services,
        Self::Slices,
        Self::Addresses,
        Self::Cidrs,
        Self::NodePorts,
        Self::PortRanges,
        Self::Pools,
        Self::Nodes,
    ];

    /// What the kind is called towards the browser: the resource's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Slices => "endpointslices",
            Self::Addresses => "ipaddresses",
            Self::Cidrs => "servicecidrs",
            Self::NodePorts => "nodeports",
            Self::PortRanges => "nodeportranges",
            Self::Pools => "servicepools",
            Self::Nodes => "nodes",
        }
    }

    /// The resource to ask for.
    pub(crate) fn resource(self) -> ApiResource {
        match self {
            Self::Services => ApiResource::erase::<core::Service>(&()),
            Self::Slices => ApiResource::erase::<discovery::EndpointSlice>(&()),
            Self::Addresses => ApiResource::erase::<networking::IPAddress>(&()),
            Self::Cidrs => ApiResource::erase::<networking::ServiceCIDR>(&()),
            Self::NodePorts => ApiResource::erase::<crds::NodePort>(&()),
            Self::PortRanges => ApiResource::erase::<crds::NodePortRange>(&()),
            Self::Pools => ApiResource::erase::<crds::ServicePool>(&()),
            Self::Nodes => ApiResource::erase::<core::Node>(&()),
        }
    }
}

/// What is read of an object, and the row that it becomes.
pub(crate) trait Shown: DeserializeOwned + Clone + Debug + Send + Sync + 'static {
    /// The kind.
    const KIND: Kind;
    /// Name, namespace, labels and times; nothing else of it is read.
    fn meta(&self) -> &ObjectMeta;
    /// What the browser gets: a JSON object.
    fn row(&self) -> String;
}

/// By which an object is known within its kind: its name, with the namespace in front if it has one.
pub(crate) fn key_of(meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    match meta.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}

/// The text of a row. What rows are made of can always be written; were it not so, the row would be an empty one.
fn text(row: &impl Serialize) -> String {
    serde_json::to_string(row).unwrap_or_else(|_| "{}".to_owned())
}

/// When an object was created, in milliseconds.
fn created(meta: &ObjectMeta) -> Option<i64> {
    meta.creation_timestamp.as_ref().map(|time| time.0.as_millisecond())
}

/// The part of an object's metadata that the page reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
}

/// Reads metadata without the lists of field owners and annotations, which are most of it.
fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let slim = SlimMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        resource_version: slim.resource_version,
        labels: slim.labels,
        creation_timestamp: slim.creation_timestamp.map(Time),
        deletion_timestamp: slim.deletion_timestamp.map(Time),
        ..ObjectMeta::default()
    })
}

/// A list that the API may give as `null`.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

macro_rules! resource {
    ($($object:ident),*) => {$(
        impl kube::Resource for $object {
            type DynamicType = ApiResource;
            type Scope = DynamicResourceScope;

            fn kind(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.kind)
            }
            fn group(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.group)
            }
            fn version(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.version)
            }
            fn plural(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.plural)
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )*};
}

resource!(Address, Cidr, Node, NodePort, Pool, PortRange, Service, Slice);
