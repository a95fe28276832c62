//! What Kubernetes serves and the lab does not, and what is said to those who ask for it.
//!
//! Pure. The tables are those of the API reference of v1.36; a resource that comes to be served leaves them.

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;
use service_api::status;

use crate::registry::Registry;
use crate::registry::error::ApiError;

use super::path::Place;

/// Where the documentation lists what there is.
const PAGE: &str = "docs/lab-api.md";

/// Group, version and path segments of resources.
const RESOURCES: &[(&str, &str, &str)] = &[
    (
        "",
        "v1",
        "bindings componentstatuses limitranges persistentvolumeclaims persistentvolumes podtemplates \
         replicationcontrollers resourcequotas",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicies mutatingadmissionpolicybindings mutatingwebhookconfigurations \
         validatingadmissionpolicies validatingadmissionpolicybindings validatingwebhookconfigurations",
    ),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "v1", "apiservices"),
    ("apps", "v1", "controllerrevisions daemonsets statefulsets"),
    ("autoscaling", "v1", "horizontalpodautoscalers"),
    ("autoscaling", "v2", "horizontalpodautoscalers"),
    ("batch", "v1", "cronjobs jobs"),
    ("certificates.k8s.io", "v1", "certificatesigningrequests"),
    ("flowcontrol.apiserver.k8s.io", "v1", "flowschemas prioritylevelconfigurations"),
    ("networking.k8s.io", "v1", "ingressclasses ingresses networkpolicies"),
    ("node.k8s.io", "v1", "runtimeclasses"),
    ("policy", "v1", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings clusterroles rolebindings roles"),
    ("resource.k8s.io", "v1", "deviceclasses resourceclaims resourceclaimtemplates resourceslices"),
    ("scheduling.k8s.io", "v1", "priorityclasses"),
    (
        "storage.k8s.io",
        "v1",
        "csidrivers csinodes csistoragecapacities storageclasses volumeattachments volumeattributesclasses",
    ),
];

/// Parts of served resources, and why there are none.
const PARTS: &[(&str, &str, &str)] = &[
    ("pods", "log", "no container runs here, so there is no output"),
    ("pods", "exec", "no container runs here, so no command can be run in one"),
    ("pods", "attach", "no container runs here, so there is nothing to attach to"),
    ("pods", "portforward", "no container runs here, so nothing listens on a pod's ports"),
    ("pods", "proxy", "no container runs here, so nothing listens on a pod's ports"),
    ("services", "proxy", "no container runs here, so nothing answers for a Service"),
    ("nodes", "proxy", "the nodes are simulated and have no kubelet"),
    (
        "serviceaccounts",
        "token",
        "the server issues no tokens; requests are made with the one of its kubeconfig",
    ),
];

/// Is this a group that Kubernetes serves, whether or not it is served here?
pub(crate) fn is_known(registry: &Registry, group: &str) -> bool {
    registry.entries().iter().any(|info| info.group == group)
        || RESOURCES.iter().any(|(known, _, _)| *known == group)
}

/// The refusal of a request for a resource that is not there.
pub(crate) fn refusal(method: &Method, place: &Place) -> ApiError {
    let part = PARTS.iter().find(|(resource, part, _)| {
        place.group.is_empty() && *resource == place.resource && *part == place.subresource
    });
    if let Some((resource, part, why)) = part {
        return not_implemented(resource, &place.name, part, why);
    }
    let known = RESOURCES.iter().any(|(group, version, resources)| {
        *group == place.group
            && *version == place.version
            && resources.split_whitespace().any(|resource| resource == place.resource)
    });
    if !known {
        return status::no_such_resource().into();
    }
    let collection = place.name.is_empty();
    let fits = match *method {
        Method::GET | Method::HEAD | Method::DELETE => true,
        Method::POST => collection || !place.subresource.is_empty(),
        Method::PUT | Method::PATCH => !collection,
        _ => false,
    };
    if !fits || (place.resource == "componentstatuses" && *method != Method::GET) {
        return status::method_not_allowed().into();
    }
    let mut refused = status::no_such_resource();
    let what = status::qualified(&place.group, &place.resource);
    let beginning = refused.message.unwrap_or_default();
    refused.message = Some(format!(
        "{beginning}: the lab does not serve {what}; {PAGE} and `kubectl api-resources` list what it serves"
    ));
    refused.details = Some(StatusDetails {
        group: Some(place.group.clone()).filter(|group| !group.is_empty()),
        kind: Some(place.resource.clone()),
        ..StatusDetails::default()
    });
    refused.into()
}

/// 501: the resource is served, this part of it is not.
fn not_implemented(resource: &str, name: &str, part: &str, why: &str) -> ApiError {
    status::not_implemented(resource, name, &format!("{part} is not served: {why} ({PAGE})")).into()
}
