//! The real kubectl works against the lab: what a person types, and what they see. Every kubectl that is found is tried; the
//! newest comes from `hack/install-kubectl.sh`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod person;

use person::{Person as Lab, has};
use service_tests::kubectl::programs;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
/// What a deletion and a rollout need beside the API.
const CONTROLLERS: [&str; 4] =
    ["--controllers", "garbage-collector-controller,namespace-controller", "--nodes", "2"];

const HELLO: &str = "
apiVersion: v1
kind: Service
metadata:
  name: hello
  labels: {app: hello}
spec:
  type: NodePort
  selector: {app: hello}
  ports:
  - {name: http, port: 80, targetPort: http, nodePort: 30080}
";

async fn apply_and_get(lab: &Lab) {
    assert_eq!(lab.ok_with("apply -f -", HELLO).await, "service/hello created\n");
    assert_eq!(lab.ok_with("apply -f -", HELLO).await, "service/hello unchanged\n");
    let changed = HELLO.replace("port: 80,", "port: 81,");
    lab.ok_with("diff -f -", HELLO).await;
    has(&lab.kubectl.run(&["diff", "-f", "-"], &changed).await.unwrap().out, &["port: 81"]);
    assert_eq!(lab.ok_with("apply -f -", &changed).await, "service/hello configured\n");
    let table = lab.ok("get svc hello").await;
    has(
        &table,
        &[
            "NAME",
            "TYPE",
            "CLUSTER-IP",
            "EXTERNAL-IP",
            "PORT(S)",
            "AGE",
            "NodePort",
            "<none>",
            "81:30080/TCP",
        ],
    );
    has(&lab.ok("get svc -o wide").await, &["SELECTOR", "app=hello", "kubernetes"]);
    has(&lab.ok("get services -A").await, &["NAMESPACE", "default", "hello"]);
    has(
        &lab.ok("get svc hello -o yaml").await,
        &["clusterIP: 10.", "nodePort: 30080", "last-applied-configuration"],
    );
    has(&lab.ok("get svc hello -o json").await, &["\"nodePort\": 30080"]);
    assert_eq!(lab.ok("get svc hello -o jsonpath={.spec.ports[0].nodePort}").await, "30080");
    assert_eq!(lab.ok("get svc -l app=hello -o name").await, "service/hello\n");
    assert_eq!(lab.ok("get svc --field-selector spec.type=NodePort -o name").await, "service/hello\n");
    has(&lab.ok("get svc hello --show-labels").await, &["LABELS", "app=hello"]);
    has(&lab.ok("get svc -o custom-columns=N:.metadata.name,T:.spec.type").await, &["hello", "NodePort"]);
    has(&lab.ok("get servicecidrs").await, &["NAME", "CIDRS", "kubernetes", "10.96.0.0/12,fd00:10:96::/112"]);
    has(&lab.ok("get ipaddresses").await, &["NAME", "PARENTREF", "10.96.0.1", "services/default/kubernetes"]);
    has(&lab.refused("get svc nothing", "").await, &["services \"nothing\" not found"]);
}

async fn describe(lab: &Lab) {
    let text = lab.ok("describe svc hello").await;
    has(
        &text,
        &[
            "Name:",
            "Namespace:",
            "Labels:",
            "app=hello",
            "Selector:",
            "IP Families:",
            "NodePort:",
            "30080/TCP",
        ],
    );
    // kubectl 1.32 describes ServiceCIDRs by an API version that v1.36 no longer serves.
    has(&lab.ok("get servicecidr kubernetes -o yaml").await, &["- 10.96.0.0/12", "type: Ready"]);
    has(&lab.ok("describe namespace default").await, &["Name:", "default", "Active"]);
}

