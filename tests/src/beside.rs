//! Controllers as a process of their own beside a lab, with a proxy between them that remembers what they ask for.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use crate::{
    cluster::Lab,
    http::{Client, HttpError, Target, request},
    launch::{LaunchError, kubeconfig_text, secure_port, start_controllers},
    process::Process,
    proxy::Proxy,
};

const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(20);

/// A lab, and controllers beside it.
#[derive(Debug)]
pub struct Beside {
    /// The lab, without controllers of its own.
    pub lab: Lab,
    /// What the controllers ask for.
    pub proxy: Proxy,
    controllers: Process,
}

/// What did not come to pass.
#[derive(Debug, thiserror::Error)]
pub enum BesideError {
    /// No request gets through.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The lab refuses a request.
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

impl Beside {
    /// Starts both by the product's binary: the controllers with more arguments for `run`, and after `objects`, by the path
    /// that takes them, are there.
    pub async fn start(binary: &str, objects: &[(&str, Value)], more: &[&str]) -> Result<Self, LaunchError> {
        Self::start_on(binary, &["--controllers", "none"], objects, more).await
    }

    /// The same beside a lab with these arguments of its own.
    pub async fn start_on(
        binary: &str,
        server: &[&str],
        objects: &[(&str, Value)],
        more: &[&str],
    ) -> Result<Self, LaunchError> {
        let lab = Lab::start_with(binary, &["10.96.0.0/16"], "30000-32767", server).await?;
        for (path, object) in objects {
            lab.client.call("POST", path, object).await?;
        }
        let proxy = Proxy::start(lab.server.target.clone()).await?;
        let dir = lab.server.dir.path();
        let kubeconfig = dir.join("controllers.kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_text(&proxy.url()))?;
        let mut command = Command::new(binary);
        command.arg("run").arg(format!("--kubeconfig={}", kubeconfig.display())).args(more);
        let controllers = start_controllers(command, &dir.join("controllers.log")).await?;
        Ok(Self { lab, proxy, controllers })
    }

    /// Sends a request to the lab that it must take.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Result<(), BesideError> {
        let (code, said) = self.lab.client.call(method, path, body).await?;
        if (200..300).contains(&code) {
            return Ok(());
        }
        Err(BesideError::Refused { method: method.to_owned(), path: path.to_owned(), said })
    }

    /// Waits until what a path gives is as it should be.
    pub async fn until(
        &self,
        what: &str,
        path: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, BesideError> {
        let start = Instant::now();
        loop {
            let (_, seen) = self.lab.client.get(path).await?;
            if holds(&seen) {
                return Ok(seen);
            }
            overdue(start, what, || seen.to_string())?;
            sleep(POLL).await;
        }
    }

    /// Waits until the controllers have asked for it.
    pub async fn until_asked(&self, verb: &str, resource: &str) -> Result<(), BesideError> {
        let start = Instant::now();
        while !self.proxy.asked().iter().any(|asked| asked.verb == verb && asked.resource == resource) {
            overdue(start, &format!("{verb} {resource}"), || self.controllers.output())?;
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits until a line of the controllers' log has all of `words`.
    pub async fn until_logged(&self, words: &[&str]) -> Result<(), BesideError> {
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

    /// Ends both in order.
    pub async fn stop(self) -> Result<(), LaunchError> {
        self.controllers.terminate().await?;
        self.lab.stop().await
    }
}

fn overdue(start: Instant, what: &str, seen: impl FnOnce() -> String) -> Result<(), BesideError> {
    if start.elapsed() < PATIENCE {
        Ok(())
    } else {
        Err(BesideError::Overdue { what: what.to_owned(), seen: seen() })
    }
}
