// Test tables hand their JSON over by value.
#![allow(clippy::needless_pass_by_value)]

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::schema;

fn service(body: &str, validation: FieldValidation) -> Result<Decoded, Box<Status>> {
    decode(schema::find("", "v1", "Service").unwrap(), body.as_bytes(), Media::Json, validation)
}

fn message(result: Result<Decoded, Box<Status>>) -> String {
    let status = result.unwrap_err();
    assert_eq!(status.code, Some(400));
    assert_eq!(status.reason.as_deref(), Some("BadRequest"));
    status.message.unwrap()
}

const PREFIX: &str = "Service in version \"v1\" cannot be handled as a Service: ";

#[rstest]
#[case(
    r#"{"spec":{"ports":[{"port":"80"}]}}"#,
    "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32"
)]
#[case(
    r#"{"spec":{"ports":[{"port":80.5}]}}"#,
    "json: cannot unmarshal number 80.5 into Go struct field ServicePort.spec.ports.port of type int32"
)]
#[case(
    r#"{"spec":{"ports":[{"port":3000000000}]}}"#,
    "json: cannot unmarshal number 3000000000 into Go struct field ServicePort.spec.ports.port of type int32"
)]
#[case(
    r#"{"spec":{"selector":"x"}}"#,
    "json: cannot unmarshal string into Go struct field ServiceSpec.spec.selector of type map[string]string"
)]
#[case(
    r#"{"spec":{"selector":{"a":5}}}"#,
    "json: cannot unmarshal number into Go struct field ServiceSpec.spec.selector of type string"
)]
#[case(
    r#"{"spec":{"clusterIP":5}}"#,
    "json: cannot unmarshal number into Go struct field ServiceSpec.spec.clusterIP of type string"
)]
#[case(
    r#"{"spec":{"type":5}}"#,
    "json: cannot unmarshal number into Go struct field ServiceSpec.spec.type of type v1.ServiceType"
)]
#[case(
    r#"{"spec":{"publishNotReadyAddresses":"yes"}}"#,
    "json: cannot unmarshal string into Go struct field ServiceSpec.spec.publishNotReadyAddresses of type bool"
)]
#[case(
    r#"{"spec":{"ports":{"port":80}}}"#,
    "json: cannot unmarshal object into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort"
)]
#[case(
    r#"{"spec":{"ports":["x"]}}"#,
    "json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type v1.ServicePort"
)]
#[case(
    r#"{"spec":{"ports":[{"targetPort":1.5}]}}"#,
    "json: cannot unmarshal number 1.5 into Go struct field ServicePort.spec.ports.targetPort of type int32"
)]
#[case(
    r#"{"spec":[]}"#,
    "json: cannot unmarshal array into Go struct field Service.spec of type v1.ServiceSpec"
)]
#[case(
    r#"{"metadata":{"labels":{"a":true}}}"#,
    "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string"
)]
#[case(
    r#"{"kind":"Service","apiVersion":"v1","metadata":{"creationTimestamp":"x"}}"#,
    r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#
)]
fn type_errors_are_go_s(#[case] body: &str, #[case] text: &str) {
    assert_eq!(message(service(body, FieldValidation::Ignore)), format!("{PREFIX}{text}"));
}

#[rstest]
#[case("", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)")]
#[case("{", "couldn't get version/kind; json parse error: unexpected end of JSON input ({)")]
#[case("[]", r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)"#)]
#[case(r#"{"kind":5}"#, r#"couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string ({"kind":5})"#)]
#[case(r#"{"apiVersion":"a/b/c"}"#, r#"unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})"#)]
fn unrecognized_bodies(#[case] body: &str, #[case] text: &str) {
    let expected = format!("the object provided is unrecognized (must be of type Service): {text}");
    assert_eq!(message(service(body, FieldValidation::Warn)), expected);
}

#[rstest]
#[case("v1", "Pod", r#"Pod in version "v1" cannot be handled as a Service: converting (v1.Pod) to (core.Service): unknown conversion"#)]
#[case("apps/v1", "Deployment", r#"Deployment in version "v1" cannot be handled as a Service: converting (v1.Deployment) to (core.Service): unknown conversion"#)]
#[case("v1", "Widget", r#"Widget in version "v1" cannot be handled as a Service: no kind "Widget" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30""#)]
#[case("v2", "Service", r#"Service in version "v2" cannot be handled as a Service: no kind "Service" is registered for version "v2" in scheme "pkg/api/legacyscheme/scheme.go:30""#)]
fn foreign_bodies(#[case] api_version: &str, #[case] kind: &str, #[case] text: &str) {
    let body = json!({"apiVersion": api_version, "kind": kind}).to_string();
    assert_eq!(message(service(&body, FieldValidation::Warn)), text);
}

#[test]
fn a_body_of_another_kind_is_first_read_as_that() {
    let body = r#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":"x"}}"#;
    assert_eq!(
        message(service(body, FieldValidation::Warn)),
        "Pod in version \"v1\" cannot be handled as a Service: json: cannot unmarshal string into Go struct field \
         PodSpec.spec.containers of type []v1.Container"
    );
}

