//! `docs/kind.md` command by command, and what `hack/kind-up.sh` does: there is no kind here, so the page is followed on a lab with
//! the controllers that the script installs, and the script with programs in kind's place that write down what they are asked.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use service_tests::{cluster::Lab, kubectl::programs, launch::kubeconfig_text};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const PAGE: &str = include_str!("../../docs/kind.md");
const CONTROLLERS: &str = "--controllers=*,ip-address-audit-controller,node-port-audit-controller,node-port-range-controller,service-pool-controller";
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The commands of the page, each with its standard input behind it where it has one.
fn commands() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let (mut inside, mut input) = (false, false);
    for line in PAGE.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside && input => {
                let last = found.last_mut().unwrap();
                *last = format!("{last}\n{line}");
                input = line != "END";
            }
            line if inside => {
                found.push(line.to_owned());
                input = line.ends_with("<<'END'");
            }
            _ => {}
        }
    }
    found
}

/// What each command comes to show, in their order; with `!` what it comes to show no more.
const SHOWN: [(&str, &str); 25] = [
    ("hack/kind-up.sh ledger", ""),
    ("kubectl create service nodeport web", "service/web created"),
    ("kubectl get nodeports", "30080"),
    ("kubectl get nodeport 30080 -o yaml", "name: web"),
    ("kubectl delete service web", "deleted"),
    ("kubectl get nodeports", "!30080"),
    ("kubectl apply", "nodeportrange.service-control-plane.io/web created"),
    ("kubectl wait --for=condition=Ready nodeportrange/web", "condition met"),
    ("kubectl create service nodeport web", "service/web created"),
    ("kubectl delete nodeportrange web --wait=false", "deleted"),
    (
        "kubectl get nodeportrange web -o jsonpath",
        "1 node port in the range, the first is 40080, of default/web",
    ),
    ("kubectl delete service web", "deleted"),
    ("kubectl get nodeportranges", "!web"),
    ("kubectl create service clusterip api", "service/api created"),
    ("kubectl delete ipaddress", "deleted"),
    ("kubectl get ipaddresses", "services/default/api"),
    // The lab makes the IPAddress again in the transaction that deletes it, so that there is nothing to tell.
    ("kubectl get events --field-selector involvedObject.name=api", ""),
    ("kubectl create namespace shop", "namespace/shop created"),
    ("kubectl label namespace shop team=gold", "labeled"),
    ("kubectl apply", "servicepool.service-control-plane.io/gold created"),
    ("kubectl -n shop create service clusterip web", "service/web created"),
    ("kubectl -n shop get service web", " 10.96.16."),
    ("kubectl get servicepools", "gold"),
    ("service-controller-manager diff", "!would"),
    ("service-controller-manager ranges", "SERVICECIDR"),
];

#[tokio::test]
async fn the_page_can_be_followed_command_by_command() {
    if programs().await.is_empty() {
        println!("skipped: there is no kubectl on PATH, and hack/install-kubectl.sh was not run");
        return;
    }
    let lab = Lab::start_with(BINARY, &["10.96.0.0/12"], "30000-32767", &[CONTROLLERS]).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(
        std::path::absolute(BINARY).unwrap(),
        dir.path().join("service-controller-manager"),
    )
    .unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_text(&lab.server.target.url())).unwrap();
    let run = async |command: &str| {
        let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", command]).env("PATH", path).env("HOME", dir.path());
        bash.env("KUBECONFIG", &kubeconfig).output().await.unwrap()
    };
    let (commands, shown) = (commands(), SHOWN.iter());
    assert_eq!(commands.len(), shown.len(), "{commands:#?}");
    let mut of_range = false;
    for (command, (begin, shows)) in commands.iter().zip(shown) {
        assert!(command.starts_with(begin), "{command} instead of {begin}");
        of_range =
            (of_range || command.contains("kind: NodePortRange")) && !command.contains("get ipaddresses");
        // The lab has a NodePortRange of its own with the port of the page: there no other range is held by it.
        let command = &if of_range { command.replace("3008", "4008") } else { command.clone() };
        if command.starts_with("hack/") {
            continue;
        }
        let begun = Instant::now();
        loop {
            let output = run(command).await;
            let text = said(&output);
            let holds =
                shows.strip_prefix('!').map_or_else(|| text.contains(shows), |gone| !text.contains(gone));
            // What only looks may be typed again; what writes has to go well at once.
            let looks = ["get ", "diff", "ranges"].iter().any(|verb| command.contains(verb));
            if output.status.success() && holds {
                break;
            }
            assert!(looks && begun.elapsed() < PATIENCE, "$ {command}\n{text}");
            sleep(POLL).await;
        }
    }
    lab.stop().await.unwrap();
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What the script asks docker, kind and kubectl for.
async fn asked(what: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    for program in ["docker", "kind", "kubectl"] {
        let file = dir.path().join(program);
        let text = format!("#!/bin/sh\necho {program} \"$@\" >> {}\n", log.display());
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let output =
        Command::new(root().join("hack/kind-up.sh")).arg(what).env("PATH", path).output().await.unwrap();
    (output.status.success(), std::fs::read_to_string(log).unwrap_or_else(|_| said(&output)))
}

#[tokio::test]
async fn the_script_installs_what_it_says() {
    for (what, config, installed) in [
        ("endpoints", true, &[(".", "deployment/service-controller-manager")][..]),
        ("ledger", false, &[("ledger", "deployment/service-ledger")]),
        ("webhook", false, &[("webhook", "statefulset/service-webhook")]),
        ("shadow", false, &[("shadow", "deployment/service-shadow")]),
        (
            "all",
            true,
            &[
                (".", "deployment/service-controller-manager"),
                ("ledger", "deployment/service-ledger"),
                ("webhook", "statefulset/service-webhook"),
            ],
        ),
    ] {
        let (good, log) = asked(what).await;
        assert!(good, "{what}: {log}");
        let image = "service-controller-manager:0.1.0";
        let create = if config { "--config manifests/kind.yaml" } else { "--name service-controllers" };
        for line in [
            format!("docker build -t {image} ."),
            format!("kind create cluster {create}"),
            format!("kind load docker-image {image} --name service-controllers"),
        ] {
            assert!(log.lines().any(|said| said == line), "{what}: {line} is not in\n{log}");
        }
        assert_eq!(log.matches(" apply -k ").count(), installed.len(), "{what}: {log}");
        for (folder, workload) in installed {
            let folder = if *folder == "." { "manifests".to_owned() } else { format!("manifests/{folder}") };
            let begin = "kubectl --context kind-service-controllers";
            let applied = log.lines().any(|said| said == format!("{begin} apply -k {folder}"));
            let awaited = log.contains(&format!("{begin} -n kube-system rollout status {workload} "));
            assert!(applied && awaited, "{what}: {folder} {workload}\n{log}");
            assert!(root().join(&folder).join("kustomization.yaml").exists(), "{folder}");
        }
    }
    let kind = std::fs::read_to_string(root().join("manifests/kind.yaml")).unwrap();
    assert!(kind.contains("name: service-controllers"), "the script looks for it by this name: {kind}");
    let (good, usage) = asked("everything").await;
    assert!(!good && usage.contains("hack/kind-up.sh [endpoints|ledger|webhook|shadow|all]"), "{usage}");
}
