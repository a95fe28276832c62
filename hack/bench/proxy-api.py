#!/usr/bin/env python3
"""A stand-in for an API server with many Services: lists in pages, watches, and one readiness flip after another on request.

usage: proxy-api.py PORT SERVICES ENDPOINTS. `POST /flip?count=N&rate=R` flips N endpoints, R a second, and answers when done.
"""
import json
import queue
import sys
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

PORT, SERVICES, ENDPOINTS = (int(word) for word in sys.argv[1:4])
version = 1000
watchers = []
lock = threading.Lock()


def meta(name, **more):
    return {"name": name, "namespace": "bench", "uid": name, "resourceVersion": "1", **more}


def service(n):
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta(f"service-{n:05}"), "spec": {
        "type": "ClusterIP", "clusterIP": f"10.{96 + n // 65000}.{n // 250}.{n % 250 + 1}",
        "clusterIPs": [f"10.{96 + n // 65000}.{n // 250}.{n % 250 + 1}"],
        "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]}, "status": {"loadBalancer": {}}}


def endpoint_slice(n, flipped=None, trigger=None):
    endpoints = []
    for e in range(ENDPOINTS):
        ready = e != flipped
        endpoints.append({"addresses": [f"172.{16 + e}.{n // 250}.{n % 250 + 1}"], "nodeName": f"node-{e}",
                          "conditions": {"ready": ready, "serving": ready, "terminating": False},
                          "targetRef": {"kind": "Pod", "name": f"pod-{n}-{e}", "namespace": "bench"}})
    annotations = {"endpoints.kubernetes.io/last-change-trigger-time": trigger} if trigger else {}
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": meta(
        f"service-{n:05}-abcde", labels={"kubernetes.io/service-name": f"service-{n:05}"}, annotations=annotations),
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}], "endpoints": endpoints}


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0", "uid": "n", "resourceVersion": "1"}, "spec": {},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.7.1"}]}}
CIDR = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "spec": {"cidrs": ["10.96.0.0/12"]},
        "metadata": {"name": "kubernetes", "uid": "c", "resourceVersion": "1"}}
KINDS = {
    "/api/v1/services": ("v1", "ServiceList", SERVICES, service),
    "/apis/discovery.k8s.io/v1/endpointslices": ("discovery.k8s.io/v1", "EndpointSliceList", SERVICES, endpoint_slice),
    "/api/v1/nodes": ("v1", "NodeList", 1, lambda n: NODE),
    "/apis/networking.k8s.io/v1/servicecidrs": ("networking.k8s.io/v1", "ServiceCIDRList", 1, lambda n: CIDR),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urlparse(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path == "/version":
            return self.answer({"major": "1", "minor": "36", "gitVersion": "v1.36.2", "gitCommit": "", "gitTreeState": "",
                                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
        if url.path not in KINDS:
            self.send_response(404)
            self.send_header("content-length", "0")
            return self.end_headers()
        api, kind, count, make = KINDS[url.path]
        if query.get("watch") in ("1", "true"):
            return self.watch(make is endpoint_slice)
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "0")) or count
        end = min(start + limit, count)
        listed = {"resourceVersion": str(version), **({"continue": str(end)} if end < count else {})}
        return self.answer({"apiVersion": api, "kind": kind, "metadata": listed, "items": [make(n) for n in range(start, end)]})

    def watch(self, slices):
        events = queue.Queue()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if slices:
            watchers.append(events)
        while True:
            line = events.get()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()

    def do_POST(self):
        global version
        url = urlparse(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path != "/flip":
            length = int(self.headers.get("content-length", "0"))
            self.rfile.read(length)
            return self.answer({})
        count, rate = int(query["count"]), float(query["rate"])
        start = time.monotonic()
        for i in range(count):
            time.sleep(max(0.0, start + i / rate - time.monotonic()))
            n = i % SERVICES
            now = datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
            flipped = endpoint_slice(n, None if (i // SERVICES) % 2 else i % ENDPOINTS, now)
            version += 1
            flipped["metadata"]["resourceVersion"] = str(version)
            line = json.dumps({"type": "MODIFIED", "object": flipped}).encode() + b"\n"
            for events in watchers:
                events.put(line)
        return self.answer({"flips": count})


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
