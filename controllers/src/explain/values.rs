//! Who has an address or a node port, what would free it, and what holds a ServiceCIDR.
//!
//! Pure. Ranges and bands are the allocators' and what holds a range is the ServiceCIDR controller's to say; this puts both
//! together and says it in words.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use service_allocators::NodePortRange;
use service_allocators::ranges::{Objects, Questions, survey};
use service_api::crds::Role;
use service_api::service::{ports, spec_of};

use super::Question;
use super::claims::{has_address, has_port};
use super::kind::Kind;
use super::origin::Origins;
use super::report::others::{AddressExplanation, CidrExplanation, CidrPart, Holding, NodePortExplanation};
use super::report::{API_VERSION, Many, Origin};
use super::service::{changes, events, unknown};
use super::snapshot::Snapshot;
use crate::servicecidr::plan::{self, GRACE, Hold, Range};

/// So many of those that hold a range are named.
const NAMED: usize = 10;

/// Explains an address.
#[must_use]
pub fn address(snapshot: &Snapshot, ip: IpAddr) -> AddressExplanation {
    let origin = Origins::new(snapshot).of_address(ip);
    let having = |role: fn(&Service, IpAddr) -> bool| {
        let all = snapshot.services.iter().filter(move |(_, service)| role(service, ip));
        all.map(|((namespace, name), _)| format!("{namespace}/{name}")).collect::<Vec<_>>()
    };
    let holders = having(has_address);
    let pods = snapshot.pods_with(ip);
    let (holding, message, frees) = held(&origin, &holders, "IPAddress", "cluster IP", &|service| {
        format!(
            "deleting Service {service}, or changing its type to ExternalName; cluster IPs of a Service do not change otherwise"
        )
    });
    let usable = origin.band.is_some();
    let (holding, message, frees) = match holding {
        Holding::Free if !pods.is_empty() => (
            Holding::Pod,
            format!("it is the address of Pod {}, and {}", pods.join(", "), origin.message),
            "the end of the pod; `explain pod` says which Services it backs".to_owned(),
        ),
        Holding::Free if !usable => (
            Holding::Unavailable,
            format!("no Service can have it: it is {}", origin.message),
            "a ServiceCIDR with it would make it available".to_owned(),
        ),
        Holding::Free => (
            holding,
            format!("no Service has it; it is {}", origin.message),
            "it can be had: a Service asks for it with spec.clusterIP".to_owned(),
        ),
        _ => (holding, message, frees),
    };
    let other = |what: &str, services: Vec<String>| {
        services.into_iter().map(|service| format!("{service} ({what})")).collect::<Vec<_>>()
    };
    let mut services = other("cluster IP", holders);
    services.extend(other("external IP", having(has_external)));
    services.extend(other("load balancer", having(has_balancer)));
    AddressExplanation {
        api_version: API_VERSION,
        kind: "AddressExplanation",
        address: ip.to_string(),
        holding,
        message,
        origin,
        services,
        pods,
        frees,
        changes: changes(snapshot, "", &ip.to_string()),
        unknown: unknown(snapshot, "", &ip.to_string()),
    }
}

fn has_external(service: &Service, ip: IpAddr) -> bool {
    spec_of(service).external_ips.iter().flatten().any(|text| text.parse() == Ok(ip))
}

fn has_balancer(service: &Service, ip: IpAddr) -> bool {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    ingress.filter_map(|ingress| ingress.ip.as_deref()).any(|text| text.parse() == Ok(ip))
}

