//! `lab --network`: packets to Services arrive, logs say from where, commands run in pods, and nothing is left behind.
//!
//! Needs root, kubectl and curl; without them it says that it is skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod person;

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use person::{Person as Lab, has};
use service_tests::kubectl::programs;
use tokio::{process::Command, sync::Mutex};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
/// How long what follows from a command may take.
const PATIENCE: Duration = Duration::from_mins(2);
const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: web}}
spec: {nodeName: k8s-node-1, containers: [{name: c, image: x, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: web}}
spec: {nodeName: k8s-node-2, containers: [{name: c, image: x, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {nodeName: k8s-node-1, containers: [{name: c, image: x}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, clusterIP: 10.96.0.77, selector: {app: web}, ports: [{port: 80, targetPort: http, nodePort: 30077}]}
";

/// A program of the machine; what it prints, and its exit code.
async fn run(program: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    match command.output().await {
        Ok(output) => (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code()),
        Err(_) => (String::new(), None),
    }
}

async fn curl(url: &str) -> (String, Option<i32>) {
    run("curl", &["-s", "-m", "5", url]).await
}

/// Asks until the answer is this one.
async fn until_answers(url: &str, wanted: &[&str]) {
    let deadline = Instant::now() + PATIENCE;
    let mut missing: Vec<&str> = wanted.to_vec();
    while !missing.is_empty() {
        let (answer, code) = curl(url).await;
        missing.retain(|wanted| answer.trim() != *wanted);
        assert!(
            Instant::now() < deadline,
            "{url}: {answer:?}, curl ends with {code:?}; {missing:?} never answer"
        );
    }
}

async fn made(id: u32) -> Vec<String> {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut made: Vec<String> = names.filter(|name| name.starts_with(&format!("scm-lab-{id}-"))).collect();
    let (links, _) = run("ip", &["-o", "link", "show", "type", "bridge"]).await;
    made.extend(links.lines().filter(|line| line.contains(&format!("scm{id}:"))).map(str::to_owned));
    made
}

/// kubectl, where everything that the test needs is there.
async fn possible() -> Option<std::path::PathBuf> {
    let root = run("id", &["-u"]).await.0.trim() == "0";
    let tools = run("curl", &["--version"]).await.1 == Some(0) && run("ip", &["-V"]).await.1 == Some(0);
    let kubectl = programs().await.into_iter().next();
    if !root || !tools || kubectl.is_none() {
        println!("skipped: needs root, kubectl, curl and ip");
        return None;
    }
    kubectl
}

/// A lab that begins removes what killed ones have left, and the machine has room for one.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn services_carry_traffic_and_nothing_is_left_behind() {
    let Some(program) = possible().await else { return };
    let _alone = ONE_AT_A_TIME.lock().await;
    let lab = Lab::start(BINARY, program.clone(), &["--nodes", "2", "--network"]).await;
    let id = lab.server.process.id().unwrap();
    lab.ok_with("apply -f -", PODS).await;
    // The machine is no pod: cluster IPs lead to both pods, and pods see a node's address.
    until_answers("http://10.96.0.77/", &["hello from one", "hello from two"]).await;
    // A pod keeps its address, and knows Services by name.
    let own = lab.ok("get pod client -o jsonpath={.status.podIP}").await;
    let asked = lab.ok("exec client -- curl -s -m 5 http://web/").await;
    has(&asked, &["hello from"]);
    let logs = lab.ok("logs one").await + &lab.ok("logs two").await;
    has(&logs, &["GET /", &own, "192.168.10.2"]);
    // Only the node with a pod answers, and the pod sees the machine itself.
    lab.ok(r#"patch service web -p '{"spec":{"externalTrafficPolicy":"Local"}}'"#).await;
    until_answers("http://192.168.10.21:30077/", &["hello from two"]).await;
    let deadline = Instant::now() + PATIENCE;
    while !lab.ok("logs two --tail=1").await.contains("192.168.10.50") {
        assert!(Instant::now() < deadline, "the machine's address is never seen");
        curl("http://192.168.10.21:30077/").await;
    }
    // Exit codes and input of a command.
    has(&lab.refused("exec client -- sh -c 'exit 7'", "").await, &["exit code 7"]);
    assert_eq!(lab.ok_with("exec -i client -- cat", "as it came").await, "as it came");
    assert_eq!(lab.ok("exec client -- hostname").await.trim(), "client");
    assert!(!made(id).await.is_empty());
    lab.server.stop().await.unwrap();
    assert_eq!(made(id).await, Vec::<String>::new());

    // After a kill, the next one removes what is left.
    let killed = Lab::start(BINARY, program.clone(), &["--nodes", "1", "--network"]).await;
    let id = killed.server.process.id().unwrap();
    killed.server.process.kill().await.unwrap();
    assert!(!made(id).await.is_empty());
    let next = Lab::start(BINARY, program, &["--nodes", "1", "--network"]).await;
    assert_eq!(made(id).await, Vec::<String>::new());
    next.server.stop().await.unwrap();
}

/// How a lab ends that cannot have its network, and what it says.
async fn refused(before: &[&str]) -> String {
    let lab = ["lab", "--nodes", "1", "--network", "--secure-port", "0"];
    let words = [before, &[BINARY], &lab].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn a_lab_that_cannot_have_its_network_says_so_and_ends() {
    if possible().await.is_none() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().await;
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    if run(nobody[0], &[&nobody[1..], &[BINARY, "--version"]].concat()).await.1 == Some(0) {
        has(&refused(&nobody).await, &["error: --network makes network namespaces, which only root may"]);
    } else {
        println!("skipped without root: setpriv, or a program that others may run, is missing");
    }
    // A machine whose network has the lab's addresses.
    let name = format!("scm-taken-{}", std::process::id());
    let ip = async |line: &str| run("ip", &line.split(' ').collect::<Vec<_>>()).await.1 == Some(0);
    assert!(ip(&format!("netns add {name}")).await);
    let linked = ip(&format!("-n {name} link set lo up")).await
        && ip(&format!("-n {name} link add home type veth peer name other")).await
        && ip(&format!("-n {name} address add 192.168.10.7/24 dev home")).await
        && ip(&format!("-n {name} link set home up")).await;
    let said = if linked { refused(&["ip", "netns", "exec", &name]).await } else { String::new() };
    ip(&format!("netns del {name}")).await;
    has(&said, &["error: --network needs 192.168.10.0/24, and the machine reaches 192.168.10.0/24 already"]);
}

const PROGRAMS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: server}
spec: {nodeName: k8s-node-1, containers: [{name: c, image: agnhost, args: [netexec, --http-port=8443, --tls-cert-file=/localhost.crt]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  nodeName: k8s-node-1
  containers:
  - {name: c, image: agnhost, args: [netexec, --http-port=8443, --tls-cert-file=/localhost.crt],
     readinessProbe: {periodSeconds: 1, httpGet: {scheme: HTTPS, path: /healthz, port: 8443}}}
---
apiVersion: v1
kind: Pod
metadata: {name: done}
spec:
  nodeName: k8s-node-1
  restartPolicy: Never
  containers: [{name: c, image: busybox, command: [sh, -c, "echo $WHAT; touch /etc/changed || echo kept"], env: [{name: WHAT, value: it ran}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: suffix}
spec: {nodeName: k8s-node-1, restartPolicy: Never, containers: [{name: c, image: agnhost, args: [dns-suffix]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: failing}
spec: {nodeName: k8s-node-1, restartPolicy: OnFailure, containers: [{name: c, image: busybox, args: [sh, -c, "exit 3"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  nodeName: k8s-node-1
  containers:
  - {name: c, image: agnhost, command: [/bin/sh, -c, "dd if=/dev/zero of=file bs=1M count=10; sleep 10077"],
     resources: {limits: {ephemeral-storage: 5Mi}}}
"#;

/// Asks kubectl until it prints this.
async fn until_prints(lab: &Lab, line: &str, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = lab.ok(line).await;
        if said.trim() == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "kubectl {line}\n{said}\nnot {wanted}");
    }
}

#[tokio::test]
async fn pods_run_what_they_say() {
    let Some(program) = possible().await else { return };
    let _alone = ONE_AT_A_TIME.lock().await;
    let lab = Lab::start(BINARY, program, &["--nodes", "1", "--network"]).await;
    lab.ok_with("apply -f -", PROGRAMS).await;
    let phase = |pod: &str| format!("get pod {pod} -o jsonpath={{.status.phase}}");
    // Commands run to their end, and cannot change the machine.
    until_prints(&lab, &phase("done"), "Succeeded").await;
    let log = lab.ok("logs done").await;
    has(&log, &["it ran", "kept"]);
    assert!(!std::path::Path::new("/etc/changed").exists());
    until_prints(&lab, &phase("suffix"), "Succeeded").await;
    has(&lab.ok("logs suffix").await, &["default.svc.cluster.local,svc.cluster.local,cluster.local"]);
    let code = "get pod failing -o jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}";
    until_prints(&lab, code, "3").await;
    until_prints(&lab, "get pod greedy -o jsonpath={.status.phase}/{.status.reason}", "Failed/Evicted").await;
    let left = run("pgrep", &["-f", "sleep 10077"]).await.0;
    assert_eq!(left, "", "what the evicted pod had started is gone");

    // TLS, for whoever does not ask for a name, and by way of the API server.
    let ready = "get pod probed -o jsonpath={.status.containerStatuses[0].ready}";
    until_prints(&lab, ready, "true").await;
    until_prints(&lab, &phase("server"), "Running").await;
    let ip = lab.ok("get pod server -o jsonpath={.status.podIP}").await;
    let url = format!("https://{ip}:8443");
    assert_eq!(run("curl", &["-sk", "-m", "5", &format!("{url}/hostname")]).await.0, "server");
    let raw = "get --raw /api/v1/namespaces/default/pods/https:server:8443/proxy/hostname";
    assert_eq!(lab.ok(raw).await.trim(), "server");
    let form = ["-sk", "-m", "5", "-F", "file=@-", &format!("{url}/upload")];
    let mut send =
        Command::new("curl").args(form).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut send.stdin.take().unwrap(), b"as it came").await.unwrap();
    let sent = String::from_utf8(send.wait_with_output().await.unwrap().stdout).unwrap();
    assert_eq!(sent, r#"{"output":"/uploads/upload1"}"#);
    assert_eq!(lab.ok("exec server -- cat /uploads/upload1").await, "as it came");
    let dial = format!("{url}/dial?host={ip}&port=8081&request=echo%20it&protocol=udp&tries=2");
    assert_eq!(run("curl", &["-sk", "-m", "5", &dial]).await.0, r#"{"responses":["it","it"]}"#);

    // kubectl before 1.31 speaks SPDY.
    let old = [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")];
    let exec = lab.kubectl.run_with(&["exec", "-i", "server", "--", "cat"], "over SPDY", &old).await.unwrap();
    assert_eq!((exec.out.as_str(), exec.success), ("over SPDY", true), "{}", exec.err);
    let failing = ["exec", "server", "--", "sh", "-c", "echo told >&2; exit 7"];
    let failed = lab.kubectl.run_with(&failing, "", &old).await.unwrap();
    has(&failed.err, &["told", "exit code 7"]);
    for env in [&old[..], &[]] {
        attached(&lab, env, &url).await;
    }

    // One that ends itself is begun anew.
    run("curl", &["-sk", "-m", "5", &format!("{url}/exit?code=5&timeout=1s")]).await;
    let code = "get pod server -o jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}";
    until_prints(&lab, code, "5").await;
    lab.server.stop().await.unwrap();
}

/// `kubectl attach` shows what comes.
async fn attached(lab: &Lab, env: &[(&str, &str)], url: &str) {
    let mut command = Command::new(&lab.kubectl.program);
    command
        .arg("--kubeconfig")
        .arg(&lab.kubectl.kubeconfig)
        .args(["attach", "server"])
        .envs(env.iter().copied());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    // It is asked until it is seen, for nothing says when kubectl is attached.
    let asking = async {
        loop {
            run("curl", &["-sk", "-m", "5", &format!("{url}/clientip")]).await;
        }
    };
    let seen = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("GET /clientip") {
                return;
            }
        }
        panic!("attach ended");
    };
    tokio::select! {
        () = asking => {}
        seen = tokio::time::timeout(PATIENCE, seen) => seen.unwrap(),
    }
}
