//! What a controller asks of the API server, and what it can be told.
//!
//! Owns the narrow trait between the plans and the network, so that tests can stand in for a
//! server; never decides what to write.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde::Deserialize;

use crate::leadership::NotLeading;
use crate::objects::{EndpointsWire, SliceWire};
use crate::text::Text;

/// The kind of object a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// `EndpointSlice`s.
    Slices,
    /// `Endpoints`.
    Endpoints,
    /// `ServiceCIDR`s.
    ServiceCidrs,
    /// Events of the core group.
    Events,
    /// Services.
    Services,
    /// `IPAddress`es.
    Addresses,
    /// `NodePort`s.
    NodePorts,
    /// `NodePortRange`s.
    NodePortRanges,
    /// `ServicePool`s.
    Pools,
}

impl Resource {
    /// What it is called in paths and roles.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Slices => "endpointslices",
            Self::Endpoints => "endpoints",
            Self::ServiceCidrs => "servicecidrs",
            Self::Events => "events",
            Self::Services => "services",
            Self::Addresses => "ipaddresses",
            Self::NodePorts => "nodeports",
            Self::NodePortRanges => "nodeportranges",
            Self::Pools => "servicepools",
        }
    }

    /// The path of the collection in a namespace (or of all, for a cluster-scoped kind).
    #[must_use]
    pub fn path(self, namespace: Option<&str>) -> String {
        let prefix = match self {
            Self::Slices => "/apis/discovery.k8s.io/v1",
            Self::Endpoints | Self::Events | Self::Services => "/api/v1",
            Self::ServiceCidrs | Self::Addresses => "/apis/networking.k8s.io/v1",
            Self::NodePorts | Self::NodePortRanges | Self::Pools => "/apis/service-control-plane.io/v1alpha1",
        };
        let plural = self.plural();
        match namespace {
            Some(namespace) => format!("{prefix}/namespaces/{namespace}/{plural}"),
            None => format!("{prefix}/{plural}"),
        }
    }
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Make it.
    Create,
    /// Replace it.
    Update,
    /// Change parts of it, by merge patch.
    Merge,
    /// Delete it.
    Delete,
}

impl Verb {
    /// The word for it in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Merge => "patch",
            Self::Delete => "delete",
        }
    }
}

/// A write.
#[derive(Clone, Debug)]
pub struct Write {
    /// What is done.
    pub verb: Verb,
    /// To what kind.
    pub resource: Resource,
    /// In which namespace.
    pub namespace: Option<Text>,
    /// To which object; none where the server chooses the name.
    pub name: Option<Text>,
    /// Whether it is about the status.
    pub status: bool,
    /// The body, JSON.
    pub body: Bytes,
}

/// What the server said about the object it stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// Its metadata.
    pub metadata: ReplyMeta,
}

/// The metadata in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplyMeta {
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// Version.
    pub resource_version: String,
    /// Generation.
    pub generation: i64,
}

/// The answer to a write that shadow mode withholds: it is told of as a difference, not as a failure.
pub const WITHHELD: &str = "shadow mode: nothing is written";

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Somebody wrote in between, or the version is gone.
    #[error("conflict: {0}")]
    Conflict(String),
    /// No such object.
    #[error("not found: {0}")]
    NotFound(String),
    /// There is one of that name.
    #[error("already exists: {0}")]
    Exists(String),
    /// The namespace is being deleted and takes no new objects.
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    /// The server is busy or broken; it can be asked again, after the given time if it named one.
    #[error("server unavailable: {message}")]
    Busy {
        /// What it said.
        message: String,
        /// When to ask again.
        after: Option<Duration>,
    },
    /// The server does not accept the request as it is.
    #[error("rejected with code {code}: {message}")]
    Rejected {
        /// HTTP status code.
        code: u16,
        /// What it said.
        message: String,
    },
    /// No answer came; the write may have happened.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// The answer does not say what became of the request; the write may have happened.
    #[error("unclear answer: {0}")]
    Unknown(String),
    /// It was not sent, or given up: another process may lead.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

impl RequestError {
    /// A stable name for metrics and Events.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "Conflict",
            Self::NotFound(_) => "NotFound",
            Self::Exists(_) => "AlreadyExists",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::Busy { .. } => "Busy",
            Self::Rejected { .. } => "Rejected",
            Self::Unreachable(_) => "Unreachable",
            Self::Unknown(_) => "Unknown",
            Self::NotLeading(_) => "NotLeading",
        }
    }

    /// Whether the write may have happened all the same.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unknown(_) | Self::NotLeading(_))
    }
}

/// Why a list or a watch came to nothing.
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

/// What a request came to.
pub type Answer<T> = Result<T, RequestError>;

/// An API server, as a controller sees it.
pub trait ApiServer: Send + Sync + fmt::Debug {
    /// Sends a write.
    fn write<'a>(&'a self, write: &'a Write) -> BoxFuture<'a, Answer<Reply>>;

    /// Reads all slices that carry the name of a Service.
    fn slices_of<'a>(&'a self, namespace: &'a str, service: &'a str)
    -> BoxFuture<'a, Answer<Vec<SliceWire>>>;

    /// Reads one slice, if there is one of that name.
    fn slice<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Answer<Option<SliceWire>>>;

    /// Reads an `Endpoints` object.
    fn endpoints<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Answer<EndpointsWire>>;
}
