//! Simulated nodes, pods and what belongs to every cluster, as a person with kubectl sees them: the families of the cluster,
//! readiness, lost nodes, relabelled pods, the Service `kubernetes`, namespaces.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod person;

use std::time::{Duration, Instant};

use person::{Person as Lab, has};
use service_tests::kubectl::programs;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
/// How long what follows from a command may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Runs a line until it shows what it should.
async fn until(lab: &Lab, line: &str, done: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = lab.run(line, "").await;
        if done(&output.out) {
            return output.out;
        }
        assert!(Instant::now() < deadline, "kubectl {line} never shows it:\n{}{}", output.out, output.err);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Addresses of the ready endpoints of a Service, sorted.
async fn ready(lab: &Lab, service: &str, count: usize) -> Vec<String> {
    let path = "{range.items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]}{\"\\n\"}{end}";
    let line = format!("get endpointslices -l kubernetes.io/service-name={service} -o 'jsonpath={path}'");
    let text = until(lab, &line, |text| text.lines().count() == count).await;
    let mut addresses: Vec<String> = text.lines().map(str::to_owned).collect();
    addresses.sort();
    addresses
}

#[tokio::test]
async fn a_lab_of_any_families_has_endpoints() {
    let Some(program) = programs().await.into_iter().next() else { return println!("skipped: no kubectl") };
    let (v4, v6) = ("10.96.0.0/12", "fd00:10:96::/112");
    for (ranges, kind, begin) in [
        (&[v6][..], "IPv6", "fd00:10:244:"),
        (&[v6, v4], "IPv6", "fd00:10:244:"),
        (&[v4, v6], "IPv4", "10.244."),
    ] {
        let lab = Lab::start_in(BINARY, program.clone(), ranges, &["--nodes", "2"]).await;
        lab.ok("create deployment web --image=x --replicas=2 --port=80").await;
        lab.ok("expose deployment web").await;
        let addresses = ready(&lab, "web", 2).await;
        assert!(addresses.iter().all(|address| address.starts_with(begin)), "{ranges:?}: {addresses:?}");
        let first = lab.ok("get pods -l app=web -o jsonpath={.items[*].status.podIP}").await;
        assert!(first.split(' ').all(|address| address.starts_with(begin)), "{ranges:?}: {first}");
        let internal = lab
            .ok("get nodes -o jsonpath={.items[*].status.addresses[?(@.type==\"InternalIP\")].address}")
            .await;
        assert_eq!(internal.split(' ').count(), 2 * ranges.len(), "{ranges:?}: {internal}");
        let own = lab.ok("get endpointslice kubernetes -o jsonpath={.addressType}").await;
        let service = lab.ok("get service kubernetes -o jsonpath={.spec.ipFamilies[0]}").await;
        assert_eq!((own.as_str(), service.as_str()), (kind, kind), "{ranges:?}");
        let host = "{\"spec\":{\"hostNetwork\":true}}";
        lab.ok(&format!("run host --image=x --labels=app=host --overrides={host}")).await;
        lab.ok("expose pod host --port=80").await;
        assert_eq!(ready(&lab, "host", 1).await.len(), 1);
        lab.server.stop().await.unwrap();
    }
}

const UNREADY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: gated, labels: {app: f}}
spec:
  readinessGates: [{conditionType: example.com/lb-attached}]
  containers: [{name: c, image: x}]
---
apiVersion: v1
kind: Pod
metadata: {name: sidecar-not-ready, labels: {app: f}}
spec:
  initContainers:
  - {name: proxy, image: x, restartPolicy: Always, readinessProbe: {httpGet: {path: /fail, port: 80}, periodSeconds: 1}}
  containers: [{name: c, image: x}]
---
apiVersion: v1
kind: Pod
metadata: {name: never-started, labels: {app: f}}
spec:
  containers:
  - {name: c, image: x, startupProbe: {httpGet: {path: /fail, port: 80}, periodSeconds: 1, failureThreshold: 300}}
