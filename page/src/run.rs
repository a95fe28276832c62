//! What is known while somebody looks: the tables, the answer that was put together last, and the news for the viewers.
//!
//! Owns the locks; what fills it and when it ends is decided elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

use crate::tables::{News, Tables};

/// So much news waits for a viewer who is slow.
const WAITING: usize = 32;

/// News for a viewer.
#[derive(Debug, Clone)]
pub(crate) enum Push {
    /// Changes, as JSON.
    Changes(Arc<str>),
    /// All has to be read anew.
    AllAnew,
}

/// What runs from the first look to some time after the last.
#[derive(Debug)]
pub(crate) struct Run {
    tables: Mutex<Tables>,
    /// Something in them changed.
    pub(crate) changed: Notify,
    news: broadcast::Sender<Push>,
    /// The answer that was put together last, and of which state of the tables it is.
    answer: Mutex<Option<(u64, Bytes)>>,
}

impl Run {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        Self {
            tables: Mutex::default(),
            changed: Notify::new(),
            news: broadcast::Sender::new(WAITING),
            answer: Mutex::default(),
        }
    }

    /// Changes the tables; the viewers are told a little later.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Tables)) {
        change(&mut self.tables.lock());
        self.changed.notify_one();
    }

    /// The news to come.
    pub(crate) fn follow(&self) -> broadcast::Receiver<Push> {
        self.news.subscribe()
    }

    /// All rows, as JSON.
    pub(crate) fn all(&self, about: &str) -> Bytes {
        let stamp = self.tables.lock().stamp();
        if let Some((of, answer)) = &*self.answer.lock()
            && *of == stamp
        {
            return answer.clone();
        }
        let rows = self.tables.lock().rows();
        let answer = Bytes::from(rows.json(about));
        *self.answer.lock() = Some((rows.stamp(), answer.clone()));
        answer
    }

    /// Tells the viewers what changed since the last time.
    pub(crate) fn tell(&self) {
        loop {
            let push = match self.tables.lock().news() {
                Some(News::Changes(text)) => Push::Changes(text.into()),
                Some(News::AllAnew) => Push::AllAnew,
                None => return,
            };
            // The last viewer may have gone.
            let _ = self.news.send(push);
        }
    }
}
