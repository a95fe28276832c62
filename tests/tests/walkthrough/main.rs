//! The session of a course about Services, typed into the real kubectl against `lab --nodes 3`: every command of it that only
//! needs the API, and what it shows. Addresses, ages and generated names vary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod manifests;
#[path = "../person/mod.rs"]
#[allow(dead_code, reason = "its shorter checks are for other tests")]
mod person;
mod session;

use service_tests::kubectl::programs;

use manifests::{DEPLOYMENT, EXTERNAL_NAME, LEGACY, LEGACY_SLICE, service, with_node_port};
use session::Session;

/// The endpoints of a Service by their conditions.
const CONDITIONS: &str = "kubectl -n demo get endpointslice -l kubernetes.io/service-name=hello -o \
    jsonpath='{range .items[*].endpoints[*]}{.addresses[0]} ready={.conditions.ready} serving={.conditions.serving} \
    terminating={.conditions.terminating}{\"\\n\"}{end}'";

const THREE_READY: &str = "
{ip} ready=true serving=true terminating=false
{ip} ready=true serving=true terminating=false
{ip} ready=true serving=true terminating=false
";

async fn a_service_and_its_address(session: &Session) {
    session
        .shows_with("kubectl apply -f -", DEPLOYMENT, "namespace/demo created\ndeployment.apps/hello created")
        .await;
    session.run("kubectl -n demo rollout status deployment hello --timeout=60s", "").await;
    session.shows_with("kubectl apply -f -", &service("hello", ""), "service/hello created").await;
    session
        .shows(
            "kubectl -n demo get svc hello",
            "
NAME    TYPE        CLUSTER-IP       EXTERNAL-IP   PORT(S)   AGE
hello   ClusterIP   {ip}             <none>        80/TCP    {age}
",
        )
        .await;
    session
        .refuses(
            "kubectl -n demo create service clusterip bad --tcp=80:8080 --clusterip=10.200.0.10",
            "",
            "error: failed to create ClusterIP service: Service \"bad\" is invalid: spec.clusterIPs: Invalid value: \
             [\"10.200.0.10\"]: failed to allocate IP 10.200.0.10: the provided network does not match the current range",
        )
        .await;
}

const ENDPOINT_YAML: &str = "
  - addresses:
    - {ip}
    conditions:
      ready: true
      serving: true
      terminating: false
    nodeName: k8s-node-{number}
    targetRef:
      kind: Pod
      name: hello-{id}-{id}
      namespace: demo
      uid: {uid}";

async fn endpoints_behind_it(session: &Session) {
    session
        .comes_to_show(
            "kubectl -n demo get endpointslices -l kubernetes.io/service-name=hello",
            "
NAME          ADDRESSTYPE   PORTS   ENDPOINTS        AGE
hello-{id}    IPv4          8080    {ip},{ip},{ip}   {age}
",
        )
        .await;
    let yaml = "
apiVersion: v1
items:
- addressType: IPv4
  apiVersion: discovery.k8s.io/v1
  endpoints:ENDPOINTS
  kind: EndpointSlice
  metadata:
    annotations:
      endpoints.kubernetes.io/last-change-trigger-time: \"{time}\"
    creationTimestamp: \"{time}\"
    generateName: hello-
    generation: {number}
    labels:
      app.kubernetes.io/instance: hello
      app.kubernetes.io/name: hello
      endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io
      kubernetes.io/service-name: hello
    name: hello-{id}
    namespace: demo
    ownerReferences:
    - apiVersion: v1
      blockOwnerDeletion: true
      controller: true
      kind: Service
      name: hello
      uid: {uid}
    resourceVersion: \"{number}\"
    uid: {uid}
  ports:
  - name: http
    port: 8080
    protocol: TCP
kind: List
metadata:
  resourceVersion: \"\"
";
    session
        .shows(
            "kubectl -n demo get endpointslices -l kubernetes.io/service-name=hello -o yaml",
            &yaml.replace("ENDPOINTS", &ENDPOINT_YAML.repeat(3)),
        )
        .await;
    session
        .comes_to_show(
            "kubectl -n demo get endpoints hello",
            "
Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice
NAME    ENDPOINTS                       AGE
hello   {ip}:8080,{ip}:8080,{ip}:8080   {age}
",
        )
        .await;
}

