//! What the names of a cluster stand for, by its Services and slices. Pure.

use std::net::IpAddr;

use serde_json::Value;

/// The cluster's domain.
pub(super) const DOMAIN: &str = "cluster.local";

/// What a name asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// A Service, or one pod of it by its host name.
    Service {
        /// The Service's name.
        service: String,
        /// Its namespace.
        namespace: String,
        /// The host name of a pod.
        host: Option<String>,
    },
    /// A name of the cluster that stands for nothing.
    Nothing,
    /// A name of somebody else's.
    Foreign,
}

/// What is said of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// It has these addresses, of both families; perhaps none.
    Addresses(Vec<IpAddr>),
    /// It stands for another name.
    Alias(String),
    /// There is no such name.
    Unknown,
}

/// Reads a name; a dot at its end does not matter, nor does its case.
pub(super) fn asked(name: &str) -> Asked {
    let name = name.trim_end_matches('.').to_lowercase();
    let Some(rest) = name.strip_suffix(DOMAIN) else { return Asked::Foreign };
    if !rest.is_empty() && !rest.ends_with('.') {
        return Asked::Foreign;
    }
    let labels: Vec<&str> = rest.split('.').filter(|label| !label.is_empty()).collect();
    match labels[..] {
        [service, namespace, "svc"] => {
            Asked::Service { service: service.to_owned(), namespace: namespace.to_owned(), host: None }
        }
        [host, service, namespace, "svc"] => Asked::Service {
            service: service.to_owned(),
            namespace: namespace.to_owned(),
            host: Some(host.to_owned()),
        },
        _ => Asked::Nothing,
    }
}

/// What a Service's name stands for, or that of a pod of it.
pub(super) fn of_service(service: &Value, slices: &[Value], host: Option<&str>) -> Said {
    let spec = &service["spec"];
    let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default();
    if text("type") == "ExternalName" {
        return if host.is_none() { Said::Alias(text("externalName").to_owned()) } else { Said::Unknown };
    }
    if text("clusterIP") != "None" {
        let ips = spec.get("clusterIPs").and_then(Value::as_array).into_iter().flatten();
        let ips = ips.filter_map(|ip| ip.as_str()?.parse().ok());
        return if host.is_none() { Said::Addresses(ips.collect()) } else { Said::Unknown };
    }
    let endpoints = slices.iter().filter_map(|slice| slice.get("endpoints")?.as_array()).flatten();
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
    let named = ready.filter(|endpoint| {
        host.is_none_or(|host| endpoint.get("hostname").and_then(Value::as_str) == Some(host))
    });
    let addresses = named.filter_map(|endpoint| endpoint.get("addresses")?.as_array()).flatten();
    let ips: Vec<IpAddr> = addresses.filter_map(|ip| ip.as_str()?.parse().ok()).collect();
    if ips.is_empty() && host.is_some() { Said::Unknown } else { Said::Addresses(ips) }
}

/// What a pod of a namespace has in `/etc/resolv.conf`.
pub(crate) fn resolver_file(server: IpAddr, namespace: &str) -> String {
    format!("search {namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}\nnameserver {server}\noptions ndots:5\n")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn service(name: &str, host: Option<&str>) -> Asked {
        Asked::Service {
            service: name.to_owned(),
            namespace: "demo".to_owned(),
            host: host.map(str::to_owned),
        }
    }

    #[rstest]
    #[case("hello.demo.svc.cluster.local.", service("hello", None))]
    #[case("HELLO.demo.svc.cluster.local", service("hello", None))]
    #[case("web-0.hello.demo.svc.cluster.local.", service("hello", Some("web-0")))]
    #[case("hello.demo.cluster.local.", Asked::Nothing)]
    #[case("cluster.local.", Asked::Nothing)]
    #[case("notcluster.local.", Asked::Foreign)]
    #[case("ghcr.io.", Asked::Foreign)]
    fn names(#[case] name: &str, #[case] expected: Asked) {
        assert_eq!(asked(name), expected);
    }

    #[test]
    fn services_of_each_kind() {
        let ips = |texts: &[&str]| Said::Addresses(texts.iter().map(|ip| ip.parse().unwrap()).collect());
        let cluster = json!({"spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"]}});
        assert_eq!(of_service(&cluster, &[], None), ips(&["10.96.0.1", "fd00::1"]));
        assert_eq!(of_service(&cluster, &[], Some("web-0")), Said::Unknown);
        let external = json!({"spec": {"type": "ExternalName", "externalName": "ghcr.io"}});
        assert_eq!(of_service(&external, &[], None), Said::Alias("ghcr.io".to_owned()));
        let headless = json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}});
        let slice = json!({"endpoints": [
            {"addresses": ["10.244.1.2"], "hostname": "web-0", "conditions": {"ready": true}},
            {"addresses": ["10.244.1.3"], "hostname": "web-1", "conditions": {"ready": false}},
            {"addresses": ["10.244.1.4"], "conditions": {}}]});
        let slices = [slice];
        assert_eq!(of_service(&headless, &slices, None), ips(&["10.244.1.2", "10.244.1.4"]));
        assert_eq!(of_service(&headless, &slices, Some("web-0")), ips(&["10.244.1.2"]));
        assert_eq!(of_service(&headless, &slices, Some("web-1")), Said::Unknown);
        assert_eq!(of_service(&headless, &[], None), ips(&[]));
    }
}
