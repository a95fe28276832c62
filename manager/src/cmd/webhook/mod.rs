//! `webhook`: the admission webhook, its port, its certificate and what it knows.
//!
//! Owns start and end. What is answered is `service_controllers::webhook`'s.

mod certificate;
mod serve;

use std::sync::Arc;

use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use service_controllers::ledger::{self, Wanted};
use service_controllers::readiness::Readiness;
use service_controllers::report::metrics::WatchMetrics;
use service_controllers::webhook::{Settings, Webhook, WebhookMetrics};

use super::CommandError;
use crate::{
    admin::{self, Access, Shown},
    args::{ServingArgs, WebhookArgs},
    cluster::{self, Watched},
    process_metrics::ProcessMetrics,
    shutdown,
    trace::Verbosity,
};

use certificate::Keeper;
pub(super) use certificate::WebhookCertificateError;

/// Serves until a signal comes.
pub(super) async fn run(args: WebhookArgs, verbosity: Verbosity) -> Result<(), CommandError> {
    let share = args.share()?;
    let shutdown = shutdown::on_signal().map_err(CommandError::Signals)?;
    let shown_there = super::run::certificate(&args.serving)?;
    let ServingArgs { bind_address, secure_port, .. } = args.serving;
    let admin = admin::bind(bind_address, secure_port, shown_there.server_config()?).await?;
    let listener = admin::listen(bind_address, args.webhook_port, "--webhook-port").await?;
    let address = listener.local_addr().map_err(CommandError::Output)?;
    let keeper = Keeper::start(&args)?;
    tracing::info!(address = %admin.address(), "metrics and readiness");
    tracing::info!(%address, "the webhook listens");
    let client = tokio::select! {
        client = cluster::connect(args.kubeconfig.as_deref(), Watched::default()) => client?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessMetrics));
    let metrics = WebhookMetrics::register(&mut registry);
    let watches = WatchMetrics::register(&mut registry);
    let access = Access::new(client.clone(), args.serving.authorization_always_allow_paths.clone());
    let shown = Shown {
        readiness: Readiness::default(),
        metrics: Arc::new(RwLock::new(registry)),
        verbosity,
        access: Arc::new(access),
        page: None,
    };
    let knows = shown.readiness.wait_for("caches");
    let trusted = shown.readiness.wait_for("certificate");
    let admin = tokio::spawn(admin.serve(shown, shutdown.child_token()));
    tokio::spawn(shown_there.keep_fresh());
    let webhook = Webhook::new(&Settings { node_ports: args.service_node_port_range, share }, metrics);
    let wanted = Wanted { pools: true };
    let failures = Arc::default();
    let (fed, feeding) = ledger::feed(&client, webhook.ledger(), wanted, watches, failures, shutdown.clone());
    tokio::spawn(async move {
        fed.complete.cancelled().await;
        drop(knows);
    });
    let certificate = keeper.current();
    let keeping = keeper.keep(client, trusted, shutdown.clone());
    let serving = serve::serve(listener, webhook, certificate, shutdown.clone());
    tokio::join!(feeding, keeping, serving);
    shutdown.cancel();
    if let Err(error) = admin.await {
        std::panic::resume_unwind(error.into_panic());
    }
    Ok(())
}
