//! `run`: the controllers against any API server, alone or as one of several replicas.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use service_controllers::{lease::Candidate, report::metrics::Metrics, runtime};
use service_tls::Authority;
use tokio_util::sync::CancellationToken;

use super::{CommandError, controllers};
use crate::{
    admin::{self, Shown},
    args::{LeaseArgs, RunArgs},
    cluster,
    ready::Readiness,
    shutdown,
};

/// Sooner than the time limit of any request.
const NEAR: Duration = Duration::from_secs(10);

/// Runs until a signal comes or the lease is lost.
pub(super) async fn run(args: RunArgs) -> Result<(), CommandError> {
    args.lease.check()?;
    controllers::warn_of_others(&args.controllers.selection);
    controllers::warn_of_lab_only(&args.controllers.selection);
    let shutdown = shutdown::on_signal().map_err(CommandError::Signals)?;
    let tls = Authority::generate()?.server_config(&[args.bind_address])?;
    let admin = admin::bind(args.bind_address, args.secure_port, Some(tls)).await?;
    tracing::info!(address = %admin.address(), "metrics and readiness");
    let client = tokio::select! {
        client = cluster::connect(args.kubeconfig.as_deref()) => client?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let shown = Shown { readiness: Readiness::default(), metrics: Arc::new(RwLock::new(registry)) };
    let mut settings = controllers::settings(&args.sync, &args.controllers.selection);
    settings.kube_api_qps = args.rate.kube_api_qps;
    settings.kube_api_burst = args.rate.kube_api_burst;
    settings.leader_election = args.lease.leader_elect.then(|| election(&args.lease));
    settings.metrics = metrics;
    report_readiness(&shown.readiness, &settings);
    let serving = tokio::spawn(admin.serve(shown, shutdown.child_token()));
    tokio::spawn(keep_a_timer_near());
    let stopped = runtime::start(client, settings, shutdown.clone()).await;
    shutdown.cancel();
    if let Err(error) = serving.await {
        std::panic::resume_unwind(error.into_panic());
    }
    Ok(stopped?)
}

/// tokio wakes its driver, by a system call and a turn of its loop, for a timer that is due before all others. With one that
/// is always near, the time limit of a request is not.
async fn keep_a_timer_near() {
    let mut near = tokio::time::interval(NEAR);
    loop {
        near.tick().await;
    }
}

/// Ready when the caches are filled; a replica that waits for the lease is ready to take over.
fn report_readiness(readiness: &Readiness, settings: &runtime::Settings) {
    if settings.leader_election.is_some() {
        return;
    }
    let (pending, filled): (_, CancellationToken) = (readiness.wait_for("caches"), settings.ready.clone());
    tokio::spawn(async move {
        filled.cancelled().await;
        drop(pending);
    });
}

fn election(args: &LeaseArgs) -> Candidate {
    let host = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let host = host.map_or("unknown".to_owned(), |host| host.trim().to_owned());
    Candidate {
        namespace: args.leader_elect_resource_namespace.clone(),
        name: args.leader_elect_resource_name.clone(),
        identity: format!("{host}_{}", uuid::Uuid::new_v4()),
        duration: args.leader_elect_lease_duration.0,
        renew_deadline: args.leader_elect_renew_deadline.0,
        retry_period: args.leader_elect_retry_period.0,
    }
}
