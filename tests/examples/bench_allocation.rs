//! What the controllers of addresses and node ports cost as whole processes: `hack/bench/allocation.sh`. Prints tables; asserts nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::cast_precision_loss)]

use std::{
    collections::HashMap,
    error::Error,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use http_body_util::BodyExt as _;
use serde_json::Value;
use service_tests::{
    cluster::Lab,
    http::{Client, Target, request},
    launch::{kubeconfig_text, start_controllers},
    load::{Gun, Shot, creations, fire_all, percentile},
    process::Process,
    usage,
};
use tokio::{process::Command, sync::mpsc, task::JoinSet, time::sleep};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const NAMESPACE: &str = "default";
const CONNECTIONS: usize = 16;
const AUDITS: &str = "ip-address-audit-controller,node-port-audit-controller";
const ALL: &str = "service-allocation-controller,ip-address-audit-controller,node-port-audit-controller,node-port-range-controller,service-pool-controller";

/// When each Service was seen to have its address.
type Seen = HashMap<String, Instant>;

/// Watches Services until `count` of them have their address.
async fn observe(target: Target, count: usize, ready: mpsc::Sender<()>) -> Outcome<Seen> {
    let client = Client::new(target);
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/services?watch=true&resourceVersion=0&allowWatchBookmarks=false"
    );
    let response = client.open(request("GET", &path, bytes::Bytes::new())?).await?;
    ready.send(()).await?;
    let mut body = response.into_body();
    let (mut pending, mut seen): (Vec<u8>, Seen) = (Vec::new(), HashMap::new());
    while seen.len() < count {
        let Some(frame) = body.frame().await else { return Err("the watch ended".into()) };
        pending.extend_from_slice(frame?.data_ref().map_or(&[][..], bytes::Bytes::as_ref));
        let now = Instant::now();
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line)?;
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            if name.starts_with("s-") && event["object"]["spec"]["clusterIP"].is_string() {
                seen.entry(name.to_owned()).or_insert(now);
            }
        }
    }
    Ok(seen)
}

/// Sends shots at a rate, or as fast as they are answered; gives when each was sent.
async fn send(target: &Target, shots: Vec<Shot>, rate: Option<u32>) -> Outcome<Vec<Instant>> {
    let begun = Instant::now();
    let share = shots.len().div_ceil(CONNECTIONS);
    let mut running = JoinSet::new();
    for (c, own) in shots.chunks(share).enumerate() {
        let (own, mut gun) = (own.to_vec(), Gun::connect(target).await?);
        running.spawn(async move {
            let mut sent = Vec::new();
            for (i, shot) in own.iter().enumerate() {
                if let Some(rate) = rate {
                    let turn = u32::try_from(i * CONNECTIONS + c).unwrap_or(u32::MAX);
                    let due = begun + Duration::from_secs(1) * turn / rate;
                    sleep(due.saturating_duration_since(Instant::now())).await;
                }
                sent.push(Instant::now());
                gun.fire(shot).await?;
            }
            Ok::<_, service_tests::load::LoadError>((c, sent))
        });
    }
    let mut parts = Vec::new();
    while let Some(done) = running.join_next().await {
        parts.push(done??);
    }
    parts.sort_by_key(|(c, _)| *c);
    Ok(parts.into_iter().flat_map(|(_, sent)| sent).collect())
}

