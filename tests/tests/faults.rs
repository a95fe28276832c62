//! Bad input and faults: what cannot be served is said in one line or in Kubernetes' own form, and nothing is lost or changed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{path::Path, process::Stdio};

use serde_json::{Value, json};
use service_tests::{
    cluster::{Lab, SERVICES, service},
    http::{Client, request},
    launch::{TOKEN, kubeconfig_text, start_controllers},
    ledger,
};
use tokio::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const CIDRS: [&str; 1] = ["10.96.0.0/16"];
const PORTS: &str = "30000-32767";

/// Runs the binary to its end, which must be a failure said in one line.
async fn fails(arguments: &[&str]) -> String {
    let mut command = Command::new(BINARY);
    command.args(arguments).args(["--v", "0"]).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?} went well");
    let said: Vec<&str> = err.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!((said.len(), err.lines().last()), (1, said.first().copied()), "{err}");
    said[0].to_owned()
}

#[tokio::test]
async fn the_last_word_is_json_where_the_log_is() {
    let mut command = Command::new(BINARY);
    command.args([
        "run",
        "--log-format",
        "json",
        "--secure-port",
        "0",
        "--kubeconfig",
        "/nowhere/kubeconfig",
    ]);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!(last["level"], "ERROR", "{said}");
    assert!(last["fields"]["message"].as_str().unwrap().contains("/nowhere/kubeconfig"), "{said}");
}

#[tokio::test]
async fn a_port_that_is_taken() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = fails(&["lab", "--secure-port", &port, "--controllers", "none"]).await;
    assert!(said.contains(&port) && said.contains("--secure-port"), "{said}");
}

#[tokio::test]
async fn a_token_file_that_is_not_there_and_a_token_that_is_none() {
    let said = fails(&["lab", "--secure-port", "0", "--token-file", "/nowhere/token"]).await;
    assert!(said.contains("--token-file /nowhere/token"), "{said}");
    let said = fails(&["lab", "--secure-port", "0", "--token", "a b c d"]).await;
    assert!(said.contains("token"), "{said}");
}

#[tokio::test]
async fn a_data_directory_that_is_in_use() {
    let lab = Lab::start_on_disk(BINARY, &CIDRS, PORTS).await.unwrap_or_else(|error| panic!("{error}"));
    let dir = lab.data_dir().unwrap().to_str().unwrap().to_owned();
    let said = fails(&["lab", "--secure-port", "0", "--controllers", "none", "--data-dir", &dir]).await;
    assert!(said.contains(&dir), "{said}");
    assert_eq!(lab.create("still", &json!({"ports": [{"port": 80}]})).await.unwrap().0, 201);
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_one() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for path in [file.path().to_str().unwrap(), "/proc/self/nothing"] {
        let said = fails(&["lab", "--secure-port", "0", "--controllers", "none", "--data-dir", path]).await;
        assert!(said.contains(path), "{said}");
    }
}

/// All files below a directory with their content.
fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_data_directory_that_was_damaged() {
    let lab = Lab::start_on_disk(BINARY, &CIDRS, PORTS).await.unwrap_or_else(|error| panic!("{error}"));
    for number in 0..50 {
        assert_eq!(
            lab.create(&format!("s{number}"), &json!({"ports": [{"port": 80}]})).await.unwrap().0,
            201
        );
    }
    let copy = tempfile::tempdir().unwrap();
    let dir = lab.data_dir().unwrap().to_owned();
    // Ended in order, so that all of it is on disk.
    let Lab { server, .. } = &lab;
    let id = server.process.id().unwrap().to_string();
    Command::new("kill").arg("-TERM").arg(&id).status().await.unwrap();
    while Path::new(&format!("/proc/{id}/exe")).read_link().is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let status = Command::new("cp").arg("-r").arg(&dir).arg(copy.path().join("data")).status().await.unwrap();
    assert!(status.success());
    let damaged = copy.path().join("data");
    for (path, text) in
        content(&damaged).into_iter().filter(|(path, text)| !path.contains("ca.") && text.len() > 64)
    {
        let noise: Vec<u8> = text.iter().map(|byte| byte ^ 0x5a).collect();
        std::fs::write(path, noise).unwrap();
    }
    let before = content(&damaged);
    let path = damaged.to_str().unwrap();
    let said = fails(&["lab", "--secure-port", "0", "--controllers", "none", "--data-dir", path]).await;
    assert!(said.contains(path), "{said}");
    let (before, after): (Vec<_>, Vec<_>) = (before, content(&damaged));
    for file in before.iter().filter(|(path, _)| !path.ends_with("/lock")) {
        assert!(after.contains(file), "{} was changed by a start that failed", file.0);
    }
}

