//! The kinds that the ledger watches, as `watch` knows objects: which one it is, and which version of it.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use service_api::crds::{NodePort, NodePortRange, ServicePool};

use crate::objects::{IdentityWire, ObjectKind, Watched};

/// The version that metadata name.
pub(super) fn version(meta: &ObjectMeta) -> &str {
    meta.resource_version.as_deref().unwrap_or_default()
}

/// The object that metadata are of.
pub(super) fn identity(meta: &ObjectMeta) -> IdentityWire {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    IdentityWire {
        name: text(&meta.name),
        namespace: text(&meta.namespace),
        uid: text(&meta.uid),
        resource_version: text(&meta.resource_version),
    }
}

macro_rules! watched {
    ($($object:ty: $kind:ident),* $(,)?) => {
        $(impl Watched for $object {
            const KIND: ObjectKind = ObjectKind::$kind;

            fn version(&self) -> &str {
                version(&self.metadata)
            }

            fn identity(&self) -> IdentityWire {
                identity(&self.metadata)
            }
        })*
    };
}

watched! {
    Namespace: Namespaces,
    ServiceCIDR: Cidrs,
    NodePort: NodePorts,
    NodePortRange: NodePortRanges,
    ServicePool: Pools,
}
