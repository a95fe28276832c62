//! What is written to a ServiceCIDR, beside the finalizer, and told of what was written.

use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;

use super::object::{Ready, ServiceCidr};
use super::reconcile::{Context, Error, Looking};
use crate::api::{Resource, Verb};
use crate::client::request_error_of;
use crate::controller::{Controller, Key};
use crate::report::look::Times;
use crate::report::reconcile::{Decision, Reconcile, Written};
use crate::report::trigger::{Event, Trigger};

impl Context {
    /// Puts the condition Ready right.
    pub(super) async fn say(
        &self,
        cidr: &ServiceCidr,
        said: &Ready,
        looking: &Looking,
    ) -> Result<Action, Error> {
        if !cidr.says(said) {
            let looking = Looking { look: looking.look.decided(), ..*looking };
            let patch = Patch::Merge(cidr.saying(said, jiff::Timestamp::now()));
            let name = cidr.name();
            let written = self.api.patch_status(&name, &PatchParams::default(), &patch).await;
            let stored = written.map_err(|error| Error::Condition(request_error_of(&error)))?;
            self.state.lock().wrote(&name, cidr.version());
            let decision = if said.usable { "say that it is ready" } else { "say that addresses hold it" };
            self.tell_write(cidr, version(&stored), decision, &looking);
        }
        Ok(Action::await_change())
    }

    /// The finalizer was put on, or taken off, if that was what the range lacked.
    pub(super) fn tell_finalizer(&self, cidr: &ServiceCidr, looking: &Looking) {
        let decision = match (cidr.has_finalizer(), cidr.deleted().is_some()) {
            (false, false) => "add the finalizer",
            (true, true) => "take the finalizer off",
            (true, false) | (false, true) => return,
        };
        self.tell_write(cidr, None, decision, looking);
        self.state.lock().wrote(&cidr.name(), cidr.version());
        if cidr.has_finalizer() {
            self.recheck.all();
        }
    }

    fn tell_write(&self, cidr: &ServiceCidr, after: Option<u64>, decision: &str, looking: &Looking) {
        self.metrics.wrote(Controller::Cidrs, Verb::Merge);
        let (key, look) = (Key::new(Controller::Cidrs, &"".into(), &cidr.name()), looking.look);
        let all = look.begun.elapsed();
        let (writing, trigger) = (all.saturating_sub(look.planning), Trigger::of(Event::RangeChanged));
        self.told.tell(Controller::Cidrs, look.id, || Reconcile {
            id: look.id,
            key: &key,
            trigger: &trigger,
            decision: Decision::Words(decision),
            written: vec![Written {
                verb: Verb::Merge,
                resource: Resource::ServiceCidrs,
                name: cidr.name().to_string(),
                before: version(cidr),
                after,
                endpoints: None,
                place: 0,
                sent: look.planning,
                took: writing,
            }],
            failed: 0,
            times: Times { queued: looking.queued, planning: look.planning, writing, ..Times::default() },
        });
    }
}

fn version(cidr: &ServiceCidr) -> Option<u64> {
    cidr.version().parse().ok()
}
