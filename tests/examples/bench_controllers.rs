//! What the controllers cost as a process of their own: `hack/bench/controllers.sh`. Prints tables; asserts nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::cast_precision_loss)]

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use service_tests::{
    case::ServerOptions,
    crowd::{self, CROWDS, Crowd},
    endpoints_seen::EndpointsSeen,
    http::{Client, Target},
    launch::{Launcher, Server, kubeconfig_text, start_controllers},
    load::{Gun, Shot, fire_all, percentile},
    process::Process,
    usage,
};
use tokio::{process::Command, task::JoinSet, time::sleep};

type Outcome<T> = Result<T, Box<dyn Error>>;

const CONNECTIONS: usize = 8;
const PATIENCE: Duration = Duration::from_mins(2);
/// Pods are replaced in so many steps of so many; those behind them are there to the end.
const STEPS: usize = 80;
const STEP: usize = 25;
/// So long the client that does nothing with what it reads is measured.
const WIRE_SECONDS: u64 = 20;
/// Without CPU use for so long, the controllers have nothing left to do.
const QUIET: Duration = Duration::from_millis(1500);

const HELP: &str = "usage: bench_controllers BINARY [--controllers=NAMES] [medium] [medium1ns] [large] [huge] [limit]   (default: all)
FLIP_SECONDS=60, FLIPS_A_SECOND=50 and IDLE_SECONDS=30 of the environment can be set; SERVER_BINARY is what serves, if not
BINARY: two heads of the controllers are compared beside the same server.";

/// The controllers, running.
struct Running {
    process: Process,
}

/// What a roll-out waits for.
#[derive(Clone, Copy)]
enum WaitsFor {
    /// Nothing: the pods get their addresses.
    Listed,
    /// That slices say so.
    Ready(bool),
}

/// So many pods are rolled out.
const ROLL_OUT: usize = 350;

