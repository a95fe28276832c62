//! The moment of the change behind a write, for the annotation `last-change-trigger-time`.
//!
//! Owns which readiness changes of a Service's pods have been seen; never writes anything.
//! (Rule: Kubernetes SLI "network programming latency".)

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use crate::cache::{Pod, Seconds, Service};
use crate::text::Text;

/// What has been seen of one Service and its pods.
#[derive(Debug, Default)]
pub(crate) struct TriggerTimes {
    known: bool,
    service: Seconds,
    pods: HashMap<Text, Seconds>,
}

impl TriggerTimes {
    /// Whether the Service has been looked at before.
    #[must_use]
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Looks at all pods of the Service; gives the earliest time that is new. The first look at a
    /// Service gives its creation time, whatever its pods say.
    pub(crate) fn observe_all<'a>(
        &mut self,
        service: &Service,
        pods: impl Iterator<Item = &'a Pod>,
    ) -> Option<Seconds> {
        let mut earliest = None;
        let mut seen = HashMap::with_capacity(self.pods.len());
        for pod in pods {
            if let Some(time) = pod.ready_since {
                if self.pods.get(&pod.name).is_none_or(|before| time > *before) {
                    earliest = Some(sooner(earliest, time));
                }
                seen.insert(Arc::clone(&pod.name), time);
            }
        }
        self.pods = seen;
        self.observe_service(service, earliest)
    }

    /// Looks at the pods that changed since the last look; a pod that is no longer the Service's is
    /// given without its state.
    pub(crate) fn observe<'a>(
        &mut self,
        service: &Service,
        changed: impl Iterator<Item = (&'a Text, Option<&'a Pod>)>,
    ) -> Option<Seconds> {
        let mut earliest = None;
        for (name, pod) in changed {
            let Some(time) = pod.and_then(|p| p.ready_since) else {
                self.pods.remove(name);
                continue;
            };
            let before = self.pods.insert(Arc::clone(name), time);
            if before.is_none_or(|before| time > before) {
                earliest = Some(sooner(earliest, time));
            }
        }
        self.observe_service(service, earliest)
    }

    fn observe_service(&mut self, service: &Service, mut earliest: Option<Seconds>) -> Option<Seconds> {
        if service.created > self.service {
            earliest = Some(sooner(earliest, service.created));
        }
        self.service = service.created;
        if std::mem::replace(&mut self.known, true) { earliest } else { Some(service.created) }
    }
}

/// The earlier of a time that may be missing and another.
#[must_use]
pub(crate) fn sooner(time: Option<Seconds>, other: Seconds) -> Seconds {
    time.map_or(other, |time| time.min(other))
}
