//! Follows the pods: each has its namespace and its server from when it has addresses until it is gone.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, OnceLock},
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
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    dns,
    fabric::{Fabric, PodLink},
    namespace::Namespace,
    server::{self, Log},
    serving,
};

/// Namespace and name of a pod.
type Key = (String, String);

/// A pod that is joined to the network.
#[derive(Debug)]
struct Joined {
    uid: String,
    addresses: Vec<IpAddr>,
    /// None for one on its node's network.
    link: Option<PodLink>,
    namespace: Namespace,
    log: Arc<Log>,
    _servers: JoinSet<()>,
}

/// The pods that are joined to the network, and where they ask for names.
#[derive(Debug, Clone, Default)]
pub struct Pods(Arc<RwLock<HashMap<Key, Joined>>>, Arc<OnceLock<IpAddr>>);

impl Pods {
    /// The namespace that a pod runs in.
    pub fn namespace(&self, namespace: &str, name: &str) -> Option<Namespace> {
        let pods = self.0.read();
        pods.get(&(namespace.to_owned(), name.to_owned())).map(|pod| pod.namespace.clone())
    }

    /// Where pods ask for names, if there is such a place.
    pub(crate) fn resolver(&self) -> Option<IpAddr> {
        self.1.get().copied()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.read().len()
    }

    /// What a pod has written.
    pub(crate) fn log(&self, namespace: &str, name: &str) -> Option<Arc<Log>> {
        let pods = self.0.read();
        pods.get(&(namespace.to_owned(), name.to_owned())).map(|pod| Arc::clone(&pod.log))
    }
}

/// Joins pods to the network and takes them out, and answers for the cluster's names, until `closing`. Without names, when somebody else
/// has the port, the rest goes on.
///
/// # Errors
/// When the lab does not serve pods.
pub async fn follow(
    local: &Local,
    fabric: &Fabric,
    pods: &Pods,
    closing: CancellationToken,
) -> Result<(), ApiError> {
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
                    EventType::Deleted => follower.leave(&key(&pod)).await,
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
                let _ = pods.1.set(resolver);
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
        let there: Vec<Key> = self.pods.0.read().keys().cloned().collect();
        for gone in there.iter().filter(|there| !listed.iter().any(|pod| key(pod) == **there)) {
            self.leave(gone).await;
        }
    }

    async fn see(&self, pod: &Value) {
        let (key, addresses) = (key(pod), addresses(pod));
        let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let same = |joined: &Joined| joined.uid == meta(pod, "uid") && joined.addresses == addresses;
        if !ended && self.pods.0.read().get(&key).is_some_and(same) {
            return;
        }
        self.leave(&key).await;
        if ended || addresses.is_empty() {
            return;
        }
        match self.join(&key, pod, addresses).await {
            Ok(Some(joined)) => drop(self.pods.0.write().insert(key, joined)),
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
        let Some(namespace) = namespace else { return Ok(None) };
        let log = Arc::default();
        let servers = server::serve(&key.1, &namespace, &log, &serving::listens(pod));
        let uid = meta(pod, "uid").to_owned();
        Ok(Some(Joined { uid, addresses, link, namespace, log, _servers: servers }))
    }

    async fn leave(&self, key: &Key) {
        let Some(gone) = self.pods.0.write().remove(key) else { return };
        gone.log.close();
        if let Some(link) = gone.link {
            self.fabric.remove_pod(&link).await;
        }
    }
}

fn key(pod: &Value) -> Key {
    (meta(pod, "namespace").to_owned(), meta(pod, "name").to_owned())
}

fn text<'a>(pod: &'a Value, pointer: &str) -> &'a str {
    pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn addresses(pod: &Value) -> Vec<IpAddr> {
    let all = pod.pointer("/status/podIPs").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|entry| entry.get("ip")?.as_str()?.parse().ok()).collect()
}
