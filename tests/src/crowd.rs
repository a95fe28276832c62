//! Services with many pods, made and kept by requests alone: what the controllers are measured with.
//!
//! A pod has the size of one that a Deployment made (about 5 KB with its managed fields), so that decoding it costs what it
//! costs in a cluster. Owns the bodies of the requests; sends nothing.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::load::Shot;

/// Services and pods by number.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    /// What it is called.
    pub name: &'static str,
    /// Services.
    pub services: usize,
    /// Pods of each Service.
    pub pods: usize,
    /// Namespaces that the Services are spread over.
    pub namespaces: usize,
}

/// The crowds that figures are given for.
pub const CROWDS: [Crowd; 5] = [
    Crowd { name: "medium", services: 1000, pods: 10, namespaces: 10 },
    Crowd { name: "medium1ns", services: 1000, pods: 10, namespaces: 1 },
    Crowd { name: "large", services: 2000, pods: 20, namespaces: 10 },
    Crowd { name: "huge", services: 1, pods: 5000, namespaces: 1 },
    // What Kubernetes is built for: 5,000 nodes and 150,000 pods, here behind 10,000 Services.
    Crowd { name: "limit", services: 10_000, pods: 15, namespaces: 100 },
];

/// Nodes of a crowd with fewer pods than [`MANY`], and with more.
const NODES: [usize; 2] = [100, 5000];
const MANY: usize = 100_000;
const ZONES: [&str; 3] = ["a", "b", "c"];

impl Crowd {
    /// All pods.
    pub const fn all_pods(&self) -> usize {
        self.services * self.pods
    }

    fn nodes(&self) -> usize {
        NODES[usize::from(self.all_pods() >= MANY)]
    }

    fn namespace(&self, service: usize) -> String {
        format!("crowd-{}", service % self.namespaces)
    }

    fn namespace_of(&self, pod: usize) -> String {
        self.namespace(pod % self.services)
    }