async fn configuration_of_the_proxy(session: &Session) {
    session
        .shows(
            "kubectl -n kube-system create configmap kube-proxy \
             --from-literal='config.conf=clusterCIDR: 10.244.0.0/16\nmode: nftables\nnodePortAddresses: null'",
            "configmap/kube-proxy created",
        )
        .await;
    session
        .shows(
            "kubectl -n kube-system get configmap kube-proxy -o jsonpath='{.data.config\\.conf}'",
            "clusterCIDR: 10.244.0.0/16\nmode: nftables\nnodePortAddresses: null",
        )
        .await;
}

async fn node_ports_and_load_balancers(session: &Session) {
    let apply = "kubectl apply -f -";
    session.shows_with(apply, &with_node_port("hello-np", 30080), "service/hello-np created").await;
    session
        .shows(
            "kubectl -n demo get svc hello-np",
            "
NAME       TYPE       CLUSTER-IP      EXTERNAL-IP   PORT(S)        AGE
hello-np   NodePort   {ip}            <none>        80:30080/TCP   {age}
",
        )
        .await;
    let taken = "The Service \"hello-np2\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is \
                 already allocated";
    session.refuses(apply, &with_node_port("hello-np2", 30080), taken).await;
    let outside = "The Service \"hello-np3\" is invalid: spec.ports[0].nodePort: Invalid value: 20080: provided port is \
                   not in the valid range. The range of valid ports is 30000-32767";
    session.refuses(apply, &with_node_port("hello-np3", 20080), outside).await;
    session.shows_with(apply, &service("hello-lb", "type: LoadBalancer"), "service/hello-lb created").await;
    session
        .shows(
            "kubectl -n demo get svc hello-lb",
            "
NAME       TYPE           CLUSTER-IP      EXTERNAL-IP   PORT(S)           AGE
hello-lb   LoadBalancer   {ip}            <pending>     80:{number}/TCP   {age}
",
        )
        .await;
    session
        .shows(
            "kubectl -n demo get events --field-selector involvedObject.kind=Service",
            "No resources found in demo namespace.",
        )
        .await;
}

async fn scaling(session: &Session) {
    let scaled = "deployment.apps/hello scaled";
    session.shows("kubectl -n demo scale deployment hello --replicas=2", scaled).await;
    let two = "
{ip} ready=true serving=true terminating=false
{ip} ready=true serving=true terminating=false
";
    session.comes_to_show(CONDITIONS, two).await;
    session.shows("kubectl -n demo scale deployment hello --replicas=3", scaled).await;
    session.comes_to_show(CONDITIONS, THREE_READY).await;
    session
        .shows(
            "kubectl -n demo run client --image=busybox:1.37 --overrides='{\"spec\":{\"nodeName\":\"k8s-node-1\"}}' \
             -- sleep 3600",
            "pod/client created",
        )
        .await;
    session
        .comes_to_show(
            "kubectl -n demo get pod client -o wide",
            "
NAME     READY   STATUS    RESTARTS   AGE     IP     NODE         NOMINATED NODE   READINESS GATES
client   1/1     Running   0          {age}   {ip}   k8s-node-1   <none>           <none>
",
        )
        .await;
}

async fn a_pod_that_is_not_ready(session: &Session) {
    session
        .shows(
            "kubectl -n demo patch deployment hello --type=json -p='[{\"op\":\"add\",\
             \"path\":\"/spec/template/spec/containers/0/readinessProbe\",\
             \"value\":{\"httpGet\":{\"path\":\"/nope\",\"port\":\"http\"},\"periodSeconds\":5}}]'",
            "deployment.apps/hello patched",
        )
        .await;
    session
        .comes_to_show_unordered(
            "kubectl -n demo get pods -l app.kubernetes.io/name=hello -o wide",
            "
NAME              READY   STATUS    RESTARTS   AGE     IP     NODE                NOMINATED NODE   READINESS GATES
hello-{id}-{id}   0/1     Running   0          {age}   {ip}   k8s-node-{number}   <none>           <none>
hello-{id}-{id}   1/1     Running   0          {age}   {ip}   k8s-node-{number}   <none>           <none>
hello-{id}-{id}   1/1     Running   0          {age}   {ip}   k8s-node-{number}   <none>           <none>
hello-{id}-{id}   1/1     Running   0          {age}   {ip}   k8s-node-{number}   <none>           <none>
",
        )
        .await;
    let one_is_not = format!("{THREE_READY}{{ip}} ready=false serving=false terminating=false");
    session.comes_to_show_unordered(CONDITIONS, &one_is_not).await;
    session
        .comes_to_show(
            "kubectl -n demo get events --field-selector reason=Unhealthy",
            "
LAST SEEN   TYPE      REASON      OBJECT                MESSAGE
{age}       Warning   Unhealthy   pod/hello-{id}-{id}   Readiness probe failed: HTTP probe failed with statuscode: 404
",
        )
        .await;
    let undone = session.run("kubectl -n demo rollout undo deployment hello", "").await;
    assert_eq!(undone.out, "deployment.apps/hello rolled back\n", "{}", undone.err);
    // Only newer kubectls warn.
    let warning = "Warning: resource deployments/hello was previously managed with 'kubectl apply'.";
    assert!(undone.err.lines().all(|line| line.starts_with(warning)), "{}", undone.err);
    session.comes_to_show(CONDITIONS, THREE_READY).await;
}

