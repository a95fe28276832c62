//! The labels of the series, and their values.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use crate::cache::Hinting;
use crate::controller::Controller;

/// A label value out of a fixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Word(pub(super) &'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        EncodeLabelValue::encode(&self.0, encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OperationLabel {
    pub(super) operation: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabel {
    pub(super) reason: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabel {
    pub(super) result: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TrafficLabel {
    pub(super) traffic_distribution: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WatchLabel {
    pub(super) kind: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct QueueLabel {
    name: Word,
}

impl QueueLabel {
    /// The name that upstream's queue of that controller has.
    pub(super) fn of(controller: Controller) -> Self {
        Self {
            name: Word(match controller {
                Controller::Slices => "endpoint_slice",
                Controller::Endpoints => "endpoint",
                Controller::Mirrors => "endpoint_slice_mirroring",
                Controller::Cidrs => "ipaddresses",
                // Not upstream's.
                other => other.name(),
            }),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LeaseLabel {
    pub(super) name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HintingLabels {
    topology: Word,
    traffic_distribution: Word,
}

impl HintingLabels {
    pub(super) fn of(hinting: Hinting) -> Self {
        let (topology, traffic) = match hinting {
            Hinting::TopologyMode => ("Auto", ""),
            Hinting::Field(traffic) => ("Disabled", traffic.name()),
            Hinting::Off => ("Disabled", ""),
        };
        Self { topology: Word(topology), traffic_distribution: Word(traffic) }
    }
}
