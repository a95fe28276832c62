//! A ServiceCIDR as it is read and written.

use std::borrow::Cow;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::cache::{Seconds, rfc3339};
use crate::keys;
use crate::objects::ObjectKind;
use crate::text::Text;
use crate::watch::stream::Followed;

/// Why the condition Ready is not true of a range that is deleted.
pub(crate) const TERMINATING: &str = "Terminating";

/// A ServiceCIDR. Whatever is in it, it can be read: a list does not end at it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ServiceCidr {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec, as it was written.
    pub spec: Value,
    /// Status, as it was written.
    pub status: Value,
    /// Why its metadata cannot be read, if they cannot.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

impl<'de> Deserialize<'de> for ServiceCidr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut whole = Value::deserialize(deserializer)?;
        let mut part = |key: &str| whole.get_mut(key).map(Value::take).unwrap_or_default();
        let (meta, spec, status) = (part("metadata"), part("spec"), part("status"));
        let text = |key: &str| meta[key].as_str().map(ToOwned::to_owned);
        let (name, version) = (text("name"), text("resourceVersion"));
        let (metadata, unreadable) = match serde_json::from_value(meta) {
            Ok(metadata) => (metadata, None),
            Err(error) => {
                let metadata = ObjectMeta { name, resource_version: version, ..ObjectMeta::default() };
                (metadata, Some(error.to_string()))
            }
        };
        Ok(Self { metadata, spec, status, unreadable })
    }
}

impl Followed for ServiceCidr {}

impl kube::Resource for ServiceCidr {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        ObjectKind::Cidrs.name().into()
    }

    fn group((): &()) -> Cow<'_, str> {
        ObjectKind::Cidrs.group().into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        ObjectKind::Cidrs.resource().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What the condition Ready says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Whether the range can be used.
    pub usable: bool,
    /// Why not, in a word.
    pub reason: &'static str,
    /// What is said to people.
    pub message: String,
}

impl ServiceCidr {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> Text {
        self.metadata.name.as_deref().unwrap_or_default().into()
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// Its ranges; what is none is left out.
    #[must_use]
    pub fn prefixes(&self) -> Vec<IpNet> {
        let listed = self.spec["cidrs"].as_array().into_iter().flatten();
        listed.filter_map(|prefix| prefix.as_str()?.parse().ok()).collect()
    }

    /// When its deletion was asked for.
    #[must_use]
    pub fn deleted(&self) -> Option<Seconds> {
        self.metadata.deletion_timestamp.as_ref().map(|time| time.0.as_second())
    }

    /// Whether it carries our finalizer.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        let finalizers = self.metadata.finalizers.iter().flatten();
        finalizers.into_iter().any(|finalizer| finalizer == keys::SERVICE_CIDR_FINALIZER)
    }

    /// Whether it says already that it is being removed and cannot go.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.conditions().iter().any(|c| c["type"] == "Ready" && c["reason"] == TERMINATING)
    }

    fn conditions(&self) -> Vec<Value> {
        self.status["conditions"].as_array().cloned().unwrap_or_default()
    }

    /// Whether the condition Ready is just this.
    #[must_use]
    pub fn says(&self, said: &Ready) -> bool {
        let conditions = self.conditions();
        let Some(ready) = conditions.iter().find(|c| c["type"] == "Ready") else { return false };
        ready["status"] == if said.usable { "True" } else { "False" }
            && ready["reason"].as_str().unwrap_or_default() == said.reason
            && ready["message"].as_str().unwrap_or_default() == said.message
    }

    /// The patch of the status that says this at a time; what others say in the condition or beside it stays.
    #[must_use]
    pub fn saying(&self, said: &Ready, now: jiff::Timestamp) -> Value {
        let mut conditions = self.conditions();
        let place = conditions.iter().position(|c| c["type"] == "Ready").unwrap_or_else(|| {
            conditions.push(json!({"type": "Ready"}));
            conditions.len() - 1
        });
        let ready = &mut conditions[place];
        ready["status"] = if said.usable { "True" } else { "False" }.into();
        ready["reason"] = said.reason.into();
        ready["message"] = said.message.as_str().into();
        ready["lastTransitionTime"] = rfc3339(now.as_second()).into();
        json!({
            "metadata": {"uid": self.metadata.uid, "resourceVersion": self.metadata.resource_version},
            "status": {"conditions": conditions},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servicecidr::plan;

    #[test]
    fn what_others_say_in_a_status_stays() {
        let mut cidr = ServiceCidr {
            status: json!({"conditions": [
                {"type": "Ready", "status": "False", "reason": "Made", "message": "up", "observedGeneration": 3},
                {"type": "Seen", "status": "True"},
            ]}),
            ..ServiceCidr::default()
        };
        let now = jiff::Timestamp::UNIX_EPOCH;
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "", "message": plan::READY, "observedGeneration": 3,
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        });
        let seen = json!({"type": "Seen", "status": "True"});
        assert_eq!(cidr.saying(&plan::usable(&[]), now)["status"]["conditions"], json!([ready, seen]));
        cidr.status["conditions"].as_array_mut().unwrap().remove(0);
        let made = cidr.saying(&plan::usable(&[]), now)["status"]["conditions"].clone();
        assert_eq!((&made[0], &made[1]["type"]), (&seen, &json!("Ready")));
    }

    #[test]
    fn any_object_can_be_read() {
        for odd in [
            r#"{"metadata":{"name":"a","resourceVersion":"3","labels":7}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"3"},"spec":{"cidrs":[3,"x"]},"status":[]}"#,
        ] {
            let cidr: ServiceCidr = serde_json::from_str(odd).unwrap();
            assert_eq!((&*cidr.name(), cidr.prefixes().len()), ("a", 0));
            assert!(!cidr.says(&plan::usable(&[])));
        }
    }
}
