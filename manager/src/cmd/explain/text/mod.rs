//! Explanations as text for people.
//!
//! Owns the order on the page and what of a long list is shown: what is wrong before what is right.

mod others;

use std::fmt::Write as _;

use service_controllers::explain::report::{
    AddressFacts, Change, EndpointsFacts, EventFacts, FamilyVerdict, Finding, HintFacts, Many, NearMiss,
    PodState, PodVerdict, PortFacts, ServiceExplanation, Severity, SliceFacts, SliceState, Unknown,
    ZoneFacts,
};

use crate::paint::{Look, Paint};

pub(super) use others::{address, cidr, node_port, pod, slice};

/// The page of a Service.
pub(super) fn service(found: &ServiceExplanation, paint: Paint, show: usize) -> String {
    let mut page = Page::new(paint, show);
    page.head(found);
    page.values(found);
    page.pods(found);
    page.near_misses(&found.near_misses);
    page.slices(&found.slices);
    page.hints(&found.hints);
    page.endpoints(found.endpoints.as_ref());
    for policy in &found.traffic_policies {
        page.heading("TRAFFIC POLICY");
        let named = named(&policy.nodes_that_drop);
        page.line(Look::Plain, &format!("{}{named}", policy.message));
    }
    page.history(&found.changes, &found.events, &found.unknown);
    page.out
}

struct Page {
    out: String,
    paint: Paint,
    show: usize,
}

type Row = Vec<(Look, String)>;

fn plain(text: impl Into<String>) -> (Look, String) {
    (Look::Plain, text.into())
}

/// The first of many, as a list behind a sentence.
fn named(many: &Many<String>) -> String {
    let more = many.count.saturating_sub(many.first.len());
    match (many.first.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", many.first.join(", ")),
        (false, more) => format!(": {} and {more} more", many.first.join(", ")),
    }
}

impl Page {
    fn new(paint: Paint, show: usize) -> Self {
        Self { out: String::new(), paint, show }
    }

    /// What it is, in the first line.
    fn title(&mut self, what: &str, said: &str) {
        let what = self.paint.text(Look::Bold, what);
        let colon = if said.is_empty() { "" } else { ": " };
        let _ = writeln!(self.out, "{what}{colon}{said}");
    }

    fn findings(&mut self, findings: &[Finding]) {
        for finding in findings {
            let look = match finding.severity {
                Severity::Problem => Look::Red,
                Severity::Warning => Look::Yellow,
                Severity::Note => Look::Plain,
            };
            let text = format!("{:?} {}: {}", finding.severity, finding.reason, finding.message);
            self.line(look, &text);
        }
    }

    /// A line with a short list, if there is anything in it.
    fn list(&mut self, what: &str, names: &[String]) {
        if !names.is_empty() {
            self.line(Look::Plain, &format!("{what}: {}", names.join(", ")));
        }
    }

    /// How many of so many are not shown.
    fn more(&mut self, all: usize) {
        if let Some(more) = all.checked_sub(self.show).filter(|more| *more > 0) {
            self.line(Look::Faint, &format!("and {more} more; --show {all} shows all"));
        }
    }

    fn heading(&mut self, text: &str) {
        let text = self.paint.text(Look::Bold, text);
        let _ = writeln!(self.out, "\n{text}");
    }

    fn line(&mut self, look: Look, text: &str) {
        let text = self.paint.text(look, text);
        let _ = writeln!(self.out, "  {text}");
    }

    fn table(&mut self, rows: &[Row]) {
        self.out += &self.paint.table(rows);
    }

