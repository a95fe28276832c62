//! Ports in strategic merge patches: two protocols on one number are two entries.
//!
//! Upstream merges ports by number alone and so loses one of them in silence. Clients write their patches for that key;
//! hence the number alone decides as long as one entry has it, and number and protocol decide as soon as several do.
//! What `kubectl apply` makes of several ports of one number can not be told apart any more, or is not even sent; their
//! part of its patch is made anew from the configuration that it sends along. `kubectl edit` sends none: a change that may
//! be meant for several ports is refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};
use service_api::cut::cut;

use super::directive::{DIRECTIVE, Identities, PatchError, is_delete, is_replace, no_key};
use crate::schema::KindSchema;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const PORTS: &str = "ports";
const ORDER: &str = "$setElementOrder/ports";
const PROTOCOL: &str = "protocol";
const NUMBER: &str = "port";

/// Most entries of one number that are told apart. An object has three at most, one for each protocol.
const CROWD: usize = 16;

/// Makes the part of a patch by `kubectl apply` that is about several ports of one number say what was meant.
pub(super) fn complete(kind: &KindSchema, live: &Map<String, Value>, patch: &mut Map<String, Value>) {
    if kind.kind != "Service" {
        return;
    }
    let Some(wanted) = applied_ports(patch) else { return };
    let Value::Object(spec) = patch.entry("spec").or_insert_with(|| json!({})) else { return };
    let theirs = match spec.get(PORTS) {
        None => Vec::new(),
        Some(Value::Array(theirs)) => theirs.clone(),
        Some(_) => return,
    };
    let before = applied_ports(live).unwrap_or_default();
    let ours = live.get("spec").and_then(|spec| spec[PORTS].as_array()).cloned().unwrap_or_default();
    let apply = Apply { wanted, before, ours, theirs };
    let shared = apply.shared();
    if shared.is_empty() || !apply.is_plain() {
        return;
    }
    // Such a configuration is refused anyway, by validation.
    let Some(entries) = apply.entries(&shared) else { return };
    spec.insert(ORDER.to_owned(), Value::Array(apply.order(&shared)));
    spec.insert(PORTS.to_owned(), Value::Array(entries));
}

/// The ports that `kubectl apply` works with.
struct Apply {
    /// In the configuration that is applied.
    wanted: Vec<Value>,
    /// In the one that was applied before.
    before: Vec<Value>,
    /// Of the live object.
    ours: Vec<Value>,
    /// In the patch.
    theirs: Vec<Value>,
}

impl Apply {
    /// Whether nothing but ports and deletes of ports is there.
    fn is_plain(&self) -> bool {
        let mut all = self.wanted.iter().chain(&self.before).chain(&self.theirs);
        all.all(|item| item.get(NUMBER).is_some() && !is_replace(item))
    }

    /// The numbers that several ports have, in one place or another.
    fn shared(&self) -> BTreeSet<String> {
        let mut shared = BTreeSet::new();
        for ports in [&self.wanted, &self.before, &self.ours, &self.theirs] {
            let mut seen = BTreeSet::new();
            let numbers = ports.iter().filter(|port| !is_delete(port)).map(|port| port[NUMBER].to_string());
            shared.extend(numbers.filter(|number| !seen.insert(number.clone())));
        }
        shared
    }

    /// The order that is wanted; where the number alone decides, it stands alone.
    fn order(&self, shared: &BTreeSet<String>) -> Vec<Value> {
        let item = |port: &Value| {
            let number = &port[NUMBER];
            if shared.contains(&number.to_string()) {
                json!({NUMBER: number, PROTOCOL: protocol(port)})
            } else {
                json!({NUMBER: number})
            }
        };
        self.wanted.iter().map(item).collect()
    }