/// Whether a value is taken, by whom in words, and what would free it; whether a free one can be had is not said here.
fn held(
    origin: &Origin,
    holders: &[String],
    object: &str,
    value: &str,
    frees: &dyn Fn(&str) -> String,
) -> (Holding, String, String) {
    let recorded = origin.ledger.as_ref();
    match (holders, recorded) {
        ([], None) => (Holding::Free, String::new(), String::new()),
        ([], Some(facts)) => (
            Holding::Orphaned,
            format!(
                "{object} {} says that it is taken by {}, which does not have it; {}",
                facts.name, facts.holder, origin.message
            ),
            format!("deleting {object} {}; the audit does that when it has seen it often enough", facts.name),
        ),
        ([one], Some(facts)) if facts.holder == format!("services/{one}") => {
            (Holding::Held, format!("it is a {value} of Service {one}; {}", origin.message), frees(one))
        }
        ([one], Some(facts)) => (
            Holding::Contested,
            format!("Service {one} has it, and {object} {} names {} as its holder", facts.name, facts.holder),
            frees(one),
        ),
        ([one], None) => (
            Holding::Unrecorded,
            format!("it is a {value} of Service {one}, and no {object} says so; {}", origin.message),
            frees(one),
        ),
        (several, _) => (
            Holding::Contested,
            format!("several Services have it: {}", several.join(", ")),
            format!("it is free when {} are all gone", several.join(", ")),
        ),
    }
}

/// Explains a node port.
#[must_use]
pub fn node_port(snapshot: &Snapshot, port: u16) -> NodePortExplanation {
    let origins = Origins::new(snapshot);
    let origin = origins.of_port(port);
    let role = origins.port_range(port).map(|(_, _, role, _)| role);
    let having = snapshot.services.iter().filter(|(_, service)| has_port(service, port));
    let holders: Vec<(String, &Service)> =
        having.map(|((namespace, name), service)| (format!("{namespace}/{name}"), service)).collect();
    let names: Vec<String> = holders.iter().map(|(name, _)| name.clone()).collect();
    let (holding, message, frees) = held(&origin, &names, "NodePort", "node port", &|service| {
        format!(
            "deleting Service {service}, changing its type to ClusterIP, removing the port, or asking for another nodePort"
        )
    });
    let (holding, message, frees) = match (holding, role) {
        (Holding::Free, None | Some(Role::Excluded)) => (
            Holding::Unavailable,
            format!("no Service can have it: it is {}", origin.message),
            "a NodePortRange with it would make it available".to_owned(),
        ),
        (Holding::Free, Some(_)) => (
            holding,
            format!("no Service has it; it is {}", origin.message),
            "it can be had: a Service asks for it with spec.ports[].nodePort".to_owned(),
        ),
        _ => (holding, message, frees),
    };
    let ephemeral = NodePortRange::LINUX_EPHEMERAL;
    let clashes = ephemeral.contains(port).then(|| {
        format!("it is one of the ports {ephemeral} that Linux gives to a node's own connections (net.ipv4.ip_local_port_range)")
    });
    NodePortExplanation {
        api_version: API_VERSION,
        kind: "NodePortExplanation",
        port,
        holding,
        message,
        origin,
        services: holders.iter().flat_map(|(name, service)| uses(name, service, port)).collect(),
        clashes: clashes.into_iter().collect(),
        frees,
        changes: changes(snapshot, "", &port.to_string()),
        unknown: unknown(snapshot, "", &port.to_string()),
    }
}

/// What a Service has a node port for.
fn uses(name: &str, service: &Service, port: u16) -> Vec<String> {
    let spec = spec_of(service);
    let number = Some(i32::from(port));
    let own = ports(spec).iter().filter(|entry| entry.node_port == number).map(|entry| {
        let protocol = entry.protocol.as_deref().unwrap_or("TCP");
        let called = entry.name.as_deref().filter(|called| !called.is_empty());
        match called {
            Some(called) => format!("{name} (port {called}, {}/{protocol})", entry.port),
            None => format!("{name} (port {}/{protocol})", entry.port),
        }
    });
    let health = (spec.health_check_node_port == number).then(|| format!("{name} (health check)"));
    own.chain(health).collect()
}

