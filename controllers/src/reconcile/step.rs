//! What a look at a key comes to: nothing, a read, or writes, and how those ended.

use std::time::Duration;

use crate::api::RequestError;
use crate::cache::Hinting;
use crate::controller::Key;
use crate::report::note::Note;
use crate::requests::slices::SliceWrite;

/// What has to be done for a key.
#[derive(Debug)]
pub enum Step<J> {
    /// Nothing.
    Idle,
    /// What is there has to be read first, because a write had no answer or somebody else wrote.
    Read,
    /// These writes have to be sent.
    Send(J),
}

/// Writes of a controller that keeps slices.
#[derive(Debug)]
pub struct SliceJob {
    /// Whose slices.
    pub key: Key,
    /// What called for it: `pods` or `service`, `selector removed`, `external name`, `endpoints`, `packing`.
    pub cause: &'static str,
    /// The writes; they do not depend on each other.
    pub writes: Vec<SliceWrite>,
    /// Writes that are sent when the others have been carried out.
    pub then: Vec<SliceWrite>,
    /// Endpoints that come, and that go.
    pub moved: (usize, usize),
    /// What the endpoints get their hints from.
    pub hinting: Hinting,
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
