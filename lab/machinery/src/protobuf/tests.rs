//! The table against the schema of each kind, written bodies read back, and damage.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rstest::rstest;
use serde_json::{Map, Value, json};

use crate::decode::{FieldValidation, Media, decode};
use crate::schema::{self as kinds, Scalar, StructType};

use super::schema::{Field, Message, Type, named, of_kind, size};
use super::*;

/// Every kind that has a message: its group, version and kind.
const WITH_PROTOBUF: &[(&str, &str, &str)] = &[
    ("", "v1", "Service"),
    ("", "v1", "Pod"),
    ("", "v1", "Node"),
    ("", "v1", "Namespace"),
    ("", "v1", "Endpoints"),
    ("", "v1", "Event"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Binding"),
    ("events.k8s.io", "v1", "Event"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("networking.k8s.io", "v1", "ServiceCIDR"),
    ("networking.k8s.io", "v1", "IPAddress"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("autoscaling", "v1", "Scale"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview"),
    ("authentication.k8s.io", "v1", "SelfSubjectReview"),
    ("apps", "v1", "DeleteOptions"),
];

fn message_of(group: &str, kind: &str) -> &'static Message {
    of_kind(group, kind).unwrap_or_else(|| panic!("no message for {kind} of {group:?}"))
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// A field with its content, as it stands in a body.
fn bytes(number: u64, content: &[u8]) -> Vec<u8> {
    let mut out = varint(number << 3 | 2);
    out.extend(varint(content.len() as u64));
    out.extend(content);
    out
}

fn number(at: u64, value: i64) -> Vec<u8> {
    [varint(at << 3), varint(value.cast_unsigned())].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
    out
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), bytes(1, &meta), bytes(2, raw), bytes(3, b""), bytes(4, b"")].concat()
}

/// The protobuf of JSON.
fn write(message: &Message, object: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    for field in &message.fields {
        if field.inline {
            let Type::Message(inner) = field.ty else { panic!("{} is no message", field.name) };
            out.extend(bytes(field.number, &write(named(inner).unwrap(), object)));
            continue;
        }
        match object.get(field.name) {
            None => {}
            Some(Value::Array(items)) if field.repeated => {
                out.extend(items.iter().flat_map(|item| write_one(field.number, field.ty, item)));
            }
            Some(Value::Object(map)) if field.map => {
                for (key, value) in map {
                    let entry = [bytes(1, key.as_bytes()), write_one(2, field.ty, value)].concat();
                    out.extend(bytes(field.number, &entry));
                }
            }
            Some(value) => out.extend(write_one(field.number, field.ty, value)),
        }
    }
    out
}

fn write_one(at: u64, ty: Type, value: &Value) -> Vec<u8> {
    match ty {
        Type::Text => bytes(at, value.as_str().unwrap().as_bytes()),
        Type::Bytes => bytes(at, &STANDARD.decode(value.as_str().unwrap()).unwrap()),
        Type::Integer => number(at, value.as_i64().unwrap()),
        Type::Bool => number(at, i64::from(value.as_bool().unwrap())),
        Type::Time { .. } => {
            let Some(text) = value.as_str() else { return bytes(at, b"") };
            let time: jiff::Timestamp = text.parse().unwrap();
            let nanos = number(2, time.subsec_nanosecond().into());
            bytes(at, &[number(1, time.as_second()), nanos].concat())
        }
        Type::IntOrString => {
            let text = value.as_str().unwrap_or_default();
            let (is_text, given) = (value.is_string(), value.as_i64().unwrap_or_default());
            let parts = [number(1, is_text.into()), number(2, given), bytes(3, text.as_bytes())];
            bytes(at, &parts.concat())
        }
        Type::Quantity => bytes(at, &bytes(1, value.as_str().unwrap().as_bytes())),
        Type::Json => bytes(at, &bytes(1, value.to_string().as_bytes())),
        Type::Texts => {
            let texts =
                value.as_array().unwrap().iter().map(|text| bytes(1, text.as_str().unwrap().as_bytes()));
            bytes(at, &texts.collect::<Vec<_>>().concat())
        }
        Type::Message(name) => bytes(at, &write(named(name).unwrap(), value.as_object().unwrap())),
    }
}

/// Any object of a message.
fn any_object(message: &Message, rng: &mut StdRng, out: &mut Map<String, Value>) {
    for field in &message.fields {
        if field.inline {
            let Type::Message(inner) = field.ty else { panic!("{} is no message", field.name) };
            any_object(named(inner).unwrap(), rng, out);
        } else if rng.random_bool(0.6) {
            let value = any_field(field, rng);
            out.insert(field.name.to_owned(), value);
        }
    }
}

fn any_field(field: &Field, rng: &mut StdRng) -> Value {
    let several = rng.random_range(1..3);
    if field.map {
        (0..several).map(|at| (format!("key-{at}"), any_value(field.ty, rng))).collect::<Map<_, _>>().into()
    } else if field.repeated {
        (0..several).map(|_| any_value(field.ty, rng)).collect()
    } else {
        any_value(field.ty, rng)
    }
}

fn any_value(ty: Type, rng: &mut StdRng) -> Value {
    match ty {
        Type::Text => json!(["", "a", "ä€", "10.0.0.1"][rng.random_range(0..4)]),
        Type::Bytes => json!(STANDARD.encode(rng.random::<[u8; 5]>())),
        Type::Integer => json!(rng.random::<i32>()),
        Type::Bool => json!(rng.random::<bool>()),
        Type::Time { micros: false } => {
            [json!("2026-01-02T03:04:05Z"), Value::Null][rng.random_range(0..2)].clone()
        }
        Type::Time { micros: true } => json!("1969-12-31T23:59:59.250000Z"),
        Type::IntOrString => [json!(rng.random::<i32>()), json!("25%")][rng.random_range(0..2)].clone(),
        Type::Quantity => json!("100m"),
        Type::Json => json!({"f:spec": {".": {}}}),
        Type::Texts => json!(["a", ""]),
        Type::Message(name) => {
            let mut object = Map::new();
            any_object(named(name).unwrap(), rng, &mut object);
            object.into()
        }
    }
}

/// Whether a field of the table is of the schema's type; messages are looked into.
fn same_type(ty: Type, other: &kinds::Type, path: &str) {
    let fits = match (ty, other) {
        (Type::Message(name), kinds::Type::Struct(_)) => {
            return same_fields(named(name).unwrap(), other.as_struct().unwrap(), path);
        }
        (Type::Texts, kinds::Type::List(list)) => list.item.as_scalar() == Some(Scalar::String),
        (_, kinds::Type::Scalar(scalar, _)) => matches!(
            (ty, scalar),
            (Type::Text, Scalar::String)
                | (Type::Bytes, Scalar::Bytes)
                | (Type::Integer, Scalar::Int32 | Scalar::Int64)
                | (Type::Bool, Scalar::Bool)
                | (Type::Time { micros: false }, Scalar::Time)
                | (Type::Time { micros: true }, Scalar::MicroTime)
                | (Type::IntOrString, Scalar::IntOrString)
                | (Type::Quantity, Scalar::Quantity)
                | (Type::Json, Scalar::Any)
        ),
        _ => false,
    };
    assert!(fits, "{path} is {ty:?} here and {} there", other.go_name());
}

/// Fields behind feature gates that are younger than the published messages.
const YOUNGER: &[&str] = &[
    "ClusterTrustBundleProjection.user",
    "ConfigMapVolumeSource.defaultUser",
    "DownwardAPIVolumeFile.user",
    "DownwardAPIVolumeSource.defaultUser",
    "EmptyDirVolumeSource.mode",
    "GRPCAction.mode",
    "HTTPGetAction.protocol",
    "KeyToPath.user",
    "NodeSpec.podPreemptionPolicy",
    "NodeSystemInfo.runningInUserNamespace",
    "PodCertificateProjection.user",
    "PodSpec.evictionResponders",
    "PodSpec.schedulingGroup",
    "PodStatus.nodeAllocatableResourceClaimStatuses",
    "PodStatus.volumeHealth",
    "ProjectedVolumeSource.defaultUser",
    "ResourceHealth.message",
    "SecretVolumeSource.defaultUser",
    "ServiceAccountTokenProjection.user",
    "VolumeMount.bindMountOptions",
    "VolumeMountStatus.volumeStatus",
];

fn flat(message: &Message) -> Vec<&Field> {
    let of = |field| match field {
        &Field { inline: true, ty: Type::Message(name), .. } => flat(named(name).unwrap()),
        own => vec![own],
    };
    message.fields.iter().flat_map(of).collect()
}

fn same_fields(message: &Message, strukt: &'static StructType, path: &str) {
    let depth = path.matches('.').count();
    let fields = flat(message);
    for field in &fields {
        let path = format!("{path}.{}", field.name);
        match strukt.field(field.name).map(|(_, found)| &found.ty) {
            Some(kinds::Type::List(list)) if field.repeated => same_type(field.ty, &list.item, &path),
            Some(kinds::Type::Map(map)) if field.map => same_type(field.ty, &map.value, &path),
            Some(other) if !field.repeated && !field.map => same_type(field.ty, other, &path),
            Some(other) => panic!("{path} is {other:?} there"),
            None => panic!("{path} is not in the schema"),
        }
    }
    for field in &strukt.fields {
        let known = fields.iter().any(|own| own.name == field.name);
        let key = format!("{}.{}", strukt.name, field.name);
        // A kind inside another: the options of an eviction.
        let is_kind = depth == 0 || strukt.name == "DeleteOptions";
        let is_type_meta = is_kind && matches!(field.name, "apiVersion" | "kind");
        assert!(known || is_type_meta || YOUNGER.contains(&key.as_str()), "{key} has no number");
    }
}

#[test]
fn the_table_and_the_schema_have_the_same_fields() {
    for kind in kinds::kinds() {
        if let Some(message) = of_kind(kind.group, kind.kind) {
            same_fields(message, kind.root(), kind.kind);
        }
    }
}

#[test]
fn every_kind_of_the_server_can_be_read() {
    let (lines, messages) = size();
    assert_eq!(lines, messages);
    for kind in kinds::kinds() {
        // Our own kinds have no protobuf, as those of a CustomResourceDefinition have none.
        let own = !kind.group.is_empty() && !kind.group.ends_with("k8s.io") && kind.group.contains('.');
        // A Status is only ever an answer.
        let answer = kind.kind == "Status";
        assert!(
            own || answer || of_kind(kind.group, kind.kind).is_some(),
            "{} of {:?}",
            kind.kind,
            kind.group
        );
    }
}

#[test]
fn a_service_is_read_as_kubectl_writes_it() {
    let port = json!({"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": "http", "nodePort": 0});
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "a", "generateName": "", "creationTimestamp": null},
        "spec": {"ports": [port], "selector": {"app": "a"}, "clusterIP": "", "type": "NodePort"},
        "status": {"loadBalancer": {}},
    });
    let raw = write(message_of("", "Service"), service.as_object().unwrap());
    assert_eq!(to_json(&body("v1", "Service", &raw), "", "").unwrap(), service);
    let kind = kinds::find("", "v1", "Service").unwrap();
    let decoded =
        decode(kind, &body("v1", "Service", &raw), Media::Protobuf, FieldValidation::Strict).unwrap();
    // What Go leaves out when it is empty is left out.
    let expected = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {
            "ports": [{"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": "http"}],
            "selector": {"app": "a"}, "type": "NodePort",
        },
        "status": {"loadBalancer": {}},
    });
    assert_eq!(decoded.value, expected);
}

