//! What the proxies write into the kernels of the nodes.

use crate::{
    manifests::{DEPLOYMENT, service, with_node_port},
    terminal::{At, Terminal},
};

use At::{Laptop, Node};

/// The endpoints of the Service by their conditions.
const CONDITIONS: &str = "kubectl -n demo get endpointslice -l kubernetes.io/service-name=hello -o \
    jsonpath='{range .items[*].endpoints[*]}{.addresses[0]} ready={.conditions.ready} serving={.conditions.serving} \
    terminating={.conditions.terminating}{\"\\n\"}{end}'";
const READY: &str = "{ip} ready=true serving=true terminating=false\n";
const CHAIN: &str = "nft list chain ip kube-proxy 'service-VSI2YVQZ-demo/hello/tcp/http'";

/// The one rule of a chain that has so many endpoints.
pub(crate) fn balanced(chain: &str, endpoints: usize) -> String {
    let map: Vec<String> = (0..endpoints).map(|number| format!("{number} : {{ip}} . 8080")).collect();
    format!(
        "
table ip kube-proxy {{
	chain {chain} {{
		meta l4proto tcp dnat ip to numgen random mod {endpoints} map {{ {} }}
	}}
}}",
        map.join(", ")
    )
}

fn hello(endpoints: usize) -> String {
    balanced("service-VSI2YVQZ-demo/hello/tcp/http", endpoints)
}

/// How many pods of the Deployment a node has.
pub(crate) async fn pods_on(terminal: &Terminal, node: u8) -> usize {
    let line = format!(
        "kubectl -n demo get pods -l app.kubernetes.io/name=hello --field-selector spec.nodeName=k8s-node-{node} -o name"
    );
    terminal.value(&line).await.lines().count()
}

pub(crate) async fn a_service_and_the_proxys_configuration(terminal: &Terminal) {
    // The node that is the master of the course: no pod of the Deployment is on it.
    terminal.shows(Laptop, "kubectl cordon k8s-node-3", "node/k8s-node-3 cordoned").await;
    let made = "namespace/demo created\ndeployment.apps/hello created";
    terminal.shows_with(Laptop, "kubectl apply -f -", DEPLOYMENT, made).await;
    terminal.shows_with(Laptop, "kubectl apply -f -", &service("hello", ""), "service/hello created").await;
    let with_port = with_node_port("hello-np", 30080);
    terminal.shows_with(Laptop, "kubectl apply -f -", &with_port, "service/hello-np created").await;
    let balancer = service("hello-lb", "type: LoadBalancer");
    terminal.shows_with(Laptop, "kubectl apply -f -", &balancer, "service/hello-lb created").await;
    terminal
        .comes_to_show(
            Laptop,
            "kubectl -n demo get endpointslices -l kubernetes.io/service-name=hello",
            "
NAME          ADDRESSTYPE   PORTS   ENDPOINTS        AGE
hello-{id}    IPv4          8080    {ip},{ip},{ip}   {age}
",
        )
        .await;
    terminal.comes_to_show(Laptop, CONDITIONS, &READY.repeat(3)).await;
    terminal
        .comes_to_show_unordered(
            Laptop,
            "kubectl -n kube-system get configmap kube-proxy -o jsonpath='{.data.config\\.conf}' | \
             grep -E '^(mode|clusterCIDR|nodePortAddresses):'",
            "
clusterCIDR: 10.244.0.0/16
mode: nftables
nodePortAddresses: null
",
        )
        .await;
}

