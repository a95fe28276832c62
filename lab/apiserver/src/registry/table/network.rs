//! Rows of Service, Endpoints, EndpointSlice, ServiceCIDR and IPAddress.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Endpoints, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{IPAddressSpec, ServiceCIDRSpec};
use serde_json::{Value, json};

use super::{Column, Row, Table, age, first_three, labels, list, name, number, or_none, text};

pub(super) static SERVICE: Table = Table { columns: || &SERVICE_COLUMNS, row: service };
pub(super) static ENDPOINTS: Table = Table { columns: || &ENDPOINTS_COLUMNS, row: endpoints };
pub(super) static ENDPOINT_SLICE: Table = Table { columns: || &ENDPOINT_SLICE_COLUMNS, row: endpoint_slice };
pub(super) static SERVICE_CIDR: Table = Table { columns: || &SERVICE_CIDR_COLUMNS, row: service_cidr };
pub(super) static IP_ADDRESS: Table = Table { columns: || &IP_ADDRESS_COLUMNS, row: ip_address };

static SERVICE_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        Column::name(),
        Column::field::<ServiceSpec>("Type", "type"),
        Column::field::<ServiceSpec>("Cluster-IP", "clusterIP"),
        Column::field::<ServiceSpec>("External-IP", "externalIPs"),
        Column::field::<ServiceSpec>("Port(s)", "ports"),
        Column::age(),
        Column::field::<ServiceSpec>("Selector", "selector").wide(),
    ]
});

fn service(object: &Value, now: Timestamp) -> Row {
    let cluster_ip = list(object, "/spec/clusterIPs").first().and_then(Value::as_str).unwrap_or_default();
    Row::of(vec![
        name(object),
        json!(text(object, "/spec/type")),
        or_none(cluster_ip),
        json!(external_ip(object)),
        or_none(&service_ports(object)),
        age(object, now),
        json!(labels(object, "/spec/selector")),
    ])
}

fn external_ip(object: &Value) -> String {
    let mut addresses: Vec<&str> = Vec::new();
    let empty = match text(object, "/spec/type") {
        "ExternalName" => return text(object, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let ingress: BTreeSet<&str> = list(object, "/status/loadBalancer/ingress")
                .iter()
                .map(|entry| match text(entry, "/ip") {
                    "" => text(entry, "/hostname"),
                    ip => ip,
                })
                .filter(|address| !address.is_empty())
                .collect();
            addresses.extend(ingress);
            "<pending>"
        }
        "ClusterIP" | "NodePort" => "<none>",
        _ => return "<unknown>".into(),
    };
    addresses.extend(list(object, "/spec/externalIPs").iter().filter_map(Value::as_str));
    if addresses.is_empty() { empty.into() } else { addresses.join(",") }
}

fn service_ports(object: &Value) -> String {
    let ports: Vec<String> = list(object, "/spec/ports")
        .iter()
        .map(|port| match (number(port, "/port"), number(port, "/nodePort"), text(port, "/protocol")) {
            (number, 0, protocol) => format!("{number}/{protocol}"),
            (number, node_port, protocol) => format!("{number}:{node_port}/{protocol}"),
        })
        .collect();
    ports.join(",")
}

static ENDPOINTS_COLUMNS: LazyLock<Vec<Column>> =
    LazyLock::new(|| vec![Column::name(), Column::field::<Endpoints>("Endpoints", "subsets"), Column::age()]);

fn endpoints(object: &Value, now: Timestamp) -> Row {
    let subsets = list(object, "/subsets");
    let shown = if subsets.is_empty() { "<none>".into() } else { first_three(&subset_addresses(subsets)) };
    Row::of(vec![name(object), json!(shown), age(object, now)])
}

fn subset_addresses(subsets: &[Value]) -> Vec<String> {
    let mut shown = Vec::new();
    for subset in subsets {
        let ips = || list(subset, "/addresses").iter().map(|address| text(address, "/ip"));
        let ports = list(subset, "/ports");
        if ports.is_empty() {
            shown.extend(ips().map(str::to_owned));
        }
        for port in ports {
            let port = number(port, "/port");
            shown.extend(
                ips().map(
                    |ip| {
                        if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                    },
                ),
            );
        }
    }
    shown
}

static ENDPOINT_SLICE_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        Column::name(),
        Column::field::<EndpointSlice>("AddressType", "addressType"),
        Column::field::<EndpointSlice>("Ports", "ports"),
        Column::field::<EndpointSlice>("Endpoints", "endpoints"),
        Column::age(),
    ]
});

fn endpoint_slice(object: &Value, now: Timestamp) -> Row {
    let ports: Vec<String> = list(object, "/ports")
        .iter()
        .map(|port| {
            match (
                port.pointer("/port").and_then(Value::as_i64),
                port.pointer("/name").and_then(Value::as_str),
            ) {
                (Some(number), _) => number.to_string(),
                (None, Some(name)) => name.to_owned(),
                (None, None) => "*".to_owned(),
            }
        })
        .collect();
    let addresses: Vec<String> = list(object, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    let or_unset = |items: &[String]| match first_three(items) {
        shown if shown.is_empty() => json!("<unset>"),
        shown => json!(shown),
    };
    Row::of(vec![
        name(object),
        json!(text(object, "/addressType")),
        or_unset(&ports),
        or_unset(&addresses),
        age(object, now),
    ])
}

static SERVICE_CIDR_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![Column::name(), Column::field_of_v136::<ServiceCIDRSpec>("CIDRs", "cidrs"), Column::age()]
});

