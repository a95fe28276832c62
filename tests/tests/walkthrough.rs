//! The session of a beginner's article about Services, as far as it only needs the API: what a person types against
//! `lab --nodes 3`, and that it shows what the article shows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod person;

use std::time::{Duration, Instant};

use person::{Person, has};
use service_tests::kubectl::programs;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const PATIENCE: Duration = Duration::from_mins(1);
const ENDPOINTS: &str = "-n demo get endpointslice -l kubernetes.io/service-name=hello -o \
    'jsonpath={range .items[?(@.addressType==\"IPv4\")].endpoints[*]}{.addresses[0]} ready={.conditions.ready} \
serving={.conditions.serving} terminating={.conditions.terminating}{\"\\n\"}{end}'";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello, namespace: demo, labels: {app.kubernetes.io/name: hello}}
spec:
  replicas: 3
  selector: {matchLabels: {app.kubernetes.io/name: hello}}
  template:
    metadata: {labels: {app.kubernetes.io/name: hello}}
    spec:
      containers:
      - name: hello
        image: registry.test/hello:1
        ports: [{name: http, containerPort: 8080}]
";

/// A Service in front of the Deployment.
fn service(name: &str, more: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: demo, labels: {{app.kubernetes.io/name: hello}}}}
spec:
  selector: {{app.kubernetes.io/name: hello}}
  ports:
  - {{name: http, port: 80, targetPort: http, protocol: TCP}}
{more}"
    )
}

const LEGACY_SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: legacy-api-1
  namespace: demo
  labels: {kubernetes.io/service-name: legacy-api, endpointslice.kubernetes.io/managed-by: admins.example.com}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [192.168.10.40], conditions: {ready: true}}
- {addresses: [192.168.10.41], conditions: {ready: true}}
";

