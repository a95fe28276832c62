//! What the log says of a reconcile, in each of its forms, and what the command `logs` makes of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use service_controller_manager::logs::{Line, parse};
use service_tests::{
    account::Account,
    api_server::ApiServer,
    beside::{Beside, EVENTS, PODS, SERVICES, SLICES},
    cluster::service,
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const SLICES_ALONE: &str = "--controllers=endpointslice-controller";
const ID: &str = "service-control-plane.io/reconcile-id";

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "hello"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

fn status(ip: &str, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": ready}]}})
}

/// Controllers that have written the slice of a Service with one ready pod.
async fn start(more: &[&str]) -> Beside {
    let hello = service("hello", &json!({"selector": {"app": "hello"}, "ports": [{"port": 80}]}));
    let objects =
        [("/api/v1/nodes", json!({"metadata": {"name": "n"}})), (PODS, pod("web-1", "n")), (SERVICES, hello)];
    let arguments = [&["--leader-elect=false"], more].concat();
    let beside = Beside::start(BINARY, Account::Controllers, &objects, &arguments).await.unwrap();
    set_ready(&beside, true).await;
    beside
}

/// Sets the pod's readiness, and waits until the slice says it; gives the slice.
async fn set_ready(beside: &Beside, ready: bool) -> Value {
    beside.send("PATCH", &format!("{PODS}/web-1/status"), &status("10.1.0.5", ready)).await.unwrap();
    let says = |list: &Value| list["items"][0]["endpoints"][0]["conditions"]["ready"] == ready;
    beside.until("the slice", SLICES, says).await.unwrap()["items"][0].clone()
}

/// The last line about a reconcile that wrote.
async fn last_write(beside: &Beside) -> Line {
    beside.until_logged(&["no longer ready"]).await.unwrap();
    let output = beside.output();
    let mut wrote = output.lines().filter_map(parse).filter(|line| line.message == "wrote slices");
    wrote.next_back().unwrap_or_else(|| panic!("no line can be read:\n{output}"))
}

#[tokio::test]
async fn a_reconcile_is_one_line_that_says_why_what_and_how_long() {
    for form in ["text", "json", "logfmt"] {
        let beside = start(&[SLICES_ALONE, "--log-format", form]).await;
        let before = set_ready(&beside, true).await;
        // Nothing that an endpoint depends on: no line.
        let note = json!({"metadata": {"annotations": {"a": "b"}}});
        beside.send("PATCH", &format!("{PODS}/web-1"), &note).await.unwrap();
        let after = set_ready(&beside, false).await;
        let line = last_write(&beside).await;
        let field = |name: &str| line.field(name).unwrap_or_else(|| panic!("{name} is not in {line:?}"));
        assert_eq!(line.object(), Some(format!("{}/hello", beside.server.namespace)), "{form}");
        assert_eq!(field("controller"), "endpointslice-controller");
        assert_eq!(field("trigger"), "pod web-1 not ready");
        assert_eq!(field("decision"), "1 endpoint no longer ready; 1 slice updated, 1/100 full");
        assert_eq!(field("slices"), after["metadata"]["name"].as_str().unwrap());
        let version = |slice: &Value| slice["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        assert_eq!(field("versions"), format!("{}->{}", version(&before), version(&after)));
        for time in ["queued", "planning", "writing"] {
            assert!(field(time).ends_with('s'), "{time} in {line:?}");
        }
        assert_eq!(field("id").len(), 16);
        beside.stop().await.unwrap();
    }
}

#[tokio::test]
async fn the_number_of_a_reconcile_stands_in_its_events_too() {
    let beside = start(&[SLICES_ALONE]).await;
    beside.send("POST", PODS, &pod("lost", "gone")).await.unwrap();
    beside.send("PATCH", &format!("{PODS}/lost/status"), &status("10.1.0.6", true)).await.unwrap();
    let tells = |event: &&Value| event["reason"] == "FailedToUpdateEndpointSlices";
    let list = beside
        .until("the Event", EVENTS, |list| {
            list["items"].as_array().is_some_and(|events| events.iter().any(|event| tells(&event)))
        })
        .await
        .unwrap();
    let event = list["items"].as_array().unwrap().iter().find(tells).unwrap().clone();
    let id = event["metadata"]["annotations"][ID].as_str().unwrap();
    beside.until_logged(&["WARN", "skipping Pod lost", &format!("id={id}")]).await.unwrap();
    beside.stop().await.unwrap();
}

/// Runs `logs` on what the controllers said.
fn logs(log: &str, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(BINARY);
    command.arg("logs").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    let log = log.to_owned();
    let writing = std::thread::spawn(move || std::io::Write::write_all(&mut input, log.as_bytes()));
    let output = process.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{}", text(output.stderr));
    (text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn logs_shows_what_happened_to_an_object() {
    let beside = start(&[SLICES_ALONE, "--log-format", "logfmt"]).await;
    let other = service("other", &json!({"selector": {"app": "other"}, "ports": [{"port": 80}]}));
    beside.send("POST", SERVICES, &other).await.unwrap();
    set_ready(&beside, false).await;
    beside.until_logged(&["no longer ready"]).await.unwrap();
    beside.until_logged(&["service=other"]).await.unwrap();
    let log = format!("{}thread 'main' panicked: no line\n", beside.output());
    let here = |name: &str| format!("{}/{name}", beside.server.namespace);
    let (hello, other) = (here("hello"), here("other"));
    let (shown, said) = logs(&log, &["--object", &hello, "--since", "1h"]);
    let wrote = format!("{hello} wrote slices: 1 endpoint no longer ready; 1 slice updated");
    assert!(shown.contains(&wrote), "{shown}");
    assert!(shown.contains("because: pod web-1 not ready; endpointslice-controller; hello-"), "{shown}");
    assert!(!shown.contains(&other), "{shown}");
    assert!(!shown.contains("panicked"), "it is about no object: {shown}");
    assert!(said.contains("1 of ") && said.contains("left out"), "{said}");
    let (shown, said) = logs(&log, &["--since", "1h"]);
    assert!(shown.ends_with("thread 'main' panicked: no line\n"), "nothing is lost: {shown}");
    assert!(said.contains("1 of ") && said.contains("shown as they are"), "{said}");
    let (shown, _) = logs(&log, &["--object", &here("web-1"), "-o", "json"]);
    let shown: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(shown.iter().any(|line| line["fields"]["trigger"] == "pod web-1 not ready"), "{shown:?}");
    let (all, _) = logs(&log, &["-o", "json"]);
    assert!(all.contains(r#"{"unreadable":"thread 'main' panicked: no line"}"#), "{all}");
    let (shown, _) = logs(&log, &["-n", "elsewhere", "--object", "hello"]);
    assert_eq!(shown, "");
    // By labels: the server is asked whose they are.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    std::fs::write(&file, beside.server.kubeconfig()).unwrap();
    let (file, namespace) = (file.to_str().unwrap(), &beside.server.namespace);
    let labelled = json!({"metadata": {"labels": {"team": "a"}}});
    beside.send("PATCH", &format!("{SERVICES}/other"), &labelled).await.unwrap();
    let (shown, _) = logs(&log, &["-l", "team=a", "-n", namespace, "--kubeconfig", file]);
    assert!(shown.contains(&format!("{other} wrote slices")) && !shown.contains(&hello), "{shown}");
    let (shown, _) = logs(&log, &["-l", "app=hello", "-n", namespace, "--kubeconfig", file]);
    assert!(shown.contains("because: pod web-1 not ready") && !shown.contains(&other), "{shown}");
    let (shown, _) = logs(&log, &["--level", "error"]);
    assert_eq!(shown, "thread 'main' panicked: no line\n");
    beside.stop().await.unwrap();
}

/// The controllers of addresses and node ports, beside a server that gives none.
#[tokio::test]
async fn what_is_done_about_addresses_and_ports_is_told_in_the_same_way() {
    let server = ["--controllers=none", "--allocation=reconcile"];
    let controllers = "--controllers=service-allocation-controller,ip-address-audit-controller,node-port-audit-controller,\
        node-port-range-controller,service-pool-controller";
    let more = ["--leader-elect=false", controllers];
    let server = ApiServer::lab(BINARY, &server).await.unwrap();
    let beside = Beside::on(server, BINARY, Account::Admin, &more).await.unwrap();
    let web = service("web", &json!({"type": "NodePort", "ports": [{"port": 80}]}));
    beside.send("POST", SERVICES, &web).await.unwrap();
    let path = format!("{SERVICES}/web");
    let has_port = |s: &Value| s["spec"]["ports"][0]["nodePort"].is_number();
    let given = beside.until("its values", &path, has_port).await.unwrap();
    let (ip, port) =
        (given["spec"]["clusterIP"].as_str().unwrap(), given["spec"]["ports"][0]["nodePort"].to_string());
    beside.until_logged(&["wrote addresses and ports", &port]).await.unwrap();
    beside.send("PATCH", &path, &json!({"spec": {"type": "ClusterIP"}})).await.unwrap();
    beside.until_logged(&["wrote", &format!("free {port}")]).await.unwrap();
    let pool = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool", "metadata": {"name": "gold"},
        "spec": {"namespaceSelector": {}, "addresses": ["10.96.16.0/24"]}});
    beside.send("POST", "/apis/service-control-plane.io/v1alpha1/servicepools", &pool).await.unwrap();
    beside.until_logged(&["wrote service pool", "gold"]).await.unwrap();
    beside.until_logged(&["wrote node port range", "kubernetes"]).await.unwrap();
    let output = beside.output();
    let lines: Vec<Line> = output.lines().filter_map(parse).collect();
    let of_web = |line: &&Line| line.object().as_deref() == Some("default/web");
    let line = lines.iter().filter(of_web).find(|line| line.message == "wrote addresses and ports").unwrap();
    let field = |name: &str| line.field(name).unwrap_or_else(|| panic!("{name} is not in {line:?}"));
    assert_eq!(field("controller"), "service-allocation-controller");
    assert_eq!(field("trigger"), "service added");
    assert_eq!(field("decision"), format!("give {ip}, {port}"));
    assert_eq!(field("writes"), "3");
    for object in [format!("ipaddresses/{ip}"), format!("nodeports/{port}"), "services/web".to_owned()] {
        assert!(field("objects").split(", ").any(|named| named == object), "{object} in {line:?}");
    }
    assert!(field("versions").starts_with("new->"), "{line:?}");
    assert_eq!(field("id").len(), 16);
    let pools = lines.iter().filter(|line| line.message == "wrote service pool");
    assert!(pools.into_iter().all(|line| line.object().as_deref() == Some("gold")), "{output}");
    let (shown, _) = logs(&output, &["--object", "default/web"]);
    assert!(shown.contains(&format!("default/web wrote addresses and ports: give {ip}, {port}")), "{shown}");
    assert!(shown.contains("because: service added; service-allocation-controller; "), "{shown}");
    let (shown, _) = logs(&output, &["--object", &port]);
    assert!(shown.contains(&format!("free {port}")), "{shown}");
    // Where nothing has to be written nothing is said.
    let plain = json!({"ports": [{"port": 80}]});
    for name in ["quiet", "later"] {
        beside.send("POST", SERVICES, &service(name, &plain)).await.unwrap();
        beside.until_logged(&["wrote addresses and ports", &format!("\"{name}\"")]).await.unwrap();
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        beside.send("PATCH", &format!("{SERVICES}/{name}"), &labels).await.unwrap();
    }
    let output = beside.output();
    let lines = output.lines().filter_map(parse);
    let of_quiet = lines.filter(|line| line.object().as_deref() == Some("default/quiet"));
    assert_eq!(of_quiet.count(), 1, "{output}");
    beside.stop().await.unwrap();
}

/// A Service that cannot have its values: the Event has the number of the look.
#[tokio::test]
async fn an_event_about_values_has_the_number_of_its_look() {
    let server = ["--controllers=none", "--allocation=reconcile"];
    let more =
        ["--leader-elect=false", "--controllers=service-allocation-controller,node-port-range-controller"];
    let server = ApiServer::lab(BINARY, &server).await.unwrap();
    let beside = Beside::on(server, BINARY, Account::Admin, &more).await.unwrap();
    let excluded = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "NodePortRange", "metadata": {"name": "none"},
        "spec": {"firstPort": 30000, "lastPort": 32767, "role": "Excluded"}});
    let ranges = "/apis/service-control-plane.io/v1alpha1/nodeportranges";
    beside.send("POST", ranges, &excluded).await.unwrap();
    // Ranges and Services come by two watches.
    let is_known = |range: &Value| range["status"]["conditions"].is_array();
    beside.until("the range to be known", &format!("{ranges}/none"), is_known).await.unwrap();
    let web = service("web", &json!({"type": "NodePort", "ports": [{"port": 80}]}));
    beside.send("POST", SERVICES, &web).await.unwrap();
    let tells =
        |event: &&Value| event["reason"] == "PortRangeFull" && event["involvedObject"]["name"] == "web";
    let list = beside.until("the Event", EVENTS, |list| {
        list["items"].as_array().unwrap().iter().any(|event| tells(&event))
    });
    let list = list.await.unwrap();
    let event = list["items"].as_array().unwrap().iter().find(tells).unwrap().clone();
    let id = event["metadata"]["annotations"][ID].as_str().unwrap();
    beside.until_logged(&["WARN", "web", &format!("id={id}")]).await.unwrap();
    beside.stop().await.unwrap();
}

#[tokio::test]
async fn the_level_of_one_controller_is_changed_while_it_runs() {
    let open = "--authorization-always-allow-paths=/debug/*,/readyz";
    let both = "--controllers=endpointslice-controller,endpoints-controller";
    let beside = start(&[open, both]).await;
    beside.send("POST", PODS, &pod("waits", "n")).await.unwrap();
    let own = "/debug/levels/endpointslice-controller";
    let (code, said) = beside.ask_controllers_to("PUT", own, "4", None).await.unwrap();
    assert_eq!((code, said.as_str()), (200, "endpointslice-controller logs at 4\n"));
    let levels = beside.ask_controllers("/debug/levels", None).await.unwrap();
    assert_eq!(levels, (200, r#"{"controllers":{"endpointslice-controller":4},"v":0}"#.to_owned()));
    set_ready(&beside, false).await;
    beside.until_logged(&["DEBUG", "waits is left out"]).await.unwrap();
    let of_others = |line: &str| line.contains("DEBUG") && !line.contains("waits is left out");
    assert_eq!(beside.output().lines().find(|line| of_others(line)), None);
    let (code, said) = beside.ask_controllers_to("DELETE", own, "", None).await.unwrap();
    assert_eq!((code, said.as_str()), (200, "endpointslice-controller logs as all others\n"));
    let before = beside.output().matches("DEBUG").count();
    set_ready(&beside, true).await;
    beside.until_logged(&["now ready"]).await.unwrap();
    assert_eq!(beside.output().matches("DEBUG").count(), before);
    beside.stop().await.unwrap();
}
