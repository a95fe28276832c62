//! Simulated nodes and workloads together, event by event.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use service_api::address::Family;
use tokio_util::sync::CancellationToken;

use super::{Settings, Times, run, simulated_nodes, watch_over};
use crate::local::{DEPLOYMENTS, EVENTS, GroupResource, Local, NODES, PODS, REPLICA_SETS};
use crate::registry::object::meta;
use crate::testing;
use crate::workloads;

/// Nobody waits this long unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

struct TestCluster {
    user: Local,
    stop: CancellationToken,
}

impl TestCluster {
    fn start(nodes: usize) -> Self {
        Self::of_families(nodes, &[Family::V4])
    }

    fn of_families(nodes: usize, families: &[Family]) -> Self {
        let api = testing::api();
        let stop = CancellationToken::new();
        let settings = Settings { count: nodes, zones: vec!["a".into(), "b".into()] };
        let kubelets = Local::new(Arc::clone(&api), "kubelet");
        let (simulated_nodes, token) = (simulated_nodes(&settings, families).unwrap(), stop.clone());
        tokio::spawn(async move { run(&kubelets, simulated_nodes, None, token.cancelled()).await.unwrap() });
        let (keeper, token) = (Local::new(Arc::clone(&api), "keeper"), stop.clone());
        let times = Times { quarantine: SignedDuration::ZERO };
        tokio::spawn(async move { watch_over(&keeper, times, token.cancelled()).await.unwrap() });
        let controllers = Local::new(Arc::clone(&api), "workloads");
        let token = stop.clone();
        tokio::spawn(async move { workloads::run(&controllers, token.cancelled()).await.unwrap() });
        Self { user: Local::new(api, "user"), stop }
    }

    async fn until(&self, kind: GroupResource, what: &str, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
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

impl Drop for TestCluster {
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
    let cluster = TestCluster::start(3);
    cluster.user.create(DEPLOYMENTS, "default", &deployment(3, &quick())).unwrap();
    let pods = cluster
        .until(PODS, "three ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 3)
        .await;
    let nodes: std::collections::BTreeSet<&str> =
        pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap()).collect();
    assert_eq!(nodes.len(), 3);
    let addresses: std::collections::BTreeSet<&str> =
        pods.iter().map(|pod| pod["status"]["podIP"].as_str().unwrap()).collect();
    assert_eq!(addresses.len(), 3);
    cluster
        .until(DEPLOYMENTS, "a finished rollout", |all| {
            all.iter().all(|d| d["status"]["availableReplicas"] == 3)
        })
        .await;

    cluster.user.update(DEPLOYMENTS, ("default", "hello"), |d| d["spec"]["replicas"] = json!(2)).unwrap();
    cluster.until(PODS, "two pods", |pods| pods.len() == 2 && pods.iter().all(ready)).await;

    let first = cluster.user.list(PODS, None).remove(0);
    cluster.user.delete(PODS, ("default", meta(&first, "name")), None, None).unwrap();
    cluster
        .until(PODS, "a replacement", |pods| {
            pods.len() == 2 && pods.iter().all(|pod| ready(pod) && meta(pod, "uid") != meta(&first, "uid"))
        })
        .await;
    assert_eq!(cluster.user.list(REPLICA_SETS, None).len(), 1);
}

#[tokio::test]
async fn a_probe_that_can_not_pass_stops_the_rollout() {
    let cluster = TestCluster::start(2);
    cluster.user.create(DEPLOYMENTS, "default", &deployment(3, &quick())).unwrap();
    cluster.until(PODS, "three ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 3).await;
    cluster
        .user
        .update(DEPLOYMENTS, ("default", "hello"), |d| {
            d["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
                json!({"httpGet": {"path": "/nope", "port": "http"}, "periodSeconds": 5});
        })
        .unwrap();
    let events = cluster
        .until(EVENTS, "an Unhealthy Event", |events| {
            events.iter().any(|event| event["reason"] == "Unhealthy")
        })
        .await;
    let told = events.iter().find(|event| event["reason"] == "Unhealthy").unwrap();
    assert_eq!(told["message"], json!("Readiness probe failed: HTTP probe failed with statuscode: 404"));
    let pods = cluster.user.list(PODS, None);
    assert_eq!((pods.len(), pods.iter().filter(|pod| ready(pod)).count()), (4, 3));
}

#[tokio::test]
async fn a_cordoned_node_gets_no_pods() {
    let cluster = TestCluster::start(2);
    cluster.until(NODES, "two nodes", |nodes| nodes.len() == 2).await;
    cluster
        .user
        .update(NODES, ("", "k8s-node-1"), |node| node["spec"]["unschedulable"] = json!(true))
        .unwrap();
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name, "annotations": quick()}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
        cluster.user.create(PODS, "default", &pod).unwrap();
    }
    let pods =
        cluster.until(PODS, "two ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 2).await;
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] == "k8s-node-2"));
}