---
apiVersion: v1
kind: Pod
metadata: {name: one-of-two, labels: {app: f}}
spec:
  containers:
  - {name: a, image: x}
  - {name: b, image: x, readinessProbe: {httpGet: {path: /fail, port: 80}, periodSeconds: 1}}
";

async fn pods_that_must_not_be_ready(lab: &Lab) {
    lab.ok_with("apply -f -", UNREADY).await;
    lab.ok("expose pod gated --name f --port 80 --selector app=f").await;
    until(lab, "get pods -l app=f", |table| table.matches("Running").count() == 4).await;
    let table = until(lab, "get pods -l app=f -o wide", |table| {
        table.lines().filter(|line| line.contains("1/2")).count() == 2
    })
    .await;
    let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    has(line("gated"), &["1/1", "0/1"]);
    has(line("never-started"), &["0/1"]);
    for (pod, reason) in [
        ("gated", "ReadinessGatesNotReady"),
        ("sidecar-not-ready", "ContainersNotReady"),
        ("never-started", "ContainersNotReady"),
        ("one-of-two", "ContainersNotReady"),
    ] {
        let path = "{.status.conditions[?(@.type==\"Ready\")].reason}";
        assert_eq!(lab.ok(&format!("get pod {pod} -o jsonpath={path}")).await, reason, "{pod}");
    }
    has(
        &until(lab, "get events --field-selector involvedObject.name=never-started", |text| {
            text.contains("Unhealthy")
        })
        .await,
        &["Startup probe failed"],
    );
    assert!(ready(lab, "f", 0).await.is_empty());
    let patch = "{\"status\":{\"conditions\":[{\"type\":\"example.com/lb-attached\",\"status\":\"True\"}]}}";
    lab.ok(&format!("patch pod gated --subresource=status --type=strategic -p {patch}")).await;
    assert_eq!(ready(lab, "f", 1).await.len(), 1);
    lab.ok("delete pods -l app=f --now").await;
}

async fn a_relabelled_pod(lab: &Lab) {
    lab.ok("create deployment iso --image=x --replicas=2 --port=80").await;
    lab.ok("expose deployment iso").await;
    ready(lab, "iso", 2).await;
    let pods = lab.ok("get pods -l app=iso -o name").await;
    let pod = pods.lines().next().unwrap();
    lab.ok(&format!("label {pod} app=debug --overwrite")).await;
    until(lab, "get pods -l app=iso -o name", |text| text.lines().count() == 2).await;
    assert_eq!(ready(lab, "iso", 2).await.len(), 2);
    assert_eq!(lab.ok(&format!("get {pod} -o jsonpath={{.metadata.ownerReferences}}")).await, "");
    lab.ok("scale deployment iso --replicas=1").await;
    assert_eq!(ready(lab, "iso", 1).await.len(), 1);
    has(&lab.ok("get pods -l app=debug -o name").await, &[pod]);
    lab.ok("delete deployment,service iso").await;
    lab.ok(&format!("delete {pod} --now")).await;
}

async fn the_service_kubernetes(lab: &Lab) {
    for line in [
        "label endpointslice kubernetes a=b",
        "annotate endpointslice kubernetes a=b",
        "label endpoints kubernetes a=b",
        "annotate endpoints kubernetes a=b",
    ] {
        lab.ok(line).await;
    }
    let dumped = lab.ok("get endpointslice kubernetes -o yaml").await;
    lab.ok_with("replace -f -", &dumped).await;
    let addresses = "get endpoints kubernetes -o jsonpath={.subsets[*].addresses[*].ip}";
    let listed = "get endpointslice kubernetes -o jsonpath={.endpoints[*].addresses[*]}";
    let right = lab.ok(addresses).await;
    assert_eq!(lab.ok(listed).await, right);
    let subsets = "{\"subsets\":[{\"notReadyAddresses\":[{\"ip\":\"192.0.2.3\"}],\"ports\":[{\"name\":\"https\",\"port\":1}]}]}";
    lab.ok(&format!("patch endpoints kubernetes --type=merge -p {subsets}")).await;
    lab.ok("patch endpointslice kubernetes --type=merge -p {\"endpoints\":[]}").await;
    until(lab, addresses, |text| text == right).await;
    until(lab, listed, |text| text == right).await;
    assert_eq!(lab.ok("get endpointslice kubernetes -o jsonpath={.metadata.labels.a}").await, "b");
}