    fn head(&mut self, found: &ServiceExplanation) {
        let service = &found.service;
        let selector: Vec<String> =
            service.selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut said = vec![service.r#type.clone()];
        said.extend(service.headless.then(|| "headless".to_owned()));
        said.push(service.families.join(" and "));
        said.push(if selector.is_empty() {
            "no selector".to_owned()
        } else {
            format!("selector {}", selector.join(","))
        });
        said.extend(service.publish_not_ready_addresses.then(|| "publishNotReadyAddresses".to_owned()));
        said.extend((service.hinting != "Off").then(|| format!("hints by {}", service.hinting)));
        self.title(&format!("Service {}/{}", service.namespace, service.name), &said.join(", "));
        self.findings(&found.findings);
    }

    fn values(&mut self, found: &ServiceExplanation) {
        if !found.addresses.is_empty() {
            self.heading("ADDRESSES");
            let row = |fact: &AddressFacts| {
                vec![plain(fact.role), plain(&fact.address), plain(&fact.origin.message)]
            };
            let rows: Vec<Row> = found.addresses.iter().map(row).collect();
            self.table(&rows);
        }
        if !found.ports.is_empty() {
            self.heading("PORTS");
            let row = |fact: &PortFacts| {
                let target = fact.target_port.as_deref().map(|target| format!(" -> {target}"));
                let node = fact.node_port.map(|port| format!("node port {port}")).unwrap_or_default();
                let origin = fact.origin.as_ref().map(|origin| origin.message.clone()).unwrap_or_default();
                let name = if fact.name.is_empty() { "-" } else { &fact.name };
                let port = format!("{}/{}{}", fact.port, fact.protocol, target.unwrap_or_default());
                vec![plain(name), plain(port), plain(node), plain(origin)]
            };
            let rows: Vec<Row> = found.ports.iter().map(row).collect();
            self.table(&rows);
        }
    }

    fn pods(&mut self, found: &ServiceExplanation) {
        let counts = &found.counts;
        if counts.selected == 0 {
            return;
        }
        self.heading(&format!(
            "PODS: {} selected, {} ready, {} not ready, {} left out",
            counts.selected, counts.ready, counts.not_ready, counts.left_out
        ));
        let mut pods: Vec<&PodVerdict> = found.pods.iter().collect();
        // What is wrong is what is looked for; each part keeps the order of the names.
        pods.sort_by_key(|pod| {
            (
                std::cmp::Reverse(pod.state),
                pod.missing_ports.is_empty(),
                !pod.families.iter().any(|f| f.pending.is_some()),
            )
        });
        let rows: Vec<Row> = pods.iter().take(self.show).map(|pod| pod_row(pod)).collect();
        self.table(&rows);
        self.more(pods.len());
    }

    fn near_misses(&mut self, near: &[NearMiss]) {
        if near.is_empty() {
            return;
        }
        self.heading("ALMOST MATCH");
        for miss in near {
            let count = miss.pods.count;
            let pods = if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
            self.line(
                Look::Yellow,
                &format!("{pods}, {}: {}{}", miss.reason, miss.message, named(&miss.pods)),
            );
        }
    }

    fn slices(&mut self, slices: &[SliceFacts]) {
        if slices.is_empty() {
            return;
        }
        self.heading(&format!("SLICES: {}", slices.len()));
        let mut shown: Vec<&SliceFacts> = slices.iter().collect();
        shown.sort_by_key(|slice| slice.state == SliceState::Right);
        let rows: Vec<Row> = shown.iter().take(self.show).map(|slice| slice_row(slice)).collect();
        self.table(&rows);
        self.more(slices.len());
    }

    fn hints(&mut self, hints: &[HintFacts]) {
        for facts in hints.iter().filter(|facts| facts.reason != "Off") {
            self.heading(&format!("HINTS: {}", facts.family));
            let look = if facts.given { Look::Green } else { Look::Yellow };
            self.line(look, &format!("{}: {}", facts.reason, facts.message));
            let row = |zone: &ZoneFacts| {
                let name = if zone.zone.is_empty() { "in no zone" } else { &zone.zone };
                let share = zone.cpu_share.map(|share| format!("{:.0}% of the CPU", share * 100.0));
                let least = zone.at_least.map(|least| format!("at least {least} endpoints"));
                vec![
                    plain(name),
                    plain(format!("{} ready", zone.ready)),
                    plain(format!("{} hinted here", zone.hinted)),
                    plain([share, least].into_iter().flatten().collect::<Vec<_>>().join(", ")),
                ]
            };
            let rows: Vec<Row> = facts.zones.iter().map(row).collect();
            self.table(&rows);
        }
    }

    fn endpoints(&mut self, facts: Option<&EndpointsFacts>) {
        let Some(facts) = facts.filter(|facts| facts.exists || facts.state != "None") else { return };
        self.heading("ENDPOINTS OBJECT");
        let look = if facts.state.starts_with("To") { Look::Yellow } else { Look::Plain };
        self.line(look, &format!("{}: {}", facts.state, facts.message));
        if facts.only_in_slices.count > 0 {
            let named = named(&facts.only_in_slices);
            self.line(
                Look::Plain,
                &format!("{} addresses are in slices alone{named}", facts.only_in_slices.count),
            );
        }
        if facts.only_in_endpoints.count > 0 {
            let (count, named) = (facts.only_in_endpoints.count, named(&facts.only_in_endpoints));
            self.line(Look::Plain, &format!("{count} addresses are in it alone{named}"));
        }
    }

    fn history(&mut self, changes: &[Change], events: &[EventFacts], unknown: &[Unknown]) {
        if !changes.is_empty() {
            self.heading("LAST CHANGES");
            let row = |change: &Change| {
                vec![
                    plain(&change.time),
                    plain(&change.object),
                    plain(&change.operation),
                    plain(&change.manager),
                ]
            };
            let rows: Vec<Row> = changes.iter().take(self.show).map(row).collect();
            self.table(&rows);
        }
        if !events.is_empty() {
            self.heading("EVENTS");
            let row = |event: &EventFacts| {
                let look = if event.r#type == "Warning" { Look::Yellow } else { Look::Plain };
                let times = if event.count > 1 { format!("{}x", event.count) } else { String::new() };
                vec![plain(&event.time), (look, event.reason.clone()), plain(times), plain(&event.message)]
            };
            let rows: Vec<Row> = events.iter().take(self.show).map(row).collect();
            self.table(&rows);
        }
        if !unknown.is_empty() {
            self.heading("NOT KNOWN");
            for unknown in unknown {
                self.line(Look::Faint, &format!("{}: {}; {}", unknown.kind, unknown.why, unknown.means));
            }
        }
    }
}

fn pod_row(pod: &PodVerdict) -> Row {
    let look = match pod.state {
        PodState::Ready => Look::Green,
        PodState::NotReady => Look::Yellow,
        PodState::LeftOut => Look::Red,
    };
    let mut why = pod.message.clone();
    for family in pod.families.iter().filter(|family| family.state != pod.state) {
        let _ = write!(why, "; in {} {:?}: {}", family.family, family.state, family.reason);
    }
    for pending in pod.families.iter().filter_map(|family| family.pending.as_ref()) {
        let _ = write!(why, "; {pending}");
    }
    if let Some(reason) = pod.not_in_endpoints {
        let _ = write!(why, "; not in the Endpoints object: {reason}");
    }
    let places: Vec<String> = pod.families.iter().filter_map(place).collect();
    vec![
        plain(&pod.name),
        (look, format!("{:?}", pod.state)),
        plain(pod.reason.to_string()),
        plain(places.join(" ")),
        plain(pod.zone.as_ref().map_or_else(
            || pod.node.clone().unwrap_or_default(),
            |zone| format!("{} in {zone}", pod.node.as_deref().unwrap_or_default()),
        )),
        plain(why),
    ]
}

/// The slice that a pod is in, and whom it is hinted to serve there.
fn place(family: &FamilyVerdict) -> Option<String> {
    let slice = family.slice.as_ref()?;
    let hints = family.hints.as_ref().map(|hints| {
        let all: Vec<&str> = hints.zones.iter().chain(&hints.nodes).map(String::as_str).collect();
        format!(" for {}", all.join(","))
    });
    Some(format!("{slice}{}", hints.unwrap_or_default()))
}

fn slice_row(slice: &SliceFacts) -> Row {
    let look = match slice.state {
        SliceState::Right => Look::Green,
        SliceState::NotOurs => Look::Plain,
        SliceState::ToUpdate | SliceState::ToCreate | SliceState::ToDelete => Look::Yellow,
    };
    let full = slice.capacity.map_or_else(String::new, |capacity| format!("/{capacity}"));
    let by = match slice.state {
        SliceState::NotOurs => {
            slice.managed_by.as_ref().map_or("by hand".to_owned(), |by| format!("by {by}"))
        }
        _ => slice.change.clone().unwrap_or_default(),
    };
    let since = slice.trigger_time.as_ref().map(|time| format!("for a change at {time}"));
    let said: Vec<String> = [Some(by).filter(|by| !by.is_empty()), since].into_iter().flatten().collect();
    vec![
        plain(&slice.name),
        plain(&slice.family),
        (look, format!("{:?}", slice.state)),
        plain(format!("{}{full} endpoints, {} ready", slice.endpoints, slice.ready)),
        plain(if slice.ports.is_empty() { "no ports".to_owned() } else { slice.ports.join(" ") }),
        plain(said.join("; ")),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use service_controllers::explain::{self, Kind, Question, Snapshot, Subject};

    use super::*;

    #[test]
    fn what_is_wrong_stands_first() {
        let subject = Subject::Service { namespace: "demo".into(), name: "web".into() };
        let mut snapshot = Snapshot::new(subject);
        let objects = [
            (
                Kind::Service,
                json!({"metadata": {"name": "web", "namespace": "demo"}, "spec": {"type": "ClusterIP", "ipFamilies": ["IPv4"],
                    "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "selector": {"app": "web", "tier": "x"}, "ports": [{"port": 80}]}}),
            ),
            (
                Kind::Pod,
                json!({"metadata": {"name": "p", "namespace": "demo", "labels": {"app": "web", "tier": "y"}}}),
            ),
        ];
        for (kind, object) in objects {
            snapshot.add(kind, &serde_json::to_vec(&object).unwrap()).unwrap();
        }
        snapshot.know(Kind::Node);
        let found = explain::service(&snapshot, "demo", "web", &Question::default()).unwrap();
        let expected = "\
Service demo/web: ClusterIP, IPv4, selector app=web,tier=x
  Problem NoPods: its selector matches no pod; 1 almost match: they have tier=y, and the selector wants tier=x
  Note SlicesUnknown: its slices are not known: what is said is what should be

ADDRESSES
  ClusterIP  10.96.0.9  the ranges are not known

PORTS
  -  80/TCP

ALMOST MATCH
  1 pod, OneLabelOff: they have tier=y, and the selector wants tier=x: p

NOT KNOWN
  managedFields: the objects come without them; kubectl prints them with --show-managed-fields; who changed what is not known
";
        assert_eq!(service(&found, Paint::plain(), 20), expected);
    }
}
