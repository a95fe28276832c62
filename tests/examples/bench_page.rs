//! What the page costs as part of `run`: `hack/bench/page.sh`. Prints a table; asserts nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::cast_precision_loss)]

use std::{
    error::Error,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use service_tests::{
    case::ServerOptions,
    cluster::service,
    http::{Client, Target},
    launch::{Launcher, kubeconfig_text, secure_port, start_controllers},
    load::{Shot, fire_all, percentile},
    process::Process,
    usage,
};
use tokio::{process::Command, time::sleep};

type Outcome<T> = Result<T, Box<dyn Error>>;

const CONNECTIONS: usize = 4;
const SERVICES: usize = 10_000;
/// So long CPU is measured.
const WINDOW: Duration = Duration::from_secs(30);
/// So many changes a second somebody makes while somebody looks.
const CHANGES: u64 = 10;
const ASKED: usize = 50;

/// Services, each with an EndpointSlice of three endpoints.
fn objects(count: usize) -> Vec<Shot> {
    let mut shots = Vec::with_capacity(2 * count);
    for n in 0..count {
        let name = format!("service-{n}");
        let spec = json!({"type": if n % 8 == 0 { "NodePort" } else { "ClusterIP" }, "ports": [{"port": 80}], "selector": {"app": name}});
        shots.push(post("/api/v1/namespaces/default/services", &service(&name, &spec)));
        let endpoints: Vec<_> = (0..3).map(|e| json!({"addresses": [format!("10.{}.{}.{e}", 1 + n / 250, n % 250)], "conditions": {"ready": e != 2}, "zone": "a"})).collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"port": 8080}], "endpoints": endpoints,
            "metadata": {"name": format!("{name}-x"), "labels": {"kubernetes.io/service-name": name}},
        });
        shots.push(post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice));
    }
    shots
}

fn post(path: &str, body: &Value) -> Shot {
    Shot { method: http::Method::POST, path: path.to_owned(), body: Bytes::from(body.to_string()) }
}

/// A viewer: reads what is pushed, and says how long ago a change was made that it sees.
struct Viewer {
    body: Incoming,
    text: String,
}

impl Viewer {
    async fn look(client: &Client) -> Outcome<Self> {
        let response = client.open(Request::builder().uri("/page/events").body(Bytes::new())?).await?;
        Ok(Self { body: response.into_body(), text: String::new() })
    }

    /// Reads until these words were pushed.
    async fn until(&mut self, words: &str) -> Outcome<()> {
        while !self.text.contains(words) {
            let frame = self.body.frame().await.ok_or("the events end")??;
            self.text += &String::from_utf8_lossy(frame.data_ref().unwrap_or(&Bytes::new()));
        }
        self.text.clear();
        Ok(())
    }
}

