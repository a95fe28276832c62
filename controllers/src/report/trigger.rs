//! What calls for a look at a key: the first event since the last look, and how many came after it.
//!
//! Noting one costs a comparison and a count; words are made of it only where they are told. Knows no state.

use std::fmt;
use std::sync::Arc;

use crate::index::endpoints::EndpointsChange;
use crate::index::pods::PodChange;
use crate::index::{NodeChange, ServiceChange};
use crate::text::Text;

/// An event that calls for a look, by what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The controller begins to work.
    Start,
    /// The API server was put back to an earlier state.
    Restored,
    /// Nothing happened for a while: the slices are packed.
    Packing,
    /// A Service came.
    ServiceAdded,
    /// A Service changed.
    ServiceChanged,
    /// A Service is gone.
    ServiceDeleted,
    /// A pod came.
    PodAdded,
    /// A pod changed otherwise than below.
    PodChanged,
    /// A pod is gone.
    PodDeleted,
    /// A pod is ready now.
    PodReady,
    /// A pod is not ready any more.
    PodNotReady,
    /// A pod ends.
    PodTerminating,
    /// A node came, or changed its zone.
    NodeChanged,
    /// A node is gone.
    NodeDeleted,
    /// The zones' shares of the CPU are others.
    ZoneShares,
    /// Somebody else changed a slice.
    SliceChanged,
    /// Somebody else deleted a slice.
    SliceDeleted,
    /// Somebody else changed an `Endpoints` object, or made it.
    EndpointsChanged,
    /// Somebody else deleted an `Endpoints` object.
    EndpointsDeleted,
    /// The addresses of a range came, went or changed, or the range did.
    RangeChanged,
    /// An IPAddress came.
    AddressAdded,
    /// An IPAddress changed.
    AddressChanged,
    /// An IPAddress is gone.
    AddressDeleted,
    /// A NodePort came.
    NodePortAdded,
    /// A NodePort changed.
    NodePortChanged,
    /// A NodePort is gone.
    NodePortDeleted,
    /// A value that somebody may wait for came free.
    CameFree,
    /// A ServiceCIDR, a NodePortRange or a ServicePool changed.
    RangesOrPools,
    /// Values were taken or given back.
    Fill,
    /// The time that the last look named has come.
    Time,
}

impl Event {
    /// What became of a Service.
    #[must_use]
    pub const fn of_service(change: &ServiceChange) -> Self {
        match (&change.old, &change.new) {
            (_, None) => Self::ServiceDeleted,
            (None, Some(_)) => Self::ServiceAdded,
            (Some(_), Some(_)) => Self::ServiceChanged,
        }
    }

    /// What became of a node.
    #[must_use]
    pub const fn of_node(change: &NodeChange) -> Self {
        if change.gone { Self::NodeDeleted } else { Self::NodeChanged }
    }

    /// What became of an `Endpoints` object.
    #[must_use]
    pub const fn of_endpoints(change: &EndpointsChange) -> Self {
        if change.gone { Self::EndpointsDeleted } else { Self::EndpointsChanged }
    }

    /// What became of a pod.
    #[must_use]
    pub fn of_pod(change: &PodChange) -> Self {
        match (&change.old, &change.new) {
            (None, _) => Self::PodAdded,
            (_, None) => Self::PodDeleted,
            (Some(old), Some(new)) if new.terminating && !old.terminating => Self::PodTerminating,
            (Some(old), Some(new)) if new.ready && !old.ready => Self::PodReady,
            (Some(old), Some(new)) if old.ready && !new.ready => Self::PodNotReady,
            _ => Self::PodChanged,
        }
    }

    /// Whether it is about a pod.
    #[must_use]
    pub const fn is_of_pod(self) -> bool {
        matches!(
            self,
            Self::PodAdded
                | Self::PodChanged
                | Self::PodDeleted
                | Self::PodReady
                | Self::PodNotReady
                | Self::PodTerminating
        )
    }

