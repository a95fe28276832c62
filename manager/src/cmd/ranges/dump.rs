//! Objects from files that `kubectl get -o yaml` or `-o json` wrote.
//!
//! Owns which kinds are taken from them; others are left out, so that a dump of everything will do.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use service_allocators::ranges::Objects;

/// A file that is no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// Not readable.
    #[error("--dump {file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Neither YAML nor JSON.
    #[error("--dump {file}: neither YAML nor JSON: {reason}")]
    Text {
        /// The file.
        file: PathBuf,
        /// What the reader says.
        reason: String,
    },
    /// An object that is not what its kind says.
    #[error("--dump {file}: {kind} {name:?}: {source}")]
    Object {
        /// The file.
        file: PathBuf,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// The objects of all files.
pub(super) fn read(files: &[PathBuf]) -> Result<Objects, DumpError> {
    let mut objects = Objects::default();
    for file in files {
        let text = contents(file).map_err(|source| DumpError::Read { file: file.clone(), source })?;
        let documents = parse(&text).map_err(|reason| DumpError::Text { file: file.clone(), reason })?;
        for document in documents {
            add(&mut objects, document, file)?;
        }
    }
    Ok(objects)
}

fn contents(file: &Path) -> io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}

/// One or several documents. What is JSON is read as such: that is a hundred times faster.
fn parse(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with('{') {
        let documents = serde_json::Deserializer::from_str(text).into_iter();
        return documents.collect::<Result<_, _>>().map_err(|error| error.to_string());
    }
    // The reader's limits are for what strangers send; a cluster can be larger.
    let options = serde_saphyr::options! { budget: None };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string())
}

fn add(objects: &mut Objects, object: Value, file: &Path) -> Result<(), DumpError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    if let Some(short) = kind.strip_suffix("List") {
        let Value::Object(mut list) = object else { return Ok(()) };
        let Some(Value::Array(items)) = list.remove("items") else { return Ok(()) };
        for mut item in items {
            // Items of a list that a server sent do not say what they are.
            if item.get("kind").is_none() && !short.is_empty() {
                item["kind"] = short.into();
                item["apiVersion"] = version.clone().into();
            }
            add(objects, item, file)?;
        }
        return Ok(());
    }
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    let bad = |source| DumpError::Object { file: file.to_owned(), kind: kind.clone(), name, source };
    match (group, kind.as_str()) {
        ("", "Service") => objects.services.push(typed(object).map_err(bad)?),
        ("", "Node") => objects.nodes.push(typed(object).map_err(bad)?),
        ("networking.k8s.io", "ServiceCIDR") => objects.cidrs.push(typed(object).map_err(bad)?),
        ("networking.k8s.io", "IPAddress") => {
            objects.addresses.get_or_insert_default().push(typed(object).map_err(bad)?);
        }
        (service_api::crds::GROUP, "NodePortRange") => objects.port_ranges.push(typed(object).map_err(bad)?),
        (service_api::crds::GROUP, "ServicePool") => objects.pools.push(typed(object).map_err(bad)?),
        _ => {}
    }
    Ok(())
}

fn typed<T: DeserializeOwned>(object: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(object)
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
        assert!(error.contains("dump: neither YAML nor JSON: EOF"), "{error}");
        let error = read_text("kind: Service\napiVersion: v1\nmetadata: {name: a}\nspec: 7\n").unwrap_err();
        assert!(error.to_string().contains("dump: Service \"a\": invalid type"), "{error}");
        let error = read(&[PathBuf::from("/nowhere")]).unwrap_err().to_string();
        assert!(error.starts_with("--dump /nowhere: No such file"), "{error}");
    }
}
