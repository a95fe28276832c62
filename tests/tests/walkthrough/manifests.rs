//! What the session applies.

pub(crate) const DEPLOYMENT: &str = "
apiVersion: v1
kind: Namespace
metadata:
  name: demo
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: hello
  namespace: demo
  labels: {app.kubernetes.io/name: hello, app.kubernetes.io/instance: hello}
spec:
  replicas: 3
  selector:
    matchLabels: {app.kubernetes.io/name: hello, app.kubernetes.io/instance: hello}
  template:
    metadata:
      labels: {app.kubernetes.io/name: hello, app.kubernetes.io/instance: hello}
    spec:
      terminationGracePeriodSeconds: 600
      containers:
        - name: hello
          image: registry.test/hello:1
          ports:
            - name: http
              containerPort: 8080
";

/// The Service of the Deployment with another name and more in its spec.
pub(crate) fn service(name: &str, more: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: demo
  labels:
    app.kubernetes.io/name: hello
    app.kubernetes.io/instance: hello
spec:
  {more}
  selector:
    app.kubernetes.io/name: hello
    app.kubernetes.io/instance: hello
  ports:
    - name: http
      port: 80
      targetPort: http
      protocol: TCP
"
    )
}

pub(crate) fn with_node_port(name: &str, port: u16) -> String {
    service(name, "type: NodePort")
        .replace("targetPort: http", &format!("targetPort: http\n      nodePort: {port}"))
}

pub(crate) const EXTERNAL_NAME: &str = "
apiVersion: v1
kind: Service
metadata:
  name: registry
  namespace: demo
spec:
  type: ExternalName
  externalName: ghcr.io
";

pub(crate) const LEGACY: &str = "
apiVersion: v1
kind: Service
metadata:
  name: legacy-api
  namespace: demo
spec:
  ports:
    - name: http
      port: 80
      targetPort: 8080
";

pub(crate) const LEGACY_SLICE: &str = r#"
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: legacy-api-1
  namespace: demo
  labels:
    kubernetes.io/service-name: legacy-api
    endpointslice.kubernetes.io/managed-by: admins.example.com
addressType: IPv4
ports:
  - name: http
    port: 8080
    protocol: TCP
endpoints:
  - addresses: ["192.168.10.40"]
    conditions:
      ready: true
  - addresses: ["192.168.10.41"]
    conditions:
      ready: true
"#;