    /// The kind of the object, if it is about one, and what became of it.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Start => ("", "start of the controller"),
            Self::Restored => ("", "return of the server to an earlier state"),
            Self::Packing => ("", "packing"),
            Self::ServiceAdded => ("service", "added"),
            Self::ServiceChanged => ("service", "changed"),
            Self::ServiceDeleted => ("service", "deleted"),
            Self::PodAdded => ("pod", "added"),
            Self::PodChanged => ("pod", "changed"),
            Self::PodDeleted => ("pod", "deleted"),
            Self::PodReady => ("pod", "ready"),
            Self::PodNotReady => ("pod", "not ready"),
            Self::PodTerminating => ("pod", "terminating"),
            Self::NodeChanged => ("node", "added or changed"),
            Self::NodeDeleted => ("node", "deleted"),
            Self::ZoneShares => ("", "change of the zones' CPU"),
            Self::SliceChanged => ("endpointslice", "changed by somebody else"),
            Self::SliceDeleted => ("endpointslice", "deleted by somebody else"),
            Self::EndpointsChanged => ("endpoints", "changed"),
            Self::EndpointsDeleted => ("endpoints", "deleted"),
            Self::RangeChanged => ("", "service CIDRs or addresses"),
            Self::AddressAdded => ("ipaddress", "added"),
            Self::AddressChanged => ("ipaddress", "changed"),
            Self::AddressDeleted => ("ipaddress", "deleted"),
            Self::NodePortAdded => ("nodeport", "added"),
            Self::NodePortChanged => ("nodeport", "changed"),
            Self::NodePortDeleted => ("nodeport", "deleted"),
            Self::CameFree => ("", "a value that came free"),
            Self::RangesOrPools => ("", "a range or pool that changed"),
            Self::Fill => ("", "values taken or given back"),
            Self::Time => ("", "a look after a while"),
        }
    }
}

/// What calls for a look.
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    first: Option<(Event, Option<Text>)>,
    /// How many more events came.
    more: u32,
    retry: bool,
}

impl Trigger {
    /// That of an event without an object.
    #[must_use]
    pub const fn of(event: Event) -> Self {
        Self { first: Some((event, None)), more: 0, retry: false }
    }

    /// An event came, of the object of this name.
    pub fn note(&mut self, event: Event, name: Option<&Text>) {
        match self.first {
            None => self.first = Some((event, name.map(Arc::clone))),
            Some(_) => self.more = self.more.saturating_add(1),
        }
    }

    /// What this one called for failed: it calls for it again, beside what came meanwhile.
    pub fn again(&mut self, failed: Self) {
        let meanwhile = self.more + u32::from(self.first.is_some());
        *self = Self { more: failed.more.saturating_add(meanwhile), retry: true, ..failed };
    }

    /// The event that came first.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        self.first.as_ref().map(|(event, _)| *event)
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first {
            None => f.write_str("none known")?,
            Some((event, name)) => match (event.words(), name) {
                ((kind, what), Some(name)) if !kind.is_empty() => write!(f, "{kind} {name} {what}")?,
                ((kind, what), None) if !kind.is_empty() => write!(f, "{kind} {what}")?,
                ((_, what), _) => f.write_str(what)?,
            },
        }
        match self.more {
            0 => {}
            1 => f.write_str(" and 1 more event")?,
            more => write!(f, " and {more} more events")?,
        }
        f.write_str(if self.retry { ", again" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_is_named_and_the_others_are_counted() {
        let mut trigger = Trigger::default();
        assert_eq!(trigger.to_string(), "none known");
        trigger.note(Event::PodNotReady, Some(&"web-1".into()));
        assert_eq!(trigger.to_string(), "pod web-1 not ready");
        trigger.note(Event::PodReady, Some(&"web-2".into()));
        assert_eq!(trigger.to_string(), "pod web-1 not ready and 1 more event");
        trigger.note(Event::ServiceChanged, None);
        assert_eq!(trigger.to_string(), "pod web-1 not ready and 2 more events");
        assert_eq!(Trigger::of(Event::Packing).to_string(), "packing");
        assert_eq!(Trigger::of(Event::ServiceAdded).to_string(), "service added");
    }

    #[test]
    fn what_failed_calls_for_a_look_again() {
        let (mut failed, mut meanwhile) = (Trigger::of(Event::ServiceChanged), Trigger::default());
        failed.note(Event::PodReady, Some(&"web-1".into()));
        meanwhile.note(Event::PodDeleted, Some(&"web-2".into()));
        meanwhile.again(failed);
        assert_eq!(meanwhile.to_string(), "service changed and 2 more events, again");
    }
}
