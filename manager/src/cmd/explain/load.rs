//! What an explanation needs to know, from a server or from files.
//!
//! Owns which requests are made: one for each kind, in the namespace where that is enough.

use std::path::PathBuf;

use futures::future::try_join_all;
use kube::Client;
use parking_lot::Mutex;
use service_controllers::explain::{Kind, Snapshot, Subject};

use crate::objects::dump::{self, DumpError};
use crate::objects::live::{FetchError, Fetched, Want, fetch};
use crate::progress::Progress;

/// So many pods of other namespaces are looked at.
const ELSEWHERE: usize = 200;
/// Among so many names is looked for a near one.
const NAMES: usize = 5000;

/// The objects of files.
pub(super) fn from_files(subject: Subject, files: &[PathBuf]) -> Result<Snapshot, DumpError> {
    let mut snapshot = Snapshot::new(subject);
    let mut sink = |item: crate::objects::Item<'_>| match Kind::named(item.group, item.kind) {
        Some(kind) => snapshot.add(kind, item.json),
        None => Ok(()),
    };
    dump::read(files, &mut sink)?;
    for kind in Kind::ALL.into_iter().filter(|kind| wanted(snapshot.subject(), *kind)).collect::<Vec<_>>() {
        if !snapshot.knows(kind) {
            snapshot.miss(kind, format!("the dump has no {}", kind.resource()));
        }
    }
    snapshot.settle();
    Ok(snapshot)
}

/// Whether objects of a kind say anything about what is asked.
fn wanted(subject: &Subject, kind: Kind) -> bool {
    match subject {
        Subject::Service { .. } | Subject::Selected { kind: Kind::Service, .. } => true,
        Subject::Pod { .. } | Subject::Slice { .. } | Subject::Selected { .. } => matches!(
            kind,
            Kind::Service | Kind::Pod | Kind::Node | Kind::EndpointSlice | Kind::Endpoints | Kind::Event
        ),
        Subject::Address(_) => matches!(
            kind,
            Kind::Service | Kind::Pod | Kind::IpAddress | Kind::ServiceCidr | Kind::ServicePool
        ),
        Subject::NodePort(_) => {
            matches!(kind, Kind::Service | Kind::NodePort | Kind::NodePortRange | Kind::ServicePool)
        }
        Subject::Cidr(_) => matches!(kind, Kind::Service | Kind::IpAddress | Kind::ServiceCidr | Kind::Event),
        Subject::All => kind != Kind::Event,
    }
}

/// The objects of a server.
pub(super) async fn from_server(client: &Client, subject: Subject) -> Result<Snapshot, FetchError> {
    let first = requests(&subject);
    let snapshot = Mutex::new(Snapshot::of_server(subject));
    let asker = Asker { client, snapshot: &snapshot, progress: Progress::new("objects listed") };
    asker.ask(first).await?;
    let (second, elsewhere) = more(&snapshot.lock());
    asker.ask(second).await?;
    // What is not allowed here is not needed: it is about a mistake that may have been made.
    for want in elsewhere {
        asker.ask_quietly(&want).await?;
    }
    drop(asker);
    let mut snapshot = snapshot.into_inner();
    snapshot.settle();
    Ok(snapshot)
}

/// Asks a server, and puts what it answers into a snapshot.
struct Asker<'a> {
    client: &'a Client,
    snapshot: &'a Mutex<Snapshot>,
    progress: Progress,
}

impl Asker<'_> {
    async fn ask(&self, wants: Vec<Want>) -> Result<(), FetchError> {
        let asked = wants.iter().map(|want| async move {
            let fetched = self.ask_quietly(want).await?;
            let mut snapshot = self.snapshot.lock();
            match fetched {
                Fetched::Whole => snapshot.know(want.kind),
                Fetched::NotFound if want.is_one() => snapshot.know(want.kind),
                Fetched::NotFound => snapshot.miss(want.kind, "the server does not have this kind"),
                Fetched::Refused(why) => snapshot.miss(want.kind, why),
            }
            Ok(())
        });
        try_join_all(asked).await.map(|_| ())
    }

    async fn ask_quietly(&self, want: &Want) -> Result<Fetched, FetchError> {
        let mut sink = |item: crate::objects::Item<'_>| {
            self.progress.add(1);
            self.snapshot.lock().add(want.kind, item.json)
        };
        fetch(self.client, want, &mut sink).await
    }
}

