//! Controllers as a process of their own beside a server, with a proxy between them that remembers what they ask for.

use bytes::Bytes;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    process::Command,
    time::{Duration, Instant, sleep},
};

use crate::{
    account::Account,
    api_server::{ApiServer, ServerError, overdue},
    http::{Client, Target, request},
    launch::{LaunchError, secure_port, start_controllers},
    process::Process,
    proxy::Proxy,
};

/// Services of the namespace of the test, and what belongs to them.
pub const SERVICES: &str = "/api/v1/namespaces/{namespace}/services";
/// Pods of the namespace of the test.
pub const PODS: &str = "/api/v1/namespaces/{namespace}/pods";
/// Endpoints of the namespace of the test.
pub const ENDPOINTS: &str = "/api/v1/namespaces/{namespace}/endpoints";
/// Events of the namespace of the test.
pub const EVENTS: &str = "/api/v1/namespaces/{namespace}/events";
/// EndpointSlices of the namespace of the test.
pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices";
/// The kinds of ours.
pub const OWN: &str = "/apis/service-control-plane.io/v1alpha1";

const POLL: Duration = Duration::from_millis(20);

/// A server, and controllers beside it. In paths `{namespace}` stands for the namespace of the test.
#[derive(Debug)]
pub struct Beside {
    /// The server.
    pub server: ApiServer,
    /// What the controllers ask for.
    pub proxy: Proxy,
    controllers: Process,
    _dir: TempDir,
}

impl Beside {
    /// Starts both, the controllers by the product's binary in the name of an account with more arguments for `run`, and after
    /// `objects`, by the path that takes them, are there.
    pub async fn start(
        binary: &str,
        account: Account,
        objects: &[(&str, Value)],
        more: &[&str],
    ) -> Result<Self, ServerError> {
        let server = ApiServer::start(binary).await?;
        for (path, object) in objects {
            server.send("POST", path, object).await?;
        }
        Self::on(server, binary, account, more).await
    }

    /// Starts controllers beside a server.
    pub async fn on(
        server: ApiServer,
        binary: &str,
        account: Account,
        more: &[&str],
    ) -> Result<Self, ServerError> {
        let proxy = Proxy::start(server.target.clone()).await?;
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig_of(account, &proxy.url()).await?)?;
        let mut command = Command::new(binary);
        command.arg("run").arg(format!("--kubeconfig={}", kubeconfig.display())).args(more);
        let controllers = start_controllers(command, &dir.path().join("log")).await?;
        Ok(Self { server, proxy, controllers, _dir: dir })
    }

    /// Sends a request to the server that it must take; gives the answer.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, ServerError> {
        self.server.send(method, path, body).await
    }

    /// Waits until what a path gives is as it should be.
    pub async fn until(
        &self,
        what: &str,
        path: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, ServerError> {
        self.server.until(what, path, holds).await
    }

    /// Waits until the controllers have asked for it.
    pub async fn until_asked(&self, verb: &str, resource: &str) -> Result<(), ServerError> {
        let start = Instant::now();
        while !self.proxy.asked().iter().any(|asked| asked.verb == verb && asked.resource == resource) {
            overdue(start, &format!("{verb} {resource}"), || self.controllers.output())?;
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits until a line of the controllers' log has all of `words`.
    pub async fn until_logged(&self, words: &[&str]) -> Result<(), ServerError> {
        let start = Instant::now();
        let says = |line: &str| words.iter().all(|word| line.contains(word));
        while !self.controllers.output().lines().any(says) {
            overdue(start, &format!("a line with {words:?}"), || self.controllers.output())?;
            sleep(POLL).await;
        }
        Ok(())
    }

    /// What the controllers have logged.
    pub fn output(&self) -> String {
        self.controllers.output()
    }

    /// Asks the controllers for a path of their own port, with a token or without.
    pub async fn ask_controllers(
        &self,
        path: &str,
        token: Option<&str>,
    ) -> Result<(u16, String), LaunchError> {
        self.ask_controllers_to("GET", path, "", token).await
    }

    /// Asks the controllers for something else than to show a path.
    pub async fn ask_controllers_to(
        &self,
        method: &str,
        path: &str,
        body: &str,
        token: Option<&str>,
    ) -> Result<(u16, String), LaunchError> {
        let target = Target { token: token.map(ToOwned::to_owned), ..secure_port(&self.controllers)? };
        let answer = Client::new(target).send(request(method, path, Bytes::from(body.to_owned()))?).await?;
        Ok((answer.code, String::from_utf8_lossy(&answer.body).into_owned()))
    }

    /// Kills the controllers; gives the server.
    pub async fn kill(self) -> Result<ApiServer, ServerError> {
        self.controllers.kill().await.map_err(LaunchError::from)?;
        Ok(self.server)
    }

    /// Ends both in order.
    pub async fn stop(self) -> Result<(), ServerError> {
        self.controllers.terminate().await.map_err(LaunchError::from)?;
        self.server.stop().await
    }
}
