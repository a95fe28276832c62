//! What a ServicePool object says, read once.
//!
//! Owns the reading of selectors, parts and reservations, and what is wrong with one pool by itself. It knows no other
//! pool and nothing that is taken.

use std::collections::BTreeMap;

use ipnet::IpNet;
use service_api::address::parse_lenient;
use service_api::crds::servicepool::Reservation;
use service_api::crds::{Fallback, ServicePool};
use service_api::labels::Selector;

use super::{Key, Kind, Seconds, Value};
use crate::bands::{address_band, port_band};
use crate::plan::Ledger;
use crate::port::NodePortRange;
use crate::prefix::{Family, number};

/// What is wrong with a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolFault {
    /// The pool's name.
    pub pool: String,
    /// What is wrong, as a sentence without its end.
    pub text: String,
}

/// Neighbouring values of one kind.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub(super) kind: Kind,
    pub(super) first: Key,
    /// The first key behind it.
    pub(super) end: Key,
    /// The first key of the upper band.
    pub(super) upper: Key,
    /// As the object spells it.
    pub(super) text: String,
    source: Source,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    Net(IpNet),
    Ports(NodePortRange),
}

impl Stretch {
    fn of_net(net: IpNet, band: Option<i64>) -> Self {
        let first = number(net.network());
        // An address is its number less one; the zero address is in no range.
        let (first, end) = (first.saturating_sub(1), number(net.broadcast()));
        let band = band.map_or_else(
            || address_band(end.saturating_sub(first)),
            |band| u64::try_from(band).unwrap_or_default(),
        );
        Self {
            kind: Kind::of(Family::of(net.addr())),
            first,
            end,
            upper: (first + Key::from(band)).min(end),
            text: net.to_string(),
            source: Source::Net(net),
        }
    }

    fn of_ports(ports: NodePortRange, band: Option<i32>) -> Self {
        let (first, end) = (Key::from(ports.first()), Key::from(ports.last()) + 1);
        let band =
            band.map_or_else(|| port_band(ports.size()), |band| u64::try_from(band).unwrap_or_default());
        Self {
            kind: Kind::Port,
            first,
            end,
            upper: (first + Key::from(band)).min(end),
            text: ports.to_string(),
            source: Source::Ports(ports),
        }
    }

    /// Whether a range of `ledger`, in whatever state, has all of it.
    pub(super) fn is_inside(&self, ledger: &Ledger) -> bool {
        match self.source {
            Source::Net(net) => ledger.addresses.usage().any(|range| range.prefix.net().contains(&net)),
            Source::Ports(ports) => {
                let has =
                    |range: &NodePortRange| range.contains(ports.first()) && range.contains(ports.last());
                ledger.ports.ranges().0.iter().any(has)
            }
        }
    }

    /// What should have it.
    pub(super) fn range_kind(&self) -> &'static str {
        match self.source {
            Source::Net(_) => "ServiceCIDR",
            Source::Ports(_) => "NodePortRange from which ports can be had",
        }
    }
}

/// One pool.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) priority: i32,
    /// `None` selects nothing, because it can not be read.
    namespaces: Option<Selector>,
    services: Option<Selector>,
    pub(super) stretches: Vec<Stretch>,
    pub(super) cool_down: Seconds,
    pub(super) fallback: Fallback,
    pub(super) exclusive: bool,
}

impl Definition {
    /// Reads an object. What can not be read is left out and told.
    pub(super) fn of(object: &ServicePool) -> (Self, Vec<PoolFault>) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let mut faults = Vec::new();
        let mut fault = |text: String| faults.push(PoolFault { pool: name.clone(), text });
        let spec = &object.spec;
        let band = spec.lower_band.unwrap_or_default();
        let mut stretches = Vec::new();
        for text in &spec.addresses {
            match text.parse::<IpNet>() {
                Ok(net) if net == net.trunc() && (net.addr().is_ipv4() || net.prefix_len() >= 64) => {
                    stretches.push(Stretch::of_net(net, band.addresses));
                }
                _ => fault(format!("{text:?} is no part of a ServiceCIDR")),
            }
        }
        for span in &spec.node_ports {
            let port = |number: i32| u16::try_from(number).ok();
            match port(span.first_port).zip(port(span.last_port)).and_then(|(a, b)| NodePortRange::new(a, b))
            {
                Some(ports) => stretches.push(Stretch::of_ports(ports, band.node_ports)),
                None => {
                    fault(format!("{}-{} is no part of a NodePortRange", span.first_port, span.last_port));
                }
            }
        }
        let mut selector = |field: &str, selector: Option<&_>| match selector
            .map_or(Ok(Selector::default()), Selector::from_label_selector)
        {
            Ok(selector) => Some(selector),
            Err(error) => {
                fault(format!("{field}: {error}; the pool is for no Service"));
                None
            }
        };
        let definition = Self {
            priority: spec.priority,
            namespaces: selector("namespaceSelector", spec.namespace_selector.as_ref()),
            services: selector("serviceSelector", spec.service_selector.as_ref()),
            stretches,
            cool_down: spec.cool_down_seconds,
            fallback: spec.fallback,
            exclusive: spec.exclusive,
            name: name.clone(),
        };
        (definition, faults)
    }

    /// Whether the pool is for a Service with these labels in a namespace with those.
    pub(super) fn is_for(
        &self,
        service: &BTreeMap<String, String>,
        namespace: &BTreeMap<String, String>,
    ) -> bool {
        self.services.as_ref().is_some_and(|s| s.matches(service))
            && self.namespaces.as_ref().is_some_and(|s| s.matches(namespace))
    }

    /// Whether it has values of this kind.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.stretches.iter().any(|stretch| stretch.kind == kind)
    }
}

/// The value that a reservation is of.
pub(super) fn value_of(reservation: &Reservation) -> Option<Value> {
    match (&reservation.address, reservation.node_port) {
        (Some(text), None) => parse_lenient(text).map(Value::Address),
        (None, Some(port)) => u16::try_from(port).ok().filter(|port| *port != 0).map(Value::Port),
        _ => None,
    }
}