    /// Nodes in three zones, and namespaces.
    pub fn ground(&self) -> Vec<Shot> {
        let node = |number: usize| {
            let name = format!("node-{number}");
            let labels = json!({
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": ZONES[number % ZONES.len()]});
            post("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}}))
        };
        let namespace = |number: usize| {
            post("/api/v1/namespaces", &json!({"metadata": {"name": format!("crowd-{number}")}}))
        };
        (0..self.nodes()).map(node).chain((0..self.namespaces).map(namespace)).collect()
    }

    /// The Services.
    pub fn services(&self) -> Vec<Shot> {
        (0..self.services).map(|number| service(&self.namespace(number), number)).collect()
    }

    /// The creation of a pod, without status.
    pub fn creation(&self, pod: usize) -> Shot {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace_of(pod));
        post(&path, &body(pod, pod % self.services, pod % self.nodes()))
    }

    /// The immediate deletion of a pod.
    pub fn deletion(&self, pod: usize) -> Shot {
        Shot { method: Method::DELETE, path: self.path(pod, "?gracePeriodSeconds=0"), body: Bytes::new() }
    }

    /// The pod runs, has its address, and is ready or not.
    pub fn status(&self, pod: usize, ready: bool) -> Shot {
        self.patch(pod, &status(pod, ready))
    }

    /// A change of the pod's status that no endpoint depends on.
    pub fn beside_the_point(&self, pod: usize, round: usize) -> Shot {
        let mut status = status(pod, true);
        status["containerStatuses"][0]["restartCount"] = round.into();
        status["message"] = format!("round {round}").into();
        self.patch(pod, &status)
    }

    fn patch(&self, pod: usize, status: &Value) -> Shot {
        let body = Bytes::from(json!({ "status": status }).to_string());
        Shot { method: Method::PATCH, path: self.path(pod, "/status"), body }
    }

    fn path(&self, pod: usize, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{}{rest}", self.namespace_of(pod), name(pod))
    }
}

/// Numbers of pods, and of the Service, of a roll-out: those of a crowd end below.
const ROLL_OUT: usize = 1_000_000;

/// The Service of a roll-out.
pub fn roll_out_service() -> Shot {
    service("crowd-0", ROLL_OUT)
}

/// The number of a pod of a roll-out.
pub const fn roll_out_pod(number: usize) -> usize {
    ROLL_OUT + number
}

/// The creation of a pod of a roll-out, without status.
pub fn roll_out_creation(pod: usize) -> Shot {
    post("/api/v1/namespaces/crowd-0/pods", &body(pod, ROLL_OUT, pod % NODES[0]))
}

/// A pod of a roll-out runs, has its address, and is ready or not.
pub fn roll_out_status(pod: usize, ready: bool) -> Shot {
    let body = Bytes::from(json!({ "status": status(pod, ready) }).to_string());
    Shot {
        method: Method::PATCH,
        path: format!("/api/v1/namespaces/crowd-0/pods/{}/status", name(pod)),
        body,
    }
}

fn service(namespace: &str, number: usize) -> Shot {
    let app = format!("app-{number}");
    post(
        &format!("/api/v1/namespaces/{namespace}/services"),
        &json!({"metadata": {"name": app, "labels": {"app": app}}, "spec": {"selector": {"app": app},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}}),
    )
}

/// The name of a pod.
pub fn name(pod: usize) -> String {
    format!("pod-{pod}")
}

/// The number of the pod of a name.
pub fn number(name: &str) -> Option<usize> {
    name.strip_prefix("pod-")?.parse().ok()
}

fn post(path: &str, body: &Value) -> Shot {
    Shot { method: Method::POST, path: path.to_owned(), body: Bytes::from(body.to_string()) }
}

fn address(pod: usize) -> String {
    format!("10.{}.{}.{}", 128 + pod / 62_500, pod / 250 % 250, pod % 250 + 1)
}

fn body(pod: usize, service: usize, node: usize) -> Value {
    let app = format!("app-{service}");
    let container = |name: &str, port: u16| {
        let variable =
            |number: u16| json!({"name": format!("SETTING_{number}"), "value": format!("value-of-{number}")});
        let probe = json!({"httpGet": {"path": "/healthz", "port": port, "scheme": "HTTP"},
            "initialDelaySeconds": 5, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
            "failureThreshold": 3});
        json!({"name": name, "image": format!("registry.example.test/team/{name}:v1.2.3"),
            "ports": [{"name": "http", "containerPort": port}],
            "env": (0..2).map(variable).collect::<Vec<_>>(),
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "readinessProbe": probe,
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets"}]})
    };
    json!({
        "metadata": {"name": name(pod), "labels": {"app": app, "pod-template-hash": "5d59d67564",
            "app.kubernetes.io/part-of": "crowd"},
            "annotations": {"example.test/checksum": "0123456789abcdef".repeat(8)}},
        "spec": {"nodeName": format!("node-{node}"), "serviceAccountName": "default",
            "containers": [container("main", 8080)],
            "volumes": [{"name": "token", "emptyDir": {}}],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]}
    })
}

fn status(pod: usize, ready: bool) -> Value {
    let word = if ready { "True" } else { "False" };
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "lastProbeTime": null,
            "lastTransitionTime": "2026-11-01T00:00:00Z"})
    };
    let container = |name: &str| {
        json!({"name": name, "ready": ready, "restartCount": 0, "started": true,
            "image": format!("registry.example.test/team/{name}:v1.2.3"),
            "imageID": format!("registry.example.test/team/{name}@sha256:{}", "0123456789abcdef".repeat(4)),
            "containerID": format!("containerd://{}", "fedcba9876543210".repeat(4)),
            "state": {"running": {"startedAt": "2026-11-01T00:00:00Z"}}})
    };
    json!({
        "phase": "Running", "hostIP": "192.0.2.1", "podIP": address(pod), "podIPs": [{"ip": address(pod)}],
        "startTime": "2026-11-01T00:00:00Z", "qosClass": "Burstable",
        "conditions": [condition("Initialized", "True"), condition("PodScheduled", "True"),
            condition("ContainersReady", word), condition("Ready", word)],
        "containerStatuses": [container("main")]
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_pod_has_its_own_address() {
        let addresses: HashSet<String> = (0..200_000).map(address).collect();
        assert_eq!(addresses.len(), 200_000);
        assert!(addresses.iter().all(|text| text.parse::<std::net::Ipv4Addr>().is_ok()));
        assert_eq!(number(&name(17)), Some(17));
    }
}
