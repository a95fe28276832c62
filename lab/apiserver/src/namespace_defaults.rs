//! What every namespace holds before anybody creates anything in it: the ServiceAccount `default` (upstream's
//! `serviceaccount-controller`) and the ConfigMap `kube-root-ca.crt` (`root-ca-certificate-publisher-controller`).
//!
//! Operators and test suites wait for both. What is deleted comes back, an edited certificate is put right; namespaces that
//! are being deleted are left alone. Other data of the ConfigMap is not kept, as upstream keeps none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::follow::follow;
use crate::local::{CONFIG_MAPS, GroupResource, Local, NAMESPACES, SERVICE_ACCOUNTS};
use crate::registry::error::ApiError;
use crate::registry::object::{is_deleting, meta};
use crate::registry::verbs::Api;
use crate::store::Event;

/// How often all namespaces are looked at, whatever the events said.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
/// What upstream writes there.
const ABOUT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such \
                     as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                     distributions of Kubernetes clusters.";

/// What is put into namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The ServiceAccount `default`.
    pub account: bool,
    /// The certificate (PEM) by which the server is to be trusted, for `kube-root-ca.crt`; `None`: no such ConfigMap.
    pub root_ca: Option<String>,
}

/// Fills namespaces until `closing`.
pub async fn run(api: Arc<Api>, defaults: Defaults, closing: CancellationToken) {
    let kinds = [NAMESPACES, SERVICE_ACCOUNTS, CONFIG_MAPS];
    let ids: Vec<_> = kinds.iter().filter_map(|(group, resource)| api.registry.id(group, resource)).collect();
    let mut events = follow(&api, ids);
    let mut sweep = tokio::time::interval(SWEEP_EVERY);
    let local = Local::new(api, "kube-controller-manager");
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            Some(batch) = events.next() => {
                for namespace in touched(&batch) {
                    fill(&local, &namespace, &defaults);
                }
            }
            _ = sweep.tick() => {
                for namespace in local.list(NAMESPACES, None) {
                    fill(&local, meta(&namespace, "name"), &defaults);
                }
            }
        }
    }
}

/// The namespaces whose defaults the events may concern.
fn touched(batch: &[Arc<Event>]) -> BTreeSet<String> {
    let place = |event: &Arc<Event>| {
        let (namespace, name) = (&*event.object.namespace, &*event.object.name);
        match (namespace.is_empty(), name) {
            (true, name) => Some(name.to_owned()),
            (false, ACCOUNT | ROOT_CA) => Some(namespace.to_owned()),
            _ => None,
        }
    };
    batch.iter().filter_map(place).collect()
}

fn fill(local: &Local, namespace: &str, defaults: &Defaults) {
    let Some(object) = local.get(NAMESPACES, "", namespace) else { return };
    if is_deleting(&object) || object.pointer("/status/phase") == Some(&json!("Terminating")) {
        return;
    }
    if defaults.account && local.get(SERVICE_ACCOUNTS, namespace, ACCOUNT).is_none() {
        create(local, SERVICE_ACCOUNTS, namespace, &json!({"metadata": {"name": ACCOUNT}}));
    }
    if let Some(pem) = &defaults.root_ca {
        publish(local, namespace, pem);
    }
}

fn publish(local: &Local, namespace: &str, pem: &str) {
    let wanted = json!({KEY: pem});
    match local.get(CONFIG_MAPS, namespace, ROOT_CA) {
        None => {
            let metadata = json!({"name": ROOT_CA, "annotations": {DESCRIPTION: ABOUT}});
            create(local, CONFIG_MAPS, namespace, &json!({"metadata": metadata, "data": wanted}));
        }
        Some(known) if known["data"] != wanted || known["metadata"]["annotations"][DESCRIPTION] != ABOUT => {
            told(
                namespace,
                local.update(CONFIG_MAPS, (namespace, ROOT_CA), |object| {
                    object["data"] = wanted;
                    object["metadata"]["annotations"][DESCRIPTION] = json!(ABOUT);
                }),
            );
        }
        Some(_) => {}
    }
}

fn create(local: &Local, kind: GroupResource, namespace: &str, object: &Value) {
    told(namespace, local.create(kind, namespace, object));
}

/// A namespace that ends meanwhile needs nothing any more, and what somebody else made is there.
fn told<T>(namespace: &str, done: Result<T, ApiError>) {
    if let Err(error) = done
        && !matches!(error.code(), 403 | 404 | 409)
    {
        tracing::warn!(namespace, %error, "fill a namespace");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::testing::lab;

    fn defaults() -> Defaults {
        Defaults { account: true, root_ca: Some("PEM".to_owned()) }
    }

    fn local() -> Local {
        Local::new(Arc::new(lab(&["10.96.0.0/12"]).into_api()), "test")
    }

    #[test]
    fn a_namespace_is_filled_once_and_put_right() {
        let local = local();
        fill(&local, "default", &defaults());
        assert!(local.get(SERVICE_ACCOUNTS, "default", "default").is_some());
        let published = local.get(CONFIG_MAPS, "default", ROOT_CA).unwrap();
        assert_eq!(published["data"], json!({"ca.crt": "PEM"}));
        fill(&local, "default", &defaults());
        assert_eq!(local.get(CONFIG_MAPS, "default", ROOT_CA).unwrap(), published);
        local.update(CONFIG_MAPS, ("default", ROOT_CA), |map| map["data"] = json!({"ca.crt": "x"})).unwrap();
        fill(&local, "default", &defaults());
        assert_eq!(local.get(CONFIG_MAPS, "default", ROOT_CA).unwrap()["data"], json!({"ca.crt": "PEM"}));
    }

    #[test]
    fn a_namespace_that_ends_is_left_alone() {
        let local = local();
        local.create(NAMESPACES, "", &json!({"metadata": {"name": "shop"}})).unwrap();
        local.delete(NAMESPACES, ("", "shop"), None, None).unwrap();
        fill(&local, "shop", &defaults());
        assert!(local.list(SERVICE_ACCOUNTS, Some("shop")).is_empty());
        fill(&local, "nowhere", &defaults());
    }

    #[tokio::test]
    async fn what_is_deleted_comes_back() {
        let api = Arc::new(lab(&["10.96.0.0/12"]).into_api());
        let closing = CancellationToken::new();
        let running = tokio::spawn(run(Arc::clone(&api), defaults(), closing.clone()));
        let local = Local::new(api, "test");
        for deletion in [None, Some(SERVICE_ACCOUNTS), Some(CONFIG_MAPS)] {
            match deletion {
                Some(SERVICE_ACCOUNTS) => {
                    local.delete(SERVICE_ACCOUNTS, ("default", ACCOUNT), None, None).unwrap();
                }
                Some(kind) => local.delete(kind, ("default", ROOT_CA), None, None).unwrap(),
                None => {
                    local.create(NAMESPACES, "", &json!({"metadata": {"name": "shop"}})).unwrap();
                }
            }
            let filled = || {
                ["default", "shop"].iter().all(|namespace| {
                    local.get(SERVICE_ACCOUNTS, namespace, ACCOUNT).is_some()
                        && local.get(CONFIG_MAPS, namespace, ROOT_CA).is_some()
                })
            };
            let wait = async {
                let (_, mut watch) = local.list_and_watch(CONFIG_MAPS).unwrap();
                let (_, mut accounts) = local.list_and_watch(SERVICE_ACCOUNTS).unwrap();
                while !filled() {
                    tokio::select! {
                        _ = watch.next_batch() => {}
                        _ = accounts.next_batch() => {}
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap();
        }
        closing.cancel();
        running.await.unwrap();
    }
}
