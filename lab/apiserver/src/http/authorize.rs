//! What a caller may do.
//!
//! Pure. There are no roles to bind in the lab: `system:masters` may do everything, and everyone else what Kubernetes
//! grants to all from the start (its default roles `system:public-info-viewer`, `system:discovery` and
//! `system:basic-user`).

use http::Method;
use serde_json::{Value, json};
use service_api::status;

use crate::registry::error::ApiError;

use super::caller::{AUTHENTICATED, Caller, MASTERS, UNAUTHENTICATED};
use super::path;

/// Paths that everyone may read (`system:public-info-viewer`).
pub(crate) const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// Paths that everyone who is known may read (`system:discovery`).
pub(crate) const DISCOVERY: &[&str] = &["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
/// Questions about oneself (`system:basic-user`): group and resources.
pub(crate) const SELF_REVIEWS: &[(&str, &[&str])] = &[
    ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
    ("authentication.k8s.io", &["selfsubjectreviews"]),
];

/// Something that is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// With a resource.
    Resource {
        /// `get`, `list`, `create`, ...
        verb: String,
        /// API group; empty for the core group.
        group: String,
        /// The resource's path segment.
        resource: String,
        /// The subresource, if any.
        subresource: String,
        /// Empty for cluster-scoped resources and for all namespaces.
        namespace: String,
        /// Empty for a collection.
        name: String,
    },
    /// With another path.
    Path {
        /// The method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

impl Action {
    /// Being taken for another user.
    pub(crate) fn impersonate(username: &str) -> Self {
        Self::Resource {
            verb: "impersonate".to_owned(),
            group: String::new(),
            resource: "users".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: username.to_owned(),
        }
    }

    /// What a request does. `watch`: its query asks for a watch.
    pub(crate) fn of(method: &Method, uri_path: &str, watch: bool) -> Self {
        let Some(place) = path::place(uri_path).filter(|place| !place.resource.is_empty()) else {
            return Self::Path { verb: method.as_str().to_ascii_lowercase(), path: uri_path.to_owned() };
        };
        let collection = place.name.is_empty();
        let verb = match *method {
            Method::GET | Method::HEAD if watch && place.subresource.is_empty() => "watch",
            Method::GET | Method::HEAD if collection => "list",
            Method::GET | Method::HEAD => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if collection => "deletecollection",
            Method::DELETE => "delete",
            _ => "",
        };
        // A namespace lies in itself.
        let itself = place.group.is_empty() && place.resource == "namespaces" && place.namespace.is_empty();
        let namespace = if itself { place.name.clone() } else { place.namespace };
        Self::Resource {
            verb: verb.to_owned(),
            group: place.group,
            resource: place.resource,
            subresource: place.subresource,
            namespace,
            name: place.name,
        }
    }
}

/// Why something is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// The caller may do everything.
    Master,
    /// A role that the named group has.
    Role(&'static str, &'static str),
}

impl Grant {
    /// In upstream's words; nothing is said of masters.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Master => String::new(),
            Self::Role(role, group) => {
                format!(
                    "RBAC: allowed by ClusterRoleBinding {role:?} of ClusterRole {role:?} to Group {group:?}"
                )
            }
        }
    }
}

/// May the caller do that, and why?
pub(crate) fn decide(caller: &Caller, action: &Action) -> Option<Grant> {
    if caller.is_in(MASTERS) {
        return Some(Grant::Master);
    }
    let known = caller.is_in(AUTHENTICATED);
    match action {
        Action::Path { verb, path } => {
            let among = |list: &[&str]| verb == "get" && list.iter().any(|pattern| covers(pattern, path));
            match (known, caller.is_in(UNAUTHENTICATED)) {
                (true, _) if among(DISCOVERY) || among(PUBLIC) => {
                    Some(Grant::Role("system:discovery", AUTHENTICATED))
                }
                (false, true) if among(PUBLIC) => {
                    Some(Grant::Role("system:public-info-viewer", UNAUTHENTICATED))
                }
                _ => None,
            }
        }
        Action::Resource { verb, group, resource, subresource, .. } => {
            let asks =
                |(of, resources): &(&str, &[&str])| of == group && resources.contains(&resource.as_str());
            let granted =
                known && verb == "create" && subresource.is_empty() && SELF_REVIEWS.iter().any(asks);
            granted.then_some(Grant::Role("system:basic-user", AUTHENTICATED))
        }
    }
}

