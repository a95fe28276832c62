//! The workers: take a key, plan under the world's lock, send without it, and enter the answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Engine;
use super::refused::Refused;
use crate::api::{Answer, Refusal, Reply};
use crate::endpoints::state::EndpointsJob;
use crate::endpointslice::apply;
use crate::endpointslice::plan::Change;
use crate::endpointslice::state::{SliceJob, Step};
use crate::mirroring::state::MirrorStep;
use crate::queue::Due;
use crate::report::metrics::SyncResult;
use crate::servicecidr::state::CidrStep;
use crate::watch::cache::SliceKeeper;
use crate::watch::objects::EndpointsWire;
use crate::watch::world::{Controller, Key, World};

/// So many writes of one Service are sent at a time.
const WRITES_AT_ONCE: usize = 32;

impl Engine {
    pub(super) async fn work(self: Arc<Self>, controller: Controller, shutdown: CancellationToken) {
        let queue = &self.queues[controller as usize];
        loop {
            let key = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                key = queue.next() => key,
            };
            if let Some(again) = self.reconcile(&key).await {
                queue.add(key.clone(), again);
            }
            let rest = self.rest(&key);
            if rest.is_zero() {
                queue.done(&key);
            } else {
                let engine = Arc::clone(&self);
                tokio::spawn(async move {
                    tokio::time::sleep(rest).await;
                    engine.queues[controller as usize].done(&key);
                });
            }
        }
    }

    /// Looks at a key; gives when to look again, if something went wrong.
    async fn reconcile(&self, key: &Key) -> Option<Due> {
        let start = Instant::now();
        let (result, again) = match key.controller {
            Controller::Slices => self.slices(key).await,
            Controller::Endpoints => self.endpoints(key).await,
            Controller::Mirrors => self.mirror(key).await,
            Controller::Cidrs => self.cidr(key).await,
        };
        self.settings.metrics.synced(key.controller, result, start.elapsed().as_secs_f64());
        again
    }

    /// Changes the world, and passes on what it calls for.
    fn with_world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world.lock();
        let out = change(&mut world);
        self.flush(&mut world);
        out
    }

    async fn slices(&self, key: &Key) -> (SyncResult, Option<Due>) {
        let step = self.with_world(|world| world.plan_slices(&key.namespace, &key.name));
        if tracing::enabled!(tracing::Level::DEBUG) {
            // From all pods of the Service: only for who asks.
            let lines = self.world.lock().explain(&key.namespace, &key.name);
            for line in lines {
                tracing::debug!(namespace = &*key.namespace, service = &*key.name, "{line}");
            }
        }
        self.slice_step(key, SliceKeeper::Slices, step).await
    }

    async fn mirror(&self, key: &Key) -> (SyncResult, Option<Due>) {
        let plan = || self.with_world(|world| world.plan_mirror(&key.namespace, &key.name));
        let step = match plan() {
            MirrorStep::Slices(step) => step,
            MirrorStep::ReadEndpoints => match self.endpoints_now(key).await {
                Ok(found) => {
                    self.with_world(|world| world.addresses_read(&key.namespace, &key.name, found));
                    match plan() {
                        MirrorStep::Slices(step) => step,
                        MirrorStep::ReadEndpoints => {
                            return (SyncResult::Stale, Some(Due::After(Duration::from_secs(1))));
                        }
                    }
                }
                Err(refusal) => return self.unread(key, "get", "endpoints", &refusal),
            },
        };
        self.slice_step(key, SliceKeeper::Mirrors, step).await
    }

    async fn slice_step(
        &self,
        key: &Key,
        keeper: SliceKeeper,
        step: Step<SliceJob>,
    ) -> (SyncResult, Option<Due>) {
        match step {
            Step::Idle => self.idle(key, None),
            Step::Read => match self.api.slices_of(&key.namespace, &key.name).await {
                Ok(found) => {
                    self.with_world(|world| {
                        world.slices_read(&key.namespace, keeper, &key.name, Some(found));
                    });
                    (SyncResult::Stale, Some(Due::After(Duration::ZERO)))
                }
                Err(refusal) => {
                    self.with_world(|world| world.slices_read(&key.namespace, keeper, &key.name, None));
                    self.unread(key, "list", "endpointslices", &refusal)
                }
            },
            Step::Send(job) => {
                let span = reconcile(key, job.cause, job.changes.len());
                let write = async {
                    let answers = self.send(&job).await;
                    let (trigger, refused) = (job.cause, Refused::slices(&job.changes, &answers));
                    let end = self.with_world(|world| world.finish_slices(job, answers));
                    self.ended(key, trigger, &refused, end)
                };
                write.instrument(span).await
            }
        }
    }

    /// Sends the writes of one Service together; the answers come in their order.
    async fn send(&self, job: &SliceJob) -> Vec<Answer<Reply>> {
        let answers = if let [change] = &job.changes[..] {
            vec![self.send_slice(job, change).await]
        } else {
            let sent: Vec<_> =
                job.changes.iter().map(|change| self.send_slice(job, change).boxed()).collect();
            futures::stream::iter(sent).buffered(WRITES_AT_ONCE).collect().await
        };
        self.settings.metrics.planned(job.controller, job.moved, answers.len(), job.hinting);
        answers
    }

    async fn send_slice(&self, job: &SliceJob, change: &Change) -> Answer<Reply> {
        let write = apply::request(&job.namespace, change)
            .map_err(|e| Refusal::Rejected { code: 0, message: e.to_string() })?;
        let answer = self.api.write(&write).await;
        if let Ok(reply) = &answer {
            self.settings.metrics.wrote(job.controller, write.verb);
            tracing::info!(
                controller = job.controller.name(),
                namespace = &*job.namespace,
                service = &*job.service,
                trigger = job.cause,
                verb = write.verb.name(),
                // The server names what is made.
                slice = write.name.as_deref().unwrap_or(&reply.metadata.name),
                "wrote slice"
            );
        }
        answer
    }

    async fn endpoints(&self, key: &Key) -> (SyncResult, Option<Due>) {
        match self.with_world(|world| world.plan_endpoints(&key.namespace, &key.name)) {
            Step::Idle => self.idle(key, None),
            Step::Read => match self.endpoints_now(key).await {
                Ok(found) => {
                    self.with_world(|world| world.endpoints_read(&key.namespace, &key.name, Some(found)));
                    (SyncResult::Stale, Some(Due::After(Duration::ZERO)))
                }
                Err(refusal) => {
                    self.with_world(|world| world.endpoints_read(&key.namespace, &key.name, None));
                    self.unread(key, "get", "endpoints", &refusal)
                }
            },
            Step::Send(job) => {
                let trigger = "service or pods";
                let span = reconcile(key, trigger, 1);
                let write = async {
                    let answer = self.send_endpoints(&job, trigger).await;
                    let refused = Refused::one(&job.write, &answer);
                    let end = self.with_world(|world| world.finish_endpoints(job, answer));
                    self.ended(key, trigger, &refused, end)
                };
                write.instrument(span).await
            }
        }
    }

    async fn send_endpoints(&self, job: &EndpointsJob, trigger: &'static str) -> Answer<Reply> {
        let answer = self.api.write(&job.write).await;
        if answer.is_ok() {
            self.settings.metrics.wrote(Controller::Endpoints, job.write.verb);
            tracing::info!(
                controller = Controller::Endpoints.name(),
                namespace = &*job.namespace,
                service = &*job.name,
                trigger,
                verb = job.write.verb.name(),
                "wrote endpoints"
            );
        }
        answer
    }

    async fn cidr(&self, key: &Key) -> (SyncResult, Option<Due>) {
        match self.with_world(|world| world.plan_cidr(&key.name, jiff::Timestamp::now())) {
            CidrStep::Idle => self.idle(key, None),
            CidrStep::Wait(wait) => self.idle(key, Some(Due::After(wait))),
            CidrStep::Send(job) => {
                let trigger = "service CIDRs or addresses";
                let answer = self.api.write(&job.write).await;
                if answer.is_ok() {
                    self.settings.metrics.wrote(Controller::Cidrs, job.write.verb);
                    tracing::info!(
                        controller = Controller::Cidrs.name(),
                        servicecidr = &*job.name,
                        trigger,
                        verb = job.write.verb.name(),
                        status = job.write.status,
                        "wrote service CIDR"
                    );
                }
                let refused = Refused::one(&job.write, &answer);
                let end = self.with_world(|world| world.finish_cidr(job, answer));
                self.ended(key, trigger, &refused, end)
            }
        }
    }

    async fn endpoints_now(&self, key: &Key) -> Answer<Option<EndpointsWire>> {
        match self.api.endpoints(&key.namespace, &key.name).await {
            Ok(found) => Ok(Some(found)),
            Err(Refusal::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }
}

/// The span of what a look at a key decided to write, and of what came of it. Each write says whose
/// it is in its own line: a span that is always there would be made for every change.
fn reconcile(key: &Key, trigger: &'static str, writes: usize) -> tracing::Span {
    tracing::debug_span!(
        "reconcile",
        controller = key.controller.name(),
        namespace = %key.namespace,
        name = %key.name,
        trigger,
        decision = "write",
        writes,
    )
}
