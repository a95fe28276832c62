//! The ledger of addresses and node ports on whatever server there is: the lab, a kube-apiserver, a cluster.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use service_controllers::ledger::IN_USE;
use service_tests::{
    account::Account,
    beside::{Beside, EVENTS, OWN, SERVICES},
    cluster::{IP_ADDRESSES, SERVICE_CIDRS, service},
    eventually::eventually,
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const AUDITS: &str = "--controllers=ip-address-audit-controller,node-port-audit-controller";
const LEDGER: &str = "--controllers=ip-address-audit-controller,node-port-audit-controller,node-port-range-controller,service-pool-controller";

/// The controllers of the ledger beside a server, with the rights of `manifests/ledger`.
async fn start(more: &[&str]) -> Beside {
    let arguments = [&["--leader-elect=false"], more].concat();
    Beside::start(BINARY, Account::Ledger, &[], &arguments).await.unwrap()
}

fn is_of(object: &Value, namespace: &str, name: &str) -> bool {
    let parent = &object["spec"]["parentRef"];
    parent["namespace"] == namespace
        && parent["name"] == name
        && object["metadata"]["deletionTimestamp"].is_null()
}

fn says(object: &Value, kind: &str, status: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
}

/// Whether a list has an Event about a Service with this reason.
fn tells(list: &Value, reason: &str, name: &str) -> bool {
    let mut events = list["items"].as_array().into_iter().flatten();
    events.any(|event| event["reason"] == reason && event["involvedObject"]["name"] == name)
}

fn is_gone(seen: &Value) -> bool {
    seen["code"] == 404
}

/// A Service with a node port; gives its address and its port.
async fn node_port(cluster: &Beside, name: &str) -> (String, String) {
    let spec = json!({"type": "NodePort", "ports": [{"name": "http", "port": 80}]});
    let made = cluster.send("POST", SERVICES, &service(name, &spec)).await.unwrap();
    let ip = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    (ip, made["spec"]["ports"][0]["nodePort"].to_string())
}

#[tokio::test]
async fn entries_follow_services_and_come_back() {
    let cluster = start(&[LEDGER]).await;
    let namespace = &cluster.server.namespace;
    let (ip, port) = node_port(&cluster, "web").await;
    let (entry, address) = (format!("{OWN}/nodeports/{port}"), format!("{IP_ADDRESSES}/{ip}"));
    let first = cluster.until("the NodePort", &entry, |entry| is_of(entry, namespace, "web")).await.unwrap();
    assert_eq!(first["spec"]["portNames"], json!(["http"]), "{first}");
    let is_new = |old: &Value| {
        let uid = old["metadata"]["uid"].clone();
        move |new: &Value| new["metadata"]["uid"].is_string() && new["metadata"]["uid"] != uid
    };
    // Whoever deletes an entry in use finds it made again.
    cluster.send("DELETE", &entry, &Value::Null).await.unwrap();
    cluster.until("the NodePort again", &entry, is_new(&first)).await.unwrap();
    let held =
        cluster.until("the IPAddress", &address, |entry| is_of(entry, namespace, "web")).await.unwrap();
    cluster.send("DELETE", &address, &Value::Null).await.unwrap();
    let again = cluster.until("the IPAddress again", &address, is_new(&held)).await.unwrap();
    assert!(is_of(&again, namespace, "web"), "{again}");
    let path = format!("{SERVICES}/web");
    cluster.send("PATCH", &path, &json!({"spec": {"type": "ClusterIP"}})).await.unwrap();
    cluster.until("no NodePort", &entry, is_gone).await.unwrap();
    cluster.send("DELETE", &path, &Value::Null).await.unwrap();
    cluster.until("no IPAddress", &address, is_gone).await.unwrap();
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn ranges_and_pools_say_how_they_are() {
    let cluster = start(&[LEDGER]).await;
    let name = cluster.server.namespace.clone();
    let absurd = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "NodePortRange",
        "metadata": {"name": name}, "spec": {"firstPort": 32000, "lastPort": 31000, "role": "Dynamic"}});
    let (code, said) =
        cluster.server.client.call("POST", &format!("{OWN}/nodeportranges"), &absurd).await.unwrap();
    assert_eq!(code, 422, "{said}");
    let mut range = absurd;
    range["spec"] = json!({"firstPort": 31990, "lastPort": 31999, "role": "StaticOnly"});
    cluster.send("POST", &format!("{OWN}/nodeportranges"), &range).await.unwrap();
    let path = format!("{OWN}/nodeportranges/{name}");
    let ready =
        cluster.until("the range is ready", &path, |range| says(range, "Ready", "True")).await.unwrap();
    assert!(ready["metadata"]["finalizers"].is_array(), "{ready}");
    cluster.send("DELETE", &path, &Value::Null).await.unwrap();
    cluster.until("the range is gone", &path, is_gone).await.unwrap();
    let pool = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool", "metadata": {"name": name},
        "spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}, "addresses": ["10.96.16.0/28"]}});
    cluster.send("POST", &format!("{OWN}/servicepools"), &pool).await.unwrap();
    let path = format!("{OWN}/servicepools/{name}");
    cluster.until("the pool is ready", &path, |pool| says(pool, "Ready", "True")).await.unwrap();
    let used = |pool: &Value| {
        let band = |band: &str| pool["status"]["ipv4"][band]["used"].as_i64().unwrap_or_default();
        band("lower") + band("upper")
    };
    for number in 1..=13 {
        let spec = json!({"clusterIP": format!("10.96.16.{number}"), "ports": [{"port": 80}]});
        cluster.send("POST", SERVICES, &service(&format!("s{number}"), &spec)).await.unwrap();
    }
    let full = |pool: &Value| used(pool) == 13 && says(pool, "Filling", "True");
    let filled = cluster.until("the pool says how full it is", &path, full).await.unwrap();
    assert_eq!(filled["status"]["largestUsers"][0]["namespace"], json!(name), "{filled}");
    for number in 1..=13 {
        cluster.send("DELETE", &format!("{SERVICES}/s{number}"), &Value::Null).await.unwrap();
    }
    cluster
        .until("the pool is empty", &path, |pool| used(pool) == 0 && says(pool, "Filling", "False"))
        .await
        .unwrap();
    cluster.send("DELETE", &path, &Value::Null).await.unwrap();
    cluster.stop().await.unwrap();
}

