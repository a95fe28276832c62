//! Follows the pods: each has its namespace and its server from when it has addresses until it is gone.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::RwLock;
use serde_json::Value;
use service_lab_apiserver::{
    local::{Local, PODS},
    registry::{
        error::ApiError,
        object::{meta, parse},
    },
};
use service_lab_store::EventType;
use tokio::{
    sync::{Mutex, mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    dns,
    fabric::{Fabric, PodLink},
    log::Log,
    namespace::Namespace,
    place::Place,
    process,
    program::program,
    server::{self, Ended, EndedIn, Served},
    serving,
    upload::Uploads,
};

/// Namespace and name of a pod.
type Key = (String, String);

/// A pod that is joined to the network.
#[derive(Debug)]
struct Joined {
    uid: String,
    /// Its host name.
    host: String,
    addresses: Vec<IpAddr>,
    /// None for one on its node's network.
    link: Option<PodLink>,
    namespace: Namespace,
    node: Namespace,
    log: Arc<Log>,
    /// It has been told to end.
    ending: Arc<AtomicBool>,
    /// The containers that run, by their names.
    running: HashMap<String, Running>,
    /// The image of each container.
    images: Vec<(String, String)>,
    /// The files that were sent to it.
    uploads: Uploads,
}

/// A container that runs: its servers and its command, until this is dropped.
#[derive(Debug)]
struct Running {
    restarts: u64,
    _tasks: JoinSet<()>,
}

/// The pods that are joined to the network, and where they ask for names.
#[derive(Clone)]
pub struct Pods(Arc<Known>);

struct Known {
    local: Local,
    joined: RwLock<HashMap<Key, Joined>>,
    resolver: OnceLock<IpAddr>,
    choices: AtomicUsize,
    /// Told of each container that begins to run.
    begun: watch::Sender<()>,
    exits: mpsc::UnboundedSender<EndedIn>,
    exited: Mutex<mpsc::UnboundedReceiver<EndedIn>>,
    /// What pods have written that have ended and are still there.
    ended: RwLock<HashMap<Key, Arc<Log>>>,
}

impl Pods {
    /// None yet, of the API server that this is a way to.
    pub fn new(local: Local) -> Self {
        let (exits, exited) = mpsc::unbounded_channel();
        Self(Arc::new(Known {
            local,
            joined: RwLock::default(),
            resolver: OnceLock::new(),
            choices: AtomicUsize::new(0),
            begun: watch::Sender::new(()),
            exits,
            exited: Mutex::new(exited),
            ended: RwLock::default(),
        }))
    }

    /// The way to the API server.
    pub(crate) fn local(&self) -> &Local {
        &self.0.local
    }

    fn of<T>(&self, namespace: &str, name: &str, what: impl FnOnce(&Joined) -> T) -> Option<T> {
        let pods = self.0.joined.read();
        pods.get(&(namespace.to_owned(), name.to_owned())).map(what)
    }

    /// Where commands of a pod's container run; of its first without a name.
    pub(crate) fn place(&self, namespace: &str, name: &str, container: &str) -> Option<Place> {
        let resolver = self.resolver().map(|ip| dns::resolver_file(ip, namespace));
        self.of(namespace, name, |pod| {
            let image = pod.images.iter().find(|(of, _)| container.is_empty() || of == container);
            Place {
                namespace: pod.namespace.clone(),
                host: pod.host.clone(),
                resolver,
                image: image.map(|(_, image)| image.clone()).unwrap_or_default(),
                uploads: pod.uploads.clone(),
            }
        })
    }

    /// The namespace of a pod's node, and the pod's address, once the container runs.
    pub(crate) async fn reached(
        &self,
        (namespace, name): (&str, &str),
        container: &str,
    ) -> Option<(Namespace, IpAddr)> {
        let mut begun = self.0.begun.subscribe();
        loop {
            let place = self.of(namespace, name, |pod| {
                let address = pod.addresses.first().copied()?;
                pod.running.contains_key(container).then(|| (pod.node.clone(), address))
            });
            if let Some(Some(place)) = place {
                return Some(place);
            }
            begun.changed().await.ok()?;
        }
    }

    /// Where pods ask for names, if there is such a place.
    fn resolver(&self) -> Option<IpAddr> {
        self.0.resolver.get().copied()
    }

    /// A number that differs from the last one, to take one of several by.
    pub(crate) fn choice(&self) -> usize {
        self.0.choices.fetch_add(1, Ordering::Relaxed)
    }

    /// What a pod has written, also after its end.
    pub(crate) fn log(&self, namespace: &str, name: &str) -> Option<Arc<Log>> {
        let ended = || self.0.ended.read().get(&(namespace.to_owned(), name.to_owned())).cloned();
        self.of(namespace, name, |pod| Arc::clone(&pod.log)).or_else(ended)
    }

    /// The next end in a pod: its namespace and name, and what has ended. Waits for as long as nothing does.
    pub async fn ended(&self) -> (String, String, Ended) {
        match self.0.exited.lock().await.recv().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }
}

/// Joins pods to the network and takes them out, and answers for the cluster's names, until `closing`. Without names, when somebody else
/// has the port, the rest goes on.
///
/// # Errors
/// When the lab does not serve pods.
pub async fn follow(fabric: &Fabric, pods: &Pods, closing: CancellationToken) -> Result<(), ApiError> {
    let local = pods.local();
    let _names = names(local, fabric, pods).await;
    let nodes = fabric.nodes();
    let follower = Follower { fabric, nodes, pods };
    loop {
        let (listed, mut watch) = local.list_and_watch(PODS)?;
        let listed: Vec<Value> = listed.iter().map(|pod| parse(&pod.body)).collect();
        follower.keep_only(&listed).await;
        for pod in &listed {
            follower.see(pod).await;
        }
        loop {
            let batch = tokio::select! {
                () = closing.cancelled() => return Ok(()),
                batch = watch.next_batch() => batch,
            };
            // Too far behind: look at all of them again.
            let Ok(events) = batch else { break };
            for event in events {
                let pod = parse(&event.object.body);
                match event.ty {
                    EventType::Deleted => follower.forget(&key(&pod)).await,
                    _ => follower.see(&pod).await,
                }
            }
        }
    }
}

/// Starts what answers for names.
async fn names(local: &Local, fabric: &Fabric, pods: &Pods) -> Option<JoinSet<()>> {
    let addresses = fabric.machine_addresses();
    let serving = match dns::serve(local, &addresses).await {
        Ok(serving) => serving,
        Err(error) => {
            tracing::warn!(%error, ?addresses, "names of Services do not resolve: the port for DNS cannot be had");
            return None;
        }
    };
    match dns::publish(local, &addresses, fabric.service_ranges()) {
        Ok(resolver) => {
            if let Some(resolver) = resolver {
                let _ = pods.0.resolver.set(resolver);
            }
        }
        Err(error) => tracing::warn!(%error, "names of Services do not resolve: there is no Service for DNS"),
    }
    Some(serving)
}

struct Follower<'a> {
    fabric: &'a Fabric,
    nodes: HashMap<String, Namespace>,
    pods: &'a Pods,
}

