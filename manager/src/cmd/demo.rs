//! `lab --demo`: Services of every type, shown the way kubectl shows them.

use std::path::Path;

use http::{Request, header};
use kube::Client;
use serde_json::{Value, json};
use service_lab::server::Bound;
use tower::ServiceExt as _;

use super::table::Table;

const NAMESPACE: &str = "demo";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const SERVICES: &str = "/api/v1/namespaces/demo/services";
/// What the demo shows: what a person would type, and the path that kubectl asks for.
const SHOWN: [(&str, &str); 3] = [
    ("kubectl -n demo get services", SERVICES),
    ("kubectl get servicecidrs", "/apis/networking.k8s.io/v1/servicecidrs"),
    ("kubectl get ipaddresses", "/apis/networking.k8s.io/v1/ipaddresses"),
];

/// An object that cannot be created or shown.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The server refuses a request.
    #[error("{what}: {source}")]
    Request {
        /// What was asked for.
        what: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// A request cannot be built.
    #[error(transparent)]
    Build(#[from] http::Error),
}

/// A client that goes straight into the server, without a port and without TLS.
pub(super) fn client(bound: &Bound) -> Client {
    let bearer = header::HeaderValue::from_str(&format!("Bearer {}", bound.token().reveal()));
    let service = bound.router().map_request(move |mut request: Request<kube::client::Body>| {
        if let Ok(bearer) = &bearer {
            request.headers_mut().insert(header::AUTHORIZATION, bearer.clone());
        }
        request
    });
    Client::new(service, "default")
}

/// Creates the demo's objects and shows them.
pub(super) async fn run(client: &Client, kubeconfig: &Path) -> Result<(), DemoError> {
    create(
        client,
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    )
    .await?;
    for (name, spec) in services() {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
        create(client, SERVICES, &service).await?;
    }
    for (command, path) in SHOWN {
        println!("\n$ {command}\n{}", table(client, path).await?);
    }
    println!("Look for yourself: export KUBECONFIG={}", kubeconfig.display());
    Ok(())
}

/// One Service of each kind.
fn services() -> [(&'static str, Value); 7] {
    let http = json!({"name": "http", "port": 80, "targetPort": "http"});
    let selector = json!({"app": "hello"});
    [
        ("hello", json!({"selector": selector, "ports": [http]})),
        (
            "hello-np",
            json!({"type": "NodePort", "selector": selector, "ports": [{"name": "http", "port": 80, "nodePort": 30080}]}),
        ),
        (
            "hello-lb",
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "selector": selector, "ports": [http]}),
        ),
        ("hello-headless", json!({"clusterIP": "None", "selector": selector, "ports": [http]})),
        ("registry", json!({"type": "ExternalName", "externalName": "registry.example.com"})),
        ("legacy-api", json!({"ports": [{"name": "http", "port": 80, "targetPort": 8080}]})),
        (
            "hello-udp",
            json!({"selector": selector, "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}),
        ),
    ]
}

/// Creates an object; one that is there already, from an earlier run on the same data, is fine.
async fn create(client: &Client, path: &str, object: &Value) -> Result<(), DemoError> {
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())?;
    match client.request::<Value>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(source) => {
            let what = format!(
                "create {} {}",
                object["kind"].as_str().unwrap_or_default(),
                object["metadata"]["name"]
            );
            Err(DemoError::Request { what, source: Box::new(source) })
        }
    }
}

async fn table(client: &Client, path: &str) -> Result<String, DemoError> {
    let request = Request::get(path).header(header::ACCEPT, TABLE).body(Vec::new())?;
    let table: Table = client
        .request(request)
        .await
        .map_err(|source| DemoError::Request { what: format!("get {path}"), source: Box::new(source) })?;
    Ok(table.render())
}
