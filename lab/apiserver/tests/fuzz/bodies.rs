//! Bodies: small ones of every shape, and large ones that repeat one thing, which is what costs more than it should.

use std::fmt::Write as _;

use rand::prelude::*;
use rand::rngs::StdRng;

/// Largest number of repetitions in a large input; more in long runs.
static MANY: std::sync::LazyLock<usize> =
    std::sync::LazyLock::new(|| if crate::long_run().is_some() { 20_000 } else { 1_000 });

const NAMES: [&str; 26] = [
    "metadata",
    "spec",
    "ports",
    "port",
    "protocol",
    "name",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
    "fieldsV1",
    "data",
    "endpoints",
    "addresses",
    "containers",
    "env",
    "apiVersion",
    "kind",
    "selector",
    "uid",
    "controller",
    "$patch",
    "$retainKeys",
    "$setElementOrder/ports",
    "$deleteFromPrimitiveList/finalizers",
];

pub(crate) fn pick<'a>(rng: &mut StdRng, from: &[&'a str]) -> &'a str {
    from.choose(rng).copied().unwrap_or_default()
}

fn scalar(rng: &mut StdRng) -> String {
    match rng.random_range(0..9) {
        0 => "null".to_owned(),
        1 => "true".to_owned(),
        2 => rng.random_range(-1..70_000).to_string(),
        3 => format!("{}e{}", rng.random_range(0..9), rng.random_range(-400..400)),
        4 => format!(
            "\"{}\"",
            pick(rng, &["TCP", "UDP", "v1", "Service", "delete", "replace", "a/b", "!", ""])
        ),
        5 => format!("\"\\u{:04x}\"", rng.random_range(0..0x1_0000)),
        6 => "9".repeat(rng.random_range(1..400)),
        _ => format!("\"{}\"", "x".repeat(rng.random_range(0..40))),
    }
}