#[tokio::test]
async fn an_api_server_that_cannot_be_used() {
    let said = fails(&["run", "--secure-port", "0", "--kubeconfig", "/nowhere/kubeconfig"]).await;
    assert!(said.contains("--kubeconfig /nowhere/kubeconfig"), "{said}");
    let lab = Lab::start(BINARY, &CIDRS, PORTS).await.unwrap_or_else(|error| panic!("{error}"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let wrong = kubeconfig_text(&lab.server.target.url()).replace(TOKEN, "another-token");
    std::fs::write(&file, wrong).unwrap();
    let said =
        fails(&["run", "--secure-port", "0", "--leader-elect=false", "--kubeconfig", file.to_str().unwrap()])
            .await;
    assert!(said.contains("refuses the credentials"), "{said}");
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn a_leader_that_ends_lets_go_of_its_lease() {
    const LEASE: &str =
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/service-controller-manager";
    let lab = Lab::start(BINARY, &CIDRS, PORTS).await.unwrap_or_else(|error| panic!("{error}"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig_text(&lab.server.target.url())).unwrap();
    let holder = async || {
        let (code, lease) = lab.client.get(LEASE).await.unwrap();
        (code == 200).then(|| ledger::text(&lease["spec"], "holderIdentity"))
    };
    // The second one leads as soon as the first has let go, without waiting for its lease to expire.
    for leader in ["first", "second"] {
        let mut command = Command::new(BINARY);
        command.args(["run", "--leader-elect-lease-duration=1h", "--kubeconfig"]).arg(&file);
        let process = start_controllers(command, &dir.path().join(leader)).await.unwrap();
        while holder().await.is_none_or(|holder| holder.is_empty()) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        process.terminate().await.unwrap();
        assert_eq!(holder().await.as_deref(), Some(""), "{leader}");
    }
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_meant() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let path = file.to_str().unwrap();
    for (text, part) in [
        (kubeconfig_text("http://127.0.0.1:1") + "kind: Config\n", format!("--kubeconfig {path}: ")),
        ("users: [\nclusters: }\n".to_owned(), format!("--kubeconfig {path}: ")),
        (kubeconfig_text("apiserver"), "\"apiserver\" is no http or https URL".to_owned()),
    ] {
        std::fs::write(&file, text).unwrap();
        let said = fails(&["run", "--secure-port", "0", "--leader-elect=false", "--kubeconfig", path]).await;
        assert!(said.contains(&part), "{said}");
    }
}

/// Requests that must be refused, each with its code.
#[tokio::test]
async fn refused_requests_change_nothing() {
    let lab = Lab::start(BINARY, &CIDRS, PORTS).await.unwrap_or_else(|error| panic!("{error}"));
    lab.create("there", &json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}))
        .await
        .unwrap();
    let before = everything(&lab).await;
    let big = json!({"metadata": {"name": "big", "annotations": {"a": "x".repeat(4 << 20)}}, "spec": {"ports": [{"port": 80}]}});
    let ok = service("a", &json!({"ports": [{"port": 80}]})).to_string();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let json_type = "application/json";
    let requests: Vec<(&str, String, &str, String, u16)> = vec![
        ("POST", SERVICES.into(), json_type, "{".into(), 400),
        ("POST", SERVICES.into(), json_type, deep, 400),
        ("POST", SERVICES.into(), json_type, "[]".into(), 400),
        ("POST", SERVICES.into(), json_type, "\u{0}".into(), 400),
        ("POST", SERVICES.into(), "application/yaml", "a: [".into(), 400),
        ("POST", SERVICES.into(), "text/plain", ok.clone(), 415),
        ("POST", format!("{SERVICES}?fieldValidation=Maybe"), json_type, ok.clone(), 422),
        ("POST", format!("{SERVICES}?dryRun=Some"), json_type, ok.clone(), 422),
        ("POST", "/api/v1/namespaces/nowhere/services".into(), json_type, ok.clone(), 404),
        ("POST", "/api/v1/namespaces/default/serviceses".into(), json_type, ok.clone(), 404),
        ("POST", "/apis/none.example.com/v1/things".into(), json_type, ok.clone(), 404),
        ("GET", format!("{SERVICES}/%2e%2e%2f"), json_type, String::new(), 404),
        ("GET", format!("{SERVICES}/a%00b"), json_type, String::new(), 404),
        ("GET", format!("{SERVICES}?labelSelector=%3D%3D"), json_type, String::new(), 400),
        ("GET", format!("{SERVICES}?limit=x"), json_type, String::new(), 400),
        ("PATCH", format!("{SERVICES}/there"), json_type, "{}".into(), 415),
        ("PATCH", format!("{SERVICES}/there"), "application/merge-patch+json", "x".into(), 400),
        (
            "PATCH",
            format!("{SERVICES}/there"),
            "application/json-patch+json",
            "[{\"op\":\"fly\"}]".into(),
            422,
        ),
        ("PUT", format!("{SERVICES}/there"), json_type, ok.clone(), 400),
        ("DELETE", format!("{SERVICES}/nothing"), json_type, String::new(), 404),
    ];
    for (method, path, kind, body, code) in requests {
        let mut sent = request(method, &path, body.clone().into()).unwrap();
        sent.headers_mut().insert("content-type", kind.parse().unwrap());
        let answer = lab.client.send(sent).await.unwrap();
        let shown: String = body.chars().take(80).collect();
        let status = answer.json();
        assert_eq!(answer.code, code, "{method} {path} {shown}: {status}");
        if path.contains("none.example.com") {
            // A path that nobody serves is answered before the machinery of the API, in plain text.
            assert_eq!(&answer.body[..], b"404 page not found\n");
            continue;
        }
        let short: String = status.to_string().chars().take(300).collect();
        assert_eq!(
            (&status["kind"], &status["code"]),
            (&json!("Status"), &json!(code)),
            "{method} {path}: {short}"
        );
    }
    let (code, status) = lab.client.call("POST", SERVICES, &big).await.unwrap();
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")), "{status}");
    assert_eq!(everything(&lab).await, before);
    lab.stop().await.unwrap();
}

/// All Services and addresses with the version of the store.
async fn everything(lab: &Lab) -> (Value, Value) {
    let services = lab.client.get("/api/v1/services").await.unwrap().1;
    let addresses = lab.client.get("/apis/networking.k8s.io/v1/ipaddresses").await.unwrap().1;
    (services, addresses)
}

#[tokio::test]
async fn a_wrong_token_sees_nothing() {
    let lab = Lab::start(BINARY, &CIDRS, PORTS).await.unwrap_or_else(|error| panic!("{error}"));
    for token in [None, Some("admintoken2"), Some("Admintoken"), Some("")] {
        let mut target = lab.server.target.clone();
        target.token = token.map(ToOwned::to_owned);
        let client = Client::new(target);
        let (code, status) = client.get(SERVICES).await.unwrap();
        assert_eq!((code, ledger::text(&status, "reason")), (401, "Unauthorized".to_owned()), "{token:?}");
        assert_eq!(client.call("POST", SERVICES, &service("a", &json!({}))).await.unwrap().0, 401);
    }
    lab.stop().await.unwrap();
}
