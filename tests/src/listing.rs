//! Compares listed objects with an expected list or with groups of slices, where the order means nothing: an assignment is
//! searched with backtracking, because a name bound by one object decides which other object fits. Never talks to a server.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    case::{Group, field},
    matcher::Matcher,
    normalise,
};

/// When the trigger of a change happened.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Compares whole objects in any order; the matcher takes over the bindings, or the differences of the closest assignment.
pub fn items(matcher: &mut Matcher, expected: &[Value], got: &[Value]) {
    let mut expected = expected.to_vec();
    expected.iter_mut().for_each(normalise::object);
    assign(matcher, &expected, got, &|matcher, index, expected, got| {
        matcher.value(&format!("items[{index}]"), expected, got);
    });
}

/// Compares slices with groups.
pub fn groups(matcher: &mut Matcher, expected: &[Group], got: &[Value]) {
    let mut expected = expected.to_vec();
    for group in &mut expected {
        normalise::sort_endpoints(&mut group.endpoints);
    }
    let got = into_groups(got);
    assign(matcher, &expected, &got, &match_group);
}

/// Something that is shown when nothing is found to match it.
trait Shown {
    fn shown(&self) -> Value;
}

impl Shown for Value {
    fn shown(&self) -> Value {
        self.clone()
    }
}

impl Shown for Group {
    fn shown(&self) -> Value {
        serde_json::json!({"object": self.object, "counts": self.counts, "endpoints": self.endpoints.len()})
    }
}

/// Slices that were found to agree in what a group compares.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    object: Value,
    slices: Vec<Vec<Value>>,
}

impl Shown for Found {
    fn shown(&self) -> Value {
        serde_json::json!({"object": self.object, "counts": self.counts(), "endpoints": self.endpoints()})
    }
}

impl Found {
    fn counts(&self) -> Vec<usize> {
        let mut counts: Vec<usize> = self.slices.iter().map(Vec::len).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    fn endpoints(&self) -> Vec<Value> {
        let mut endpoints = self.slices.concat();
        normalise::sort_endpoints(&mut endpoints);
        endpoints
    }
}

/// Collects slices that agree in everything but what is generated, times and endpoints.
fn into_groups(slices: &[Value]) -> Vec<Found> {
    let mut groups: BTreeMap<String, Found> = BTreeMap::new();
    for slice in slices {
        let mut object = slice.clone();
        let endpoints = match object.as_object_mut().and_then(|object| object.remove("endpoints")) {
            Some(Value::Array(endpoints)) => endpoints,
            _ => Vec::new(),
        };
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            for generated in ["name", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"] {
                metadata.remove(generated);
            }
            if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
                annotations.remove(TRIGGER_TIME);
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
        }
        let found = groups.entry(object.to_string()).or_insert_with(|| Found { object, slices: Vec::new() });
        found.slices.push(endpoints);
    }
    groups.into_values().collect()
}

fn match_group(matcher: &mut Matcher, index: usize, expected: &Group, got: &Found) {
    let path = format!("groups[{index}]");
    matcher.value(&format!("{path}.object"), &expected.object, &got.object);
    let counts = got.counts();
    if let Some(wanted) = &expected.counts
        && *wanted != counts
    {
        matcher.differs(
            &format!("{path}.counts"),
            Some(wanted.clone().into()),
            Some(counts.clone().into()),
            "",
        );
    }
    if let Some((from, to)) = expected.slices
        && !(from..=to).contains(&counts.len())
    {
        let note = "number of slices";
        matcher.differs(
            &format!("{path}.slices"),
            Some(vec![from, to].into()),
            Some(counts.len().into()),
            note,
        );
    }
    if let (Some(limit), Some(largest)) = (expected.max_per_slice, counts.first())
        && *largest > limit
    {
        matcher.differs(&format!("{path}.maxPerSlice"), Some(limit.into()), Some((*largest).into()), "");
    }
    let mut endpoints = got.endpoints();
    if let Some(wanted) = &expected.hints {
        let hints = take_hints(&mut endpoints);
        if hints != *wanted {
            let json = |hints: &Hints| serde_json::to_value(hints).unwrap_or_default();
            matcher.differs(&format!("{path}.hints"), Some(json(wanted)), Some(json(&hints)), "");
        }
    }
    let wanted = Value::Array(expected.endpoints.clone());
    matcher.value(&format!("{path}.endpoints"), &wanted, &Value::Array(endpoints));
}