async fn a_pod_that_terminates(session: &Session) {
    let names =
        "kubectl -n demo get pods -l app.kubernetes.io/name=hello -o jsonpath='{.items[0].metadata.name}'";
    let pod = session.run(names, "").await.out;
    let ends_after = "lab.service-controller-manager.io/ends-after";
    session
        .shows(
            &format!("kubectl -n demo annotate pod {pod} {ends_after}=10m"),
            &format!("pod/{pod} annotated"),
        )
        .await;
    session
        .shows(
            &format!("kubectl -n demo delete pod {pod} --wait=false"),
            &format!("pod \"{pod}\" deleted{{from}}"),
        )
        .await;
    // It serves on until it is told to end, and its replacement is there already.
    let terminating = format!("{THREE_READY}{{ip}} ready=false serving=true terminating=true");
    session.comes_to_show_unordered(CONDITIONS, &terminating).await;
    session
        .shows(
            &format!("kubectl -n demo annotate pod {pod} --overwrite {ends_after}=0s"),
            &format!("pod/{pod} annotated"),
        )
        .await;
    session.comes_to_show(CONDITIONS, THREE_READY).await;
}

async fn endpoints_by_hand(session: &Session) {
    let apply = "kubectl apply -f -";
    session.shows_with(apply, LEGACY, "service/legacy-api created").await;
    session
        .refuses(
            apply,
            &LEGACY_SLICE.replace("legacy-api-1", "legacy-bad").replace("192.168.10.40", "0.0.0.0"),
            "The EndpointSlice \"legacy-bad\" is invalid: endpoints[0].addresses[0]: Invalid value: \"0.0.0.0\": may not \
             be unspecified (0.0.0.0)",
        )
        .await;
    session.shows_with(apply, LEGACY_SLICE, "endpointslice.discovery.k8s.io/legacy-api-1 created").await;
    session
        .shows(
            "kubectl -n demo get endpointslices -l kubernetes.io/service-name=legacy-api",
            "
NAME           ADDRESSTYPE   PORTS   ENDPOINTS                     AGE
legacy-api-1   IPv4          8080    192.168.10.40,192.168.10.41   {age}
",
        )
        .await;
}

async fn traffic_policies(session: &Session) {
    let local = "-p '{\"spec\":{\"externalTrafficPolicy\":\"Local\"}}'";
    session.shows(&format!("kubectl -n demo patch svc hello-np {local}"), "service/hello-np patched").await;
    session.shows(&format!("kubectl -n demo patch svc hello-lb {local}"), "service/hello-lb patched").await;
    let port = "-o jsonpath='{.spec.healthCheckNodePort}{\"\\n\"}'";
    session.shows(&format!("kubectl -n demo get svc hello-lb {port}"), "{number}").await;
    // Only a LoadBalancer has one.
    assert_eq!(session.run(&format!("kubectl -n demo get svc hello-np {port}"), "").await.out, "\n");
    for (name, more) in [
        ("hello-sticky", "sessionAffinity: ClientIP"),
        ("hello-local", "internalTrafficPolicy: Local"),
        ("hello-near", "trafficDistribution: PreferSameNode"),
    ] {
        let created = format!("service/{name} created");
        session.shows_with("kubectl apply -f -", &service(name, more), &created).await;
    }
    session
        .shows(
            "kubectl -n demo get svc hello-local hello-sticky",
            "
NAME           TYPE        CLUSTER-IP       EXTERNAL-IP   PORT(S)   AGE
hello-local    ClusterIP   {ip}             <none>        80/TCP    {age}
hello-sticky   ClusterIP   {ip}             <none>        80/TCP    {age}
",
        )
        .await;
    session
        .shows(
            "kubectl -n demo get svc hello-sticky -o jsonpath='{.spec.sessionAffinityConfig}{\"\\n\"}'",
            "{\"clientIP\":{\"timeoutSeconds\":10800}}",
        )
        .await;
    session
        .comes_to_show(
            "kubectl -n demo get endpointslice -l kubernetes.io/service-name=hello-near -o jsonpath='{range \
             .items[*].endpoints[*]}{.addresses[0]} {.nodeName} hints={.hints}{\"\\n\"}{end}'",
            &"{ip} k8s-node-{number} hints={\"forNodes\":[{\"name\":\"k8s-node-{number}\"}]}\n".repeat(3),
        )
        .await;
    session.shows("kubectl -n demo delete svc hello-near", "service \"hello-near\" deleted{from}").await;
}

