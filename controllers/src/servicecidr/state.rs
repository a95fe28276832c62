//! The ServiceCIDR controller's caches: ranges and the addresses allocated for Services.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::plan::{self, Need};
use crate::api::{Answer, Refusal, Reply, Resource, Verb, Write};
use crate::backoff::Backoff;
use crate::endpointslice::state::End;
use crate::keys;
use crate::text::{Text, Uid};
use crate::watch::cache::{Seconds, label, seconds, version};
use crate::watch::objects::{CidrWire, IpAddressWire, MetaWire};
use crate::watch::world::{Controller, Note, Pace, World};

/// A ServiceCIDR.
#[derive(Clone, Debug, Default)]
pub struct Cidr {
    /// Uid.
    pub uid: Uid,
    /// Version of the object.
    pub version: u64,
    /// Its ranges.
    pub prefixes: Vec<IpNet>,
    /// When its deletion was asked for.
    pub deleted: Option<Seconds>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// What the condition Ready says.
    pub ready: Option<bool>,
    /// The reason that the condition Ready gives.
    pub reason: String,
    /// What the condition Ready says to people.
    pub told: String,
    /// All conditions, as they are.
    pub conditions: Vec<Value>,
    pub(crate) backoff: Backoff,
}

impl Cidr {
    /// Whether it carries our finalizer.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|f| f == keys::SERVICE_CIDR_FINALIZER)
    }

    /// Whether the condition Ready is just this.
    pub(super) fn is_saying(&self, ready: bool, reason: &str, told: &str) -> bool {
        self.ready == Some(ready) && self.reason == reason && self.told == told
    }

    fn says(&mut self, ready: bool, reason: &str, told: &str) {
        self.ready = Some(ready);
        reason.clone_into(&mut self.reason);
        told.clone_into(&mut self.told);
    }

    fn read(wire: CidrWire) -> Self {
        let ready = wire.status.conditions.iter().find(|c| c["type"] == "Ready");
        Self {
            uid: wire.metadata.uid.as_str().into(),
            version: version(&wire.metadata),
            prefixes: wire.spec.cidrs.iter().filter_map(|c| c.parse().ok()).collect(),
            deleted: seconds(wire.metadata.deletion_timestamp.as_ref()),
            ready: ready.and_then(|c| c["status"].as_str()).map(|s| s == "True"),
            reason: ready.and_then(|c| c["reason"].as_str()).unwrap_or_default().to_owned(),
            told: ready.and_then(|c| c["message"].as_str()).unwrap_or_default().to_owned(),
            conditions: wire.status.conditions,
            finalizers: wire.metadata.finalizers,
            backoff: Backoff::default(),
        }
    }
}

/// What has to be done for a ServiceCIDR.
#[derive(Debug)]
pub enum CidrStep {
    /// Nothing.
    Idle,
    /// Another look later.
    Wait(Duration),
    /// This write has to be sent.
    Send(Box<CidrJob>),
}

/// A write of the ServiceCIDR controller.
#[derive(Debug)]
pub struct CidrJob {
    /// The ServiceCIDR.
    pub name: Text,
    /// The write.
    pub write: Write,
    after: Cidr,
}

impl World {
    /// A ServiceCIDR as it is now.
    pub fn cidr(&mut self, wire: CidrWire) {
        let name = self.shared.texts.text(&wire.metadata.name);
        self.relists.cidrs.see("", &name);
        let new = Cidr::read(wire);
        let known = self.cidrs.get(&name).filter(|k| k.uid == new.uid);
        if known.is_some_and(|k| k.version >= new.version) {
            return;
        }
        self.cidrs.insert(name, new);
        self.cidrs_changed();
    }

    /// A ServiceCIDR that is gone.
    pub fn cidr_deleted(&mut self, name: &str) {
        if self.cidrs.remove(name).is_some() {
            self.cidrs_changed();
        }
    }

    /// Ranges depend on each other, and there are few.
    fn cidrs_changed(&mut self) {
        for name in self.cidrs.keys().cloned().collect::<Vec<_>>() {
            self.wake(Controller::Cidrs, &"".into(), &name, Pace::Now);
        }
    }

    /// An `IPAddress` as it is now; only those of Services count.
    pub fn ip_address(&mut self, wire: &IpAddressWire) {
        let name = self.shared.texts.text(&wire.metadata.name);
        self.relists.addresses.see("", &name);
        let Ok(ip) = wire.metadata.name.parse::<IpAddr>() else { return };
        let family = if ip.is_ipv6() { "IPv6" } else { "IPv4" };
        if label(&wire.metadata, keys::IPADDRESS_MANAGED_BY) == Some(keys::IPADDRESS_MANAGER)
            && label(&wire.metadata, keys::IP_FAMILY) == Some(family)
        {
            if self.addresses.insert(ip) {
                self.address_changed(ip);
            }
        } else if self.addresses.remove(&ip) {
            self.address_changed(ip);
        }
    }

    /// An `IPAddress` that is gone.
    pub fn ip_address_deleted(&mut self, meta: &MetaWire) {
        if let Ok(ip) = meta.name.parse::<IpAddr>()
            && self.addresses.remove(&ip)
        {
            self.address_changed(ip);
        }
    }

