//! When the process is asked to end.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by SIGTERM or Ctrl-C. A second signal ends the process at once, for a stop that hangs.
pub fn on_signal() -> io::Result<CancellationToken> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let first = next().await;
        tracing::info!(signal = first, "stopping");
        cancelled.cancel();
        let second = next().await;
        tracing::warn!(signal = second, "ending at once");
        std::process::exit(130);
    });
    Ok(token)
}