#[test]
fn a_message_may_come_in_parts_and_numbers_in_a_row() {
    let metadata = [bytes(1, &bytes(1, b"a")), bytes(1, &bytes(3, b"demo"))].concat();
    assert_eq!(
        to_json(&body("", "", &metadata), "v1", "Service").unwrap(),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "demo"}})
    );
    let groups = bytes(4, &[varint(1), varint(300)].concat());
    let pod = bytes(2, &bytes(14, &groups));
    assert_eq!(
        to_json(&body("v1", "Pod", &pod), "", "").unwrap()["spec"]["securityContext"]["supplementalGroups"],
        json!([1, 300])
    );
}

#[rstest]
#[case::nothing(b"".to_vec(), "the object provided is unrecognized (must be of type Service): empty data (<empty>)")]
#[case::json(b"{}".to_vec(), "the object provided is unrecognized (must be of type Service): provided data does not \
    appear to be a protobuf message, expected prefix [107 56 115 0] ({})")]
#[case::only_the_prefix(MAGIC.to_vec(),
    "the object provided is unrecognized (must be of type Service): empty body (6b387300)")]
#[case::cut_envelope([MAGIC, &[0x0a, 5]].concat(),
    "the object provided is unrecognized (must be of type Service): unexpected EOF (6b3873000a05)")]