async fn change(lab: &Lab) {
    let patch = r#"{"spec":{"externalTrafficPolicy":"Local"}}"#;
    for kind in ["merge", "strategic"] {
        lab.ok(&format!("patch svc hello --type {kind} -p {patch}")).await;
    }
    let json = r#"[{"op":"replace","path":"/spec/externalTrafficPolicy","value":"Cluster"}]"#;
    has(&lab.ok(&format!("patch svc hello --type json -p {json}")).await, &["patched"]);
    assert_eq!(lab.ok("label svc hello tier=web").await, "service/hello labeled\n");
    assert_eq!(lab.ok("annotate svc hello note=x").await, "service/hello annotated\n");
    let edited = lab.kubectl.run_with(
        &["edit", "svc", "hello"],
        "",
        &[("KUBE_EDITOR", "sed -i s/tier:.web/tier:\\ api/")],
    );
    let edited = edited.await.unwrap();
    assert!(edited.success, "{edited:?}");
    assert_eq!(lab.ok("get svc hello -o jsonpath={.metadata.labels.tier}").await, "api", "{edited:?}");
    let whole = lab.ok("get svc hello -o yaml").await;
    assert_eq!(
        lab.ok_with("replace -f -", &whole.replace("tier: api", "tier: db")).await,
        "service/hello replaced\n"
    );
    let stale = whole.replace("tier: api", "tier: cache");
    has(
        &lab.refused("replace -f -", &stale).await,
        &["the object has been modified; please apply your changes to the latest version"],
    );
    lab.ok("set selector svc hello app=other").await;
    assert_eq!(lab.ok("get svc hello -o jsonpath={.spec.selector.app}").await, "other");
}

async fn create_of_each_type(lab: &Lab) {
    assert_eq!(lab.ok("create service clusterip c1 --tcp=80:8080").await, "service/c1 created\n");
    assert_eq!(lab.ok("create service clusterip c2 --clusterip=None").await, "service/c2 created\n");
    assert_eq!(
        lab.ok("create service nodeport n1 --tcp=80:8080 --node-port=30081").await,
        "service/n1 created\n"
    );
    assert_eq!(lab.ok("create service loadbalancer l1 --tcp=443:8443").await, "service/l1 created\n");
    assert_eq!(
        lab.ok("create service externalname e1 --external-name example.test").await,
        "service/e1 created\n"
    );
    let table = lab.ok("get svc").await;
    has(
        &table,
        &[
            "ClusterIP",
            "None",
            "NodePort",
            "30081/TCP",
            "LoadBalancer",
            "<pending>",
            "ExternalName",
            "example.test",
        ],
    );
    assert_eq!(
        lab.refused("create service clusterip bad --tcp=80:8080 --clusterip=10.200.0.10", "").await,
        "error: failed to create ClusterIP service: Service \"bad\" is invalid: spec.clusterIPs: Invalid value: \
         [\"10.200.0.10\"]: failed to allocate IP 10.200.0.10: the provided network does not match the current range\n"
    );
    let taken = HELLO.replace("name: hello\n", "name: hello-np2\n");
    has(
        &lab.refused("create -f -", &taken).await,
        &[
            "The Service \"hello-np2\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated",
        ],
    );
    has(
        &lab.refused("create -f -", &taken.replace("30080", "20080")).await,
        &["provided port is not in the valid range. The range of valid ports is 30000-32767"],
    );
}

async fn expose(lab: &Lab) {
    let pod = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: c, image: 'registry.test/app:1', ports: [{containerPort: 8080}]}]}
";
    assert_eq!(lab.ok_with("apply -f -", pod).await, "pod/web created\n");
    assert_eq!(lab.ok("expose pod web --port 80 --target-port 8080").await, "service/web exposed\n");
    assert_eq!(
        lab.ok("get svc web -o jsonpath={.spec.selector.app}:{.spec.ports[0].targetPort}").await,
        "web:8080"
    );
    assert_eq!(
        lab.ok("expose svc web --name web2 --port 81 --type NodePort").await,
        "service/web2 exposed\n"
    );
}

async fn explain(lab: &Lab) {
    has(&lab.ok("explain service.spec.clusterIP").await, &["KIND:       Service", "clusterIP <string>"]);
    has(&lab.ok("explain svc --recursive").await, &["sessionAffinityConfig", "timeoutSeconds"]);
    has(&lab.ok("explain endpointslices").await, &["GROUP:      discovery.k8s.io", "addressType"]);
    has(
        &lab.ok("api-resources").await,
        &["services", "endpointslices", "ipaddresses", "servicecidrs", "svc"],
    );
    has(&lab.ok("api-versions").await, &["v1", "discovery.k8s.io/v1", "networking.k8s.io/v1"]);
    has(&lab.ok("version").await, &["Client Version", "Server Version: v1.36"]);
}

