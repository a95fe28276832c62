//! Client libraries that other people wrote take the lab for a cluster: the Python client `kubernetes`, and `kr8s`.
//!
//! They come from the Python package index. Where that cannot be reached, or there is no Python, the test says so in words and
//! what it would have shown is not shown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use service_tests::case::ServerOptions;
use service_tests::launch::Launcher;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
/// How long a script may take.
const PATIENCE: Duration = Duration::from_mins(5);
/// How long the libraries may take to come; an index that cannot be reached is often one that does not answer.
const INSTALLS_WITHIN: Duration = Duration::from_mins(1);
/// The libraries, in versions that are known to say what the scripts expect.
const PACKAGES: [&str; 2] = ["kubernetes>=31", "kr8s>=0.20"];

/// Python with the libraries.
struct Python {
    program: PathBuf,
    _dir: TempDir,
}

impl Python {
    /// A fresh environment with the libraries in it.
    ///
    /// # Errors
    /// In words, why there is none here.
    async fn install() -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let venv = dir.path().join("venv");
        let program = venv.join("bin").join("python");
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
        let install = async {
            run("python3", &["-m", "venv", &venv.to_string_lossy()], None).await?;
            run(&program.to_string_lossy(), &[&pip[..], &PACKAGES[..]].concat(), None).await
        };
        let slow = |_| Err(format!("they did not come within {INSTALLS_WITHIN:?}"));
        timeout(INSTALLS_WITHIN, install).await.unwrap_or_else(slow)?;
        Ok(Self { program, _dir: dir })
    }

    async fn script(&self, script: &str, kubeconfig: &Path) -> Result<String, String> {
        run(&self.program.to_string_lossy(), &["-c", script], Some(kubeconfig)).await
    }
}

/// What a program prints; an error is what it complains of.
async fn run(program: &str, arguments: &[&str], kubeconfig: Option<&Path>) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    if let Some(path) = kubeconfig {
        command.env("KUBECONFIG", path);
    }
    let output = timeout(PATIENCE, command.output())
        .await
        .map_err(|_| format!("{program} did not end within {PATIENCE:?}"))?
        .map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

const KUBERNETES: &str = r#"
import os, yaml
from kubernetes import client, config, watch
config.load_kube_config()
print(client.VersionApi().get_code().git_version)
assert client.CoreApi().get_api_versions().versions == ["v1"]
groups = [g.name for g in client.ApisApi().get_api_versions().groups]
assert "authorization.k8s.io" in groups, groups
core, auth = client.CoreV1Api(), client.AuthorizationV1Api()
review = auth.create_self_subject_access_review({"spec": {"resourceAttributes": {"verb": "list", "resource": "services"}}})
assert review.status.allowed
try:
    auth.create_self_subject_access_review({"spec": {}})
    raise SystemExit("an empty question was answered")
except client.ApiException as refused:
    assert refused.status == 422, refused
token = yaml.safe_load(open(os.environ["KUBECONFIG"]))["users"][0]["user"]["token"]
known = client.AuthenticationV1Api().create_token_review({"spec": {"token": token}})
assert known.status.authenticated and known.status.user.username == "kubernetes-admin"
made = core.create_namespaced_service("default", {"metadata": {"name": "py"}, "spec": {"ports": [{"port": 80}]}})
assert made.spec.cluster_ip
for event in watch.Watch().stream(core.list_namespaced_service, "default", timeout_seconds=30):
    if event["object"].metadata.name == "py":
        break
else:
    raise SystemExit("the watch did not show the Service")
core.patch_namespaced_service("py", "default", {"spec": {"type": "NodePort"}})
assert core.read_namespaced_service("py", "default").spec.ports[0].node_port
core.create_namespaced_secret("default", client.V1Secret(metadata=client.V1ObjectMeta(name="py"), string_data={"a": "b"}))
assert core.read_namespaced_secret("py", "default").data == {"a": "Yg=="}
pod = client.V1Pod(metadata=client.V1ObjectMeta(name="py"), spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]))
core.create_namespaced_pod("default", pod)
core.create_namespaced_pod_eviction("py", "default", client.V1Eviction(metadata=client.V1ObjectMeta(name="py")))
try:
    core.read_namespaced_pod_log("py", "default")
    raise SystemExit("there was a log")
except client.ApiException as refused:
    assert refused.status == 501, refused
try:
    client.BatchV1Api().list_job_for_all_namespaces()
    raise SystemExit("there were jobs")
except client.ApiException as refused:
    assert refused.status == 404 and "jobs.batch" in refused.body, refused
bob = client.ApiClient()
bob.set_default_header("Impersonate-User", "bob")
try:
    client.CoreV1Api(bob).list_namespaced_service("default")
    raise SystemExit("bob may list Services")
except client.ApiException as refused:
    assert refused.status == 403, refused
core.delete_namespaced_service("py", "default")
print("done")
"#;

const KR8S: &str = r#"
import os, kr8s
from kr8s.objects import Pod, Secret, Service
api = kr8s.api(kubeconfig=os.environ["KUBECONFIG"])
assert api.version()["major"] == "1"
assert api.whoami() == "kubernetes-admin", api.whoami()
service = Service({"metadata": {"name": "kr"}, "spec": {"selector": {"app": "kr"}, "ports": [{"port": 80}]}})
service.create()
assert service.spec.clusterIP
service.label({"a": "b"})
service.patch({"spec": {"type": "NodePort"}})
service.refresh()
assert service.spec.ports[0].nodePort
assert "kr" in [s.name for s in api.get("services", namespace="default")]
secret = Secret({"metadata": {"name": "kr"}, "stringData": {"a": "b"}})
secret.create()
assert secret.raw["data"] == {"a": "Yg=="}
pod = Pod({"metadata": {"name": "kr", "labels": {"app": "kr"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
pod.create()
pod.wait("condition=Ready", timeout=60)
assert [p.name for p in service.ready_pods()] == ["kr"]
for thing in (pod, secret, service):
    thing.delete()
print("done")
"#;

#[tokio::test(flavor = "multi_thread")]
async fn python_clients_take_the_lab_for_a_cluster() {
    let python = match Python::install().await {
        Ok(python) => python,
        Err(why) => {
            println!("SKIPPED: the Python clients were not tried, they can not be installed here: {why}");
            return;
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let options =
        ServerOptions { service_cidrs: vec!["10.96.0.0/12".into()], node_port_range: "30000-32767".into() };
    let more = ["--nodes", "1", "--kubeconfig-out", kubeconfig.to_str().unwrap()];
    let server = Launcher::Binary(BINARY.into()).start(&options, &more).await.unwrap();
    for (name, script) in [("kubernetes", KUBERNETES), ("kr8s", KR8S)] {
        let printed = python.script(script, &kubeconfig).await;
        let printed = printed.unwrap_or_else(|complaint| panic!("{name}\n{complaint}"));
        assert!(printed.trim_end().ends_with("done"), "{name}: {printed}");
    }
    server.stop().await.unwrap();
}