#[case::cut_object(body("v1", "Service", &[0x0a, 5, 1]),
    "Service in version \"v1\" cannot be handled as a Service: unexpected EOF")]
#[case::wrong_shape(body("v1", "Service", &number(1, 1)),
    "Service in version \"v1\" cannot be handled as a Service: proto: wrong wireType = 0 for field ObjectMeta")]
#[case::no_number(body("v1", "Service", &[0, 0]),
    "Service in version \"v1\" cannot be handled as a Service: proto: Service: illegal tag 0 (wire type 0)")]
#[case::no_shape(body("v1", "Service", &[0xfe, 1]),
    "Service in version \"v1\" cannot be handled as a Service: proto: illegal wireType 6")]
#[case::group_end(body("v1", "Service", &[0xfc, 1]), "Service in version \"v1\" cannot be handled as a Service: \
    proto: Service: wiretype end group for non-group")]
#[case::another_kind(
    body("v1", "Pod", b""),
    "Pod in version \"v1\" cannot be handled as a Service: converting \
    (v1.Pod) to (core.Service): unknown conversion"
)]
#[case::no_kind_of_ours(
    body("v1", "Nothing", b"?"),
    "Nothing in version \"v1\" cannot be handled as a Service: no \
    kind \"Nothing\" is registered for version \"v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
)]
fn a_damaged_body_is_refused(#[case] body: Vec<u8>, #[case] expected: &str) {
    let kind = kinds::find("", "v1", "Service").unwrap();
    let status = decode(kind, &body, Media::Protobuf, FieldValidation::Ignore).unwrap_err();
    assert_eq!(status.code, Some(400));
    assert_eq!(status.message.as_deref(), Some(expected));
}