/// Services created until each has its address.
async fn create(binary: &str, mode: &str, count: usize, rate: Option<u32>) -> Outcome<()> {
    let controllers = if mode.ends_with("reconcile") { "service-allocation-controller" } else { "none" };
    let more = [&format!("--controllers={controllers}"), mode];
    let lab = Lab::start_with(binary, &["10.96.0.0/12"], "30000-32767", &more).await?;
    let pid = lab.server.process.id().unwrap_or_default();
    let target = lab.server.target.clone();
    let (ready, mut is_ready) = mpsc::channel(1);
    let observer = tokio::spawn(observe(target.clone(), count, ready));
    is_ready.recv().await;
    let before = usage::cpu(pid)?;
    let shots = creations(NAMESPACE, "s", 0..count);
    let begun = Instant::now();
    let sent = send(&target, shots, rate).await?;
    let seen = observer.await??;
    let last = seen.values().max().copied().unwrap_or(begun);
    let cpu = usage::cpu(pid)?.saturating_sub(before);
    let mut times: Vec<Duration> = sent
        .iter()
        .enumerate()
        .filter_map(|(i, sent)| Some(seen.get(&format!("s-{i}"))?.saturating_duration_since(*sent)))
        .collect();
    times.sort_unstable();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "| {} | {} | {:.0} | {:.1} | {:.1} | {:.3} |",
        mode.trim_start_matches("--allocation="),
        rate.map_or("as fast as answered".to_owned(), |rate| format!("{rate}/s")),
        count as f64 / last.duration_since(begun).as_secs_f64(),
        millis(percentile(&times, 0.5)),
        millis(percentile(&times, 0.99)),
        millis(cpu) / count as f64,
    );
    lab.stop().await?;
    Ok(())
}

async fn start(binary: &str, lab: &Lab, dir: &Path, controllers: &str) -> Outcome<Process> {
    let kubeconfig = dir.join("kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_text(&lab.server.target.url()))?;
    let mut command = Command::new(std::path::absolute(binary)?);
    command
        .args(["run", "--leader-elect=false", &format!("--controllers={controllers}"), "--kubeconfig"])
        .arg(&kubeconfig);
    Ok(start_controllers(command, &dir.join("log")).await?)
}

/// Waits until a process rests: a second without CPU time.
async fn rest(pid: u32) -> Outcome<Duration> {
    let mut used = usage::cpu(pid)?;
    loop {
        sleep(Duration::from_secs(1)).await;
        let now = usage::cpu(pid)?;
        if now.saturating_sub(used) < Duration::from_millis(20) {
            return Ok(now);
        }
        used = now;
    }
}

async fn stand(binary: &str, lab: &Lab, services: usize) -> Outcome<()> {
    for (what, controllers) in [("both audits", AUDITS), ("all controllers of the ledger", ALL)] {
        let dir = tempfile::tempdir()?;
        let process = start(binary, lab, dir.path(), controllers).await?;
        let pid = process.id().unwrap_or_default();
        let cpu = rest(pid).await?;
        let memory = usage::memory(pid)?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "| {what} | {services} | {:.2} | {:.0} | {:.0} |",
            cpu.as_secs_f64(),
            mib(memory.resident),
            mib(memory.peak)
        );
        process.terminate().await?;
    }
    Ok(())
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

async fn measure(binary: &str) -> Outcome<()> {
    println!("load of the machine before: {}\n", load());
    println!(
        "| allocation | created | Services/s until each has its address | p50, ms | p99, ms | CPU of the lab, ms each |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for (mode, rate) in [
        ("--allocation=transaction", None),
        ("--allocation=reconcile", None),
        ("--allocation=reconcile", Some(500)),
    ] {
        create(binary, mode, 5_000, rate).await?;
    }
    println!(
        "\n| beside a lab that allocates | Services | CPU from start to rest, s | memory, MiB | peak, MiB |"
    );
    println!("| --- | --- | --- | --- | --- |");
    let lab = Lab::start(binary, &["10.96.0.0/12"], "30000-32767").await?;
    for services in [0, 50_000] {
        fire_all(&lab.server.target, creations(NAMESPACE, "f", 0..services), CONNECTIONS).await?;
        stand(binary, &lab, services).await?;
    }
    lab.stop().await?;
    println!("\nload of the machine after: {}", load());
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(binary) = std::env::args().nth(1) else {
        eprintln!("usage: bench_allocation BINARY");
        return ExitCode::FAILURE;
    };
    match measure(&binary).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
