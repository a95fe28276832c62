//! What the server offers: the documents below `/api` and `/apis`, plain and aggregated, built once from the table of
//! kinds.
//!
//! Pure. The OpenAPI documents are elsewhere (`openapi`).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::registry::Registry;
use crate::registry::resource_info::{ResourceInfo, Verb};

/// `Content-Type` of aggregated discovery.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `GET /api`.
pub fn core_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": server_address }],
    })
}

/// `GET /apis`.
pub fn groups(registry: &Registry) -> Value {
    let groups: Vec<_> =
        group_versions(registry).into_iter().filter(|(group, _)| !group.is_empty()).collect();
    json!({
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": groups.iter().map(|(group, versions)| group_members(group, versions)).collect::<Vec<_>>(),
    })
}

/// `GET /apis/{group}`.
pub fn group(registry: &Registry, name: &str) -> Option<Value> {
    let versions = group_versions(registry).remove(name).filter(|_| !name.is_empty())?;
    let mut out = group_members(name, &versions);
    out["kind"] = json!("APIGroup");
    out["apiVersion"] = json!("v1");
    Some(out)
}

/// `GET /api/v1` or `GET /apis/{group}/{version}`.
pub fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut rows: Vec<(String, Value)> = Vec::new();
    for info in of_version(registry, group, version) {
        rows.push((info.resource.to_owned(), resource_row(info)));
        for sub in info.subresources {
            let name = format!("{}/{}", info.resource, sub.name);
            let mut row = json!({
                "name": name, "singularName": "", "namespaced": info.namespaced(), "kind": info.kind,
                "verbs": names(sub.verbs),
            });
            if let Some((group, version, kind)) = sub.kind {
                row["group"] = json!(group);
                row["version"] = json!(version);
                row["kind"] = json!(kind);
            }
            rows.push((name, row));
        }
    }
    if rows.is_empty() {
        return None;
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    let mut out = json!({ "kind": "APIResourceList", "resources": rows });
    out["groupVersion"] =
        json!(if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") });
    if !group.is_empty() {
        out["apiVersion"] = json!("v1");
    }
    Some(out)
}

/// Aggregated `GET /api` (`core`) or `GET /apis`.
pub fn aggregated(registry: &Registry, core: bool) -> Value {
    let groups = group_versions(registry).into_iter().filter(|(group, _)| group.is_empty() == core);
    let items: Vec<_> = groups
        .map(|(group, versions)| {
            let versions: Vec<_> = versions
                .iter()
                .map(|version| {
                    let mut entries: Vec<_> = of_version(registry, group, version).collect();
                    entries.sort_by_key(|info| info.resource);
                    let resources: Vec<_> = entries.into_iter().map(aggregated_row).collect();
                    json!({ "version": version, "resources": resources, "freshness": "Current" })
                })
                .collect();
            let mut metadata = Map::new();
            metadata.insert("creationTimestamp".to_owned(), Value::Null);
            if !group.is_empty() {
                metadata.insert("name".to_owned(), json!(group));
            }
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn of_version<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a ResourceInfo> + 'a {
    registry.entries().iter().filter(move |info| info.group == group && info.version == version)
}

/// Groups in order of name, each with its versions in table order.
fn group_versions(registry: &Registry) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut out: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for info in registry.entries() {
        let versions = out.entry(info.group).or_default();
        if !versions.contains(&info.version) {
            versions.push(info.version);
        }
    }
    out
}

fn group_members(group: &str, versions: &[&str]) -> Value {
    let rows: Vec<_> = versions
        .iter()
        .map(|version| json!({ "groupVersion": format!("{group}/{version}"), "version": version }))
        .collect();
    json!({ "name": group, "preferredVersion": rows.first(), "versions": rows })
}

fn names(verbs: &[Verb]) -> Vec<&'static str> {
    verbs.iter().map(|verb| verb.name()).collect()
}

fn resource_row(info: &ResourceInfo) -> Value {
    let mut row = json!({
        "name": info.resource, "singularName": info.singular, "namespaced": info.namespaced(),
        "kind": info.kind, "verbs": names(info.verbs),
    });
    if !info.short_names.is_empty() {
        row["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        row["categories"] = json!(info.categories);
    }
    row
}

fn aggregated_row(info: &ResourceInfo) -> Value {
    let response =
        |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let mut row = json!({
        "resource": info.resource,
        "responseKind": response(info.group, info.version, info.kind),
        "scope": if info.namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular,
        "verbs": names(info.verbs),
    });
    if !info.short_names.is_empty() {
        row["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        row["categories"] = json!(info.categories);
    }
    if !info.subresources.is_empty() {
        let subs: Vec<_> = info
            .subresources
            .iter()
            .map(|sub| {
                let (group, version, kind) = sub.kind.unwrap_or((info.group, info.version, info.kind));
                json!({
                    "subresource": sub.name,
                    "responseKind": response(group, version, kind),
                    "verbs": names(sub.verbs),
                })
            })
            .collect();
        row["subresources"] = json!(subs);
    }
    row
}
