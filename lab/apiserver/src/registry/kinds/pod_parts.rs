//! `pods/ephemeralcontainers` and `pods/resize`: each writes one part of a pod's spec; whatever else is sent is left out.
//!
//! Nothing acts on these parts here: containers do not run. Source: the API reference of Pod v1.

use std::collections::HashSet;

use serde_json::Value;
use service_api::errors::{self, FieldErrors, Path};
use service_api::names;

use super::fields::{each_mut, list, text};
use super::pod_spec::qos_class;

/// Leaves of `new` the ephemeral containers, and takes the rest of the spec from `old`.
pub(super) fn take_ephemeral(new: &mut Value, old: &Value) {
    let sent = std::mem::replace(&mut new["spec"], old["spec"].clone());
    super::fields::keep(&mut new["spec"], &sent, "ephemeralContainers");
}

/// Leaves of `new` what its containers ask for, and takes the rest of the spec from `old`.
pub(super) fn take_resources(new: &mut Value, old: &Value) {
    let sent = std::mem::replace(&mut new["spec"], old["spec"].clone());
    for containers in ["/containers", "/initContainers"] {
        let sent = list(&sent, containers);
        for container in each_mut(&mut new["spec"], containers) {
            let name = text(container, "/name").to_owned();
            let Some(asked) = sent.iter().find(|sent| text(sent, "/name") == name) else { continue };
            for field in ["resources", "resizePolicy"] {
                super::fields::keep(container, asked, field);
            }
        }
    }
}

/// Faults of ephemeral containers: they can be added, and neither changed nor removed.
pub(super) fn ephemeral_faults(new: &Value, old: &Value) -> FieldErrors {
    let path = Path::root("spec").child("ephemeralContainers");
    let mut faults = FieldErrors::new();
    let others = list(new, "/spec/containers").iter().chain(list(new, "/spec/initContainers"));
    let mut seen: HashSet<&str> = others.map(|container| text(container, "/name")).collect();
    let (added, before) = (list(new, "/spec/ephemeralContainers"), list(old, "/spec/ephemeralContainers"));
    for (at, container) in added.iter().enumerate() {
        let path = path.index(at);
        let name = text(container, "/name");
        if name.is_empty() {
            faults.push(errors::required(path.child("name"), ""));
        } else {
            let field = path.child("name");
            faults.extend(names::dns_label(name).into_iter().map(|why| errors::invalid(&field, name, why)));
            if !seen.insert(name) {
                faults.push(errors::duplicate(field, name));
            }
        }
        if text(container, "/image").is_empty() {
            faults.push(errors::required(path.child("image"), ""));
        }
        for field in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
            if container.get(field).is_some_and(|value| !value.is_null()) {
                faults.push(errors::forbidden(path.child(field), "cannot be set for an Ephemeral Container"));
            }
        }
    }
    for known in before {
        let name = text(known, "/name");
        let why = match added.iter().find(|container| text(container, "/name") == name) {
            None => format!("existing ephemeral containers {name:?} may not be removed"),
            Some(container) if container != known => {
                format!("existing ephemeral containers {name:?} may not be changed")
            }
            Some(_) => continue,
        };
        faults.push(errors::forbidden(&path, why));
    }
    faults
}

/// The fault of a resize that would make the pod one of another class.
pub(super) fn resize_faults(new: &Value, old: &Value) -> FieldErrors {
    let class = qos_class(new);
    if class == qos_class(old) {
        return FieldErrors::new();
    }
    vec![errors::invalid("spec", class, "Pod QOS Class may not change as a result of resizing")].into()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({"spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}],
            "ephemeralContainers": [{"name": "known", "image": "i:1"}]}})
    }

    #[rstest]
    #[case::added(json!([{"name": "known", "image": "i:1"}, {"name": "e", "image": "i:1"}]), &[])]
    #[case::gone(json!([]), &["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"known\" may not be removed"])]
    #[case::changed(json!([{"name": "known", "image": "i:2"}]),
        &["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"known\" may not be changed"])]
    #[case::faulty(json!([{"name": "known", "image": "i:1"}, {"name": "c"}, {"image": "i", "ports": []}]),
        &["spec.ephemeralContainers[1].name: Duplicate value: \"c\"", "spec.ephemeralContainers[1].image: Required value",
          "spec.ephemeralContainers[2].name: Required value",
          "spec.ephemeralContainers[2].ports: Forbidden: cannot be set for an Ephemeral Container"])]
    fn ephemeral_containers(#[case] containers: Value, #[case] expected: &[&str]) {
        let old = pod();
        let mut new = json!({"spec": {"nodeName": "other", "ephemeralContainers": containers}});
        take_ephemeral(&mut new, &old);
        assert_eq!(new["spec"]["nodeName"], "n");
        let found: Vec<String> = ephemeral_faults(&new, &old).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_resize_changes_what_containers_ask_for_and_no_class() {
        let old = pod();
        let mut new = old.clone();
        new["spec"]["containers"][0] =
            json!({"name": "c", "image": "i:2", "resources": {"requests": {"cpu": "2"}}});
        take_resources(&mut new, &old);
        assert_eq!(new["spec"]["containers"][0]["image"], "i:1");
        assert_eq!(new["spec"]["containers"][0]["resources"], json!({"requests": {"cpu": "2"}}));
        assert_eq!(resize_faults(&new, &old), []);
        new["spec"]["containers"][0]["resources"] = json!({});
        assert_eq!(resize_faults(&new, &old).len(), 1);
    }
}
