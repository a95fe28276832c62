//! The node ports and the health check node port of one Service.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use service_api::errors::{duplicate, invalid};
use service_api::service::{needs_health_check, needs_node_port, protocol};

use super::{Ledger, PlanOptions, Source};
use crate::error::PlanError;
use crate::port::{PortError, PortLedger, PortSharing, Protocols};
use crate::service_key::ServiceKey;
use crate::spec;

const HEALTH_CHECK: &str = "spec.healthCheckNodePort";

/// The port that a dry run's placeholders come after.
const PLACEHOLDER: i32 = 32768;

/// What a plan has asked for so far.
struct Draft<'a, S> {
    ledger: &'a PortLedger,
    source: &'a mut S,
    /// The Service that is updated.
    owner: Option<&'a ServiceKey>,
    dry_run: bool,
    claimed: BTreeMap<i32, Protocols>,
    /// Numbers that the Service names, ascending: an automatic choice leaves them alone, or the
    /// explicit one of a later port would fail now and then.
    named: Vec<u16>,
    /// The health check node port that an update keeps.
    kept_health_check: Option<i32>,
    /// Numbers that the Service holds and this update gives up, ascending: free for itself, and nobody else's until then.
    given_up: Vec<u16>,
}

impl<'a, S: Source> Draft<'a, S> {
    fn new(
        ledger: &'a PortLedger,
        owner: Option<&'a ServiceKey>,
        spec: &ServiceSpec,
        source: &'a mut S,
        options: PlanOptions,
    ) -> Self {
        let ports = spec.ports.iter().flatten().filter_map(|p| p.node_port);
        let numbers = ports.chain(spec.health_check_node_port).filter_map(|p| u16::try_from(p).ok());
        let mut named: Vec<u16> = numbers.collect();
        named.sort_unstable();
        named.dedup();
        Self {
            ledger,
            source,
            owner,
            dry_run: options.dry_run,
            claimed: BTreeMap::new(),
            named,
            kept_health_check: None,
            given_up: Vec::new(),
        }
    }

    /// Asks for the number that a port names.
    fn ask(&mut self, number: i32, protocols: Protocols) -> Result<(), PortError> {
        let own = self.claimed.get(&number).copied();
        let shares =
            |own: Protocols| self.ledger.sharing() == PortSharing::PerProtocol && !own.overlap(protocols);
        if !self.dry_run {
            self.ledger.check_range(number)?;
        }
        if let Ok(port) = u16::try_from(number) {
            self.ledger.check_holders(port, protocols, self.owner)?;
            self.source.admit_port(port)?;
        }
        if own.is_some_and(|own| !shares(own)) {
            return Err(PortError::Allocated);
        }
        self.claimed.insert(number, own.unwrap_or_default().and(protocols));
        Ok(())
    }

    /// A free number.
    fn any(&mut self, protocols: Protocols) -> Result<i32, PortError> {
        let number = if self.dry_run {
            let asked_for = |number: &&i32| Some(**number) != self.kept_health_check;
            self.claimed.keys().rev().find(asked_for).copied().unwrap_or(PLACEHOLDER) + 1
        } else {
            let port = match self.source.choose_port(self.ledger, &self.named) {
                Err(PortError::Full) => self.given_up().ok_or(PortError::Full)?,
                chosen => chosen?,
            };
            if let Err(at) = self.named.binary_search(&port) {
                self.named.insert(at, port);
            }
            i32::from(port)
        };
        self.claimed.insert(number, protocols);
        Ok(number)
    }

    /// One of the numbers that the Service gives up and nobody shares with it.
    fn given_up(&mut self) -> Option<u16> {
        let is_own = |port: &u16| self.ledger.holders(*port).iter().all(|h| Some(&h.owner) == self.owner);
        let at = self.given_up.iter().position(is_own)?;
        Some(self.given_up.remove(at))
    }

    /// That no number can be had, and how full the range is.
    fn full(&self, what: &str, error: &PortError) -> PlanError {
        let mut text = format!("{what}: {error}");
        if *error == PortError::Full {
            text.push_str(&self.ledger.fullness());
            if self.ledger.available() > 0 {
                text.push_str(", and the Service itself asks for the rest");
            }
        }
        PlanError::Internal(text)
    }

    fn any_node_port(&mut self, protocols: Protocols) -> Result<i32, PlanError> {
        self.any(protocols).map_err(|error| self.full("failed to allocate a nodePort", &error))
    }

    /// The health check node port that `spec` names, or a free one. One that is taken or out of
    /// range is the user's mistake.
    fn health_check(&mut self, spec: &mut ServiceSpec) -> Result<(), PlanError> {
        if let Some(asked) = spec.health_check_node_port.filter(|p| *p != 0) {
            let refused = |error: PortError| refusal(HEALTH_CHECK.to_owned(), asked, &error);
            return self.ask(asked, Protocols::TCP).map_err(refused);
        }
        let chosen = self.any(Protocols::TCP);
        let chosen =
            chosen.map_err(|error| self.full("failed to allocate a HealthCheck NodePort 0", &error))?;
        spec.health_check_node_port = Some(chosen);
        Ok(())
    }
}

impl Ledger {
    /// Ports for a Service that has none yet.
    pub(super) fn assign_ports(
        &self,
        spec: &mut ServiceSpec,
        source: &mut impl Source,
        options: PlanOptions,
    ) -> Result<(), PlanError> {
        let mut draft = Draft::new(&self.ports, None, spec, source, options);
        if needs_node_port(spec) {
            assign_node_ports(spec, &mut draft)?;
        }
        if needs_health_check(spec) {
            draft.health_check(spec)?;
        }
        Ok(())
    }

