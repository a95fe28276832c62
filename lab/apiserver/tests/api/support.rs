//! A lab in this process and a client for its router: no port, no TLS, no tasks.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use futures::StreamExt as _;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use service_lab_apiserver::http::auth::Token;
use service_lab_apiserver::registry::verbs::Api;
use service_lab_apiserver::server::{LabConfig, Portless};
use tower::ServiceExt as _;

pub struct Client {
    router: Router,
    api: Arc<Api>,
}

pub struct Answer {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {}", self.text))
    }

    #[track_caller]
    pub fn expect(self, code: u16) -> Value {
        assert_eq!(self.code.as_u16(), code, "{}", self.text);
        self.json()
    }
}

pub fn config(range: &str) -> LabConfig {
    LabConfig { service_cidrs: vec![range.parse().unwrap()], ..LabConfig::local() }
}

pub fn client() -> Client {
    client_of(&config("10.96.0.0/16"))
}

pub fn client_of(config: &LabConfig) -> Client {
    let lab = Portless::open(config).unwrap();
    Client { router: lab.trusting(), api: lab.api() }
}

/// A lab that wants this token.
pub fn guarded(token: &str) -> Client {
    let config = LabConfig { token: Some(Token::new(token)), ..config("10.96.0.0/16") };
    let lab = Portless::open(&config).unwrap();
    Client { router: lab.router(), api: lab.api() }
}

impl Client {
    pub fn shared_api(&self) -> Arc<Api> {
        Arc::clone(&self.api)
    }

    /// The store's revision: equal before and after means that nothing was written.
    pub fn revision(&self) -> u64 {
        #[allow(clippy::redundant_closure_for_method_calls)]
        // The method's lifetime is too narrow for `read`.
        self.api.store.read(|view| view.revision())
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { code: parts.status, headers: parts.headers, text }
    }

    pub async fn request(&self, method: &str, path: &str, media: &str, body: &str) -> Answer {
        let request = Request::builder().method(method).uri(path).header("user-agent", "test");
        let request = if media.is_empty() { request } else { request.header("content-type", media) };
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "", "").await
    }

    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send(Request::get(path).header("accept", accept).body(Body::empty()).unwrap()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, "application/json", &body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.request("PUT", path, "application/json", &body.to_string()).await
    }

    pub async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.request("PATCH", path, "application/merge-patch+json", &body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.request("DELETE", path, "", "").await
    }

    pub async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.request("DELETE", path, "application/json", &options.to_string()).await
    }

    /// The first `count` events of a watch.
    pub async fn watch(&self, path: &str, count: usize) -> Vec<Value> {
        let mut watch = self.open_watch(path).await;
        let mut events = Vec::new();
        while events.len() < count {
            events.push(watch.next().await.unwrap());
        }
        events
    }

    pub async fn open_watch(&self, path: &str) -> Watch {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Watch { body: response.into_body(), text: String::new() }
    }
}

pub struct Watch {
    body: Body,
    text: String,
}

impl Watch {
    /// The next event; `None` when the server has ended the watch.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let event = serde_json::from_str(line).unwrap();
                self.text = rest.into();
                return Some(event);
            }
            let mut frames = http_body_util::BodyStream::new(&mut self.body);
            let frame = frames.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }
}

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const SERVICES: &str = "/api/v1/namespaces/default/services";
pub const PODS: &str = "/api/v1/namespaces/default/pods";

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

pub fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
}

pub fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    })
}

pub fn path(collection: &str, name: &str) -> String {
    format!("{collection}/{name}")
}

pub fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}