fn named(name: &str, labels: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "annotations": quick(), "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn on(node: &str) -> impl Fn(&&Value) -> bool {
    move |pod| pod["spec"]["nodeName"] == node
}

#[tokio::test]
async fn after_a_node_is_gone_pods_go_round_the_others() {
    for gone in ["k8s-node-1", "k8s-node-2", "k8s-node-3"] {
        let cluster = TestCluster::start(3);
        cluster.until(NODES, "three nodes", |nodes| nodes.len() == 3).await;
        cluster.user.delete(NODES, ("", gone), None, None).unwrap();
        cluster.until(NODES, "two nodes", |nodes| nodes.len() == 2).await;
        cluster.user.create(DEPLOYMENTS, "default", &deployment(6, &quick())).unwrap();
        let pods = cluster
            .until(PODS, "six ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 6)
            .await;
        let mut counts: Vec<usize> = ["k8s-node-1", "k8s-node-2", "k8s-node-3"]
            .iter()
            .map(|node| pods.iter().filter(on(node)).count())
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [0, 3, 3], "without {gone}");
    }
}

#[tokio::test]
async fn the_pods_of_a_node_that_is_gone_are_removed_and_replaced() {
    let cluster = TestCluster::start(3);
    cluster.user.create(DEPLOYMENTS, "default", &deployment(3, &quick())).unwrap();
    let all_ready = |pods: &[Value]| pods.len() == 3 && pods.iter().all(ready);
    cluster.until(PODS, "three ready pods", all_ready).await;
    cluster.user.delete(NODES, ("", "k8s-node-1"), None, None).unwrap();
    cluster
        .until(PODS, "a replacement elsewhere", |pods| {
            all_ready(pods) && !pods.iter().any(|pod| on("k8s-node-1")(&pod))
        })
        .await;
    // Somebody makes the node again: its kubelet says what it is, and it takes pods.
    cluster.user.create(NODES, "", &json!({"metadata": {"name": "k8s-node-1"}})).unwrap();
    let pinned = json!({"nodeSelector": {"kubernetes.io/hostname": "k8s-node-1"}});
    cluster.user.create(PODS, "default", &named("back", &json!({}), &pinned)).unwrap();
    cluster
        .until(PODS, "a pod on the node that is back", |pods| {
            pods.iter().any(|pod| on("k8s-node-1")(&pod) && ready(pod))
        })
        .await;
}

fn say_ready(cluster: &TestCluster, node: &str, status: &str) {
    cluster
        .user
        .update_status(NODES, ("", node), |node| {
            let conditions = node["status"]["conditions"].as_array_mut().unwrap();
            let ready = conditions.iter_mut().find(|condition| condition["type"] == "Ready").unwrap();
            ready["status"] = json!(status);
        })
        .unwrap();
}