/// Explains a ServiceCIDR; none if it is not there.
#[must_use]
pub fn cidr(snapshot: &Snapshot, name: &str, question: &Question) -> Option<CidrExplanation> {
    let object = snapshot.cidrs.iter().find(|cidr| cidr.metadata.name.as_deref() == Some(name))?;
    let ranges: Vec<Range> = snapshot.cidrs.iter().map(range).collect();
    let own = ranges.iter().find(|range| range.name == name)?;
    let objects = Objects {
        services: snapshot.services.values().cloned().collect(),
        cidrs: snapshot.cidrs.clone(),
        addresses: snapshot.knows(Kind::IpAddress).then(|| snapshot.addresses.values().cloned().collect()),
        ..Objects::default()
    };
    let report = survey(&objects, &Questions { shown: NAMED, ..Questions::default() });
    let of_own = || report.service_cidrs.iter().filter(|part| part.name == name);
    let blockers = Many {
        count: of_own().map(|part| part.blockers.count).sum(),
        first: of_own()
            .flat_map(|part| part.blockers.first.iter().map(ToString::to_string))
            .take(NAMED)
            .collect(),
    };
    let ready = plan::usable(&own.prefixes);
    #[allow(clippy::cast_precision_loss)] // seconds since 1970
    let hold = plan::hold(own, &ranges, &snapshot.index.addresses, GRACE, question.now as f64);
    let (message, frees) = match (own.deleted, &hold) {
        (None, _) if !ready.usable => (ready.message.clone(), "it can be deleted".to_owned()),
        (None, _) => ("addresses are given from it".to_owned(), free_of(&blockers)),
        (Some(_), Hold::Addresses { count, .. }) => {
            (format!("it is being deleted, and {count} addresses hold it"), free_of(&blockers))
        }
        (Some(_), Hold::Notice(left)) => (
            format!(
                "it is being deleted; allocators have {} s more to notice that",
                left.max(&Duration::ZERO).as_secs()
            ),
            "it goes by itself".to_owned(),
        ),
        (Some(_), Hold::Free) => {
            ("it is being deleted, and nothing holds it".to_owned(), "it goes by itself".to_owned())
        }
    };
    let condition = object.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let condition = condition.into_iter().find(|condition| condition.type_ == "Ready");
    Some(CidrExplanation {
        api_version: API_VERSION,
        kind: "ServiceCIDRExplanation",
        name: name.to_owned(),
        usable: ready.usable && own.deleted.is_none(),
        message,
        condition: condition.map(|c| format!("Ready is {} ({}): {}", c.status, c.reason, c.message)),
        deleted: object.metadata.deletion_timestamp.as_ref().map(|time| time.0.to_string()),
        parts: of_own()
            .map(|part| CidrPart {
                cidr: part.cidr.clone(),
                lower: [part.lower.used, part.lower.used + part.lower.free],
                upper: [part.upper.used, part.upper.used + part.upper.free],
                clashes: part.clashes.clone(),
            })
            .collect(),
        blockers,
        frees,
        changes: changes(snapshot, "", name),
        events: events(snapshot, "", name),
        unknown: unknown(snapshot, "", name),
    })
}

fn free_of(blockers: &Many<String>) -> String {
    if blockers.count == 0 {
        return "it can be deleted: all its addresses are free or in another range as well".to_owned();
    }
    format!(
        "{} addresses are in no other range: these Services have to go, or another ServiceCIDR has to have them",
        blockers.count
    )
}

fn range(cidr: &k8s_openapi::api::networking::v1::ServiceCIDR) -> Range {
    let nets = cidr.spec.as_ref().and_then(|spec| spec.cidrs.as_deref()).unwrap_or_default();
    Range {
        name: cidr.metadata.name.clone().unwrap_or_default(),
        prefixes: nets.iter().filter_map(|net| net.parse().ok()).collect(),
        deleted: cidr.metadata.deletion_timestamp.as_ref().map(|time| time.0.as_second()),
    }
}
