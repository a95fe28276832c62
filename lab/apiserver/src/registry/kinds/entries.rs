//! The table of kinds, in the order of discovery.

use std::sync::Arc;

use serde_json::Value;
use service_api::crds;

use super::event::{from_events_v1, to_events_v1};
use super::workload::{apply_scale, scale_of};
use super::{
    configmap::ConfigMap, deployment::Deployment, endpoints::Endpoints, endpointslice::EndpointSlice,
    event::Event, ipaddress::IPAddress, lease::Lease, namespace::Namespace, node::Node, nodeport::NodePort,
    nodeportrange::NodePortRange, pod::Pod, replicaset::ReplicaSet, secret::Secret, service::Service,
    serviceaccount::ServiceAccount, servicecidr::ServiceCIDR, servicepool::ServicePool,
};
use crate::registry::resource_info::{
    Representation, ResourceInfo, Review, Scope, SelectableField, Sub, Verb,
};
use crate::registry::strategy::{Plain, Strategy, Subresource};
use crate::registry::table::table_of;

/// All kinds; the position of an info is its resource's number.
pub fn entries() -> Vec<ResourceInfo> {
    let mut entries = stored();
    entries.extend(reviews());
    entries
}

/// The kinds that are asked and not kept.
fn reviews() -> [ResourceInfo; 6] {
    let authentication = Group { group: "authentication.k8s.io", version: "v1" };
    let authorization = Group { group: "authorization.k8s.io", version: "v1" };
    [
        authentication
            .kind("SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview", Plain)
            .cluster()
            .review(Review::SelfSubject),
        authentication
            .kind("TokenReview", "tokenreviews", "tokenreview", Plain)
            .cluster()
            .review(Review::Token),
        authorization
            .kind("LocalSubjectAccessReview", "localsubjectaccessreviews", "localsubjectaccessreview", Plain)
            .review(Review::LocalSubjectAccess),
        authorization
            .kind("SelfSubjectAccessReview", "selfsubjectaccessreviews", "selfsubjectaccessreview", Plain)
            .cluster()
            .review(Review::SelfSubjectAccess),
        authorization
            .kind("SelfSubjectRulesReview", "selfsubjectrulesreviews", "selfsubjectrulesreview", Plain)
            .cluster()
            .review(Review::SelfSubjectRules),
        authorization
            .kind("SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview", Plain)
            .cluster()
            .review(Review::SubjectAccess),
    ]
}

fn stored() -> Vec<ResourceInfo> {
    let core = Group { group: "", version: "v1" };
    let apps = Group { group: "apps", version: "v1" };
    let networking = Group { group: "networking.k8s.io", version: "v1" };
    let own = Group { group: crds::GROUP, version: crds::VERSION };
    vec![
        core.kind("ConfigMap", "configmaps", "configmap", ConfigMap).short(&["cm"]),
        core.kind("Endpoints", "endpoints", "endpoints", Endpoints).short(&["ep"]),
        core.kind("Event", "events", "event", Event).short(&["ev"]).fields(EVENT_FIELDS),
        core.kind("Namespace", "namespaces", "namespace", Namespace)
            .short(&["ns"])
            .cluster()
            .verbs(Verb::NO_DELETE_COLLECTION)
            .subresources(&[FINALIZE, Sub::STATUS])
            .fields(NAMESPACE_FIELDS),
        core.kind("Node", "nodes", "node", Node)
            .short(&["no"])
            .cluster()
            .subresources(&[Sub::STATUS])
            .fields(NODE_FIELDS),
        core.kind("Pod", "pods", "pod", Pod)
            .short(&["po"])
            .all()
            .subresources(&[BINDING, EPHEMERAL, EVICTION, RESIZE, Sub::STATUS])
            .fields(POD_FIELDS),
        core.kind("Secret", "secrets", "secret", Secret).fields(SECRET_FIELDS),
        core.kind("Service", "services", "service", Service)
            .short(&["svc"])
            .all()
            .subresources(&[Sub::STATUS])
            .fields(SERVICE_FIELDS),
        core.kind("ServiceAccount", "serviceaccounts", "serviceaccount", ServiceAccount).short(&["sa"]),
        apps.kind("Deployment", "deployments", "deployment", Deployment)
            .short(&["deploy"])
            .all()
            .subresources(&[SCALE, Sub::STATUS]),
        apps.kind("ReplicaSet", "replicasets", "replicaset", ReplicaSet)
            .short(&["rs"])
            .all()
            .subresources(&[SCALE, Sub::STATUS])
            .fields(REPLICA_SET_FIELDS),
        Group { group: "coordination.k8s.io", version: "v1" }.kind("Lease", "leases", "lease", Lease),
        Group { group: "discovery.k8s.io", version: "v1" }.kind(
            "EndpointSlice",
            "endpointslices",
            "endpointslice",
            EndpointSlice,
        ),
        Group { group: "events.k8s.io", version: "v1" }
            .kind("Event", "events", "event", Event)
            .short(&["ev"])
            .view_of(("", "events", &CORE_EVENTS)),
        networking.kind("IPAddress", "ipaddresses", "ipaddress", IPAddress).short(&["ip"]).cluster(),
        networking
            .kind("ServiceCIDR", "servicecidrs", "servicecidr", ServiceCIDR)
            .cluster()
            .subresources(&[Sub::STATUS]),
        own.kind("NodePort", "nodeports", "nodeport", NodePort).short(&["np"]).cluster(),
        own.kind("NodePortRange", "nodeportranges", "nodeportrange", NodePortRange)
            .short(&["npr"])
            .cluster()
            .subresources(&[Sub::STATUS]),
        own.kind("ServicePool", "servicepools", "servicepool", ServicePool)
            .short(&["spool"])
            .cluster()
            .subresources(&[Sub::STATUS]),
    ]
}

