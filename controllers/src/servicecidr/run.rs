//! Runs kube's `Controller` on the watch of ranges, which is followed like that of every other kind.

use std::sync::Arc;

use futures::channel::mpsc;
use futures::{Stream, StreamExt};
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::object::ServiceCidr;
use super::reconcile::{Context, again, reconcile};
use crate::watch::guard::Guard;
use crate::watch::outage::Outage;
use crate::watch::stream::{WatchEvent, follow};

/// So many ranges are looked at at a time.
const CONCURRENCY: u16 = 5;

/// Runs the controller until `shutdown`; `listed` is cancelled when the first list is complete. It watches whether or not
/// this replica leads, and writes only if it does.
pub(crate) async fn run(
    context: Arc<Context>,
    client: &kube::Client,
    guard: &Arc<Guard>,
    outage: &Outage,
    called: impl Stream<Item = ()> + Send + 'static,
    listed: CancellationToken,
    shutdown: CancellationToken,
) {
    let (store, writer) = reflector::store();
    let (triggers, triggered) = mpsc::unbounded();
    let mut feed = Feed {
        context: Arc::clone(&context),
        writer,
        store: store.clone(),
        triggers,
        listing: false,
        listed,
    };
    let following = async {
        // A server that stops with us ends its watches, which is nothing to warn of.
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = follow(client, guard, outage, |event| feed.take(event)) => {}
        }
    };
    let (all, asked) = (store.clone(), Arc::clone(&context));
    let called = called.inspect(move |()| all.state().iter().for_each(|cidr| asked.ask(cidr)));
    let (stop, looked_up) = (shutdown.clone(), store.clone());
    let look = move |cidr: Arc<ServiceCidr>, context: Arc<Context>| {
        let store = looked_up.clone();
        async move { reconcile(cidr, &context, &store).await }
    };
    let looks = Controller::for_stream(triggered.map(Ok::<_, watcher::Error>), store)
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .reconcile_all_on(called)
        .graceful_shutdown_on(async move { stop.cancelled().await })
        .run(look, again, context);
    // What became of a look is told where it ended.
    futures::join!(following, looks.for_each(|_| std::future::ready(())));
}

/// Puts the watch's events into the store, and calls for looks.
struct Feed {
    context: Arc<Context>,
    writer: reflector::store::Writer<ServiceCidr>,
    store: Store<ServiceCidr>,
    triggers: mpsc::UnboundedSender<ServiceCidr>,
    /// Whether a list is under way.
    listing: bool,
    listed: CancellationToken,
}

impl Feed {
    fn take(&mut self, event: WatchEvent<ServiceCidr>) {
        match event {
            WatchEvent::ListBegins => {
                self.listing = true;
                self.writer.apply_watcher_event(&Event::Init);
            }
            WatchEvent::Restored => self.context.state.lock().doubt(),
            WatchEvent::Seen(cidr) => {
                self.context.tell_unreadable(&cidr);
                if self.listing {
                    self.writer.apply_watcher_event(&Event::InitApply(cidr));
                } else {
                    self.writer.apply_watcher_event(&Event::Apply(cidr.clone()));
                    self.trigger(cidr);
                }
            }
            WatchEvent::Gone(cidr) => {
                self.context.state.lock().forget(&cidr.name());
                self.writer.apply_watcher_event(&Event::Delete(cidr));
            }
            WatchEvent::ListEnds => {
                self.listing = false;
                self.writer.apply_watcher_event(&Event::InitDone);
                let all = self.store.state();
                self.context.state.lock().retain(|name| all.iter().any(|cidr| cidr.name() == *name));
                for cidr in all {
                    self.trigger((*cidr).clone());
                }
                self.listed.cancel();
            }
        }
    }

    fn trigger(&self, cidr: ServiceCidr) {
        self.context.ask(&cidr);
        // Nobody takes it when the end has been asked for.
        let _ = self.triggers.unbounded_send(cidr);
    }
}

impl Context {
    /// A look at a range is called for, unless that comes to nothing.
    fn ask(&self, cidr: &ServiceCidr) {
        if self.looks_at(cidr) {
            self.state.lock().ask(&cidr.name(), Instant::now());
        }
    }
}
