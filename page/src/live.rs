//! Whether anybody looks, and what runs while somebody does.
//!
//! The first who looks starts the watches; some time after the last has gone they end, and what they knew is forgotten.
//! Every viewer has a place in one bounded queue: who falls behind reads all anew.

use std::{sync::Arc, time::Duration};

use kube::Client;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{follow, run::Run};

/// Changes are gathered for so long before the browsers are told.
const GATHER: Duration = Duration::from_millis(250);
/// So many can look at once.
pub(crate) const MOST_VIEWERS: usize = 64;

/// Who looks.
#[derive(Debug)]
struct Viewers {
    count: usize,
    last: Instant,
    run: Option<Arc<Run>>,
}

/// Starts and ends what runs.
pub(crate) struct Live {
    client: Client,
    linger: Duration,
    shutdown: CancellationToken,
    viewers: Mutex<Viewers>,
}

impl Live {
    /// Reads by the client; ends `linger` after the last viewer has gone, and at once with `shutdown`.
    pub(crate) fn new(client: Client, linger: Duration, shutdown: CancellationToken) -> Arc<Self> {
        let viewers = Mutex::new(Viewers { count: 0, last: Instant::now(), run: None });
        Arc::new(Self { client, linger, shutdown, viewers })
    }

    /// Somebody looks once: what runs, started if it was not.
    pub(crate) fn glance(self: &Arc<Self>) -> Arc<Run> {
        let mut viewers = self.viewers.lock();
        viewers.last = Instant::now();
        if let Some(run) = &viewers.run {
            return Arc::clone(run);
        }
        let run = Arc::new(Run::new());
        viewers.run = Some(Arc::clone(&run));
        tokio::spawn(Arc::clone(self).work(Arc::clone(&run)));
        run
    }

    /// Somebody looks until the value is dropped; none if too many do.
    pub(crate) fn look(self: &Arc<Self>) -> Option<Look> {
        let run = self.glance();
        let mut viewers = self.viewers.lock();
        if viewers.count >= MOST_VIEWERS {
            return None;
        }
        viewers.count += 1;
        Some(Look { live: Arc::clone(self), run })
    }

    /// When it would end if nobody looked any more; none while somebody does.
    fn end(&self) -> Option<Instant> {
        let viewers = self.viewers.lock();
        (viewers.count == 0).then(|| viewers.last + self.linger)
    }

    /// Ends it, if nobody looks.
    fn ends(&self) -> bool {
        let mut viewers = self.viewers.lock();
        let ends = viewers.count == 0 && viewers.last + self.linger <= Instant::now();
        if ends {
            viewers.run = None;
        }
        ends
    }

    async fn work(self: Arc<Self>, run: Arc<Run>) {
        tracing::debug!("somebody looks at the page: its watches begin");
        let watches = follow::all(&self.client, &run);
        loop {
            let end = self.end().unwrap_or_else(|| Instant::now() + self.linger);
            tokio::select! {
                () = self.shutdown.cancelled() => break,
                () = sleep_until(end) => if self.ends() {
                    break;
                },
                () = run.changed.notified() => {
                    sleep(GATHER).await;
                    run.tell();
                }
            }
        }
        drop(watches);
        tracing::debug!("nobody looks at the page any more: its watches end");
    }
}

/// Somebody who looks.
pub(crate) struct Look {
    live: Arc<Live>,
    /// What they look at.
    pub(crate) run: Arc<Run>,
}

impl Drop for Look {
    fn drop(&mut self) {
        let mut viewers = self.live.viewers.lock();
        viewers.count -= 1;
        viewers.last = Instant::now();
    }
}