    /// The ports of a Service after an update. What it ceases to hold is seen by comparing.
    pub(super) fn move_ports(
        &self,
        owner: &ServiceKey,
        old: &ServiceSpec,
        new: &mut ServiceSpec,
        source: &mut impl Source,
        options: PlanOptions,
    ) -> Result<(), PlanError> {
        let mut draft = Draft::new(&self.ports, Some(owner), new, source, options);
        let keeps_health_check = needs_health_check(old) && needs_health_check(new);
        let held = old.ports.iter().flatten().filter_map(|p| p.node_port);
        let held = held.chain(old.health_check_node_port.filter(|_| !keeps_health_check));
        let given_up: BTreeSet<u16> =
            held.filter_map(|p| u16::try_from(p).ok()).filter(|p| *p != 0).collect();
        draft.given_up = given_up.into_iter().filter(|p| draft.named.binary_search(p).is_err()).collect();
        if keeps_health_check && let Some(number) = old.health_check_node_port {
            draft.kept_health_check = Some(number);
            draft.claimed.insert(number, Protocols::TCP);
        }
        if needs_node_port(new) {
            update_node_ports(old, new, &mut draft)?;
        }
        if needs_health_check(new) && !keeps_health_check {
            draft.health_check(new)?;
        }
        Ok(())
    }
}

fn refusal(field: String, number: i32, error: &PortError) -> PlanError {
    PlanError::Invalid(vec![invalid(field, number, error.to_string())].into())
}

fn node_port_field(index: usize) -> String {
    format!("spec.ports[{index}].nodePort")
}

fn number_of(port: &ServicePort) -> i32 {
    port.node_port.unwrap_or_default()
}

fn protocol_of(port: &ServicePort) -> Protocols {
    Protocols::named(protocol(port))
}

/// The ports of one number.
#[derive(Clone, Copy, Default)]
struct Group {
    /// The first node port that one of them names.
    named: Option<i32>,
    /// The protocols of those that name it or none.
    protocols: Protocols,
}

fn same_number(ports: &[ServicePort]) -> BTreeMap<i32, Group> {
    let mut groups: BTreeMap<i32, Group> = BTreeMap::new();
    for port in ports {
        let group = groups.entry(port.port).or_default();
        group.named = group.named.or(Some(number_of(port)).filter(|n| *n != 0));
    }
    for port in ports {
        let group = groups.entry(port.port).or_default();
        if [0, group.named.unwrap_or(0)].contains(&number_of(port)) {
            group.protocols = group.protocols.and(protocol_of(port));
        }
    }
    groups
}

/// Ports of the same number get the same node port: one number serves TCP and UDP.
fn assign_node_ports<S: Source>(spec: &mut ServiceSpec, draft: &mut Draft<S>) -> Result<(), PlanError> {
    let automatic = spec::allocates_node_ports(spec);
    let mut ports = spec.ports.take().unwrap_or_default();
    let groups = same_number(&ports);
    let mut of_port: BTreeMap<i32, i32> = BTreeMap::new();
    for (i, entry) in ports.iter_mut().enumerate() {
        let (port, number) = (entry.port, number_of(entry));
        if number == 0 && !automatic {
            continue;
        }
        let known = of_port.get(&port).copied();
        entry.node_port = Some(match known {
            Some(known) if number == 0 || number == known => known,
            Some(_) => {
                ask_node_port(draft, i, number, protocol_of(entry))?;
                number
            }
            None => {
                let Group { named, protocols } = groups.get(&port).copied().unwrap_or_default();
                let number = match named {
                    Some(number) => ask_node_port(draft, i, number, protocols).map(|()| number)?,
                    None => draft.any_node_port(protocols)?,
                };
                of_port.insert(port, number);
                number
            }
        });
    }
    spec.ports = (!ports.is_empty()).then_some(ports);
    Ok(())
}

fn ask_node_port<S: Source>(
    draft: &mut Draft<S>,
    index: usize,
    number: i32,
    protocols: Protocols,
) -> Result<(), PlanError> {
    draft.ask(number, protocols).map_err(|error| refusal(node_port_field(index), number, &error))
}

/// Ports that name a number the Service already had keep it, whichever port had it before.
fn update_node_ports<S: Source>(
    old: &ServiceSpec,
    new: &mut ServiceSpec,
    draft: &mut Draft<S>,
) -> Result<(), PlanError> {
    let mut had: BTreeMap<i32, Protocols> = BTreeMap::new();
    for port in old.ports.iter().flatten().filter(|_| needs_node_port(old)) {
        let protocols = had.entry(number_of(port)).or_default();
        *protocols = protocols.and(protocol_of(port));
    }
    let automatic = spec::allocates_node_ports(new);
    let per_protocol = draft.ledger.sharing() == PortSharing::PerProtocol;
    let mut seen = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for (i, port) in new.ports.iter_mut().flatten().enumerate() {
        let (number, protocols) = (number_of(port), protocol_of(port));
        if number != 0 {
            let kept = had.get(&number).is_some_and(|had| !per_protocol || had.overlap(protocols));
            let asked = numbers.contains(&number) && !per_protocol;
            if !kept && !asked {
                ask_node_port(draft, i, number, protocols)?;
            }
        } else if automatic {
            port.node_port = Some(draft.any_node_port(protocols)?);
        } else {
            continue;
        }
        let pair = (port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), number_of(port));
        numbers.insert(pair.1);
        if seen.contains(&pair) {
            return Err(PlanError::Invalid(vec![duplicate(node_port_field(i), pair.1)].into()));
        }
        seen.insert(pair);
    }
    Ok(())
}
