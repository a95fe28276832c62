//! What the embedded API server costs as a whole process: `hack/bench/lab.sh`. Prints tables; asserts nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::cast_precision_loss)]

use std::{
    error::Error,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use service_tests::{
    case::ServerOptions,
    launch::{Launcher, Server},
    load::{creations, deletions, fire_all, percentile},
    usage, watching,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

const NAMESPACE: &str = "default";
const CONNECTIONS: usize = 8;
/// Usable addresses of a /16.
const ADDRESSES: usize = 65_534;

const HELP: &str = "usage: bench_lab BINARY [fill] [rate] [start] [watch]   (default: all)";

struct Bench {
    launcher: Launcher,
    options: ServerOptions,
}

impl Bench {
    async fn server(&self, data_dir: Option<&str>) -> Outcome<Server> {
        let mut more = vec!["--controllers", "none"];
        more.extend(data_dir.iter().flat_map(|dir| ["--data-dir", dir]));
        Ok(self.launcher.start(&self.options, &more).await?)
    }
}

fn pid(server: &Server) -> u32 {
    server.process.id().unwrap_or_default()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Server CPU for one Service created and deleted, at several fills of a /16.
async fn fill(bench: &Bench) -> Outcome<()> {
    const PAIRS: usize = 4_000;
    println!("## Server CPU per Service created and deleted, /16, {CONNECTIONS} connections\n");
    println!("| taken | CPU, ms per pair | create p99, ms | delete p99, ms | memory, MiB |");
    println!("| --- | --- | --- | --- | --- |");
    let server = bench.server(None).await?;
    let mut taken = 0;
    for percent in [0, 10, 50, 90] {
        let wanted = ADDRESSES * percent / 100;
        fire_all(&server.target, creations(NAMESPACE, "f", taken..wanted), CONNECTIONS).await?;
        taken = wanted;
        let before = usage::cpu(pid(&server))?;
        let created = fire_all(&server.target, creations(NAMESPACE, "x", 0..PAIRS), CONNECTIONS).await?;
        let deleted = fire_all(&server.target, deletions(NAMESPACE, "x", 0..PAIRS), CONNECTIONS).await?;
        let cpu = usage::cpu(pid(&server))?.saturating_sub(before);
        println!(
            "| {percent} % | {:.3} | {:.2} | {:.2} | {:.0} |",
            millis(cpu) / PAIRS as f64,
            millis(created.percentile(0.99)),
            millis(deleted.percentile(0.99)),
            mib(usage::memory(pid(&server))?.resident)
        );
    }
    server.stop().await?;
    println!();
    Ok(())
}

/// Creates a second and their latency.
async fn rate(bench: &Bench) -> Outcome<()> {
    const SERVICES: usize = 20_000;
    println!("## {SERVICES} Services created over {CONNECTIONS} connections, empty /16\n");
    println!(
        "| storage | creates/s | p50, ms | p99, ms | most, ms | CPU, ms per create |\n| --- | --- | --- | --- | --- | --- |"
    );
    let dir = tempfile::tempdir()?;
    let path = dir.path().to_string_lossy().into_owned();
    for (name, data_dir) in [("memory", None), ("data directory", Some(path.as_str()))] {
        let server = bench.server(data_dir).await?;
        let before = usage::cpu(pid(&server))?;
        let volley = fire_all(&server.target, creations(NAMESPACE, "r", 0..SERVICES), CONNECTIONS).await?;
        let cpu = usage::cpu(pid(&server))?.saturating_sub(before);
        println!(
            "| {name} | {:.0} | {:.2} | {:.2} | {:.2} | {:.3} |",
            volley.rate(),
            millis(volley.percentile(0.5)),
            millis(volley.percentile(0.99)),
            millis(volley.percentile(1.0)),
            millis(cpu) / SERVICES as f64
        );
        server.stop().await?;
    }
    println!();
    Ok(())
}

/// Time from the start of the process to `/readyz`, and memory.
async fn start(bench: &Bench) -> Outcome<()> {
    const SERVICES: usize = 50_000;
    println!("## Start and memory\n");
    println!("| what | ready after, s | resident, MiB | peak, MiB |\n| --- | --- | --- | --- |");
    let dir = tempfile::tempdir()?;
    let path = dir.path().to_string_lossy().into_owned();
    let line = |what: &str, ready: Option<Duration>, server: &Server| -> Outcome<()> {
        let memory = usage::memory(pid(server))?;
        let ready = ready.map_or("-".to_owned(), |ready| format!("{:.2}", ready.as_secs_f64()));
        println!("| {what} | {ready} | {:.0} | {:.0} |", mib(memory.resident), mib(memory.peak));
        Ok(())
    };
    let begun = Instant::now();
    let server = bench.server(None).await?;
    line("empty, in memory", Some(begun.elapsed()), &server)?;
    fire_all(&server.target, creations(NAMESPACE, "m", 0..SERVICES), CONNECTIONS).await?;
    line(&format!("{SERVICES} Services created, in memory"), None, &server)?;
    server.stop().await?;
    let begun = Instant::now();
    let server = bench.server(Some(&path)).await?;
    line("empty, data directory", Some(begun.elapsed()), &server)?;
    fire_all(&server.target, creations(NAMESPACE, "m", 0..SERVICES), CONNECTIONS).await?;
    line(&format!("{SERVICES} Services created, data directory"), None, &server)?;
    server.stop().await?;
    let begun = Instant::now();
    let server = bench.server(Some(&path)).await?;
    line(&format!("started with {SERVICES} Services"), Some(begun.elapsed()), &server)?;
    server.stop().await?;
    println!();
    Ok(())
}

/// Events of a watch while Services are created.
async fn watch(bench: &Bench) -> Outcome<()> {
    const WATCHERS: usize = 10;
    const RATE: u32 = 2_000;
    const SERVICES: usize = 20_000;
    println!("## {WATCHERS} watchers of Services while creating {SERVICES} at {RATE}/s\n");
    println!(
        "| creates/s | events | lost | p50, ms | p99, ms | most, ms |\n| --- | --- | --- | --- | --- | --- |"
    );
    let server = bench.server(None).await?;
    let shots = creations(NAMESPACE, "w", 0..SERVICES);
    let seen = watching::watch_while_creating(&server.target, NAMESPACE, shots, WATCHERS, RATE).await?;
    println!(
        "| {:.0} | {} | {} | {:.2} | {:.2} | {:.2} |\n",
        seen.rate,
        seen.delays.len(),
        seen.lost,
        millis(percentile(&seen.delays, 0.5)),
        millis(percentile(&seen.delays, 0.99)),
        millis(percentile(&seen.delays, 1.0))
    );
    server.stop().await?;
    Ok(())
}

async fn benches(binary: PathBuf, chosen: &[String]) -> Outcome<()> {
    let options = ServerOptions {
        service_cidrs: vec!["10.96.0.0/16".to_owned()],
        node_port_range: "30000-32767".to_owned(),
    };
    let bench = Bench { launcher: Launcher::Binary(binary), options };
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name);
    if wanted("fill") {
        fill(&bench).await?;
    }
    if wanted("rate") {
        rate(&bench).await?;
    }
    if wanted("start") {
        start(&bench).await?;
    }
    if wanted("watch") {
        watch(&bench).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(binary) = arguments.next().filter(|argument| !argument.starts_with('-')) else {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    };
    match benches(PathBuf::from(binary), &arguments.collect::<Vec<_>>()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
