//! How much is logged: one level for all, and one for each controller that has one of its own. Pure.

use std::collections::BTreeMap;
use std::str::FromStr;

use service_controllers::controller::Controller;

/// What the client and its TLS say of a failed request, whoever made it says too, and knows what for.
const TOLD_ELSEWHERE: &str =
    "kube_client::client::builder=off,kube_client::client::tls=off,rustls_platform_verifier=off";
/// What is ours.
const OURS: [&str; 4] =
    ["service_lab", "service_controllers", "service_nodeproxy", "service_controller_manager"];

/// All controllers that write lines of their own.
fn controllers() -> impl Iterator<Item = Controller> {
    Controller::ALL.into_iter().chain(Controller::OF_THE_LEDGER)
}

/// A controller by the name that `--controllers` has for it.
///
/// # Errors
/// The names that there are, if there is none of that name.
pub fn controller(name: &str) -> Result<Controller, UnknownController> {
    controllers().find(|controller| controller.name() == name).ok_or_else(|| {
        let names: Vec<&str> = controllers().map(Controller::name).collect();
        UnknownController { name: name.to_owned(), known: names.join(", ") }
    })
}

/// A name that no controller has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no controller with a level of its own; there are {known}")]
pub struct UnknownController {
    name: String,
    known: String,
}

/// The level of a controller, as `endpoints-controller=4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerLevel {
    /// Whose.
    pub controller: Controller,
    /// What `--v` takes.
    pub level: u8,
}

/// A text that is no level of a controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControllerLevelError {
    /// It has no `=`, or no number behind it.
    #[error("it must be CONTROLLER=LEVEL, such as endpointslice-controller=4")]
    Form,
    /// There is no such controller.
    #[error(transparent)]
    Unknown(#[from] UnknownController),
}

impl FromStr for ControllerLevel {
    type Err = ControllerLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, level) = text.split_once('=').ok_or(ControllerLevelError::Form)?;
        let level = level.parse().map_err(|_| ControllerLevelError::Form)?;
        Ok(Self { controller: controller(name)?, level })
    }
}

/// How much is logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels {
    /// What `--v` takes.
    pub all: u8,
    /// Of those that have one of their own.
    pub of: BTreeMap<Controller, u8>,
}

impl Levels {
    /// As a filter of `tracing-subscriber`; with `quiet` only problems, unless a level was asked for.
    #[must_use]
    pub fn filter(&self, quiet: bool) -> String {
        let mut filter = general(self.all, quiet);
        if !self.of.is_empty() {
            // The target of one may begin as that of another: each is named.
            for controller in controllers() {
                let level =
                    self.of.get(&controller).map_or_else(|| ours(self.all, quiet), |own| ours(*own, false));
                filter.extend([",", controller.names().target, "=", level]);
            }
        }
        filter
    }
}

/// The level of what is ours.
const fn ours(verbosity: u8, quiet: bool) -> &'static str {
    match verbosity {
        0 if quiet => "warn",
        0..=3 => "info",
        4..=5 => "debug",
        _ => "trace",
    }
}

/// Levels for a verbosity: ours as asked, those below us a step quieter.
fn general(verbosity: u8, quiet: bool) -> String {
    let below = match verbosity {
        0..=3 => "warn",
        4..=5 => "info",
        // What HTTP and TLS do with their frames is for those who ask for all.
        6..=7 => "debug,h2=info,hyper=info,hyper_util=info,rustls=info,tower=info",
        _ => return "trace".to_owned(),
    };
    let own: String = OURS.iter().flat_map(|root| [",", root, "=", ours(verbosity, quiet)]).collect();
    let told = if verbosity < 6 { format!(",{TOLD_ELSEWHERE}") } else { String::new() };
    format!("{below}{told}{own}")
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::EnvFilter;

    use super::*;

    #[test]
    fn every_verbosity_has_a_filter() {
        for all in 0..=10 {
            for quiet in [false, true] {
                for of in [BTreeMap::new(), BTreeMap::from([(Controller::Endpoints, 4)])] {
                    let filter = Levels { all, of }.filter(quiet);
                    assert!(EnvFilter::try_new(&filter).is_ok(), "{filter}");
                }
            }
        }
    }

    #[test]
    fn a_failed_request_is_told_once_unless_all_is_wanted() {
        for (all, told_twice) in [(0, false), (5, false), (6, true)] {
            let filter = Levels { all, of: BTreeMap::new() }.filter(false);
            assert_eq!(!filter.contains(TOLD_ELSEWHERE), told_twice, "{filter}");
        }
    }

    #[test]
    fn a_controller_of_its_own_leaves_the_others_alone() {
        let levels = Levels { all: 0, of: BTreeMap::from([(Controller::Endpoints, 4)]) };
        let filter = levels.filter(false);
        assert!(filter.contains(",service_controllers::endpoints=debug"), "{filter}");
        assert!(filter.contains(",service_controllers::endpointslice=info"), "{filter}");
    }

    #[test]
    fn a_level_is_read_by_the_name_of_the_controller() {
        let read = "service-cidr-controller=6".parse::<ControllerLevel>();
        assert_eq!(read, Ok(ControllerLevel { controller: Controller::Cidrs, level: 6 }));
        for (text, part) in
            [("endpoints-controller", "CONTROLLER=LEVEL"), ("a=4", "there are endpointslice-controller")]
        {
            let error = text.parse::<ControllerLevel>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
