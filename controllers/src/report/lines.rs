//! Lines of the log that are a controller's: each has the target of that controller, so that its level can be set by itself.

use crate::controller::{Controller, Key};

/// The fields that name the object of a line, by what a controller works for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Named<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) service: Option<&'a str>,
    pub(crate) servicecidr: Option<&'a str>,
    pub(crate) nodeportrange: Option<&'a str>,
    pub(crate) servicepool: Option<&'a str>,
}

impl<'a> Named<'a> {
    /// The object of a key.
    pub(crate) fn of(key: &'a Key) -> Self {
        let (name, none) = (Some(&*key.name), Self::default());
        match key.controller {
            Controller::Cidrs => Self { servicecidr: name, ..none },
            Controller::PortRanges => Self { nodeportrange: name, ..none },
            Controller::Pools => Self { servicepool: name, ..none },
            _ => Self { namespace: Some(&*key.namespace), service: name, ..none },
        }
    }
}

/// Writes a line about what a controller does: the controller, the level, fields, message.
macro_rules! line_of {
    ($controller:expr, $level:ident, $($line:tt)*) => {
        $crate::report::lines::for_target!($controller, tracing::$level!, ($($line)*))
    };
}

/// Whether somebody takes lines of a controller at a level.
macro_rules! enabled_of {
    ($controller:expr, $level:ident) => {
        $crate::report::lines::for_target!(
            $controller,
            tracing::event_enabled!,
            (tracing::Level::$level, controller)
        )
    };
}

/// A span about what a controller does: the controller, the level, the name, fields.
macro_rules! span_of {
    ($controller:expr, $level:ident, $($span:tt)*) => {
        $crate::report::lines::for_target!($controller, tracing::$level!, ($($span)*))
    };
}

/// Calls a macro with the target of a controller, which has to be known when this is compiled.
macro_rules! for_target {
    ($controller:expr, $($called:ident)::+ !, ($($rest:tt)*)) => {{
        use $crate::controller::Controller as Of;
        match $controller {
            Of::Slices => $($called)::+!(target: Of::Slices.names().target, $($rest)*),
            Of::Endpoints => $($called)::+!(target: Of::Endpoints.names().target, $($rest)*),
            Of::Mirrors => $($called)::+!(target: Of::Mirrors.names().target, $($rest)*),
            Of::Cidrs => $($called)::+!(target: Of::Cidrs.names().target, $($rest)*),
            Of::Allocation => $($called)::+!(target: Of::Allocation.names().target, $($rest)*),
            Of::Addresses => $($called)::+!(target: Of::Addresses.names().target, $($rest)*),
            Of::NodePorts => $($called)::+!(target: Of::NodePorts.names().target, $($rest)*),
            Of::PortRanges => $($called)::+!(target: Of::PortRanges.names().target, $($rest)*),
            Of::Pools => $($called)::+!(target: Of::Pools.names().target, $($rest)*),
        }
    }};
}

pub(crate) use {enabled_of, for_target, line_of, span_of};
