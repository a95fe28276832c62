//! A write that was carried out, as it is told.

use std::time::Duration;

use crate::api::{Resource, Verb};

/// A write that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What was done.
    pub verb: Verb,
    /// To an object of this kind.
    pub resource: Resource,
    /// And of this name.
    pub name: String,
    /// The version of the object before, if there was one that is known.
    pub before: Option<u64>,
    /// Its version now, if the server said it.
    pub after: Option<u64>,
    /// For a slice: the endpoints that are in it now.
    pub endpoints: Option<usize>,
    /// Its place among the writes of the look, from 0.
    pub place: u64,
    /// How long after the start of the look it was sent.
    pub sent: Duration,
    /// How long its answer took.
    pub took: Duration,
}
