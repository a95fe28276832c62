//! What another value of `--service-cluster-ip-range` or `--service-node-port-range` would mean.
//!
//! Owns the comparison of Services with ranges that do not exist. It changes nothing.

use ipnet::IpNet;
use service_api::crds::Role;
use service_api::service::spec_of;

use super::{Band, NodePortRange, Outlook, Stray, Survey, clash};
use crate::bands::address_band;
use crate::pick::Piece;
use crate::port::{PortLedger, PortSharing};
use crate::prefix::{Family, ServicePrefix};
use crate::{free::FreeSet, spec};

pub(super) fn outlook(survey: &Survey<'_>) -> Vec<Outlook> {
    let mut all: Vec<Outlook> = survey.questions.if_cidrs.iter().map(|net| cidr(survey, *net)).collect();
    all.extend(survey.questions.if_node_ports.map(|range| ports(survey, range)));
    all
}

fn cidr(survey: &Survey<'_>, net: IpNet) -> Outlook {
    let clashes = clash::of_network(net, survey.objects);
    let prefix = match ServicePrefix::new(net) {
        Ok(prefix) if prefix.usable() > 0 => prefix,
        other => {
            let fault =
                other.err().map_or_else(|| "has no address for a Service".to_owned(), |e| e.to_string());
            return Outlook {
                range: net.to_string(),
                fault: Some(fault),
                lower: Band::default(),
                upper: Band::default(),
                moves: survey.many([]),
                clashes,
            };
        }
    };
    let mut set = FreeSet::new(prefix.usable());
    for address in survey.holders.keys() {
        if let Some(offset) = prefix.offset(*address) {
            set.insert(offset);
        }
    }
    let band = address_band(prefix.size()).min(prefix.usable());
    let count = |from: u64, to: u64| {
        let piece = Piece::new(&set, 0, from.into(), to.into());
        Band { used: piece.taken(), free: piece.free() }
    };
    let family = prefix.family();
    let moves = survey.objects.services.iter().flat_map(|service| {
        let key = spec::key(service);
        let own = spec::held_addresses(spec_of(service)).into_iter().filter(|ip| Family::of(*ip) == family);
        let outside = own.filter(|ip| prefix.offset(*ip).is_none());
        outside.map(|ip| Stray { service: key.to_string(), value: ip.to_string() }).collect::<Vec<_>>()
    });
    Outlook {
        range: net.to_string(),
        fault: None,
        lower: count(0, band),
        upper: count(band, prefix.usable()),
        moves: survey.many(moves),
        clashes,
    }
}

fn ports(survey: &Survey<'_>, range: NodePortRange) -> Outlook {
    const NAME: &str = "outlook";
    let mut ledger = PortLedger::without_ranges(PortSharing::WithinService);
    ledger.set_range(NAME, range, Role::Dynamic, None);
    for (port, holders) in survey.ledger.ports.held() {
        for holder in holders {
            ledger.hold(port, &holder.owner, holder.protocols);
        }
    }
    let [lower, upper] = ledger.fill(NAME).unwrap_or_default();
    let outside = survey.ledger.ports.held().filter(|(port, _)| !range.contains(*port));
    let moves = outside.flat_map(|(port, holders)| {
        holders
            .iter()
            .map(move |h| Stray { service: h.owner.to_string(), value: format!("node port {port}") })
    });
    Outlook {
        range: range.to_string(),
        fault: None,
        lower: Band::of(lower),
        upper: Band::of(upper),
        moves: survey.many(moves),
        clashes: clash::of_ports(range, survey.questions.ephemeral),
    }
}
