//! What an edit does to objects, one stage after the other: a drained node's pods end before others take their place.
//!
//! Pure. Owns how pods are replaced and what a made-up node looks like; what follows from it is planned by `world`.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::edit::{Edit, ServiceEdit};
use super::values;
use super::world::{Change, World};
use crate::explain::kind::Kind;
use crate::keys;
use crate::text::Text;

/// The CPU of a made-up node where no other node says how much is usual.
const USUAL_CPU: i64 = 4000;

/// Pods that an edit ends, as they were read.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) pods: Vec<Value>,
    pub(super) nodes: Vec<Value>,
}

/// The stages of an edit: what each is called, and what changes in it.
pub(super) fn stages(edit: &Edit, world: &World, kept: &Kept) -> Result<Vec<(String, Vec<Change>)>, String> {
    let one = |name: String, changes: Vec<Change>| Ok(vec![(name, changes)]);
    match edit {
        Edit::MaxEndpointsPerSlice(max) => {
            one(format!("at most {max} endpoints per slice"), vec![Change::MaxPerSlice(*max)])
        }
        Edit::Zone { name, nodes } => {
            let cpu = world.snapshot.index.nodes.values().map(|node| node.cpu).max().filter(|cpu| *cpu > 0);
            let cpu = cpu.unwrap_or(USUAL_CPU);
            let made = (0..*nodes).map(|n| Change::Put(Kind::Node, node(&format!("{name}-{n}"), name, cpu)));
            one(format!("zone {name} with {nodes} nodes"), made.collect())
        }
        Edit::Drain(name) => drained(name, world, kept),
        Edit::NodeGone(name) => {
            known(name, world)?;
            let mut changes = vec![Change::NodeGone(name.clone())];
            changes.extend(on(name, kept).flat_map(|pod| [gone(pod)]));
            changes.extend(replaced(name, world, kept));
            one(format!("node {name} lost, its pods made anew elsewhere"), changes)
        }
        Edit::NodeZone { node, zone } => {
            known(node, world)?;
            let mut object = kept.nodes.iter().find(|kept| kept["metadata"]["name"] == **node).cloned();
            let object = object.get_or_insert_with(|| self::node(node, zone, USUAL_CPU));
            object["metadata"]["labels"][keys::ZONE] = zone.as_str().into();
            one(format!("node {node} in zone {zone}"), vec![Change::Put(Kind::Node, object.clone())])
        }
        Edit::Cidr { name, cidrs } => {
            let cidrs: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
            let object = json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}});
            one(
                format!("ServiceCIDR {name} is {}", cidrs.join(",")),
                vec![Change::Put(Kind::ServiceCidr, object)],
            )
        }
        Edit::Service { namespace, name, change } => {
            let key = (namespace.clone(), name.clone());
            let old = world.snapshot.services.get(&key);
            let old = old.ok_or_else(|| format!("there is no Service {namespace}/{name}"))?;
            let (said, new) = changed(old, change)?;
            let new = values::edited(&world.snapshot, old, new)?;
            let new = serde_json::to_value(new).map_err(|error| error.to_string())?;
            one(format!("Service {namespace}/{name}: {said}"), vec![Change::Put(Kind::Service, new)])
        }
    }
}

fn changed(
    old: &k8s_openapi::api::core::v1::Service,
    change: &ServiceEdit,
) -> Result<(String, k8s_openapi::api::core::v1::Service), String> {
    let mut object = serde_json::to_value(old).map_err(|error| error.to_string())?;
    let said = match change {
        ServiceEdit::DualStack => {
            object["spec"]["ipFamilyPolicy"] = "RequireDualStack".into();
            if let Some(families) = object["spec"]["ipFamilies"].as_array_mut()
                && let [only] = &families[..]
            {
                let other = if *only == "IPv4" { "IPv6" } else { "IPv4" };
                families.push(other.into());
            }
            "dual-stack".to_owned()
        }
        ServiceEdit::ExternalName(host) => {
            object["spec"]["type"] = "ExternalName".into();
            object["spec"]["externalName"] = host.as_str().into();
            format!("external name {host}")
        }
        ServiceEdit::Field { path, value } => {
            let (last, before) = path.split_last().ok_or("a field has no name")?;
            let parent = before.iter().fold(&mut object, |object, name| &mut object[name.as_str()]);
            match (parent.as_object_mut(), value) {
                (Some(fields), Value::Null) => {
                    fields.remove(last);
                }
                (Some(fields), value) => {
                    fields.insert(last.clone(), value.clone());
                }
                (None, value) => *parent = json!({last.as_str(): value}),
            }
            format!("{} = {value}", path.join("."))
        }
    };
    let new = serde_json::from_value(object).map_err(|error| format!("{said}: {error}"))?;
    Ok((said, new))
}