fn pid(process: &Process) -> u32 {
    process.id().unwrap_or_default()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// CPU of a process in per cent of a core, while `work` goes on.
async fn share(process: &Process, work: impl Future<Output = Outcome<()>>) -> Outcome<f64> {
    let (before, start) = (usage::cpu(pid(process))?, Instant::now());
    work.await?;
    sleep(WINDOW.saturating_sub(start.elapsed())).await;
    let used = usage::cpu(pid(process))?.saturating_sub(before);
    Ok(100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64())
}

/// Changes Services at a pace; gives how long each took to be pushed.
async fn changes(lab: &Client, count: usize, viewer: &mut Viewer, delays: &mut Vec<Duration>) -> Outcome<()> {
    let start = Instant::now();
    for n in 0..WINDOW.as_secs() * CHANGES {
        let due = start + Duration::from_secs(n) / u32::try_from(CHANGES)?;
        sleep(due.saturating_duration_since(Instant::now())).await;
        let patch = json!({"spec": {"ports": [{"port": 1000 + n, "protocol": "TCP"}]}});
        let sent = Instant::now();
        lab.call(
            "PATCH",
            &format!("/api/v1/namespaces/default/services/service-{}", usize::try_from(n)? * 31 % count),
            &patch,
        )
        .await?;
        // One of ten is waited for: the others are pushed in between.
        if n % 10 == 9 {
            viewer.until(&format!("\"port\":{}", 1000 + n)).await?;
            delays.push(sent.elapsed());
        }
    }
    Ok(())
}

async fn bench(binary: &Path, count: usize) -> Outcome<()> {
    let options =
        ServerOptions { service_cidrs: vec!["10.96.0.0/12".into()], node_port_range: "30000-32767".into() };
    let server = Launcher::Binary(binary.into()).start(&options, &["--controllers=none"]).await?;
    fire_all(&server.target, objects(count), CONNECTIONS).await?;
    let kubeconfig = server.dir.path().join("bench.kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_text(&server.target.url()))?;
    let mut command = Command::new(binary);
    command.arg("run").arg(format!("--kubeconfig={}", kubeconfig.display()));
    command.args(["--page", "--controllers=none", "--leader-elect=false"]);
    let process = start_controllers(command, &server.dir.path().join("run.log")).await?;
    let target = Target { token: server.target.token.clone(), ..secure_port(&process)? };
    let (page, lab) = (Client::new(target.clone()), Client::new(server.target.clone()));
    println!("| {count} Services, as many slices and IPAddresses | |\n| --- | --- |");
    let quiet = usage::memory(pid(&process))?.resident;
    let idle = share(&process, async { Ok(()) }).await?;
    println!("| CPU while nobody looks | {idle:.2} % |");

    let start = Instant::now();
    let mut viewer = Viewer::look(&page).await?;
    let mut size = 0;
    let body = loop {
        let answer = page.send(Request::builder().uri("/page/data").body(Bytes::new())?).await?;
        let text = String::from_utf8_lossy(&answer.body);
        if !text[..2000.min(text.len())].contains("\"reading\"") {
            break answer.body;
        }
        viewer.until("event: anew").await?;
    };
    size += body.len();
    println!("| first viewer: until all is there | {:.0} ms |", millis(start.elapsed()));
    let mut took = Vec::with_capacity(ASKED);
    for n in 0..ASKED {
        // A change in between, so that the answer has to be put together anew.
        let patch = json!({"metadata": {"labels": {"n": n.to_string()}}, "spec": {"ports": [{"port": 500 + n, "protocol": "TCP"}]}});
        lab.call("PATCH", "/api/v1/namespaces/default/services/service-1", &patch).await?;
        viewer.until(&format!("\"port\":{}", 500 + n)).await?;
        let start = Instant::now();
        page.send(Request::builder().uri("/page/data").body(Bytes::new())?).await?;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    println!(
        "| all rows, {:.2} MiB: median / 99th of a hundred | {:.1} / {:.1} ms |",
        size as f64 / f64::from(1 << 20),
        millis(percentile(&took, 0.5)),
        millis(percentile(&took, 0.99))
    );
    let looking = share(&process, async { Ok(()) }).await?;
    println!("| CPU while one looks and nothing changes | {looking:.2} % |");
    let mut delays = Vec::new();
    let changing = Box::pin(share(&process, changes(&lab, count, &mut viewer, &mut delays))).await?;
    delays.sort_unstable();
    println!("| CPU while one looks and {CHANGES} Services a second change | {changing:.2} % |");
    println!(
        "| from a change to the browser: median / 99th | {:.0} / {:.0} ms |",
        millis(percentile(&delays, 0.5)),
        millis(percentile(&delays, 0.99))
    );
    let memory = usage::memory(pid(&process))?.resident;
    println!("| memory: nobody looks / one looks | {} / {} MiB |", quiet >> 20, memory >> 20);
    process.terminate().await?;
    server.stop().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(binary) = arguments.next() else {
        eprintln!("usage: bench_page BINARY [SERVICES]");
        return ExitCode::FAILURE;
    };
    let count = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(SERVICES);
    match Box::pin(bench(Path::new(&binary), count)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
