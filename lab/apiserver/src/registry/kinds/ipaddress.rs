//! IPAddress: an address that is taken, and by whom.
//!
//! Creating one is taking the address, deleting it gives the address back; the ledger follows the objects. Source:
//! KEP-1880 and the API reference of IPAddress.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};
use service_allocators::ServiceKey;
use service_api::address::Family;
use service_api::ipaddress;

use super::fields::text;
use super::typed;
use crate::registry::Tx;
use crate::registry::error::ApiError;
use crate::registry::ledger_index::Allocation;
use crate::registry::strategy::{Context, Findings, Strategy, Subresource};

pub(crate) const GROUP: &str = "networking.k8s.io";
pub(crate) const RESOURCE: &str = "ipaddresses";
const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGER_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
/// Who made the IPAddress objects of Services.
pub(crate) const MANAGER: &str = "ipallocator.k8s.io";

/// The rules of IPAddress.
#[derive(Clone, Copy, Debug, Default)]
pub struct IPAddress;

impl Strategy for IPAddress {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, ipaddress::default);
    }

    fn check_create(&self, obj: &mut Value) -> Findings {
        typed::check_create(obj, ipaddress::prepare_create, |new| {
            Findings::new(ipaddress::validate_create(new), Vec::new)
        })
    }

    fn generate_name(&self, base: &str, _suffix: &str) -> String {
        ipaddress::generated_name(base)
    }

    fn check_update(&self, new: &mut Value, old: &Value, _sub: Subresource) -> Findings {
        typed::check_update(new, old, ipaddress::prepare_update, |new, old| {
            Findings::new(ipaddress::validate_update(new, old), Vec::new)
        })
    }

    /// The address of a living Service comes back at once; nobody else could have taken it meanwhile.
    fn restore(&self, old: &Value, tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
        match text(old, "/metadata/name").parse() {
            Ok(address) => hand_on(address, None, tx, ctx),
            Err(_) => Ok(()),
        }
    }
}

/// Makes the IPAddress of an address that some Service still has, other than the one that just gave it up.
pub(crate) fn hand_on(
    address: IpAddr,
    given_up_by: Option<&ServiceKey>,
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
) -> Result<(), ApiError> {
    if tx.index().services.allocation == Allocation::Reconcile {
        return Ok(());
    }
    let ids = (ctx.registry.id(GROUP, RESOURCE), ctx.registry.id("", "services"));
    let (Some(addresses), Some(services)) = ids else { return Ok(()) };
    let is_there = |service: &&ServiceKey| {
        Some(*service) != given_up_by && tx.get(services, service.namespace(), service.name()).is_some()
    };
    let Some(service) = tx.index().services.services_with(address).iter().find(is_there) else {
        return Ok(());
    };
    tx.put(addresses, object(address, Family::of(address), service.namespace(), service.name(), ctx.now))?;
    Ok(())
}

/// The IPAddress object of a Service's address.
pub(crate) fn object(address: IpAddr, family: Family, namespace: &str, name: &str, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(),
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": now,
            "labels": {FAMILY_LABEL: family.as_str(), MANAGER_LABEL: MANAGER},
            "managedFields": [{
                "manager": "kube-apiserver", "operation": "Update", "apiVersion": "networking.k8s.io/v1", "time": now,
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {
                        ".": {}, format!("f:{FAMILY_LABEL}"): {}, format!("f:{MANAGER_LABEL}"): {},
                    }},
                    "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
                },
            }],
        },
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
    })
}

/// Is the address that of this Service?
pub(crate) fn belongs_to(address: &Value, namespace: &str, name: &str) -> bool {
    is_of_a_service(address)
        && text(address, "/spec/parentRef/namespace") == namespace
        && text(address, "/spec/parentRef/name") == name
}

/// Is the address that of some Service?
pub(crate) fn is_of_a_service(address: &Value) -> bool {
    text(address, "/spec/parentRef/group").is_empty()
        && text(address, "/spec/parentRef/resource") == "services"
}

/// Was it made for a Service by the allocator, rather than by a user?
pub(crate) fn is_managed(address: &Value) -> bool {
    address
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(MANAGER_LABEL))
        .is_some_and(|by| by == MANAGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_says_whose_address_it_is() {
        let object = object("fd00::9".parse().unwrap(), Family::V6, "shop", "web", Timestamp::UNIX_EPOCH);
        assert_eq!(object["metadata"]["name"], json!("fd00::9"));
        assert_eq!(object["metadata"]["labels"][FAMILY_LABEL], json!("IPv6"));
        assert!(belongs_to(&object, "shop", "web") && is_managed(&object));
        assert!(!belongs_to(&object, "shop", "other"));
    }

    #[test]
    fn an_address_of_a_gateway_is_no_services() {
        let object = json!({"spec": {"parentRef": {"group": "example.com", "resource": "services", "namespace": "a", "name": "b"}}});
        assert!(!belongs_to(&object, "a", "b"));
        assert!(!is_managed(&object));
    }
}
