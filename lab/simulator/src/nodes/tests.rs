//! Simulated nodes and workloads together, event by event.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Settings, machines, run};
use crate::local::{DEPLOYMENTS, EVENTS, Kind, Local, NODES, PODS, REPLICA_SETS};
use crate::registry::object::meta;
use crate::testing;
use crate::workloads;

/// Nobody waits this long unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    user: Local,
    stop: CancellationToken,
}

impl World {
    fn start(nodes: usize) -> Self {
        let api = testing::api();
        let stop = CancellationToken::new();
        let settings = Settings { count: nodes, zones: vec!["a".into(), "b".into()], dual_stack: false };
        let kubelets = Local::new(Arc::clone(&api), "kubelet");
        let (machines, token) = (machines(&settings).unwrap(), stop.clone());
        tokio::spawn(async move { run(&kubelets, machines, token.cancelled()).await.unwrap() });
        let controllers = Local::new(Arc::clone(&api), "workloads");
        let token = stop.clone();
        tokio::spawn(async move { workloads::run(&controllers, token.cancelled()).await.unwrap() });
        Self { user: Local::new(api, "user"), stop }
    }

    async fn until(&self, kind: Kind, what: &str, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let wait = async {
            loop {
                let (_, mut watch) = self.user.list_and_watch(kind).unwrap();
                let objects = self.user.list(kind, None);
                if done(&objects) {
                    return objects;
                }
                let _ = watch.next_batch().await;
            }
        };
        let objects = tokio::time::timeout(PATIENCE, wait).await;
        objects.unwrap_or_else(|_| panic!("never: {what}\n{:#}", json!(self.user.list(kind, None))))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn deployment(replicas: i64, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": "hello"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "hello"}},
            "template": {
                "metadata": {"labels": {"app": "hello"}, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "i:1", "ports": [{"name": "http", "containerPort": 8080}]}]}
            }
        }
    })
}

fn quick() -> Value {
    json!({
        "lab.service-controller-manager.io/start-after": "0s", "lab.service-controller-manager.io/ends-after": "0s",
    })
}

fn ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

#[tokio::test]
async fn a_deployment_runs_scales_and_is_replaced() {
    let world = World::start(3);
    world.user.create(DEPLOYMENTS, "default", &deployment(3, &quick())).unwrap();
    let pods =
        world.until(PODS, "three ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 3).await;
    let nodes: std::collections::BTreeSet<&str> =
        pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap()).collect();
    assert_eq!(nodes.len(), 3);
    let addresses: std::collections::BTreeSet<&str> =
        pods.iter().map(|pod| pod["status"]["podIP"].as_str().unwrap()).collect();
    assert_eq!(addresses.len(), 3);
    world
        .until(DEPLOYMENTS, "a finished rollout", |all| {
            all.iter().all(|d| d["status"]["availableReplicas"] == 3)
        })
        .await;

    world.user.update(DEPLOYMENTS, ("default", "hello"), |d| d["spec"]["replicas"] = json!(2)).unwrap();
    world.until(PODS, "two pods", |pods| pods.len() == 2 && pods.iter().all(ready)).await;

    let first = world.user.list(PODS, None).remove(0);
    world.user.delete(PODS, ("default", meta(&first, "name")), None, None).unwrap();
    world
        .until(PODS, "a replacement", |pods| {
            pods.len() == 2 && pods.iter().all(|pod| ready(pod) && meta(pod, "uid") != meta(&first, "uid"))
        })
        .await;
    assert_eq!(world.user.list(REPLICA_SETS, None).len(), 1);
}

#[tokio::test]
async fn a_probe_that_can_not_pass_stops_the_rollout() {
    let world = World::start(2);
    world.user.create(DEPLOYMENTS, "default", &deployment(3, &quick())).unwrap();
    world.until(PODS, "three ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 3).await;
    world
        .user
        .update(DEPLOYMENTS, ("default", "hello"), |d| {
            d["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
                json!({"httpGet": {"path": "/nope", "port": "http"}, "periodSeconds": 5});
        })
        .unwrap();
    let events = world
        .until(EVENTS, "an Unhealthy Event", |events| {
            events.iter().any(|event| event["reason"] == "Unhealthy")
        })
        .await;
    let told = events.iter().find(|event| event["reason"] == "Unhealthy").unwrap();
    assert_eq!(told["message"], json!("Readiness probe failed: HTTP probe failed with statuscode: 404"));
    let pods = world.user.list(PODS, None);
    assert_eq!((pods.len(), pods.iter().filter(|pod| ready(pod)).count()), (4, 3));
}

#[tokio::test]
async fn a_cordoned_node_gets_no_pods() {
    let world = World::start(2);
    world.until(NODES, "two nodes", |nodes| nodes.len() == 2).await;
    world.user.update(NODES, ("", "k8s-node-1"), |node| node["spec"]["unschedulable"] = json!(true)).unwrap();
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name, "annotations": quick()}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
        world.user.create(PODS, "default", &pod).unwrap();
    }
    let pods =
        world.until(PODS, "two ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 2).await;
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] == "k8s-node-2"));
}