impl Follower<'_> {
    async fn keep_only(&self, listed: &[Value]) {
        let there: Vec<Key> = self.pods.0.joined.read().keys().cloned().collect();
        for gone in there.iter().filter(|there| !listed.iter().any(|pod| key(pod) == **there)) {
            self.forget(gone).await;
        }
        self.pods.0.ended.write().retain(|there, _| listed.iter().any(|pod| key(pod) == *there));
    }

    /// A pod that is no more.
    async fn forget(&self, key: &Key) {
        self.leave(key).await;
        self.pods.0.ended.write().remove(key);
    }

    async fn see(&self, pod: &Value) {
        let (key, addresses) = (key(pod), addresses(pod));
        let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let same = |joined: &Joined| joined.uid == meta(pod, "uid") && joined.addresses == addresses;
        if !ended && self.pods.0.joined.read().get(&key).is_some_and(same) {
            return self.run(&key, pod);
        }
        let log = self.leave(&key).await;
        if ended {
            if let Some(log) = log {
                self.pods.0.ended.write().insert(key, log);
            }
            return;
        }
        self.pods.0.ended.write().remove(&key);
        if addresses.is_empty() {
            return;
        }
        match self.join(&key, pod, addresses).await {
            Ok(Some(joined)) => {
                self.pods.0.joined.write().insert(key.clone(), joined);
                self.run(&key, pod);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(namespace = key.0, pod = key.1, %error, "a pod is not joined to the network");
            }
        }
    }

    async fn join(
        &self,
        key: &Key,
        pod: &Value,
        addresses: Vec<IpAddr>,
    ) -> Result<Option<Joined>, crate::NetworkError> {
        let node = text(pod, "/spec/nodeName");
        let on_node = pod.pointer("/spec/hostNetwork").and_then(Value::as_bool).unwrap_or_default();
        let (link, namespace) = if on_node {
            (None, self.nodes.get(node).cloned())
        } else {
            let link = self.fabric.pod(node, (&key.0, &key.1), &addresses).await?;
            let namespace = link.as_ref().map(|link| link.namespace.clone());
            (link, namespace)
        };
        let (Some(namespace), Some(node)) = (namespace, self.nodes.get(node).cloned()) else {
            return Ok(None);
        };
        // One on its node's network has its node's name.
        let own = Some(text(pod, "/spec/hostname")).filter(|own| !own.is_empty()).unwrap_or(&key.1);
        let host = if on_node { text(pod, "/spec/nodeName") } else { own }.to_owned();
        let image = |of: &Value| (text(of, "/name").to_owned(), text(of, "/image").to_owned());
        Ok(Some(Joined {
            uid: meta(pod, "uid").to_owned(),
            host,
            addresses,
            link,
            namespace,
            node,
            log: Arc::default(),
            ending: Arc::default(),
            running: HashMap::new(),
            images: containers(pod).map(image).collect(),
            uploads: Uploads::default(),
        }))
    }

    /// Has the containers listen that run, and those no longer that have ended.
    fn run(&self, key: &Key, pod: &Value) {
        let runs: HashMap<String, u64> = statuses(pod).filter_map(running).collect();
        let mut pods = self.pods.0.joined.write();
        let Some(joined) = pods.get_mut(key) else { return };
        joined.ending.store(!meta(pod, "deletionTimestamp").is_empty(), Ordering::Relaxed);
        let (ending, addresses) = (Arc::clone(&joined.ending), joined.addresses.clone());
        let uploads = joined.uploads.clone();
        joined.running.retain(|name, running| runs.get(name) == Some(&running.restarts));
        let new: Vec<(String, u64)> =
            runs.into_iter().filter(|(name, _)| !joined.running.contains_key(name)).collect();
        if new.is_empty() {
            return;
        }
        drop(pods);
        for (name, restarts) in new {
            let Some(place) = self.pods.place(&key.0, &key.1, &name) else { return };
            let Some(log) = self.pods.log(&key.0, &key.1) else { return };
            let served = Served {
                place,
                namespace: key.0.as_str().into(),
                name: key.1.as_str().into(),
                container: name.as_str().into(),
                log,
                ending: Arc::clone(&ending),
                exits: self.pods.0.exits.clone(),
                addresses: addresses.clone(),
                uploads: uploads.clone(),
            };
            let tasks = begin(served, pod, &name);
            if let Some(joined) = self.pods.0.joined.write().get_mut(key) {
                joined.running.insert(name, Running { restarts, _tasks: tasks });
            }
        }
        self.pods.0.begun.send_replace(());
    }

    /// Takes a pod out; what it has written.
    async fn leave(&self, key: &Key) -> Option<Arc<Log>> {
        let gone = self.pods.0.joined.write().remove(key)?;
        gone.log.close();
        drop(gone.running);
        if let Some(link) = gone.link {
            self.fabric.remove_pod(&link).await;
        }
        Some(gone.log)
    }
}

