//! What `kubectl apply -k` makes of the overlays agrees with the program: flags, ports, selectors, and roles with what is asked for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;

use clap::Parser as _;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplateSpec, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use service_controller_manager::args::{Cli, Command, RunArgs};
use service_tests::{
    account::Account,
    api_server::ApiServer,
    beside::{Beside, SERVICES},
    cluster::service,
    kubectl::programs,
    permissions::{Asked, Rules, written},
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");

fn manifests() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests")
}

fn read(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

fn file(path: &str) -> Vec<Value> {
    read(&std::fs::read_to_string(manifests().join(path)).unwrap())
}

/// What kustomize makes of a folder; `None` where there is no kubectl.
async fn rendered(folder: &str) -> Option<Vec<Value>> {
    let Some(program) = programs().await.into_iter().next() else {
        println!("skipped: there is no kubectl on PATH, and hack/install-kubectl.sh was not run");
        return None;
    };
    let output =
        tokio::process::Command::new(program).arg("kustomize").arg(manifests().join(folder)).output();
    let output = output.await.unwrap();
    assert!(output.status.success(), "{folder}: {}", String::from_utf8_lossy(&output.stderr));
    Some(read(&String::from_utf8(output.stdout).unwrap()))
}

fn all<T: DeserializeOwned>(objects: &[Value], kind: &str) -> Vec<T> {
    let of_kind = objects.iter().filter(|object| object["kind"] == kind);
    of_kind.map(|object| serde_json::from_value(object.clone()).unwrap()).collect()
}

/// The pods of the Deployment or StatefulSet in these objects.
fn pods(objects: &[Value]) -> PodTemplateSpec {
    let deployments = all::<Deployment>(objects, "Deployment").into_iter().map(|d| d.spec.template);
    let sets = all::<StatefulSet>(objects, "StatefulSet").into_iter().map(|s| s.spec.template);
    let daemons = all::<DaemonSet>(objects, "DaemonSet").into_iter().map(|d| d.spec.template);
    deployments.chain(sets).chain(daemons).next().unwrap()
}

fn arguments(objects: &[Value]) -> Vec<String> {
    pods(objects).spec.unwrap().containers.remove(0).args.unwrap()
}

fn run_args(objects: &[Value]) -> RunArgs {
    let words = std::iter::once("service-controller-manager".to_owned()).chain(arguments(objects));
    match Cli::try_parse_from(words).unwrap().command {
        Command::Run(args) => args,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_folder_is_one_whole() {
    for folder in [".", "crds", "ledger", "allocation", "shadow", "webhook", "proxy"] {
        let Some(objects) = rendered(folder).await else { return };
        let names: BTreeSet<(String, String)> = objects
            .iter()
            .map(|object| (object["kind"].to_string(), object["metadata"]["name"].to_string()))
            .collect();
        assert_eq!(names.len(), objects.len(), "{folder}: an object stands there twice");
        let accounts: Vec<&Value> = objects.iter().filter(|o| o["kind"] == "ServiceAccount").collect();
        if folder != "crds" {
            let pods = pods(&objects).spec.unwrap();
            assert_eq!(accounts[0]["metadata"]["name"].as_str(), pods.service_account_name.as_deref());
        }
    }
}

#[tokio::test]
async fn allocation_is_the_ledger_and_one_controller_more() {
    let Some(objects) = rendered("allocation").await else { return };
    let enabled = |objects: &[Value]| -> BTreeSet<String> {
        run_args(objects).controllers.selection.enabled().map(|c| c.name().to_owned()).collect()
    };
    let more: Vec<String> =
        enabled(&objects).difference(&enabled(&file("ledger/deployment.yaml"))).cloned().collect();
    assert_eq!(more, ["service-allocation-controller"]);
}

#[test]
fn policies_are_about_the_pods_and_open_the_ports_that_are_served() {
    for (policies, workload) in [
        ("policies.yaml", "deployment.yaml"),
        ("ledger/deployment.yaml", "ledger/deployment.yaml"),
        ("shadow/deployment.yaml", "shadow/deployment.yaml"),
        ("webhook/statefulset.yaml", "webhook/statefulset.yaml"),
    ] {
        let (policies, workload) = (file(policies), file(workload));
        let pods = pods(&workload);
        let labels = pods.metadata.unwrap().labels.unwrap();
        let policy = all::<NetworkPolicy>(&policies, "NetworkPolicy").remove(0).spec.unwrap();
        assert_eq!(policy.policy_types.unwrap(), ["Ingress"], "what goes out is not limited");
        let budgets = all::<PodDisruptionBudget>(&policies, "PodDisruptionBudget");
        let of_budgets = budgets.into_iter().map(|budget| budget.spec.unwrap());
        let mut selectors = vec![policy.pod_selector.unwrap()];
        for budget in of_budgets {
            assert_eq!(budget.min_available, Some(IntOrString::Int(1)));
            selectors.push(budget.selector.unwrap());
        }
        for selector in selectors {
            let wanted = selector.match_labels.unwrap();
            assert!(!wanted.is_empty() && wanted.iter().all(|(key, value)| labels.get(key) == Some(value)));
        }
        let open: BTreeSet<i32> = policy
            .ingress
            .unwrap()
            .into_iter()
            .flat_map(|rule| rule.ports.unwrap())
            .map(|port| match port.port {
                Some(IntOrString::Int(number)) => number,
                other => panic!("{other:?}"),
            })
            .collect();
        let served = pods.spec.unwrap().containers.remove(0).ports.unwrap();
        assert_eq!(open, served.into_iter().map(|port| port.container_port).collect());
    }
}

#[test]
fn what_is_scraped_is_there() {
    for (folder, workload) in [
        ("ledger", "ledger/deployment.yaml"),
        ("shadow", "shadow/deployment.yaml"),
        ("webhook", "webhook/statefulset.yaml"),
    ] {
        let objects = file(&format!("{folder}/monitoring.yaml"));
        let service: Service = all(&objects, "Service").remove(0);
        let pods = pods(&file(workload));
        let (labels, spec) = (pods.metadata.unwrap().labels.unwrap(), service.spec.unwrap());
        assert!(spec.selector.unwrap().iter().all(|(key, value)| labels.get(key) == Some(value)));
        let port = spec.ports.unwrap().remove(0);
        let served = pods.spec.unwrap().containers.remove(0).ports.unwrap();
        let target = served.into_iter().find(|served| served.name.as_deref() == Some("metrics")).unwrap();
        assert_eq!(port.target_port, Some(IntOrString::String("metrics".into())));
        assert_eq!(port.port, target.container_port);
        let monitor = &objects.iter().find(|object| object["kind"] == "ServiceMonitor").unwrap()["spec"];
        let own = service.metadata.labels.unwrap();
        let wanted = monitor["selector"]["matchLabels"].as_object().unwrap();
        assert!(wanted.iter().all(|(key, value)| own.get(key).map(String::as_str) == value.as_str()));
        assert_eq!(
            (monitor["endpoints"][0]["port"].as_str(), monitor["endpoints"][0]["scheme"].as_str()),
            (port.name.as_deref(), Some("https"))
        );
    }
}

/// What is asked for and not allowed, and what is allowed and never asked for.
fn compare(rules: &Rules, asked: &BTreeSet<Asked>) -> (Vec<Asked>, Vec<String>) {
    let refused = asked.iter().filter(|asked| !rules.allow(asked)).cloned().collect();
    let used: BTreeSet<String> = asked.iter().map(|a| written(a.verb, &a.group, &a.resource)).collect();
    (refused, rules.all().into_iter().filter(|rule| !used.contains(rule)).collect())
}

#[tokio::test]
async fn who_only_plans_may_only_read() {
    let objects = [file("shadow/rbac.yaml"), file("shadow/deployment.yaml")].concat();
    let args = run_args(&objects);
    assert!(args.shadow);
    let controllers = arguments(&objects).into_iter().find(|a| a.starts_with("--controllers")).unwrap();
    let beside =
        Beside::start(BINARY, Account::Shadow, &[], &[&controllers, "--shadow", "--shadow-grace=1s"])
            .await
            .unwrap();
    let web = service("web", &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    beside.send("POST", SERVICES, &web).await.unwrap();
    beside
        .until_logged(&["would create", &format!("{}/endpointslices", beside.server.namespace)])
        .await
        .unwrap();
    for token in [None, Some("a token")] {
        beside.ask_controllers("/metrics", token).await.unwrap();
    }
    let asked = beside.proxy.asked();
    beside.stop().await.unwrap();
    let rules = Rules::read(objects).unwrap();
    let (refused, unused) = compare(&rules, &asked);
    assert!(refused.is_empty(), "the role does not allow {refused:#?}");
    // What a difference is about is read when it is told; which kinds that are is a matter of what differs.
    let writes: Vec<&String> = unused.iter().filter(|rule| !rule.starts_with("get ")).collect();
    assert!(writes.is_empty(), "allowed and never asked for: {writes:?}");
    let verbs = ["create", "update", "patch", "delete", "deletecollection"];
    let writes = rules.all().into_iter().filter(|rule| verbs.iter().any(|verb| rule.starts_with(verb)));
    let harmless = ["tokenreviews", "subjectaccessreviews"];
    assert_eq!(writes.filter(|rule| !harmless.iter().any(|name| rule.ends_with(name))).count(), 0);
}

#[tokio::test]
async fn who_allocates_may_write_services() {
    let Some(objects) = rendered("allocation").await else { return };
    let controllers = arguments(&objects).into_iter().find(|a| a.starts_with("--controllers")).unwrap();
    let server = ApiServer::lab(BINARY, &["--controllers=none", "--allocation=reconcile"]).await.unwrap();
    let lease = "--leader-elect-resource-name=service-ledger";
    let beside = Beside::on(server, BINARY, Account::Admin, &[&controllers, lease]).await.unwrap();
    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
    beside.send("POST", SERVICES, &service("web", &spec)).await.unwrap();
    let path = format!("{SERVICES}/web");
    beside.until("its values", &path, |s| s["spec"]["ports"][0]["nodePort"].is_number()).await.unwrap();
    beside.send("PATCH", &path, &json!({"spec": {"type": "ClusterIP"}})).await.unwrap();
    beside.until_asked("delete", "nodeports").await.unwrap();
    let asked = beside.proxy.asked();
    beside.stop().await.unwrap();
    let (refused, _) = compare(&Rules::read(objects).unwrap(), &asked);
    assert!(refused.is_empty(), "the roles do not allow {refused:#?}");
    assert!(asked.iter().any(|asked| asked.verb == "patch" && asked.resource == "services"));
}
