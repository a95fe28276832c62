//! What is written to a ServiceCIDR, beside the finalizer, and told of what was written.

use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;

use super::object::{Ready, ServiceCidr};
use super::reconcile::{Context, Error, TRIGGER};
use crate::api::{Resource, Verb};
use crate::client::request_error_of;
use crate::controller::{Controller, Key};
use crate::report::reconcile::ReconcileLine;
use crate::text::Text;

impl Context {
    /// Puts the condition Ready right.
    pub(super) async fn say(&self, cidr: &ServiceCidr, said: &Ready) -> Result<Action, Error> {
        if !cidr.says(said) {
            let patch = Patch::Merge(cidr.saying(said, jiff::Timestamp::now()));
            let name = cidr.name();
            let written = self.api.patch_status(&name, &PatchParams::default(), &patch).await;
            written.map_err(|error| Error::Condition(request_error_of(&error)))?;
            let decision = if said.usable { "say that it is ready" } else { "say that addresses hold it" };
            self.tell_write(&name, decision);
        }
        Ok(Action::await_change())
    }

    /// The finalizer was put on, or taken off, if that was what the range lacked.
    pub(super) fn tell_finalizer(&self, cidr: &ServiceCidr) {
        match (cidr.has_finalizer(), cidr.deleted().is_some()) {
            (false, false) => self.tell_write(&cidr.name(), "add the finalizer"),
            (true, true) => {
                self.tell_write(&cidr.name(), "take the finalizer off");
                self.state.lock().forget(&cidr.name());
                self.recheck.all();
            }
            (true, false) | (false, true) => {}
        }
    }

    fn tell_write(&self, name: &Text, decision: &str) {
        self.metrics.wrote(Controller::Cidrs, Verb::Merge);
        let key = Key::new(Controller::Cidrs, &"".into(), name);
        ReconcileLine::of_one(&key, TRIGGER, Some(decision), Resource::ServiceCidrs, Verb::Merge).tell();
    }
}