/// Begins a run of a container: its own command, or what listens for it.
fn begin(served: Served, pod: &Value, name: &str) -> JoinSet<()> {
    let Some(spec) = containers(pod).find(|container| container["name"] == *name) else {
        return JoinSet::new();
    };
    // Init containers end by the clock.
    let main =
        pod.pointer("/spec/containers").and_then(Value::as_array).is_some_and(|all| all.contains(spec));
    match program(pod, spec).filter(|_| main) {
        Some(program) => {
            let mut tasks = JoinSet::new();
            tasks.spawn(process::run(served, program));
            tasks
        }
        None => server::serve(&served, serving::listens(spec)),
    }
}

fn key(pod: &Value) -> Key {
    (meta(pod, "namespace").to_owned(), meta(pod, "name").to_owned())
}

/// Name and number of the run of a container that runs, by its status.
fn running(status: &Value) -> Option<(String, u64)> {
    status.pointer("/state/running")?;
    let restarts = status.get("restartCount").and_then(Value::as_u64).unwrap_or_default();
    Some((text(status, "/name").to_owned(), restarts))
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    lists.into_iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten()
}

/// The main containers first: of these is the one that is meant without a name.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["/spec/containers", "/spec/initContainers"];
    lists.into_iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten()
}

fn text<'a>(pod: &'a Value, pointer: &str) -> &'a str {
    pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn addresses(pod: &Value) -> Vec<IpAddr> {
    let all = pod.pointer("/status/podIPs").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|entry| entry.get("ip")?.as_str()?.parse().ok()).collect()
}