/// Repeats a line until what it prints is right, and gives that.
async fn eventually(person: &Person, line: &str, right: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = person.ok(line).await;
        if right(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "kubectl {line} still prints:\n{seen}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

async fn a_service_gets_its_address(person: &Person) {
    person.ok("create namespace demo").await;
    assert_eq!(person.ok_with("apply -f -", DEPLOYMENT).await, "deployment.apps/hello created\n");
    has(&person.ok("-n demo rollout status deployment hello").await, &["successfully rolled out"]);
    assert_eq!(person.ok_with("apply -f -", &service("hello", "")).await, "service/hello created\n");
    has(
        &person.ok("-n demo get svc hello").await,
        &["NAME", "CLUSTER-IP", "hello", "ClusterIP", "<none>", "80/TCP"],
    );
    assert_eq!(
        person
            .refused("-n demo create service clusterip bad --tcp=80:8080 --clusterip=10.200.0.10", "")
            .await,
        "error: failed to create ClusterIP service: Service \"bad\" is invalid: spec.clusterIPs: Invalid value: \
         [\"10.200.0.10\"]: failed to allocate IP 10.200.0.10: the provided network does not match the current range\n"
    );
}

async fn slices_and_endpoints(person: &Person) {
    eventually(person, ENDPOINTS, |seen| count(seen, "ready=true serving=true terminating=false") == 3).await;
    let slices = "-n demo get endpointslices -l kubernetes.io/service-name=hello";
    has(&person.ok(slices).await, &["NAME", "ADDRESSTYPE", "PORTS", "ENDPOINTS", "hello-", "IPv4", "8080"]);
    let yaml = person.ok(&format!("{slices} -o yaml")).await;
    has(
        &yaml,
        &[
            "addressType: IPv4",
            "generateName: hello-",
            "endpoints.kubernetes.io/last-change-trigger-time:",
            "app.kubernetes.io/name: hello",
            "endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io",
            "kubernetes.io/service-name: hello",
            "blockOwnerDeletion: true",
            "kind: Pod",
            "nodeName: k8s-node-",
            "generation: ",
        ],
    );
    let endpoints = person.kubectl.run(&["-n", "demo", "get", "endpoints", "hello"], "").await.unwrap();
    has(&endpoints.out, &["NAME", "ENDPOINTS", "hello", ":8080"]);
    has(
        &endpoints.err,
        &["Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"],
    );
}

async fn types(person: &Person) {
    let np = service("hello-np", "  type: NodePort\n").replace("protocol: TCP", "nodePort: 30080");
    assert_eq!(person.ok_with("apply -f -", &np).await, "service/hello-np created\n");
    has(&person.ok("-n demo get svc hello-np").await, &["NodePort", "80:30080/TCP"]);
    assert_eq!(
        person.refused("apply -f -", &np.replace("name: hello-np", "name: hello-np2")).await,
        "The Service \"hello-np2\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated\n"
    );
    assert_eq!(
        person
            .refused("apply -f -", &np.replace("name: hello-np", "name: hello-np3").replace("30080", "20080"))
            .await,
        "The Service \"hello-np3\" is invalid: spec.ports[0].nodePort: Invalid value: 20080: provided port is not in the valid \
         range. The range of valid ports is 30000-32767\n"
    );
    person.ok_with("apply -f -", &service("hello-lb", "  type: LoadBalancer\n")).await;
    has(&person.ok("-n demo get svc hello-lb").await, &["LoadBalancer", "<pending>", "80:3"]);
    person.ok("-n demo get events --field-selector involvedObject.kind=Service").await;
    person.ok_with("apply -f -", &service("hello-sticky", "  sessionAffinity: ClientIP\n")).await;
    person.ok_with("apply -f -", &service("hello-local", "  internalTrafficPolicy: Local\n")).await;
    person.ok_with("apply -f -", &service("hello-headless", "  clusterIP: None\n")).await;
    person.ok("-n demo create service externalname registry --external-name ghcr.io").await;
    has(
        &person.ok("-n demo get svc hello-headless registry").await,
        &["ClusterIP", "None", "ExternalName", "ghcr.io"],
    );
    assert_eq!(
        person.ok("-n demo get svc hello-sticky -o jsonpath={.spec.sessionAffinityConfig}").await,
        "{\"clientIP\":{\"timeoutSeconds\":10800}}"
    );
    for name in ["hello-np", "hello-lb"] {
        let patched = person
            .ok(&format!("-n demo patch svc {name} -p {{\"spec\":{{\"externalTrafficPolicy\":\"Local\"}}}}"))
            .await;
        assert_eq!(patched, format!("service/{name} patched\n"));
    }
    let port: u16 =
        person.ok("-n demo get svc hello-lb -o jsonpath={.spec.healthCheckNodePort}").await.parse().unwrap();
    assert!((30000..=32767).contains(&port));
    assert_eq!(person.ok("-n demo get svc hello-np -o jsonpath={.spec.healthCheckNodePort}").await, "");
}

async fn scaling_and_pods(person: &Person) {
    for replicas in [2, 3] {
        let scaled = person.ok(&format!("-n demo scale deployment hello --replicas={replicas}")).await;
        assert_eq!(scaled, "deployment.apps/hello scaled\n");
        eventually(person, ENDPOINTS, |seen| {
            count(seen, "ready=true") == replicas && count(seen, "\n") == replicas
        })
        .await;
    }
    let run = "-n demo run client --image=busybox:1.37 --overrides={\"spec\":{\"nodeName\":\"k8s-node-1\"}} -- sleep 3600";
    assert_eq!(person.ok(run).await, "pod/client created\n");
    eventually(person, "-n demo get pod client -o wide", |seen| {
        seen.contains("1/1") && seen.contains("Running")
    })
    .await;
    has(
        &person.ok("-n demo get pod client -o wide").await,
        &["NODE", "NOMINATED NODE", "READINESS GATES", "k8s-node-1"],
    );
}

async fn a_pod_that_is_not_ready(person: &Person) {
    let probe = "-n demo patch deployment hello --type=json -p=[{\"op\":\"add\",\"path\":\"/spec/template/spec/containers/0/\
readinessProbe\",\"value\":{\"httpGet\":{\"path\":\"/nope\",\"port\":\"http\"},\"periodSeconds\":5}}]";
    assert_eq!(person.ok(probe).await, "deployment.apps/hello patched\n");
    eventually(person, ENDPOINTS, |seen| {
        count(seen, "ready=true serving=true") == 3
            && count(seen, "ready=false serving=false terminating=false") == 1
    })
    .await;
    has(
        &person.ok("-n demo get pods -l app.kubernetes.io/name=hello -o wide").await,
        &["0/1", "1/1", "Running"],
    );
    let events = "-n demo get events --field-selector reason=Unhealthy";
    let seen = eventually(person, events, |seen| seen.contains("Unhealthy")).await;
    has(&seen, &["LAST SEEN", "Warning", "Readiness probe failed: HTTP probe failed with statuscode: 404"]);
    let undone = person.ok("-n demo rollout undo deployment hello").await;
    has(&undone, &["deployment.apps/hello rolled back"]);
    eventually(person, ENDPOINTS, |seen| count(seen, "ready=true") == 3 && count(seen, "\n") == 3).await;
}

async fn a_pod_that_terminates(person: &Person) {
    let pods = "-n demo get pods -l app.kubernetes.io/name=hello -o jsonpath={.items[*].metadata.name}";
    let names = eventually(person, pods, |seen| seen.split(' ').count() == 3).await;
    let name = names.split(' ').next().unwrap();
    has(&person.ok(&format!("-n demo delete pod {name} --wait=false")).await, &["deleted"]);
    eventually(person, ENDPOINTS, |seen| seen.contains("ready=false serving=true terminating=true")).await;
    eventually(person, ENDPOINTS, |seen| count(seen, "ready=true") == 3 && count(seen, "\n") == 3).await;
    let names = eventually(person, pods, |seen| seen.split(' ').count() == 3 && !seen.contains(name)).await;
    let forced = names.split(' ').next().unwrap();
    person.ok(&format!("-n demo delete pod {forced} --grace-period=0 --force")).await;
    has(&person.refused(&format!("-n demo get pod {forced}"), "").await, &["not found"]);
    eventually(person, ENDPOINTS, |seen| count(seen, "ready=true") == 3 && count(seen, "\n") == 3).await;
}

async fn without_a_selector(person: &Person) {
    let legacy = service("legacy-api", "")
        .replace("  selector: {app.kubernetes.io/name: hello}\n", "")
        .replace("http, protocol", "8080, protocol");
    person.ok_with("apply -f -", &legacy).await;
    person.ok_with("apply -f -", LEGACY_SLICE).await;
    has(&person.ok("-n demo get endpointslices legacy-api-1").await, &["192.168.10.40,192.168.10.41"]);
    let bad = LEGACY_SLICE.replace("legacy-api-1", "legacy-bad").replace("192.168.10.40", "0.0.0.0");
    assert_eq!(
        person.refused("apply -f -", &bad).await,
        "The EndpointSlice \"legacy-bad\" is invalid: endpoints[0].addresses[0]: Invalid value: \"0.0.0.0\": may not be \
         unspecified (0.0.0.0)\n"
    );
}

async fn hints(person: &Person) {
    person.ok_with("apply -f -", &service("hello-near", "  trafficDistribution: PreferSameNode\n")).await;
    let hints = "-n demo get endpointslice -l kubernetes.io/service-name=hello-near -o \
        'jsonpath={range .items[*].endpoints[*]}{.addresses[0]} {.nodeName} hints={.hints}{\"\\n\"}{end}'";
    let seen = eventually(person, hints, |seen| count(seen, "forNodes") >= 3).await;
    for line in seen.lines() {
        let node = line.split(' ').nth(1).unwrap();
        assert!(line.ends_with(&format!("hints={{\"forNodes\":[{{\"name\":\"{node}\"}}]}}")), "{line}");
    }
    has(&person.ok("-n demo delete svc hello-near").await, &["service \"hello-near\" deleted"]);
}

async fn addresses_as_objects_and_the_end(person: &Person) {
    has(&person.ok("get servicecidrs").await, &["NAME", "CIDRS", "AGE", "kubernetes", "10.96.0.0/12"]);
    let addresses = person.ok("get ipaddresses").await;
    has(
        &addresses,
        &["PARENTREF", "services/default/kubernetes", "services/demo/hello-np", "services/demo/legacy-api"],
    );
    assert!(!addresses.contains("hello-headless") && !addresses.contains("registry"), "{addresses}");
    person.ok("-n demo delete svc hello-np hello-lb hello-local hello-sticky hello-headless legacy-api registry").await;
    person.ok("-n demo delete pod client --grace-period=1").await;
    person.ok("-n demo delete endpointslice legacy-api-1").await;
    let left =
        eventually(person, "-n demo get endpointslices -o name", |seen| !seen.contains("hello-np")).await;
    assert!(left.lines().all(|name| name.starts_with("endpointslice.discovery.k8s.io/hello-")), "{left}");
    let addresses = person.ok("get ipaddresses").await;
    assert!(!addresses.contains("hello-np") && addresses.contains("services/demo/hello"), "{addresses}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_of_the_article() {
    let programs = programs().await;
    let Some(program) = programs.last() else {
        println!("skipped: there is no kubectl on PATH, and hack/install-kubectl.sh was not run");
        return;
    };
    let person = Person::start(BINARY, program.clone(), &["--nodes", "3"]).await;
    a_service_gets_its_address(&person).await;
    slices_and_endpoints(&person).await;
    types(&person).await;
    scaling_and_pods(&person).await;
    a_pod_that_is_not_ready(&person).await;
    a_pod_that_terminates(&person).await;
    without_a_selector(&person).await;
    hints(&person).await;
    addresses_as_objects_and_the_end(&person).await;
    person.server.stop().await.unwrap();
}
