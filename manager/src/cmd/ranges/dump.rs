//! Objects from files that `kubectl get -o yaml` or `-o json` wrote.
//!
//! Owns which kinds are taken from them; others are left out, so that a dump of everything will do.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use service_allocators::ranges::Objects;

use crate::objects::{
    Item,
    dump::{self, DumpError},
};

/// The objects of all files.
pub(super) fn read(files: &[PathBuf]) -> Result<Objects, DumpError> {
    let mut objects = Objects::default();
    dump::read(files, &mut |item| add(&mut objects, item))?;
    Ok(objects)
}

fn add(objects: &mut Objects, item: Item<'_>) -> Result<(), serde_json::Error> {
    match (item.group, item.kind) {
        ("", "Service") => objects.services.push(typed(item)?),
        ("", "Node") => objects.nodes.push(typed(item)?),
        ("networking.k8s.io", "ServiceCIDR") => objects.cidrs.push(typed(item)?),
        ("networking.k8s.io", "IPAddress") => objects.addresses.get_or_insert_default().push(typed(item)?),
        (service_api::crds::GROUP, "NodePortRange") => objects.port_ranges.push(typed(item)?),
        (service_api::crds::GROUP, "ServicePool") => objects.pools.push(typed(item)?),
        _ => {}
    }
    Ok(())
}

fn typed<T: DeserializeOwned>(item: Item<'_>) -> Result<T, serde_json::Error> {
    serde_json::from_slice(item.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Objects, DumpError> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dump");
        std::fs::write(&file, text).unwrap();
        read(&[file])
    }

    const YAML: &str = "\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: a, namespace: shop}
  spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{port: 80}]}
- apiVersion: networking.k8s.io/v1
  kind: ServiceCIDR
  metadata: {name: kubernetes}
  spec: {cidrs: [10.96.0.0/12]}
- {apiVersion: v1, kind: Secret, metadata: {name: x}, data: 7}
---
apiVersion: service-control-plane.io/v1alpha1
kind: NodePortRange
metadata: {name: main}
spec: {firstPort: 30000, lastPort: 30009}
";

    #[test]
    fn a_list_and_a_document_behind_it() {
        let objects = read_text(YAML).unwrap();
        let counts = (objects.services.len(), objects.cidrs.len(), objects.port_ranges.len());
        assert_eq!((counts, objects.addresses.is_none()), ((1, 1, 1), true));
    }

    #[test]
    fn items_of_a_server_do_not_say_what_they_are() {
        let objects = read_text(
            r#"{"kind": "IPAddressList", "apiVersion": "networking.k8s.io/v1", "items": [{"metadata": {"name": "10.96.0.1"},
                "spec": {"parentRef": {"resource": "services", "namespace": "a", "name": "b"}}}]}"#,
        )
        .unwrap();
        assert_eq!(objects.addresses.unwrap().len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_file() {
        let error = read_text("{").unwrap_err().to_string();
        assert!(error.contains("dump: it ends in the middle of an object"), "{error}");
        let error = read_text("kind: Service\napiVersion: v1\nmetadata: {name: a}\nspec: 7\n").unwrap_err();
        assert!(error.to_string().contains("dump: Service \"a\": invalid type"), "{error}");
        let error = read(&[PathBuf::from("/nowhere")]).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere: No such file"), "{error}");
    }
}
