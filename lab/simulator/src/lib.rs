//! What a cluster has beside its API server, as far as a Service needs it: nodes with pods, Deployments, and the demo.
//!
//! Owns the simulated nodes, stand-ins for the controllers of Deployments and of lost nodes, and what `lab --demo` shows. It asks the API
//! server by the verbs of [`service_lab_apiserver::local`], as any client could, and never touches the store beside
//! them. It knows nothing of HTTP.

use std::sync::Arc;

use service_lab_apiserver::{local, registry};
use service_lab_store as store;
use tokio_util::sync::CancellationToken;

use self::local::Local;
use self::nodes::SimulatedNode;
use self::registry::verbs::Api;

pub mod demo;
mod events;
pub mod nodes;
pub mod workloads;

#[cfg(test)]
mod testing;

/// Runs the simulated nodes, and what makes pods of Deployments, until `closing`; without a node, nothing.
/// With a prober, whoever it speaks for runs the pods, and their probes are asked.
pub async fn run(
    api: Arc<Api>,
    simulated_nodes: Vec<SimulatedNode>,
    prober: Option<Arc<dyn nodes::Prober>>,
    closing: CancellationToken,
) {
    if simulated_nodes.is_empty() {
        return;
    }
    let kubelets = Local::new(Arc::clone(&api), "kubelet");
    let controllers = Local::new(api, "kube-controller-manager");
    let (nodes, watched, workloads) = tokio::join!(
        nodes::run(&kubelets, simulated_nodes, prober, closing.cancelled()),
        nodes::watch_over(&controllers, nodes::Times::default(), closing.cancelled()),
        workloads::run(&controllers, closing.cancelled()),
    );
    for error in [nodes.err(), watched.err(), workloads.err()].into_iter().flatten() {
        tracing::error!(%error, "the simulation ended");
    }
}
