//! What `manifests/` and the Dockerfile say agrees with the program: its flags, what it serves, the role it is given, and the
//! controllers that are switched off in kube-controller-manager.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod person;

use std::collections::BTreeSet;

use clap::Parser as _;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Container, HTTPGetAction, PodSpec, Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use person::{Person, has};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use service_controller_manager::args::{Cli, Command, RunArgs};
use service_tests::{
    cluster::Lab,
    http::{Client, Target},
    kubectl::programs,
    launch::{kubeconfig_text, start_controllers},
    tls,
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const DEPLOYMENT: &str = include_str!("../../manifests/deployment.yaml");
const RBAC: &str = include_str!("../../manifests/rbac.yaml");
const MONITORING: &str = include_str!("../../manifests/monitoring/servicemonitor.yaml");
const KUSTOMIZATION: &str = include_str!("../../manifests/kustomization.yaml");
const KIND: &str = include_str!("../../manifests/kind.yaml");
const DOCKERFILE: &str = include_str!("../../Dockerfile");
const PAGE: &str = include_str!("../../docs/on-a-cluster.md");
const WORKSPACE: &str = include_str!("../../Cargo.toml");
/// What kubeadm gives kube-controller-manager, and an argument of the same name replaces (kubeadm, `controlplane/manifests.go`).
const OF_KUBEADM: [&str; 3] = ["*", "bootstrapsigner", "tokencleaner"];

/// An object of a manifest, all of whose fields its type has: what it has not is gone when it is written again.
fn strict<T: DeserializeOwned + Serialize>(object: &Value) -> T {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&typed).unwrap(), object, "a field is unknown or not in its form");
    typed
}

fn deployment() -> Deployment {
    strict(&serde_saphyr::from_str(DEPLOYMENT).unwrap())
}

fn pod() -> PodSpec {
    deployment().spec.template.spec.unwrap()
}

fn container() -> Container {
    let [container] = <[Container; 1]>::try_from(pod().containers).unwrap();
    container
}

/// What the command line makes of the container's arguments.
fn run_args() -> RunArgs {
    let arguments = container().args.unwrap();
    let words = std::iter::once("service-controller-manager").chain(arguments.iter().map(String::as_str));
    match Cli::try_parse_from(words).unwrap().command {
        Command::Run(args) => args,
        other => panic!("{other:?}"),
    }
}

/// The names of the controllers that the container is told to run.
fn ours() -> BTreeSet<String> {
    run_args().controllers.selection.enabled().map(|controller| controller.name().to_owned()).collect()
}

#[derive(Debug, Default)]
struct Roles {
    account: ServiceAccount,
    role: Role,
    binding: RoleBinding,
    cluster_role: ClusterRole,
    cluster_binding: ClusterRoleBinding,
}

fn roles() -> Roles {
    let mut roles = Roles::default();
    for text in RBAC.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        match object["kind"].as_str().unwrap() {
            "ServiceAccount" => roles.account = strict(&object),
            "Role" => roles.role = strict(&object),
            "RoleBinding" => roles.binding = strict(&object),
            "ClusterRole" => roles.cluster_role = strict(&object),
            "ClusterRoleBinding" => roles.cluster_binding = strict(&object),
            other => panic!("{other}"),
        }
    }
    roles
}

#[test]
fn the_pod_runs_as_the_account_that_has_the_roles() {
    let roles = roles();
    let account = roles.account.metadata;
    assert_eq!(pod().service_account_name, account.name);
    assert_eq!(deployment().metadata.namespace, account.namespace);
    for subjects in [roles.binding.subjects, roles.cluster_binding.subjects] {
        let [subject] = <[_; 1]>::try_from(subjects.unwrap()).unwrap();
        assert_eq!(
            (subject.kind.as_str(), Some(subject.name), subject.namespace),
            ("ServiceAccount", account.name.clone(), account.namespace.clone())
        );
    }
    let bound = |kind: &str, name: Option<String>| (kind.to_owned(), name.unwrap());
    let (role, cluster_role) = (roles.binding.role_ref, roles.cluster_binding.role_ref);
    assert_eq!((role.kind, role.name), bound("Role", roles.role.metadata.name));
    assert_eq!(
        (cluster_role.kind, cluster_role.name),
        bound("ClusterRole", roles.cluster_role.metadata.name)
    );
}

