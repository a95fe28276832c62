//! The objects of the demo: a Deployment, a Service of every type, and the endpoints of the one without a selector.

use serde_json::{Value, json};

fn labels() -> Value {
    json!({"app.kubernetes.io/name": "hello", "app.kubernetes.io/instance": "hello"})
}

/// Three pods that serve `http`.
pub(super) fn deployment() -> Value {
    json!({
        "metadata": {"name": "hello", "labels": labels()},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": labels()},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {"containers": [{
                    "name": "hello", "image": "registry.test/hello:1", "ports": [{"name": "http", "containerPort": 8080}],
                }]},
            },
        },
    })
}

/// One Service of every type, the node port of one chosen.
pub(super) fn services() -> [Value; 6] {
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]);
    let plain = json!([{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]);
    let service =
        |name: &str, spec: Value| json!({"metadata": {"name": name, "labels": labels()}, "spec": spec});
    [
        service("hello", json!({"selector": labels(), "ports": ports})),
        service(
            "hello-np",
            json!({"type": "NodePort", "selector": labels(), "ports": [
                {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP", "nodePort": 30080}
            ]}),
        ),
        service(
            "hello-lb",
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "selector": labels(), "ports": ports}),
        ),
        service("hello-headless", json!({"clusterIP": "None", "selector": labels(), "ports": ports})),
        json!({"metadata": {"name": "registry"}, "spec": {"type": "ExternalName", "externalName": "ghcr.io"}}),
        json!({"metadata": {"name": "legacy-api"}, "spec": {"ports": plain}}),
    ]
}

/// The endpoints of the Service without a selector, kept by hand; of the Service's family.
pub(super) fn legacy_slice(ipv6: bool) -> Value {
    let (family, addresses) = if ipv6 {
        ("IPv6", ["fd00:192:168:10::40", "fd00:192:168:10::41"])
    } else {
        ("IPv4", ["192.168.10.40", "192.168.10.41"])
    };
    json!({
        "metadata": {"name": "legacy-api-1", "labels": {
            "kubernetes.io/service-name": "legacy-api", "endpointslice.kubernetes.io/managed-by": "demo.example.com",
        }},
        "addressType": family,
        "endpoints": addresses.map(|address| json!({"addresses": [address], "conditions": {"ready": true}})),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}