pub(crate) async fn the_table_of_a_node(terminal: &Terminal) {
    terminal
        .comes_to_show(Node(1), "nft list tables | grep -E 'table (ip|arp) '", "table ip kube-proxy")
        .await;
    terminal.comes_to_show(Node(1), CHAIN, &hello(3)).await;
    let address = |name: &str| format!("kubectl -n demo get svc {name} -o jsonpath='{{.spec.clusterIP}}'");
    let (hello, np) = (terminal.value(&address("hello")).await, terminal.value(&address("hello-np")).await);
    let table = terminal
        .comes_to_have(
            Node(1),
            "nft list table ip kube-proxy",
            &[
                "comment \"rules for kube-proxy\"",
                "comment \"service hairpin connections\"",
                "comment \"Active ClusterIPs\"",
                "comment \"IPs that accept NodePort traffic\"",
                "elements = { 192.168.10.20 }",
                &format!("{hello} . tcp . 80 : goto service-VSI2YVQZ-demo/hello/tcp/http"),
                &format!("{np} . tcp . 80 : goto service-BJ5L76QF-demo/hello-np/tcp/http"),
                "10.96.0.10 . udp . 53 : goto service-FY5PMXPG-kube-system/kube-dns/udp/dns",
                "10.96.0.1 . tcp . 443 : goto service-2QRHZV4L-default/kubernetes/tcp/https",
                "tcp . 30080 : goto external-BJ5L76QF-demo/hello-np/tcp/http",
            ],
        )
        .await;
    // Column widths aside, the chains are as they are written in the course.
    let table: Vec<&str> = table.lines().map(str::trim).collect();
    for chain in [
        "
chain filter-forward {
type filter hook forward priority filter; policy accept;
ct state new jump service-endpoints-check
ct state new jump cluster-ips-check
}",
        "
chain nat-prerouting {
type nat hook prerouting priority dstnat; policy accept;
jump services
}",
        "
chain services {
ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000 comment \"masquerade clusterIP traffic from outside cluster\"
ip daddr . meta l4proto . th dport vmap @service-ips
ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
}",
        "
chain masquerading {
meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random
ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
}",
        "
chain cluster-ips-check {
ip daddr @cluster-ips reject comment \"Reject traffic to invalid ports of ClusterIPs\"
ip daddr 10.96.0.0/12 drop comment \"Drop traffic to unallocated ClusterIPs\"
}",
        "
chain external-BJ5L76QF-demo/hello-np/tcp/http {
meta mark set meta mark | 0x00004000 comment \"masquerade\"
goto service-BJ5L76QF-demo/hello-np/tcp/http
}",
    ] {
        let lines: Vec<&str> = chain.trim().lines().collect();
        assert!(table.windows(lines.len()).any(|part| part == lines), "{chain}\nis not in\n{}", table.join("\n"));
    }
    // No rules of iptables.
    let saved = terminal.types(Node(1), "iptables-save | grep -- '-A KUBE-S'", "").await;
    assert_eq!(saved.out, "");
    terminal
        .shows(
            Laptop,
            "printf 'demo/hello/tcp/http' | sha256sum | cut -d' ' -f1 | xxd -r -p | base32 | cut -c1-8",
            "VSI2YVQZ",
        )
        .await;
}

pub(crate) async fn the_map_follows_the_pods(terminal: &Terminal) {
    let scaled = "deployment.apps/hello scaled";
    terminal.shows(Laptop, "kubectl -n demo scale deployment hello --replicas=2", scaled).await;
    terminal.comes_to_show(Node(1), CHAIN, &hello(2)).await;
    terminal.shows(Laptop, "kubectl -n demo scale deployment hello --replicas=3", scaled).await;
    terminal.comes_to_show(Node(1), CHAIN, &hello(3)).await;
}

pub(crate) async fn a_pod_that_is_not_ready_and_one_that_ends(terminal: &Terminal) {
    let patch = "kubectl -n demo patch deployment hello --type=json -p='[{\"op\":\"add\",\
        \"path\":\"/spec/template/spec/containers/0/readinessProbe\",\
        \"value\":{\"httpGet\":{\"path\":\"/nope\",\"port\":\"http\"},\"periodSeconds\":5}}]'";
    terminal.shows(Laptop, patch, "deployment.apps/hello patched").await;
    let one_is_not = READY.repeat(3) + "{ip} ready=false serving=false terminating=false";
    terminal.comes_to_show_unordered(Laptop, CONDITIONS, &one_is_not).await;
    terminal
        .comes_to_have(
            Laptop,
            "kubectl -n demo get events --field-selector reason=Unhealthy",
            &["Readiness probe failed: HTTP probe failed with statuscode: 404"],
        )
        .await;
    terminal.comes_to_show(Node(1), CHAIN, &hello(3)).await;
    terminal.value("kubectl -n demo rollout undo deployment hello").await;
    terminal.comes_to_show(Laptop, CONDITIONS, &READY.repeat(3)).await;
    let pod = terminal
        .value("kubectl -n demo get pods -l app.kubernetes.io/name=hello -o jsonpath='{.items[0].metadata.name}'")
        .await;
    let slowly = format!("kubectl -n demo annotate pod {pod} lab.service-controller-manager.io/ends-after");
    terminal.value(&format!("{slowly}=10m")).await;
    let gone = format!("pod \"{pod}\" deleted{{from}}");
    terminal.shows(Laptop, &format!("kubectl -n demo delete pod {pod} --wait=false"), &gone).await;
    let terminating = READY.repeat(3) + "{ip} ready=false serving=true terminating=true";
    terminal.comes_to_show_unordered(Laptop, CONDITIONS, &terminating).await;
    terminal.comes_to_show(Node(1), CHAIN, &hello(3)).await;
    terminal.value(&format!("{slowly}=0s --overwrite")).await;
    terminal.comes_to_show(Laptop, CONDITIONS, &READY.repeat(3)).await;
}

