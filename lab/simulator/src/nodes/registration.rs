//! The Node objects of the simulated nodes: made at the start, brought in line with the flags of this start, and filled
//! in when somebody makes one by hand.
//!
//! The flags of the last start count. A node that is no longer asked for is removed, as a cloud removes one; its pods
//! follow it like those of any node that is lost. What people changed by hand stays.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::SimulatedNode;
use super::simulated_node::{GIVEN_ZONE, SIMULATED, ZONE};
use crate::local::{Local, NODES};
use crate::registry::error::ApiError;
use crate::registry::object::meta;

/// Makes the Node objects of the simulated nodes, and brings those that are there in line.
///
/// # Errors
/// When the lab refuses one.
pub(super) fn register(
    local: &Local,
    simulated_nodes: &[SimulatedNode],
    now: Timestamp,
) -> Result<(), ApiError> {
    for simulated in simulated_nodes {
        match local.get(NODES, "", &simulated.name) {
            None => create(local, simulated, now)?,
            Some(node) => bring_in_line(local, simulated, &node, now)?,
        }
    }
    let wanted = |node: &Value| simulated_nodes.iter().any(|simulated| simulated.name == meta(node, "name"));
    for node in local.list(NODES, None).iter().filter(|node| is_simulated(node) && !wanted(node)) {
        let name = meta(node, "name");
        tracing::warn!(
            node = name,
            nodes = simulated_nodes.len(),
            "the node is not among those of --nodes: it is removed"
        );
        unless_gone(local.delete(NODES, ("", name), None, Some(meta(node, "uid"))))?;
    }
    Ok(())
}

/// Reports a Node that somebody made without saying what it is.
///
/// # Errors
/// When the lab refuses it.
pub(super) fn report(local: &Local, simulated: &SimulatedNode, now: Timestamp) -> Result<(), ApiError> {
    let place = ("", simulated.name.as_str());
    unless_gone(local.update(NODES, place, |node| {
        if let Value::Object(labels) = simulated.labels() {
            for (label, value) in labels {
                let known = &mut node["metadata"]["labels"][label];
                if known.is_null() {
                    *known = value;
                }
            }
        }
        node["metadata"]["annotations"][SIMULATED] = json!("true");
        node["metadata"]["annotations"][GIVEN_ZONE] = json!(simulated.zone);
        if simulated.zone.is_none() {
            forget(node, "/metadata/annotations", GIVEN_ZONE);
        }
        if node.pointer("/spec/podCIDRs").is_none_or(|ranges| ranges.as_array().is_none_or(Vec::is_empty)) {
            let ranges = simulated.shown_ranges();
            node["spec"]["podCIDR"] = ranges[0].clone();
            node["spec"]["podCIDRs"] = ranges;
        }
    }))?;
    unless_gone(local.update_status(NODES, place, |node| node["status"] = simulated.status(now)))
}

fn create(local: &Local, simulated: &SimulatedNode, now: Timestamp) -> Result<(), ApiError> {
    match local.create(NODES, "", &simulated.object(now)) {
        Err(error) if error.code() != 409 => Err(error),
        _ => Ok(()),
    }
}

fn bring_in_line(
    local: &Local,
    simulated: &SimulatedNode,
    node: &Value,
    now: Timestamp,
) -> Result<(), ApiError> {
    let name = simulated.name.as_str();
    if node.pointer("/spec/podCIDRs") != Some(&simulated.shown_ranges()) {
        // Ranges of a Node can not be changed.
        tracing::warn!(
            node = name,
            "the node's pod ranges are not those of the Service ranges' families: it is made anew"
        );
        unless_gone(local.delete(NODES, ("", name), None, Some(meta(node, "uid"))))?;
        return create(local, simulated, now);
    }
    if let Some(change) = zone_change(simulated, node) {
        tracing::warn!(
            node = name,
            from = change.from,
            to = change.to,
            "the node moves to another zone: --zones says so"
        );
        unless_gone(local.update(NODES, ("", name), |node| move_to_zone(simulated, node)))?;
    }
    Ok(())
}

/// From one zone to another; empty: none.
#[derive(Debug, PartialEq, Eq)]
struct ZoneChange {
    from: String,
    to: String,
}

