//! `lab --demo`: namespace `demo`, a Service of every type, and what kubectl would show of them.
//!
//! With simulated nodes it also runs a Deployment and tells how its pods become endpoints. Everything goes through the
//! API's verbs; a second run on the same data creates nothing twice. Above each table stands the command that shows it.

mod objects;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

use self::objects::{deployment, legacy_slice, services};
use crate::local::{DEPLOYMENTS, GroupResource, Local, NODES, PODS};
use crate::registry::error::ApiError;
use crate::registry::object::meta;
use crate::registry::table::text_table;
use crate::registry::verbs::Api;

const NAMESPACE: &str = "demo";
const NAMESPACES: GroupResource = ("", "namespaces");
const SERVICES: GroupResource = ("", "services");
const SLICES: GroupResource = ("discovery.k8s.io", "endpointslices");
const SERVICE_CIDRS: GroupResource = ("networking.k8s.io", "servicecidrs");
const IP_ADDRESSES: GroupResource = ("networking.k8s.io", "ipaddresses");
/// The label that says who keeps a slice.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
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
        /// GroupResource and name.
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

/// A table of the demo: the command that shows it, and its rows.
struct Shown<'a> {
    command: &'a str,
    name: &'a str,
    kind: GroupResource,
    namespace: Option<&'a str>,
    wide: bool,
}

const SHOWN_SERVICES: Shown<'_> = Shown {
    command: "-n demo get services",
    name: "Service",
    kind: SERVICES,
    namespace: Some(NAMESPACE),
    wide: false,
};
const SHOWN_SLICES: Shown<'_> = Shown {
    command: "-n demo get endpointslices",
    name: "EndpointSlice",
    kind: SLICES,
    namespace: Some(NAMESPACE),
    wide: false,
};
const SHOWN_PODS: Shown<'_> = Shown {
    command: "-n demo get pods -o wide",
    name: "Pod",
    kind: PODS,
    namespace: Some(NAMESPACE),
    wide: true,
};
const SHOWN_CIDRS: Shown<'_> = Shown {
    command: "get servicecidrs",
    name: "ServiceCIDR",
    kind: SERVICE_CIDRS,
    namespace: None,
    wide: false,
};
const SHOWN_ADDRESSES: Shown<'_> =
    Shown { command: "get ipaddresses", name: "IPAddress", kind: IP_ADDRESSES, namespace: None, wide: false };

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
    demo.create(SLICES, "EndpointSlice", NAMESPACE, &legacy_slice(demo.is_ipv6("legacy-api")))?;
    demo.tell_of_services(out)?;
    if access.nodes > 0 {
        let count = access.nodes;
        writeln!(
            out,
            "\nA Deployment runs three pods on {count} simulated nodes (a small stand-in acts on it):\n"
        )?;
        demo.wait(PODS, Some(NAMESPACE), |pods| pods.iter().filter(|pod| is_ready(pod)).count() >= 3).await?;
        demo.show(out, &SHOWN_PODS)?;
        demo.story(out).await?;
    }
    tell_how_to_go_on(out, access)?;
    Ok(out.flush()?)
}

fn tell_how_to_go_on(out: &mut impl Write, access: Access<'_>) -> Result<(), DemoError> {
    let path = access.kubeconfig.display();
    writeln!(
        out,
        "\nThe lab keeps serving until Ctrl-C. In another terminal:\n\n  export KUBECONFIG={path}"
    )?;
    writeln!(out, "  kubectl -n {NAMESPACE} get services,endpointslices")?;
    if access.nodes > 0 {
        writeln!(out, "  kubectl -n {NAMESPACE} scale deployment hello --replicas=5")?;
        writeln!(
            out,
            "  kubectl -n {NAMESPACE} get endpointslices -l kubernetes.io/service-name=hello --watch"
        )?;
    }
    Ok(writeln!(out)?)
}

struct Demo {
    local: Local,
}