/// What is asked for first, all at once.
fn requests(subject: &Subject) -> Vec<Want> {
    let named = |kind: &str, name: &str| format!("involvedObject.kind={kind},involvedObject.name={name}");
    let ranges = || [Kind::ServiceCidr, Kind::ServicePool].map(|kind| Want::all(kind, None));
    match subject {
        Subject::Service { namespace, name } => {
            let here = Some(namespace.as_str());
            let label = format!("{}={name}", service_controllers::keys::SERVICE_NAME);
            let mut wants = vec![
                Want::one(Kind::Service, here, name),
                Want::all(Kind::Pod, here),
                Want::all(Kind::EndpointSlice, here).selected("labelSelector", &label),
                Want::one(Kind::Endpoints, here, name),
                Want::all(Kind::Node, None),
                Want::all(Kind::Event, here)
                    .selected("fieldSelector", &format!("involvedObject.name={name}")),
                Want::all(Kind::NodePortRange, None),
            ];
            wants.extend(ranges());
            wants
        }
        Subject::Selected { kind: Kind::Service, namespace, .. } => {
            let here = Some(namespace.as_str());
            let of_namespace = [Kind::Service, Kind::Pod, Kind::EndpointSlice, Kind::Endpoints, Kind::Event];
            let mut wants: Vec<Want> = of_namespace.map(|kind| Want::all(kind, here)).into();
            let of_cluster = [Kind::Node, Kind::NodePortRange, Kind::IpAddress, Kind::NodePort];
            wants.extend(of_cluster.map(|kind| Want::all(kind, None)));
            wants.extend(ranges());
            wants
        }
        Subject::Selected { namespace, .. } => {
            let of_namespace = [Kind::Service, Kind::Pod, Kind::EndpointSlice, Kind::Event];
            let mut wants: Vec<Want> = of_namespace.map(|kind| Want::all(kind, Some(namespace))).into();
            wants.push(Want::all(Kind::Node, None));
            wants
        }
        Subject::Pod { namespace, name } => {
            let here = Some(namespace.as_str());
            vec![
                Want::all(Kind::Service, here),
                Want::all(Kind::Pod, here),
                Want::all(Kind::EndpointSlice, here),
                Want::all(Kind::Node, None),
                Want::all(Kind::Event, here).selected("fieldSelector", &named("Pod", name)),
            ]
        }
        Subject::Slice { namespace, name } => {
            let here = Some(namespace.as_str());
            vec![
                Want::all(Kind::Service, here),
                Want::all(Kind::Pod, here),
                Want::all(Kind::EndpointSlice, here),
                Want::all(Kind::Endpoints, here),
                Want::all(Kind::Node, None),
                Want::all(Kind::Event, here).selected("fieldSelector", &named("EndpointSlice", name)),
            ]
        }
        Subject::Address(ip) => {
            let mut wants = vec![
                Want::one(Kind::IpAddress, None, &ip.to_string()),
                Want::all(Kind::Service, None),
                Want::all(Kind::Pod, None).selected("fieldSelector", &format!("status.podIP={ip}")),
                Want::all(Kind::Node, None),
            ];
            wants.extend(ranges());
            wants
        }
        Subject::NodePort(_) => [Kind::Service, Kind::NodePort, Kind::NodePortRange, Kind::ServicePool]
            .map(|kind| Want::all(kind, None))
            .into(),
        Subject::Cidr(name) => vec![
            Want::all(Kind::ServiceCidr, None),
            Want::all(Kind::IpAddress, None),
            Want::all(Kind::Service, None),
            Want::all(Kind::Event, None).selected("fieldSelector", &named("ServiceCIDR", name)),
        ],
        Subject::All => Kind::ALL
            .into_iter()
            .filter(|kind| *kind != Kind::Event)
            .map(|kind| Want::all(kind, None))
            .collect(),
    }
}

