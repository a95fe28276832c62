//! The log of the process: set up once, its levels changed while it runs.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use parking_lot::Mutex;
use service_controllers::controller::Controller;
use service_page::Reconciles;
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry,
    filter::ParseError,
    fmt,
    layer::SubscriberExt as _,
    reload::{self, Handle},
    util::SubscriberInitExt as _,
};

use crate::args::{LogFormat, LoggingArgs};
use crate::levels::Levels;
use crate::lines;
use crate::logfmt::Logfmt;

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
pub struct Verbosity(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    handle: Handle<EnvFilter, Registry>,
    levels: Mutex<Levels>,
}

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
    /// Changes it to what `--v` takes. Controllers with a level of their own keep it.
    pub fn set(&self, verbosity: u8) -> Result<(), VerbosityError> {
        self.change(|levels| levels.all = verbosity)
    }

    /// Gives a controller a level of its own, or takes it back.
    pub fn set_for(&self, controller: Controller, level: Option<u8>) -> Result<(), VerbosityError> {
        self.change(|levels| match level {
            Some(level) => {
                levels.of.insert(controller, level);
            }
            None => {
                levels.of.remove(&controller);
            }
        })
    }

    /// What it is.
    #[must_use]
    pub fn levels(&self) -> Levels {
        self.0.as_ref().map(|inner| inner.levels.lock().clone()).unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut Levels)) -> Result<(), VerbosityError> {
        let inner = self.0.as_ref().ok_or(VerbosityError::NoLog)?;
        let mut levels = inner.levels.lock();
        let mut changed = levels.clone();
        change(&mut changed);
        inner.handle.reload(EnvFilter::new(changed.filter(false)))?;
        *levels = changed;
        Ok(())
    }
}

/// Sends the log to standard error; with `quiet` only problems, unless a verbosity was asked for. The page gets the lines
/// about reconciles whatever else is logged.
pub fn start(logging: &LoggingArgs, quiet: bool, page: Option<&Reconciles>) -> Result<Verbosity, TraceError> {
    let of = logging.vmodule.iter().map(|own| (own.controller, own.level)).collect();
    let levels = Levels { all: logging.verbosity, of };
    let filter = match std::env::var(FILTER_VARIABLE) {
        Ok(text) => EnvFilter::try_new(text)?,
        Err(_) => EnvFilter::try_new(levels.filter(quiet))?,
    };
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry();
    let layer = fmt::layer().with_writer(io::stderr);
    let page = page.cloned();
    let started = match logging.log_format {
        LogFormat::Text => {
            let layer = layer.with_ansi(io::stderr().is_terminal()).with_target(false);
            registry.with(layer.with_filter(filter)).with(page.map(lines::layer)).try_init()
        }
        LogFormat::Json => {
            registry.with(layer.json().with_filter(filter)).with(page.map(lines::layer)).try_init()
        }
        LogFormat::Logfmt => {
            let layer = layer.with_ansi(false).event_format(Logfmt).fmt_fields(Logfmt);
            registry.with(layer.with_filter(filter)).with(page.map(lines::layer)).try_init()
        }
    };
    started.map_err(|_| TraceError::Twice)?;
    Ok(Verbosity(Some(Arc::new(Inner { handle, levels: Mutex::new(levels) }))))
}
