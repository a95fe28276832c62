//! `run`: the controllers against any API server, alone or as one of several replicas.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use service_allocators::PortSharing;
use service_controllers::{
    allocation::Gauges,
    leadership::Leadership,
    lease::Candidate,
    report::{
        metrics::Metrics,
        reconcile::{Listener, Told},
    },
    runtime,
};
use service_page::{Page, Reconciles};

use super::{CommandError, controllers, explain::Explains, shadow};
use crate::{
    admin::{self, Access, Certificate, Shown},
    args::{LeaseArgs, RunArgs, ServingArgs},
    cluster::{self, Watched},
    otlp, page,
    process_metrics::ProcessMetrics,
    shadow::Differences,
    shutdown,
    trace::Verbosity,
};

/// Sooner than the time limit of any request.
const NEAR: Duration = Duration::from_secs(10);

/// Runs until a signal comes or the lease is lost.
pub(super) async fn run(
    args: RunArgs,
    verbosity: Verbosity,
    reconciles: Option<Reconciles>,
) -> Result<(), CommandError> {
    args.lease.check()?;
    controllers::warn_of_others(&args.controllers.selection);
    controllers::warn_of_lab_only(&args.controllers.selection);
    let shutdown = shutdown::on_signal().map_err(CommandError::Signals)?;
    let traces = args.tracing_config_file.as_deref().map(otlp::start_by).transpose()?;
    let (traces, sending) = traces.unzip();
    let certificate = certificate(&args.serving)?;
    let ServingArgs { bind_address, secure_port, .. } = args.serving;
    let admin = admin::bind(bind_address, secure_port, certificate.server_config()?).await?;
    tracing::info!(address = %admin.address(), "metrics and readiness");
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessMetrics));
    let mut settings = controllers::settings(&args.sync, &args.controllers.selection);
    settings.metrics = Metrics::register(&mut registry);
    let gauges = Gauges::register(&mut registry);
    let watched =
        Watched { requests: settings.metrics.requests().clone(), renewed: Arc::clone(&settings.renewed) };
    let client = tokio::select! {
        client = cluster::connect(args.kubeconfig.as_deref(), watched) => client?,
        () = shutdown.cancelled() => return Ok(()),
    };
    settings.kube_api_qps = args.rate.kube_api_qps;
    settings.kube_api_burst = args.rate.kube_api_burst;
    let listeners = traces.into_iter().map(|traces| Arc::new(traces) as Arc<dyn Listener>);
    settings.told = Told::new(listeners);
    let elects = args.lease.leader_elect && !args.shadow;
    settings.leader_election = elects.then(|| election(&args.lease));
    if elects {
        settings.leadership = Leadership::follower();
    }
    let ports = args.ledger.service_node_port_range;
    let mut of_ledger =
        controllers::ledger_settings(&args.controllers.selection, ports, PortSharing::default(), &settings);
    of_ledger.repair = controllers::repair(args.ledger.repair);
    of_ledger.protect = args.ledger.protect_addresses;
    of_ledger.gauges = gauges;
    let shadow = args.shadow.then(|| Differences::register(&mut registry));
    let access = Arc::new(Access::new(client.clone(), args.serving.authorization_always_allow_paths.clone()));
    let page = reconciles.map(|reconciles| {
        let settings = service_page::Settings {
            title: client_title(&args),
            node_ports: args.ledger.service_node_port_range,
            hosts: args.page_hosts.clone(),
            linger: page::LINGER,
            shutdown: shutdown.child_token(),
        };
        let reviewed = Arc::new(page::Reviewed(Arc::clone(&access)));
        let explains = Explains::new(client.clone(), args.sync.max_endpoints_per_slice.get().into());
        Page::new(client.clone(), reviewed, Some(Arc::new(explains)), reconciles, settings)
    });
    let shown = Shown {
        readiness: settings.readiness.clone(),
        metrics: Arc::new(RwLock::new(registry)),
        verbosity,
        access,
        page: page.map(|page| page.router()),
    };
    let caches = shown.readiness.wait_for("caches");
    let filled = settings.ready.clone();
    tokio::spawn(async move {
        filled.cancelled().await;
        drop(caches);
    });
    let serving = tokio::spawn(admin.serve(shown, shutdown.child_token()));
    tokio::spawn(certificate.keep_fresh());
    tokio::spawn(keep_a_timer_near());
    let client = match shadow {
        Some(differences) => {
            tracing::info!("shadow mode: nothing is written");
            let grace = args.shadow_grace.0;
            tokio::spawn(shadow::tell(Arc::clone(&differences), client.clone(), grace, shutdown.clone()));
            differences.withhold(&client)
        }
        None => client,
    };
    let ledger = tokio::spawn(controllers::start_ledger(client.clone(), of_ledger, shutdown.clone()));
    let stopped = runtime::start(client, settings, shutdown.clone()).await;
    shutdown.cancel();
    if let Err(error) = ledger.await {
        std::panic::resume_unwind(error.into_panic());
    }
    if let Err(error) = serving.await {
        std::panic::resume_unwind(error.into_panic());
    }
    if let Some(sending) = sending {
        sending.finish().await;
    }
    Ok(stopped?)
}

/// What the page says it is of.
fn client_title(args: &RunArgs) -> String {
    let from = args.kubeconfig.as_ref().and_then(|file| file.file_name());
    from.map_or_else(|| "this cluster".to_owned(), |file| file.to_string_lossy().into_owned())
}

/// The certificate of the secure port.
pub(super) fn certificate(args: &ServingArgs) -> Result<Arc<Certificate>, CommandError> {
    Ok(match (&args.tls_cert_file, &args.tls_private_key_file) {
        (Some(certificate), Some(key)) => Certificate::from_files(certificate, key)?,
        _ => Certificate::made(&[args.bind_address])?,
    })
}

/// tokio wakes its driver, by a system call and a turn of its loop, for a timer that is due before all others. With one that
/// is always near, the time limit of a request is not.
async fn keep_a_timer_near() {
    let mut near = tokio::time::interval(NEAR);
    loop {
        near.tick().await;
    }
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
