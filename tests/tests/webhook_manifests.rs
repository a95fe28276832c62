//! `manifests/webhook` agrees with the program: its flags, its names, its configurations and the kinds that it reads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use clap::Parser as _;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use service_controller_manager::args::{Cli, Command, WebhookArgs};

const STATEFUL_SET: &str = include_str!("../../manifests/webhook/statefulset.yaml");
const CONFIGURATION: &str = include_str!("../../manifests/webhook/configuration.yaml");
const RBAC: &str = include_str!("../../manifests/webhook/rbac.yaml");

/// The object of a kind in a file, all of whose fields its type has.
fn object<T: DeserializeOwned + Serialize>(file: &str, kind: &str) -> T {
    let all = file.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    let object = all.into_iter().find(|object| object["kind"] == kind).unwrap();
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), object, "a field is unknown or not in its form");
    typed
}

fn stateful_set() -> StatefulSet {
    object(STATEFUL_SET, "StatefulSet")
}

fn args() -> WebhookArgs {
    let container = stateful_set().spec.template.spec.unwrap().containers.remove(0);
    let words = std::iter::once("service-controller-manager".to_owned()).chain(container.args.unwrap());
    match Cli::try_parse_from(words).unwrap().command {
        Command::Webhook(args) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_configurations_lead_to_the_webhook() {
    let service: Service = object(STATEFUL_SET, "Service");
    let (namespace, name) = (service.metadata.namespace.unwrap(), service.metadata.name.unwrap());
    let args = args();
    assert_eq!((&args.webhook_service.namespace, &args.webhook_service.name), (&namespace, &name));
    let mutating: MutatingWebhookConfiguration = object(CONFIGURATION, "MutatingWebhookConfiguration");
    let validating: ValidatingWebhookConfiguration = object(CONFIGURATION, "ValidatingWebhookConfiguration");
    assert_eq!(mutating.metadata.name.as_ref(), Some(&args.webhook_configuration));
    assert_eq!(validating.metadata.name.as_ref(), Some(&args.webhook_configuration));
    let [mutate] = &mutating.webhooks.unwrap()[..] else { panic!() };
    let [validate] = &validating.webhooks.unwrap()[..] else { panic!() };
    for (client, failure, effects, path) in [
        (&mutate.client_config, &mutate.failure_policy, &mutate.side_effects, "/mutate"),
        (&validate.client_config, &validate.failure_policy, &validate.side_effects, "/validate"),
    ] {
        let service = client.service.as_ref().unwrap();
        assert_eq!(
            (&service.namespace, &service.name, service.path.as_deref()),
            (&namespace, &name, Some(path))
        );
        assert_eq!((failure.as_deref(), effects.as_str()), (Some("Ignore"), "None"));
    }
    let port = &service.spec.unwrap().ports.unwrap()[0];
    let container = &stateful_set().spec.template.spec.unwrap().containers[0];
    let target =
        container.ports.as_ref().unwrap().iter().find(|p| p.name.as_deref() == Some("webhook")).unwrap();
    assert_eq!((port.port, target.container_port), (443, i32::from(args.webhook_port)));
}

#[test]
fn there_are_as_many_shares_as_replicas() {
    let spec = stateful_set().spec;
    assert_eq!(spec.replicas, i32::try_from(args().replicas).ok());
    let pod = spec.template.spec.unwrap();
    let index = &pod.containers[0].env.as_ref().unwrap()[0];
    assert_eq!(index.name, "SCM_REPLICA_INDEX");
    let budget: PodDisruptionBudget = object(STATEFUL_SET, "PodDisruptionBudget");
    assert_eq!(budget.spec.unwrap().selector.unwrap().match_labels, spec.selector.match_labels);
}

#[test]
fn the_account_has_the_role_and_the_pods_have_the_account() {
    let account: ServiceAccount = object(RBAC, "ServiceAccount");
    let role: ClusterRole = object(RBAC, "ClusterRole");
    let binding: ClusterRoleBinding = object(RBAC, "ClusterRoleBinding");
    assert_eq!(Some(binding.role_ref.name), role.metadata.name);
    let subject = &binding.subjects.unwrap()[0];
    assert_eq!(
        (Some(&subject.name), &subject.namespace),
        (account.metadata.name.as_ref(), &account.metadata.namespace)
    );
    let pod = stateful_set().spec.template.spec.unwrap();
    assert_eq!(pod.service_account_name, account.metadata.name);
    let watched: Vec<String> = role
        .rules
        .unwrap()
        .into_iter()
        .filter(|rule| rule.verbs == ["list", "watch"])
        .flat_map(|rule| rule.resources.unwrap())
        .collect();
    assert_eq!(
        watched,
        [
            "namespaces",
            "services",
            "ipaddresses",
            "servicecidrs",
            "nodeports",
            "nodeportranges",
            "servicepools"
        ]
    );
}
