//! Which differences from upstream's controllers are known and meant, by their rows in `docs/differences.md`: pure.
//!
//! ```text
//!   a write that upstream's controllers did not make, the object as it is --> name --> a row, or none,
//!                                                              ^                 or what has to be read first
//!                                                              +------ objects --------+
//! ```
//!
//! Owns how a row is recognised from what is there. A difference that a row explains in part is not known: what is left
//! of it would be hidden behind the row. It reads nothing itself.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::keys;

/// The rows that can be told from what is there, by the beginning of their first column.
pub const ROWS: [&str; 11] = [
    NO_NODE,
    UNKNOWN_NODE,
    PHASE,
    NODE_LATER,
    ZONE_LATER,
    NO_SELECTOR,
    EXTERNAL_NAME,
    HELD_SLICE,
    OTHER_MANAGER,
    EDITED,
    HELD_RANGE,
];

const NO_NODE: &str = "A pod of a Service has an address and is bound to no node";
const UNKNOWN_NODE: &str = "A pod of a Service is bound to a node that does not exist";
const PHASE: &str = "A pod's phase becomes Failed or Succeeded";
const NODE_LATER: &str = "A pod with an address is bound to its node later";
const ZONE_LATER: &str = "A node gets its zone label late";
const NO_SELECTOR: &str = "A Service loses its selector";
const EXTERNAL_NAME: &str = "A Service with a selector becomes an ExternalName";
const HELD_SLICE: &str = "A finalizer holds a slice that was deleted";
const OTHER_MANAGER: &str = "Somebody gives a slice another manager by its label";
const EDITED: &str = "Somebody edits the `Endpoints` of a Service with a selector";
const HELD_RANGE: &str = "A ServiceCIDR is deleted that Services hold";

/// Managers of the fields of an `Endpoints` object that keep it, upstream's and ours.
const KEEPERS: [&str; 2] = ["kube-controller-manager", "service-controller-manager"];

/// A write that was not made.
#[derive(Debug, Clone, Copy)]
pub struct Difference<'a> {
    /// `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: &'a str,
    /// The path of the object, or of the collection for a create.
    pub path: &'a str,
    /// What would be written.
    pub body: &'a Value,
    /// The object as it is, if it is there.
    pub live: Option<&'a Value>,
}

/// What is known of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// The row that explains it, as [`ROWS`] has it.
    Known(&'static str),
    /// No row explains it.
    New,
    /// What this path gives has to be read first.
    Read(String),
}

/// What was read, by path; `None` for what is not there.
pub type Around = BTreeMap<String, Option<Value>>;

/// The row that explains a difference. Whatever it asks for is to be added to `around`, and it asked again.
pub fn name(difference: &Difference<'_>, around: &Around) -> Named {
    let words: Vec<&str> = difference.path.trim_matches('/').split('/').collect();
    let named = match words[..] {
        [.., "namespaces", namespace, "endpointslices"]
        | [.., "namespaces", namespace, "endpointslices", _] => {
            Look { difference, around, namespace }.slice()
        }
        [.., "namespaces", namespace, "endpoints"] => Look { difference, around, namespace }.endpoints(""),
        [.., "namespaces", namespace, "endpoints", name] => {
            Look { difference, around, namespace }.endpoints(name)
        }
        [.., "servicecidrs", _, "status"] => Ok(says_more(difference).then_some(HELD_RANGE)),
        _ => Ok(None),
    };
    match named {
        Ok(Some(row)) => Named::Known(row),
        Ok(None) => Named::New,
        Err(path) => Named::Read(path),
    }
}

/// A path that has to be read.
type Missing = String;

struct Look<'a> {
    difference: &'a Difference<'a>,
    around: &'a Around,
    namespace: &'a str,
}

