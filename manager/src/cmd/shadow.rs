//! `run --shadow` and `diff`: what the controllers would write, and do not.

use std::{sync::Arc, time::Duration};

use http::{Method, Request};
use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::Value;
use service_allocators::PortSharing;
use service_controllers::{differences, runtime};
use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::{CommandError, controllers};
use crate::{
    args::DiffArgs,
    cluster::{self, Watched},
    progress::Progress,
    shadow::{Differences, Withheld, describe},
    shutdown,
};

/// How often it is looked for differences that have lasted.
const LOOK: Duration = Duration::from_secs(1);
/// How long plans have at first, beside the grace period.
const FIRST_PLANS: Duration = Duration::from_secs(3);
/// How often it is looked whether everything was listed.
const LISTED: Duration = Duration::from_millis(100);
/// A row of the page of differences needs no more reads than these to be recognised.
const MOST_READS: usize = 16;

/// Logs each difference that has lasted, once, until `shutdown`.
pub(super) async fn tell(
    differences: Arc<Differences>,
    client: Client,
    grace: Duration,
    shutdown: CancellationToken,
) {
    let mut looks = interval(LOOK);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = looks.tick() => {}
        }
        for write in differences.lasting(grace, Instant::now()) {
            tracing::warn!("{}", in_words(&client, &write).await);
        }
    }
}

/// A difference in words, with the row of `docs/differences.md` that explains it.
async fn in_words(client: &Client, write: &Withheld) -> String {
    let live = live(client, write).await;
    let row = row(client, write, live.as_ref()).await;
    describe(write, live.as_ref(), row)
}

async fn row(client: &Client, write: &Withheld, live: Option<&Value>) -> Option<&'static str> {
    let Withheld { method, path, body } = write;
    let difference = differences::Difference { method: method.as_str(), path, body, live };
    let mut around = differences::Around::new();
    for _ in 0..=MOST_READS {
        let path = match differences::name(&difference, &around) {
            differences::Named::Known(row) => return Some(row),
            differences::Named::New => return None,
            differences::Named::Read(path) => path,
        };
        let read = client.request(Request::get(&path).body(Vec::new()).ok()?).await;
        let found = match read {
            Ok(found) => Some(found),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            // What cannot be read explains nothing.
            Err(_) => return None,
        };
        around.insert(path, found);
    }
    None
}

/// The object that a write is about, as it is.
async fn live(client: &Client, write: &Withheld) -> Option<Value> {
    if write.method == Method::POST {
        return None;
    }
    let path = write.path.strip_suffix("/status").unwrap_or(&write.path);
    client.request(Request::get(path).body(Vec::new()).ok()?).await.ok()
}

/// Prints what the controllers would write to a cluster; with anything to print that is an error.
pub(super) async fn diff(args: DiffArgs) -> Result<(), CommandError> {
    let shutdown = shutdown::on_signal().map_err(CommandError::Signals)?;
    let mut settings = controllers::settings(&args.sync, &args.controllers.selection);
    let watched =
        Watched { requests: settings.metrics.requests().clone(), renewed: Arc::clone(&settings.renewed) };
    let client = cluster::connect_as_kubectl(&args.place, watched).await?;
    let differences = Differences::register(&mut Registry::default());
    let shadow = differences.withhold(&client);
    settings.leader_election = None;
    let of_ledger = controllers::ledger_settings(
        &args.controllers.selection,
        args.service_node_port_range,
        PortSharing::default(),
        &settings,
    );
    let (ready, listed, grace) = (settings.ready.clone(), settings.readiness.clone(), args.shadow_grace.0);
    let work = shutdown.child_token();
    let ledger = tokio::spawn(controllers::start_ledger(shadow.clone(), of_ledger, work.clone()));
    let running = tokio::spawn(runtime::start(shadow, settings, work.clone()));
    let looked = async {
        let progress = Progress::new("kinds not listed yet");
        ready.cancelled().await;
        loop {
            let pending = listed.pending().len();
            progress.set(pending as u64);
            if pending == 0 {
                break;
            }
            sleep(LISTED).await;
        }
        drop(progress);
        let progress = Progress::new("differences so far, until they have lasted");
        let enough = sleep(grace + FIRST_PLANS);
        tokio::pin!(enough);
        while tokio::time::timeout(LISTED, &mut enough).await.is_err() {
            progress.set(differences.count() as u64);
        }
    };
    tokio::pin!(running);
    tokio::select! {
        () = looked => {}
        () = shutdown.cancelled() => return Err(CommandError::NotCompared),
        ended = &mut running => {
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        }
    }
    let mut lasting = differences.lasting(grace, Instant::now());
    if let Some(namespace) = &args.namespace {
        lasting.retain(|write| write.is_in(namespace));
    }
    work.cancel();
    if let Err(error) = ledger.await {
        std::panic::resume_unwind(error.into_panic());
    }
    let progress = Progress::new("differences put into words");
    let mut told = Vec::with_capacity(lasting.len());
    for write in &lasting {
        told.push(in_words(&client, write).await);
        progress.add(1);
    }
    drop(progress);
    for difference in told {
        println!("{difference}");
    }
    if lasting.is_empty() { Ok(()) } else { Err(CommandError::Differences(lasting.len())) }
}
