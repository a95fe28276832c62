//! The kinds that are watched: where they are served and how many come with a page.

use service_api::crds;

/// A kind that is listed and watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// Nodes.
    Nodes,
    /// Services.
    Services,
    /// Pods.
    Pods,
    /// Slices.
    Slices,
    /// Endpoints.
    Endpoints,
    /// ServiceCIDRs.
    Cidrs,
    /// IPAddresses.
    Addresses,
    /// Namespaces.
    Namespaces,
    /// NodePorts, a kind of ours.
    NodePorts,
    /// NodePortRanges, a kind of ours.
    NodePortRanges,
    /// ServicePools, a kind of ours.
    Pools,
}

impl ObjectKind {
    /// API group; empty for the core group.
    #[must_use]
    pub const fn group(self) -> &'static str {
        match self {
            Self::Nodes | Self::Services | Self::Pods | Self::Endpoints | Self::Namespaces => "",
            Self::Slices => "discovery.k8s.io",
            Self::Cidrs | Self::Addresses => "networking.k8s.io",
            Self::NodePorts | Self::NodePortRanges | Self::Pools => crds::GROUP,
        }
    }

    /// The version that it is read in.
    #[must_use]
    pub const fn version(self) -> &'static str {
        match self {
            Self::NodePorts | Self::NodePortRanges | Self::Pools => crds::VERSION,
            _ => "v1",
        }
    }

    /// The name of the kind in objects.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nodes => "Node",
            Self::Services => "Service",
            Self::Pods => "Pod",
            Self::Slices => "EndpointSlice",
            Self::Endpoints => "Endpoints",
            Self::Cidrs => "ServiceCIDR",
            Self::Addresses => "IPAddress",
            Self::Namespaces => "Namespace",
            Self::NodePorts => "NodePort",
            Self::NodePortRanges => "NodePortRange",
            Self::Pools => "ServicePool",
        }
    }

    /// The resource, as paths, roles and metrics name it.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Services => "services",
            Self::Pods => "pods",
            Self::Slices => "endpointslices",
            Self::Endpoints => "endpoints",
            Self::Cidrs => "servicecidrs",
            Self::Addresses => "ipaddresses",
            Self::Namespaces => "namespaces",
            Self::NodePorts => "nodeports",
            Self::NodePortRanges => "nodeportranges",
            Self::Pools => "servicepools",
        }
    }

    /// The path of all objects of this kind.
    #[must_use]
    pub fn path(self) -> String {
        match self.group() {
            "" => format!("/api/{}/{}", self.version(), self.resource()),
            group => format!("/apis/{group}/{}/{}", self.version(), self.resource()),
        }
    }

    /// How many objects come with one page of a list: about 1 MB.
    #[must_use]
    pub const fn page_size(self) -> u32 {
        match self {
            // A pod has 5 KB, a full slice or Endpoints object much more.
            Self::Pods => 200,
            Self::Slices => 100,
            Self::Endpoints => 20,
            _ => 250,
        }
    }
}