    fn address_changed(&mut self, ip: IpAddr) {
        let deleting = self
            .cidrs
            .iter()
            .filter(|(_, c)| c.deleted.is_some() && c.prefixes.iter().any(|p| p.contains(&ip)));
        for name in deleting.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
            self.wake(Controller::Cidrs, &"".into(), &name, Pace::Now);
        }
    }

    /// What to do for a ServiceCIDR at a time.
    pub fn plan_cidr(&mut self, name: &Text, now: jiff::Timestamp) -> CidrStep {
        let seconds = now.as_duration().as_secs_f64();
        let need = plan::need(name, &self.cidrs, &self.addresses, seconds);
        let Some(cidr) = self.cidrs.get(name) else { return CidrStep::Idle };
        let mut after = cidr.clone();
        let body = match need {
            Need::Nothing => return CidrStep::Idle,
            Need::Wait(wait) => return CidrStep::Wait(wait),
            Need::Finalizer => {
                after.finalizers.push(keys::SERVICE_CIDR_FINALIZER.to_owned());
                finalizers(&after)
            }
            Need::Release => {
                after.finalizers.retain(|f| f != keys::SERVICE_CIDR_FINALIZER);
                finalizers(&after)
            }
            Need::Ready => {
                after.says(true, "", plan::READY);
                status(&after, now)
            }
            Need::Blocked { addresses, example } => {
                after.says(false, plan::TERMINATING, plan::BLOCKED);
                let message =
                    format!("{addresses} addresses are in no other ServiceCIDR, for instance {example}");
                self.note(Note {
                    kind: "ServiceCIDR",
                    api_version: "networking.k8s.io/v1",
                    namespace: "".into(),
                    name: Arc::clone(name),
                    uid: after.uid.clone(),
                    warning: true,
                    reason: "ServiceCIDRInUse",
                    message,
                    controller: Controller::Cidrs,
                });
                status(&after, now)
            }
        };
        let write = Write {
            verb: Verb::Merge,
            resource: Resource::ServiceCidrs,
            namespace: None,
            name: Some(Arc::clone(name)),
            status: body.get("status").is_some(),
            body: body.to_string().into(),
        };
        CidrStep::Send(Box::new(CidrJob { name: Arc::clone(name), write, after }))
    }

    /// Takes in the answer to a job's write; without a failure the ServiceCIDR can need more.
    pub fn finish_cidr(&mut self, job: Box<CidrJob>, answer: Answer<Reply>) -> End {
        let Some(known) = self.cidrs.get_mut(&job.name) else { return End::default() };
        match answer {
            Ok(reply) => {
                let version = reply.metadata.resource_version.parse().unwrap_or(0);
                let gone = job.after.deleted.is_some() && job.after.finalizers.is_empty();
                if gone {
                    self.cidr_deleted(&job.name);
                    return End::default();
                }
                if version > known.version {
                    *known = Cidr { version, backoff: Backoff::default(), ..job.after };
                }
                End { again: Some(Duration::ZERO), ..End::default() }
            }
            Err(Refusal::NotFound(_)) => {
                self.cidr_deleted(&job.name);
                End::default()
            }
            Err(refusal) => {
                End { again: Some(known.backoff.after(&refusal)), failure: Some(refusal), ..End::default() }
            }
        }
    }
}

fn finalizers(after: &Cidr) -> Value {
    json!({"metadata": {"uid": after.uid, "resourceVersion": after.version.to_string(), "finalizers": after.finalizers}})
}

/// The status with the condition Ready in its place; what others say in it or beside it stays.
fn status(after: &Cidr, now: jiff::Timestamp) -> Value {
    let ready = after.ready == Some(true);
    let mut conditions = after.conditions.clone();
    let place = conditions.iter().position(|c| c["type"] == "Ready").unwrap_or_else(|| {
        conditions.push(json!({"type": "Ready"}));
        conditions.len() - 1
    });
    let said = &mut conditions[place];
    said["status"] = if ready { "True" } else { "False" }.into();
    said["reason"] = after.reason.as_str().into();
    said["message"] = after.told.as_str().into();
    said["lastTransitionTime"] = crate::watch::cache::rfc3339(now.as_second()).into();
    json!({
        "metadata": {"uid": after.uid, "resourceVersion": after.version.to_string()},
        "status": {"conditions": conditions},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_in_a_status_stays() {
        let mut cidr = Cidr {
            conditions: vec![
                json!({"type": "Ready", "status": "False", "reason": "Made", "message": "up", "observedGeneration": 3}),
                json!({"type": "Seen", "status": "True"}),
            ],
            ..Cidr::default()
        };
        cidr.says(true, "", plan::READY);
        let now = jiff::Timestamp::UNIX_EPOCH;
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "", "message": plan::READY, "observedGeneration": 3,
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        });
        let seen = json!({"type": "Seen", "status": "True"});
        assert_eq!(status(&cidr, now)["status"]["conditions"], json!([ready, seen]));
        cidr.conditions.remove(0);
        let made = status(&cidr, now)["status"]["conditions"].clone();
        assert_eq!((&made[0], &made[1]["type"]), (&seen, &json!("Ready")));
    }
}
