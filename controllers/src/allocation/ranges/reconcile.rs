//! A look at a NodePortRange or a ServicePool: decide, write, tell.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::core::ClusterResourceScope;
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use service_api::crds::{GROUP, NodePortRange, ServicePool, VERSION};

use super::plan::{self, RangeDecision};
use super::pools;
use crate::allocation::sent::{Sent, What};
use crate::api::{Answer, RequestError, Resource, Verb};
use crate::client::request_error_of;
use crate::controller::Controller;
use crate::ledger::Ledger;
use crate::report::events::Reporter;
use crate::report::note::Note;
use crate::text::Uid;

/// The API version of our kinds, as Events name it.
const API_VERSION: &str = "service-control-plane.io/v1alpha1";

/// Which controller looks at which kind.
#[derive(Clone, Copy)]
struct Of {
    controller: Controller,
    kind: &'static str,
    resource: Resource,
}

fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

/// What the looks at ranges and pools share.
pub(crate) struct Ranges {
    pub(crate) client: Client,
    pub(crate) ledger: Ledger,
    pub(crate) reporter: Reporter,
}

impl Ranges {
    /// Looks at the object of that name.
    ///
    /// # Errors
    /// What the server said to a write that has to be tried again.
    pub(crate) async fn look(
        &self,
        controller: Controller,
        name: &str,
        sent: &Sent<'_>,
    ) -> Result<(), RequestError> {
        debug_assert_eq!(API_VERSION, format!("{GROUP}/{VERSION}"));
        let now = Timestamp::now();
        if controller == Controller::Pools {
            let decided = self.ledger.with(|known| {
                known.count_users();
                let pool = known.pools().get(name)?;
                Some((pools::decide(known, pool, now), pool.metadata.clone()))
            });
            let Some((decision, meta)) = decided else { return Ok(()) };
            let of = Of { controller, kind: "ServicePool", resource: Resource::Pools };
            return self.carry_out::<ServicePool>(&meta, decision, of, sent).await;
        }
        let decided = self.ledger.with(|known| {
            let range = known.port_ranges().get(name)?;
            Some((plan::decide(known, range, now), range.metadata.clone()))
        });
        let Some((decision, meta)) = decided else { return Ok(()) };
        let of = Of { controller, kind: "NodePortRange", resource: Resource::NodePortRanges };
        self.carry_out::<NodePortRange>(&meta, decision, of, sent).await
    }

    async fn carry_out<K>(
        &self,
        meta: &ObjectMeta,
        decision: RangeDecision,
        Of { controller, kind, resource }: Of,
        sent: &Sent<'_>,
    ) -> Result<(), RequestError>
    where
        K: kube::Resource<Scope = ClusterResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let name = meta.name.as_deref().unwrap_or_default();
        let mut version = meta.resource_version.clone();
        sent.decided(|| decision.words.join("; "));
        for (patch, is_status) in [(&decision.object, false), (&decision.status, true)] {
            let Some(patch) = patch else { continue };
            let (begun, before) = (sent.elapsed(), number(version.as_deref()));
            let answer = send(&api, meta, version.as_deref(), patch, is_status).await;
            let Some(written) = overtaken(answer).inspect_err(|_| sent.failed())? else {
                sent.failed();
                return Ok(());
            };
            version = written.resource_version();
            sent.wrote(What { verb: Verb::Merge, resource, name, before }, number(version.as_deref()), begun);
        }
        if let Some((reason, message)) = decision.event {
            let uid = Uid::from(meta.uid.as_deref().unwrap_or_default());
            let note = Note {
                kind,
                api_version: API_VERSION,
                namespace: "".into(),
                name: name.into(),
                uid,
                warning: true,
                reason,
                message,
                controller,
            };
            self.reporter.tell_of(note, Some(sent.id()));
        }
        Ok(())
    }
}

async fn send<K>(
    api: &Api<K>,
    meta: &ObjectMeta,
    version: Option<&str>,
    patch: &Value,
    status: bool,
) -> Answer<K>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut patch = patch.clone();
    patch["metadata"]["uid"] = json!(meta.uid);
    patch["metadata"]["resourceVersion"] = json!(version);
    let (name, params) = (meta.name.as_deref().unwrap_or_default(), PatchParams::default());
    let patch = Patch::Merge(&patch);
    let sent = if status {
        api.patch_status(name, &params, &patch).await
    } else {
        api.patch(name, &params, &patch).await
    };
    sent.map_err(|error| request_error_of(&error))
}

/// The watch tells of what somebody else wrote, and the object is looked at then.
fn overtaken<K>(answer: Answer<K>) -> Answer<Option<K>> {
    match answer {
        Err(RequestError::Conflict(_) | RequestError::NotFound(_)) => Ok(None),
        answer => answer.map(Some),
    }
}
