//! Ports in strategic merge patches: two protocols on one number are two entries.
//!
//! Upstream merges ports by number alone and so loses one of them in silence. Clients write their patches for that key;
//! hence the number alone decides as long as one entry has it, and number and protocol decide as soon as several do. What
//! a patch leaves open is looked up in the configuration that `kubectl apply` sends along with it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::strategic::{Identities, PatchError, is_delete, is_replace, no_key};
use crate::schema::KindSchema;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const PROTOCOL: &str = "protocol";

/// The ports that the author of a patch wanted before and wants in the end, if the patch tells.
#[derive(Debug, Default)]
pub(super) struct Desired {
    before: Option<Vec<Value>>,
    wanted: Option<Vec<Value>>,
}

impl Desired {
    /// Reads them from the annotations of `kubectl apply`.
    pub(super) fn of(kind: &KindSchema, live: &Map<String, Value>, patch: &Map<String, Value>) -> Self {
        if kind.kind != "Service" {
            return Self::default();
        }
        let ports = |object: &Map<String, Value>| {
            let annotation = object.get("metadata")?["annotations"][LAST_APPLIED].as_str()?;
            let mut applied: Value = serde_json::from_str(annotation).ok()?;
            match applied["spec"]["ports"].take() {
                Value::Array(ports) => Some(ports),
                _ => None,
            }
        };
        Self { wanted: ports(patch), before: ports(live) }
    }

    /// Those wanted with the number.
    fn with(&self, key: &str, number: &Value) -> Option<Vec<&Value>> {
        self.wanted.as_ref().map(|ports| ports.iter().filter(|port| port.get(key) == Some(number)).collect())
    }

    /// Was the field of the port set before? What is not known may have been.
    fn had(&self, key: &str, port: &Value, field: &str) -> bool {
        self.before.as_ref().is_none_or(|ports| {
            ports.iter().any(|before| {
                before.get(key) == port.get(key)
                    && protocol(before) == protocol(port)
                    && before.get(field).is_some()
            })
        })
    }
}

fn protocol(entry: &Value) -> &str {
    entry.get(PROTOCOL).and_then(Value::as_str).unwrap_or("TCP")
}

fn identity(number: &Value, protocol: &str) -> String {
    format!("{number}/{protocol}")
}

/// All that the lists of a patch say about one number.
#[derive(Debug, Default)]
struct Number<'a> {
    ours: Vec<&'a Value>,
    /// Changed or added entries.
    entries: Vec<&'a Value>,
    /// How often the order names the number; `None` without an order.
    ordered: Option<usize>,
}

/// Tells the entries of the live list, the patch and its order apart.
///
/// # Errors
/// An entry without the number.
pub(super) fn resolve(
    key: &str,
    ours: &[Value],
    theirs: &[Value],
    order: Option<&[Value]>,
    desired: &Desired,
) -> Result<Identities, PatchError> {
    let number_of = |item: &'_ Value| item.get(key).cloned().ok_or_else(|| no_key(item, key));
    let mut numbers: BTreeMap<String, Number<'_>> = BTreeMap::new();
    let of = |numbers: &mut BTreeMap<String, Number<'_>>, number: &Value| {
        let entry = numbers.entry(number.to_string()).or_default();
        entry.ordered = entry.ordered.or(order.map(|_| 0));
    };
    for item in ours.iter().filter(|item| item.get(key).is_some()) {
        of(&mut numbers, &item[key]);
        numbers.entry(item[key].to_string()).or_default().ours.push(item);
    }
    for item in theirs.iter().filter(|item| !is_replace(item)) {
        let number = number_of(item)?;
        of(&mut numbers, &number);
        if !is_delete(item) {
            numbers.entry(number.to_string()).or_default().entries.push(item);
        }
    }
    for item in order.unwrap_or_default() {
        let number = number_of(item)?;
        of(&mut numbers, &number);
        let entry = numbers.entry(number.to_string()).or_default();
        entry.ordered = entry.ordered.map(|n| n + 1);
    }
    let about = |number: &Value| numbers.get(&number.to_string());
    let mut out = Identities {
        ours: ours
            .iter()
            .map(|item| item.get(key).map(|number| identity(number, protocol(item))).unwrap_or_default())
            .collect(),
        ..Identities::default()
    };
    let mut added: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in theirs {
        if is_replace(item) {
            out.theirs.push(Vec::new());
            continue;
        }
        let number = number_of(item)?;
        let Some(about) = about(&number) else { continue };
        if is_delete(item) {
            out.theirs.push(about.deleted(key, &number, item, desired));
            continue;
        }
        let id = about.changed(key, &number, item, desired);
        added.entry(number.to_string()).or_default().push(id.clone());
        out.theirs.push(vec![id]);
    }
    out.order = order_of(key, order.unwrap_or_default(), &numbers, &added, desired);
    Ok(out)
}