/// Does the flag say another zone than it said when the node got its zone? A zone that people gave by hand stays.
fn zone_change(simulated: &SimulatedNode, node: &Value) -> Option<ZoneChange> {
    let value = |map: &str, key: &str| {
        node.pointer(map).and_then(|map| map.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let label = value("/metadata/labels", ZONE);
    let given = Some(value("/metadata/annotations", GIVEN_ZONE)).filter(|zone| !zone.is_empty());
    let to = simulated.zone.clone().unwrap_or_default();
    (given.as_ref().unwrap_or(&label) != &to).then_some(ZoneChange { from: label, to })
}

fn move_to_zone(simulated: &SimulatedNode, node: &mut Value) {
    if let Some(zone) = &simulated.zone {
        node["metadata"]["labels"][ZONE] = json!(zone);
        node["metadata"]["annotations"][GIVEN_ZONE] = json!(zone);
    } else {
        forget(node, "/metadata/labels", ZONE);
        forget(node, "/metadata/annotations", GIVEN_ZONE);
    }
}

fn forget(node: &mut Value, map: &str, key: &str) {
    if let Some(map) = node.pointer_mut(map).and_then(Value::as_object_mut) {
        map.remove(key);
    }
}

fn is_simulated(node: &Value) -> bool {
    node.pointer("/metadata/annotations").is_some_and(|annotations| annotations[SIMULATED] == "true")
}

/// What is gone meanwhile needs nothing any more.
fn unless_gone<T>(done: Result<T, ApiError>) -> Result<(), ApiError> {
    match done {
        Err(error) if error.code() == 404 => Ok(()),
        done => done.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use service_api::address::Family;

    use super::*;
    use crate::nodes::{Settings, simulated_nodes};
    use crate::testing;

    fn asked(count: usize, zones: &[&str], families: &[Family]) -> Vec<SimulatedNode> {
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        simulated_nodes(&Settings { count, zones }, families).unwrap()
    }

    fn zones(local: &Local) -> Vec<String> {
        let zone = |node: &Value| node["metadata"]["labels"][ZONE].as_str().unwrap_or("-").to_owned();
        local.list(NODES, None).iter().map(zone).collect()
    }

    #[rstest]
    #[case::the_same(&["a", "b"], &["a", "b", "a"])]
    #[case::others(&["x", "y"], &["x", "y", "x"])]
    #[case::none(&[], &["-", "-", "-"])]
    fn the_flags_of_the_last_start_count(#[case] later: &[&str], #[case] expected: &[&str]) {
        let local = Local::new(testing::api(), "kubelet");
        let now = Timestamp::UNIX_EPOCH;
        register(&local, &asked(3, &["a", "b"], &[Family::V4]), now).unwrap();
        register(&local, &asked(3, later, &[Family::V4]), now).unwrap();
        assert_eq!(zones(&local), expected);
    }

    #[test]
    fn a_zone_that_was_given_by_hand_stays() {
        let local = Local::new(testing::api(), "kubelet");
        let simulated_nodes = asked(2, &["a"], &[Family::V4]);
        register(&local, &simulated_nodes, Timestamp::UNIX_EPOCH).unwrap();
        local
            .update(NODES, ("", "k8s-node-2"), |node| node["metadata"]["labels"][ZONE] = json!("mine"))
            .unwrap();
        register(&local, &simulated_nodes, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(zones(&local), ["a", "mine"]);
    }

    #[test]
    fn nodes_that_are_not_asked_for_go_and_other_families_make_them_anew() {
        let local = Local::new(testing::api(), "kubelet");
        register(&local, &asked(3, &[], &[Family::V4]), Timestamp::UNIX_EPOCH).unwrap();
        local.create(NODES, "", &json!({"metadata": {"name": "mine"}})).unwrap();
        let both = [Family::V4, Family::V6];
        register(&local, &asked(2, &[], &both), Timestamp::UNIX_EPOCH).unwrap();
        let nodes = local.list(NODES, None);
        let names: Vec<&str> = nodes.iter().map(|node| meta(node, "name")).collect();
        assert_eq!(names, ["k8s-node-1", "k8s-node-2", "mine"]);
        assert_eq!(nodes[0]["spec"]["podCIDRs"], json!(["10.244.1.0/24", "fd00:10:244:1::/64"]));
    }

    #[test]
    fn a_node_made_by_hand_is_filled_in() {
        let local = Local::new(testing::api(), "kubelet");
        local
            .create(NODES, "", &json!({"metadata": {"name": "k8s-node-1", "labels": {ZONE: "mine"}}}))
            .unwrap();
        report(&local, &asked(1, &["a"], &[Family::V6])[0], Timestamp::UNIX_EPOCH).unwrap();
        let node = local.get(NODES, "", "k8s-node-1").unwrap();
        assert_eq!(node["spec"]["podCIDRs"], json!(["fd00:10:244:1::/64"]));
        assert_eq!(node["status"]["conditions"][3]["status"], json!("True"));
        assert_eq!(zones(&local), ["mine"]);
    }
}
