//! What a look at a key comes to: nothing, a read, or writes, and how those ended.

use std::time::Duration;

use crate::api::RequestError;
use crate::cache::Seconds;
use crate::controller::Key;
use crate::report::metrics::Planned;
use crate::report::note::Note;
use crate::report::trigger::Trigger;
use crate::requests::slices::SliceWrite;
use crate::text::Text;

/// What has to be done for a key.
#[derive(Debug)]
pub enum Step<R, J> {
    /// Nothing.
    Idle,
    /// What is there has to be read first, because a write had no answer or somebody else wrote.
    Read(R),
    /// These writes have to be sent.
    Send(J),
}

/// What has to be done for the slices of a key.
pub type SliceStep = Step<SliceRead, SliceJob>;

/// Which slices of a Service have to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceRead {
    /// All that there are.
    All,
    /// The one of this name: only its metadata came.
    One(Text),
}

/// Writes of a controller that keeps slices.
#[derive(Debug)]
pub struct SliceJob {
    /// Whose slices.
    pub key: Key,
    /// What called for it.
    pub trigger: Trigger,
    /// At most so many endpoints are put into one slice.
    pub max: usize,
    /// When the change of a pod or of the Service happened that is behind it, if that is known.
    pub since: Option<Seconds>,
    /// The writes; they do not depend on each other.
    pub writes: Vec<SliceWrite>,
    /// Writes that are sent when the others have been carried out.
    pub then: Vec<SliceWrite>,
    /// What they change in endpoints.
    pub planned: Planned,
}

impl SliceJob {
    /// What is left of a job whose first writes have been carried out.
    #[must_use]
    pub fn rest(&self) -> Option<Self> {
        let writes = self.then.clone();
        let (key, trigger, hinting) = (self.key.clone(), self.trigger.clone(), self.planned.hinting);
        (!writes.is_empty()).then_some(Self {
            key,
            trigger,
            max: self.max,
            since: None,
            writes,
            then: Vec::new(),
            planned: Planned { hinting, ..Planned::default() },
        })
    }
}

/// How writes ended. What waited for their answers is given beside it.
#[derive(Debug, Default)]
pub struct End {
    /// The key has to be looked at again, after this time.
    pub again: Option<Duration>,
    /// What went wrong, if something did.
    pub failure: Option<RequestError>,
    /// What to tell a person of it, unless it was told before.
    pub note: Option<Note>,
}
