//! Garbage collection by `metadata.ownerReferences`: upstream's `garbage-collector-controller`.
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::registry::verbs::Api;

/// Runs until `closing`.
pub async fn run(_api: Arc<Api>, closing: CancellationToken) {
    closing.cancelled().await;
}
