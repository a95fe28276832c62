//! Pods of workloads that have none yet, as manifests have them: each is ready, on the nodes in turn.
//!
//! Pure. Owns what a workload's pods look like here; the lab's stand-in for Deployments is another thing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::stages::{node, place};
use super::world::{Change, World};
use crate::explain::kind::Kind;

/// So many nodes are made up where none is known, each in a zone of its own.
const MADE_UP_NODES: usize = 3;

/// A workload: its kind and the object.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    kind: String,
    object: Value,
}

impl Workload {
    /// A workload of this kind, if it is one that has pods.
    pub(super) fn read(group: &str, kind: &str, json: &[u8]) -> Result<Option<Self>, serde_json::Error> {
        let has_pods = matches!(
            (group, kind),
            ("apps", "Deployment" | "StatefulSet" | "ReplicaSet" | "DaemonSet")
                | ("", "ReplicationController")
        );
        if !has_pods {
            return Ok(None);
        }
        let object: Value = serde_json::from_slice(json)?;
        // What another workload manages has its pods by that one.
        let managed =
            object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
        Ok((!managed).then(|| Self { kind: kind.to_owned(), object }))
    }
}

/// The pods of workloads, and nodes for them where none is known. Where a dump has pods, those are the workloads' already.
pub(super) fn pods(workloads: &[Workload], world: &World, notes: &mut Vec<String>) -> Vec<Change> {
    let mut changes = Vec::new();
    let index = &world.snapshot.index;
    if workloads.is_empty() || world.snapshot.knows(Kind::Pod) {
        return changes;
    }
    let mut nodes: Vec<String> = index.nodes.keys().map(ToString::to_string).collect();
    nodes.sort();
    if nodes.is_empty() {
        notes.push(format!("no Node is known: {MADE_UP_NODES} are made up, in as many zones"));
        nodes = (1..=MADE_UP_NODES).map(|n| format!("node-{n}")).collect();
        let zones = nodes.iter().zip(["zone-a", "zone-b", "zone-c"]);
        changes.extend(zones.map(|(name, zone)| Change::Put(Kind::Node, node(name, zone, 4000))));
    }
    let families = families(world);
    let mut number = 0;
    let mut names = BTreeSet::new();
    for workload in workloads {
        let object = &workload.object;
        let replicas = object["spec"]["replicas"].as_u64().unwrap_or(1);
        let count =
            if workload.kind == "DaemonSet" { nodes.len() } else { usize::try_from(replicas).unwrap_or(0) };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        for replica in 0..count {
            let mut pod = json!({"metadata": {}, "spec": object["spec"]["template"]["spec"]});
            pod["metadata"]["namespace"] = namespace.into();
            pod["metadata"]["labels"] = object["spec"]["template"]["metadata"]["labels"].clone();
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": workload.kind, "name": name, "uid": "sim", "controller": true}]);
            place(&mut pod, &format!("{name}-{replica}"), &nodes[number % nodes.len()], number, &families);
            number += 1;
            changes.push(Change::Put(Kind::Pod, pod));
        }
        names.insert(name.to_owned());
    }
    let all: Vec<String> = names.into_iter().collect();
    notes.push(format!("no Pod is known: {number} ready ones are made up for {}", all.join(", ")));
    changes
}

/// The families of made-up pods: IPv4, and IPv6 where a range or a Service has it.
fn families(world: &World) -> Vec<bool> {
    let ranges = world.snapshot.cidrs.iter().filter_map(|cidr| cidr.spec.as_ref()?.cidrs.as_ref()).flatten();
    let spec = |service: &k8s_openapi::api::core::v1::Service| {
        service_api::service::families(service_api::service::spec_of(service))
            .iter()
            .any(|family| family == "IPv6")
    };
    let v6 =
        ranges.into_iter().any(|range| range.contains(':')) || world.snapshot.services.values().any(spec);
    if v6 { vec![false, true] } else { vec![false] }
}
