//! The kinds of objects that explanations are made from, and what is lost without each.
//!
//! Owns names and places in the API; never the objects.

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Services.
    Service,
    /// Pods.
    Pod,
    /// Nodes.
    Node,
    /// EndpointSlices.
    EndpointSlice,
    /// Endpoints.
    Endpoints,
    /// Events.
    Event,
    /// IPAddresses.
    IpAddress,
    /// ServiceCIDRs.
    ServiceCidr,
    /// NodePorts.
    NodePort,
    /// NodePortRanges.
    NodePortRange,
    /// ServicePools.
    ServicePool,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Service,
        Self::Pod,
        Self::Node,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::Event,
        Self::IpAddress,
        Self::ServiceCidr,
        Self::NodePort,
        Self::NodePortRange,
        Self::ServicePool,
    ];

    /// The kind of this name in a group; none if it is none of these.
    #[must_use]
    pub fn named(group: &str, name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name && kind.group() == group)
    }

    /// The name of the kind in objects.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Pod => "Pod",
            Self::Node => "Node",
            Self::EndpointSlice => "EndpointSlice",
            Self::Endpoints => "Endpoints",
            Self::Event => "Event",
            Self::IpAddress => "IPAddress",
            Self::ServiceCidr => "ServiceCIDR",
            Self::NodePort => "NodePort",
            Self::NodePortRange => "NodePortRange",
            Self::ServicePool => "ServicePool",
        }
    }

    /// The API group; empty for the core group.
    #[must_use]
    pub const fn group(self) -> &'static str {
        match self {
            Self::Service | Self::Pod | Self::Node | Self::Endpoints | Self::Event => "",
            Self::EndpointSlice => "discovery.k8s.io",
            Self::IpAddress | Self::ServiceCidr => "networking.k8s.io",
            Self::NodePort | Self::NodePortRange | Self::ServicePool => service_api::crds::GROUP,
        }
    }

    /// The resource in paths.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Service => "services",
            Self::Pod => "pods",
            Self::Node => "nodes",
            Self::EndpointSlice => "endpointslices",
            Self::Endpoints => "endpoints",
            Self::Event => "events",
            Self::IpAddress => "ipaddresses",
            Self::ServiceCidr => "servicecidrs",
            Self::NodePort => "nodeports",
            Self::NodePortRange => "nodeportranges",
            Self::ServicePool => "servicepools",
        }
    }

    /// The path of the objects of this kind, of one namespace or of all.
    #[must_use]
    pub fn path(self, namespace: Option<&str>) -> String {
        let version = match self {
            Self::NodePort | Self::NodePortRange | Self::ServicePool => service_api::crds::VERSION,
            _ => "v1",
        };
        let root = match self.group() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.resource()),
            None => format!("{root}/{}", self.resource()),
        }
    }

    /// What it means not to know the objects of this kind.
    #[must_use]
    pub const fn without(self) -> &'static str {
        match self {
            Self::Service => "nothing can be said of Services",
            Self::Pod => "only what slices say of pods is known",
            Self::Node => "nodes are taken to exist, in the zones that slices name",
            Self::EndpointSlice => "what is written for readers is not known, only what should be",
            Self::Endpoints => "the Endpoints object and mirrors of it are not compared",
            Self::Event => "what was told of it is not known",
            Self::IpAddress => "who holds an address is taken from Services alone",
            Self::ServiceCidr => "the ranges of addresses are not known",
            Self::NodePort => "who holds a node port is taken from Services alone",
            Self::NodePortRange => "the node ports are taken to be one range",
            Self::ServicePool => "pools are not known",
        }
    }
}
