//! Clusters for tests: a few Services and slices as JSON, and a node that sees them.

use serde_json::{Value, json};
use service_nodeproxy::{
    config::{LocalTraffic, NodeView, RuleSettings},
    sync::Known,
    track::{Cluster, Seen, Touched},
};

use crate::kube_proxy::completed;

/// A cluster as the node `one` sees it.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) node: NodeView,
    pub(crate) settings: RuleSettings,
    /// Everything in it, with its kind, for who asks an API server.
    pub(crate) objects: Vec<(&'static str, Value)>,
}

impl Scene {
    /// Nothing but the node, at 192.168.7.1 and fd00:7::1, with pods in 10.7.0.0/16 and fd00:70::/64.
    pub(crate) fn new() -> Self {
        let mut cluster = Cluster::new("one");
        let node = json!({"metadata": {"name": "one"}, "status": {"addresses": [
            {"type": "InternalIP", "address": "192.168.7.1"}, {"type": "InternalIP", "address": "fd00:7::1"}]}});
        let mut objects = vec![("Node", node.clone())];
        cluster.on_node(Seen::Object(serde_json::from_value(node).unwrap()));
        let cidr =
            json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12", "fd00:96::/112"]}});
        objects.push(("ServiceCIDR", cidr.clone()));
        cluster.on_cidr(Seen::Object(serde_json::from_value(cidr).unwrap()));
        let node = NodeView { info: cluster.node().unwrap().clone(), interfaces: Vec::new() };
        let pods = ["10.7.0.0/16", "fd00:70::/64"].map(|net| net.parse().unwrap());
        let settings = RuleSettings {
            local_traffic: LocalTraffic::ClusterCidrs(pods.to_vec()),
            ..RuleSettings::default()
        };
        Self { cluster, node, settings, objects }
    }

    pub(crate) fn known(&self) -> Known<'_> {
        Known { cluster: &self.cluster, node: &self.node, settings: &self.settings }
    }

    /// A Service `demo/NAME`.
    pub(crate) fn service(&mut self, name: &str, spec: &Value) -> Touched {
        let status = spec.get("status").cloned().unwrap_or_else(|| json!({}));
        let service =
            json!({"metadata": {"namespace": "demo", "name": name}, "spec": spec, "status": status});
        self.objects.push(("Service", completed(&service)));
        self.cluster.on_service(Seen::Object(serde_json::from_value(service).unwrap()))
    }

    /// Its slice, with a port `http` at 8080 of a protocol.
    pub(crate) fn slice(&mut self, name: &str, protocol: &str, endpoints: &Value) -> Touched {
        let family = endpoints[0]["addresses"][0].as_str().is_some_and(|ip| ip.contains(':'));
        let (family, suffix) = if family { ("IPv6", "6") } else { ("IPv4", "4") };
        let slice = json!({"metadata": {"namespace": "demo", "name": format!("{name}-{suffix}"),
            "labels": {"kubernetes.io/service-name": name}}, "addressType": family,
            "ports": [{"name": "http", "protocol": protocol, "port": 8080}], "endpoints": endpoints});
        self.objects.push(("EndpointSlice", slice.clone()));
        self.cluster.on_slice(Seen::Object(serde_json::from_value(slice).unwrap()))
    }

    pub(crate) fn gone(&mut self, name: &str) -> Touched {
        let service = json!({"metadata": {"namespace": "demo", "name": name}});
        self.cluster.on_service(Seen::Gone(serde_json::from_value(service).unwrap()))
    }
}

/// A ready endpoint on a node.
pub(crate) fn ready(ip: &str, node: &str) -> Value {
    json!({"addresses": [ip], "nodeName": node})
}

/// One of everything.
pub(crate) fn full() -> Scene {
    let mut scene = Scene::new();
    let port = |node_port: u16| json!([{"name": "http", "port": 80, "nodePort": node_port}]);
    let dual = |n: u8| json!([format!("10.96.0.{n}"), format!("fd00:96::{n}")]);
    let mut with_endpoints = |name: &str, spec: Value| {
        scene.service(name, &spec);
        scene.slice(name, "TCP", &json!([ready("10.7.0.2", "one"), ready("10.7.1.2", "two")]));
        scene.slice(name, "TCP", &json!([ready("fd00:70::2", "one"), ready("fd00:70::1:2", "two")]));
    };
    with_endpoints("plain", json!({"clusterIPs": dual(1), "ports": [{"name": "http", "port": 80}]}));
    with_endpoints("np", json!({"type": "NodePort", "clusterIPs": dual(2), "ports": port(30080)}));
    with_endpoints(
        "np-local",
        json!({"type": "NodePort", "clusterIPs": dual(3), "ports": port(30081), "externalTrafficPolicy": "Local"}),
    );
    with_endpoints(
        "ext",
        json!({"clusterIPs": dual(4), "externalIPs": ["192.0.2.4", "2001:db8::4"],
        "ports": [{"name": "http", "port": 80}], "internalTrafficPolicy": "Local"}),
    );
    with_endpoints(
        "lb",
        json!({"type": "LoadBalancer", "clusterIPs": dual(5), "ports": port(30082),
        "loadBalancerSourceRanges": ["192.168.7.0/24", "192.168.9.0/25", "2001:db8:1::/48"],
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.5"}, {"ip": "2001:db8::5"}]}}}),
    );
    with_endpoints(
        "sticky",
        json!({"clusterIPs": dual(6), "ports": [{"name": "http", "port": 80}],
        "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 7200}}}),
    );
    scene.service("empty", &json!({"type": "NodePort", "clusterIPs": dual(7), "ports": port(30083)}));
    scene.service(
        "away",
        &json!({"clusterIPs": dual(8), "ports": [{"name": "http", "port": 80, "protocol": "UDP"}],
        "internalTrafficPolicy": "Local"}),
    );
    scene.slice("away", "UDP", &json!([ready("10.7.1.2", "two")]));
    scene
}