async fn headless_and_external_names(session: &Session) {
    let apply = "kubectl apply -f -";
    let headless = service("hello-headless", "clusterIP: None");
    session.shows_with(apply, &headless, "service/hello-headless created").await;
    session.shows_with(apply, EXTERNAL_NAME, "service/registry created").await;
    session
        .shows(
            "kubectl -n demo get svc hello-headless registry",
            "
NAME             TYPE           CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE
hello-headless   ClusterIP      None         <none>        80/TCP    {age}
registry         ExternalName   <none>       ghcr.io       <none>    {age}
",
        )
        .await;
}

async fn addresses_as_objects(session: &Session) {
    session
        .shows(
            "kubectl get servicecidrs",
            "
NAME         CIDRS                           AGE
kubernetes   10.96.0.0/12,fd00:10:96::/112   {age}
",
        )
        .await;
    session
        .comes_to_show_unordered(
            "kubectl get ipaddresses",
            "
NAME        PARENTREF
10.96.0.1   services/default/kubernetes
{ip}        services/demo/hello
{ip}        services/demo/hello-lb
{ip}        services/demo/hello-local
{ip}        services/demo/hello-np
{ip}        services/demo/hello-sticky
{ip}        services/demo/legacy-api
",
        )
        .await;
}

async fn cleaning_up(session: &Session) {
    let names =
        ["hello-np", "hello-lb", "hello-local", "hello-sticky", "hello-headless", "legacy-api", "registry"];
    let deleted = names.map(|name| format!("service \"{name}\" deleted{{from}}\n")).concat();
    session.shows(&format!("kubectl -n demo delete svc {}", names.join(" ")), &deleted).await;
    session
        .shows(
            "kubectl -n demo delete pod client --grace-period=0 --force",
            "
Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may \
             continue to run on the cluster indefinitely.
pod \"client\" force deleted{from}
",
        )
        .await;
    // What nobody owns does not go with its Service; the slices of the controller do.
    session
        .comes_to_show_unordered(
            "kubectl -n demo get endpointslices",
            "
NAME           ADDRESSTYPE   PORTS   ENDPOINTS                     AGE
hello-{id}     IPv4          8080    {ip},{ip},{ip}                {age}
legacy-api-1   IPv4          8080    192.168.10.40,192.168.10.41   {age}
",
        )
        .await;
    session
        .shows(
            "kubectl -n demo delete endpointslice legacy-api-1",
            "endpointslice.discovery.k8s.io \"legacy-api-1\" deleted{from}",
        )
        .await;
    session
        .comes_to_show_unordered(
            "kubectl get ipaddresses",
            "
NAME        PARENTREF
10.96.0.1   services/default/kubernetes
{ip}        services/demo/hello
",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_shows_what_it_showed() {
    let programs = programs().await;
    let Some(program) = programs.last() else {
        println!("skipped: there is no kubectl on PATH, and hack/install-kubectl.sh was not run");
        return;
    };
    let session = Session::start(program.clone()).await;
    a_service_and_its_address(&session).await;
    endpoints_behind_it(&session).await;
    configuration_of_the_proxy(&session).await;
    node_ports_and_load_balancers(&session).await;
    scaling(&session).await;
    a_pod_that_is_not_ready(&session).await;
    a_pod_that_terminates(&session).await;
    endpoints_by_hand(&session).await;
    traffic_policies(&session).await;
    headless_and_external_names(&session).await;
    addresses_as_objects(&session).await;
    cleaning_up(&session).await;
    session.person.server.stop().await.unwrap();
}