#[test]
fn the_replicas_agree_by_the_lease_that_the_role_is_about() {
    let (args, role) = (run_args().lease, roles().role);
    assert!(args.leader_elect && deployment().spec.replicas == Some(2));
    assert_eq!(role.metadata.namespace.as_ref(), Some(&args.leader_elect_resource_namespace));
    let named: Vec<String> =
        role.rules.unwrap().into_iter().filter_map(|r| r.resource_names).flatten().collect();
    assert_eq!(named, [args.leader_elect_resource_name]);
}

#[test]
fn the_selectors_find_the_pods() {
    let spec = deployment().spec;
    let labels = spec.template.metadata.unwrap().labels.unwrap();
    let spread = spec.template.spec.unwrap().topology_spread_constraints.unwrap();
    let selectors = spread.into_iter().map(|constraint| constraint.label_selector.unwrap());
    for selector in selectors.chain([spec.selector]) {
        let wanted = selector.match_labels.unwrap();
        assert!(!wanted.is_empty() && wanted.iter().all(|(key, value)| labels.get(key) == Some(value)));
    }
}

#[test]
fn the_pod_can_do_no_more_than_it_must() {
    let (pod, container) = (pod(), container());
    let whole = pod.security_context.unwrap();
    assert_eq!(
        (whole.run_as_non_root, whole.seccomp_profile.unwrap().type_.as_str()),
        (Some(true), "RuntimeDefault")
    );
    assert!(DOCKERFILE.contains(&format!(
        "USER {}:{}\n",
        whole.run_as_user.unwrap(),
        whole.run_as_group.unwrap()
    )));
    let own = container.security_context.unwrap();
    assert_eq!((own.allow_privilege_escalation, own.read_only_root_filesystem), (Some(false), Some(true)));
    let capabilities = own.capabilities.unwrap();
    assert_eq!((capabilities.drop, capabilities.add), (Some(vec!["ALL".to_owned()]), None));
    assert_eq!(pod.enable_service_links, Some(false), "a Service named scm-v would set SCM_V...");
    assert_eq!(pod.priority_class_name.as_deref(), Some("system-cluster-critical"));
}

fn probes() -> Vec<HTTPGetAction> {
    let container = container();
    let probes = [container.startup_probe, container.liveness_probe, container.readiness_probe];
    probes.map(|probe| probe.unwrap().http_get.unwrap()).into()
}

#[tokio::test]
async fn the_kubelet_asks_for_what_the_process_serves() {
    let (args, container) = (run_args(), container());
    let [port] = <[_; 1]>::try_from(container.ports.unwrap()).unwrap();
    assert_eq!(
        (i32::from(args.serving.secure_port), true),
        (port.container_port, args.serving.bind_address.is_unspecified())
    );
    assert!(DOCKERFILE.contains(&format!("EXPOSE {}\n", port.container_port)));

    let lab = Lab::start(BINARY, &["10.96.0.0/16"], "30000-32767").await.unwrap();
    let dir = lab.server.dir.path();
    std::fs::write(dir.join("pod.kubeconfig"), kubeconfig_text(&lab.server.target.url())).unwrap();
    let mut command = tokio::process::Command::new(BINARY);
    let elsewhere =
        |word: &&String| !word.starts_with("--secure-port") && !word.starts_with("--bind-address");
    command.args(container.args.unwrap().iter().filter(elsewhere));
    command.arg("--kubeconfig").arg(dir.join("pod.kubeconfig"));
    let process = start_controllers(command, &dir.join("pod.log")).await.unwrap();
    let output = process.output();
    let (_, rest) = output.split_once("readiness address=").unwrap();
    let address = rest.lines().next().unwrap();
    for probe in probes() {
        assert_eq!(probe.port, IntOrString::String(port.name.clone().unwrap()));
        let scheme = probe.scheme.unwrap().to_lowercase();
        let target =
            Target::new(&format!("{scheme}://{address}"), tls::trusting_anyone().unwrap(), None).unwrap();
        let path = probe.path.unwrap();
        assert_eq!(Client::new(target).get(&path).await.unwrap().0, 200, "{path}");
    }
    process.terminate().await.unwrap();
    lab.stop().await.unwrap();
}

