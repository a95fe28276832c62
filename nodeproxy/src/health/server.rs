//! The ports for the kubelet and for scrapers.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use parking_lot::Mutex;
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::state::Health;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A port that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address}: {source}; is another kube-proxy at work here? Choose another with --{flag}"
)]
pub struct BindError {
    address: SocketAddr,
    flag: &'static str,
    source: io::Error,
}

/// Ports that are bound and not served yet.
#[derive(Debug)]
pub struct Servers {
    health: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

/// Binds the ports that are wanted.
pub async fn bind(health: Option<SocketAddr>, metrics: Option<SocketAddr>) -> Result<Servers, BindError> {
    Ok(Servers {
        health: listen(health, "healthz-bind-address").await?,
        metrics: listen(metrics, "metrics-bind-address").await?,
    })
}

async fn listen(address: Option<SocketAddr>, flag: &'static str) -> Result<Option<TcpListener>, BindError> {
    let Some(address) = address else { return Ok(None) };
    let bound = TcpListener::bind(address).await;
    bound.map(Some).map_err(|source| BindError { address, flag, source })
}

impl Servers {
    /// Serves until the token is cancelled.
    pub async fn serve(self, health: Health, metrics: Arc<Mutex<Registry>>, shutdown: CancellationToken) {
        let about = health_router(health.clone());
        let figures = Router::new()
            .route("/metrics", get(figures))
            .with_state(metrics)
            .route("/healthz", get(|| async { "ok" }))
            .route("/proxyMode", get(|| async { "nftables" }));
        tokio::join!(
            serve(self.health, about, shutdown.clone()),
            serve(self.metrics, figures, shutdown.clone())
        );
    }
}

fn health_router(health: Health) -> Router {
    let ask = |node_too: bool| {
        get(move |State(health): State<Health>| async move {
            let shown = health.show(node_too);
            let status = if shown.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            let headers =
                [(header::CONTENT_TYPE, "application/json"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
            (status, headers, serde_json::to_string(&shown).unwrap_or_default())
        })
    };
    Router::new().route("/healthz", ask(true)).route("/livez", ask(false)).with_state(health)
}

async fn figures(State(registry): State<Arc<Mutex<Registry>>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &registry.lock()) {
        Ok(()) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn serve(listener: Option<TcpListener>, router: Router, shutdown: CancellationToken) {
    let Some(listener) = listener else { return };
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await
    {
        tracing::warn!(%error, "a port for health and metrics is served no longer");
    }
}
