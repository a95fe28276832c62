//! What the plan of a Service's slices is made from.

use std::sync::Arc;

use foldhash::HashMap;

use crate::cache::{Node, Pod, Seconds, Service, Slice};
use crate::index::topology::Topology;
use crate::text::Text;

/// All that decides over the slices of one Service.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    /// The Service.
    pub service: &'a Service,
    /// The slices that carry its name and this controller's.
    pub slices: &'a [Arc<Slice>],
    /// Nodes by name.
    pub nodes: &'a HashMap<Text, Node>,
    /// The zones' shares of the cluster's CPU.
    pub topology: &'a Topology,
    /// At most so many endpoints are put into one slice.
    pub max_per_slice: usize,
    /// The moment of the change behind this plan, for the annotation.
    pub trigger: Option<Seconds>,
}

/// Which pods the plan has to look at.
#[derive(Debug)]
pub(crate) enum Scope<'a> {
    /// These are all pods of the Service.
    All(Vec<&'a Pod>),
    /// Only these pods have changed since the slices were last put right; a pod that is no longer
    /// the Service's is given without its state.
    Pods {
        /// The changed pods by name.
        changed: Vec<(Text, Option<&'a Pod>)>,
        /// Positions in [`Inputs::slices`] of the slices that hold endpoints of these pods.
        touched: Vec<usize>,
    },
}
