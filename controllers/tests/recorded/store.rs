//! An API server's memory, as far as the recorded cases of the controllers need it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A change of the store, as a watch shows it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) plural: String,
    pub(crate) gone: bool,
    pub(crate) object: Value,
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<(String, String, String), Value>,
    version: u64,
    uids: u64,
    clock: i64,
    pub(crate) cidrs: Vec<String>,
    pub(crate) events: Vec<Event>,
}

/// Plural, namespace, name and subresource of a path.
pub(crate) fn split(path: &str) -> (String, String, String, String, String) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    parts.drain(..if parts[0] == "api" { 2 } else { 3 });
    let namespace = if parts[0] == "namespaces" && parts.len() > 2 {
        parts.remove(0);
        parts.remove(0).to_owned()
    } else {
        String::new()
    };
    let get = |i: usize| parts.get(i).copied().unwrap_or_default().to_owned();
    (get(0), namespace, get(1), get(2), query.to_owned())
}

impl Store {
    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn emit(&mut self, plural: &str, gone: bool, object: &Value) {
        self.events.push(Event { plural: plural.to_owned(), gone, object: object.clone() });
    }

    pub(crate) fn list(&self, plural: &str, namespace: &str) -> Vec<Value> {
        let all = self
            .objects
            .iter()
            .filter(|((p, ns, _), _)| p == plural && (namespace.is_empty() || ns == namespace));
        all.map(|(_, object)| object.clone()).collect()
    }