async fn server_side(lab: &Lab) {
    let service = HELLO.replace("name: hello\n", "name: applied\n").replace(", nodePort: 30080", "");
    let applied = lab.ok_with("apply --server-side -f -", &service).await;
    assert_eq!(applied, "service/applied serverside-applied\n");
    let other = service.replace("type: NodePort", "type: ClusterIP");
    has(
        &lab.refused("apply --server-side --field-manager other -f -", &other).await,
        &["Apply failed with", "conflict with \"kubectl\"", ".spec.type"],
    );
    lab.ok_with("apply --server-side --field-manager other --force-conflicts -f -", &other).await;
    assert_eq!(lab.ok("get svc applied -o jsonpath={.spec.type}").await, "ClusterIP");
    has(
        &lab.ok("get svc applied -o yaml --show-managed-fields").await,
        &["manager: other", "operation: Apply"],
    );
}

async fn dry_run_and_validation(lab: &Lab) {
    let service = HELLO.replace("name: hello\n", "name: dry\n").replace("30080", "30090");
    assert_eq!(
        lab.ok_with("apply --dry-run=server -f -", &service).await,
        "service/dry created (server dry run)\n"
    );
    has(&lab.ok_with("create --dry-run=server -o yaml -f -", &service).await, &["clusterIP: 10."]);
    has(&lab.refused("get svc dry", "").await, &["not found"]);
    let unknown = service.replace("type: NodePort", "type: NodePort\n  colour: red");
    has(
        &lab.refused("apply -f -", &unknown).await,
        &["strict decoding error: unknown field \"spec.colour\""],
    );
}

async fn wait_and_watch(lab: &Lab) {
    let mut watched = lab.kubectl.watch(&["get", "svc", "-w", "-o", "name"]).unwrap();
    assert!(watched.line().await.unwrap().starts_with("service/"));
    lab.ok("create service clusterip watched --tcp=80").await;
    while watched.line().await.unwrap() != "service/watched" {}
    lab.ok("wait svc watched --for=jsonpath={.spec.type}=ClusterIP --timeout 10s").await;
    let waiting = lab.kubectl.run(&["wait", "svc", "watched", "--for=delete", "--timeout", "20s"], "");
    let (waited, _) = tokio::join!(waiting, lab.ok("delete svc watched"));
    let waited = waited.unwrap();
    // The Service may have been gone before kubectl looked.
    assert!(waited.success || waited.err.contains("not found"), "{waited:?}");
    lab.ok("wait servicecidr kubernetes --for=condition=Ready --timeout 10s").await;
}

async fn namespaces_and_deletion(lab: &Lab) {
    lab.ok("create namespace demo").await;
    lab.ok("-n demo create configmap c --from-literal=a=b").await;
    lab.ok("-n demo create service clusterip inside --tcp=80").await;
    has(&lab.ok("-n demo get all").await, &["service/inside"]);
    assert_eq!(
        lab.ok("delete svc hello").await.lines().next().unwrap().split(" from ").next().unwrap(),
        "service \"hello\" deleted"
    );
    lab.ok("delete svc c1 c2").await;
    lab.ok("delete svc -l app=hello").await;
    lab.ok("delete svc e1 --cascade=orphan").await;
    let left = lab.ok("get svc -o name").await;
    assert!(!left.contains("service/hello\n") && !left.contains("service/c1\n"), "{left}");
    has(&lab.ok("get ns").await, &["demo", "Active"]);
    lab.ok("get events -A").await;
    assert!(lab.ok("delete ns demo").await.contains("namespace \"demo\" deleted"));
    has(&lab.refused("get ns demo", "").await, &["not found"]);
}