    /// The entries of the patch, those of shared numbers made anew; `None` if there are too many of one number.
    fn entries(&self, shared: &BTreeSet<String>) -> Option<Vec<Value>> {
        let is_shared = |port: &Value| shared.contains(&port[NUMBER].to_string());
        let (wanted, before) = (ByNumber::of(&self.wanted)?, ByNumber::of(&self.before)?);
        let mut changes: HashMap<String, usize> = HashMap::new();
        for (at, item) in
            self.theirs.iter().enumerate().filter(|(_, item)| !is_shared(item) && !is_delete(item))
        {
            changes.insert(item[NUMBER].to_string(), at);
        }
        let mut placed = vec![false; self.theirs.len()];
        let mut entries = Vec::new();
        for port in &self.wanted {
            if is_shared(port) {
                entries.push(change(port, before.of_number(port)));
            } else if let Some(at) = changes.remove(&port[NUMBER].to_string()) {
                placed[at] = true;
                entries.push(self.theirs[at].clone());
            }
        }
        let rest = self.theirs.iter().zip(placed).filter(|(item, placed)| !placed && !is_shared(item));
        entries.extend(rest.map(|(item, _)| item.clone()));
        let deletes = self.theirs.iter().filter(|item| is_delete(item));
        let deleted: BTreeSet<String> = deletes.map(|item| item[NUMBER].to_string()).collect();
        // A live port goes that was applied before and is wanted no more; ports of others stay.
        let goes = |port: &&Value| {
            let known = deleted.contains(&port[NUMBER].to_string()) || before.has(port);
            is_shared(port) && !wanted.has(port) && known
        };
        let delete =
            |port: &Value| json!({DIRECTIVE: "delete", NUMBER: port[NUMBER], PROTOCOL: protocol(port)});
        entries.extend(self.ours.iter().filter(goes).map(delete));
        Some(entries)
    }
}

/// Ports by their number.
struct ByNumber<'a>(HashMap<String, Vec<&'a Value>>);

impl<'a> ByNumber<'a> {
    /// `None` if there are too many of one number.
    fn of(ports: &'a [Value]) -> Option<Self> {
        let mut by_number: HashMap<String, Vec<&Value>> = HashMap::new();
        for port in ports {
            let same = by_number.entry(port[NUMBER].to_string()).or_default();
            same.push(port);
            if same.len() > CROWD {
                return None;
            }
        }
        Some(Self(by_number))
    }

    fn of_number(&self, port: &Value) -> &[&'a Value] {
        self.0.get(&port[NUMBER].to_string()).map_or(&[], Vec::as_slice)
    }

    fn has(&self, port: &Value) -> bool {
        self.of_number(port).iter().any(|other| is_same(other, port))
    }
}

/// The ports of the configuration that `kubectl apply` keeps in an annotation.
fn applied_ports(object: &Map<String, Value>) -> Option<Vec<Value>> {
    let annotation = object.get("metadata")?["annotations"][LAST_APPLIED].as_str()?;
    let mut applied: Value = serde_json::from_str(annotation).ok()?;
    match applied["spec"][PORTS].take() {
        Value::Array(ports) => Some(ports),
        _ => None,
    }
}

/// The entry of a patch that makes `wanted` of a port; what was set before and is not wanted is taken off.
fn change(wanted: &Value, before: &[&Value]) -> Value {
    let mut entry = Map::new();
    for port in before.iter().filter(|port| is_same(port, wanted)) {
        entry.extend(port.as_object().into_iter().flatten().map(|(field, _)| (field.clone(), Value::Null)));
    }
    entry.extend(wanted.as_object().cloned().unwrap_or_default());
    entry.insert(PROTOCOL.to_owned(), protocol(wanted).into());
    Value::Object(entry)
}

fn is_same(one: &Value, other: &Value) -> bool {
    one.get(NUMBER) == other.get(NUMBER) && protocol(one) == protocol(other)
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
    /// The order names the protocols as well; what a client computes by number does not.
    told: bool,
}