#[test]
fn prometheus_finds_the_metrics_and_may_read_them() {
    let objects: Vec<Value> =
        MONITORING.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let role: ClusterRole = strict(of_kind("ClusterRole"));
    let [rule] = <[_; 1]>::try_from(role.rules.unwrap()).unwrap();
    assert_eq!((rule.verbs, rule.non_resource_urls), (vec!["get".into()], Some(vec!["/metrics".into()])));
    let binding: ClusterRoleBinding = strict(of_kind("ClusterRoleBinding"));
    assert_eq!(Some(binding.role_ref.name), role.metadata.name);
    let open = &run_args().serving.authorization_always_allow_paths;
    let probed = probes().into_iter().map(|probe| probe.path.unwrap());
    assert!(probed.map(|path| path.parse().unwrap()).all(|path| open.contains(&path)));

    let service: Service = strict(of_kind("Service"));
    let labels = deployment().spec.template.metadata.unwrap().labels.unwrap();
    let spec = service.spec.unwrap();
    assert!(spec.selector.unwrap().iter().all(|(key, value)| labels.get(key) == Some(value)));
    let [port] = <[_; 1]>::try_from(spec.ports.unwrap()).unwrap();
    let served = container().ports.unwrap().remove(0);
    assert_eq!((port.target_port, port.port), (served.name.map(IntOrString::String), served.container_port));
    let monitor = &of_kind("ServiceMonitor")["spec"];
    let own = service.metadata.labels.unwrap();
    let wanted = monitor["selector"]["matchLabels"].as_object().unwrap();
    assert!(wanted.iter().all(|(key, value)| own.get(key).map(String::as_str) == value.as_str()));
    let endpoint = &monitor["endpoints"][0];
    assert_eq!(
        (endpoint["port"].as_str(), endpoint["scheme"].as_str()),
        (port.name.as_deref(), Some("https"))
    );
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kustomization {
    api_version: String,
    kind: String,
    resources: Vec<String>,
    images: Vec<KustomizeImage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KustomizeImage {
    name: String,
    new_name: String,
    new_tag: String,
}

#[test]
fn the_image_is_the_one_that_the_dockerfile_makes() {
    let kustomization: Kustomization = serde_saphyr::from_str(KUSTOMIZATION).unwrap();
    assert_eq!(
        (kustomization.api_version.as_str(), kustomization.kind.as_str()),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization")
    );
    assert_eq!(kustomization.resources, ["rbac.yaml", "deployment.yaml"]);
    let image = container().image.unwrap();
    let (name, tag) = image.split_once(':').unwrap();
    assert_eq!(tag, env!("CARGO_PKG_VERSION"));
    let [replaced] = <[_; 1]>::try_from(kustomization.images).unwrap();
    assert_eq!(
        (replaced.name.as_str(), replaced.new_name.as_str(), replaced.new_tag.as_str()),
        (name, name, tag)
    );
    for text in [DOCKERFILE, PAGE] {
        assert!(text.contains(&format!("docker build -t {image} .")));
    }
}

#[test]
fn the_dockerfile_has_the_toolchain_and_every_part_of_the_workspace() {
    let of = |key: &str| WORKSPACE.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    let version = of("rust-version = ").trim_matches('"');
    assert!(DOCKERFILE.contains(&format!("\nARG BUILD_IMAGE=rust:{version}-alpine\n")));
    let members =
        of("members = ").trim_matches(['[', ']']).split(", ").map(|member| member.trim_matches('"'));
    for member in members {
        let folder = member.split_once('/').map_or(member, |(folder, _)| folder);
        assert!(DOCKERFILE.contains(&format!("\nCOPY {folder} {folder}\n")), "{member}");
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KindCluster {
    kind: String,
    api_version: String,
    #[serde(rename = "name")]
    _name: String,
    nodes: Vec<KindNode>,
    kubeadm_config_patches: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KindNode {
    role: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClusterConfiguration<T> {
    api_version: String,
    kind: String,
    controller_manager: ControlPlaneComponent<T>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ControlPlaneComponent<T> {
    extra_args: T,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MapOfArguments {
    controllers: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Argument {
    name: String,
    value: String,
}

/// The list of controllers that a kubeadm configuration asks for, by the form of its version.
fn of_kubeadm(text: &str) -> (String, String) {
    let (version, kind, list) = if text.contains("kubeadm.k8s.io/v1beta3") {
        let patch: ClusterConfiguration<MapOfArguments> = serde_saphyr::from_str(text).unwrap();
        (patch.api_version, patch.kind, patch.controller_manager.extra_args.controllers)
    } else {
        let patch: ClusterConfiguration<[Argument; 1]> = serde_saphyr::from_str(text).unwrap();
        let [argument] = patch.controller_manager.extra_args;
        assert_eq!(argument.name, "controllers");
        (patch.api_version, patch.kind, argument.value)
    };
    assert_eq!(kind, "ClusterConfiguration");
    (version, list)
}

/// Holds a list for kube-controller-manager against kubeadm's own and what the Deployment runs.
fn switches_off_what_runs_here(list: &str) {
    let (off, on): (Vec<&str>, Vec<&str>) = list.split(',').partition(|name| name.starts_with('-'));
    assert_eq!(on, OF_KUBEADM);
    assert_eq!(off.iter().map(|name| name[1..].to_owned()).collect::<BTreeSet<_>>(), ours());
}

#[test]
fn kind_switches_off_what_the_deployment_runs() {
    let cluster: KindCluster = serde_saphyr::from_str(KIND).unwrap();
    assert_eq!((cluster.kind.as_str(), cluster.api_version.as_str()), ("Cluster", "kind.x-k8s.io/v1alpha4"));
    assert!(cluster.nodes.iter().all(|node| ["control-plane", "worker"].contains(&node.role.as_str())));
    let patches: Vec<_> = cluster.kubeadm_config_patches.iter().map(|patch| of_kubeadm(patch)).collect();
    let versions: Vec<&str> = patches.iter().map(|(version, _)| version.as_str()).collect();
    assert_eq!(versions, ["kubeadm.k8s.io/v1beta3", "kubeadm.k8s.io/v1beta4"]);
    for (_, list) in patches {
        switches_off_what_runs_here(&list);
    }
}

/// The blocks of a page in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split_once("\n```").unwrap().0).collect()
}

#[test]
fn the_page_says_what_the_files_say() {
    let configurations: Vec<&str> =
        blocks(PAGE, "yaml").into_iter().filter(|block| block.contains("ClusterConfiguration")).collect();
    let versions: Vec<String> = configurations
        .into_iter()
        .map(|block| {
            let (version, list) = of_kubeadm(block);
            switches_off_what_runs_here(&list);
            version
        })
        .collect();
    assert_eq!(versions, ["kubeadm.k8s.io/v1beta4", "kubeadm.k8s.io/v1beta3"]);
    let shell = blocks(PAGE, "sh").join("\n").replace("\\\n", " ");
    let runs = shell.lines().filter_map(|line| line.trim().strip_prefix("service-controller-manager run"));
    let mut seen = 0;
    for arguments in runs {
        let words = ["service-controller-manager", "run"].into_iter().chain(arguments.split_whitespace());
        let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else { panic!("{arguments}") };
        let names = args.controllers.selection.enabled().map(|controller| controller.name().to_owned());
        assert_eq!(names.collect::<BTreeSet<_>>(), ours());
        seen += 1;
    }
    assert!(seen > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_takes_the_manifests() {
    let manifests = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests");
    let programs = programs().await;
    if programs.is_empty() {
        println!("skipped: there is no kubectl on PATH, and hack/install-kubectl.sh was not run");
    }
    for program in programs {
        let lab = Person::start(BINARY, program, &["--nodes", "2"]).await;
        let all = lab.ok(&format!("kustomize {manifests}")).await;
        assert_eq!(all.matches("\nkind: ").count(), 6, "{all}");
        // The lab has no roles: everyone who knows its token may do anything.
        let known = all.split("---\n").filter(|object| !object.contains("rbac.authorization.k8s.io"));
        let known = known.collect::<Vec<_>>().join("---\n");
        let misspelt = known.replace("readOnlyRootFilesystem", "readonlyRootFilesystem");
        has(&lab.refused("apply --validate=strict -f -", &misspelt).await, &["readonlyRootFilesystem"]);
        let created = lab.ok_with("apply --validate=strict -f -", &known).await;
        has(
            &created,
            &[
                "serviceaccount/service-controller-manager ",
                "deployment.apps/service-controller-manager created",
            ],
        );
        lab.ok("-n kube-system rollout status deployment/service-controller-manager --timeout 60s").await;
        let accounts =
            lab.ok("-n kube-system get pods -o jsonpath={.items[*].spec.serviceAccountName}").await;
        assert_eq!(accounts, ["service-controller-manager"; 2].join(" "));
        lab.server.stop().await.unwrap();
    }
}
