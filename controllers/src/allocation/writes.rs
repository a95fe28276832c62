//! The requests of the allocation controllers: entries that are made, claimed and freed, and Services that are patched.
//!
//! Owns their form and their preconditions. It decides nothing, and every write says on which version it was decided.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{IPAddress, IPAddressSpec, ParentReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use service_allocators::ServiceKey;
use service_allocators::pools::Seconds;
use service_api::crds::NodePort;

use super::draft::Draft;
use crate::api::{Answer, RequestError};
use crate::client::request_error_of;
use crate::keys;
use crate::ledger::{Entry, EntryKind, IN_USE, LAST_CLAIM, MANAGED_BY, MANAGER, SERVICE_UID};
use crate::text::Uid;

/// Who writes, in managed fields.
const FIELD_MANAGER: &str = "service-allocation-controller";

/// The server, as the allocation controllers ask it.
#[derive(Clone)]
pub(crate) struct Server {
    client: Client,
    addresses: Api<IPAddress>,
    ports: Api<NodePort>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` gives it
fn failed(error: kube::Error) -> RequestError {
    request_error_of(&error)
}

impl Server {
    /// The server that `client` reaches; what writes goes through the same client.
    #[must_use]
    pub(crate) fn new(client: Client) -> Self {
        Self { addresses: Api::all(client.clone()), ports: Api::all(client.clone()), client }
    }

    fn services(&self, namespace: &str) -> Api<Service> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Makes an entry.
    ///
    /// # Errors
    /// As the server says; [`RequestError::Exists`] when the value is taken.
    pub(crate) async fn create(&self, draft: &Draft) -> Answer<Entry> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        if let Some(spec) = &draft.port {
            let object = NodePort { metadata: metadata(draft), spec: (**spec).clone() };
            return self
                .ports
                .create(&params, &object)
                .await
                .map(|made| Entry::of_port(&made))
                .map_err(failed);
        }
        let object = IPAddress { metadata: metadata(draft), spec: address_spec(draft) };
        self.addresses.create(&params, &object).await.map(|made| Entry::of_address(&made)).map_err(failed)
    }

    /// Reads an entry; `None` when there is none of that name.
    ///
    /// # Errors
    /// As the server says.
    pub(crate) async fn entry(&self, kind: EntryKind, name: &str) -> Answer<Option<Entry>> {
        match kind {
            EntryKind::Address => {
                self.addresses.get_opt(name).await.map(|found| found.map(|object| Entry::of_address(&object)))
            }
            EntryKind::Port => {
                self.ports.get_opt(name).await.map(|found| found.map(|object| Entry::of_port(&object)))
            }
        }
        .map_err(failed)
    }

    /// Claims an entry anew, if it is still the one that was decided on.
    ///
    /// # Errors
    /// As the server says; [`RequestError::Conflict`] when somebody wrote it in between.
    pub(crate) async fn claim(&self, entry: &Entry, draft: &Draft) -> Answer<Entry> {
        let mut patch = json!({"metadata": {
            "uid": entry.uid, "resourceVersion": entry.version.to_string(),
            "annotations": {SERVICE_UID: draft.parent_uid, LAST_CLAIM: Timestamp::now().to_string()},
        }});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let Some(spec) = &draft.port else {
            let written = self.addresses.patch(&draft.name, &params, &Patch::Merge(&patch)).await;
            return written.map(|object| Entry::of_address(&object)).map_err(failed);
        };
        patch["spec"] = json!(spec);
        // What is left out would stay.
        patch["spec"]["portNames"] = json!(spec.port_names);
        patch["metadata"]["labels"] = json!({MANAGED_BY: MANAGER});
        let written = self.ports.patch(&draft.name, &params, &Patch::Merge(&patch)).await;
        written.map(|object| Entry::of_port(&object)).map_err(failed)
    }

    /// Puts the finalizer on an IPAddress, or takes it off, if it is still the one that was decided on.
    ///
    /// # Errors
    /// As the server says; [`RequestError::Conflict`] when somebody wrote it in between.
    pub(crate) async fn guard(&self, entry: &Entry, guarded: bool) -> Answer<Entry> {
        let mut patch = json!({"metadata": {"uid": entry.uid, "resourceVersion": entry.version.to_string()}});
        let field = if guarded { "finalizers" } else { "$deleteFromPrimitiveList/finalizers" };
        patch["metadata"][field] = json!([IN_USE]);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.addresses.patch(&entry.name, &params, &Patch::Strategic(&patch)).await;
        written.map(|object| Entry::of_address(&object)).map_err(failed)
    }

    /// Frees an entry, if it is still the one that was decided on. One that is gone is free.
    ///
    /// # Errors
    /// As the server says; [`RequestError::Conflict`] when somebody wrote it in between.
    pub(crate) async fn free(&self, entry: &Entry) -> Answer<()> {
        let preconditions = Preconditions {
            uid: Some(entry.uid.to_string()),
            resource_version: Some(entry.version.to_string()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let freed = match entry.kind {
            EntryKind::Address => self.addresses.delete(&entry.name, &params).await.map(|_| ()),
            EntryKind::Port => self.ports.delete(&entry.name, &params).await.map(|_| ()),
        };
        match freed.map_err(failed) {
            Err(RequestError::NotFound(_)) => Ok(()),
            freed => freed,
        }
    }

    /// Reads a Service; `None` when there is none of that name.
    ///
    /// # Errors
    /// As the server says.
    pub(crate) async fn service(&self, key: &ServiceKey) -> Answer<Option<Service>> {
        self.services(key.namespace()).get_opt(key.name()).await.map_err(failed)
    }

    /// Patches a Service, if it is still the one that was decided on.
    ///
    /// # Errors
    /// As the server says; [`RequestError::Conflict`] when somebody wrote it in between.
    pub(crate) async fn patch(&self, key: &ServiceKey, basis: &(u64, Uid), patch: &Value) -> Answer<Service> {
        let mut patch = patch.clone();
        patch["metadata"]["resourceVersion"] = json!(basis.0.to_string());
        patch["metadata"]["uid"] = json!(basis.1);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.services(key.namespace()).patch(key.name(), &params, &Patch::Merge(&patch)).await.map_err(failed)
    }
}

fn metadata(draft: &Draft) -> ObjectMeta {
    let labels = match draft.kind {
        EntryKind::Address => {
            let is_v6 = draft.name.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
            let family = if is_v6 { "IPv6" } else { "IPv4" };
            vec![(keys::IPADDRESS_MANAGED_BY, keys::IPADDRESS_MANAGER), (keys::IP_FAMILY, family)]
        }
        EntryKind::Port => vec![(MANAGED_BY, MANAGER)],
    };
    let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    ObjectMeta {
        name: Some(draft.name.to_string()),
        labels: Some(labels.collect()),
        annotations: Some([(SERVICE_UID.to_owned(), draft.parent_uid.to_string())].into()),
        ..ObjectMeta::default()
    }
}

fn address_spec(draft: &Draft) -> IPAddressSpec {
    IPAddressSpec {
        parent_ref: ParentReference {
            group: Some(String::new()),
            resource: "services".to_owned(),
            namespace: Some(draft.parent.namespace().to_owned()),
            name: draft.parent.name().to_owned(),
        },
    }
}

/// The time as the ledger counts it.
#[must_use]
pub(crate) fn now() -> Seconds {
    Timestamp::now().as_second()
}