async fn workloads(lab: &Lab) {
    assert_eq!(
        lab.ok("create deployment site --image=registry.test/site:1 --replicas=2 --port=80").await,
        "deployment.apps/site created\n"
    );
    assert_eq!(lab.ok("expose deployment site --port 80").await, "service/site exposed\n");
    has(&lab.ok("rollout status deployment site --timeout 60s").await, &["successfully rolled out"]);
    assert_eq!(lab.ok("scale deployment site --replicas=3").await, "deployment.apps/site scaled\n");
    has(&lab.ok("rollout status deployment site --timeout 60s").await, &["successfully rolled out"]);
    assert_eq!(lab.ok("get deployment site -o jsonpath={.status.readyReplicas}").await, "3");
    assert_eq!(
        lab.ok("set image deployment/site site=registry.test/site:2").await,
        "deployment.apps/site image updated\n"
    );
    has(&lab.ok("rollout status deployment site --timeout 60s").await, &["successfully rolled out"]);
    has(&lab.ok("rollout history deployment site").await, &["REVISION", "1 ", "2 "]);
    assert_eq!(lab.ok("rollout undo deployment site").await, "deployment.apps/site rolled back\n");
    has(&lab.ok("rollout status deployment site --timeout 60s").await, &["successfully rolled out"]);
    let image = "get deployment site -o jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(lab.ok(image).await, "registry.test/site:1");
    has(&lab.ok("describe deployment site").await, &["StrategyType:", "3 desired", "NewReplicaSet:"]);
    has(
        &lab.ok("describe pod -l app=site").await,
        &["Status:", "Running", "Controlled By:", "ReplicaSet/site-"],
    );
    has(&lab.ok("describe node").await, &["Addresses:", "InternalIP", "Ready", "Non-terminated Pods:"]);
    has(&lab.ok("get deployment,rs,pod -o wide").await, &["UP-TO-DATE", "3/3", "DESIRED", "1/1", "Running"]);
    lab.ok("delete deployment site --cascade=foreground --timeout 60s").await;
    has(&lab.refused("get deployment site", "").await, &["not found"]);
}

async fn single_pods(lab: &Lab) {
    assert_eq!(
        lab.ok("run one --image=registry.test/one:1 --port=80 --labels=app=one").await,
        "pod/one created\n"
    );
    lab.ok("wait pod one --for=condition=Ready --timeout 60s").await;
    assert_eq!(lab.ok("delete pod one --wait --timeout 60s").await.lines().count(), 1);
    let node = lab.ok("get node -o name").await;
    let node = node.lines().next().unwrap();
    assert_eq!(lab.ok(&format!("cordon {node}")).await, format!("{node} cordoned\n"));
    assert_eq!(lab.ok(&format!("uncordon {node}")).await, format!("{node} uncordoned\n"));
    has(&lab.ok(&format!("taint {} a=b:NoSchedule", node.replace('/', " "))).await, &["tainted"]);
    has(&lab.ok(&format!("taint {} a-", node.replace('/', " "))).await, &["untainted"]);
}

/// What kubectl asks besides objects.
async fn questions(lab: &Lab) {
    assert_eq!(lab.ok("auth can-i create services").await, "yes\n");
    has(&lab.ok("auth can-i --list").await, &["Resources", "*.*", "[*]"]);
    has(&lab.ok("auth whoami").await, &["Username", "system:masters"]);
    has(&lab.ok("cluster-info").await, &["Kubernetes control plane", "is running at", "https://127.0.0.1"]);
    assert_eq!(lab.ok("get --raw /readyz").await, "ok");
    lab.ok("events").await;
}

/// The other kinds that kubectl makes in protobuf.
async fn create_of_other_kinds(lab: &Lab) {
    assert_eq!(lab.ok("create serviceaccount bot").await, "serviceaccount/bot created\n");
    assert_eq!(
        lab.ok("create configmap settings --from-literal=colour=ä").await,
        "configmap/settings created\n"
    );
    assert_eq!(lab.ok("get configmap settings -o jsonpath={.data.colour}").await, "ä");
    has(&lab.ok("describe configmap settings").await, &["colour:", "ä"]);
    has(&lab.refused("create configmap settings", "").await, &["configmaps \"settings\" already exists"]);
    has(
        &lab.refused("create namespace Bad_Name", "").await,
        &["Namespace \"Bad_Name\" is invalid: metadata.name"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_with_kubectl() {
    let programs = programs().await;
    if programs.is_empty() {
        println!("skipped: there is no kubectl on PATH, and hack/install-kubectl.sh was not run");
    }
    for program in programs {
        println!("with {}", program.display());
        let lab = Lab::start(BINARY, program, &CONTROLLERS).await;
        apply_and_get(&lab).await;
        describe(&lab).await;
        change(&lab).await;
        create_of_each_type(&lab).await;
        create_of_other_kinds(&lab).await;
        expose(&lab).await;
        explain(&lab).await;
        server_side(&lab).await;
        dry_run_and_validation(&lab).await;
        wait_and_watch(&lab).await;
        workloads(&lab).await;
        single_pods(&lab).await;
        questions(&lab).await;
        namespaces_and_deletion(&lab).await;
        lab.server.stop().await.unwrap();
    }
}
