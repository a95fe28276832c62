//! A look at a NodePortRange or a ServicePool: decide, write, tell.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::core::ClusterResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use service_api::crds::{GROUP, NodePortRange, ServicePool, VERSION};

use super::plan::{self, Outcome};
use super::pools;
use crate::api::{Answer, RequestError};
use crate::client::request_error_of;
use crate::controller::Controller;
use crate::ledger::Ledger;
use crate::report::events::Reporter;
use crate::report::note::Note;
use crate::text::Uid;

/// The API version of our kinds, as Events name it.
const API_VERSION: &str = "service-control-plane.io/v1alpha1";

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
    pub(crate) async fn look(&self, controller: Controller, name: &str) -> Result<(), RequestError> {
        debug_assert_eq!(API_VERSION, format!("{GROUP}/{VERSION}"));
        let now = Timestamp::now();
        if controller == Controller::Pools {
            let decided = self.ledger.with(|known| {
                let pool = known.pools().get(name)?;
                Some((pools::decide(known, pool, now), pool.metadata.clone()))
            });
            let Some((outcome, meta)) = decided else { return Ok(()) };
            return self.carry_out::<ServicePool>(&meta, outcome, (controller, "ServicePool")).await;
        }
        let decided = self.ledger.with(|known| {
            let range = known.port_ranges().get(name)?;
            Some((plan::decide(known, range, now), range.metadata.clone()))
        });
        let Some((outcome, meta)) = decided else { return Ok(()) };
        self.carry_out::<NodePortRange>(&meta, outcome, (controller, "NodePortRange")).await
    }

    async fn carry_out<K>(
        &self,
        meta: &ObjectMeta,
        outcome: Outcome,
        (controller, kind): (Controller, &'static str),
    ) -> Result<(), RequestError>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let name = meta.name.as_deref().unwrap_or_default();
        let mut version = meta.resource_version.clone();
        if let Some(patch) = &outcome.object {
            match overtaken(send(&api, meta, version.as_deref(), patch, false).await)? {
                Some(written) => version = written.resource_version(),
                None => return Ok(()),
            }
        }
        if let Some(patch) = &outcome.status
            && overtaken(send(&api, meta, version.as_deref(), patch, true).await)?.is_none()
        {
            return Ok(());
        }
        if let Some((reason, message)) = outcome.event {
            let uid = Uid::from(meta.uid.as_deref().unwrap_or_default());
            self.reporter.tell(Note {
                kind,
                api_version: API_VERSION,
                namespace: "".into(),
                name: name.into(),
                uid,
                warning: true,
                reason,
                message,
                controller,
            });
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
