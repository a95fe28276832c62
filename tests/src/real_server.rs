//! Servers that are not ours: etcd and kube-apiserver as processes on this machine, or `kubectl proxy` before a cluster.
//!
//! Owns how they are started and ended; knows nothing of what is tested.

use std::path::Path;

use service_tls::Authority;
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    case::ServerOptions,
    http::Target,
    launch::{LaunchError, STARTS, TOKEN, announced, free_port, wait_ready},
    process::{Process, ProcessError},
    tls,
};

/// What `kubectl proxy` says its port behind.
const PROXIES: &str = "Starting to serve on 127.0.0.1:";

/// The processes that a server consists of; killed when dropped.
#[derive(Debug)]
pub struct RealServer {
    /// How to talk to it, as an administrator.
    pub target: Target,
    /// In the order in which they are ended.
    processes: Vec<Process>,
    _dir: TempDir,
}

impl RealServer {
    /// A kube-apiserver with RBAC and the token of an administrator, from a directory with `etcd` and `kube-apiserver`.
    pub async fn start(assets: &Path, options: &ServerOptions) -> Result<Self, LaunchError> {
        let mut tries = 1;
        loop {
            match Self::try_start(assets, options).await {
                // Another process may have taken a port in between.
                Err(LaunchError::Process(ProcessError::Ended { .. })) if tries < STARTS => tries += 1,
                result => return result,
            }
        }
    }

    async fn try_start(assets: &Path, options: &ServerOptions) -> Result<Self, LaunchError> {
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
        server.args(["--authorization-mode", "RBAC", "--service-cluster-ip-range"]);
        server.arg(options.service_cidrs.join(","));
        server.args(["--service-node-port-range", &options.node_port_range]);
        server.arg("--token-auth-file").arg(at("tokens.csv"));
        server.arg("--service-account-key-file").arg(at("ca.crt"));
        server.arg("--service-account-signing-key-file").arg(at("ca.key"));
        server.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
        // Nobody makes service accounts here. The other one asks whether a writer may block the deletion of an owner.
        server.args(["--disable-admission-plugins", "ServiceAccount"]);
        server.args(["--enable-admission-plugins", "OwnerReferencesPermissionEnforcement"]);
        let mut server = Process::start(server, &at("kube-apiserver.log"))?;
        let url = format!("https://127.0.0.1:{port}");
        let target = Target::new(&url, tls::trusting_anyone()?, Some(TOKEN.to_owned()))?;
        wait_ready(&mut server, &target).await?;
        Ok(Self { target, processes: vec![server, etcd], _dir: dir })
    }

    /// A way to a cluster: kubectl knows every kind of credentials.
    pub async fn reach(kubeconfig: &Path) -> Result<Self, LaunchError> {
        let dir = tempfile::tempdir()?;
        let mut command = Command::new("kubectl");
        command.arg("proxy").arg("--port=0").arg("--kubeconfig").arg(kubeconfig);
        let mut process = Process::start(command, &dir.path().join("kubectl.log"))?;
        let port = announced(&mut process, &[PROXIES]).await?;
        let target = Target::new(&format!("http://127.0.0.1:{port}"), tls::trusting_anyone()?, None)?;
        wait_ready(&mut process, &target).await?;
        Ok(Self { target, processes: vec![process], _dir: dir })
    }

    /// Ends the processes in order.
    pub async fn stop(self) -> Result<(), LaunchError> {
        for process in self.processes {
            process.terminate().await?;
        }
        Ok(())
    }
}
