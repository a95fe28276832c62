//! Starts servers and controllers as processes of their own and waits until they are ready.

use std::{
    ffi::OsString,
    net::TcpListener,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{process::Command, time::sleep};

use crate::{
    case::{Case, ServerOptions, field},
    http::{Client, HttpError, Target},
    process::{Process, ProcessError},
    tls::{self, TrustError},
};

/// The token of the servers that are started here.
pub const TOKEN: &str = "admintoken";
const READY_WITHIN: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(15);
/// How often a start is tried when another process takes the port in between.
pub(crate) const STARTS: usize = 3;
/// What the port of the lab stands behind in its output, and that of the controllers' metrics and readiness.
const LISTENS: &str = "The API server listens on https://127.0.0.1:";
const SHOWS: [&str; 3] = [
    "metrics and readiness address=127.0.0.1:",
    "\"metrics and readiness\" address=127.0.0.1:",
    "\"metrics and readiness\",\"address\":\"127.0.0.1:",
];
/// A controller that belongs to the server: nothing else collects there.
pub const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";

/// A server or controllers that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The process fails.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No request gets through.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// No trust.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Files cannot be written, or no port is free.
    #[error("cannot prepare the start: {0}")]
    Prepare(#[from] std::io::Error),
}

/// How a server is started.
#[derive(Debug, Clone)]
pub enum Launcher {
    /// By the binary of this project.
    Binary(PathBuf),
    /// By a shell command in which `{port}`, `{cidrs}`, `{node-ports}`, `{token}` and `{dir}` are replaced.
    Shell(String),
}

/// A running server with its working directory.
#[derive(Debug)]
pub struct Server {
    /// The process.
    pub process: Process,
    /// How to talk to it.
    pub target: Target,
    /// Where it may write.
    pub dir: TempDir,
}

impl Server {
    /// Ends the server and checks that it ends in order.
    pub async fn stop(self) -> Result<(), LaunchError> {
        self.process.terminate().await?;
        Ok(())
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Launcher {
    /// Starts a server for a case and waits until everything is there that a case begins with.
    pub async fn server(&self, case: &Case) -> Result<Server, LaunchError> {
        let collects = case.controllers.iter().any(|name| name == GARBAGE_COLLECTOR);
        let controllers = if collects { GARBAGE_COLLECTOR } else { "none" };
        let server = self.start(&case.server, &["--controllers", controllers]).await?;
        wait_for_start_objects(&server).await?;
        Ok(server)
    }

    /// Starts a server with more arguments (of our binary) and waits until it is ready.
    pub async fn start(&self, options: &ServerOptions, more: &[&str]) -> Result<Server, LaunchError> {
        let mut tries = 1;
        loop {
            match self.try_start(options, more).await {
                Err(LaunchError::Process(ProcessError::Ended { .. })) if tries < STARTS => tries += 1,
                result => return result,
            }
        }
    }

    async fn try_start(&self, options: &ServerOptions, more: &[&str]) -> Result<Server, LaunchError> {
        let dir = tempfile::tempdir()?;
        let (mut command, port) = match self {
            Self::Binary(binary) => {
                // The server has a working directory of its own.
                let mut command = Command::new(std::path::absolute(binary)?);
                command.args(lab_arguments(options)).args(more);
                (command, None)
            }
            Self::Shell(template) => {
                let (mut command, port) = (Command::new("sh"), free_port()?);
                let line = fill(template, port, options, dir.path());
                command.arg("-c").arg(format!("exec {line}"));
                (command, Some(port))
            }
        };
        command.env("TMPDIR", dir.path()).current_dir(dir.path());
        let mut process = Process::start(command, &dir.path().join("server.log"))?;
        let port = match port {
            Some(port) => port,
            None => announced(&mut process, &[LISTENS]).await?,
        };
        let target = Target::new(
            &format!("https://127.0.0.1:{port}"),
            tls::trusting_anyone()?,
            Some(TOKEN.to_owned()),
        )?;
        wait_ready(&mut process, &target).await?;
        Ok(Server { process, target, dir })
    }
}

/// The arguments with which the lab is started for cases.
fn lab_arguments(options: &ServerOptions) -> Vec<OsString> {
    let text = [
        "lab",
        "--secure-port=0",
        "--service-cluster-ip-range",
        &options.service_cidrs.join(","),
        "--service-node-port-range",
        &options.node_port_range,
        "--token",
        TOKEN,
    ];
    text.iter().map(OsString::from).collect()
}

fn fill(template: &str, port: u16, options: &ServerOptions, dir: &Path) -> String {
    template
        .replace("{port}", &port.to_string())
        .replace("{cidrs}", &options.service_cidrs.join(","))
        .replace("{node-ports}", &options.node_port_range)
        .replace("{token}", TOKEN)
        .replace("{dir}", &dir.to_string_lossy())
}

/// The port that a process took, as it says behind some of these words. Were it chosen here, another process could take it first, and
/// answer in the place of this one.
pub(crate) async fn announced(process: &mut Process, words: &[&str]) -> Result<u16, LaunchError> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let output = process.output();
        if let Some(port) = words.iter().find_map(|words| port_behind(&output, words)) {
            return Ok(port);
        }
        process.check_running()?;
        if Instant::now() > deadline {
            return Err(process.not_ready(format!("it does not say {}PORT", words[0])).into());
        }
        sleep(POLL).await;
    }
}

/// Starts controllers by a command, with their log in a file, and waits until they are ready.
pub async fn start_controllers(mut command: Command, log: &Path) -> Result<Process, LaunchError> {
    command.arg("--secure-port=0");
    let mut process = Process::start(command, log)?;
    announced(&mut process, &SHOWS).await?;
    let shown = secure_port(&process)?;
    wait_ready(&mut process, &shown).await?;
    Ok(process)
}

/// The port for metrics and readiness of controllers that were started here.
pub fn secure_port(process: &Process) -> Result<Target, LaunchError> {
    let output = process.output();
    let port = SHOWS
        .iter()
        .find_map(|words| port_behind(&output, words))
        .ok_or_else(|| process.not_ready(format!("it does not say {}PORT", SHOWS[0])))?;
    Ok(Target::new(&format!("https://127.0.0.1:{port}"), tls::trusting_anyone()?, None)?)
}

/// The port that output names behind some words. The line is there as a whole when something follows the number.
fn port_behind(output: &str, words: &str) -> Option<u16> {
    let (_, rest) = output.split_once(words)?;
    rest.split_once(|c: char| !c.is_ascii_digit())?.0.parse().ok()
}

/// Waits until `/readyz` answers 200.
pub(crate) async fn wait_ready(process: &mut Process, target: &Target) -> Result<(), LaunchError> {
    let client = Client::new(target.clone());
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let reason = match client.get("/readyz").await {
            Ok((200, _)) => return Ok(()),
            Ok((code, body)) => format!("/readyz answers {code}: {body}"),
            Err(error) => error.to_string(),
        };
        process.check_running()?;
        if Instant::now() > deadline {
            return Err(process.not_ready(reason).into());
        }
        sleep(POLL).await;
    }
}

