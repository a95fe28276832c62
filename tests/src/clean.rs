//! Removes what a recorded case left on a server that the next case uses too. For servers that nobody else uses.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::http::{Client, HttpError};

/// What cases make, in the order in which it goes: Services first, for what is theirs goes with them.
const MADE: [&str; 8] = [
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/kube-public/pods",
    "/api/v1/namespaces/default/endpoints",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    "/api/v1/nodes",
    "/apis/networking.k8s.io/v1/servicecidrs",
    "/apis/networking.k8s.io/v1/ipaddresses",
];
/// The server's own Service, its slice and its range.
const OWN: &str = "kubernetes";
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

/// Why it cannot be removed.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// No request gets through.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// It stays.
    #[error("{path} of the case before stays: {seen}")]
    Stays {
        /// What.
        path: String,
        /// How it is.
        seen: Value,
    },
}

/// Removes all that cases make, whatever holds it.
pub async fn clean(client: &Client) -> Result<(), CleanError> {
    let own = client.get("/api/v1/namespaces/default/services/kubernetes").await?.1;
    let own = [OWN, own["spec"]["clusterIP"].as_str().unwrap_or_default()];
    for list in MADE {
        let start = Instant::now();
        loop {
            let (_, seen) = client.get(list).await?;
            let items = seen["items"].as_array().cloned().unwrap_or_default();
            let names = items.iter().filter_map(|item| item["metadata"]["name"].as_str());
            let left: Vec<String> =
                names.filter(|name| !own.contains(name)).map(|name| format!("{list}/{name}")).collect();
            let Some(first) = left.first() else { break };
            if start.elapsed() > PATIENCE {
                return Err(CleanError::Stays { path: first.clone(), seen });
            }
            for path in &left {
                // No kubelet ends pods here, and finalizers are of controllers that are gone.
                client.call("PATCH", path, &json!({"metadata": {"finalizers": null}})).await?;
                client.call("DELETE", path, &json!({"gracePeriodSeconds": 0})).await?;
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}
