//! What gives a node of `lab --network` its rules: our proxy on a thread in the node's namespace, or another program there.

use std::{io, path::Path, process::Stdio, thread, time::Duration};

use kube::Client;
use serde_json::json;
use service_lab_network::Namespace;
use service_nodeproxy::agent;
use tokio::{process::Command, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::private_directory::PrivateDirectory;

/// How long a program that ended is not started again.
const PAUSE: Duration = Duration::from_secs(1);

/// A node, and how its rules are to be.
pub(super) struct NodeRules {
    /// Its name.
    pub node: String,
    /// Its namespace.
    pub namespace: Namespace,
    /// The settings.
    pub settings: agent::Settings,
}

/// What runs for one node.
pub(super) enum Running {
    /// Our proxy.
    Thread(thread::JoinHandle<()>),
    /// Another program, and what starts it again.
    Program(JoinHandle<()>),
}

impl Running {
    /// Waits for its end, which the token brings about.
    pub(super) async fn ended(self) {
        match self {
            Self::Thread(thread) => {
                let _ = tokio::task::spawn_blocking(move || thread.join()).await;
            }
            Self::Program(task) => {
                let _ = task.await;
            }
        }
    }
}

impl NodeRules {
    /// Starts our proxy on a thread that is in the node's namespace.
    pub(super) fn start(self, client: Client, shutdown: CancellationToken) -> io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name(format!("proxy {}", self.node)).spawn(move || {
            let run = || -> Result<(), Box<dyn std::error::Error>> {
                self.namespace.enter()?;
                Ok(runtime.block_on(agent::run(client, self.settings, shutdown))?)
            };
            if let Err(error) = run() {
                tracing::error!(node = self.node, %error, "the node's proxy ended");
            }
        })?;
        Ok(Running::Thread(thread))
    }

    /// Starts a program of kube-proxy's kind in the node's namespace, with `--config` and a file of kube-proxy's configuration; and again
    /// whenever it ends.
    pub(super) fn start_program(
        self,
        words: &[String],
        kubeconfig: &Path,
        shutdown: CancellationToken,
    ) -> io::Result<Running> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(io::Error::other("--proxy-command is empty"));
        };
        let directory = PrivateDirectory::new(&std::env::temp_dir())?;
        let file = directory.path().join(format!("{}.json", self.node));
        std::fs::write(&file, self.configuration(kubeconfig))?;
        let (program, arguments) = (program.clone(), arguments.to_vec());
        let task = tokio::spawn(async move {
            let _directory = directory;
            while !shutdown.is_cancelled() {
                let mut command = Command::new(&program);
                command.args(&arguments).arg("--config").arg(&file).stdin(Stdio::null()).kill_on_drop(true);
                self.attend(command, &shutdown).await;
            }
        });
        Ok(Running::Program(task))
    }

    async fn attend(&self, mut command: Command, shutdown: &CancellationToken) {
        let (namespace, runtime) = (self.namespace.clone(), tokio::runtime::Handle::current());
        let started = tokio::task::spawn_blocking(move || {
            namespace.within(|| {
                let _runtime = runtime.enter();
                command.spawn()
            })
        });
        let ended = match started.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(mut child) => tokio::select! {
                ended = child.wait() => ended.map(|status| status.to_string()),
                () = shutdown.cancelled() => {
                    let _ = child.kill().await;
                    return;
                }
            },
            Err(error) => Err(error),
        };
        let why = ended.unwrap_or_else(|error| error.to_string());
        tracing::error!(node = self.node, why, "the node's proxy ended and is started again");
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = shutdown.cancelled() => {}
        }
    }

    /// The configuration of a kube-proxy that does what ours would.
    fn configuration(&self, kubeconfig: &Path) -> String {
        let mut configuration = configuration(&self.settings);
        configuration["hostnameOverride"] = json!(self.node);
        configuration["clientConnection"] = json!({"kubeconfig": kubeconfig});
        configuration.to_string()
    }
}

/// What these settings are in kube-proxy's words (KubeProxyConfiguration).
pub(super) fn configuration(settings: &agent::Settings) -> serde_json::Value {
    let networks: Vec<String> = match &settings.rules.local_traffic {
        service_nodeproxy::config::LocalTraffic::ClusterCidrs(networks) => {
            networks.iter().map(ToString::to_string).collect()
        }
        _ => Vec::new(),
    };
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clusterCIDR": networks.join(","),
        "mode": "nftables",
        "nodePortAddresses": null,
        // The machine's settings are not a node's to change.
        "conntrack": {"maxPerCore": 0, "min": 0},
        "healthzBindAddress": settings.health.map(|address| address.to_string()).unwrap_or_default(),
        "metricsBindAddress": settings.metrics.map(|address| address.to_string()).unwrap_or_default(),
    })
}