/// What is asked for when that is known: the objects that hold the Service's values; and where its selector or its name
/// might have been meant.
fn more(snapshot: &Snapshot) -> (Vec<Want>, Vec<Want>) {
    let Subject::Service { namespace, name } = snapshot.subject() else { return (Vec::new(), Vec::new()) };
    if snapshot.index.service(namespace, name).is_none() {
        let names = Want::all(Kind::Service, Some(namespace)).names(NAMES);
        return (Vec::new(), vec![names]);
    }
    let (addresses, ports) = snapshot.values_of(namespace, name);
    let mut wants: Vec<Want> =
        addresses.iter().map(|ip| Want::one(Kind::IpAddress, None, &ip.to_string())).collect();
    wants.extend(ports.iter().map(|port| Want::one(Kind::NodePort, None, &port.to_string())));
    let selector = snapshot.selector_of(namespace, name);
    let lost = snapshot.index.pods_of(namespace, name) == 0;
    let elsewhere = selector
        .filter(|_| lost)
        .map(|selector| Want::all(Kind::Pod, None).selected("labelSelector", &selector).names(ELSEWHERE));
    (wants, elsewhere.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use service_controllers::explain::{Question, service};
    use tower::service_fn;

    use super::*;

    type Asked = Arc<Mutex<Vec<String>>>;

    /// A server with one Service and two pods, that does not let nodes be read and does not have our own kinds.
    fn answer(path: &str) -> (u16, Value) {
        let pod = |name: &str, tier: &str| {
            json!({"metadata": {"name": name, "namespace": "demo", "labels": {"app": "web", "tier": tier}},
                "spec": {"nodeName": "n1"}, "status": {"podIPs": [{"ip": "10.1.0.1"}], "conditions": [{"type": "Ready", "status": "True"}]}})
        };
        let list = |kind: &str, items: Value| json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": items});
        match path {
            "/api/v1/namespaces/demo/services/web" => (
                200,
                json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "demo"}, "spec": {
                    "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
                    "selector": {"app": "web", "tier": "x"}, "ports": [{"port": 80}]}}),
            ),
            "/api/v1/namespaces/demo/services" => {
                (200, list("ServiceList", json!([{"metadata": {"name": "web", "namespace": "demo"}}])))
            }
            "/api/v1/namespaces/demo/pods" => (200, list("PodList", json!([pod("a", "x"), pod("b", "y")]))),
            "/api/v1/nodes" => (403, json!({"kind": "Status", "message": "nodes is forbidden"})),
            path if path.contains("service-control-plane.io") || path.contains("/services/") => {
                (404, json!({"kind": "Status", "message": "not found"}))
            }
            _ => (200, list("List", json!([]))),
        }
    }

    fn client(asked: &Asked) -> Client {
        let asked = Arc::clone(asked);
        let server = service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let (code, body) = answer(&path);
            asked.lock().push(path);
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { response }
        });
        Client::new(server, "default")
    }

    fn subject(name: &str) -> Subject {
        Subject::Service { namespace: "demo".into(), name: name.into() }
    }

    #[tokio::test]
    async fn each_kind_is_asked_for_once_and_what_is_refused_is_named() {
        let asked = Asked::default();
        let snapshot = from_server(&client(&asked), subject("web")).await.unwrap();
        let found = service(&snapshot, "demo", "web", &Question::default()).unwrap();
        let pods: Vec<(&str, String)> =
            found.pods.iter().map(|pod| (pod.name.as_str(), pod.reason.to_string())).collect();
        assert_eq!(pods, [("a", "Ready".to_owned())]);
        assert_eq!(found.near_misses[0].pods.first, ["b"]);
        let unknown: Vec<(&str, &str)> = found.unknown.iter().map(|u| (u.kind, u.why.as_str())).collect();
        assert!(unknown.contains(&("Node", "nodes is forbidden")), "{unknown:?}");
        assert!(unknown.contains(&("ServicePool", "the server does not have this kind")), "{unknown:?}");
        let mut asked = asked.lock().clone();
        let all = asked.len();
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), all, "{asked:?}");
        assert!(asked.contains(&"/apis/networking.k8s.io/v1/ipaddresses/10.96.0.9".to_owned()));
        assert!(!asked.iter().any(|path| path == "/api/v1/pods"), "{asked:?}");
    }

    #[tokio::test]
    async fn of_all_that_labels_select_each_kind_is_asked_for_once() {
        for kind in [Kind::Service, Kind::Pod] {
            let asked = Asked::default();
            let selector = service_api::labels::Selector::parse("app=web").unwrap();
            let subject = Subject::Selected { kind, namespace: "demo".into(), selector };
            let snapshot = from_server(&client(&asked), subject).await.unwrap();
            let expected = if kind == Kind::Pod { ["a", "b"].as_slice() } else { &[] };
            assert_eq!(snapshot.selected(), expected);
            let mut asked = asked.lock().clone();
            let all = asked.len();
            asked.sort();
            asked.dedup();
            assert_eq!(asked.len(), all, "{asked:?}");
        }
    }

    #[tokio::test]
    async fn of_a_service_that_is_not_there_the_names_are_asked_for() {
        let snapshot = from_server(&client(&Asked::default()), subject("wbe")).await.unwrap();
        assert_eq!(service_controllers::explain::near_names(&snapshot, snapshot.subject()), ["web"]);
    }
}
