//! The API server that a whole-system test runs against: a cluster that `TEST_KUBECONFIG` names, a real kube-apiserver from
//! the binaries that `KUBEBUILDER_ASSETS` names (etcd, kube-apiserver and kubectl in one directory, as envtest has them), or
//! else the lab.
//!
//! A test asks for *a server* and gets one of these, with all rights, our kinds and a namespace of its own; what it starts
//! beside it has the rights of an account of `manifests/`.

use std::{env, ffi::OsString, fmt, path::PathBuf, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, header};
use parking_lot::Mutex;
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep},
};

use crate::{
    account::{self, Account, UnreadableManifest},
    case::ServerOptions,
    http::{Client, HttpError, Target, request},
    launch::{LaunchError, Launcher, Server, kubeconfig_as},
    real_server::RealServer,
};

/// Where a cluster is named.
pub const CLUSTER: &str = "TEST_KUBECONFIG";
/// Where the binaries of a real API server are named.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// What stands for the namespace of the test in paths.
const HERE: &str = "{namespace}";
const RANGE: &str = "10.96.0.0/16";
const NODE_PORTS: &str = "30000-32767";
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(20);
const CRDS: [&str; 3] = [
    include_str!("../../manifests/crds/nodeportranges.yaml"),
    include_str!("../../manifests/crds/nodeports.yaml"),
    include_str!("../../manifests/crds/servicepools.yaml"),
];
/// One test at a time: a kube-apiserver needs much of a machine, and a cluster is the same for all tests.
static TURN: Semaphore = Semaphore::const_new(1);

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

/// What is wrong with a server, or what did not come to pass on it.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It does not start, or not end.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// No request gets through.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// What is to be installed on it cannot be read.
    #[error(transparent)]
    Manifest(#[from] UnreadableManifest),
    /// It refuses a request.
    #[error("{method} {path}: {said}")]
    Refused {
        /// How.
        method: String,
        /// What.
        path: String,
        /// The answer.
        said: Value,
    },
    /// It takes too long.
    #[error("{what} did not come to pass; the last that was seen: {seen}")]
    Overdue {
        /// What was waited for.
        what: String,
        /// What there was instead.
        seen: String,
    },
}

impl From<std::io::Error> for ServerError {
    fn from(error: std::io::Error) -> Self {
        Self::Launch(error.into())
    }
}

/// What keeps the server there.
#[derive(Debug)]
enum Held {
    Lab(Box<Server>),
    Real(RealServer),
}

/// A server to run against.
#[derive(Debug)]
pub struct ApiServer {
    /// A client with all rights.
    pub client: Client,
    /// Where it is.
    pub target: Target,
    /// The namespace of this test.
    pub namespace: String,
    choice: Choice,
    /// What the test made outside of its namespace.
    made: Mutex<Vec<String>>,
    held: Held,
    /// Given back after all else is gone.
    _turn: Option<SemaphorePermit<'static>>,
}

/// The ranges of a server that is started here.
pub fn ranges() -> ServerOptions {
    ServerOptions { service_cidrs: vec![RANGE.to_owned()], node_port_range: NODE_PORTS.to_owned() }
}

impl ApiServer {
    /// Starts the server that the environment asks for, by default the lab of the product's binary without controllers, and
    /// says which one it is.
    pub async fn start(binary: &str) -> Result<Self, ServerError> {
        let choice = Choice::of_environment();
        println!("this test runs against {choice}");
        let (turn, real) = match &choice {
            Choice::Lab => return Self::started(Self::lab(binary, &["--controllers", "none"]).await?).await,
            // Nobody closes it.
            Choice::Cluster(file) => (TURN.acquire().await.ok(), RealServer::reach(file).await?),
            Choice::Assets(dir) => (TURN.acquire().await.ok(), RealServer::start(dir, &ranges()).await?),
        };
        let target = real.target.clone();
        Self::started(Self { _turn: turn, ..Self::new(choice, target, Held::Real(real)) }).await
    }

    /// Starts a lab with these arguments, for what no other server does. The namespace is `default`.
    pub async fn lab(binary: &str, more: &[&str]) -> Result<Self, ServerError> {
        let server = Launcher::Binary(binary.into()).start(&ranges(), more).await?;
        Ok(Self::new(Choice::Lab, server.target.clone(), Held::Lab(Box::new(server))))
    }

    fn new(choice: Choice, target: Target, held: Held) -> Self {
        let client = Client::new(target.clone());
        let (namespace, made) = ("default".to_owned(), Mutex::default());
        Self { client, target, namespace, choice, made, held, _turn: None }
    }

    /// Gives a server that has started what every test finds there.
    async fn started(mut self) -> Result<Self, ServerError> {
        self.namespace = format!("scm-test-{:08x}", rand::rng().random::<u32>());
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        self.send("POST", "/api/v1/namespaces", &object).await?;
        if matches!(self.choice, Choice::Cluster(_)) {
            // Pods want it, and there a controller makes it.
            let account = "/api/v1/namespaces/{namespace}/serviceaccounts/default";
            self.until("the account of pods", account, |object| object["metadata"].is_object()).await?;
        }
        if !self.is_lab() {
            self.install_kinds().await?;
        }
        Ok(self)
    }

