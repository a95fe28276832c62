//! The thread that removes stale entries: what comes while it works waits together and is one more round.

use std::{
    collections::BTreeSet,
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use service_api::address::Family;

use super::{Fronts, is_stale, netlink::Conntrack};
use crate::nft::wire::SocketError;

/// What to look for.
#[derive(Debug, Default)]
struct Job {
    fronts: Fronts,
    local: BTreeSet<IpAddr>,
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Cleaner {
    jobs: mpsc::Sender<Job>,
    deleted: Arc<AtomicU64>,
}

impl Cleaner {
    /// Starts it in the network namespace of the calling thread.
    pub fn start(families: &[Family]) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        let (deleted, families) = (Arc::new(AtomicU64::new(0)), families.to_vec());
        let count = Arc::clone(&deleted);
        thread::Builder::new()
            .name("conntrack".to_owned())
            .spawn(move || work(&waiting, &families, &count))?;
        Ok(Self { jobs, deleted })
    }

    /// Looks for stale entries of these fronts. `local` are the node's addresses.
    pub fn clean(&self, fronts: Fronts, local: BTreeSet<IpAddr>) {
        if !fronts.is_empty() && self.jobs.send(Job { fronts, local }).is_err() {
            tracing::warn!("stale entries of connection tracking are removed no longer");
        }
    }

    /// How many entries were removed.
    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }
}

fn work(waiting: &mpsc::Receiver<Job>, families: &[Family], deleted: &AtomicU64) {
    while let Ok(mut job) = waiting.recv() {
        while let Ok(more) = waiting.try_recv() {
            job.fronts.extend(more.fronts);
            job.local = more.local;
        }
        for family in families {
            match clean(*family, &job) {
                Ok(0) => {}
                Ok(count) => {
                    deleted.fetch_add(count, Ordering::Relaxed);
                    tracing::info!(%family, count, "removed stale UDP entries of connection tracking");
                }
                Err(error) => {
                    tracing::warn!(%family, %error, "stale UDP entries of connection tracking stay");
                }
            }
        }
    }
}

fn clean(family: Family, job: &Job) -> Result<u64, SocketError> {
    let mut conntrack = Conntrack::open()?;
    let entries = conntrack.udp(family, |flow| is_stale(flow, &job.fronts, &job.local))?;
    conntrack.delete(family, &entries)?;
    Ok(u64::try_from(entries.len()).unwrap_or(u64::MAX))
}
