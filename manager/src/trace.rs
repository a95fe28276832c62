//! Sets the log up, once, for the whole process.

use std::io::{self, IsTerminal as _};

use service_page::Reconciles;
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry,
    filter::ParseError,
    fmt,
    layer::SubscriberExt as _,
    reload::{self, Handle},
    util::SubscriberInitExt as _,
};

use crate::{
    args::{LogFormat, LoggingArgs},
    page,
};

/// Overrides the levels, for instance `service_lab=debug`.
const FILTER_VARIABLE: &str = "SCM_LOG";

/// A log that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A filter nobody understands.
    #[error("{FILTER_VARIABLE}: {0}")]
    Filter(#[from] ParseError),
    /// Somebody else did.
    #[error("the log is set up already")]
    Twice,
}

/// How much is logged, which can be changed while the process runs.
#[derive(Debug, Clone, Default)]
pub struct Verbosity(Option<Handle<EnvFilter, Registry>>);

/// A verbosity that cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum VerbosityError {
    /// There is no log.
    #[error("this process has no log")]
    NoLog,
    /// The filter cannot be replaced.
    #[error("the verbosity stays as it is: {0}")]
    Reload(#[from] tracing_subscriber::reload::Error),
}

impl Verbosity {
    /// Changes it to what `--v` takes.
    pub fn set(&self, verbosity: u8) -> Result<(), VerbosityError> {
        let handle = self.0.as_ref().ok_or(VerbosityError::NoLog)?;
        Ok(handle.reload(EnvFilter::new(levels(verbosity, false)))?)
    }
}

/// Sends the log to standard error; with `quiet` only problems, unless a verbosity was asked for. The page gets the lines
/// about reconciles whatever else is logged.
pub fn start(logging: &LoggingArgs, quiet: bool, page: Option<&Reconciles>) -> Result<Verbosity, TraceError> {
    let filter = match std::env::var(FILTER_VARIABLE) {
        Ok(text) => EnvFilter::try_new(text)?,
        Err(_) => EnvFilter::try_new(levels(logging.verbosity, quiet))?,
    };
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry();
    let layer = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let lines = page.cloned();
    let started = match logging.log_format {
        LogFormat::Text => registry
            .with(layer.with_target(false).with_filter(filter))
            .with(lines.map(page::layer))
            .try_init(),
        LogFormat::Json => {
            registry.with(layer.json().with_filter(filter)).with(lines.map(page::layer)).try_init()
        }
    };
    started.map_err(|_| TraceError::Twice)?;
    Ok(Verbosity(Some(handle)))
}

/// Levels for a verbosity: ours as asked, those below us a step quieter.
const fn levels(verbosity: u8, quiet: bool) -> &'static str {
    match verbosity {
        // What the client and its TLS say of a failed request, whoever made it says too, and knows what for.
        0 if quiet => {
            "warn,kube_client::client::builder=off,kube_client::client::tls=off,rustls_platform_verifier=off"
        }
        0..=3 => {
            "warn,kube_client::client::builder=off,kube_client::client::tls=off,rustls_platform_verifier=off,service_lab=info,service_controllers=info,service_nodeproxy=info,service_controller_manager=info"
        }
        4..=5 => {
            "info,kube_client::client::builder=off,kube_client::client::tls=off,rustls_platform_verifier=off,service_lab=debug,service_controllers=debug,service_nodeproxy=debug,service_controller_manager=debug"
        }
        // What HTTP and TLS do with their frames is for those who ask for all.
        6..=7 => {
            "debug,h2=info,hyper=info,hyper_util=info,rustls=info,tower=info,service_lab=trace,service_controllers=trace,service_nodeproxy=trace,service_controller_manager=trace"
        }
        _ => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verbosity_has_a_filter() {
        for verbosity in 0..=10 {
            for quiet in [false, true] {
                assert!(EnvFilter::try_new(levels(verbosity, quiet)).is_ok());
            }
        }
    }

    #[test]
    fn a_failed_request_is_told_once_unless_all_is_wanted() {
        for (verbosity, told_twice) in [(0, false), (5, false), (6, true)] {
            let filter = levels(verbosity, false);
            assert_eq!(
                !filter.contains("kube_client::client::builder=off,kube_client::client::tls=off,rustls_platform_verifier=off"),
                told_twice,
                "{filter}"
            );
        }
    }
}