struct Bench<'a> {
    binary: &'a Path,
    controllers: &'a str,
    crowd: Crowd,
    server: Server,
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Running {
    fn pid(&self) -> u32 {
        self.process.id().unwrap_or_default()
    }

    fn cpu(&self) -> Outcome<Duration> {
        Ok(usage::cpu(self.pid())?)
    }

    fn tell_memory(&self) -> Outcome<()> {
        let memory = usage::memory(self.pid())?;
        println!("| memory: peak / afterwards | {:.1} / {:.1} MiB |", mib(memory.peak), mib(memory.resident));
        Ok(())
    }

    /// Waits until no more CPU is used.
    async fn settle(&self) -> Outcome<Duration> {
        let (mut last, mut since) = (self.cpu()?, Instant::now());
        loop {
            sleep(Duration::from_millis(50)).await;
            let now = self.cpu()?;
            if now.saturating_sub(last) > Duration::from_millis(15) {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > QUIET {
                return Ok(now);
            }
        }
    }
}

impl Bench<'_> {
    fn target(&self) -> &Target {
        &self.server.target
    }

    /// Starts the controllers; they are ready when their caches are filled.
    async fn run(&self, name: &str) -> Outcome<Running> {
        let dir = self.server.dir.path();
        let kubeconfig = dir.join("bench.kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_text(&self.target().url()))?;
        let mut command = Command::new(self.binary);
        command
            .arg("run")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--controllers={}", self.controllers))
            .arg("--leader-elect=false")
            .env("TMPDIR", dir);
        let process = start_controllers(command, &dir.join(format!("{name}.log"))).await?;
        Ok(Running { process })
    }

    /// The version the server is at: it counts writes.
    async fn version(&self) -> Outcome<u64> {
        let list = Client::new(self.target().clone()).get("/api/v1/namespaces?limit=1").await?.1;
        let text = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        Ok(text.parse()?)
    }

    async fn fill(&self) -> Outcome<f64> {
        let crowd = self.crowd;
        fire_all(self.target(), crowd.ground(), CONNECTIONS).await?;
        fire_all(self.target(), crowd.services(), CONNECTIONS).await?;
        let pods = 0..crowd.all_pods();
        fire_all(self.target(), pods.clone().map(|pod| crowd.creation(pod)).collect(), CONNECTIONS).await?;
        fire_all(self.target(), pods.map(|pod| crowd.status(pod, true)).collect(), CONNECTIONS).await?;
        let client = Client::new(self.target().clone());
        let page = client.get("/api/v1/namespaces/crowd-0/pods?limit=1").await?.1;
        Ok(page["items"][0].to_string().len() as f64 / 1024.0)
    }

    /// Sends shots at a rate, each over one of some connections.
    async fn paced(&self, shots: Vec<Shot>, per_second: u32) -> Outcome<()> {
        let shots = Arc::new(shots);
        let (first, mut firing) = (Instant::now(), JoinSet::new());
        for offset in 0..CONNECTIONS {
            let (mut gun, shots) = (Gun::connect(self.target()).await?, Arc::clone(&shots));
            firing.spawn(async move {
                for number in (offset..shots.len()).step_by(CONNECTIONS) {
                    let due = first + Duration::from_secs(number as u64) / per_second;
                    tokio::time::sleep_until(due.into()).await;
                    gun.fire(&shots[number]).await?;
                }
                Ok::<_, service_tests::load::LoadError>(())
            });
        }
        while let Some(done) = firing.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Readiness flips at a rate; gives CPU per flip, the sorted delays from the patch to the slice, and how many
    /// never came.
    async fn flips(
        &self,
        running: &Running,
        seen: &Arc<EndpointsSeen>,
    ) -> Outcome<(f64, Vec<Duration>, usize)> {
        let rate = u32::try_from(setting("FLIPS_A_SECOND", 50))?;
        let flips = usize::try_from(setting("FLIP_SECONDS", 60) * u64::from(rate))?;
        let before = running.settle().await?;
        let (first, crowd) = (Instant::now(), self.crowd);
        let mut firing = JoinSet::new();
        for offset in 0..CONNECTIONS {
            let (mut gun, seen) = (Gun::connect(self.target()).await?, Arc::clone(seen));
            firing.spawn(async move {
                let (mut delays, mut watching) = (Vec::new(), JoinSet::new());
                for number in (offset..flips).step_by(CONNECTIONS) {
                    let due = first + Duration::from_secs(number as u64) / rate;
                    tokio::time::sleep_until(due.into()).await;
                    // Each pod once to not ready, and later back.
                    let half = crowd.all_pods().min(flips / 2).max(1);
                    let (pod, ready) = (number % half * 7919 % crowd.all_pods(), number / half % 2 == 1);
                    let sent = Instant::now();
                    gun.fire(&crowd.status(pod, ready)).await?;
                    let seen = Arc::clone(&seen);
                    watching.spawn(async move {
                        let at = seen.until(pod, ready, Duration::from_secs(30)).await;
                        at.map(|at| at.saturating_duration_since(sent))
                    });
                }
                while let Some(delay) = watching.join_next().await {
                    delays.push(delay.ok().flatten());
                }
                Ok::<_, service_tests::load::LoadError>(delays)
            });
        }
        let mut delays = Vec::new();
        while let Some(done) = firing.join_next().await {
            delays.extend(done??);
        }
        let lost = delays.iter().filter(|delay| delay.is_none()).count();
        let mut delays: Vec<Duration> = delays.into_iter().flatten().collect();
        delays.sort_unstable();
        let cpu = running.settle().await?.saturating_sub(before);
        Ok((millis(cpu) / flips as f64, delays, lost))
    }

    /// Status updates that no endpoint depends on, for 15 s; gives CPU per update.
    async fn irrelevant(&self, running: &Running, per_second: u32) -> Outcome<f64> {
        let before = running.settle().await?;
        let (crowd, updates) = (self.crowd, usize::try_from(per_second)? * 15);
        let shots =
            (0..updates).map(|n| crowd.beside_the_point(n * 7919 % crowd.all_pods(), n + 1)).collect();
        self.paced(shots, per_second).await?;
        let cpu = running.settle().await?.saturating_sub(before);
        Ok(millis(cpu) / updates as f64)
    }

    /// The same flips met by a client (`bench_wire`) that makes the controllers' watches and writes, but reads and decides
    /// nothing; gives its CPU per flip.
    async fn wire(&self) -> Outcome<f64> {
        let dir = self.server.dir.path();
        let mut command = Command::new(std::env::current_exe()?.with_file_name("bench_wire"));
        command.arg(dir.join("bench.kubeconfig")).env("TMPDIR", dir);
        let client = Running { process: Process::start(command, &dir.join("wire.log"))? };
        let before = client.settle().await?;
        let (rate, crowd) = (u32::try_from(setting("FLIPS_A_SECOND", 50))?, self.crowd);
        let flips = usize::try_from(WIRE_SECONDS * u64::from(rate))?;
        let kept = crowd.all_pods() - STEPS * STEP;
        let shots = (0..flips).map(|n| crowd.status(STEPS * STEP + n * 7919 % kept, false)).collect();
        self.paced(shots, rate).await?;
        let cpu = client.settle().await?.saturating_sub(before);
        let said = client.process.output();
        if !said.is_empty() {
            return Err(format!("bench_wire: {said}").into());
        }
        client.process.kill().await?;
        Ok(millis(cpu) / flips as f64)
    }

    /// 2,000 pods replaced in 80 steps of 25; gives the writes of slices.
    async fn replace(&self, running: &Running, seen: &EndpointsSeen) -> Outcome<usize> {
        let crowd = self.crowd;
        running.settle().await?;
        let before = seen.events();
        for step in 0..STEPS {
            let old: Vec<usize> = (step * STEP..(step + 1) * STEP).collect();
            let new: Vec<usize> = old.iter().map(|pod| pod + crowd.all_pods()).collect();
            let mut shots: Vec<Shot> = old.iter().map(|pod| crowd.deletion(*pod)).collect();
            shots.extend(new.iter().map(|pod| crowd.creation(*pod)));
            fire_all(self.target(), shots, CONNECTIONS).await?;
            fire_all(self.target(), new.iter().map(|pod| crowd.status(*pod, true)).collect(), CONNECTIONS)
                .await?;
            sleep(Duration::from_millis(500)).await;
        }
        running.settle().await?;
        Ok(seen.events() - before)
    }

    /// Starts and stops controllers that find no slice yet.
    async fn tell_cold_start(&self, seen: &EndpointsSeen) -> Outcome<()> {
        let started = Instant::now();
        let cold = self.run("cold").await?;
        let pods = self.crowd.all_pods();
        if !seen.until_ready(pods, PATIENCE).await {
            return Err(format!("only {} of {pods} endpoints came", seen.ready()).into());
        }
        let elapsed = started.elapsed();
        let cpu = cold.settle().await?;
        println!(
            "| cold start, CPU | {:.2} s ({:.2} s until all slices are there) |",
            cpu.as_secs_f64(),
            elapsed.as_secs_f64()
        );
        cold.tell_memory()?;
        cold.process.terminate().await?;
        Ok(())
    }

    /// Starts controllers that find everything done.
    async fn tell_restart(&self) -> Outcome<Running> {
        let before = self.version().await?;
        let running = self.run("warm").await?;
        let cpu = running.settle().await?;
        println!(
            "| restart: writes; CPU; peak memory | {}; {:.2} s; {:.1} MiB |",
            self.version().await? - before,
            cpu.as_secs_f64(),
            mib(usage::memory(running.pid())?.peak)
        );
        Ok(running)
    }

    /// 350 pods behind a Service of their own get an address and, a second later, are ready, over 8 s; tells the writes of
    /// slices, and how long "ready" and then "not ready" took to reach a slice.
    async fn tell_roll_out(&self, running: &Running, seen: &Arc<EndpointsSeen>) -> Outcome<()> {
        running.settle().await?;
        fire_all(self.target(), vec![crowd::roll_out_service()], 1).await?;
        let pods: Vec<usize> = (0..ROLL_OUT).map(crowd::roll_out_pod).collect();
        fire_all(self.target(), pods.iter().map(|pod| crowd::roll_out_creation(*pod)).collect(), CONNECTIONS)
            .await?;
        running.settle().await?;
        let before = seen.events();
        let rate = u32::try_from(ROLL_OUT)? / 8;
        let first = Instant::now();
        let (listed, ready) = tokio::try_join!(
            self.told_at(&pods, seen, first, rate, WaitsFor::Listed),
            self.told_at(&pods, seen, first + Duration::from_secs(1), rate, WaitsFor::Ready(true)),
        )?;
        drop(listed);
        running.settle().await?;
        println!("| {ROLL_OUT} pods over 8 s: slice writes | {} |", seen.events() - before);
        let gone = self.told_at(&pods[..100], seen, Instant::now(), 10, WaitsFor::Ready(false)).await?;
        for (word, delays) in [("ready", ready), ("not ready", gone)] {
            println!(
                "| {word}, status patch to slice: p50 / p99 | {:.1} / {:.1} ms |",
                millis(percentile(&delays, 0.5)),
                millis(percentile(&delays, 0.99))
            );
        }
        Ok(())
    }

    /// Patches the status of pods at a rate; gives the sorted delays until slices say so.
    async fn told_at(
        &self,
        pods: &[usize],
        seen: &Arc<EndpointsSeen>,
        first: Instant,
        rate: u32,
        told: WaitsFor,
    ) -> Outcome<Vec<Duration>> {
        let mut gun = Gun::connect(self.target()).await?;
        let mut watching = JoinSet::new();
        for (number, pod) in (0_u64..).zip(pods) {
            tokio::time::sleep_until((first + Duration::from_secs(number) / rate).into()).await;
            let ready = matches!(told, WaitsFor::Ready(true));
            let sent = Instant::now();
            gun.fire(&crowd::roll_out_status(*pod, ready)).await?;
            if let WaitsFor::Ready(ready) = told {
                let (seen, pod) = (Arc::clone(seen), *pod);
                watching.spawn(async move {
                    let at = seen.until(pod, ready, Duration::from_secs(30)).await;
                    at.map(|at| at.saturating_duration_since(sent))
                });
            }
        }
        let mut delays = Vec::new();
        while let Some(delay) = watching.join_next().await {
            delays.extend(delay.ok().flatten());
        }
        delays.sort_unstable();
        Ok(delays)
    }

    async fn tell_load(&self, running: &Running, seen: &Arc<EndpointsSeen>) -> Outcome<()> {
        let (idle, from) = (setting("IDLE_SECONDS", 30), running.cpu()?);
        sleep(Duration::from_secs(idle)).await;
        println!("| idle CPU in {idle} s | {:.2} s |", running.cpu()?.saturating_sub(from).as_secs_f64());
        for per_second in [50, 200, 1000] {
            let cpu = self.irrelevant(running, per_second).await?;
            println!("| irrelevant status update at {per_second}/s, CPU | {cpu:.3} ms |");
        }
        let (per_flip, delays, lost) = self.flips(running, seen).await?;
        println!("| flip at {}/s, CPU | {per_flip:.3} ms |", setting("FLIPS_A_SECOND", 50));
        println!(
            "| status patch to slice: p50 / p99 / most; lost | {:.1} / {:.1} / {:.1} ms; {lost} |",
            millis(percentile(&delays, 0.5)),
            millis(percentile(&delays, 0.99)),
            millis(percentile(&delays, 1.0))
        );
        self.tell_roll_out(running, seen).await?;
        if self.crowd.name == "huge" {
            let writes = self.replace(running, seen).await?;
            println!("| 2,000 pods replaced in 80 steps: slice writes | {writes} |");
        }
        running.tell_memory()
    }
}

async fn one(binary: &Path, controllers: &str, crowd: Crowd) -> Outcome<()> {
    let options = ServerOptions {
        service_cidrs: vec!["10.96.0.0/12".to_owned()],
        node_port_range: "30000-32767".to_owned(),
    };
    let serving = std::env::var_os("SERVER_BINARY").map_or_else(|| binary.to_owned(), PathBuf::from);
    let server = Launcher::Binary(serving).start(&options, &["--controllers", "none"]).await?;
    let bench = Bench { binary, controllers, crowd, server };
    let size = bench.fill().await?;
    println!(
        "## {}: {} Services x {} pods in {} namespaces, a pod of {size:.1} KiB; {controllers}\n",
        crowd.name, crowd.services, crowd.pods, crowd.namespaces
    );
    println!("| what | figure |\n| --- | --- |");
    let seen = Arc::new(EndpointsSeen::follow(bench.target()).await?);
    bench.tell_cold_start(&seen).await?;
    let running = bench.tell_restart().await?;
    bench.tell_load(&running, &seen).await?;
    running.process.terminate().await?;
    println!(
        "| a flip's watches and writes alone, nothing read or decided, CPU | {:.3} ms |\n",
        bench.wire().await?
    );
    drop(seen);
    bench.server.stop().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (flags, mut names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let controllers = flags.iter().find_map(|flag| flag.strip_prefix("--controllers="));
    let controllers = controllers.unwrap_or("endpointslice-controller,endpoints-controller");
    if names.is_empty() || flags.iter().any(|flag| !flag.starts_with("--controllers=")) {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    }
    let binary = PathBuf::from(names.remove(0));
    for crowd in CROWDS {
        if (names.is_empty() || names.iter().any(|name| name == crowd.name))
            && let Err(error) = one(&binary, controllers, crowd).await
        {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
