//! What the admission webhook costs as a whole process: `hack/bench/webhook.sh`. Prints a table; asserts nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::cast_precision_loss)]

use std::{
    error::Error,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use service_tests::{
    cluster::Lab,
    http::{Client, Target},
    launch::{kubeconfig_text, start_controllers},
    load::{creations, fire_all, percentile},
    process::Process,
    tls, usage,
};
use tokio::{process::Command, task::JoinSet, time::sleep_until};

type Outcome<T> = Result<T, Box<dyn Error>>;

const OWN: &str = "/apis/service-control-plane.io/v1alpha1";
const NAMESPACE: &str = "default";
const CONNECTIONS: usize = 16;
const RATE: u32 = 500;
const QUESTIONS: u32 = 5_000;

/// A pool of a /20 and a thousand ports, for all Services that are asked about.
fn pool() -> Value {
    json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool", "metadata": {"name": "gold"},
        "spec": {"addresses": ["10.96.16.0/20"], "nodePorts": [{"firstPort": 31000, "lastPort": 31999}],
            "coolDownSeconds": 60, "serviceSelector": {"matchLabels": {"tier": "gold"}}}})
}

fn question(uid: u32) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("s{uid}"), "namespace": NAMESPACE, "labels": {"tier": "gold"}},
        "spec": {"type": "LoadBalancer", "ports": [
            {"name": "http", "port": 80, "protocol": "TCP"}, {"name": "https", "port": 443, "protocol": "TCP"}]}});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": format!("u{uid}"), "resource": {"group": "", "version": "v1", "resource": "services"},
        "name": format!("s{uid}"), "namespace": NAMESPACE, "operation": "CREATE", "object": object, "oldObject": null,
        // Nothing is kept, so that the pool does not run full.
        "dryRun": true}})
}

async fn start(binary: &str, lab: &Lab, dir: &Path) -> Outcome<(Process, String)> {
    let kubeconfig = dir.join("kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_text(&lab.server.target.url()))?;
    let mut command = Command::new(std::path::absolute(binary)?);
    command
        .args(["webhook", "--webhook-port=0", "--bind-address=127.0.0.1", "--kubeconfig"])
        .arg(&kubeconfig);
    let process = start_controllers(command, &dir.join("log")).await?;
    let output = process.output();
    let port =
        output.split_once("the webhook listens address=127.0.0.1:").ok_or("it does not say its port")?.1;
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    Ok((process, format!("https://127.0.0.1:{port}")))
}

async fn measure(binary: &str, services: usize) -> Outcome<()> {
    let lab = Lab::start(binary, &["10.96.0.0/12"], "30000-32767").await?;
    fire_all(&lab.server.target, creations(NAMESPACE, "f", 0..services), 8).await?;
    lab.client.call("POST", &format!("{OWN}/servicepools"), &pool()).await?;
    let dir = tempfile::tempdir()?;
    let (process, url) = start(binary, &lab, dir.path()).await?;
    let target = Target::new(&url, tls::trusting_anyone()?, None)?;
    let clients: Vec<Arc<Client>> = (0..CONNECTIONS).map(|_| Arc::new(Client::new(target.clone()))).collect();
    for client in &clients {
        client.call("POST", "/mutate", &question(u32::MAX)).await?;
    }
    let pid = process.id().unwrap_or_default();
    let before = usage::cpu(pid)?;
    let begun = tokio::time::Instant::now();
    let mut asked = JoinSet::new();
    for i in 0..QUESTIONS {
        let due = begun + Duration::from_secs(1) * i / RATE;
        sleep_until(due).await;
        let client = Arc::clone(&clients[i as usize % CONNECTIONS]);
        asked.spawn(async move {
            let begun = Instant::now();
            let (code, answer) = client.call("POST", "/mutate", &question(i)).await?;
            let steered = code == 200 && answer["response"]["patch"].is_string();
            Ok::<_, service_tests::http::HttpError>((begun.elapsed(), steered))
        });
    }
    let mut times = Vec::new();
    let mut steered = 0;
    while let Some(done) = asked.join_next().await {
        let (time, is_steered) = done??;
        times.push(time);
        steered += u32::from(is_steered);
    }
    times.sort_unstable();
    let cpu = usage::cpu(pid)?.saturating_sub(before);
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "| {services} | {steered}/{QUESTIONS} | {:.2} | {:.2} | {:.3} | {:.0} |",
        millis(percentile(&times, 0.5)),
        millis(percentile(&times, 0.99)),
        millis(cpu) / f64::from(QUESTIONS),
        usage::memory(pid)?.resident as f64 / f64::from(1 << 20),
    );
    process.terminate().await?;
    lab.stop().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(binary) = std::env::args().nth(1) else {
        eprintln!("usage: bench_webhook BINARY");
        return ExitCode::FAILURE;
    };
    println!(
        "## {RATE} questions a second over {CONNECTIONS} connections, two node ports and an address each\n"
    );
    println!(
        "| Services | steered | p50, ms | p99, ms | CPU, ms each | memory, MiB |\n| --- | --- | --- | --- | --- | --- |"
    );
    for services in [0, 5_000, 50_000] {
        if let Err(error) = measure(&binary, services).await {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