/// Any JSON value.
fn value(rng: &mut StdRng, depth: usize) -> String {
    let count = rng.random_range(0..4);
    match rng.random_range(0..if depth == 0 { 1 } else { 4 }) {
        0 => scalar(rng),
        1 => {
            let items: Vec<String> = (0..count).map(|_| value(rng, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let members: Vec<String> =
                (0..count).map(|_| format!("\"{}\":{}", pick(rng, &NAMES), value(rng, depth - 1))).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// The same thing many times, each with its number where a `@` stands.
pub(crate) fn repeated(rng: &mut StdRng, item: &str) -> String {
    // A server reads no body of more than three megabytes.
    let count = rng.random_range(1..*MANY).min(1 + 4_000_000 / (1 + item.len()));
    let items: Vec<String> = (0..count).map(|at| item.replace('@', &at.to_string())).collect();
    items.join(",")
}

/// A list or map that is long in one place.
fn long(rng: &mut StdRng) -> String {
    let item = pick(
        rng,
        &[
            r#"{"port":0,"name":"A","protocol":"x"}"#,
            r#"{"port":80,"protocol":"TCP"}"#,
            r#"{"port":@,"name":"p@"}"#,
            r#"{"port":80,"$patch":"delete"}"#,
            r#"{"port":@,"$patch":"delete"}"#,
            r#"{"uid":"@","controller":true,"kind":"a","name":"b","apiVersion":"v1"}"#,
            r#"{"manager":"m@","operation":"Update","apiVersion":"v@","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}"#,
            "{}",
            "[]",
            "null",
            r#""""#,
            r#""f@""#,
            "0",
            r#"{"addresses":["1.1.1.1"]}"#,
            r#"{"name":"c","env":[{"name":"e@"}]}"#,
        ],
    );
    let member = pick(
        rng,
        &[
            r#""!@":"!""#,
            r#""a@":"b""#,
            r#""a":"b""#,
            r#""f:a@":{}"#,
            r#""x@":{"a":1,"a":1}"#,
            r#""k@":null"#,
        ],
    );
    if rng.random_bool(0.6) {
        format!("[{}]", repeated(rng, item))
    } else {
        format!("{{{}}}", repeated(rng, member))
    }
}

fn object(rng: &mut StdRng) -> String {
    let kind = pick(rng, &["Service", "ConfigMap", "Pod", "EndpointSlice"]);
    let version = if kind == "EndpointSlice" { "discovery.k8s.io/v1" } else { "v1" };
    let huge = "k".repeat(rng.random_range(0..20_000));
    let inner = match rng.random_range(0..6) {
        0 => value(rng, 5),
        1 => format!("{{\"{}\":{}}}", pick(rng, &NAMES), long(rng)),
        2 => format!("{{\"{huge}\":{}}}", long(rng)),
        3 => format!("{{\"ports\":{}}}", long(rng)),
        4 => format!("{{\"containers\":[{{\"name\":\"{huge}\",\"env\":{}}}]}}", long(rng)),
        _ => nested(rng),
    };
    let place = pick(rng, &["spec", "metadata", "data", "endpoints", "status"]);
    format!(r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"a"}},"{place}":{inner}}}"#)
}

fn nested(rng: &mut StdRng) -> String {
    let depth = rng.random_range(1..20_000);
    let (open, close) = *[("[", "]"), ("{\"a\":", "}")].choose(rng).unwrap_or(&("[", "]"));
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

/// Damages a text in a few places, now and then.
pub(crate) fn damaged(rng: &mut StdRng, text: String) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    if rng.random_bool(0.3) {
        for _ in 0..rng.random_range(1..6) {
            if let Some(byte) = bytes.choose_mut(rng) {
                *byte = rng.random();
            }
        }
    }
    if rng.random_bool(0.1) {
        bytes.truncate(rng.random_range(0..=bytes.len()));
    }
    bytes
}

pub(crate) fn json_body(rng: &mut StdRng) -> Vec<u8> {
    let text = object(rng);
    damaged(rng, text)
}

pub(crate) fn yaml_body(rng: &mut StdRng) -> Vec<u8> {
    let text = match rng.random_range(0..6) {
        0 => object(rng),
        // Each alias stands for ten of the one before.
        1 => {
            let mut text = "a0: &a0 x\n".to_owned();
            for at in 1..rng.random_range(2..12) {
                let uses = vec![format!("*a{}", at - 1); 10].join(",");
                let _ = writeln!(text, "a{at}: &a{at} [{uses}]");
            }
            text
        }
        2 => format!("a: &a {}\nb: [{}]\n", "x".repeat(rng.random_range(0..100_000)), repeated(rng, "*a")),
        3 => format!("a: &a {{b: c}}\nb: [{}]\n", repeated(rng, "{<<: *a}")),
        4 => repeated(rng, "k@: v").replace(',', "\n"),
        _ => {
            let indent = rng.random_range(1..400);
            let lines: Vec<String> = (0..indent).map(|at| " ".repeat(at) + "a:").collect();
            lines.join("\n")
        }
    };
    damaged(rng, format!("apiVersion: v1\nkind: Service\n{text}"))
}

fn varint(mut number: usize) -> Vec<u8> {
    let low = |number: usize| u8::try_from(number & 0x7f).unwrap();
    let mut out = Vec::new();
    while number > 0x7f {
        out.push(low(number) | 0x80);
        number >>= 7;
    }
    out.push(low(number));
    out
}

fn field(number: usize, content: &[u8]) -> Vec<u8> {
    [varint((number << 3) | 2), varint(content.len()), content.to_vec()].concat()
}

fn message(rng: &mut StdRng, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rng.random_range(0..5) {
        let number = rng.random_range(1..20);
        match rng.random_range(0..4) {
            0 => out.extend([varint(number << 3), varint(rng.random_range(0..100_000))].concat()),
            1 if depth > 0 => out.extend(field(number, &message(rng, depth - 1))),
            2 => out.extend(field(number, &vec![rng.random(); rng.random_range(0..60)])),
            _ => {
                let one = field(number, &vec![0; rng.random_range(0..20)]);
                out.extend(one.repeat(rng.random_range(1..200)));
            }
        }
    }
    out
}

pub(crate) fn protobuf_body(rng: &mut StdRng) -> Vec<u8> {
    let meta = [field(1, b"v1"), field(2, pick(rng, &["Service", "ConfigMap", "Pod"]).as_bytes())].concat();
    let raw = match rng.random_range(0..4) {
        0 => field(2, &field(1, b"").repeat(rng.random_range(1..*MANY))),
        1 => (0..rng.random_range(1..200)).fold(Vec::new(), |inner, _| field(1, &inner)),
        _ => message(rng, 6),
    };
    let mut bytes = [b"k8s\0".to_vec(), field(1, &meta), field(2, &raw)].concat();
    if rng.random_bool(0.3)
        && let Some(byte) = bytes.choose_mut(rng)
    {
        *byte = rng.random();
    }
    bytes
}

fn operation(rng: &mut StdRng) -> String {
    const PATHS: [&str; 9] = [
        "/metadata/labels/a",
        "/metadata",
        "/metadata/k@",
        "/spec/ports/0",
        "/spec/ports/-",
        "/spec/ports",
        "/spec",
        "",
        "/metadata/annotations",
    ];
    let (op, from, path) = (
        pick(rng, &["add", "copy", "move", "remove", "replace", "test"]),
        pick(rng, &PATHS),
        pick(rng, &PATHS),
    );
    let value = if rng.random_bool(0.1) { long(rng) } else { value(rng, 2) };
    format!(r#"{{"op":"{op}","from":"{from}","path":"{path}","value":{value}}}"#)
}

pub(crate) fn json_patch(rng: &mut StdRng) -> Vec<u8> {
    let text = match rng.random_range(0..4) {
        0 => {
            let operations: Vec<String> = (0..rng.random_range(0..12)).map(|_| operation(rng)).collect();
            operations.join(",").replace('@', "0")
        }
        1 => repeated(rng, r#"{"op":"copy","from":"/metadata","path":"/metadata/k@"}"#),
        2 => {
            let list = long(rng);
            format!(r#"{{"op":"add","path":"/spec/ports","value":{list}}},"#)
                + &repeated(rng, r#"{"op":"add","path":"/spec/ports/0","value":1}"#)
        }
        _ => {
            let one = operation(rng);
            repeated(rng, &one)
        }
    };
    damaged(rng, format!("[{text}]"))
}

pub(crate) fn strategic_patch(rng: &mut StdRng) -> Vec<u8> {
    let text = match rng.random_range(0..4) {
        0 => object(rng),
        1 => format!(r#"{{"spec":{{"ports":{},"$setElementOrder/ports":{}}}}}"#, long(rng), long(rng)),
        2 => format!(
            r#"{{"metadata":{{"finalizers":{},"$deleteFromPrimitiveList/finalizers":{}}}}}"#,
            long(rng),
            long(rng)
        ),
        _ => {
            let applied =
                format!(r#"{{"spec":{{"ports":{}}}}}"#, long(rng)).replace('\\', "\\\\").replace('"', "\\\"");
            format!(
                r#"{{"metadata":{{"annotations":{{"kubectl.kubernetes.io/last-applied-configuration":"{applied}"}}}},"spec":{{"ports":{}}}}}"#,
                long(rng)
            )
        }
    };
    damaged(rng, text)
}