impl<'a> Look<'a> {
    fn read(&self, path: String) -> Result<Option<&'a Value>, Missing> {
        self.around.get(&path).map(Option::as_ref).ok_or(path)
    }

    fn of_namespace(&self, plural: &str, name: &str) -> Result<Option<&'a Value>, Missing> {
        self.read(format!("/api/v1/namespaces/{}/{plural}/{name}", self.namespace))
    }

    /// What became of the Service explains that its endpoints go.
    fn of_service(&self, service: &str) -> Result<Option<&'static str>, Missing> {
        let Some(service) = self.of_namespace("services", service)? else { return Ok(None) };
        let spec = &service["spec"];
        let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
        Ok(match (spec["type"] == "ExternalName", selects) {
            (true, true) => Some(EXTERNAL_NAME),
            (_, false) => Some(NO_SELECTOR),
            (false, true) => None,
        })
    }

    fn slice(&self) -> Result<Option<&'static str>, Missing> {
        let Difference { method, path, body, live } = *self.difference;
        let label = |object: &'a Value| object["metadata"]["labels"][keys::SERVICE_NAME].as_str();
        let Some(service) = label(body).or_else(|| live.and_then(label)) else { return Ok(None) };
        match (method, live) {
            ("DELETE", _) => self.of_service(service),
            ("POST", _) => {
                let query = format!("{path}?labelSelector={}%3D{service}", keys::SERVICE_NAME);
                Ok(items(self.read(query)?).find_map(out_of_reach))
            }
            (_, Some(live)) => {
                let (before, after) = (endpoints_of(live), endpoints_of(body));
                self.explain(&before, &after)
            }
            _ => Ok(None),
        }
    }

    fn endpoints(&self, name: &str) -> Result<Option<&'static str>, Missing> {
        let Difference { method, body, live, .. } = *self.difference;
        let Some(live) = live else { return self.never_made() };
        if method == "DELETE" {
            return Ok(self.of_service(name)?.filter(|row| *row == EXTERNAL_NAME));
        }
        if let Some(row) = self.explain(&addresses_of(live), &addresses_of(body))? {
            return Ok(Some(row));
        }
        let managers = live["metadata"]["managedFields"].as_array();
        let foreign = managers.into_iter().flatten().any(|manager| {
            let is_keeper = KEEPERS.iter().any(|keeper| manager["manager"] == **keeper);
            !is_keeper && !manager["fieldsV1"]["f:subsets"].is_null()
        });
        Ok(foreign.then_some(EDITED))
    }

    /// Why a Service has no `Endpoints` object: the API server refused upstream's, for a pod without a node.
    fn never_made(&self) -> Result<Option<&'static str>, Missing> {
        let name = self.difference.body["metadata"]["name"].as_str().unwrap_or_default();
        let Some(service) = self.of_namespace("services", name)? else { return Ok(None) };
        let selector = service["spec"]["selector"].as_object().into_iter().flatten();
        let pairs: Vec<String> =
            selector.map(|(key, value)| format!("{key}%3D{}", value.as_str().unwrap_or_default())).collect();
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector={}", self.namespace, pairs.join("%2C"));
        let unbound = |pod: &Value| pod["status"]["podIP"].is_string() && pod["spec"]["nodeName"].is_null();
        Ok(items(self.read(path)?).any(unbound).then_some(NO_NODE))
    }

    /// The row that explains each endpoint that goes or changes; none when there is one that none explains, or one comes.
    fn explain(
        &self,
        before: &Endpoints<'_>,
        after: &Endpoints<'_>,
    ) -> Result<Option<&'static str>, Missing> {
        if after.keys().any(|endpoint| !before.contains_key(endpoint)) {
            return Ok(None);
        }
        let mut row = None;
        for (endpoint, old) in before {
            let explained = match after.get(endpoint) {
                Some(new) if new == old => continue,
                Some(new) => moved(old, new),
                None => self.gone(old)?,
            };
            if explained.is_none() {
                return Ok(None);
            }
            row = row.or(explained);
        }
        Ok(row)
    }

    /// Why an endpoint is none any more.
    fn gone(&self, endpoint: &Value) -> Result<Option<&'static str>, Missing> {
        let Some(name) = endpoint["targetRef"]["name"].as_str() else { return Ok(None) };
        let Some(pod) = self.of_namespace("pods", name)? else { return Ok(None) };
        if matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
            return Ok(Some(PHASE));
        }
        let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
            return Ok(Some(NO_NODE));
        };
        Ok(self.read(format!("/api/v1/nodes/{node}"))?.is_none().then_some(UNKNOWN_NODE))
    }
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(|list| list["items"].as_array()).into_iter().flatten()
}

/// Why a slice of a Service is left to itself and another one is made.
fn out_of_reach(slice: &Value) -> Option<&'static str> {
    let meta = &slice["metadata"];
    let by = meta["labels"][keys::MANAGED_BY].as_str().unwrap_or_default();
    let is_owned = meta["ownerReferences"][0]["kind"] == "Service";
    if meta["deletionTimestamp"].is_string() {
        return Some(HELD_SLICE);
    }
    (is_owned && by != keys::SLICE_MANAGER).then_some(OTHER_MANAGER)
}

