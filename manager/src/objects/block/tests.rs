//! Whatever is read at once is read as the library reads it.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::to_json;

fn by_library(text: &str) -> Option<Value> {
    let options = serde_saphyr::options! { budget: None, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).ok()
}

fn at_once(text: &str) -> Option<Value> {
    to_json(text).map(|json| serde_json::from_slice(&json).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// As kubectl prints it: keys in order, lists as far to the left as their keys.
fn printed(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let _ = write!(out, "{pad}{}:", scalar(&Value::from(key.as_str())));
                below(value, indent, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut text = String::new();
                match item {
                    Value::Object(map) if !map.is_empty() => printed(item, indent + 2, &mut text),
                    _ => text = format!("{pad}  {}\n", scalar(item)),
                }
                text.replace_range(indent..=indent, "-");
                out.push_str(&text);
            }
        }
        _ => {
            let _ = writeln!(out, "{pad}{}", scalar(value));
        }
    }
}

fn below(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            printed(value, indent + 2, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            printed(value, indent, out);
        }
        Value::String(text)
            if text.contains('\n') && !text.starts_with([' ', '\n']) && !text.ends_with("\n\n") =>
        {
            let pad = " ".repeat(indent + 2);
            out.push_str(if text.ends_with('\n') { " |\n" } else { " |-\n" });
            for line in text.trim_end_matches('\n').split('\n') {
                let _ = if line.is_empty() { writeln!(out) } else { writeln!(out, "{pad}{line}") };
            }
        }
        _ => {
            let _ = writeln!(out, " {}", scalar(value));
        }
    }
}

/// A scalar without quotes wherever the library takes it for the same then.
fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let plain = by_library(&format!("a: {text}\n")).is_some_and(|read| read == json!({"a": text}))
        && by_library(&format!("- {text}\n")).is_some_and(|read| read == json!([text]))
        && by_library(&format!("{text}: 1\n")).is_some_and(|read| read == json!({text: 1}))
        && !text.contains('\n');
    if plain { text.clone() } else { value.to_string() }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,6}",
        "[A-Za-z0-9:./=_@~ ,{}\"'#*&!|>%`?+-]{0,8}",
        "[0-9a-fA-FxoetnTZ:.+_-]{1,8}",
        "[a-z \u{e4}\u{20ac}\u{1f600}\u{85}\u{2028}\t]{0,4}",
        "([a-z ]{0,3}\n){1,3}[a-z]{0,2}",
        prop::sample::select(vec![
            "true",
            "no",
            "null",
            "~",
            "1e3",
            "0x1f",
            "0o7",
            "1_000",
            "12:30",
            "2026-01-01",
            ".inf",
            "-.nan",
            "nan",
            "-inf",
            "1.5",
            "007",
            "-0",
            "10.96.0.1",
            "100m",
            "6fd96989f4",
            "--v=6",
            "-c",
            "f:spec",
            "k:{\"type\":\"Ready\"}",
            ".",
            "<<",
            "=",
            "a: b",
            "a #b",
            "- a",
            "",
            " ",
            "@x",
            "12345678901234567890",
            "0b1",
            "1,5",
            "0123abcd",
            "00000002-0000-4000-8000-000000000001",
            "10.96.0.0/12",
            "2001:db8::1",
        ])
        .prop_map(ToOwned::to_owned),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::String),
        any::<i32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                // A list in a list is nothing that Kubernetes has.
                .prop_map(|items| items
                    .into_iter()
                    .filter(|item| !item.is_array() || item == &json!([]))
                    .collect()),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_read_at_once_is_what_the_library_reads(value in value(), indent in 0..3usize) {
        let Value::Object(map) = &value else { return Ok(()) };
        prop_assume!(!map.is_empty());
        let mut text = String::new();
        printed(&value, indent, &mut text);
        if let Some(read) = at_once(&text) {
            prop_assert_eq!(Some(read), by_library(&text), "{}", text);
        }
    }

    /// Lines in any order and with any indentation: nothing is read that the library does not read so.
    #[test]
    fn what_is_no_yaml_of_kubectl_is_not_read_otherwise(
        lines in prop::collection::vec((0..4usize, prop::bool::ANY, prop::option::of("[a-z]{1,2}"), text()), 1..6),
    ) {
        let text: Vec<String> = lines
            .iter()
            .map(|(indent, dash, key, value)| {
                let (dash, key) = (if *dash { "- " } else { "" }, key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default());
                format!("{}{dash}{key}{value}\n", " ".repeat(indent * 2))
            })
            .collect();
        let text = text.concat();
        if let (Some(read), Some(expected)) = (at_once(&text), by_library(&text)) {
            prop_assert_eq!(read, expected, "{}", text);
        }
    }
}

#[test]
fn white_space_around_a_value_is_no_part_of_it() {
    for text in ["a:  x\n", "a:  \u{1f600}\n", "a: x \n", "a:\n-  x\n"] {
        assert!(at_once(text).is_none_or(|read| Some(read) == by_library(text)), "{text:?}");
    }
}

#[test]
fn what_kubectl_prints_of_a_pod_is_read_at_once() {
    let text = "  apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      example.com/script: |
        #!/bin/sh
        if true; then

          echo 'hello: world'
        fi
      example.com/text: |-
        one
        two
    creationTimestamp: \"2026-01-01T00:00:00Z\"
    generateName: web-6fd96989f4-
    labels:
      app: web
      pod-template-hash: 6fd96989f4
    managedFields:
    - apiVersion: v1
      fieldsType: FieldsV1
      fieldsV1:
        f:metadata:
          f:labels:
            .: {}
            f:app: {}
        f:status:
          f:conditions:
            k:{\"type\":\"Ready\"}:
              .: {}
              f:type: {}
      manager: kubelet
      operation: Update
      time: \"2026-01-01T00:00:01Z\"
    name: web-6fd96989f4-x7k2p
    namespace: demo
  spec:
    containers:
    - args:
      - --secure-port=0
      - -c
      - 'it''s: quoted'
      - \"tab\\tand \\\"quotes\\\"\"
      env:
      - name: EMPTY
        value: \"\"
      - name: NUMBER
        value: \"8080\"
      image: registry.example.com/team/web:v1.2.3
      ports:
      - containerPort: 8080
        name: http
        protocol: TCP
      resources:
        limits:
          cpu: 100m
          memory: 512Mi
      securityContext: {}
    tolerations: []
  status:
    conditions:
    - lastProbeTime: null
      lastTransitionTime: \"2026-01-01T00:00:02Z\"
      status: \"True\"
      type: Ready
    phase: Running
    podIP: 10.1.0.7
    podIPs:
    - ip: 10.1.0.7
    - ip: fd00::7
";
    let read = at_once(text).expect("this is what kubectl writes");
    assert_eq!(Some(&read), by_library(text).as_ref());
    assert_eq!(read["metadata"]["annotations"]["example.com/text"], "one\ntwo");
    assert_eq!(read["spec"]["containers"][0]["args"][2], "it's: quoted");
}
