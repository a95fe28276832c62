//! The admission webhook: it steers the choice that a real API server makes for a Service.
//!
//! ```text
//!   watches --> known (what is taken, pools, labels of namespaces)
//!                  |
//!   review --> decide (pure) --> answer, remembered for seconds
//! ```
//!
//! It chooses addresses and ports for Services that a pool concerns, before the API server does, which then records
//! them; it refuses what pools forbid; everything else it leaves alone. Correctness never depends on it: a choice that
//! is taken by then is refused by the API server, and without an answer the API server chooses itself. It never writes.

mod answers;
mod decide;
mod metrics;
mod review;
pub mod tls;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use parking_lot::Mutex;
use service_allocators::pools::{Seconds, Share};
use service_allocators::{NodePortRange, PortSharing};

use answers::Answers;
use review::{Request, Review, Verdict};

use crate::ledger::{Changes, Known, Ledger};

pub use metrics::{Stage, WebhookMetrics};
pub use review::Malformed;

/// How long a chosen value is kept from others while the API server stores it, and an answer is remembered.
const HELD: Seconds = 5;

/// What a webhook is told at the start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The node ports of a cluster without NodePortRanges.
    pub node_ports: NodePortRange,
    /// The part of the free values that this replica chooses from.
    pub share: Share,
}

/// The webhook: ask it as often and from as many places as you like.
#[derive(Clone)]
pub struct Webhook {
    ledger: Ledger,
    /// Whoever needs this and the ledger takes this first.
    answers: Arc<Mutex<Answers>>,
    share: Share,
    metrics: WebhookMetrics,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("share", &self.share).finish_non_exhaustive()
    }
}

impl Webhook {
    /// A webhook that knows nothing yet; [`crate::ledger::feed`] makes its ledger know a cluster.
    pub fn new(settings: &Settings, metrics: WebhookMetrics) -> Self {
        let ledger = Ledger::new(settings.node_ports, PortSharing::WithinService, |_: Changes| {}).silent();
        Self { ledger, answers: Arc::default(), share: settings.share, metrics }
    }

    /// What it knows.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Answers one AdmissionReview, as the API server sends it and reads it.
    ///
    /// # Errors
    /// When the body is no AdmissionReview with a request.
    pub fn answer(&self, stage: Stage, body: &[u8]) -> Result<Vec<u8>, Malformed> {
        let begun = Instant::now();
        let review = Review::read(body)?;
        let request = &review.request;
        let mut hasher = DefaultHasher::new();
        (stage, request.object.to_string(), request.old_object.to_string()).hash(&mut hasher);
        let about = hasher.finish();
        let service = request.services();
        let verdict = {
            let mut answers = self.answers.lock();
            let now = Timestamp::now().as_second();
            answers.forget(now);
            if let Some(verdict) = answers.find(&request.uid, about) {
                verdict
            } else {
                let verdict = self.ledger.with(|known| self.decide(stage, request, service, known, now));
                answers.remember(request.uid.clone(), about, verdict.clone(), now + HELD);
                verdict
            }
        };
        self.metrics.count(stage, &verdict, begun.elapsed());
        Ok(review.answer(&verdict))
    }

    fn decide(
        &self,
        stage: Stage,
        request: &Request,
        services: Option<review::Services>,
        known: &mut Known,
        now: Seconds,
    ) -> Verdict {
        let Some(services) = services.filter(|_| known.is_complete()) else { return Verdict::LeaveAlone };
        known.live.pools.advance(now, &known.live.ledger);
        let asked = decide::Asked { known, services: &services, share: self.share, now };
        match stage {
            Stage::Validate => asked.validate(),
            Stage::Mutate => {
                let (verdict, values) = asked.mutate(&mut rand::rng());
                if !request.dry_run {
                    for value in values {
                        known.live.pools.hold(value, now + HELD);
                    }
                }
                verdict
            }
        }
    }
}

#[cfg(test)]
mod tests;
