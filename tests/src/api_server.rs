//! The API server that a whole-system test runs against: a cluster that `TEST_KUBECONFIG` names, a real kube-apiserver from
//! the binaries that `KUBEBUILDER_ASSETS` names (etcd, kube-apiserver and kubectl in one directory, as envtest has them), or
//! else the lab.
//!
//! A test asks for *a server* and gets one of these, with all rights and a namespace of its own.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use rand::RngExt as _;
use serde_json::{Value, json};
use service_tls::Authority;
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    case::ServerOptions,
    http::{Client, Target},
    launch::{
        LaunchError, Launcher, STARTS, Server, TOKEN, announced, free_port, kubeconfig_text, wait_ready,
    },
    process::{Process, ProcessError},
    tls,
};

/// Where a cluster is named.
pub const CLUSTER: &str = "TEST_KUBECONFIG";
/// Where the binaries of a real API server are named.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";
const RANGE: &str = "10.96.0.0/16";
const NODE_PORTS: &str = "30000-32767";
/// What `kubectl proxy` says its port behind.
const PROXIES: &str = "Starting to serve on 127.0.0.1:";

/// Which server there is to run against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// That of a cluster, by its kubeconfig. Its own endpoint controllers have to be switched off.
    Cluster(PathBuf),
    /// One that is started from these binaries.
    Assets(PathBuf),
    /// The lab.
    Lab,
}

impl Choice {
    /// What the environment asks for.
    pub fn of_environment() -> Self {
        Self::of(|name| env::var_os(name))
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let named = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        named(CLUSTER).map(Self::Cluster).or(named(ASSETS).map(Self::Assets)).unwrap_or(Self::Lab)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(file) => write!(formatter, "the cluster of {CLUSTER}={}", file.display()),
            Self::Assets(dir) => write!(formatter, "the kube-apiserver in {ASSETS}={}", dir.display()),
            Self::Lab => write!(formatter, "the lab (neither {CLUSTER} nor {ASSETS} is set)"),
        }
    }
}

/// What keeps the server there.
#[derive(Debug)]
enum Held {
    Lab(Box<Server>),
    /// Processes in the order in which they are ended, and their directory.
    Processes(Vec<Process>, TempDir),
}

/// A server to run against.
#[derive(Debug)]
pub struct ApiServer {
    /// A client with all rights.
    pub client: Client,
    /// Where it is.
    pub target: Target,
    /// A namespace that is there for this test alone.
    pub namespace: String,
    held: Held,
}

impl ApiServer {
    /// Starts the server that the environment asks for, by default the lab of the product's binary without controllers, and
    /// says which one it is.
    pub async fn start(binary: &str) -> Result<Self, LaunchError> {
        let choice = Choice::of_environment();
        println!("this test runs against {choice}");
        let (target, held) = match choice {
            Choice::Cluster(file) => proxied(&file).await?,
            Choice::Assets(dir) => real(&dir).await?,
            Choice::Lab => {
                let options = ServerOptions {
                    service_cidrs: vec![RANGE.to_owned()],
                    node_port_range: NODE_PORTS.to_owned(),
                };
                let more = ["--controllers", "none"];
                let server = Launcher::Binary(binary.into()).start(&options, &more).await?;
                (server.target.clone(), Held::Lab(Box::new(server)))
            }
        };
        let client = Client::new(target.clone());
        let namespace = format!("scm-test-{:08x}", rand::rng().random::<u32>());
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        client.call("POST", "/api/v1/namespaces", &object).await?;
        Ok(Self { client, target, namespace, held })
    }

    /// A kubeconfig for it, with all rights.
    pub fn kubeconfig(&self) -> String {
        kubeconfig_text(&self.target.url())
    }