#[derive(Clone, Copy)]
struct Group {
    group: &'static str,
    version: &'static str,
}

impl Group {
    fn kind(
        self,
        kind: &'static str,
        resource: &'static str,
        singular: &'static str,
        strategy: impl Strategy + 'static,
    ) -> ResourceInfo {
        ResourceInfo {
            group: self.group,
            version: self.version,
            kind,
            resource,
            singular,
            short_names: &[],
            categories: &[],
            scope: Scope::Namespaced,
            verbs: Verb::ALL,
            subresources: &[],
            fields: &[],
            table: table_of(kind),
            strategy: Arc::new(strategy),
            view_of: None,
            review: None,
        }
    }
}

impl ResourceInfo {
    fn short(self, short_names: &'static [&'static str]) -> Self {
        Self { short_names, ..self }
    }

    fn all(self) -> Self {
        Self { categories: &["all"], ..self }
    }

    fn cluster(self) -> Self {
        Self { scope: Scope::Cluster, ..self }
    }

    fn verbs(self, verbs: &'static [Verb]) -> Self {
        Self { verbs, ..self }
    }

    fn subresources(self, subresources: &'static [Sub]) -> Self {
        Self { subresources, ..self }
    }

    fn view_of(self, view_of: (&'static str, &'static str, &'static Representation)) -> Self {
        Self { view_of: Some(view_of), ..self }
    }

    fn review(self, review: Review) -> Self {
        Self { review: Some(review), verbs: &[Verb::Create], ..self }
    }

    fn fields(self, fields: &'static [SelectableField]) -> Self {
        Self { fields, ..self }
    }
}

const BINDING: Sub = Sub {
    name: "binding",
    part: Subresource::Binding,
    kind: Some(("", "v1", "Binding")),
    verbs: &[Verb::Create],
    form: None,
};
const FINALIZE: Sub =
    Sub { name: "finalize", part: Subresource::Finalize, kind: None, verbs: &[Verb::Update], form: None };
const SPEC_WRITES: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];
const EPHEMERAL: Sub = Sub {
    name: "ephemeralcontainers",
    part: Subresource::EphemeralContainers,
    kind: None,
    verbs: SPEC_WRITES,
    form: None,
};
const EVICTION: Sub = Sub {
    name: "eviction",
    part: Subresource::Eviction,
    kind: Some(("policy", "v1", "Eviction")),
    verbs: &[Verb::Create],
    form: None,
};
const RESIZE: Sub =
    Sub { name: "resize", part: Subresource::Resize, kind: None, verbs: SPEC_WRITES, form: None };