/// What a caller may do: the `status` of a `SelfSubjectRulesReview`.
pub(crate) fn rules(caller: &Caller) -> Value {
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    let read = |urls: Vec<&str>| json!({ "verbs": ["get"], "nonResourceURLs": urls });
    if caller.is_in(MASTERS) {
        resources.push(json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }));
        paths.push(json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }));
    }
    if caller.is_in(AUTHENTICATED) {
        resources.extend(SELF_REVIEWS.iter().map(
            |(group, resources)| json!({ "verbs": ["create"], "apiGroups": [group], "resources": resources }),
        ));
        paths.push(read([DISCOVERY, PUBLIC].concat()));
    } else if caller.is_in(UNAUTHENTICATED) {
        paths.push(read(PUBLIC.to_vec()));
    }
    json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false })
}

/// 403 for what the caller may not do.
///
/// # Errors
/// In upstream's words.
pub(crate) fn authorize(caller: &Caller, action: &Action) -> Result<(), ApiError> {
    if decide(caller, action).is_some() {
        return Ok(());
    }
    let user = &caller.username;
    Err(match action {
        Action::Path { verb, path } => {
            status::forbidden("", "", "", &sanitize(&format!("User {user:?} cannot {verb} path {path:?}")))
                .into()
        }
        Action::Resource { verb, group, resource, subresource, namespace, name } => {
            let whole =
                if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            let why =
                format!("User {user:?} cannot {verb} resource {whole:?} in API group {group:?} {place}");
            status::forbidden(group, resource, name, &sanitize(&why)).into()
        }
    })
}

/// No text of a client comes back as something that a browser takes for HTML.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Does a pattern of paths (`*` at its end) cover a path?
fn covers(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn get(path: &str, watch: bool) -> Action {
        Action::of(&Method::GET, path, watch)
    }

    #[rstest]
    #[case::master("x", &[MASTERS], get("/api/v1/services", false), true)]
    #[case::list("bob", &[AUTHENTICATED], get("/api/v1/services", false), false)]
    #[case::metrics("bob", &[AUTHENTICATED], get("/metrics", false), false)]
    #[case::discovery("bob", &[AUTHENTICATED], get("/apis/apps/v1", false), true)]
    #[case::documents("bob", &[AUTHENTICATED], get("/openapi/v3", false), true)]
    #[case::myself("bob", &[AUTHENTICATED],
        Action::of(&Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews", false), true)]
    #[case::others("bob", &[AUTHENTICATED],
        Action::of(&Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews", false), false)]
    #[case::nobody("system:anonymous", &[UNAUTHENTICATED], get("/readyz", false), true)]
    #[case::nobody_discovers("system:anonymous", &[UNAUTHENTICATED], get("/api", false), false)]
    #[case::no_group("bob", &[], get("/version", false), false)]
    fn decisions(#[case] name: &str, #[case] groups: &[&str], #[case] action: Action, #[case] allowed: bool) {
        assert_eq!(decide(&Caller::new(name, groups), &action).is_some(), allowed);
    }

    #[rstest]
    #[case(
        get("/api/v1/namespaces/a/services", false),
        "services is forbidden: User \"bob\" cannot list resource \"services\" in API group \"\" in the namespace \"a\""
    )]
    #[case(
        get("/api/v1/namespaces/a/services", true),
        "services is forbidden: User \"bob\" cannot watch resource \"services\" in API group \"\" in the namespace \"a\""
    )]
    #[case(Action::of(&Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/web/scale", false),
        "deployments.apps \"web\" is forbidden: User \"bob\" cannot patch resource \"deployments/scale\" in API group \
         \"apps\" in the namespace \"a\"")]
    #[case(Action::of(&Method::DELETE, "/api/v1/nodes", false),
        "nodes is forbidden: User \"bob\" cannot deletecollection resource \"nodes\" in API group \"\" at the cluster scope")]
    #[case(
        get("/api/v1/namespaces/<a>", false),
        "namespaces \"<a>\" is forbidden: User \"bob\" cannot get resource \"namespaces\" in API group \"\" in the \
         namespace \"&lt;a&gt;\""
    )]
    #[case(get("/metrics", false), "forbidden: User \"bob\" cannot get path \"/metrics\"")]
    fn refusals(#[case] action: Action, #[case] message: &str) {
        let refused = authorize(&Caller::new("bob", &[AUTHENTICATED]), &action).unwrap_err();
        assert_eq!((refused.code(), refused.to_string().as_str()), (403, message));
    }
}