    /// A path in the namespace of the test: of the core group if `group` is empty.
    pub fn path(&self, group: &str, resource: &str) -> String {
        let prefix = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}") };
        format!("{prefix}/namespaces/{}/{resource}", self.namespace)
    }

    /// Removes the namespace and ends what was started.
    pub async fn stop(self) -> Result<(), LaunchError> {
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        self.client.call("DELETE", &path, &Value::Null).await?;
        match self.held {
            Held::Lab(server) => server.stop().await,
            Held::Processes(processes, _dir) => {
                for process in processes {
                    process.terminate().await?;
                }
                Ok(())
            }
        }
    }
}

/// A way to a cluster: kubectl knows every kind of credentials.
async fn proxied(kubeconfig: &Path) -> Result<(Target, Held), LaunchError> {
    let dir = tempfile::tempdir()?;
    let mut command = Command::new("kubectl");
    command.arg("proxy").arg("--port=0").arg("--kubeconfig").arg(kubeconfig);
    let mut process = Process::start(command, &dir.path().join("kubectl.log"))?;
    let port = announced(&mut process, &[PROXIES]).await?;
    let target = Target::new(&format!("http://127.0.0.1:{port}"), tls::trusting_anyone()?, None)?;
    wait_ready(&mut process, &target).await?;
    Ok((target, Held::Processes(vec![process], dir)))
}

/// A real API server on this machine, with RBAC and the token of an administrator.
async fn real(assets: &Path) -> Result<(Target, Held), LaunchError> {
    let mut tries = 1;
    loop {
        match try_real(assets).await {
            // Another process may have taken a port in between.
            Err(LaunchError::Process(ProcessError::Ended { .. })) if tries < STARTS => tries += 1,
            result => return result,
        }
    }
}

async fn try_real(assets: &Path) -> Result<(Target, Held), LaunchError> {
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name);
    let (clients, port) = (format!("http://127.0.0.1:{}", free_port()?), free_port()?);
    let mut etcd = Command::new(assets.join("etcd"));
    etcd.arg("--data-dir").arg(at("etcd")).arg("--unsafe-no-fsync");
    etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    // As envtest starts it.
    etcd.args(["--listen-peer-urls", "http://127.0.0.1:0"]);
    let etcd = Process::start(etcd, &at("etcd.log"))?;
    // Any key and certificate will do for the tokens of service accounts; an authority has both.
    Authority::load_or_generate(dir.path()).map_err(|error| std::io::Error::other(error.to_string()))?;
    std::fs::write(at("tokens.csv"), format!("{TOKEN},admin,admin,\"system:masters\"\n"))?;
    let mut server = Command::new(assets.join("kube-apiserver"));
    server.args(["--etcd-servers", &clients, "--bind-address", "127.0.0.1", "--secure-port"]);
    server.arg(port.to_string()).arg("--cert-dir").arg(at("certs"));
    server.args(["--authorization-mode", "RBAC", "--service-cluster-ip-range", RANGE]);
    server.arg("--token-auth-file").arg(at("tokens.csv"));
    server.arg("--service-account-key-file").arg(at("ca.crt"));
    server.arg("--service-account-signing-key-file").arg(at("ca.key"));
    server.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
    // Nobody makes service accounts here.
    server.args(["--disable-admission-plugins", "ServiceAccount"]);
    let mut server = Process::start(server, &at("kube-apiserver.log"))?;
    let url = format!("https://127.0.0.1:{port}");
    let target = Target::new(&url, tls::trusting_anyone()?, Some(TOKEN.to_owned()))?;
    wait_ready(&mut server, &target).await?;
    Ok((target, Held::Processes(vec![server, etcd], dir)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides_and_a_cluster_comes_first() {
        let of = |set: &[(&str, &str)]| {
            Choice::of(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(of(&[]), Choice::Lab);
        assert_eq!(of(&[(ASSETS, "")]), Choice::Lab);
        assert_eq!(of(&[(ASSETS, "/bin")]), Choice::Assets("/bin".into()));
        assert_eq!(of(&[(ASSETS, "/bin"), (CLUSTER, "/kc")]), Choice::Cluster("/kc".into()));
        assert!(of(&[]).to_string().contains(CLUSTER), "a test says why it runs against the lab");
    }
}