/// Waits for the namespace, the Service, the IPAddress and the ServiceCIDR that every case begins with.
async fn wait_for_start_objects(server: &Server) -> Result<(), LaunchError> {
    let client = Client::new(server.target.clone());
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let Some(missing) = missing_start_object(&client).await? else { return Ok(()) };
        if Instant::now() > deadline {
            return Err(server.process.not_ready(format!("{missing} is not there")).into());
        }
        sleep(POLL).await;
    }
}

/// The first object of the start that is not there.
pub async fn missing_start_object(client: &Client) -> Result<Option<&'static str>, HttpError> {
    const NETWORKING: &str = "/apis/networking.k8s.io/v1";
    if client.get("/api/v1/namespaces/default").await?.0 != 200 {
        return Ok(Some("the namespace default"));
    }
    let (code, service) = client.get("/api/v1/namespaces/default/services/kubernetes").await?;
    let Some(address) = field(&service, "spec.clusterIP").and_then(Value::as_str).filter(|_| code == 200)
    else {
        return Ok(Some("the service kubernetes"));
    };
    if client.get(&format!("{NETWORKING}/ipaddresses/{address}")).await?.0 != 200 {
        return Ok(Some("the IPAddress of the service kubernetes"));
    }
    let (_, cidr) = client.get(&format!("{NETWORKING}/servicecidrs/kubernetes")).await?;
    let ready = field(&cidr, "status.conditions").and_then(Value::as_array).is_some_and(|conditions| {
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    });
    Ok(if ready { None } else { Some("the condition Ready of the ServiceCIDR kubernetes") })
}

/// The controllers of a case: started and stopped as one process.
#[derive(Debug)]
pub struct Controllers {
    binary: PathBuf,
    arguments: Vec<String>,
    dir: PathBuf,
    process: Option<Process>,
}

impl Controllers {
    /// Controllers that will talk to the server at a URL without TLS; their files go to a directory.
    pub fn new(binary: PathBuf, case: &Case, server_url: &str, dir: &Path) -> Result<Self, LaunchError> {
        let kubeconfig = dir.join("controllers.kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_text(server_url))?;
        let names: Vec<&str> =
            case.controllers.iter().map(String::as_str).filter(|name| *name != GARBAGE_COLLECTOR).collect();
        let mut arguments = vec![
            "run".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={}", names.join(",")),
            "--leader-elect=false".to_owned(),
        ];
        arguments.extend(case.controller_args.iter().map(|(flag, value)| match value {
            Value::String(text) => format!("--{flag}={text}"),
            value => format!("--{flag}={value}"),
        }));
        Ok(Self { binary, arguments, dir: dir.to_owned(), process: None })
    }

    /// Starts them and waits until they are ready.
    pub async fn start(&mut self) -> Result<(), LaunchError> {
        let mut command = Command::new(std::path::absolute(&self.binary)?);
        command.args(&self.arguments).env("TMPDIR", &self.dir);
        self.process = Some(start_controllers(command, &self.dir.join("controllers.log")).await?);
        Ok(())
    }

    /// Ends them.
    pub async fn stop(&mut self) -> Result<(), LaunchError> {
        if let Some(process) = self.process.take() {
            process.terminate().await?;
        }
        Ok(())
    }

    /// Fails if they should run and do not.
    pub fn check(&mut self) -> Result<(), LaunchError> {
        self.process.as_mut().map_or(Ok(()), |process| Ok(process.check_running()?))
    }
}

/// A kubeconfig for a server without TLS, or with a certificate that is not looked at.
pub fn kubeconfig_text(server_url: &str) -> String {
    kubeconfig_as(server_url, None)
}

/// The same for an administrator who asks in somebody else's name.
pub fn kubeconfig_as(server_url: &str, user: Option<&str>) -> String {
    let user = user.map(|user| format!("    as: {user}\n")).unwrap_or_default();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters:\n- name: c\n  cluster:\n    server: {server_url}\n    insecure-skip-tls-verify: true\n\
         users:\n- name: u\n  user:\n    token: {TOKEN}\n{user}\
         contexts:\n- name: c\n  context:\n    cluster: c\n    user: u\n"
    )
}
