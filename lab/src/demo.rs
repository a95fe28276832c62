//! `lab --demo`: namespace `demo`, a Service of every type, and what kubectl would show of them.
//!
//! With simulated nodes it also runs a Deployment and tells how its pods become endpoints. Everything goes through the
//! API's verbs; a second run on the same data creates nothing twice.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

use crate::local::{DEPLOYMENTS, Kind, Local, NODES, PODS};
use crate::registry::error::ApiError;
use crate::registry::object::meta;
use crate::registry::table::text_table;
use crate::registry::verbs::Api;

const NAMESPACE: &str = "demo";
const NAMESPACES: Kind = ("", "namespaces");
const SERVICES: Kind = ("", "services");
const SLICES: Kind = ("discovery.k8s.io", "endpointslices");
const SERVICE_CIDRS: Kind = ("networking.k8s.io", "servicecidrs");
const IP_ADDRESSES: Kind = ("networking.k8s.io", "ipaddresses");
/// The annotation that keeps a simulated pod from being ready.
const NEVER_READY: &str = "lab.service-controller-manager.io/never-ready";
/// How long the demo waits for pods or endpoints before it goes on without.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why there is no demo.
#[derive(Debug, Error)]
pub enum DemoError {
    /// The lab refused an object.
    #[error("create {what}: {reason}")]
    Refused {
        /// Kind and name.
        what: String,
        /// Its answer.
        reason: ApiError,
    },
    /// The text could not be printed.
    #[error("print the demo: {0}")]
    Output(#[from] io::Error),
}

/// Where the demo runs and how kubectl finds it.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The kubeconfig that the lab wrote.
    pub kubeconfig: &'a Path,
    /// How many simulated nodes there will be; the demo waits for them.
    pub nodes: usize,
}

/// Creates the demo's objects and prints what there is.
///
/// # Errors
/// When an object is refused (one that exists is not) or the output is closed.
pub async fn run(api: &Arc<Api>, access: Access<'_>, out: &mut (impl Write + Send)) -> Result<(), DemoError> {
    let demo = Demo { local: Local::new(Arc::clone(api), "lab-demo") };
    demo.create(NAMESPACES, "Namespace", "", &json!({"metadata": {"name": NAMESPACE}}))?;
    if access.nodes > 0 {
        demo.wait(NODES, None, |nodes| nodes.len() >= access.nodes).await?;
        demo.create(DEPLOYMENTS, "Deployment", NAMESPACE, &deployment())?;
    }
    for service in services() {
        demo.create(SERVICES, "Service", NAMESPACE, &service)?;
    }
    demo.create(SLICES, "EndpointSlice", NAMESPACE, &legacy_slice())?;
    writeln!(out, "Services of every type, in namespace {NAMESPACE}:\n")?;
    demo.show(out, "Service", SERVICES, Some(NAMESPACE))?;
    writeln!(out, "\nThe range their addresses come from, and who has which:\n")?;
    demo.show(out, "ServiceCIDR", SERVICE_CIDRS, None)?;
    writeln!(out)?;
    demo.show(out, "IPAddress", IP_ADDRESSES, None)?;
    if access.nodes > 0 {
        let count = access.nodes;
        writeln!(out, "\n{count} simulated nodes run a Deployment (a small stand-in acts on it):\n")?;
        demo.wait(PODS, Some(NAMESPACE), |pods| pods.iter().filter(|pod| is_ready(pod)).count() >= 3).await?;
        demo.show(out, "Pod", PODS, Some(NAMESPACE))?;
        demo.story(out).await?;
    }
    let path = access.kubeconfig.display();
    writeln!(out, "\nPoint kubectl at it, and end it with Ctrl-C:\n\n  export KUBECONFIG={path}")?;
    writeln!(out, "  kubectl -n {NAMESPACE} get services,endpointslices\n")?;
    Ok(out.flush()?)
}

struct Demo {
    local: Local,
}

impl Demo {
    fn create(&self, kind: Kind, name: &str, namespace: &str, object: &Value) -> Result<(), DemoError> {
        match self.local.create(kind, namespace, object) {
            Err(reason) if reason.code() != 409 => {
                Err(DemoError::Refused { what: format!("{name} {}", meta(object, "name")), reason })
            }
            _ => Ok(()),
        }
    }