impl Number<'_> {
    /// Does the number alone tell which entry is meant?
    fn alone(&self, entry: &Value) -> bool {
        let single = self.ours.len() <= 1 && self.entries.len() <= 1 && self.ordered.is_none_or(|n| n <= 1);
        // Without an order, another name and another protocol on a number that is there is a second port.
        let second = self.ordered.is_none()
            && self.ours.first().is_some_and(|ours| {
                protocol(ours) != protocol(entry)
                    && entry.get(PROTOCOL).is_some()
                    && entry.get("name").is_some_and(|name| ours.get("name") != Some(name))
            });
        single && !second
    }

    /// The identity that an entry of the patch changes or adds.
    fn changed(&self, key: &str, number: &Value, entry: &Value, desired: &Desired) -> String {
        if let (true, Some(ours)) = (self.alone(entry), self.ours.first()) {
            return identity(number, protocol(ours));
        }
        if entry.get(PROTOCOL).is_some() {
            return identity(number, protocol(entry));
        }
        // The patch holds what differs; the entry that is wanted in the end agrees with all of it.
        let fits = |wanted: &&Value| {
            entry.as_object().into_iter().flatten().all(|(field, value)| match wanted.get(field) {
                Some(wanted) => wanted == value,
                None => value.is_null() && desired.had(key, wanted, field),
            })
        };
        let wanted: Vec<&Value> = desired.with(key, number).into_iter().flatten().filter(fits).collect();
        match wanted.as_slice() {
            [one] => identity(number, protocol(one)),
            _ => identity(number, "TCP"),
        }
    }

    /// The identities that a delete of the number means.
    fn deleted(&self, key: &str, number: &Value, entry: &Value, desired: &Desired) -> Vec<String> {
        if entry.get(PROTOCOL).is_some() {
            return vec![identity(number, protocol(entry))];
        }
        let ours: Vec<String> = self.ours.iter().map(|ours| identity(number, protocol(ours))).collect();
        if let Some(wanted) = desired.with(key, number) {
            let wanted: BTreeSet<String> =
                wanted.into_iter().map(|w| identity(number, protocol(w))).collect();
            return ours.into_iter().filter(|id| !wanted.contains(id)).collect();
        }
        // The order says how many stay; those that come later go.
        let stay = self.ordered.unwrap_or_default().saturating_sub(self.entries.len());
        ours.into_iter().skip(stay).collect()
    }
}

/// The identities of the order list, whose items hold the number alone.
fn order_of(
    key: &str,
    order: &[Value],
    numbers: &BTreeMap<String, Number<'_>>,
    added: &BTreeMap<String, Vec<String>>,
    desired: &Desired,
) -> Vec<String> {
    let mut queues: BTreeMap<String, std::vec::IntoIter<String>> = BTreeMap::new();
    order
        .iter()
        .filter_map(|item| {
            let number = item.get(key)?;
            if item.get(PROTOCOL).is_some() {
                return Some(identity(number, protocol(item)));
            }
            let queue = queues.entry(number.to_string()).or_insert_with(|| {
                let about = numbers.get(&number.to_string());
                let ours = about.map(|a| a.ours.as_slice()).unwrap_or_default();
                let known = ours.iter().map(|ours| identity(number, protocol(ours)));
                let added = added.get(&number.to_string()).cloned().unwrap_or_default();
                let wanted = desired.with(key, number).unwrap_or_default();
                let mut ids: Vec<String> = if wanted.len() > 1 {
                    wanted.into_iter().map(|w| identity(number, protocol(w))).collect()
                } else {
                    Vec::new()
                };
                for id in known.chain(added) {
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                }
                ids.into_iter()
            });
            queue.next().or_else(|| Some(identity(number, "TCP")))
        })
        .collect()
}
