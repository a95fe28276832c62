//! `manifests/proxy` agrees with the program: its flags are known, its ports are the proxy's, and its role allows what it asks for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use clap::Parser as _;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Container};
use serde_json::Value;
use service_controller_manager::args::{Cli, Command, ProxyArgs};
use service_tests::permissions::{Rules, written};

const DAEMON_SET: &str = include_str!("../../manifests/proxy/daemonset.yaml");
const RBAC: &str = include_str!("../../manifests/proxy/rbac.yaml");
const KUSTOMIZATION: &str = include_str!("../../manifests/proxy/kustomization.yaml");

fn daemon_set() -> DaemonSet {
    let value: Value = serde_saphyr::from_str(DAEMON_SET).unwrap();
    let typed: DaemonSet = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), value, "a field is unknown or not in its form");
    typed
}

fn container() -> Container {
    let pod = daemon_set().spec.template.spec.unwrap();
    let [container] = <[Container; 1]>::try_from(pod.containers).unwrap();
    container
}

fn arguments() -> ProxyArgs {
    let words = container().args.unwrap();
    let words = words.into_iter().map(|word| word.replace("$(NODE_NAME)", "one"));
    match Cli::try_parse_from(std::iter::once("service-controller-manager".to_owned()).chain(words)) {
        Ok(Cli { command: Command::Proxy(args), .. }) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_command_line_knows_the_arguments() {
    let args = arguments();
    assert_eq!(args.hostname_override.as_deref(), Some("one"));
    assert!(!args.rules.cluster_cidr.is_empty(), "pods' traffic is known by their networks");
    assert!(!args.instead.cleanup && !args.instead.dry_run);
    let named = container().env.unwrap();
    let node = named.iter().find(|of| of.name == "NODE_NAME").unwrap();
    let field = node.value_from.as_ref().unwrap().field_ref.as_ref().unwrap();
    assert_eq!(field.field_path, "spec.nodeName");
}

#[test]
fn it_is_on_every_node_in_its_network_and_may_change_rules() {
    let pod = daemon_set().spec.template.spec.unwrap();
    assert_eq!(pod.host_network, Some(true));
    let tolerated = pod.tolerations.unwrap();
    assert!(tolerated.iter().any(|of| of.operator.as_deref() == Some("Exists") && of.key.is_none()));
    let context = container().security_context.unwrap();
    assert_eq!(context.capabilities.unwrap().add.unwrap(), ["NET_ADMIN"]);
    // Where the proxy answers unless a flag says otherwise.
    for (probe, path) in [(container().readiness_probe, "/healthz"), (container().liveness_probe, "/livez")] {
        let get = probe.unwrap().http_get.unwrap();
        assert_eq!(
            (get.path.as_deref(), serde_json::to_value(get.port).unwrap()),
            (Some(path), 10256.into())
        );
    }
}

#[test]
fn the_role_is_what_the_proxy_asks_for() {
    let objects: Vec<Value> =
        RBAC.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let name = |kind: &str, pointer: &str| {
        let object = objects.iter().find(|object| object["kind"] == kind).unwrap();
        object.pointer(pointer).unwrap().as_str().unwrap().to_owned()
    };
    let account = name("ServiceAccount", "/metadata/name");
    assert_eq!(name("ClusterRoleBinding", "/subjects/0/name"), account);
    assert_eq!(name("ClusterRoleBinding", "/roleRef/name"), name("ClusterRole", "/metadata/name"));
    let pod = daemon_set().spec.template.spec.unwrap();
    assert_eq!(pod.service_account_name.as_deref(), Some(account.as_str()));
    let watched = [
        ("", "services"),
        ("", "nodes"),
        ("discovery.k8s.io", "endpointslices"),
        ("networking.k8s.io", "servicecidrs"),
    ];
    let mut wanted: BTreeSet<String> = watched
        .iter()
        .flat_map(|(group, resource)| ["list", "watch"].map(|verb| written(verb, group, resource)))
        .collect();
    wanted.extend(["create", "patch", "update"].map(|verb| written(verb, "events.k8s.io", "events")));
    assert_eq!(Rules::read(objects).unwrap().all(), wanted);
    let kustomization: Value = serde_saphyr::from_str(KUSTOMIZATION).unwrap();
    assert_eq!(kustomization["images"][0]["name"], Value::from(container().image.unwrap()));
}