    fn show(
        &self,
        out: &mut impl Write,
        name: &str,
        kind: Kind,
        namespace: Option<&str>,
    ) -> Result<(), DemoError> {
        let text = text_table(name, &self.local.list(kind, namespace), false, Timestamp::now());
        Ok(out.write_all(text.as_bytes())?)
    }

    /// Waits until the demo's objects of a kind are as they should be; false when they do not get so in time.
    async fn wait(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        done: impl Fn(&[Value]) -> bool,
    ) -> Result<bool, DemoError> {
        let wait = async {
            loop {
                let (_, mut watch) = self.local.list_and_watch(kind)?;
                if done(&self.local.list(kind, namespace)) {
                    return Ok(true);
                }
                // A watch that fell behind is opened anew like any other.
                let _ = watch.next_batch().await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(done) => {
                done.map_err(|reason| DemoError::Refused { what: format!("a watch of {}", kind.1), reason })
            }
            Err(_) => Ok(false),
        }
    }

    /// Pods become endpoints, one stops being ready, one is deleted and replaced. Told only if somebody keeps slices.
    async fn story(&self, out: &mut (impl Write + Send)) -> Result<(), DemoError> {
        if !self.wait(SLICES, Some(NAMESPACE), |slices| ready_endpoints(slices) >= 3).await? {
            writeln!(out, "\nNo EndpointSlice controller runs here, so the Services have no endpoints.")?;
            return Ok(());
        }
        writeln!(out, "\nThey became endpoints of the Services that select them:\n")?;
        self.show(out, "EndpointSlice", SLICES, Some(NAMESPACE))?;
        let pods = self.local.list(PODS, Some(NAMESPACE));
        let mut ready = pods.iter().filter(|pod| is_ready(pod));
        if let Some(pod) = ready.next() {
            self.tell_of_readiness(out, pod).await?;
        }
        if let Some(pod) = ready.next() {
            self.tell_of_deletion(out, pod).await?;
        }
        Ok(())
    }

    async fn tell_of_readiness(&self, out: &mut (impl Write + Send), pod: &Value) -> Result<(), DemoError> {
        let (name, uid) = (meta(pod, "name"), meta(pod, "uid"));
        writeln!(out, "\n$ kubectl -n {NAMESPACE} annotate pod {name} {NEVER_READY}=true")?;
        for (value, ready) in [(json!("true"), false), (Value::Null, true)] {
            // A pod that is gone meanwhile has no story.
            let annotated = self.local.update(PODS, (NAMESPACE, name), |pod| {
                pod["metadata"]["annotations"][NEVER_READY] = value;
            });
            if annotated.is_err() {
                return Ok(());
            }
            let is =
                |slices: &[Value]| conditions_of(slices, uid).is_some_and(|found| found["ready"] == ready);
            if self.wait(SLICES, Some(NAMESPACE), is).await? {
                self.show_conditions(out, uid, if ready { "Without the annotation its" } else { "Its" })?;
            }
        }
        Ok(())
    }

    async fn tell_of_deletion(&self, out: &mut (impl Write + Send), pod: &Value) -> Result<(), DemoError> {
        let (name, uid) = (meta(pod, "name"), meta(pod, "uid"));
        writeln!(out, "\n$ kubectl -n {NAMESPACE} delete pod {name} --wait=false")?;
        // A pod that is gone meanwhile is deleted as well.
        let _ = self.local.delete(PODS, (NAMESPACE, name), None, Some(uid));
        let terminating =
            |slices: &[Value]| conditions_of(slices, uid).is_some_and(|found| found["terminating"] == true);
        if self.wait(SLICES, Some(NAMESPACE), terminating).await? {
            self.show_conditions(out, uid, "Its")?;
        }
        let replaced =
            |slices: &[Value]| conditions_of(slices, uid).is_none() && ready_endpoints(slices) >= 3;
        if self.wait(SLICES, Some(NAMESPACE), replaced).await? {
            writeln!(out, "Seconds later it is gone and another pod stands in its place:\n")?;
            self.show(out, "EndpointSlice", SLICES, Some(NAMESPACE))?;
        }
        Ok(())
    }

    fn show_conditions(&self, out: &mut impl Write, uid: &str, whose: &str) -> Result<(), DemoError> {
        let slices = self.local.list(SLICES, Some(NAMESPACE));
        if let Some(conditions) = conditions_of(&slices, uid) {
            let flag = |field: &str| conditions[field].as_bool().unwrap_or_default();
            let (ready, serving, terminating) = (flag("ready"), flag("serving"), flag("terminating"));
            writeln!(out, "{whose} endpoint is ready={ready} serving={serving} terminating={terminating}.")?;
        }
        Ok(())
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    meta(pod, "deletionTimestamp").is_empty()
        && conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Ready endpoints of Service `hello`.
fn ready_endpoints(slices: &[Value]) -> usize {
    endpoints(slices).filter(|endpoint| endpoint.pointer("/conditions/ready") == Some(&json!(true))).count()
}

fn endpoints(slices: &[Value]) -> impl Iterator<Item = &Value> {
    slices
        .iter()
        .filter(|slice| {
            slice.pointer("/metadata/labels").is_some_and(|l| l["kubernetes.io/service-name"] == "hello")
        })
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten())
}

fn conditions_of<'a>(slices: &'a [Value], uid: &str) -> Option<&'a Value> {
    endpoints(slices)
        .find(|endpoint| endpoint.pointer("/targetRef/uid").is_some_and(|own| own == uid))?
        .get("conditions")
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": "hello", "app.kubernetes.io/instance": "hello"})
}

