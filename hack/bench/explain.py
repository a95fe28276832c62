#!/usr/bin/env python3
"""See explain.sh. A line of the table is the median of five runs."""

import http.client
import json
import os
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

TOKEN = "explain-bench-token"
RUNS = 5
LIVE_PODS = 5_000
DUMP_PODS = 100_000
SERVICES = 100
TLS = ssl._create_unverified_context()


def facts(number, service):
    """What makes a pod another one."""
    app = f"web-{service:03}"
    return {
        "name": f"{app}-6fd96989f4-{number:06}",
        "app": app,
        "ip": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        "node": f"node-{number % 50}",
        "uid": f"{number:08x}-0000-4000-8000-000000000001",
        "version": str(1000 + number),
    }


def is_ready(number):
    return number % 50 != 7


def pod(own, ready, status):
    """A pod of some 3 KB, as a Deployment makes it."""
    name, ip = own["name"], own["ip"]
    labels = {"app": own["app"], "tier": "front", "pod-template-hash": "6fd96989f4"}
    volume = "kube-api-access-abcde"
    mount = {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": volume, "readOnly": True}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": {
            "example.com/config-checksum": "0123456789abcdef" * 4}},
        "spec": {
            "containers": [{
                "name": "web", "image": "registry.example.com/team/web:v1.2.3", "imagePullPolicy": "IfNotPresent",
                "env": [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(8)],
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
                "volumeMounts": [mount],
            }],
            "nodeName": own["node"], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                             "tolerationSeconds": 300}],
            "volumes": [{"name": volume, "emptyDir": {}}],
        },
    }
    if status:
        ready = "True" if ready else "False"
        body["metadata"].update({
            "uid": own["uid"], "resourceVersion": own["version"],
            "creationTimestamp": "2026-01-01T00:00:00Z", "generateName": "web-6fd96989f4-",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6fd96989f4", "uid": "rs",
                                 "controller": True, "blockOwnerDeletion": True}]})
        times = {"lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        kinds = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        body["status"] = {
            "phase": "Running", "hostIP": "192.168.0.1", "podIP": ip, "podIPs": [{"ip": ip}], "qosClass": "Burstable",
            "conditions": [{"type": k, "status": ready if "eady" in k[-9:] and k != kinds[0] else "True", **times}
                           for k in kinds],
            "containerStatuses": [{"name": "web", "ready": ready == "True", "restartCount": 0, "started": True,
                                   "image": "registry.example.com/team/web:v1.2.3",
                                   "imageID": "registry.example.com/team/web@sha256:" + "0123456789abcdef" * 4,
                                   "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
        }
    return body


def service(number):
    spec = {"selector": {"app": f"web-{number:03}", "tier": "front"}, "ports": [
        {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"web-{number:03}", "namespace": "default"},
            "spec": spec}


def node(number):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": f"node-{number}", "labels": {"topology.kubernetes.io/zone": f"zone-{number % 3}"}}}


def timed(command):
    """Seconds and peak memory in MiB of a command that must succeed."""
    taken, peak = [], 0
    for _ in range(RUNS):
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = child.stdout.read(), child.stderr.read()
        _, code, usage = os.wait4(child.pid, 0)
        taken.append(time.monotonic() - start)
        peak = max(peak, usage.ru_maxrss / 1024)
        if code != 0:
            sys.exit(f"{' '.join(command)}: {err.decode()}")
    return statistics.median(taken), peak, out


def show(what, seconds, peak, found):
    counts = found["counts"]
    print(f"{what:44} {seconds:6.2f} s {peak:7.0f} MiB   {counts['selected']} pods, {counts['ready']} ready")


def yaml(value, indent):
    """An object as kubectl prints it as YAML: keys in order, lists as far to the left as their keys."""
    pad, lines = " " * indent, []
    if isinstance(value, dict):
        for key, inner in sorted(value.items()):
            if isinstance(inner, (dict, list)) and inner:
                lines += [f"{pad}{key}:"] + yaml(inner, indent + 2 if isinstance(inner, dict) else indent)
            else:
                lines.append(f"{pad}{key}: {scalar(inner)}")
        return lines
    for item in value:
        first, *rest = yaml(item, indent + 2) if isinstance(item, dict) else [f"{pad}  {scalar(item)}"]
        lines += [f"{pad}- {first[indent + 2:]}"] + rest
    return lines


def scalar(value):
    quoted = isinstance(value, str) and (re.fullmatch(r"[\d.eE+-]*|True|False|\d{4}-.*", value) and value.count(".") != 3)
    return value if isinstance(value, str) and not quoted else json.dumps(value)


FORMATS = {
    "json": {
        "head": '{\n    "apiVersion": "v1",\n    "items": [\n',
        "item": lambda item: "        " + json.dumps(item, indent=4, sort_keys=True).replace("\n", "\n        "),
        "between": ",\n",
        "tail": '\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n',
    },
    "yaml": {
        "head": "apiVersion: v1\nitems:\n",
        "item": lambda item: "\n".join(yaml([item], 0)),
        "between": "\n",
        "tail": '\nkind: List\nmetadata:\n  resourceVersion: ""\n',
    },
}


def write_dump(path, form):
    """What kubectl writes of the cluster. Pods are one of two texts with other facts in it."""
    form = FORMATS[form]
    marks = {name: f"@{name}@" for name in facts(0, 0)}
    texts = {ready: form["item"](pod(marks, ready, True)) for ready in [True, False]}
    with open(path, "w") as file:
        file.write(form["head"])
        others = [service(n) for n in range(SERVICES)] + [node(n) for n in range(50)]
        file.write(form["between"].join(form["item"](item) for item in others))
        for n in range(DUMP_PODS):
            text = texts[is_ready(n)]
            for name, value in facts(n, n % SERVICES).items():
                # A version is text, and looks like a number.
                value = json.dumps(value) if name == "version" and "yaml" in path else value
                text = text.replace(marks[name], value)
            file.write(form["between"] + text)
        file.write(form["tail"])


def of_dump(binary, directory, form):
    path = os.path.join(directory, f"dump.{form}")
    write_dump(path, form)
    print(f"a dump of {DUMP_PODS} pods as {form}, {os.path.getsize(path) / 2**20:.0f} MiB")
    seconds, peak, out = timed([binary, "explain", "svc/web-007", "--dump", path, "-o", "json"])
    show("explain of a Service in it", seconds, peak, json.loads(out))
    os.remove(path)


def of_lab(binary, directory):
    kubeconfig = os.path.join(directory, "kubeconfig")
    tokens = os.path.join(directory, "tokens")
    with open(tokens, "w") as file:
        file.write(f"{TOKEN},bench,bench,system:masters\n")
    command = [binary, "lab", "--secure-port=0", f"--kubeconfig-out={kubeconfig}", "--v=6"]
    log = open(os.path.join(directory, "log"), "w")
    lab = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not os.path.exists(kubeconfig) or os.path.getsize(kubeconfig) == 0:
            time.sleep(0.05)
        fill(open(kubeconfig).read())
        before = os.path.getsize(log.name)
        seconds, peak, out = timed([binary, "explain", "svc/web-000", "--kubeconfig", kubeconfig, "-o", "json"])
        show("explain of a Service on a lab", seconds, peak, json.loads(out))
        lines = open(log.name, "rb").read()[before:].splitlines()
        lists = [line for line in lines if b"GET" in line and b"/api/v1/namespaces/default/pods" in line]
        print(f"requests for pods in {RUNS} runs, by the lab's log: {len(lists)}")
    finally:
        lab.terminate()
        lab.wait()


def fill(kubeconfig):
    host, port = re.search(r"https?://([^:/\s\"]+):(\d+)", kubeconfig).groups()
    token = re.search(r"token\"?: \"?([^\"\s,}]+)", kubeconfig)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token.group(1)}"
    secure = "https://" in kubeconfig
    client = (http.client.HTTPSConnection(host, port, context=TLS) if secure else http.client.HTTPConnection(host, port))

    def send(method, path, body):
        client.request(method, path, json.dumps(body), headers)
        answer = client.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {text[:300]}")

    for n in range(50):
        send("POST", "/api/v1/nodes", node(n))
    send("POST", "/api/v1/namespaces/default/services", service(0))
    for n in range(LIVE_PODS):
        own = facts(n, 0)
        send("POST", "/api/v1/namespaces/default/pods", pod(own, is_ready(n), False))
        status = pod(own, is_ready(n), True)["status"]
        headers["Content-Type"] = "application/merge-patch+json"
        send("PATCH", f"/api/v1/namespaces/default/pods/{own['name']}/status", {"status": status})
        headers["Content-Type"] = "application/json"
    time.sleep(5)  # until the controllers of the lab have written the slices


def main():
    binary = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as directory:
        of_lab(binary, directory)
        of_dump(binary, directory, "json")
        of_dump(binary, directory, "yaml")


main()
