//! What arrives where, and what does not.

use service_tests::transcript::Mismatch;

use crate::{
    manifests::{EXTERNAL_NAME, LEGACY, LEGACY_SLICE, service},
    rules::{balanced, pods_on},
    terminal::{At, Terminal},
};

use At::{Laptop, Node};

const HELLO: &str = "hello from hello-{id}-{id}\n";
const FAILED: &str = "command terminated with exit code 1\n";

async fn cluster_ip(terminal: &Terminal, name: &str) -> String {
    terminal.value(&format!("kubectl -n demo get svc {name} -o jsonpath='{{.spec.clusterIP}}'")).await
}

/// Types a line until each of its lines of output is of one and the same pod, or not, as is wanted.
async fn same_pod(terminal: &Terminal, line: &str, asked: usize) -> String {
    let printed = terminal
        .until(Laptop, line, |text| {
            let first = text.lines().next().unwrap_or_default().to_owned();
            let whole = text.lines().count() == asked && first.starts_with("hello from hello-");
            if whole && text.lines().all(|line| line == first) {
                Ok(())
            } else {
                Err(Mismatch::Missing(first))
            }
        })
        .await;
    printed.lines().next().unwrap_or_default().trim_start_matches("hello from ").to_owned()
}

pub(crate) async fn a_client_is_spread_over_the_pods(terminal: &Terminal) {
    terminal
        .shows(
            Laptop,
            "kubectl -n demo run client --image=busybox:1.37 --overrides='{\"spec\":{\"nodeName\":\"k8s-node-1\"}}' \
             -- sleep 3600",
            "pod/client created",
        )
        .await;
    terminal
        .comes_to_show(
            Laptop,
            "kubectl -n demo get pod client -o wide",
            "
NAME     READY   STATUS    RESTARTS   AGE     IP     NODE         NOMINATED NODE   READINESS GATES
client   1/1     Running   0          {age}   {ip}   k8s-node-1   <none>           <none>
",
        )
        .await;
    let eight =
        "kubectl -n demo exec client -- sh -c 'for i in 1 2 3 4 5 6 7 8; do wget -qO- http://hello/; done'";
    terminal.comes_to_show(Laptop, eight, &HELLO.repeat(8)).await;
    // By chance each of the three answers some time.
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 3 {
        seen.extend(terminal.value(eight).await.lines().map(str::to_owned));
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

pub(crate) async fn connections_are_tracked(terminal: &Terminal) {
    let debugger = terminal
        .value(
            "kubectl debug node/k8s-node-1 -n demo --profile=sysadmin --image=nicolaka/netshoot:v0.16 -- sleep 3600 | \
             sed -n 's/^Creating debugging pod \\(.*\\) with container debugger on node k8s-node-1.$/\\1/p'",
        )
        .await;
    assert!(debugger.starts_with("node-debugger-k8s-node-1-"), "{debugger}");
    let (hello, client) = (
        cluster_ip(terminal, "hello").await,
        terminal.value("kubectl -n demo get pod client -o jsonpath='{.status.podIP}'").await,
    );
    terminal.shows(Node(1), &format!("curl -s http://{hello}/"), HELLO).await;
    terminal.shows(Laptop, "kubectl -n demo exec client -- wget -qO- http://hello/", HELLO).await;
    let entries = format!("kubectl -n demo exec {debugger} -- conntrack -L -d {hello}");
    // The pod keeps its address, also towards the pod that answers; the node's port is another on the way there.
    terminal
        .comes_to_have(
            Laptop,
            &entries,
            &[&format!("src={client} dst={hello} sport="), &format!("src=192.168.10.20 dst={hello} sport=")],
        )
        .await;
    let shown = terminal.value(&entries).await;
    let entry = |from: &str| {
        let line = shown.lines().find(|line| line.contains(&format!(" src={from} dst={hello} ")));
        let line = line.unwrap_or_else(|| panic!("no {from} in\n{shown}"));
        let all = |key: &str| -> Vec<String> {
            line.split_whitespace().filter_map(|word| word.strip_prefix(key)).map(str::to_owned).collect()
        };
        (all("src="), all("dst="), all("sport="), all("dport="))
    };
    let (_, back_to, from, answered) = entry(&client);
    assert_eq!((&back_to[1], &answered[1], &from[1]), (&client, &from[0], &"8080".to_owned()));
    let (_, back_to, from, answered) = entry("192.168.10.20");
    assert_eq!(back_to[1], "192.168.10.20");
    assert_ne!(answered[1], from[0], "masqueraded with another port");
    terminal.value(&format!("kubectl -n demo delete pod {debugger} --wait=false")).await;
}

pub(crate) async fn rejections(terminal: &Terminal) {
    terminal.shows_with(Laptop, "kubectl apply -f -", LEGACY, "service/legacy-api created").await;
    let (legacy, hello) = (cluster_ip(terminal, "legacy-api").await, cluster_ip(terminal, "hello").await);
    let map = format!("{legacy} . tcp . 80 comment \"demo/legacy-api:http\" : goto reject-chain");
    let rejected = ["comment \"vmap to drop or reject packets to services with no endpoints\"", &map];
    terminal.comes_to_have(Node(1), "nft list map ip kube-proxy no-endpoint-services", &rejected).await;
    let refused =
        |ip: &str| format!("wget: can't connect to remote host ({ip}): Connection refused\n{FAILED}");
    let wget = "kubectl -n demo exec client -- wget -qO- -T 3";
    terminal.fails(Laptop, &format!("{wget} http://legacy-api/"), &refused(&legacy)).await;
    terminal.fails(Laptop, &format!("{wget} http://{hello}:8080/"), &refused(&hello)).await;
    let late = format!("wget: download timed out\n{FAILED}");
    terminal.fails(Laptop, &format!("{wget} http://10.100.0.99/"), &late).await;
    let bad = LEGACY_SLICE.replace("legacy-api-1", "legacy-bad").replace("192.168.10.40", "0.0.0.0");
    let printed = terminal.types(Laptop, "kubectl apply -f -", &bad).await;
    let why = "The EndpointSlice \"legacy-bad\" is invalid: endpoints[0].addresses[0]: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)";
    assert_eq!(printed.err.trim(), why);
}

pub(crate) async fn node_ports_and_their_policies(terminal: &Terminal) {
    let six = "for i in 1 2 3 4 5 6; do curl -s -m 5 http://192.168.10.21:30080/; done";
    terminal.comes_to_show(Laptop, six, &HELLO.repeat(6)).await;
    // Also by way of a node without pods, but not at the loopback address.
    terminal.shows(Laptop, "curl -s -m 5 http://192.168.10.22:30080/", HELLO).await;
    terminal.shows(Node(1), "curl -s -m 3 http://127.0.0.1:30080/; echo \"rc=$?\"", "rc=7").await;
    let logs = "kubectl -n demo logs -l app.kubernetes.io/name=hello --since=1m";
    terminal.comes_to_have(Laptop, logs, &[" 192.168.10.21:", " GET /"]).await;
    let seen = terminal.value(logs).await;
    assert!(!seen.contains(" 192.168.10.50:"), "the laptop's address is seen already:\n{seen}");

    let local = "kubectl -n demo patch svc hello-np -p '{\"spec\":{\"externalTrafficPolicy\":\"Local\"}}'";
    terminal.shows(Laptop, local, "service/hello-np patched").await;
    let chain = "local-BJ5L76QF-demo/hello-np/tcp/http";
    let own = pods_on(terminal, 1).await;
    let list = format!("nft list chain ip kube-proxy '{chain}'");
    terminal.comes_to_show(Node(1), &list, &balanced(chain, own)).await;
    terminal
        .comes_to_show(
            Node(1),
            "nft list chain ip kube-proxy 'external-BJ5L76QF-demo/hello-np/tcp/http'",
            "
table ip kube-proxy {
	chain external-BJ5L76QF-demo/hello-np/tcp/http {
		ip saddr 10.244.0.0/16 goto service-BJ5L76QF-demo/hello-np/tcp/http comment \"short-circuit pod traffic\"
		fib saddr type local meta mark set meta mark | 0x00004000 comment \"masquerade local traffic\"
		fib saddr type local goto service-BJ5L76QF-demo/hello-np/tcp/http comment \"short-circuit local traffic\"
		goto local-BJ5L76QF-demo/hello-np/tcp/http
	}
}
",
        )
        .await;
    let dropped = "tcp . 30080 comment \"demo/hello-np:http\" : drop";
    terminal.comes_to_have(Node(3), "nft list map ip kube-proxy no-endpoint-nodeports", &[dropped]).await;
    let three = "for i in 1 2 3; do curl -s -m 5 http://192.168.10.20:30080/; done";
    terminal.shows(Laptop, three, &HELLO.repeat(3)).await;
    terminal.shows(Laptop, "curl -s -m 3 http://192.168.10.22:30080/; echo \"rc=$?\"", "rc=28").await;
    let pods = "kubectl -n demo get pods -l app.kubernetes.io/name=hello --field-selector spec.nodeName=k8s-node-1 -o name";
    let mut seen = String::new();
    for pod in terminal.value(pods).await.lines() {
        seen += &terminal.value(&format!("kubectl -n demo logs {pod} --since=20s")).await;
    }
    assert!(seen.contains(" 192.168.10.50:"), "the laptop's address is not seen:\n{seen}");
}

pub(crate) async fn affinity_and_local_pods(terminal: &Terminal) {
    for (name, more) in
        [("hello-sticky", "sessionAffinity: ClientIP"), ("hello-local", "internalTrafficPolicy: Local")]
    {
        let created = format!("service/{name} created");
        terminal.shows_with(Laptop, "kubectl apply -f -", &service(name, more), &created).await;
    }
    let timeout = "kubectl -n demo get svc hello-sticky -o jsonpath='{.spec.sessionAffinityConfig}{\"\\n\"}'";
    terminal.shows(Laptop, timeout, "{\"clientIP\":{\"timeoutSeconds\":10800}}").await;
    let six = |name: &str| {
        format!(
            "kubectl -n demo exec client -- sh -c 'for i in 1 2 3 4 5 6; do wget -qO- http://{name}/; done'"
        )
    };
    let (sticky, local) =
        (cluster_ip(terminal, "hello-sticky").await, cluster_ip(terminal, "hello-local").await);
    let goes = format!("{local} . tcp . 80 : goto local-4H2GLPZP-demo/hello-local/tcp/http");
    let sticks = format!("{sticky} . tcp . 80 : goto service-4MXLGZVK-demo/hello-sticky/tcp/http");
    terminal.comes_to_have(Node(1), "nft list map ip kube-proxy service-ips", &[&goes, &sticks]).await;
    let pod = same_pod(terminal, &six("hello-sticky"), 6).await;
    assert_eq!(same_pod(terminal, &six("hello-sticky"), 6).await, pod);
    // The node remembers the client for three hours.
    let client = terminal.value("kubectl -n demo get pod client -o jsonpath='{.status.podIP}'").await;
    let address =
        terminal.value(&format!("kubectl -n demo get pod {pod} -o jsonpath='{{.status.podIP}}'")).await;
    let table = terminal
        .comes_to_have(
            Node(1),
            "nft list table ip kube-proxy",
            &[&format!("elements = {{ {client} expires 2h59m")],
        )
        .await;
    let set = format!("demo/hello-sticky/tcp/http__{address}/8080 {{");
    let of_pod =
        table.split("\tset ").find(|set_of| set_of.lines().next().is_some_and(|line| line.ends_with(&set)));
    let of_pod = of_pod.unwrap_or_else(|| panic!("no set of {address} in\n{table}"));
    assert!(of_pod.contains("timeout 3h") && of_pod.contains(&client), "{of_pod}");

    let own = "kubectl -n demo get pods -l app.kubernetes.io/name=hello --field-selector spec.nodeName=k8s-node-1 -o \
        jsonpath='{.items[*].metadata.name}'";
    let own = terminal.value(own).await;
    let answers = terminal.value(&six("hello-local")).await;
    for line in answers.lines() {
        let pod = line.trim_start_matches("hello from ");
        assert!(own.split(' ').any(|name| name == pod), "{pod} is not of this node: {own}");
    }
    assert_eq!(answers.lines().count(), 6);
    let dropped = format!("{local} . tcp . 80 comment \"demo/hello-local:http\" : drop");
    terminal.comes_to_have(Node(3), "nft list map ip kube-proxy no-endpoint-services", &[&dropped]).await;
    terminal.shows(Node(3), &format!("curl -s -m 3 http://{local}/; echo \"rc=$?\""), "rc=28").await;
}

pub(crate) async fn names(terminal: &Terminal) {
    let headless = service("hello-headless", "clusterIP: None");
    terminal.shows_with(Laptop, "kubectl apply -f -", &headless, "service/hello-headless created").await;
    terminal.shows_with(Laptop, "kubectl apply -f -", EXTERNAL_NAME, "service/registry created").await;
    terminal
        .shows(
            Laptop,
            "kubectl -n demo get svc hello-headless registry",
            "
NAME             TYPE           CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE
hello-headless   ClusterIP      None         <none>        80/TCP    {age}
registry         ExternalName   <none>       ghcr.io       <none>    {age}
",
        )
        .await;
    let of = |name: &str| format!("kubectl -n demo exec client -- nslookup {name}.demo.svc.cluster.local");
    let found = terminal
        .until(Laptop, &of("hello-headless"), |text| match text.matches("Address: 10.244.").count() {
            3 => Ok(()),
            _ => Err(Mismatch::Missing("three addresses".to_owned())),
        })
        .await;
    assert!(found.contains("10.96.0.10"), "{found}");
    let alias = "registry.demo.svc.cluster.local\tcanonical name = ghcr.io";
    terminal.comes_to_have(Laptop, &of("registry"), &[alias]).await;
    let table = terminal.types(Node(1), "nft list table ip kube-proxy", "").await.out;
    assert!(!table.contains("hello-headless"), "{table}");
}

/// What the course leaves to other parts: ports of pods on the laptop, and requests by way of the API server.
pub(crate) async fn forwarded_and_proxied(terminal: &Terminal) {
    let pod =
        "kubectl -n demo get pods -l app.kubernetes.io/name=hello -o jsonpath='{.items[0].metadata.name}'";
    let pod = terminal.value(pod).await;
    let forward = |what: &str, port: u16| {
        format!(
            ": > $TMPDIR/forward; kubectl -n demo port-forward {what} :{port} > $TMPDIR/forward & \
             until grep -q Forwarding $TMPDIR/forward; do kill -0 $! || exit 1; done; \
             local=$(sed -n 's/^Forwarding from 127.0.0.1:\\([0-9]*\\) .*/\\1/p' $TMPDIR/forward); \
             for i in 1 2 3; do curl -s -m 5 http://127.0.0.1:$local/; done; kill $!; wait $! 2>/dev/null; true"
        )
    };
    for (what, port) in [(format!("pod/{pod}"), 8080), ("service/hello".to_owned(), 80)] {
        let line = format!("TMPDIR=$(mktemp -d); {}; rm -r $TMPDIR", forward(&what, port));
        terminal.shows(Laptop, &line, &HELLO.repeat(3)).await;
    }
    let raw = |what: &str| format!("kubectl get --raw /api/v1/namespaces/demo/{what}/proxy/");
    terminal.shows(Laptop, &raw(&format!("pods/{pod}:8080")), &format!("hello from {pod}")).await;
    terminal.shows(Laptop, &raw("services/hello:http"), HELLO).await;
    terminal.shows(Laptop, &raw("services/hello:80"), HELLO).await;
    let none = "Error from server (ServiceUnavailable): no endpoints available for service \"legacy-api\"";
    terminal.fails(Laptop, &raw("services/legacy-api:http"), none).await;
}