fn known(node: &str, world: &World) -> Result<(), String> {
    let there = world.snapshot.index.nodes.contains_key(node);
    if there { Ok(()) } else { Err(format!("there is no Node {node}")) }
}

fn drained(name: &str, world: &World, kept: &Kept) -> Result<Vec<(String, Vec<Change>)>, String> {
    known(name, world)?;
    let terminating = on(name, kept).map(|pod| {
        let mut pod = pod.clone();
        pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
        Change::Put(Kind::Pod, pod)
    });
    let mut after: Vec<Change> = on(name, kept).map(gone).collect();
    after.extend(replaced(name, world, kept));
    Ok(vec![
        (format!("node {name} drained: its pods terminate"), terminating.collect()),
        (format!("node {name} drained: its pods are gone, and made anew elsewhere"), after),
    ])
}

fn on<'a>(node: &'a str, kept: &'a Kept) -> impl Iterator<Item = &'a Value> {
    kept.pods.iter().filter(move |pod| pod["spec"]["nodeName"] == *node)
}

fn gone(pod: &Value) -> Change {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default().to_owned();
    Change::PodGone { namespace: text("namespace"), name: text("name") }
}

/// Pods in place of those of a node, on the other nodes in turn. Only what has a controller is made anew, and what a
/// DaemonSet manages is not.
fn replaced(node: &str, world: &World, kept: &Kept) -> Vec<Change> {
    let mut others: Vec<&Text> =
        world.snapshot.index.nodes.keys().filter(|other| ***other != *node).collect();
    others.sort();
    let owner = |pod: &Value| -> Option<String> {
        let owners = pod["metadata"]["ownerReferences"].as_array()?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        owner["kind"].as_str().map(ToOwned::to_owned)
    };
    let managed =
        on(node, kept).filter_map(|pod| Some((pod, owner(pod)?))).filter(|(_, kind)| kind != "DaemonSet");
    managed
        .enumerate()
        .filter(|_| !others.is_empty())
        .map(|(number, (pod, kind))| {
            let mut pod = pod.clone();
            let old = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            // A StatefulSet's pods keep their names.
            let name = if kind == "StatefulSet" { old } else { format!("{old}-sim") };
            let families: Vec<bool> = ips(&pod).iter().map(|ip| ip.contains(':')).collect();
            place(&mut pod, &name, others[number % others.len()], number, &families);
            Change::Put(Kind::Pod, pod)
        })
        .collect()
}

fn ips(pod: &Value) -> Vec<String> {
    let listed = pod["status"]["podIPs"].as_array().into_iter().flatten();
    listed.filter_map(|ip| ip["ip"].as_str().map(ToOwned::to_owned)).collect()
}

/// Makes a pod a new and ready one on a node, with addresses of these families (true is IPv6) that no other has.
pub(super) fn place(pod: &mut Value, name: &str, node: &str, number: usize, families: &[bool]) {
    let number = u32::try_from(number).unwrap_or(u32::MAX) & 0x3f_ffff;
    let address = |v6: &bool| {
        if *v6 {
            Ipv6Addr::from((0xfd00_u128 << 112) | (0x51_u128 << 96) | u128::from(number + 1)).to_string()
        } else {
            // 100.64.0.0/10 is for such networks (RFC 6598), and pods are rarely there.
            Ipv4Addr::from(0x6440_0000_u32 | (number + 1)).to_string()
        }
    };
    let ips: Vec<Value> = families.iter().map(|v6| json!({"ip": address(v6)})).collect();
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["uid"] = format!("sim-pod-{name}-{number}").into();
    pod["spec"]["nodeName"] = node.into();
    pod["status"] = json!({
        "phase": "Running", "podIP": ips.first().map(|ip| ip["ip"].clone()), "podIPs": ips,
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
    });
    if let Some(meta) = pod["metadata"].as_object_mut() {
        meta.remove("deletionTimestamp");
    }
}

/// A node that is ready.
pub(super) fn node(name: &str, zone: &str, milli_cpu: i64) -> Value {
    json!({
        "metadata": {"name": name, "labels": {keys::ZONE: zone}},
        "status": {"allocatable": {"cpu": format!("{milli_cpu}m")}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}
