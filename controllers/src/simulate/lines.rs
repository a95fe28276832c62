//! What a write of a slice changes, endpoint by endpoint.
//!
//! Pure. Owns the lines of the diff.

use std::fmt::Write as _;

use foldhash::HashMap;

use crate::cache::Endpoint;
use crate::explain::planned::{Pair, difference};

/// A line for each endpoint that comes (`+`), goes (`-`) or changes (`~`).
pub(super) fn of(pair: &Pair) -> Vec<String> {
    let old = pair.old.as_ref().map_or(&[][..], |slice| &slice.endpoints[..]);
    let new = pair.new.as_ref().map_or(&[][..], |slice| &slice.endpoints[..]);
    let by_address = |list: &'_ [Endpoint]| -> HashMap<_, _> {
        list.iter().enumerate().map(|(place, endpoint)| (endpoint.addresses.clone(), place)).collect()
    };
    let (was, is) = (by_address(old), by_address(new));
    let mut lines: Vec<String> = new
        .iter()
        .filter_map(|endpoint| match was.get(&endpoint.addresses) {
            None => Some(format!("+ {}", described(endpoint))),
            Some(place) => {
                difference(&old[*place], endpoint).map(|what| format!("~ {}: {what}", named(endpoint)))
            }
        })
        .collect();
    let gone = old.iter().filter(|endpoint| !is.contains_key(&endpoint.addresses));
    lines.extend(gone.map(|endpoint| format!("- {}", named(endpoint))));
    lines
}

fn named(endpoint: &Endpoint) -> String {
    let addresses: Vec<String> = endpoint.addresses.iter().map(ToString::to_string).collect();
    let pod = endpoint.pod().map(|pod| format!(" {pod}")).unwrap_or_default();
    format!("{}{pod}", addresses.join(","))
}

fn described(endpoint: &Endpoint) -> String {
    let mut text = named(endpoint);
    if let Some(node) = &endpoint.node {
        let _ = write!(text, " on {node}");
    }
    if let Some(zone) = &endpoint.zone {
        let _ = write!(text, " in {zone}");
    }
    text += if endpoint.is_ready() { ", ready" } else { ", not ready" };
    if endpoint.terminating == Some(true) {
        text += ", terminating";
    }
    let hints = endpoint.hints.iter().flat_map(|hints| hints.zones.iter().chain(&hints.nodes));
    let hints: Vec<&str> = hints.map(|name| &**name).collect();
    if !hints.is_empty() {
        let _ = write!(text, ", for {}", hints.join(","));
    }
    text
}
