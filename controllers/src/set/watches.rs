//! The watches: what they hand on goes into the world, and what the world calls for into the queues.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Engine;
use crate::queue::Queue;
use crate::report::cause::Cause;
use crate::report::failures::Subject;
use crate::report::log::{About, Failure};
use crate::watch::relist::Kind;
use crate::watch::source::{Happening, Taken, follow};
use crate::watch::world::{Controller, World};

impl Engine {
    /// Follows every kind that some controller needs; returns when all first lists are complete. Pods
    /// come last, when nodes and Services are known.
    pub(super) async fn watch(self: &Arc<Self>, client: kube::Client, tasks: &mut JoinSet<()>) {
        let on = |controller| self.settings.controllers.contains(&controller);
        let (slices, endpoints, mirrors) =
            (on(Controller::Slices), on(Controller::Endpoints), on(Controller::Mirrors));
        let wanted = [
            (Kind::Services, slices || endpoints || mirrors),
            (Kind::Nodes, slices),
            (Kind::Slices, slices || mirrors),
            (Kind::Endpoints, endpoints || mirrors),
            (Kind::Addresses, on(Controller::Cidrs)),
            (Kind::Cidrs, on(Controller::Cidrs)),
        ];
        let first: Vec<CancellationToken> = wanted
            .into_iter()
            .filter(|(_, wanted)| *wanted)
            .map(|(kind, _)| self.follow(&client, kind, tasks))
            .collect();
        for listed in first {
            listed.cancelled().await;
        }
        if slices || endpoints {
            self.follow(&client, Kind::Pods, tasks).cancelled().await;
        }
    }

    /// Follows one kind; the token is cancelled when its first list is complete.
    fn follow(
        self: &Arc<Self>,
        client: &kube::Client,
        kind: Kind,
        tasks: &mut JoinSet<()>,
    ) -> CancellationToken {
        let listed = CancellationToken::new();
        let (engine, done) = (Arc::clone(self), listed.clone());
        let take = move |happening: Happening<'_>| engine.take(kind, happening, &done);
        let (client, engine, shutdown) = (client.clone(), Arc::clone(self), self.shutdown.clone());
        tasks.spawn(async move {
            // A server that stops with us ends its watches, which is nothing to warn of.
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = follow(client, kind, &engine.reach, take) => {}
            }
        });
        listed
    }

    fn take(&self, kind: Kind, happening: Happening<'_>, listed: &CancellationToken) -> Taken {
        let mut world = self.world.lock();
        let mut taken = Ok(String::new());
        match happening {
            Happening::Seen(json) => {
                taken = world.seen(kind, json);
                self.complain(&mut world, kind, json, &taken);
            }
            Happening::Gone(json) => {
                taken = world.gone(kind, json);
                self.complain(&mut world, kind, json, &taken);
            }
            Happening::Restored => world.restored(kind),
            Happening::ListBegins => {
                self.settings.metrics.listed(kind);
                world.list_begins(kind);
            }
            Happening::ListEnds => {
                world.list_ends(kind);
                listed.cancel();
            }
            Happening::Answered => {
                self.failures.answered();
                if self.reach.answered() {
                    self.queues.iter().for_each(Queue::answered);
                }
            }
            Happening::Works => self.failures.works(&Subject::Watch(kind)),
            Happening::Failed { error, again } => {
                self.settings.metrics.watch_failed(kind);
                let failure = Failure { about: About::default(), cause: &Cause::of_watch(error), why: error };
                self.failures.failed(&Subject::Watch(kind), &[failure], Some(again));
            }
        }
        self.flush(&mut world);
        taken
    }

    /// Counts and names an object that cannot be read; the caches keep what they had of it.
    fn complain(&self, world: &mut World, kind: Kind, json: &[u8], taken: &Taken) {
        if let Err(error) = taken {
            self.settings.metrics.unreadable(kind);
            let object = world.unreadable(kind, json);
            tracing::error!(kind = kind.resource(), object, %error, "an object cannot be read and is passed over");
        }
    }

    /// Passes on what the world calls for.
    pub(super) fn flush(&self, world: &mut World) {
        for (key, pace) in world.take_wakes() {
            self.enqueue(key, pace);
        }
        for note in world.take_notes() {
            self.reporter.tell(note);
        }
    }
}