    async fn install_kinds(&self) -> Result<(), ServerError> {
        for manifest in CRDS {
            for object in account::documents(manifest)? {
                self.apply(&object).await?;
                let spec = &object["spec"];
                let [group, version, plural] =
                    [&spec["group"], &spec["versions"][0]["name"], &spec["names"]["plural"]]
                        .map(|value| value.as_str().unwrap_or_default());
                let path = format!("/apis/{group}/{version}/{plural}");
                self.until("our kind", &path, |list| list["items"].is_array()).await?;
            }
        }
        Ok(())
    }

    /// Whether it is the lab: nobody has roles there, and it has our kinds built in.
    pub fn is_lab(&self) -> bool {
        self.choice == Choice::Lab
    }

    /// Why it asks no admission webhook on this machine, or nothing if it does.
    pub fn asks_no_webhook(&self) -> Option<&'static str> {
        match self.choice {
            Choice::Lab => Some("the lab asks no admission webhooks"),
            Choice::Cluster(_) => {
                Some("the API server of a cluster does not reach a webhook on this machine")
            }
            Choice::Assets(_) => None,
        }
    }

    /// A path with the namespace of the test in place of `{namespace}`.
    pub fn at(&self, path: &str) -> String {
        path.replace(HERE, &self.namespace)
    }

    /// A path in the namespace of the test: of the core group if `group` is empty.
    pub fn path(&self, group: &str, resource: &str) -> String {
        let prefix = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}") };
        format!("{prefix}/namespaces/{}/{resource}", self.namespace)
    }

    /// Sends a request that it must take; gives the answer.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, ServerError> {
        let path = self.at(path);
        let (code, said) = self.client.call(method, &path, body).await?;
        if !(200..300).contains(&code) {
            return Err(ServerError::Refused { method: method.to_owned(), path, said });
        }
        if method == "POST" && !path.contains("/namespaces") {
            let name = said["metadata"]["name"].as_str().unwrap_or_default();
            self.made.lock().push(format!("{path}/{name}"));
        }
        Ok(said)
    }

    /// Applies an object of a manifest; gives its path.
    pub async fn apply(&self, object: &Value) -> Result<String, ServerError> {
        let path = account::path(object);
        let query = "?fieldManager=service-tests&force=true";
        let mut patch = request("PATCH", &format!("{path}{query}"), Bytes::from(object.to_string()))?;
        let kind = HeaderValue::from_static("application/apply-patch+yaml");
        patch.headers_mut().insert(header::CONTENT_TYPE, kind);
        let answer = self.client.send(patch).await?;
        if (200..300).contains(&answer.code) {
            return Ok(path);
        }
        Err(ServerError::Refused { method: "PATCH".to_owned(), path, said: answer.json() })
    }

    /// Waits until what a path gives is as it should be.
    pub async fn until(
        &self,
        what: &str,
        path: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, ServerError> {
        let (start, path) = (Instant::now(), self.at(path));
        loop {
            let (_, seen) = self.client.get(&path).await?;
            if holds(&seen) {
                return Ok(seen);
            }
            overdue(start, what, || seen.to_string())?;
            sleep(POLL).await;
        }
    }

    /// A kubeconfig for it, with all rights.
    pub fn kubeconfig(&self) -> String {
        kubeconfig_as(&self.target.url(), None)
    }

    /// Makes an account with its roles, where there are roles; gives a kubeconfig with which the server at `url` is asked in its
    /// name: the server itself, or a proxy before it.
    pub async fn kubeconfig_of(&self, account: Account, url: &str) -> Result<String, ServerError> {
        if self.is_lab() {
            return Ok(kubeconfig_as(url, None));
        }
        for object in account.objects()? {
            self.apply(&object).await?;
        }
        Ok(kubeconfig_as(url, account.user()?.as_deref()))
    }

    /// Removes what the test made and ends what was started.
    pub async fn stop(self) -> Result<(), ServerError> {
        let mut made = self.made.into_inner();
        if self.namespace != "default" {
            let namespace = format!("/api/v1/namespaces/{}", self.namespace);
            // The next test may want the same address or port, and a namespace takes its time to go.
            let services = format!("{namespace}/services");
            let (_, list) = self.client.get(&services).await?;
            let items = list["items"].as_array().into_iter().flatten();
            let names = items.filter_map(|service| service["metadata"]["name"].as_str());
            made.extend(names.map(|name| format!("{services}/{name}")));
            made.push(namespace);
        }
        for path in &made {
            // What is gone already is no error.
            self.client.call("DELETE", path, &Value::Null).await?;
        }
        match self.held {
            Held::Lab(server) => server.stop().await?,
            Held::Real(server) => server.stop().await?,
        }
        Ok(())
    }
}

/// Fails when something has taken too long since `start`.
pub(crate) fn overdue(start: Instant, what: &str, seen: impl FnOnce() -> String) -> Result<(), ServerError> {
    if start.elapsed() < PATIENCE {
        Ok(())
    } else {
        Err(ServerError::Overdue { what: what.to_owned(), seen: seen() })
    }
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