impl Demo {
    fn create(
        &self,
        kind: GroupResource,
        name: &str,
        namespace: &str,
        object: &Value,
    ) -> Result<(), DemoError> {
        match self.local.create(kind, namespace, object) {
            Err(reason) if reason.code() != 409 => {
                Err(DemoError::Refused { what: format!("{name} {}", meta(object, "name")), reason })
            }
            _ => Ok(()),
        }
    }

    /// Is the Service of the family IPv6, first of all?
    fn is_ipv6(&self, service: &str) -> bool {
        let service = self.local.get(SERVICES, NAMESPACE, service);
        service.is_some_and(|service| service.pointer("/spec/ipFamilies/0") == Some(&json!("IPv6")))
    }

    fn show(&self, out: &mut impl Write, shown: &Shown<'_>) -> Result<(), DemoError> {
        let objects = self.local.list(shown.kind, shown.namespace);
        writeln!(out, "$ kubectl {}", shown.command)?;
        Ok(out.write_all(text_table(shown.name, &objects, shown.wide, Timestamp::now()).as_bytes())?)
    }

    /// Waits until the demo's objects of a kind are as they should be; false when they do not get so in time.
    async fn wait(
        &self,
        kind: GroupResource,
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

    fn tell_of_services(&self, out: &mut impl Write) -> Result<(), DemoError> {
        writeln!(out, "\nServices of every type, in namespace {NAMESPACE}:\n")?;
        self.show(out, &SHOWN_SERVICES)?;
        writeln!(out, "\nhello-lb is pending: nothing here provides load balancers.")?;
        let balanced = self.local.get(SERVICES, NAMESPACE, "hello-lb");
        if let Some(port) = balanced.as_ref().and_then(|service| service.pointer("/spec/healthCheckNodePort"))
        {
            writeln!(out, "Its externalTrafficPolicy is Local, so it has a health check node port: {port}.")?;
        }
        writeln!(out, "legacy-api has no selector: its EndpointSlice legacy-api-1 was written by hand.")?;
        writeln!(out, "\nThe range their addresses come from, and who has which:\n")?;
        self.show(out, &SHOWN_CIDRS)?;
        writeln!(out)?;
        self.show(out, &SHOWN_ADDRESSES)
    }

    /// Pods become endpoints, one stops being ready, one is deleted and replaced. Told only if somebody keeps slices.
    async fn story(&self, out: &mut (impl Write + Send)) -> Result<(), DemoError> {
        if !self.wait(SLICES, Some(NAMESPACE), |slices| ready_endpoints(slices) >= 3).await? {
            return self.tell_of_missing_endpoints(out);
        }
        writeln!(out, "\nThey became endpoints of the Services that select them:\n")?;
        self.show(out, &SHOWN_SLICES)?;
        let pods = self.local.list(PODS, Some(NAMESPACE));
        let mut ready = pods.iter().filter(|pod| is_ready(pod));
        if let Some(pod) = ready.next() {
            writeln!(out, "\nA pod that is not ready keeps its endpoint, but gets no new connections:\n")?;
            self.tell_of_readiness(out, pod).await?;
        }
        if let Some(pod) = ready.next() {
            writeln!(out, "\nA deleted pod serves on until it ends; another one takes its place:\n")?;
            self.tell_of_deletion(out, pod).await?;
        }
        Ok(())
    }

    /// Why there are no endpoints to tell of.
    fn tell_of_missing_endpoints(&self, out: &mut impl Write) -> Result<(), DemoError> {
        let slices = self.local.list(SLICES, Some(NAMESPACE));
        let kept = slices.iter().any(|slice| {
            slice
                .pointer("/metadata/labels")
                .is_some_and(|labels| labels[MANAGED_BY] == "endpointslice-controller.k8s.io")
        });
        if !kept {
            let text = "No EndpointSlice controller runs here, so the Services have no endpoints.";
            return Ok(writeln!(out, "\n{text}")?);
        }
        let count = ready_endpoints(&slices);
        writeln!(
            out,
            "\nAfter {} s Service hello has {count} ready endpoints, not three:\n",
            PATIENCE.as_secs()
        )?;
        self.show(out, &SHOWN_SLICES)
    }

    async fn tell_of_readiness(&self, out: &mut (impl Write + Send), pod: &Value) -> Result<(), DemoError> {
        let (name, uid) = (meta(pod, "name"), meta(pod, "uid"));
        for (change, value, ready) in [("=true", json!("true"), false), ("-", Value::Null, true)] {
            writeln!(out, "$ kubectl -n {NAMESPACE} annotate pod {name} {NEVER_READY}{change}")?;
            let annotated = self.local.update(PODS, (NAMESPACE, name), |pod| {
                pod["metadata"]["annotations"][NEVER_READY] = value;
            });
            if annotated.is_err() {
                // It is gone meanwhile.
                return Ok(());
            }
            let is =
                |slices: &[Value]| conditions_of(slices, uid).is_some_and(|found| found["ready"] == ready);
            self.show_endpoints_once(out, is).await?;
        }
        Ok(())
    }

    async fn tell_of_deletion(&self, out: &mut (impl Write + Send), pod: &Value) -> Result<(), DemoError> {
        let (name, uid) = (meta(pod, "name"), meta(pod, "uid"));
        writeln!(out, "$ kubectl -n {NAMESPACE} delete pod {name} --wait=false")?;
        // A pod that is gone meanwhile is deleted as well.
        let _ = self.local.delete(PODS, (NAMESPACE, name), None, Some(uid));
        let terminating =
            |slices: &[Value]| conditions_of(slices, uid).is_some_and(|found| found["terminating"] == true);
        self.show_endpoints_once(out, terminating).await?;
        writeln!(out, "\nSeconds later:\n")?;
        let replaced =
            |slices: &[Value]| conditions_of(slices, uid).is_none() && ready_endpoints(slices) >= 3;
        self.show_endpoints_once(out, replaced).await?;
        writeln!(out)?;
        self.show(out, &SHOWN_SLICES)
    }

    /// Waits for the endpoints of Service `hello` to be as they should, and shows them as they are then.
    async fn show_endpoints_once(
        &self,
        out: &mut (impl Write + Send),
        done: impl Fn(&[Value]) -> bool,
    ) -> Result<(), DemoError> {
        let seen = self.wait(SLICES, Some(NAMESPACE), done).await?;
        let slices = self.local.list(SLICES, Some(NAMESPACE));
        let lengths =
            endpoints(&slices).filter_map(|one| one.pointer("/addresses/0")?.as_str().map(str::len));
        let width = lengths.max().unwrap_or_default().max(12);
        for endpoint in endpoints(&slices) {
            let text = |path: &str| endpoint.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let flag = |path: &str| endpoint.pointer(path).and_then(Value::as_bool).unwrap_or_default();
            let (ready, serving) = (flag("/conditions/ready"), flag("/conditions/serving"));
            let terminating = flag("/conditions/terminating");
            let (address, pod) = (text("/addresses/0"), text("/targetRef/name"));
            writeln!(
                out,
                "{address:<width$} ready={ready:<5} serving={serving:<5} terminating={terminating:<5} {pod}"
            )?;
        }
        if !seen {
            writeln!(out, "(The change did not arrive within {} s.)", PATIENCE.as_secs())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn the_demo_shows_every_type_and_can_be_shown_again() {
        let api = testing::api();
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
            "$ kubectl get ipaddresses\n",
            "a health check node port: 3",
            "export KUBECONFIG=/tmp/lab.kubeconfig",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in:\n{text}");
        }
        let local = Local::new(api, "test");
        assert_eq!(local.list(SERVICES, Some(NAMESPACE)).len(), 6);
    }
}
