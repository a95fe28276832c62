//! Whole requests to a server in this process, so that what comes after decoding is tried as well.

use std::cell::LazyCell;

use axum::Router;
use axum::body::Body;
use futures::StreamExt as _;
use http::{Request, Uri};
use http_body_util::BodyDataStream;
use serde_json::json;
use service_lab_apiserver::server::{LabConfig, Portless};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use crate::targets::live;

/// No answer is longer than this: the server holds a handful of objects.
const LONGEST: usize = 1 << 20;

struct Server {
    router: Router,
    runtime: Runtime,
}

thread_local! {
    static SERVER: LazyCell<Server> = const { LazyCell::new(start) };
}

fn start() -> Server {
    let lab = Portless::open(&LabConfig {
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..LabConfig::local()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server { router: lab.unwrap().trusting(), runtime };
    for name in ["a", "b", "c"] {
        let body = json!({"metadata": {"name": name, "labels": {"a0": "b"}}}).to_string();
        server.ask(
            "POST",
            "/api/v1/namespaces/default/configmaps",
            &[("content-type", "application/json")],
            body.as_bytes(),
        );
    }
    let mut service = live();
    service["metadata"].as_object_mut().unwrap().remove("managedFields");
    let body = service.to_string();
    server.ask(
        "POST",
        "/api/v1/namespaces/default/services",
        &[("content-type", "application/json")],
        body.as_bytes(),
    );
    server
}

impl Server {
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        // What no request line can have never comes to a server.
        let Ok(uri) = path.parse::<Uri>() else { return };
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let Ok(request) = request.body(Body::from(body.to_vec())) else { return };
        self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            let code = response.status();
            let mut frames = BodyDataStream::new(response.into_body());
            let mut answer = Vec::new();
            // A watch has no end: what there is at once is enough.
            while let Some(frame) = futures::FutureExt::now_or_never(frames.next()).flatten() {
                answer.extend(frame.unwrap());
            }
            assert!(answer.len() < LONGEST, "an answer of {} bytes", answer.len());
            // Upstream's code for that one mistake.
            let told = String::from_utf8_lossy(&answer).contains("resourceVersion: Invalid value");
            assert!(code.as_u16() != 500 || told, "{method} {path}: {}", String::from_utf8_lossy(&answer));
        });
    }
}

fn ask(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
    SERVER.with(|server| server.ask(method, path, headers, body));
}

const JSON: (&str, &str) = ("content-type", "application/json");

/// Collections, each with a name and a version in which a body is posted to it.
const COLLECTIONS: [&str; 8] = [
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/endpoints",
    "/api/v1/nodes",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/networking.k8s.io/v1/servicecidrs",
];

pub(crate) fn list(query: &[u8]) {
    let query = String::from_utf8_lossy(query);
    for path in
        ["/api/v1/namespaces/default/configmaps", "/api/v1/pods", "/api/v1/namespaces/default/configmaps/a"]
    {
        ask("GET", &format!("{path}?{query}"), &[], b"");
    }
}

pub(crate) fn accept(header: &[u8]) {
    let text = String::from_utf8_lossy(header);
    for path in [
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
        "/apis",
        "/version",
        "/openapi/v2",
    ] {
        ask("GET", path, &[("accept", &text)], b"");
    }
}

pub(crate) fn create(body: &[u8]) {
    for path in COLLECTIONS {
        ask("POST", &format!("{path}?dryRun=All"), &[JSON], body);
    }
    ask("POST", "/api/v1/namespaces/default/pods/p/eviction?dryRun=All", &[JSON], body);
    ask("POST", "/api/v1/namespaces/default/pods/p/binding?dryRun=All", &[JSON], body);
    ask("PUT", "/api/v1/namespaces/default/services/a?dryRun=All", &[JSON], body);
    ask("PUT", "/api/v1/namespaces/default/services/a/status?dryRun=All", &[JSON], body);
}

pub(crate) fn create_yaml(body: &[u8]) {
    ask(
        "POST",
        "/api/v1/namespaces/default/services?dryRun=All",
        &[("content-type", "application/yaml")],
        body,
    );
    let apply = ("content-type", "application/apply-patch+yaml");
    ask("PATCH", "/api/v1/namespaces/default/services/a?dryRun=All&fieldManager=f", &[apply], body);
}

pub(crate) fn change(body: &[u8]) {
    for media in [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ] {
        ask("PATCH", "/api/v1/namespaces/default/services/a?dryRun=All", &[("content-type", media)], body);
    }
}

pub(crate) fn review(body: &[u8]) {
    for path in [
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
    ] {
        ask("POST", path, &[JSON], body);
    }
}

pub(crate) fn delete(body: &[u8]) {
    ask("DELETE", "/api/v1/namespaces/default/configmaps/a?dryRun=All", &[JSON], body);
    ask(
        "DELETE",
        "/api/v1/namespaces/default/configmaps/missing",
        &[("content-type", "application/yaml")],
        body,
    );
    ask(
        "DELETE",
        "/api/v1/namespaces/other/configmaps",
        &[("content-type", "application/vnd.kubernetes.protobuf")],
        body,
    );
}