/// Endpoints by their address and what they lead to.
type Endpoints<'a> = BTreeMap<(String, String), &'a Value>;

fn keyed<'a>(endpoint: &'a Value, address: &Value) -> ((String, String), &'a Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ((text(address), text(&endpoint["targetRef"]["name"])), endpoint)
}

fn endpoints_of(slice: &Value) -> Endpoints<'_> {
    let all = slice["endpoints"].as_array().into_iter().flatten();
    all.map(|endpoint| keyed(endpoint, &endpoint["addresses"][0])).collect()
}

fn addresses_of(endpoints: &Value) -> Endpoints<'_> {
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    let lists = subsets.flat_map(|subset| [&subset["addresses"], &subset["notReadyAddresses"]]);
    let all = lists.flat_map(|list| list.as_array().into_iter().flatten());
    all.map(|address| keyed(address, &address["ip"])).collect()
}

/// Why an endpoint is somewhere else.
fn moved(old: &Value, new: &Value) -> Option<&'static str> {
    let rest = |endpoint: &Value| {
        let mut rest = endpoint.clone();
        for field in ["nodeName", "zone", "hints"] {
            rest.as_object_mut().and_then(|rest| rest.remove(field));
        }
        rest
    };
    if rest(old) != rest(new) {
        return None;
    }
    if old["nodeName"].is_null() && new["nodeName"].is_string() {
        return Some(NODE_LATER);
    }
    let zone_came = old["zone"] != new["zone"] || old["hints"] != new["hints"];
    (old["nodeName"] == new["nodeName"] && zone_came).then_some(ZONE_LATER)
}

/// Whether all that the patch of a range changes is that a condition's message goes on.
fn says_more(difference: &Difference<'_>) -> bool {
    let Some(live) = difference.live else { return false };
    let conditions = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let (before, after) = (conditions(live), conditions(difference.body));
    let goes_on = |new: &Value| {
        let old = before.iter().find(|old| old["type"] == new["type"] && old["status"] == new["status"]);
        let text = |condition: &Value| condition["message"].as_str().unwrap_or_default().to_owned();
        old.is_some_and(|old| old["reason"] == new["reason"] && text(new).starts_with(&text(old)))
    };
    !after.is_empty() && after.iter().all(goes_on)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_row_is_there() {
        let page = include_str!("../../docs/differences.md");
        for row in ROWS {
            assert!(page.contains(&format!("| {row}")), "{row}");
        }
    }

    #[test]
    fn a_range_that_is_held_says_more() {
        let condition = |message: &str| {
            json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Terminating",
                "message": message}]}})
        };
        let path = "/apis/networking.k8s.io/v1/servicecidrs/more/status";
        let named = |live: &Value, body: &Value| {
            name(&Difference { method: "PATCH", path, body, live: Some(live) }, &Around::new())
        };
        let (short, long) =
            (condition("There are still IPs"), condition("There are still IPs: 2, of shop/web"));
        assert_eq!(named(&short, &long), Named::Known(HELD_RANGE));
        assert_eq!(named(&long, &short), Named::New);
        assert_eq!(named(&json!({}), &long), Named::New);
    }

    #[test]
    fn what_a_row_explains_in_part_is_new() {
        let endpoint = |ip: &str, pod: &str| json!({"addresses": [ip], "targetRef": {"name": pod}});
        let slice = |endpoints: Value| json!({"metadata": {"labels": {"kubernetes.io/service-name": "web"}}, "endpoints": endpoints});
        let live = slice(json!([endpoint("10.0.0.1", "a"), endpoint("10.0.0.2", "b")]));
        let path = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-x";
        let mut around = Around::new();
        let mut named = |body: &Value| loop {
            match name(&Difference { method: "PUT", path, body, live: Some(&live) }, &around) {
                Named::Read(path) => {
                    let phase = if path.ends_with("/a") { "Failed" } else { "Running" };
                    let pod = json!({"status": {"phase": phase}, "spec": {"nodeName": "n1"}});
                    let found = if path.contains("/nodes/") { json!({}) } else { pod };
                    around.insert(path, Some(found));
                }
                named => return named,
            }
        };
        assert_eq!(named(&slice(json!([endpoint("10.0.0.2", "b")]))), Named::Known(PHASE));
        assert_eq!(named(&slice(json!([]))), Named::New, "nothing explains that b goes");
        assert_eq!(named(&slice(json!([endpoint("10.0.0.2", "b"), endpoint("10.0.0.3", "c")]))), Named::New);
    }
}