type Hints = BTreeMap<String, BTreeMap<String, u64>>;

/// Takes the hints off endpoints and counts them by zone and hinted zone.
fn take_hints(endpoints: &mut [Value]) -> Hints {
    let mut counted = Hints::new();
    for endpoint in endpoints {
        let zone = field(endpoint, "zone").and_then(Value::as_str).unwrap_or_default().to_owned();
        let hints = endpoint.as_object_mut().and_then(|endpoint| endpoint.remove("hints"));
        let hinted = hints.as_ref().and_then(|hints| field(hints, "forZones")).and_then(Value::as_array);
        let names =
            hinted.into_iter().flatten().filter_map(|zone| field(zone, "name").and_then(Value::as_str));
        let hinted = names.collect::<Vec<_>>().join(",");
        *counted.entry(zone).or_default().entry(hinted).or_default() += 1;
    }
    counted
}

/// Compares one expected thing, at an index, with one found.
type Compare<'c, E, G> = &'c dyn Fn(&mut Matcher, usize, &E, &G);

/// Finds an assignment of expected to got in which everything matches.
fn assign<E: Shown, G: Shown>(matcher: &mut Matcher, expected: &[E], got: &[G], compare: Compare<'_, E, G>) {
    let mut used = vec![false; got.len()];
    if expected.len() == got.len()
        && let Some(found) = search(matcher, expected, got, compare, 0, &mut used)
    {
        *matcher = found;
        return;
    }
    closest(matcher, expected, got, compare);
}

fn search<E, G>(
    matcher: &Matcher,
    expected: &[E],
    got: &[G],
    compare: Compare<'_, E, G>,
    index: usize,
    used: &mut [bool],
) -> Option<Matcher> {
    let Some(wanted) = expected.get(index) else {
        let mut resolved = matcher.clone();
        resolved.resolve();
        return resolved.matches().then_some(resolved);
    };
    for (candidate, value) in got.iter().enumerate() {
        if used[candidate] {
            continue;
        }
        let mut trial = matcher.clone();
        compare(&mut trial, index, wanted, value);
        if trial.differences() > matcher.differences() {
            continue;
        }
        used[candidate] = true;
        if let Some(found) = search(&trial, expected, got, compare, index + 1, used) {
            return Some(found);
        }
        used[candidate] = false;
    }
    None
}

