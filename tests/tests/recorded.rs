//! The recorded cases themselves: the copy is the original, every case can be read, and every expected answer takes an
//! instance of itself and no other.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use service_tests::{
    bindings::Bindings,
    case::{self, Case, Step},
    matcher::Matcher,
    placeholder::{Kind, Placeholder, PortRange},
};

fn conformance() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
}

fn files(folder: &Path, extension: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn the_copy_is_the_original() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    if !shared.join("conformance").exists() {
        println!("skipped: {} is not there", shared.display());
        return;
    }
    for (folder, extension) in [
        ("conformance/api", "json"),
        ("conformance/controllers", "json"),
        ("conformance", "md"),
        ("reports", "yaml"),
    ] {
        let ours = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), extension);
        let theirs = files(&shared.join(folder), extension);
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{folder}");
        for (name, text) in &theirs {
            assert!(ours[name] == *text, "{folder}/{name} was edited");
        }
    }
}

fn all_cases() -> Vec<Case> {
    let load = |folder| case::load_folder(&conformance().join(folder)).unwrap();
    [load("api"), load("controllers")].concat()
}

#[test]
fn every_case_is_read_and_named_like_its_file() {
    for folder in ["api", "controllers"] {
        let names: Vec<String> = files(&conformance().join(folder), "json").into_keys().collect();
        let cases = case::load_folder(&conformance().join(folder)).unwrap();
        let read: Vec<String> = cases.iter().map(|case| format!("{}.json", case.name)).collect();
        assert_eq!(read, names);
        assert!(read.len() >= 250);
    }
}

/// Makes values that placeholders take, the same for the same name.
#[derive(Default)]
struct Instances {
    bindings: Bindings,
    made: u32,
}

impl Instances {
    fn of(&mut self, expected: &Value, ports: PortRange) -> Value {
        match expected {
            Value::String(text) => match Placeholder::parse(text).unwrap() {
                Some(placeholder) => self.placeholder(&placeholder, ports),
                None => expected.clone(),
            },
            Value::Array(list) => list.iter().map(|value| self.of(value, ports)).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| (key.clone(), self.of(value, ports))).collect()
            }
            value => value.clone(),
        }
    }

    fn placeholder(&mut self, placeholder: &Placeholder, ports: PortRange) -> Value {
        if let Some(bound) = placeholder.binds.as_ref().and_then(|name| self.bindings.get(name)) {
            return bound.clone();
        }
        let value = self.fresh(&placeholder.kind, ports);
        if let Some(name) = &placeholder.binds {
            self.bindings.set(name, value.clone());
        }
        value
    }

    fn fresh(&mut self, kind: &Kind, ports: PortRange) -> Value {
        self.made += 1;
        let number = self.made;
        match kind {
            Kind::Any => json!({"any": number}),
            Kind::Uid => json!(format!("00000000-0000-4000-8000-{number:012}")),
            Kind::ResourceVersion => json!(number.to_string()),
            Kind::Time => json!(format!("2026-08-20T10:{:02}:{:02}Z", number / 60 % 60, number % 60)),
            Kind::Name(prefix) => {
                let digit = |shift: u32| char::from(b"2456789"[(number / shift % 7) as usize]);
                json!(format!("{prefix}b{}{}{}{}", digit(343), digit(49), digit(7), digit(1)))
            }
            Kind::Ip(cidr, _) => {
                let count =
                    1_usize.checked_shl(u32::from(cidr.max_prefix_len() - cidr.prefix_len())).unwrap_or(4096);
                let start = number as usize % count;
                let addresses =
                    cidr.hosts().chain(cidr.hosts()).skip(start).map(|address| json!(address.to_string()));
                self.first_new(kind, addresses, ports)
            }
            Kind::Port(_) => self.first_new(kind, (ports.first..=ports.last).map(|port| json!(port)), ports),
        }
    }

    /// A value that nothing is bound to, or one that is: a freed address may come again.
    fn first_new(&self, kind: &Kind, values: impl Iterator<Item = Value> + Clone, ports: PortRange) -> Value {
        let known = format!("{:?}", self.bindings);
        let quoted = |value: &Value| match value {
            Value::String(text) => format!("{text:?}"),
            value => format!("Number({value})"),
        };
        let mut accepted = values.filter(|value| kind.accepts(value, ports));
        let fresh = accepted.clone().find(|value| !known.contains(&quoted(value)));
        fresh.or_else(|| accepted.next()).expect("a placeholder takes a value")
    }
}

fn expected_answers(case: &Case) -> Vec<Value> {
    case.steps
        .iter()
        .filter_map(|step| match step {
            Step::Request(step) => step.expect.body.clone().or(step.expect.events.clone().map(Value::Array)),
            Step::Settle(_) | Step::Controllers(_) => None,
        })
        .collect()
}

#[test]
fn every_expected_answer_takes_an_instance_of_itself_only() {
    let mut answers = 0;
    for case in all_cases() {
        let ports = PortRange::parse(&case.server.node_port_range).unwrap();
        let mut instances = Instances::default();
        let mut bindings = Bindings::default();
        for (index, expected) in expected_answers(&case).iter().enumerate() {
            let instance = instances.of(expected, ports);
            let got = instances.bindings.in_body(&instance).unwrap_or(instance);
            let mut matcher = Matcher::new(bindings.clone(), ports);
            matcher.value("", expected, &got);
            let (bound, mismatches) = matcher.finish();
            assert_eq!(mismatches, [], "{} answer {index}", case.name);
            for changed in changes(&got, expected) {
                let mut matcher = Matcher::new(bindings.clone(), ports);
                matcher.value("", expected, &changed);
                assert!(!matcher.finish().1.is_empty(), "{} answer {index} takes {changed}", case.name);
            }
            bindings = bound;
            answers += 1;
        }
    }
    assert!(answers > 1500, "{answers}");
}

/// Copies of an answer that differ in one place each: a leaf, a missing key, an additional key, a list cut short.
fn changes(got: &Value, expected: &Value) -> Vec<Value> {
    let mut changed = Vec::new();
    if expected.as_str().is_some_and(|text| text.starts_with("$any")) {
        return changed;
    }
    match (got, expected) {
        (Value::Object(map), Value::Object(expected)) => {
            let mut more = map.clone();
            more.insert("addedByTheTest".into(), Value::Null);
            changed.push(Value::Object(more));
            for (key, value) in map {
                let mut less = map.clone();
                less.remove(key);
                changed.push(Value::Object(less));
                let inner = changes(value, &expected[key]).into_iter().take(4);
                changed.extend(inner.map(|value| {
                    let mut map = map.clone();
                    map.insert(key.clone(), value);
                    Value::Object(map)
                }));
            }
        }
        (Value::Array(list), Value::Array(expected)) => {
            if let Some((_, shorter)) = list.split_last() {
                changed.push(Value::from(shorter));
            }
            for (index, (value, expected)) in list.iter().zip(expected).enumerate().take(3) {
                let inner = changes(value, expected).into_iter().take(4);
                changed.extend(inner.map(|value| {
                    let mut list = list.clone();
                    list[index] = value;
                    Value::Array(list)
                }));
            }
        }
        _ => changed.push(json!({"changed": got})),
    }
    changed
}