fn service_cidr(object: &Value, now: Timestamp) -> Row {
    let cidrs: Vec<&str> = list(object, "/spec/cidrs").iter().filter_map(Value::as_str).collect();
    Row::of(vec![name(object), json!(cidrs.join(",")), age(object, now)])
}

static IP_ADDRESS_COLUMNS: LazyLock<Vec<Column>> =
    LazyLock::new(|| vec![Column::name(), Column::field_of_v136::<IPAddressSpec>("ParentRef", "parentRef")]);

/// Upstream sends an age that has no column; clients that know its rows rely on three cells.
fn ip_address(object: &Value, now: Timestamp) -> Row {
    let resource = match (text(object, "/spec/parentRef/resource"), text(object, "/spec/parentRef/group")) {
        (resource, "") => resource.to_owned(),
        (resource, group) => format!("{resource}.{group}"),
    };
    let parent =
        [resource.as_str(), text(object, "/spec/parentRef/namespace"), text(object, "/spec/parentRef/name")];
    let parent: Vec<&str> = parent.into_iter().filter(|part| !part.is_empty()).collect();
    Row::of(vec![name(object), json!(parent.join("/")), age(object, now)])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn cells(table: &Table, object: &Value) -> Vec<Value> {
        (table.row)(object, Timestamp::UNIX_EPOCH).cells
    }

    #[rstest]
    #[case::pending(json!({"type": "LoadBalancer"}), json!({}), "<pending>")]
    #[case::sorted(json!({"type": "LoadBalancer"}),
        json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}, {"hostname": "a.example"}, {"ip": "192.0.2.1"}]}}),
        "192.0.2.1,192.0.2.9,a.example")]
    #[case::both(json!({"type": "LoadBalancer", "externalIPs": ["203.0.113.5"]}),
        json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}), "192.0.2.9,203.0.113.5")]
    #[case::external_name(json!({"type": "ExternalName", "externalName": "x.example"}), json!({}), "x.example")]
    #[case::cluster_ip(json!({"type": "ClusterIP"}), json!({}), "<none>")]
    #[case::external_ips(json!({"type": "NodePort", "externalIPs": ["1.2.3.4", "5.6.7.8"]}), json!({}), "1.2.3.4,5.6.7.8")]
    fn external_addresses(#[case] spec: Value, #[case] status: Value, #[case] shown: &str) {
        assert_eq!(external_ip(&json!({"spec": spec, "status": status})), shown);
    }

    #[test]
    fn a_service_row() {
        let object = json!({
            "metadata": {"name": "web", "creationTimestamp": "1969-12-31T23:57:30Z"},
            "spec": {"type": "NodePort", "clusterIPs": ["10.96.0.9", "fd00::9"], "selector": {"c": "d", "a": "b"},
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}
        });
        assert_eq!(
            cells(&SERVICE, &object),
            [
                json!("web"),
                json!("NodePort"),
                json!("10.96.0.9"),
                json!("<none>"),
                json!("80:30080/TCP,53/UDP"),
                json!("2m30s"),
                json!("a=b,c=d")
            ]
        );
    }

    #[rstest]
    #[case::none(json!([]), "<none>")]
    #[case::no_ports(json!([{"addresses": [{"ip": "10.1.0.1"}]}]), "10.1.0.1")]
    #[case::not_ready_only(json!([{"notReadyAddresses": [{"ip": "10.1.0.1"}], "ports": [{"port": 80}]}]), "")]
    #[case::v6(json!([{"addresses": [{"ip": "fd00::1"}], "ports": [{"port": 80}]}]), "[fd00::1]:80")]
    #[case::many(json!([{"addresses": [{"ip": "10.1.0.1"}, {"ip": "10.1.0.2"}], "ports": [{"port": 1}, {"port": 2}]}]),
        "10.1.0.1:1,10.1.0.2:1,10.1.0.1:2 + 1 more...")]
    fn subset_cells(#[case] subsets: Value, #[case] shown: &str) {
        assert_eq!(cells(&ENDPOINTS, &json!({"subsets": subsets}))[1], json!(shown));
    }

    #[test]
    fn slice_ports_fall_back_to_names() {
        let object = json!({"ports": [{"name": "x"}, {}, {"port": 9}], "endpoints": []});
        assert_eq!(cells(&ENDPOINT_SLICE, &object)[2..4], [json!("x,*,9"), json!("<unset>")]);
    }

    #[rstest]
    #[case(json!({"resource": "services", "namespace": "default", "name": "a"}), "services/default/a")]
    #[case(json!({"group": "example.com", "resource": "gateways", "name": "g"}), "gateways.example.com/g")]
    fn parents(#[case] parent: Value, #[case] shown: &str) {
        assert_eq!(cells(&IP_ADDRESS, &json!({"spec": {"parentRef": parent}}))[1], json!(shown));
    }
}
