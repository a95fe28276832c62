import os, yaml
from kubernetes import client, config, watch
config.load_kube_config()
print(client.VersionApi().get_code().git_version)
assert client.CoreApi().get_api_versions().versions == ["v1"]
groups = [g.name for g in client.ApisApi().get_api_versions().groups]
assert "authorization.k8s.io" in groups, groups
core, auth = client.CoreV1Api(), client.AuthorizationV1Api()
review = auth.create_self_subject_access_review({"spec": {"resourceAttributes": {"verb": "list", "resource": "services"}}})
assert review.status.allowed
try:
    auth.create_self_subject_access_review({"spec": {}})
    raise SystemExit("an empty question was answered")
except client.ApiException as refused:
    assert refused.status == 422, refused
token = yaml.safe_load(open(os.environ["KUBECONFIG"]))["users"][0]["user"]["token"]
known = client.AuthenticationV1Api().create_token_review({"spec": {"token": token}})
assert known.status.authenticated and known.status.user.username == "kubernetes-admin"
made = core.create_namespaced_service("default", {"metadata": {"name": "py"}, "spec": {"ports": [{"port": 80}]}})
assert made.spec.cluster_ip
for event in watch.Watch().stream(core.list_namespaced_service, "default", timeout_seconds=30):
    if event["object"].metadata.name == "py":
        break
else:
    raise SystemExit("the watch did not show the Service")
core.patch_namespaced_service("py", "default", {"spec": {"type": "NodePort"}})
assert core.read_namespaced_service("py", "default").spec.ports[0].node_port
core.create_namespaced_secret("default", client.V1Secret(metadata=client.V1ObjectMeta(name="py"), string_data={"a": "b"}))
assert core.read_namespaced_secret("py", "default").data == {"a": "Yg=="}
pod = client.V1Pod(metadata=client.V1ObjectMeta(name="py"), spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]))
core.create_namespaced_pod("default", pod)
core.create_namespaced_pod_eviction("py", "default", client.V1Eviction(metadata=client.V1ObjectMeta(name="py")))
try:
    core.read_namespaced_pod_log("py", "default")
    raise SystemExit("there was a log")
except client.ApiException as refused:
    assert refused.status == 501, refused
try:
    client.BatchV1Api().list_job_for_all_namespaces()
    raise SystemExit("there were jobs")
except client.ApiException as refused:
    assert refused.status == 404 and "jobs.batch" in refused.body, refused
bob = client.ApiClient()
bob.set_default_header("Impersonate-User", "bob")
try:
    client.CoreV1Api(bob).list_namespaced_service("default")
    raise SystemExit("bob may list Services")
except client.ApiException as refused:
    assert refused.status == 403, refused
core.delete_namespaced_service("py", "default")
print("done")