const SCALE: Sub = Sub {
    name: "scale",
    part: Subresource::Scale,
    kind: Some(("autoscaling", "v1", "Scale")),
    verbs: &[Verb::Get, Verb::Patch, Verb::Update],
    form: Some(&SCALE_REPRESENTATION),
};
const SCALE_REPRESENTATION: Representation = Representation {
    kind: ("autoscaling", "v1", "Scale"),
    show: scale_of,
    take: |live, scale| {
        let mut object = live.cloned().unwrap_or_default();
        apply_scale(&mut object, &scale);
        object
    },
};
const CORE_EVENTS: Representation = Representation {
    kind: ("events.k8s.io", "v1", "Event"),
    show: |event| to_events_v1(event.clone()),
    take: |_, event| from_events_v1(event),
};

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn flag(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default().to_string()
}

const NAMESPACE_FIELDS: &[SelectableField] = &[
    SelectableField { label: "name", value: |o| text(o, "/metadata/name") },
    SelectableField { label: "status.phase", value: |o| text(o, "/status/phase") },
];

const NODE_FIELDS: &[SelectableField] =
    &[SelectableField { label: "spec.unschedulable", value: |o| flag(o, "/spec/unschedulable") }];

const POD_FIELDS: &[SelectableField] = &[
    SelectableField { label: "spec.nodeName", value: |o| text(o, "/spec/nodeName") },
    SelectableField { label: "spec.restartPolicy", value: |o| text(o, "/spec/restartPolicy") },
    SelectableField { label: "spec.schedulerName", value: |o| text(o, "/spec/schedulerName") },
    SelectableField { label: "spec.serviceAccountName", value: |o| text(o, "/spec/serviceAccountName") },
    SelectableField { label: "spec.hostNetwork", value: |o| flag(o, "/spec/hostNetwork") },
    SelectableField { label: "status.phase", value: |o| text(o, "/status/phase") },
    SelectableField { label: "status.podIP", value: |o| text(o, "/status/podIP") },
    SelectableField { label: "status.nominatedNodeName", value: |o| text(o, "/status/nominatedNodeName") },
];

const SECRET_FIELDS: &[SelectableField] = &[SelectableField { label: "type", value: |o| text(o, "/type") }];

const SERVICE_FIELDS: &[SelectableField] = &[
    SelectableField { label: "spec.clusterIP", value: |o| text(o, "/spec/clusterIP") },
    SelectableField { label: "spec.type", value: |o| text(o, "/spec/type") },
];

const REPLICA_SET_FIELDS: &[SelectableField] = &[SelectableField {
    label: "status.replicas",
    value: |o| o.pointer("/status/replicas").and_then(Value::as_i64).unwrap_or_default().to_string(),
}];

const EVENT_FIELDS: &[SelectableField] = &[
    SelectableField { label: "involvedObject.kind", value: |o| text(o, "/involvedObject/kind") },
    SelectableField { label: "involvedObject.namespace", value: |o| text(o, "/involvedObject/namespace") },
    SelectableField { label: "involvedObject.name", value: |o| text(o, "/involvedObject/name") },
    SelectableField { label: "involvedObject.uid", value: |o| text(o, "/involvedObject/uid") },
    SelectableField { label: "involvedObject.apiVersion", value: |o| text(o, "/involvedObject/apiVersion") },
    SelectableField {
        label: "involvedObject.resourceVersion",
        value: |o| text(o, "/involvedObject/resourceVersion"),
    },
    SelectableField { label: "involvedObject.fieldPath", value: |o| text(o, "/involvedObject/fieldPath") },
    SelectableField { label: "reason", value: |o| text(o, "/reason") },
    SelectableField { label: "reportingComponent", value: |o| text(o, "/reportingComponent") },
    SelectableField { label: "source", value: event_source },
    SelectableField { label: "type", value: |o| text(o, "/type") },
];

fn event_source(event: &Value) -> String {
    match text(event, "/source/component") {
        component if component.is_empty() => text(event, "/reportingComponent"),
        component => component,
    }
}