async fn namespaces(lab: &Lab) {
    lab.ok("create namespace shop").await;
    for object in ["serviceaccount default", "configmap kube-root-ca.crt"] {
        until(lab, &format!("-n shop get {object} -o name"), |text| !text.is_empty()).await;
    }
    has(
        &lab.ok("-n shop get configmap kube-root-ca.crt -o 'jsonpath={.data.ca\\.crt}'").await,
        &["BEGIN CERTIFICATE"],
    );
    lab.ok("-n shop create configmap held --from-literal=a=b").await;
    lab.ok(
        "-n shop patch configmap held --type=merge -p {\"metadata\":{\"finalizers\":[\"example.com/hold\"]}}",
    )
    .await;
    lab.ok("delete namespace shop --wait=false").await;
    let path = "{range.status.conditions[*]}{.type}={.status}:{.reason}:{.message}{\"\\n\"}{end}";
    let line = format!("get namespace shop -o 'jsonpath={path}'");
    let text = until(lab, &line, |text| text.contains("SomeFinalizersRemain")).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "NamespaceDeletionDiscoveryFailure=False:ResourcesDiscovered:All resources successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure=False:ParsedGroupVersions:All legacy kube types successfully parsed",
            "NamespaceDeletionContentFailure=False:ContentDeleted:All content successfully deleted, may be waiting on finalization",
            "NamespaceContentRemaining=True:SomeResourcesRemain:Some resources are remaining: configmaps. has 1 resource instances",
            "NamespaceFinalizersRemaining=True:SomeFinalizersRemain:Some content in the namespace has finalizers remaining: \
             example.com/hold in 1 resource instances",
        ]
    );
    lab.ok("-n shop patch configmap held --type=merge -p {\"metadata\":{\"finalizers\":null}}").await;
    until(lab, "get namespace shop --ignore-not-found", str::is_empty).await;
}

/// Last: it takes a node away.
async fn a_lost_node(lab: &Lab) {
    lab.ok("create deployment web --image=x --replicas=3 --port=80").await;
    lab.ok("expose deployment web").await;
    ready(lab, "web", 3).await;
    has(&lab.ok("drain k8s-node-2 --ignore-daemonsets --force --timeout 60s").await, &["drained"]);
    lab.ok("uncordon k8s-node-2").await;
    ready(lab, "web", 3).await;
    let down = "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"Unknown\"}]}}";
    lab.ok(&format!("patch node k8s-node-3 --subresource=status --type=strategic -p {down}")).await;
    let count =
        lab.ok("get pods -l app=web --field-selector spec.nodeName=k8s-node-3 -o name").await.lines().count();
    assert_eq!(ready(lab, "web", 3 - count).await.len(), 3 - count);
    lab.ok("delete node k8s-node-3 k8s-node-1").await;
    has(&lab.refused("get node k8s-node-3", "").await, &["not found"]);
    until(lab, "get pods -l app=web -o jsonpath={.items[*].spec.nodeName}", |text| {
        text == "k8s-node-2 k8s-node-2 k8s-node-2"
    })
    .await;
    assert_eq!(ready(lab, "web", 3).await.len(), 3);
}

#[tokio::test]
async fn a_cluster_to_look_at() {
    for program in programs().await {
        let more = ["--nodes", "3", "--zones", "a,b"];
        let lab = Lab::start(BINARY, program, &more).await;
        pods_that_must_not_be_ready(&lab).await;
        a_relabelled_pod(&lab).await;
        the_service_kubernetes(&lab).await;
        namespaces(&lab).await;
        a_lost_node(&lab).await;
        lab.server.stop().await.unwrap();
    }
}
