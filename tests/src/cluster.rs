//! A lab to write tests against: started by the product's binary, with short ways to create, change and look.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    case::{ServerOptions, field},
    http::{Client, HttpError},
    launch::{LaunchError, Launcher, Server},
    ledger,
};

/// Services of the namespace `default`.
pub const SERVICES: &str = "/api/v1/namespaces/default/services";
/// IPAddresses.
pub const IP_ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
/// ServiceCIDRs.
pub const SERVICE_CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

/// A running lab.
#[derive(Debug)]
pub struct Lab {
    /// The process.
    pub server: Server,
    /// A client with all rights.
    pub client: Client,
    binary: PathBuf,
    options: ServerOptions,
    more: Vec<String>,
    data: Option<TempDir>,
}

impl Lab {
    /// Starts a lab without controllers, in memory.
    pub async fn start(binary: &str, cidrs: &[&str], node_ports: &str) -> Result<Self, LaunchError> {
        Self::start_with(binary, cidrs, node_ports, &["--controllers", "none"]).await
    }

    /// Starts a lab with more arguments.
    pub async fn start_with(
        binary: &str,
        cidrs: &[&str],
        node_ports: &str,
        more: &[&str],
    ) -> Result<Self, LaunchError> {
        let options = ServerOptions {
            service_cidrs: cidrs.iter().map(ToString::to_string).collect(),
            node_port_range: node_ports.to_owned(),
        };
        let server = Launcher::Binary(binary.into()).start(&options, more).await?;
        let client = Client::new(server.target.clone());
        let more = more.iter().map(ToString::to_string).collect();
        Ok(Self { server, client, binary: binary.into(), options, more, data: None })
    }

    /// Starts a lab without controllers that keeps its objects on disk.
    pub async fn start_on_disk(binary: &str, cidrs: &[&str], node_ports: &str) -> Result<Self, LaunchError> {
        let data = tempfile::tempdir()?;
        let directory = data.path().to_string_lossy().into_owned();
        let more = ["--controllers", "none", "--data-dir", &directory];
        Ok(Self { data: Some(data), ..Self::start_with(binary, cidrs, node_ports, &more).await? })
    }

    /// Where it keeps its objects.
    pub fn data_dir(&self) -> Option<&Path> {
        self.data.as_ref().map(TempDir::path)
    }

    /// Ends it in order and starts it again with the same arguments.
    pub async fn restart(self) -> Result<Self, LaunchError> {
        let Self { server, binary, options, more, data, .. } = self;
        server.stop().await?;
        let arguments: Vec<&str> = more.iter().map(String::as_str).collect();
        let server = Launcher::Binary(binary.clone()).start(&options, &arguments).await?;
        let client = Client::new(server.target.clone());
        Ok(Self { server, client, binary, options, more, data })
    }

    /// Ends it in order.
    pub async fn stop(self) -> Result<(), LaunchError> {
        self.server.stop().await
    }

    /// Creates a Service in `default`.
    pub async fn create(&self, name: &str, spec: &Value) -> Result<(u16, Value), HttpError> {
        self.client.call("POST", SERVICES, &service(name, spec)).await
    }

    /// Gets a Service of `default`.
    pub async fn service(&self, name: &str) -> Result<(u16, Value), HttpError> {
        self.client.get(&format!("{SERVICES}/{name}")).await
    }

    /// Deletes a Service of `default`.
    pub async fn delete(&self, name: &str) -> Result<(u16, Value), HttpError> {
        self.client.call("DELETE", &format!("{SERVICES}/{name}"), &Value::Null).await
    }

    /// Merges a patch into a Service of `default`.
    pub async fn patch(&self, name: &str, patch: &Value) -> Result<(u16, Value), HttpError> {
        self.client.call("PATCH", &format!("{SERVICES}/{name}"), patch).await
    }

    /// The items of a list.
    pub async fn items(&self, path: &str) -> Result<Vec<Value>, HttpError> {
        let (_, list) = self.client.get(path).await?;
        Ok(field(&list, "items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Whether there is an IPAddress of this name.
    pub async fn has_address(&self, name: &str) -> Result<bool, HttpError> {
        Ok(self.client.get(&format!("{IP_ADDRESSES}/{name}")).await?.0 == 200)
    }

    /// What is wrong with all Services and IPAddresses together.
    pub async fn complaints(&self) -> Result<Vec<String>, HttpError> {
        let (services, addresses) = (self.items("/api/v1/services").await?, self.items(IP_ADDRESSES).await?);
        Ok(ledger::complaints(&services, &addresses))
    }
}

/// A Service of `default`.
pub fn service(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}
