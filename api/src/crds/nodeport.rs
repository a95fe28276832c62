//! What a NodePort means: a port of every node that is taken, and by whom.
//!
//! Owns its type and its rules. The name is the port; where several Services may share a number, each for protocols of
//! its own, the protocol follows (`30053-udp`). Creating the object takes the port, deleting it gives it back.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LAST_PORT;
use crate::errors::{BadValue, FieldErrors, Path, invalid, required};
use crate::meta::{self, Naming};
use crate::names;
use crate::object::Normalize as _;
use crate::service::{needs_health_check, needs_node_port, ports, protocol, spec_of};

/// What the rule of the name says.
const NAME_RULE: &str =
    "must be a port number between 1 and 65535, with -tcp, -udp or -sctp behind it where protocols share it";

/// What a node port is taken for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Purpose {
    /// One or several ports of the Service.
    #[default]
    ServicePort,
    /// The Service's `healthCheckNodePort`.
    HealthCheck,
}

/// Who holds the port: a reference like that of an IPAddress.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PortParent {
    /// The API group; empty for a Service.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub group: String,
    /// The resource, such as `services`.
    #[schemars(length(min = 1, max = 63))]
    pub resource: String,
    /// The namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// The name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl PortParent {
    /// A reference to a Service.
    pub fn service(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            group: String::new(),
            resource: "services".to_owned(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Whether it names a Service, whichever.
    pub fn is_service(&self) -> bool {
        self.group.is_empty() && self.resource == "services"
    }
}

/// Who holds the port and what for.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "service-control-plane.io",
    version = "v1alpha1",
    kind = "NodePort",
    plural = "nodeports",
    shortname = "np",
    doc = "A port of every node that is taken. The name is the port.",
    derive = "PartialEq",
    derive = "Default",
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.parentRef.namespace"),
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parentRef.name"),
    printcolumn(name = "Protocols", type_ = "string", json_path = ".spec.protocols[*]"),
    printcolumn(name = "Purpose", type_ = "string", json_path = ".spec.purpose"),
    printcolumn(name = "Ports", type_ = "string", json_path = ".spec.portNames[*]", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = (
        "self.metadata.name.matches('^[1-9][0-9]{0,4}(-(tcp|udp|sctp))?$') && int(self.metadata.name.split('-')[0]) <= 65535",
        "the name must be a port number between 1 and 65535, with -tcp, -udp or -sctp behind it where protocols share it"
    )
)]
#[x_kube(crates(kube_core = "::kube_core"))]
pub struct NodePortSpec {
    /// The object that holds the port.
    #[x_kube(validation = ("self == oldSelf", "field is immutable"))]
    pub parent_ref: PortParent,
    /// The protocols that it is held for: TCP, UDP, SCTP.
    #[schemars(length(min = 1, max = 3), inner(length(min = 1, max = 16)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub protocols: Vec<String>,
    /// What it is held for.
    #[serde(default)]
    pub purpose: Purpose,
    /// The names of the Service's ports that have it; none for a port without a name and for a health check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(max = 63)))]
    pub port_names: Vec<String>,
}

/// The port that this name of a NodePort means; `None` for what is no name of one.
pub fn port_of(name: &str) -> Option<u16> {
    let number = ["-tcp", "-udp", "-sctp"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let port: u16 = number.parse().ok().filter(|port| *port != 0)?;
    // Neither `+1` nor `01`: a port has one name.
    (port.to_string() == number).then_some(port)
}

/// The NodePorts of a Service: name and spec of each, by name. Where several Services may share a number, each for
/// protocols of its own, there is one for each protocol.
pub fn of_service(service: &Service, per_protocol: bool) -> BTreeMap<String, NodePortSpec> {
    let spec = spec_of(service);
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let parent = PortParent::service(text(&service.metadata.namespace), text(&service.metadata.name));
    let mut all: BTreeMap<String, NodePortSpec> = BTreeMap::new();
    let mut add = |number: Option<i32>, protocol: &str, purpose: Purpose, port_name: Option<&String>| {
        let Some(number) = number.and_then(|n| u16::try_from(n).ok()).filter(|n| *n != 0) else { return };
        let name =
            if per_protocol { format!("{number}-{}", protocol.to_lowercase()) } else { number.to_string() };
        let port = all.entry(name).or_insert_with(|| NodePortSpec {
            parent_ref: parent.clone(),
            purpose,
            ..NodePortSpec::default()
        });
        if !port.protocols.iter().any(|known| known == protocol) {
            port.protocols.push(protocol.to_owned());
        }
        port.port_names.extend(port_name.filter(|name| !name.is_empty()).cloned());
    };
    for port in ports(spec).iter().filter(|_| needs_node_port(spec)) {
        add(port.node_port, protocol(port), Purpose::ServicePort, port.name.as_ref());
    }
    if needs_health_check(spec) {
        add(spec.health_check_node_port, "TCP", Purpose::HealthCheck, None);
    }
    all
}

fn name_faults(name: &str) -> Vec<String> {
    if port_of(name).is_some() { Vec::new() } else { vec![NAME_RULE.to_owned()] }
}

const NAMING: Naming = Naming { rule: name_faults, prefix_may_end_with_dash: false, namespaced: false };

/// Drops empty values.
pub fn default(port: &mut NodePort) {
    port.metadata.normalize();
}

/// Prepares a defaulted object for a create.
pub fn prepare_create(port: &mut NodePort) {
    meta::prepare_create(&mut port.metadata);
}

/// Prepares a defaulted object for an update.
pub fn prepare_update(new: &mut NodePort, old: &NodePort) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
}