/// The first node has at least one of the pods, as in the course.
pub(crate) async fn a_pod_on_the_first_node(terminal: &Terminal) {
    if pods_on(terminal, 1).await > 0 {
        return;
    }
    terminal.value("kubectl cordon k8s-node-2").await;
    let pod = "kubectl -n demo get pods -l app.kubernetes.io/name=hello -o name | head -n 1";
    terminal.value(&format!("kubectl -n demo delete $({pod})")).await;
    terminal.comes_to_show(Laptop, CONDITIONS, &READY.repeat(3)).await;
    terminal.value("kubectl uncordon k8s-node-2").await;
    assert!(pods_on(terminal, 1).await > 0);
}

pub(crate) async fn health_checks(terminal: &Terminal) {
    let local = "kubectl -n demo patch svc hello-lb -p '{\"spec\":{\"externalTrafficPolicy\":\"Local\"}}'";
    terminal.shows(Laptop, local, "service/hello-lb patched").await;
    let port = "kubectl -n demo get svc hello-lb -o jsonpath='{.spec.healthCheckNodePort}{\"\\n\"}'";
    let port = terminal.value(port).await;
    for (node, pods) in [(2, pods_on(terminal, 2).await), (3, 0)] {
        let status = if pods > 0 { "200 OK" } else { "503 Service Unavailable" };
        let answer = terminal
            .comes_to_have(
                Laptop,
                &format!("curl -s -i -m 3 http://192.168.10.{}:{port}/", 19 + node),
                &[
                    &format!("HTTP/1.1 {status}\r\n"),
                    &format!("\"localEndpoints\": {pods}"),
                    "\"name\": \"hello-lb\"",
                    "\"namespace\": \"demo\"",
                    "\"serviceProxyHealthy\": true",
                ],
            )
            .await
            .to_lowercase();
        let headers = ["content-type: application/json", "x-content-type-options: nosniff"];
        let weight = format!("x-load-balancing-endpoint-weight: {pods}");
        for header in headers.into_iter().chain([weight.as_str()]) {
            assert!(answer.contains(header), "no {header} in\n{answer}");
        }
    }
}

pub(crate) async fn nearby_pods(terminal: &Terminal) {
    let near = service("hello-near", "trafficDistribution: PreferSameNode");
    terminal.shows_with(Laptop, "kubectl apply -f -", &near, "service/hello-near created").await;
    terminal
        .comes_to_show(
            Laptop,
            "kubectl -n demo get endpointslice -l kubernetes.io/service-name=hello-near -o \
             jsonpath='{range .items[*].endpoints[*]}{.addresses[0]} {.nodeName} hints={.hints}{\"\\n\"}{end}'",
            &"{ip} k8s-node-{number} hints={\"forNodes\":[{\"name\":\"k8s-node-{number}\"}]}\n".repeat(3),
        )
        .await;
    // A node with pods takes its own; one without takes all.
    let (own, chain) = (pods_on(terminal, 1).await, "service-AKGLRN4Y-demo/hello-near/tcp/http");
    for (node, endpoints) in [(1, own), (3, 3)] {
        let line = format!("nft list chain ip kube-proxy '{chain}'");
        terminal.comes_to_show(Node(node), &line, &balanced(chain, endpoints)).await;
    }
    let gone = "service \"hello-near\" deleted{from}";
    terminal.shows(Laptop, "kubectl -n demo delete svc hello-near", gone).await;
}

pub(crate) async fn addresses_as_objects(terminal: &Terminal) {
    terminal
        .shows(
            Laptop,
            "kubectl get servicecidrs",
            "
NAME         CIDRS          AGE
kubernetes   10.96.0.0/12   {age}
",
        )
        .await;
    let addresses = terminal.value("kubectl get ipaddresses").await;
    let mut owners: Vec<&str> =
        addresses.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    owners.sort_unstable();
    // A headless Service and an ExternalName have none.
    let demo = ["hello", "hello-lb", "hello-local", "hello-np", "hello-sticky", "legacy-api"];
    let mut expected: Vec<String> = demo.iter().map(|name| format!("services/demo/{name}")).collect();
    expected.extend(["services/default/kubernetes", "services/kube-system/kube-dns"].map(str::to_owned));
    expected.sort_unstable();
    assert_eq!(owners, expected);
}