/// Controllers that repair otherwise, beside a server on which Services have their entries; gives the paths of the entries of their
/// node ports.
async fn start_after(services: &[&str], more: &[&str]) -> (Beside, Vec<String>) {
    let cluster = start(&[AUDITS]).await;
    let namespace = &cluster.server.namespace;
    let mut entries = Vec::new();
    for name in services {
        let entry = format!("{OWN}/nodeports/{}", node_port(&cluster, name).await.1);
        cluster.until("the NodePort", &entry, |entry| is_of(entry, namespace, name)).await.unwrap();
        entries.push(entry);
    }
    let server = cluster.kill().await.unwrap();
    let arguments = [&["--leader-elect=false", AUDITS], more].concat();
    (Beside::on(server, BINARY, Account::Ledger, &arguments).await.unwrap(), entries)
}

#[tokio::test]
async fn who_only_reports_tells_and_changes_nothing() {
    let (cluster, entries) = start_after(&["one", "two"], &["--repair=report"]).await;
    // The second tells that the first was told of once.
    for (name, entry) in ["one", "two"].into_iter().zip(&entries) {
        cluster.send("DELETE", entry, &Value::Null).await.unwrap();
        let told = |list: &Value| tells(list, "PortNotAllocated", name);
        cluster.until("the Event", EVENTS, told).await.unwrap();
    }
    for entry in entries {
        assert_eq!(cluster.server.client.get(&entry).await.unwrap().0, 404, "{entry}");
    }
    let events = cluster.send("GET", EVENTS, &Value::Null).await.unwrap();
    let of_one = |event: &&Value| tells(&json!({"items": [event]}), "PortNotAllocated", "one");
    assert_eq!(events["items"].as_array().unwrap().iter().filter(of_one).count(), 1, "{events}");
    let asked = cluster.proxy.asked();
    let writes = asked.iter().filter(|asked| !["get", "list", "watch"].contains(&asked.verb));
    let others: Vec<_> = writes.filter(|asked| asked.resource != "events").collect();
    assert!(others.is_empty(), "{others:?}");
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn who_repairs_nothing_counts() {
    let open = "--authorization-always-allow-paths=/metrics,/readyz";
    let (cluster, entries) = start_after(&["web"], &["--repair=off", open]).await;
    cluster.send("DELETE", &entries[0], &Value::Null).await.unwrap();
    let counted = "service_ledger_findings{reason=\"PortNotAllocated\"} 1";
    let scrape = async || cluster.ask_controllers("/metrics", None).await.unwrap().1;
    eventually("the count", async || scrape().await.contains(counted).then_some(())).await;
    assert_eq!(cluster.server.client.get(&entries[0]).await.unwrap().0, 404);
    assert!(!cluster.proxy.asked().iter().any(|asked| asked.verb == "create"), "no Event either");
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn what_was_left_behind_while_nobody_looked_is_freed() {
    let cluster = start(&[AUDITS]).await;
    let (ip, port) = node_port(&cluster, "web").await;
    let (entry, address) = (format!("{OWN}/nodeports/{port}"), format!("{IP_ADDRESSES}/{ip}"));
    let namespace = cluster.server.namespace.clone();
    cluster.until("the NodePort", &entry, |entry| is_of(entry, &namespace, "web")).await.unwrap();
    let server = cluster.kill().await.unwrap();
    server.send("DELETE", &format!("{SERVICES}/web"), &Value::Null).await.unwrap();
    let cluster =
        Beside::on(server, BINARY, Account::Ledger, &["--leader-elect=false", AUDITS]).await.unwrap();
    cluster.until("no NodePort", &entry, is_gone).await.unwrap();
    cluster.until("no IPAddress", &address, is_gone).await.unwrap();
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_protected_address_stays_until_its_service_goes() {
    let cluster = start(&[AUDITS, "--protect-addresses"]).await;
    let (ip, _) = node_port(&cluster, "web").await;
    let address = format!("{IP_ADDRESSES}/{ip}");
    let guarded = |entry: &Value| entry["metadata"]["finalizers"] == json!([IN_USE]);
    let held = cluster.until("the finalizer", &address, guarded).await.unwrap();
    cluster.send("DELETE", &address, &Value::Null).await.unwrap();
    let (_, stays) = cluster.server.client.get(&address).await.unwrap();
    assert_eq!(stays["metadata"]["uid"], held["metadata"]["uid"], "{stays}");
    assert!(stays["metadata"]["deletionTimestamp"].is_string(), "{stays}");
    let same = service("other", &json!({"clusterIP": ip, "ports": [{"port": 80}]}));
    let services = cluster.server.path("", "services");
    let (code, said) = cluster.server.client.call("POST", &services, &same).await.unwrap();
    assert_eq!(code, 422, "{said}");
    cluster.send("DELETE", &format!("{SERVICES}/web"), &Value::Null).await.unwrap();
    cluster.until("no IPAddress", &address, is_gone).await.unwrap();
    // Without the flag the finalizers go everywhere.
    let (ip, _) = node_port(&cluster, "later").await;
    let address = format!("{IP_ADDRESSES}/{ip}");
    cluster.until("the finalizer", &address, guarded).await.unwrap();
    let server = cluster.kill().await.unwrap();
    let cluster =
        Beside::on(server, BINARY, Account::Ledger, &["--leader-elect=false", AUDITS]).await.unwrap();
    let bare = |entry: &Value| entry["metadata"]["finalizers"].is_null();
    cluster.until("no finalizer", &address, bare).await.unwrap();
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_range_is_held_by_its_ports_and_says_when_it_is_full() {
    let cluster = start(&[LEDGER]).await;
    let (namespace, name) = (&cluster.server.namespace, &cluster.server.namespace);
    // The lab has a range for its flag, which must not cover this one; another server gives no port that its flag does not have.
    let first = if cluster.server.is_lab() { 33000 } else { 31980 };
    let range = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "NodePortRange",
        "metadata": {"name": name}, "spec": {"firstPort": first, "lastPort": first + 1}});
    cluster.send("POST", &format!("{OWN}/nodeportranges"), &range).await.unwrap();
    let path = format!("{OWN}/nodeportranges/{name}");
    cluster.until("the range is ready", &path, |range| says(range, "Ready", "True")).await.unwrap();
    for number in [0, 1] {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": first + number}]});
        cluster.send("POST", SERVICES, &service(&format!("s{number}"), &spec)).await.unwrap();
    }
    let full = |list: &Value| tells(list, "PortRangeFull", name);
    cluster.until("the Event", "/api/v1/namespaces/default/events", full).await.unwrap();
    cluster.send("DELETE", &path, &Value::Null).await.unwrap();
    let whose = format!("the first is {first}, of {namespace}/s0");
    let blocked = |range: &Value| {
        let said = range["status"]["conditions"].to_string();
        said.contains("still 2 node ports") && said.contains(&whose)
    };
    cluster.until("who holds it", &path, blocked).await.unwrap();
    for number in [0, 1] {
        cluster.send("DELETE", &format!("{SERVICES}/s{number}"), &Value::Null).await.unwrap();
    }
    cluster.until("its end", &path, is_gone).await.unwrap();
    cluster.stop().await.unwrap();
}

/// A range that comes, is held by a Service, and goes with it.
#[tokio::test]
async fn a_service_cidr_names_who_holds_it() {
    let more = ["--leader-elect=false", "--controllers=service-cidr-controller"];
    let cluster = Beside::start(BINARY, Account::Controllers, &[], &more).await.unwrap();
    let name = cluster.server.namespace.clone();
    // Whatever ranges a cluster has, the one for benchmarks (RFC 2544) is in none.
    let cidr = |name: &str, cidr: &str| json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name}, "spec": {"cidrs": [cidr]}});
    cluster.send("POST", SERVICE_CIDRS, &cidr(&name, "198.18.97.0/24")).await.unwrap();
    let path = format!("{SERVICE_CIDRS}/{name}");
    let ready =
        cluster.until("the range is ready", &path, |range| says(range, "Ready", "True")).await.unwrap();
    assert_eq!(
        ready["metadata"]["finalizers"],
        json!(["networking.k8s.io/service-cidr-finalizer"]),
        "{ready}"
    );
    // An API server needs a moment to give addresses of a new range.
    let services = cluster.server.path("", "services");
    for number in [1, 2] {
        let web = service(
            &format!("web-{number}"),
            &json!({"clusterIP": format!("198.18.97.{number}"), "ports": [{"port": 80}]}),
        );
        eventually("an address of the range", async || {
            (cluster.server.client.call("POST", &services, &web).await.unwrap().0 == 201).then_some(())
        })
        .await;
    }
    cluster.send("DELETE", &path, &Value::Null).await.unwrap();
    let blocked = cluster.until("who holds it", &path, |range| says(range, "Ready", "False")).await.unwrap();
    let said = blocked["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(said.contains('2') && said.contains(&format!("{name}/web-1")), "{said}");
    let told = |list: &Value| tells(list, "ServiceCIDRInUse", &name);
    cluster.until("the Event", "/api/v1/namespaces/default/events", told).await.unwrap();
    // One that lies in a live one goes at once.
    let small = format!("{name}-small");
    let whole = cluster.send("GET", &format!("{SERVICE_CIDRS}/kubernetes"), &Value::Null).await.unwrap();
    let (first, _) = whole["spec"]["cidrs"][0].as_str().unwrap().split_once('/').unwrap();
    cluster.send("POST", SERVICE_CIDRS, &cidr(&small, &format!("{first}/28"))).await.unwrap();
    let inside = format!("{SERVICE_CIDRS}/{small}");
    cluster.until("the small one", &inside, |range| says(range, "Ready", "True")).await.unwrap();
    cluster.send("DELETE", &inside, &Value::Null).await.unwrap();
    cluster.until("the end of the small one", &inside, is_gone).await.unwrap();
    assert_eq!(cluster.server.client.get(&path).await.unwrap().0, 200, "Services are in the other");
    for number in [1, 2] {
        cluster.send("DELETE", &format!("{SERVICES}/web-{number}"), &Value::Null).await.unwrap();
    }
    cluster.until("its end", &path, is_gone).await.unwrap();
    cluster.stop().await.unwrap();
}