/// Tells the entries of the live list, the patch and its order apart.
///
/// # Errors
/// An entry without the number, or a change of a Service's port that may be meant for several.
pub(super) fn resolve(
    key: &str,
    ours: &[Value],
    theirs: &[Value],
    order: Option<&[Value]>,
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
        entry.told |= item.get(PROTOCOL).is_some();
    }
    let crowd = |about: &Number<'_>| {
        about.ours.len().max(about.entries.len()).max(about.ordered.unwrap_or_default()) > CROWD
    };
    if let Some((number, _)) = numbers.iter().find(|(_, about)| crowd(about)) {
        return Err(PatchError::Ambiguous(format!(
            "there are more than {CROWD} entries of port {}",
            cut(number)
        )));
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
            out.theirs.push(about.deleted(&number, item));
            continue;
        }
        let added = added.entry(number.to_string()).or_default();
        let mut id = match about.meant(key, item).as_slice() {
            [] => about.changed(&number, item, added.len()),
            [id] => id.clone(),
            several if key == NUMBER => return Err(ambiguous(&number, several)),
            _ => about.changed(&number, item, added.len()),
        };
        // A port that is there twice is one more, which validation refuses: merged, one of the two would be lost.
        let twice = added.contains(&id) || about.adds() && out.ours.contains(&id);
        if about.turns_into_second() {
            id = about.turned(&number, added.len());
        } else if key == NUMBER && twice {
            id = format!("{id} {}", added.len());
        }
        added.push(id.clone());
        out.theirs.push(vec![id]);
    }
    out.order = order_of(key, order.unwrap_or_default(), &numbers, &added);
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

    /// How often an order that a client computed names the number.
    fn computed(&self) -> Option<usize> {
        self.ordered.filter(|_| !self.told)
    }

    /// Whether a second protocol was added below the one that is there: computed, that is the live entry turned into
    /// the added one, and one like the live entry added.
    fn turns_into_second(&self) -> bool {
        match (self.ours.as_slice(), self.entries.as_slice(), self.computed()) {
            ([ours], [turned, like], Some(2)) => {
                turned.get(PROTOCOL).is_some()
                    && protocol(turned) != protocol(ours)
                    && protocol(like) == protocol(ours)
            }
            _ => false,
        }
    }

    fn turned(&self, number: &Value, place: usize) -> String {
        let ours = self.ours.first().map(|ours| identity(number, protocol(ours))).unwrap_or_default();
        if place == 0 { ours } else { format!("{ours} like") }
    }

    /// Whether an entry can only be one more, for the order has as many more as there are entries.
    fn adds(&self) -> bool {
        self.computed() == Some(self.ours.len() + self.entries.len())
    }

    fn nameless(&self) -> bool {
        self.entries.iter().all(|entry| entry.get(PROTOCOL).is_none())
    }

    /// Which live ports an entry can be a change of, if the order tells that it is a change of one of several: what is
    /// computed from the port before and after, as `kubectl edit` does, holds nothing that the port has already.
    fn meant(&self, key: &str, entry: &Value) -> Vec<String> {
        let changes = self.computed() == Some(self.ours.len()) && self.entries.len() < self.ours.len();
        if !changes || !self.nameless() {
            return Vec::new();
        }
        let fits = |ours: &&&Value| {
            let mut fields = entry.as_object().into_iter().flatten().filter(|(field, _)| *field != key);
            fields.all(|(field, value)| {
                ours.get(field) != Some(value) && (!value.is_null() || ours.get(field).is_some())
            })
        };
        self.ours.iter().filter(fits).map(|ours| identity(&ours[key], protocol(ours))).collect()
    }

    /// The identity that an entry of the patch, at this place among those of the number, changes or adds. Several
    /// without a protocol mean as many live ones; those that come with an order were sorted by number with a comparison
    /// that turns equal ones around.
    fn changed(&self, number: &Value, entry: &Value, place: usize) -> String {
        let nameless = self.entries.len() > 1 && self.nameless();
        let turned = self.computed().is_some() && self.entries.len() == self.ours.len();
        let place = if turned { self.ours.len().saturating_sub(place + 1) } else { place };
        match self.ours.get(if nameless { place } else { 0 }) {
            Some(ours) if nameless || self.alone(entry) => identity(number, protocol(ours)),
            _ => identity(number, protocol(entry)),
        }
    }

    /// The identities that a delete of the number means.
    fn deleted(&self, number: &Value, entry: &Value) -> Vec<String> {
        if entry.get(PROTOCOL).is_some() {
            return vec![identity(number, protocol(entry))];
        }
        // The order says how many stay. A computed patch names those it turned into another, and leaves the last ones.
        let named =
            |ours: &&&Value| self.entries.iter().any(|entry| entry.get(PROTOCOL) == ours.get(PROTOCOL));
        let stay = self.ordered.unwrap_or_default().saturating_sub(self.entries.len());
        let mut gone: Vec<&&Value> =
            self.ours.iter().filter(|ours| self.ordered.is_none() || !named(ours)).collect();
        gone.truncate(gone.len().saturating_sub(stay));
        gone.into_iter().map(|ours| identity(number, protocol(ours))).collect()
    }
}

fn ambiguous(number: &Value, several: &[String]) -> PatchError {
    PatchError::Ambiguous(format!(
        "the patch changes port {number} without its protocol, and may mean any of {}; name the protocol, or replace the \
         whole object",
        several.join(", ")
    ))
}

/// The identities of the order list, whose items hold the number alone.
fn order_of(
    key: &str,
    order: &[Value],
    numbers: &BTreeMap<String, Number<'_>>,
    added: &BTreeMap<String, Vec<String>>,
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
                let mut ids: Vec<String> = Vec::new();
                for id in known.chain(added) {
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                }
                if about.is_some_and(Number::turns_into_second) {
                    ids.reverse();
                }
                ids.into_iter()
            });
            queue.next().or_else(|| Some(identity(number, "TCP")))
        })
        .collect()
}