fn deployment() -> Value {
    json!({
        "metadata": {"name": "hello", "labels": labels()},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": labels()},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {"containers": [{
                    "name": "hello", "image": "registry.test/hello:1", "ports": [{"name": "http", "containerPort": 8080}],
                }]},
            },
        },
    })
}

fn services() -> [Value; 6] {
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]);
    let plain = json!([{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]);
    let service =
        |name: &str, spec: Value| json!({"metadata": {"name": name, "labels": labels()}, "spec": spec});
    [
        service("hello", json!({"selector": labels(), "ports": ports})),
        service(
            "hello-np",
            json!({"type": "NodePort", "selector": labels(), "ports": [
                {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP", "nodePort": 30080}
            ]}),
        ),
        service(
            "hello-lb",
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "selector": labels(), "ports": ports}),
        ),
        service("hello-headless", json!({"clusterIP": "None", "selector": labels(), "ports": ports})),
        json!({"metadata": {"name": "registry"}, "spec": {"type": "ExternalName", "externalName": "ghcr.io"}}),
        json!({"metadata": {"name": "legacy-api"}, "spec": {"ports": plain}}),
    ]
}

/// The endpoints of the Service without a selector, kept by hand.
fn legacy_slice() -> Value {
    json!({
        "metadata": {"name": "legacy-api-1", "labels": {
            "kubernetes.io/service-name": "legacy-api", "endpointslice.kubernetes.io/managed-by": "demo.example.com",
        }},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["192.168.10.40"], "conditions": {"ready": true}},
            {"addresses": ["192.168.10.41"], "conditions": {"ready": true}},
        ],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::testing::lab;

    #[tokio::test]
    async fn the_demo_shows_every_type_and_can_be_shown_again() {
        let api = Arc::new(lab(&["10.96.0.0/12"]).into_api());
        let access = Access { kubeconfig: Path::new("/tmp/lab.kubeconfig"), nodes: 0 };
        let mut shown = Vec::new();
        for _ in 0..2 {
            shown.clear();
            run(&api, access, &mut shown).await.unwrap();
        }
        let text = String::from_utf8(shown).unwrap();
        for wanted in [
            "NodePort",
            "80:30080/TCP",
            "<pending>",
            "None",
            "ghcr.io",
            "services/demo/hello",
            "10.96.0.0/12",
            "export KUBECONFIG=/tmp/lab.kubeconfig",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in:\n{text}");
        }
        let local = Local::new(api, "test");
        assert_eq!(local.list(SERVICES, Some(NAMESPACE)).len(), 6);
    }
}