const TWICE: &str = r#"{"spec":{"colour":"red","ports":[{"port":80,"speed":9}],"type":"A","type":"ClusterIP"},"extra":{"x":[1,"]"]}}"#;

#[test]
fn strictness_decides_what_becomes_of_unknown_and_duplicate_fields() {
    let strict = message(service(TWICE, FieldValidation::Strict));
    assert_eq!(
        strict,
        format!(
            "{PREFIX}strict decoding error: unknown field \"spec.colour\", unknown field \"spec.ports[0].speed\", \
             duplicate field \"spec.type\", unknown field \"extra\""
        )
    );
    let warned = service(TWICE, FieldValidation::Warn).unwrap();
    assert_eq!(warned.warnings.len(), 4);
    let ignored = service(TWICE, FieldValidation::Ignore).unwrap();
    assert!(ignored.warnings.is_empty());
    assert_eq!(warned.value, ignored.value);
    assert_eq!(ignored.value["spec"], json!({"ports": [{"port": 80}], "type": "ClusterIP"}));
}

#[test]
fn empty_values_are_left_out_as_go_prints_them() {
    let body = json!({
        "metadata": {"name": "a", "labels": {}, "annotations": null, "finalizers": []},
        "spec": {"clusterIP": "", "ipFamilyPolicy": "", "publishNotReadyAddresses": false, "ports": [],
                 "allocateLoadBalancerNodePorts": false, "sessionAffinityConfig": {}, "healthCheckNodePort": 0}
    });
    let decoded = service(&body.to_string(), FieldValidation::Strict).unwrap();
    assert_eq!(
        decoded.value,
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"ipFamilyPolicy": "", "allocateLoadBalancerNodePorts": false, "sessionAffinityConfig": {}},
            "status": {"loadBalancer": {}}
        })
    );
}

#[test]
fn endpoint_slices_print_their_lists_and_conditions() {
    let kind = schema::find("discovery.k8s.io", "v1", "EndpointSlice").unwrap();
    let body = br#"{"addressType":"IPv4","endpoints":[{"addresses":["10.1.2.3"],"conditions":{"ready":false}},{"addresses":["10.1.2.4"]}]}"#;
    let value = decode(kind, body, Media::Json, FieldValidation::Strict).unwrap().value;
    assert_eq!(value["ports"], Value::Null);
    assert!(value.as_object().unwrap().contains_key("ports"));
    assert_eq!(
        value["endpoints"],
        json!([{"addresses": ["10.1.2.3"], "conditions": {"ready": false}}, {"addresses": ["10.1.2.4"], "conditions": {}}])
    );
}

#[test]
fn yaml_means_the_same_as_json() {
    let kind = schema::find("", "v1", "Service").unwrap();
    let yaml = "apiVersion: v1\nkind: Service\nmetadata: {name: from-yaml}\nspec:\n  zebra: 1\n  ports:\n  - port: 80\n    targetPort: http\n  apple: 2\n";
    let decoded = decode(kind, yaml.as_bytes(), Media::Yaml, FieldValidation::Warn).unwrap();
    assert_eq!(decoded.value["spec"], json!({"ports": [{"port": 80, "targetPort": "http"}]}));
    assert_eq!(decoded.warnings, ["unknown field \"spec.apple\"", "unknown field \"spec.zebra\""]);
}

#[test]
fn duplicate_keys_of_yaml_are_found() {
    let kind = schema::find("", "v1", "Service").unwrap();
    let yaml = "kind: Service\nspec:\n  type: A\n  type: ClusterIP\n";
    let decoded = decode(kind, yaml.as_bytes(), Media::Yaml, FieldValidation::Warn).unwrap();
    assert_eq!(decoded.value["spec"]["type"], "ClusterIP");
    assert_eq!(decoded.warnings, ["line 4: key \"type\" already set in map"]);
}

#[test]
fn text_that_is_no_utf8_and_lone_surrogates_become_replacement_characters() {
    let kind = schema::find("", "v1", "Service").unwrap();
    let body = b"{\"metadata\":{\"name\":\"a\xff\",\"generateName\":\"\\ud800x\\ud83d\\ude00\"}}";
    let value = decode(kind, body, Media::Json, FieldValidation::Strict).unwrap().value;
    assert_eq!(value["metadata"], json!({"name": "a\u{fffd}", "generateName": "\u{fffd}x\u{1f600}"}));
}

#[test]
fn integers_keep_64_bits() {
    let kind = schema::find("", "v1", "Service").unwrap();
    let body = br#"{"metadata":{"generation":9007199254740993}}"#;
    let value = decode(kind, body, Media::Json, FieldValidation::Strict).unwrap().value;
    assert_eq!(value["metadata"]["generation"], json!(9_007_199_254_740_993_i64));
}

#[test]
fn a_normalised_object_stays_as_it_is() {
    let decoded = service(TWICE, FieldValidation::Ignore).unwrap().value;
    let kind = schema::find("", "v1", "Service").unwrap();
    assert_eq!(normalise(kind, &decoded).unwrap(), decoded);
}