/// Errors of a NodePort that shall be created.
pub fn validate_create(port: &NodePort) -> FieldErrors {
    let mut errors = meta::validate_object_meta(&port.metadata, NAMING);
    errors.extend(validate_spec(&port.spec));
    errors
}

fn validate_spec(spec: &NodePortSpec) -> FieldErrors {
    let path = Path::root("spec");
    let parent = path.child("parentRef");
    let mut errors = FieldErrors::new();
    for (field, value) in [("resource", &spec.parent_ref.resource), ("name", &spec.parent_ref.name)] {
        if value.is_empty() {
            errors.push(required(parent.child(field), ""));
        } else {
            let faults = names::path_segment(value);
            errors.extend(faults.into_iter().map(|f| invalid(parent.child(field), value.as_str(), f)));
        }
    }
    let protocols = path.child("protocols");
    if spec.protocols.is_empty() {
        errors.push(required(&protocols, "at least one protocol"));
    }
    for (i, protocol) in spec.protocols.iter().enumerate() {
        if spec.protocols[..i].contains(protocol) {
            errors.push(crate::errors::duplicate(protocols.index(i), protocol.as_str()));
        }
    }
    errors
}

/// Errors of an update: the holder stays.
pub fn validate_update(new: &NodePort, old: &NodePort) -> FieldErrors {
    let mut errors = meta::validate_object_meta_update(&new.metadata, &old.metadata);
    if new.spec.parent_ref != old.spec.parent_ref {
        let path = Path::root("spec").child("parentRef");
        errors.push(invalid(&path, BadValue::json(&new.spec.parent_ref), meta::IMMUTABLE));
    }
    errors.extend(validate_spec(&new.spec));
    errors
}

/// The first port that is no port any more, for bounds.
pub(super) const fn is_port(number: i32) -> bool {
    number >= 1 && number <= LAST_PORT
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("30080", Some(30080))]
    #[case("1", Some(1))]
    #[case("65535", Some(65535))]
    #[case("30053-udp", Some(30053))]
    #[case("30053-sctp", Some(30053))]
    #[case("0", None)]
    #[case("65536", None)]
    #[case("030080", None)]
    #[case("+30080", None)]
    #[case("30080-", None)]
    #[case("30080-icmp", None)]
    #[case("web", None)]
    #[case("", None)]
    fn a_port_has_one_name(#[case] name: &str, #[case] port: Option<u16>) {
        assert_eq!(port_of(name), port);
        assert_eq!(name_faults(name).is_empty(), port.is_some());
    }

    fn port(name: &str, parent: PortParent) -> NodePort {
        let mut port = NodePort::new(
            name,
            NodePortSpec { parent_ref: parent, protocols: vec!["TCP".into()], ..Default::default() },
        );
        port.metadata.resource_version = Some("1".into());
        port
    }

    #[test]
    fn the_holder_stays() {
        let old = port("30080", PortParent::service("shop", "web"));
        let mut new = old.clone();
        new.spec.protocols.push("UDP".into());
        assert_eq!(validate_update(&new, &old), []);
        new.spec.parent_ref = PortParent::service("shop", "api");
        let errors = validate_update(&new, &old);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].field, "spec.parentRef");
    }

    #[rstest]
    #[case(PortParent { resource: String::new(), ..PortParent::service("a", "b") }, "spec.parentRef.resource")]
    #[case(PortParent::service("a", ""), "spec.parentRef.name")]
    #[case(PortParent::service("a", "b/c"), "spec.parentRef.name")]
    fn parents(#[case] parent: PortParent, #[case] field: &str) {
        let errors = validate_create(&port("30080", parent));
        assert_eq!(errors.iter().map(|e| e.field.as_str()).collect::<Vec<_>>(), [field]);
    }

    #[test]
    fn a_service_has_one_for_each_of_its_ports() {
        let service: Service = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000, "ports": [
                {"name": "https", "port": 443, "nodePort": 30443, "protocol": "TCP"},
                {"name": "h3", "port": 443, "nodePort": 30443, "protocol": "UDP"},
                {"name": "none", "port": 80, "protocol": "TCP"},
            ]},
        }))
        .unwrap();
        let all = of_service(&service, false);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["30443", "31000"]);
        let web = &all["30443"];
        assert_eq!(
            (&web.protocols[..], &web.port_names[..]),
            (&["TCP".to_owned(), "UDP".into()][..], &["https".to_owned(), "h3".into()][..])
        );
        assert_eq!((web.purpose, all["31000"].purpose), (Purpose::ServicePort, Purpose::HealthCheck));
        assert_eq!(web.parent_ref, PortParent::service("shop", "web"));
        let each = of_service(&service, true);
        assert_eq!(each.keys().collect::<Vec<_>>(), ["30443-tcp", "30443-udp", "31000-tcp"]);
        assert!(each.keys().all(|name| port_of(name).is_some()));
        let mut plain = service;
        plain.spec.as_mut().unwrap().type_ = Some("ClusterIP".into());
        assert!(of_service(&plain, false).is_empty());
    }

    #[test]
    fn a_port_is_held_for_a_protocol() {
        let mut none = port("30080", PortParent::service("a", "b"));
        none.spec.protocols.clear();
        assert_eq!(validate_create(&none)[0].field, "spec.protocols");
        none.spec.protocols = vec!["TCP".into(), "TCP".into()];
        assert_eq!(validate_create(&none)[0].field, "spec.protocols[1]");
    }
}
