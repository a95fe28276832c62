#!/usr/bin/env python3
"""How much one heavy request costs the lab, and how long everybody else waits meanwhile.

    cargo build --profile dist -p service-controller-manager
    hack/bench/bounded.py target/dist/service-controller-manager [NAME OF AN INPUT ...]

Starts a lab of its own. For each input it prints the size of the request, the code and size of the answer, how long it took,
the server's peak memory, and the longest that three others waited while it ran: one asks for /readyz, one makes a ConfigMap,
both every 20 ms on a connection of their own, and one opens a new connection each time. The last line is the worst of all.
Run it on a machine that does nothing else: a busy one adds its own waits, which the line `idle` shows.
"""

import http.client
import json
import multiprocessing
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

TOKEN = "bounded-bench-token"
TICK = 0.02
NAMESPACE = "/api/v1/namespaces/default"
MAPS = NAMESPACE + "/configmaps"
SERVICES = NAMESPACE + "/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
JSON, YAML = "application/json", "application/yaml"
APPLY = "application/apply-patch+yaml"
TLS = ssl._create_unverified_context()
# Each warning is a header.
http.client._MAXHEADERS = 1000


def connect(port):
    return http.client.HTTPSConnection("127.0.0.1", port, context=TLS, timeout=600)


def ask(connection, method, path, body=None, media=JSON, accept=None):
    headers = {"Authorization": "Bearer " + TOKEN, "User-Agent": "bench"}
    if body is not None:
        headers["Content-Type"] = media
    if accept:
        headers["Accept"] = accept
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def probe(port, kind, worst, count):
    """Asks again and again; the longest wait since `worst` was last set to 0 is in it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = connect(port)
    number = 0
    while True:
        number += 1
        begun = time.monotonic()
        if kind == "connection":
            connection = connect(port)
        if kind == "write":
            ask(connection, "POST", "/api/v1/namespaces/kube-public/configmaps", '{"metadata":{"generateName":"w-"}}')
        else:
            ask(connection, "GET", "/readyz")
        took = time.monotonic() - begun
        if kind == "connection":
            connection.close()
        with worst.get_lock():
            worst.value = max(worst.value, took)
        count.value += 1
        time.sleep(max(0, TICK - took))


def config_map(name, **metadata):
    return {"metadata": {"name": name, **metadata}}


def many(count, make):
    return [make(number) for number in range(count)]


def copies(count):
    first = {"op": "add", "path": "/metadata/annotations", "value": {"x": "x" * 1000}}
    return [first] + many(count, lambda n: {"op": "copy", "from": "/metadata", "path": f"/metadata/k{n}"})


def owners(count, **more):
    return many(count, lambda n: {"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}", **more})


def ports(count, port):
    return {"metadata": {"name": "ports"}, "spec": {"ports": many(count, port)}}


def service(name, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def aliases(levels):
    lines = ["apiVersion: v1", "kind: ConfigMap", "metadata: {name: aliases}", "a0: &a0 x"]
    lines += many(levels, lambda n: f"a{n + 1}: &a{n + 1} [" + ",".join([f"*a{n}"] * 10) + "]")
    return "\n".join(lines)


def inputs():
    """Name, method, path, body, media type, Accept of each input."""
    patch = "application/json-patch+json"
    strategic = "application/strategic-merge-patch+json"
    ignore = "?fieldValidation=Ignore"
    data = {f"key-{n:06}": "v" * 80 for n in range(28_000)}
    large = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": data})
    slice_of = lambda endpoint: {
        "metadata": {"name": "slice"}, "addressType": "IPv4", "ports": [], "endpoints": many(40_000, endpoint),
    }
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [
        {"name": "c", "image": "x", "env": many(40_000, lambda n: {"name": f"E{n % 20_000}", "value": "v"})}]}}
    selector = "a%20in%20(" + ",".join(many(8_000, lambda n: f"v{n}")) + ")"
    terms = ",".join(many(6_000, lambda n: f"a{n}!=b"))
    groups = {"spec": {"user": "u", "groups": many(150_000, lambda n: f"g{n}"),
                       "resourceAttributes": {"verb": "get", "resource": "pods"}}}
    dumped = lambda value: json.dumps(value)
    return [
        ("18 copies", "PATCH", MAPS + "/a", dumped(copies(18)), patch, None),
        ("30 copies", "PATCH", MAPS + "/a", dumped(copies(30)), patch, None),
        ("10,000 operations", "PATCH", MAPS + "/a", dumped(many(10_000, lambda n: {
            "op": "add", "path": f"/metadata/annotations/k{n}", "value": "v"})), patch, None),
        ("50,000 additions in front", "PATCH", MAPS + "/a", dumped([
            {"op": "add", "path": "/metadata/finalizers", "value": many(50_000, lambda n: f"a/b{n}")}]
            + many(9_000, lambda n: {"op": "add", "path": "/metadata/finalizers/0", "value": "a/b"})), patch, None),
        ("15,000 owners", "POST", MAPS, dumped(config_map("o", ownerReferences=owners(15_000))), JSON, None),
        ("15,000 controllers", "POST", MAPS,
         dumped(config_map("c", ownerReferences=owners(15_000, controller=True))), JSON, None),
        ("60,000 finalizers", "POST", MAPS,
         dumped(config_map("f", finalizers=many(60_000, lambda n: f"a/b{n}"))), JSON, None),
        ("150,000 bad labels", "POST", MAPS,
         dumped(config_map("l", labels={f"!{n}": "!" for n in range(150_000)})), JSON, None),
        ("one bad value of 2.9 MB", "POST", MAPS, dumped(config_map("v", labels={"a": "!" * 2_900_000})), JSON, None),
        ("150,000 unknown fields", "POST", MAPS,
         dumped({**config_map("u"), **{f"x{n}": 1 for n in range(150_000)}}), JSON, None),
        ("40,000 bad ports", "POST", SERVICES,
         dumped(ports(40_000, lambda n: {"port": 0, "name": "A", "protocol": "x"})), JSON, None),
        ("9,000 good ports", "POST", SERVICES,
         dumped(ports(9_000, lambda n: {"port": n + 1, "name": f"p{n}"})), JSON, None),
        ("9,000 ports patched", "PATCH", SERVICES + "/ports", dumped({"spec": {"ports": many(9_000, lambda n: {
            "port": n + 1, "name": f"p{n}", "targetPort": 1})}}), strategic, None),
        ("9,999 ports, headless", "POST", SERVICES, dumped(service("headless", clusterIP="None", ports=many(
            9_999, lambda n: {"port": n + 1, "name": f"p{n}"}))), JSON, None),
        ("9,999 node ports", "POST", SERVICES, dumped(service("node-ports", type="NodePort", ports=many(
            9_999, lambda n: {"port": n + 1, "name": f"p{n}"}))), JSON, None),
        ("300,000 families", "POST", SERVICES, dumped(service("families", ipFamilies=["IPv4"] * 300_000)), JSON, None),
        ("200,000 cluster IPs", "POST", SERVICES,
         dumped(service("ips", clusterIPs=many(200_000, lambda n: f"10.96.{n // 256 % 256}.{n % 256}"))), JSON, None),
        ("60,000 external IPs", "POST", SERVICES,
         dumped(service("external", externalIPs=many(60_000, lambda n: f"9.9.{n // 256}.{n % 256}"))), JSON, None),
        ("60,000 source ranges", "POST", SERVICES, dumped(service("sources", type="LoadBalancer",
            loadBalancerSourceRanges=many(60_000, lambda n: f"9.9.{n // 256}.{n % 256}/32"))), JSON, None),
        ("80,000 bad selector labels", "POST", SERVICES,
         dumped(service("selector", selector={f"!{n}": "!" for n in range(80_000)})), JSON, None),
        ("40,000 endpoints", "POST", SLICES, dumped(slice_of(lambda n: {"addresses": ["1.1.1.1"]})), JSON, None),
        ("40,000 bad endpoints", "POST", SLICES, dumped(slice_of(lambda n: {"addresses": ["x", "x"]})), JSON, None),
        ("40,000 variables", "POST", NAMESPACE + "/pods", dumped(pod), JSON, None),
        ("aliases", "POST", MAPS, aliases(9), YAML, None),
        ("deep YAML", "POST", MAPS, "\n".join(many(1_500, lambda n: " " * n + "a:")), YAML, None),
        ("2.9 MB of YAML", "POST", MAPS, "metadata: {name: y}\ndata:\n"
         + "".join(many(100_000, lambda n: f"  k{n:06}: vvvvvvvvvvvvvv\n")), YAML, None),
        ("deep JSON", "POST", MAPS + ignore, '{"a":' * 500_000 + "1" + "}" * 500_000, JSON, None),
        ("2.9 MB apply", "PATCH", MAPS + "/large?fieldManager=one", large, APPLY, None),
        ("the same again", "PATCH", MAPS + "/large?fieldManager=one", large, APPLY, None),
        ("by a second manager", "PATCH", MAPS + "/large?fieldManager=two&force=true",
         large.replace("vvv", "www"), APPLY, None),
        ("a small change of it", "PATCH", MAPS + "/large", '{"data":{"key-000001":"x"}}',
         "application/merge-patch+json", None),
        ("2.9 MB TokenReview", "POST", "/apis/authentication.k8s.io/v1/tokenreviews",
         dumped({"spec": {"token": "t" * 2_900_000}}), JSON, None),
        ("150,000 groups", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", dumped(groups), JSON, None),
        ("2.9 MB of delete options", "DELETE", MAPS + "/none", dumped({"x": "y" * 2_900_000}), JSON, None),
        ("2.9 MB eviction", "POST", NAMESPACE + "/pods/none/eviction",
         dumped({"metadata": {"name": "none", "labels": {f"l{n}": "v" for n in range(150_000)}}}), JSON, None),
        ("2.9 MB binding", "POST", NAMESPACE + "/pods/none/binding",
         dumped({"target": {"name": "n"}, "x": ["y"] * 500_000}), JSON, None),
        ("a selector of 8,000 values", "GET", f"{MAPS}?labelSelector={selector}", None, JSON, None),
        ("a selector of 6,000 terms", "GET", f"{MAPS}?labelSelector={terms}", None, JSON, None),
        ("a list of 20,000", "GET", MAPS, None, JSON, None),
        ("a list as a table", "GET", MAPS, None, JSON, "application/json;as=Table;v=v1;g=meta.k8s.io"),
        ("a list as YAML", "GET", MAPS, None, JSON, YAML),
        ("a list for people", "GET", MAPS + "?pretty=true", None, JSON, None),
        ("a page of it", "GET", MAPS + "?limit=500", None, JSON, None),
        ("all are deleted", "DELETE", MAPS, None, JSON, None),
    ]


def peak(process):
    with open(f"/proc/{process}/status") as status:
        return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) // 1024


def forget_peak(process):
    with open(f"/proc/{process}/clear_refs", "w") as file:
        file.write("5")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def fill(port):
    """20,000 ConfigMaps to list, and one to patch."""
    connection = connect(port)
    ask(connection, "POST", MAPS, json.dumps(config_map("a")))
    for number in range(20_000):
        body = {**config_map(f"f{number:05}", labels={"a": f"v{number % 100}"}), "data": {"k": "v" * 200}}
        ask(connection, "POST", MAPS, json.dumps(body))


def measure(port, server, probes, case):
    name, method, path, body, media, accept = case
    data = body.encode() if body is not None else None
    connection = connect(port)
    ask(connection, "GET", "/readyz")
    for worst, _ in probes.values():
        worst.value = 0
    forget_peak(server)
    begun = time.monotonic()
    code, answer = ask(connection, method, path, data, media, accept)
    took = time.monotonic() - begun
    # A wait is known when it is over.
    seen = [count.value for _, count in probes.values()]
    while any(count.value < before + 2 for (_, count), before in zip(probes.values(), seen)):
        time.sleep(TICK)
    waits = [worst.value for worst, _ in probes.values()]
    shown = " ".join(f"{wait * 1000:8.0f}" for wait in waits)
    size = len(data or b"")
    print(f"{name:28} {size:9} {code:5} {len(answer):10} {took * 1000:8.0f} {shown} {peak(server):7}", flush=True)
    return max(waits)


def idle(probes):
    for worst, _ in probes.values():
        worst.value = 0
    time.sleep(3)
    shown = " ".join(f"{worst.value * 1000:8.0f}" for worst, _ in probes.values())
    print(f"{'idle':28} {'':9} {'':5} {'':10} {3000:8} {shown}", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary, chosen = sys.argv[1], sys.argv[2:]
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        arguments = ["lab", "--secure-port", str(port), "--token", TOKEN, "--kubeconfig-out",
                     os.path.join(scratch, "kubeconfig"), "--service-node-port-range", "20000-39999"]
        with open(os.path.join(scratch, "log"), "w") as log:
            server = subprocess.Popen([binary, *arguments], stdout=log, stderr=log)
        started = []
        try:
            while True:
                try:
                    if ask(connect(port), "GET", "/readyz")[0] == 200:
                        break
                except OSError:
                    if server.poll() is not None:
                        sys.exit("the lab ended: " + open(os.path.join(scratch, "log")).read())
                time.sleep(0.05)
            fill(port)
            probes = {}
            for kind in ["readyz", "write", "connection"]:
                worst, count = multiprocessing.Value("d", 0), multiprocessing.Value("i", 0, lock=False)
                probes[kind] = (worst, count)
                started.append(multiprocessing.Process(target=probe, args=(port, kind, worst, count), daemon=True))
                started[-1].start()
            time.sleep(1)
            heads = " ".join(f"{kind[:8]:>8}" for kind in probes)
            print(f"{'input':28} {'bytes':>9} {'code':>5} {'answer':>10} {'ms':>8} {heads} {'peak MB':>7}")
            idle(probes)
            cases = [case for case in inputs() if not chosen or case[0] in chosen]
            worst = max(measure(port, server.pid, probes, case) for case in cases)
            print(f"the longest wait of another: {worst * 1000:.0f} ms")
        finally:
            for process in started:
                process.terminate()
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main()