#[test]
fn unknown_fields_are_passed_over() {
    let group = [varint(999 << 3 | 3), number(1, 7), varint(999 << 3 | 4)].concat();
    let fixed = [varint(998 << 3 | 1), vec![0; 8], varint(997 << 3 | 5), vec![0; 4]].concat();
    let raw = [group, fixed, bytes(996, b"x"), bytes(1, &bytes(1, b"a"))].concat();
    assert_eq!(to_json(&body("v1", "Service", &raw), "", "").unwrap()["metadata"], json!({"name": "a"}));
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(at in 0..WITH_PROTOBUF.len(), seed: u64) {
        let (group, version, kind) = WITH_PROTOBUF[at];
        let message = message_of(group, kind);
        let mut object = Map::new();
        any_object(message, &mut StdRng::seed_from_u64(seed), &mut object);
        let raw = write(message, &object);
        let read = to_json(&body(&api_version(group, version), kind, &raw), "", "").unwrap();
        object.insert("apiVersion".to_owned(), api_version(group, version).into());
        object.insert("kind".to_owned(), kind.into());
        prop_assert_eq!(read, Value::Object(object));
    }

    #[test]
    fn no_damage_ends_the_server(at in 0..WITH_PROTOBUF.len(), seed: u64, cut: prop::sample::Index, flip: u8) {
        let (group, version, kind) = WITH_PROTOBUF[at];
        let message = message_of(group, kind);
        let mut object = Map::new();
        any_object(message, &mut StdRng::seed_from_u64(seed), &mut object);
        let mut body = body(&api_version(group, version), kind, &write(message, &object));
        let at = cut.index(body.len());
        let _ = to_json(&body[..at], "v1", "Service");
        body[at] ^= flip;
        let _ = to_json(&body, "v1", "Service");
    }

    #[test]
    fn no_bytes_end_the_server(bytes: Vec<u8>) {
        for (group, version, kind) in WITH_PROTOBUF {
            let _ = to_json(&body(&api_version(group, version), kind, &bytes), "", "");
        }
        let _ = to_json(&[MAGIC, &bytes].concat(), "v1", "Service");
    }
}
