//! `simulate`: reads objects, plans without a server to write to, and prints what would be written.
//!
//! Owns where the objects come from and what is printed. What would be written is `service_controllers::simulate`'s.

mod text;

use std::io::{self, Write as _};
use std::path::PathBuf;

use parking_lot::Mutex;
use service_controllers::explain::Kind;
use service_controllers::simulate::{Asked, Simulation, Simulator};

use super::CommandError;
use crate::args::SimulateArgs;
use crate::cluster::{self, Watched};
use crate::objects::Item;
use crate::objects::dump::{self, DumpError};
use crate::objects::live::{FetchError, Fetched, Want, fetch};
use crate::output::printed;
use crate::paint::Paint;
use crate::progress::Progress;

/// Why nothing is simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// Nothing to begin with.
    #[error("give objects with -f FILE, or --from-server for those of a cluster")]
    NoObjects,
    /// A file without objects.
    #[error("-f: there is no Service in what was read: give Services, and the pods or workloads behind them")]
    NoService,
    /// A file is no dump.
    #[error("{flag} {source}")]
    Dump {
        /// By which flag it was given.
        flag: &'static str,
        /// What is wrong.
        source: DumpError,
    },
    /// A server cannot be asked.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// Simulates and prints.
pub(super) async fn run(args: SimulateArgs) -> Result<(), CommandError> {
    if args.filename.is_empty() && !args.from_server {
        return Err(SimulateError::NoObjects.into());
    }
    let mut simulator = Simulator::new(args.set.clone(), args.max_endpoints_per_slice.get());
    if args.from_server {
        let client = cluster::connect_as_kubectl(&args.place, Watched::default()).await?;
        simulator = from_server(&client, simulator).await.map_err(SimulateError::from)?;
    }
    read(&args.filename, "-f", &mut |item| simulator.add(item.group, item.kind, item.json))?;
    read(&args.with, "--with", &mut |item| simulator.add_later(item.group, item.kind, item.json))?;
    if !simulator.has_services() {
        return Err(SimulateError::NoService.into());
    }
    let asked = Asked { namespace: args.namespace.clone(), selector: args.selector.clone() };
    let progress = Progress::new("Services planned");
    let found: Simulation = simulator.run(&asked, &|| progress.add(1));
    drop(progress);
    let (paint, show) = (Paint::of(args.color), args.show.get());
    let text = printed(args.output, &found, || text::render(&found, paint, show));
    match io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CommandError::Output),
    }
}

fn read(
    files: &[PathBuf],
    flag: &'static str,
    sink: &mut dyn FnMut(Item<'_>) -> Result<(), serde_json::Error>,
) -> Result<(), SimulateError> {
    dump::read(files, sink).map_err(|source| SimulateError::Dump { flag, source })
}

async fn from_server(client: &kube::Client, simulator: Simulator) -> Result<Simulator, FetchError> {
    let (simulator, progress) = (Mutex::new(simulator), Progress::new("objects listed"));
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Event) {
        let mut sink = |item: Item<'_>| {
            progress.add(1);
            simulator.lock().add(kind.group(), kind.name(), item.json)
        };
        let fetched = fetch(client, &Want::all(kind, None), &mut sink).await?;
        if let Fetched::Whole = fetched {
            simulator.lock().know(kind);
        }
    }
    Ok(simulator.into_inner())
}
