import os, kr8s
from kr8s.objects import Pod, Secret, Service
api = kr8s.api(kubeconfig=os.environ["KUBECONFIG"])
assert api.version()["major"] == "1"
assert api.whoami() == "kubernetes-admin", api.whoami()
service = Service({"metadata": {"name": "kr"}, "spec": {"selector": {"app": "kr"}, "ports": [{"port": 80}]}})
service.create()
assert service.spec.clusterIP
service.label({"a": "b"})
service.patch({"spec": {"type": "NodePort"}})
service.refresh()
assert service.spec.ports[0].nodePort
assert "kr" in [s.name for s in api.get("services", namespace="default")]
secret = Secret({"metadata": {"name": "kr"}, "stringData": {"a": "b"}})
secret.create()
assert secret.raw["data"] == {"a": "Yg=="}
pod = Pod({"metadata": {"name": "kr", "labels": {"app": "kr"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
pod.create()
pod.wait("condition=Ready", timeout=60)
assert [p.name for p in service.ready_pods()] == ["kr"]
for thing in (pod, secret, service):
    thing.delete()
print("done")