    pub(crate) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(plural.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn create(&mut self, plural: &str, namespace: &str, body: &Value) -> (u16, Value) {
        let mut object = body.clone();
        self.uids += 1;
        self.clock += 1;
        let version = self.next_version();
        let meta = object["metadata"].as_object_mut().unwrap();
        if !meta.contains_key("name") {
            let name = format!("{}{:05x}", meta["generateName"].as_str().unwrap(), self.uids);
            meta.insert("name".into(), json!(name));
        }
        let name = meta["name"].as_str().unwrap().to_owned();
        if self.get(plural, namespace, &name).is_some() {
            return (409, Value::Null);
        }
        meta.insert("uid".into(), json!(format!("{:08x}-0000-4000-8000-0000000000ff", self.uids)));
        meta.insert("resourceVersion".into(), json!(version));
        meta.insert(
            "creationTimestamp".into(),
            json!(format!("2030-01-01T00:{:02}:{:02}Z", self.clock / 60, self.clock % 60)),
        );
        meta.insert("generation".into(), json!(1));
        if !namespace.is_empty() {
            meta.insert("namespace".into(), json!(namespace));
        }
        let conflict = object.pointer("/metadata/annotations/service.kubernetes.io~1topology-mode").is_some()
            && object.pointer("/metadata/annotations/service.kubernetes.io~1topology-aware-hints").is_some();
        if conflict {
            return (422, Value::Null);
        }
        self.default(plural, &mut object);
        if plural == "pods" {
            object["status"] = json!({"phase": "Pending"});
        }
        self.put(plural, namespace, &name, object.clone());
        (201, object)
    }

    fn put(&mut self, plural: &str, namespace: &str, name: &str, object: Value) {
        self.emit(plural, false, &object);
        self.objects.insert((plural.to_owned(), namespace.to_owned(), name.to_owned()), object);
    }

    pub(crate) fn update(
        &mut self,
        plural: &str,
        namespace: &str,
        name: &str,
        mut new: Value,
    ) -> (u16, Value) {
        let Some(old) = self.get(plural, namespace, name).cloned() else { return (404, Value::Null) };
        let asked = new["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        if asked.is_some_and(|v| v != old["metadata"]["resourceVersion"]) {
            return (409, Value::Null);
        }
        for key in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "resourceVersion",
            "generation",
        ] {
            match &old["metadata"][key] {
                Value::Null => {}
                value => new["metadata"][key] = value.clone(),
            }
        }
        if !namespace.is_empty() {
            new["metadata"]["namespace"] = json!(namespace);
        }
        self.default(plural, &mut new);
        if new == old {
            return (200, old);
        }
        let core = |o: &Value| {
            let mut o = o.clone();
            let labels = o["metadata"]["labels"].clone();
            o["metadata"] = json!({"labels": labels});
            o
        };
        if core(&new) != core(&old) {
            new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
        }
        new["metadata"]["resourceVersion"] = json!(self.next_version());
        let held = new["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        if new["metadata"]["deletionTimestamp"].is_string()
            && !held
            && new["metadata"]["deletionGracePeriodSeconds"] == 0
        {
            self.objects.remove(&(plural.to_owned(), namespace.to_owned(), name.to_owned()));
            self.emit(plural, true, &new);
        } else {
            self.put(plural, namespace, name, new.clone());
        }
        (200, new)
    }

    pub(crate) fn delete(&mut self, plural: &str, namespace: &str, name: &str, query: &str) -> u16 {
        let Some(mut object) = self.get(plural, namespace, name).cloned() else { return 404 };
        let graceful = plural == "pods"
            && object["spec"]["nodeName"].is_string()
            && !query.contains("gracePeriodSeconds=0");
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        object["metadata"]["resourceVersion"] = json!(self.next_version());
        if graceful || held {
            object["metadata"]["deletionTimestamp"] = json!("2030-01-01T01:00:00Z");
            object["metadata"]["deletionGracePeriodSeconds"] = json!(if graceful { 30 } else { 0 });
            self.put(plural, namespace, name, object);
            return 200;
        }
        self.objects.remove(&(plural.to_owned(), namespace.to_owned(), name.to_owned()));
        self.emit(plural, true, &object);
        if plural == "services" {
            self.delete("endpoints", namespace, name, "");
        }
        200
    }

    pub(crate) fn patch(
        &mut self,
        plural: &str,
        namespace: &str,
        name: &str,
        kind: &str,
        body: &Value,
    ) -> (u16, Value) {
        let Some(old) = self.get(plural, namespace, name).cloned() else { return (404, Value::Null) };
        let mut new = old.clone();
        match kind {
            "application/json-patch+json" => remove_paths(&mut new, body),
            "application/strategic-merge-patch+json" => strategic(&mut new, body),
            _ => merge(&mut new, body),
        }
        if plural == "pods" && body["status"]["podIP"].is_string() && !body["status"]["podIPs"].is_array() {
            new["status"]["podIPs"] = json!([{"ip": body["status"]["podIP"]}]);
        }
        if plural == "services" {
            adjust_families(&mut new, body);
        }
        self.update(plural, namespace, name, new)
    }

    /// All objects of a kind in a namespace, but those called `kubernetes`.
    pub(crate) fn set_all(&mut self, plural: &str, namespace: &str, objects: BTreeMap<String, Value>) {
        let stays = |(kind, of, name): &(String, String, String)| {
            kind != plural || of != namespace || name == "kubernetes"
        };
        self.objects.retain(|key, _| stays(key));
        for (name, mut object) in objects {
            object["metadata"]["resourceVersion"] = json!(self.next_version());
            self.put(plural, namespace, &name, object);
        }
    }

    fn default(&self, plural: &str, object: &mut Value) {
        match plural {
            "services" => self.default_service(object),
            "endpointslices" => {
                for port in object["ports"].as_array_mut().into_iter().flatten() {
                    default(port, "name", json!(""));
                    default(port, "protocol", json!("TCP"));
                }
                for endpoint in object["endpoints"].as_array_mut().into_iter().flatten() {
                    default(endpoint, "conditions", json!({}));
                }
                for key in ["ports", "endpoints"] {
                    default(object, key, json!([]));
                }
            }
            "endpoints" => {
                for subset in object["subsets"].as_array_mut().into_iter().flatten() {
                    for port in subset["ports"].as_array_mut().into_iter().flatten() {
                        default(port, "protocol", json!("TCP"));
                    }
                }
                if object["subsets"].as_array().is_some_and(Vec::is_empty) {
                    object.as_object_mut().unwrap().remove("subsets");
                }
            }
            _ => {}
        }
        let meta = object["metadata"].as_object_mut().unwrap();
        for key in ["labels", "annotations", "finalizers"] {
            let empty = match meta.get(key) {
                Some(Value::Object(map)) => map.is_empty(),
                Some(Value::Array(list)) => list.is_empty(),
                Some(Value::Null) => true,
                _ => false,
            };
            if empty {
                meta.remove(key);
            }
        }
    }

    fn default_service(&self, object: &mut Value) {
        let dual = self.cidrs.len() > 1;
        let spec = object["spec"].as_object_mut().unwrap();
        spec.entry("type").or_insert(json!("ClusterIP"));
        if spec["type"] == "ExternalName" {
            spec.remove("clusterIP");
            spec.remove("ipFamilies");
            return;
        }
        spec.entry("clusterIP").or_insert(json!("10.96.0.9"));
        let policy = spec.get("ipFamilyPolicy").and_then(Value::as_str).unwrap_or("SingleStack").to_owned();
        if !spec.contains_key("ipFamilies") {
            let families =
                if dual && policy != "SingleStack" { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
            spec.insert("ipFamilies".into(), families);
        }
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            default(port, "protocol", json!("TCP"));
            let number = port["port"].clone();
            default(port, "targetPort", number);
        }
    }
}

fn adjust_families(new: &mut Value, body: &Value) {
    match body["spec"]["ipFamilyPolicy"].as_str() {
        Some("SingleStack") => new["spec"]["ipFamilies"].as_array_mut().unwrap().truncate(1),
        Some(_) => new["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]),
        None => {}
    }
}

fn default(object: &mut Value, key: &str, value: Value) {
    let object = object.as_object_mut().unwrap();
    if object.get(key).is_none_or(Value::is_null) {
        object.insert(key.to_owned(), value);
    }
}

pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let object = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// As a merge, but conditions are merged by type.
fn strategic(target: &mut Value, patch: &Value) {
    let mut patch = patch.clone();
    if let Some(wanted) = patch["status"]["conditions"].as_array().cloned() {
        let mut conditions = target["status"]["conditions"].as_array().cloned().unwrap_or_default();
        for one in wanted {
            match conditions.iter_mut().find(|c| c["type"] == one["type"]) {
                Some(known) => merge(known, &one),
                None => conditions.push(one),
            }
        }
        patch["status"]["conditions"] = json!(conditions);
    }
    merge(target, &patch);
}

fn remove_paths(target: &mut Value, patch: &Value) {
    for step in patch.as_array().unwrap() {
        assert_eq!(step["op"], "remove", "only removals are recorded");
        let path = step["path"].as_str().unwrap();
        let (parent, key) = path.rsplit_once('/').unwrap();
        if let Some(Value::Object(map)) = target.pointer_mut(parent) {
            map.remove(key);
        }
    }
}
