//! Explanations of pods, slices, addresses, node ports and ServiceCIDRs as text.
//!
//! Owns the order on the page.

use service_controllers::explain::report::others::{
    AddressExplanation, CidrExplanation, Holding, NodePortExplanation, PodExplanation, SliceExplanation,
};

use super::{Page, Row, named, plain, pod_row, slice_row};
use crate::paint::{Look, Paint};

/// The page of a pod.
pub(in super::super) fn pod(found: &PodExplanation, paint: Paint, show: usize) -> String {
    let mut page = Page::new(paint, show);
    let pod = &found.pod;
    let mut said: Vec<String> = Vec::new();
    said.push(pod.node.as_ref().map_or("on no node".to_owned(), |node| format!("on {node}")));
    said.push(if pod.addresses.is_empty() { "no address".to_owned() } else { pod.addresses.join(" ") });
    said.push(if pod.ready { "ready" } else { "not ready" }.to_owned());
    said.extend(pod.terminating.then(|| "being deleted".to_owned()));
    page.title(&format!("Pod {}/{}", pod.namespace, pod.name), &said.join(", "));
    page.findings(&found.findings);
    if !found.services.is_empty() {
        page.heading("SERVICES");
        let rows: Vec<Row> = found
            .services
            .iter()
            .map(|of| {
                let mut row = pod_row(&of.verdict);
                row[0] = plain(&of.service);
                row
            })
            .collect();
        page.table(&rows);
    }
    if !found.near_services.is_empty() {
        page.heading("SERVICES THAT ALMOST SELECT IT");
        for near in &found.near_services {
            page.line(Look::Yellow, &format!("{}: its labels {}", near.service, near.message));
        }
    }
    page.history(&found.changes, &found.events, &found.unknown);
    page.out
}

/// The page of a slice.
pub(in super::super) fn slice(found: &SliceExplanation, paint: Paint, show: usize) -> String {
    let mut page = Page::new(paint, show);
    let of = if found.service.is_empty() {
        "of no Service".to_owned()
    } else {
        format!("of Service {}", found.service)
    };
    page.title(&format!("EndpointSlice {}/{}", found.namespace, found.slice.name), &of);
    page.findings(&found.findings);
    page.table(&[slice_row(&found.slice)]);
    if !found.endpoints.is_empty() {
        page.heading("ENDPOINTS");
        let flag = |name: &str, value: Option<bool>| value.map(|value| format!("{name}={value}"));
        let rows: Vec<Row> = found
            .endpoints
            .iter()
            .take(show)
            .map(|endpoint| {
                let of = &endpoint.conditions;
                let flags = [
                    flag("ready", of.ready),
                    flag("serving", of.serving),
                    flag("terminating", of.terminating),
                ];
                let hints = endpoint.hints.iter().flat_map(|hints| hints.zones.iter().chain(&hints.nodes));
                let hints: Vec<&str> = hints.map(String::as_str).collect();
                let verdict = endpoint.verdict.as_ref();
                let why = verdict.map(|verdict| format!("{}: {}", verdict.reason, verdict.message));
                vec![
                    plain(endpoint.addresses.join(" ")),
                    plain(endpoint.pod.clone().unwrap_or_default()),
                    plain(flags.into_iter().flatten().collect::<Vec<_>>().join(" ")),
                    plain(if hints.is_empty() { String::new() } else { format!("for {}", hints.join(",")) }),
                    plain(why.unwrap_or_default()),
                ]
            })
            .collect();
        page.table(&rows);
        page.more(found.endpoints.len());
    }
    page.history(&found.changes, &found.events, &found.unknown);
    page.out
}

fn look(holding: Holding) -> Look {
    match holding {
        Holding::Held | Holding::Free | Holding::Pod => Look::Green,
        Holding::Unrecorded | Holding::Orphaned | Holding::Unavailable => Look::Yellow,
        Holding::Contested => Look::Red,
    }
}

/// The page of an address.
pub(in super::super) fn address(found: &AddressExplanation, paint: Paint, show: usize) -> String {
    let mut page = Page::new(paint, show);
    page.title(&found.address, "");
    page.line(look(found.holding), &format!("{:?}: {}", found.holding, found.message));
    page.list("Services", &found.services);
    page.list("Pods", &found.pods);
    page.line(Look::Plain, &format!("What would free it: {}", found.frees));
    page.history(&found.changes, &[], &found.unknown);
    page.out
}

/// The page of a node port.
pub(in super::super) fn node_port(found: &NodePortExplanation, paint: Paint, show: usize) -> String {
    let mut page = Page::new(paint, show);
    page.title(&format!("Node port {}", found.port), "");
    page.line(look(found.holding), &format!("{:?}: {}", found.holding, found.message));
    page.list("Services", &found.services);
    for clash in &found.clashes {
        page.line(Look::Yellow, clash);
    }
    page.line(Look::Plain, &format!("What would free it: {}", found.frees));
    page.history(&found.changes, &[], &found.unknown);
    page.out
}

/// The page of a ServiceCIDR.
pub(in super::super) fn cidr(found: &CidrExplanation, paint: Paint, show: usize) -> String {
    let mut page = Page::new(paint, show);
    page.title(&format!("ServiceCIDR {}", found.name), "");
    page.line(if found.usable { Look::Green } else { Look::Yellow }, &found.message);
    if let Some(condition) = &found.condition {
        page.line(Look::Plain, &format!("Its condition {condition}"));
    }
    let rows: Vec<Row> = found
        .parts
        .iter()
        .map(|part| {
            let of = |band: [u64; 2]| format!("{}/{}", band[0], band[1]);
            vec![
                plain(&part.cidr),
                plain(format!("{} of the lower band taken", of(part.lower))),
                plain(format!("{} of the upper band taken", of(part.upper))),
            ]
        })
        .collect();
    page.table(&rows);
    for clash in found.parts.iter().flat_map(|part| part.clashes.iter().map(move |clash| (part, clash))) {
        page.line(Look::Yellow, &format!("{} {}", clash.0.cidr, clash.1));
    }
    page.line(Look::Plain, &format!("What would free it: {}{}", found.frees, named(&found.blockers)));
    page.history(&found.changes, &found.events, &found.unknown);
    page.out
}
