//! What requests ask for and what RBAC rules allow (rbac.authorization.k8s.io/v1 API reference).
//!
//! Owns the reading of rules and requests; knows nothing of who is bound to a rule.

use std::collections::BTreeSet;

use http::{Method, Uri};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use serde_json::Value;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// The API group, empty for the core group.
    pub group: String,
    /// The resource with its subresource, as rules name it: `servicecidrs/status`.
    pub resource: String,
    /// The namespace; none for what is in none, and for all of them.
    pub namespace: Option<String>,
    /// The object.
    pub name: Option<String>,
}

impl Asked {
    /// What a request asks for; none if it is about no resource (`/version`).
    pub fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
        let group = match parts.next()? {
            "api" => String::new(),
            "apis" => parts.next()?.to_owned(),
            _ => return None,
        };
        let mut rest: Vec<&str> = parts.skip(1).collect();
        let mut namespace = None;
        // A namespace itself is `namespaces/NAME`, something in it has more.
        if rest.first() == Some(&"namespaces") && rest.len() > 2 && !matches!(rest[2], "status" | "finalize")
        {
            namespace = rest.drain(..2).next_back().map(ToOwned::to_owned);
        }
        let name = rest.get(1).map(ToString::to_string);
        let resource = (*rest.first()?).to_owned();
        let resource = rest.get(2).map_or(resource.clone(), |sub| format!("{resource}/{sub}"));
        let watches =
            uri.query().is_some_and(|query| query.split('&').any(|p| matches!(p, "watch=true" | "watch=1")));
        let verb = match (method, &name) {
            (&Method::GET, Some(_)) => "get",
            (&Method::GET, None) if watches => "watch",
            (&Method::GET, None) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, Some(_)) => "delete",
            (&Method::DELETE, None) => "deletecollection",
            _ => return None,
        };
        Some(Self { verb, group, resource, namespace, name })
    }
}

/// The rules of a manifest's ClusterRoles, and of its Roles for their namespace.
#[derive(Debug, Default)]
pub struct Rules {
    everywhere: Vec<PolicyRule>,
    in_namespace: Vec<(String, PolicyRule)>,
}

impl Rules {
    /// Reads the objects of a manifest; those of other kinds say nothing here.
    pub fn read(objects: Vec<Value>) -> Result<Self, serde_json::Error> {
        let mut rules = Self::default();
        for object in objects {
            match object["kind"].as_str() {
                Some("ClusterRole") => {
                    let role: ClusterRole = serde_json::from_value(object)?;
                    rules.everywhere.extend(role.rules.unwrap_or_default());
                }
                Some("Role") => {
                    let role: Role = serde_json::from_value(object)?;
                    let namespace = role.metadata.namespace.unwrap_or_default();
                    rules.in_namespace.extend(
                        role.rules.unwrap_or_default().into_iter().map(|rule| (namespace.clone(), rule)),
                    );
                }
                _ => {}
            }
        }
        Ok(rules)
    }

    /// Whether some rule allows it.
    pub fn allow(&self, asked: &Asked) -> bool {
        let here = |(namespace, _): &&(String, PolicyRule)| asked.namespace.as_ref() == Some(namespace);
        let here = self.in_namespace.iter().filter(here).map(|(_, rule)| rule);
        self.everywhere.iter().chain(here).any(|rule| allows(rule, asked))
    }

    /// Each verb at each resource that some rule allows, as `verb group/resource`.
    pub fn all(&self) -> BTreeSet<String> {
        let rules = self.everywhere.iter().chain(self.in_namespace.iter().map(|(_, rule)| rule));
        let mut all = BTreeSet::new();
        for rule in rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    all.extend(rule.verbs.iter().map(|verb| written(verb, group, resource)));
                }
            }
        }
        all
    }
}

/// A verb at a resource, as [`Rules::all`] writes it.
pub fn written(verb: &str, group: &str, resource: &str) -> String {
    format!("{verb} {group}/{resource}")
}

/// Wildcards are not read: least privilege has none.
fn allows(rule: &PolicyRule, asked: &Asked) -> bool {
    let has = |list: &Option<Vec<String>>, text: &str| list.iter().flatten().any(|item| item == text);
    let named = rule.resource_names.as_ref().filter(|names| !names.is_empty());
    has(&rule.api_groups, &asked.group)
        && has(&rule.resources, &asked.resource)
        && rule.verbs.iter().any(|verb| verb == asked.verb)
        && named.is_none_or(|names| asked.name.as_ref().is_some_and(|name| names.contains(name)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn asked(method: &str, uri: &str) -> Option<Asked> {
        Asked::of(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[rstest]
    #[case("GET", "/api/v1/pods?limit=1", "list /pods")]
    #[case("GET", "/api/v1/pods?limit=1&watch=true", "watch /pods")]
    #[case("GET", "/api/v1/namespaces/n/endpoints/e", "get /endpoints")]
    #[case("POST", "/api/v1/namespaces/n/events", "create /events")]
    #[case(
        "PUT",
        "/apis/discovery.k8s.io/v1/namespaces/n/endpointslices/s",
        "update discovery.k8s.io/endpointslices"
    )]
    #[case(
        "PATCH",
        "/apis/networking.k8s.io/v1/servicecidrs/c/status",
        "patch networking.k8s.io/servicecidrs/status"
    )]
    #[case("PUT", "/api/v1/namespaces/n/services/s/status", "update /services/status")]
    #[case("PUT", "/api/v1/nodes/n1/status", "update /nodes/status")]
    #[case("DELETE", "/api/v1/namespaces/n", "delete /namespaces")]
    #[case("PUT", "/api/v1/namespaces/n/finalize", "update /namespaces/finalize")]
    #[case("DELETE", "/api/v1/namespaces/n/pods", "deletecollection /pods")]
    fn what_a_request_asks_for(#[case] method: &str, #[case] uri: &str, #[case] says: &str) {
        let asked = asked(method, uri).unwrap();
        assert_eq!(written(asked.verb, &asked.group, &asked.resource), says);
    }

    #[test]
    fn a_role_counts_in_its_namespace_and_names_count() {
        let rule = |resource: &str, names: &[&str]| json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"], "resourceNames": names}]);
        let rules = Rules::read(vec![
            json!({"kind": "ClusterRole", "metadata": {}, "rules": rule("pods", &[])}),
            json!({"kind": "Role", "metadata": {"namespace": "n"}, "rules": rule("secrets", &["one"])}),
            json!({"kind": "ServiceAccount"}),
        ])
        .unwrap();
        let allow = |uri: &str| rules.allow(&asked("GET", uri).unwrap());
        assert!(allow("/api/v1/namespaces/any/pods/p") && allow("/api/v1/namespaces/n/secrets/one"));
        assert!(!allow("/api/v1/namespaces/n/secrets/two") && !allow("/api/v1/namespaces/m/secrets/one"));
        assert!(!allow("/api/v1/pods") && asked("GET", "/version").is_none());
        assert_eq!(rules.all(), BTreeSet::from(["get /pods".to_owned(), "get /secrets".to_owned()]));
    }
}