#[tokio::test]
async fn the_pods_of_a_node_that_nobody_hears_of_are_not_ready() {
    let cluster = TestCluster::start(2);
    cluster.user.create(DEPLOYMENTS, "default", &deployment(2, &quick())).unwrap();
    cluster.until(PODS, "two ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 2).await;
    say_ready(&cluster, "k8s-node-1", "Unknown");
    let is_lost = |pod: &Value| on("k8s-node-1")(&pod) && !ready(pod);
    let pods = cluster.until(PODS, "an unready pod", |pods| pods.iter().any(is_lost)).await;
    assert_eq!(pods.iter().filter(|pod| ready(pod)).count(), 1);
    let taints = |node: &Value| node.pointer("/spec/taints").and_then(Value::as_array).map_or(0, Vec::len);
    cluster.until(NODES, "a taint", |nodes| nodes.iter().map(taints).sum::<usize>() == 2).await;
    cluster
        .until(EVENTS, "NodeNotReady", |events| events.iter().any(|e| e["reason"] == "NodeNotReady"))
        .await;
    // A pod that does not stand the taint for five minutes, as others do, is deleted, and stays until the kubelet is back.
    let first = pods.iter().find(|pod| is_lost(pod)).unwrap();
    cluster
        .user
        .update(NODES, ("", "k8s-node-1"), |node| {
            let taint = json!({"key": "mine", "effect": "NoExecute"});
            node["spec"]["taints"].as_array_mut().unwrap().push(taint);
        })
        .unwrap();
    let of_it = |pods: &[Value]| pods.iter().find(|pod| meta(pod, "uid") == meta(first, "uid")).cloned();
    cluster
        .until(PODS, "an eviction", |pods| {
            of_it(pods).is_some_and(|pod| !meta(&pod, "deletionTimestamp").is_empty())
        })
        .await;
    say_ready(&cluster, "k8s-node-1", "True");
    cluster.until(PODS, "the end of the evicted pod", |pods| of_it(pods).is_none()).await;
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_is_told_of_and_bound_when_there_is_room() {
    let cluster = TestCluster::start(1);
    cluster.until(NODES, "a node", |nodes| nodes.len() == 1).await;
    cluster
        .user
        .update_status(NODES, ("", "k8s-node-1"), |node| node["status"]["allocatable"]["pods"] = json!("1"))
        .unwrap();
    for name in ["a", "b"] {
        cluster.user.create(PODS, "default", &named(name, &json!({}), &json!({}))).unwrap();
    }
    let events = cluster
        .until(EVENTS, "FailedScheduling", |events| events.iter().any(|e| e["reason"] == "FailedScheduling"))
        .await;
    let told = events.iter().find(|event| event["reason"] == "FailedScheduling").unwrap();
    assert_eq!(told["message"], json!("0/1 nodes are available: 1 Too many pods."));
    let unschedulable = |pod: &Value| {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "PodScheduled" && c["reason"] == "Unschedulable")
    };
    let pods = cluster.until(PODS, "an unschedulable pod", |pods| pods.iter().any(unschedulable)).await;
    let bound = pods.iter().find(|pod| !unschedulable(pod)).unwrap();
    cluster.user.delete(PODS, ("default", meta(bound, "name")), None, None).unwrap();
    cluster.until(PODS, "the other one ready", |pods| pods.len() == 1 && pods.iter().all(ready)).await;
}

#[tokio::test]
async fn a_gate_is_heeded_as_soon_as_it_opens() {
    let cluster = TestCluster::start(1);
    let gated = json!({"readinessGates": [{"conditionType": "example.com/attached"}]});
    cluster.user.create(PODS, "default", &named("gated", &json!({}), &gated)).unwrap();
    let reason = |pod: &Value| {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
        ready.map(|condition| condition["reason"].clone())
    };
    cluster
        .until(PODS, "a closed gate", |pods| {
            pods.iter().any(|pod| reason(pod) == Some(json!("ReadinessGatesNotReady")))
        })
        .await;
    let set = |status: &str| {
        let condition = json!({"type": "example.com/attached", "status": status, "lastProbeTime": null,
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        cluster
            .user
            .update_status(PODS, ("default", "gated"), |pod| {
                let list = pod["status"]["conditions"].as_array_mut().unwrap();
                list.retain(|known| known["type"] != "example.com/attached");
                list.push(condition);
            })
            .unwrap();
    };
    set("True");
    cluster.until(PODS, "a ready pod", |pods| pods.iter().all(ready)).await;
    set("False");
    cluster.until(PODS, "an unready pod", |pods| !pods.iter().any(ready)).await;
}

#[tokio::test]
async fn a_relabelled_pod_is_let_go_replaced_and_left_alone() {
    let cluster = TestCluster::start(2);
    cluster.user.create(DEPLOYMENTS, "default", &deployment(2, &quick())).unwrap();
    let pods =
        cluster.until(PODS, "two ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 2).await;
    let name = meta(&pods[0], "name").to_owned();
    let relabel = |app: &str| {
        cluster
            .user
            .update(PODS, ("default", &name), |pod| pod["metadata"]["labels"]["app"] = json!(app))
            .unwrap();
    };
    let own = |pod: &Value| pod.pointer("/metadata/ownerReferences").is_some();
    relabel("debug");
    let pods = cluster
        .until(PODS, "a replacement", |pods| {
            pods.len() == 3 && pods.iter().all(ready) && pods.iter().filter(|pod| own(pod)).count() == 2
        })
        .await;
    assert!(pods.iter().any(|pod| meta(pod, "name") == name && !own(pod)));
    cluster.user.update(DEPLOYMENTS, ("default", "hello"), |d| d["spec"]["replicas"] = json!(0)).unwrap();
    cluster
        .until(PODS, "only the one that was let go", |pods| pods.len() == 1 && meta(&pods[0], "name") == name)
        .await;
    // With its labels back it is taken in again, and is one too many.
    relabel("hello");
    cluster.until(PODS, "no pod", <[Value]>::is_empty).await;
}

#[tokio::test]
async fn pods_have_addresses_of_the_clusters_families_in_their_order() {
    for (families, own, shown) in [
        (&[Family::V6][..], &["fd00:10:244:1::2"][..], &["fd00:192:168:10::20"][..]),
        (
            &[Family::V6, Family::V4],
            &["fd00:10:244:1::2", "10.244.1.2"],
            &["fd00:192:168:10::20", "192.168.10.20"],
        ),
        (
            &[Family::V4, Family::V6],
            &["10.244.1.2", "fd00:10:244:1::2"],
            &["192.168.10.20", "fd00:192:168:10::20"],
        ),
    ] {
        let cluster = TestCluster::of_families(1, families);
        cluster.user.create(PODS, "default", &named("own", &json!({}), &json!({}))).unwrap();
        cluster.until(PODS, "a ready pod", |pods| pods.iter().all(ready)).await;
        cluster
            .user
            .create(PODS, "default", &named("host", &json!({}), &json!({"hostNetwork": true})))
            .unwrap();
        cluster.until(PODS, "both ready", |pods| pods.len() == 2 && pods.iter().all(ready)).await;
        for (name, expected) in [("own", own), ("host", shown)] {
            let pod = cluster.user.get(PODS, "default", name).unwrap();
            let listed: Vec<Value> = expected.iter().map(|ip| json!({"ip": ip})).collect();
            assert_eq!(pod["status"]["podIP"], json!(expected[0]), "{families:?}");
            assert_eq!(pod["status"]["podIPs"], json!(listed), "{families:?}");
            assert_eq!(pod["status"]["hostIP"], json!(shown[0]), "{families:?}");
        }
    }
}

#[tokio::test]
async fn a_pod_has_the_zone_of_its_node() {
    let cluster = TestCluster::start(2);
    cluster.user.create(DEPLOYMENTS, "default", &deployment(2, &quick())).unwrap();
    let zone = |pod: &Value| pod["metadata"]["labels"]["topology.kubernetes.io/zone"].clone();
    let pods =
        cluster.until(PODS, "two ready pods", |pods| pods.iter().filter(|pod| ready(pod)).count() == 2).await;
    for pod in pods {
        let expected = if pod["spec"]["nodeName"] == "k8s-node-1" { "a" } else { "b" };
        assert_eq!(zone(&pod), json!(expected));
    }
    let made_there =
        cluster.user.create(PODS, "default", &named("there", &json!({}), &json!({"nodeName": "k8s-node-2"})));
    assert_eq!(zone(&made_there.unwrap()), json!("b"));
    let made_nowhere =
        cluster.user.create(PODS, "default", &named("nowhere", &json!({}), &json!({"nodeName": "other"})));
    assert_eq!(zone(&made_nowhere.unwrap()), Value::Null);
}