/// Pairs each expected with the one that differs least, to show useful differences.
fn closest<E: Shown, G: Shown>(matcher: &mut Matcher, expected: &[E], got: &[G], compare: Compare<'_, E, G>) {
    let mut left: Vec<usize> = (0..got.len()).collect();
    for (index, wanted) in expected.iter().enumerate() {
        let trials = left.iter().enumerate().map(|(place, candidate)| {
            let mut trial = matcher.clone();
            compare(&mut trial, index, wanted, &got[*candidate]);
            (place, trial)
        });
        if let Some((place, trial)) = trials.min_by_key(|(_, trial)| trial.differences()) {
            left.remove(place);
            *matcher = trial;
        } else {
            matcher.differs(&format!("[{index}]"), Some(wanted.shown()), None, "missing");
        }
    }
    for candidate in left {
        matcher.differs("[]", None, Some(got[candidate].shown()), "one too many");
    }
    matcher.resolve();
    if matcher.matches() {
        matcher.differs("[]", None, None, "no assignment of the listed objects fits all bindings");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{bindings::Bindings, placeholder::PortRange};

    fn matcher() -> Matcher {
        Matcher::new(Bindings::default(), PortRange { first: 30000, last: 32767 })
    }

    #[test]
    fn an_assignment_needs_backtracking() {
        // The first expected takes either; only the second choice lets the others match.
        let expected =
            [json!({"a": "$any#x"}), json!({"a": "$any#y", "b": 1}), json!({"a": "1", "c": "${y}"})];
        let got = [json!({"a": "1", "c": "2"}), json!({"a": "2", "b": 1}), json!({"a": "3"})];
        let mut found = matcher();
        items(&mut found, &expected, &got);
        let (bindings, mismatches) = found.finish();
        assert_eq!(mismatches, []);
        assert_eq!(bindings.get("x"), Some(&json!("3")));
    }

    #[test]
    fn bindings_of_earlier_steps_choose_among_equal_objects() {
        let expected = [json!({"name": "$name:w-#s1", "v": "$any"}), json!({"name": "$name:w-#s2", "v": 2})];
        let got = [json!({"name": "w-bbbbb", "v": 1}), json!({"name": "w-ccccc", "v": 2})];
        let mut bound = Bindings::default();
        bound.set("s1", json!("w-ccccc"));
        let mut wrong = Matcher::new(bound.clone(), PortRange { first: 1, last: 2 });
        items(&mut wrong, &expected, &got);
        assert!(!wrong.matches());
        bound.set("s1", json!("w-bbbbb"));
        let mut right = Matcher::new(bound, PortRange { first: 1, last: 2 });
        items(&mut right, &expected, &got);
        assert!(right.matches());
    }

    #[test]
    fn missing_and_additional_objects_differ() {
        for (expected, got) in
            [(vec![json!(1), json!(2)], vec![json!(2)]), (vec![json!(1)], vec![json!(1), json!(3)])]
        {
            let mut found = matcher();
            items(&mut found, &expected, &got);
            assert!(!found.matches());
        }
    }

    fn slice(name: &str, addresses: &[(&str, &str, &str)]) -> Value {
        let endpoints = addresses.iter().map(|(address, zone, hint)| {
            json!({"addresses": [address], "zone": zone, "hints": {"forZones": [{"name": hint}]}})
        });
        json!({"kind": "EndpointSlice", "metadata": {"name": name, "uid": name, "labels": {"a": "b"},
            "annotations": {TRIGGER_TIME: name}}, "ports": [], "endpoints": endpoints.collect::<Vec<_>>()})
    }

    fn group(counts: &[usize]) -> Group {
        serde_json::from_value(json!({
            "object": {"kind": "EndpointSlice", "metadata": {"labels": {"a": "b"}}, "ports": []},
            "counts": counts, "maxPerSlice": 2, "hints": {"z": {"y": 1, "z": 2}},
            "endpoints": [{"addresses": ["1"], "zone": "z"}, {"addresses": ["2"], "zone": "z"}, {"addresses": ["3"], "zone": "z"}],
        }))
        .unwrap()
    }

    #[test]
    fn a_group_counts_slices_endpoints_and_hints() {
        let got = [slice("x", &[("3", "z", "z")]), slice("y", &[("2", "z", "y"), ("1", "z", "z")])];
        let mut found = matcher();
        groups(&mut found, &[group(&[2, 1])], &got);
        assert_eq!(found.finish().1, []);
        let other_hints = [slice("x", &[("3", "z", "z")]), slice("y", &[("2", "z", "z"), ("1", "z", "z")])];
        let too_large = [slice("x", &[("3", "z", "z"), ("2", "z", "y"), ("1", "z", "z")])];
        for (group, got) in
            [(group(&[1, 2]), &got[..]), (group(&[2, 1]), &other_hints), (group(&[3]), &too_large)]
        {
            let mut found = matcher();
            groups(&mut found, &[group], got);
            assert!(!found.matches());
        }
    }

    #[test]
    fn a_group_may_bound_the_number_of_slices() {
        let got = [slice("x", &[("3", "z", "z")]), slice("y", &[("2", "z", "y"), ("1", "z", "z")])];
        for (bounds, fits) in [((1, 2), true), ((3, 4), false)] {
            let mut found = matcher();
            groups(&mut found, &[Group { counts: None, slices: Some(bounds), ..group(&[]) }], &got);
            assert_eq!(found.matches(), fits);
        }
    }
}
