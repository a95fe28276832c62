//! Events of slices: what somebody else did to them, and when it is put right.

use std::sync::Arc;

use super::state::SliceEvent;
use crate::keys;
use crate::text::{Text, Uid};
use crate::watch::cache::{self, Slice, SliceKeeper};
use crate::watch::objects::{MetaWire, SliceWire};
use crate::watch::world::{Controller, Pace, Space, World};

impl World {
    /// A slice as it is now.
    pub fn slice(&mut self, wire: SliceWire) {
        let name = self.shared.texts.text(&wire.metadata.name);
        let (namespace, space) = self.space(&wire.metadata.namespace);
        let before = space.homes.get(&name).cloned();
        let now = home(&wire.metadata);
        if before.is_none() && now.is_none() {
            return;
        }
        // Before anything else: a list that has it does not end its life.
        self.relists.slices.see(&namespace, &name);
        let Some(space) = self.spaces.get_mut(&namespace) else { return };
        let busy = [&before, &now]
            .into_iter()
            .flatten()
            .find(|(keeper, service)| space.is_busy(*keeper, service))
            .cloned();
        if let Some((keeper, service)) = busy {
            space.traffic(keeper, &service).waiting.push(SliceEvent::Seen(Box::new(wire)));
            return;
        }
        let uid = Uid::from(wire.metadata.uid.as_str());
        // A list that began after the deletion and has it says that the deletion did not last.
        if self.relists.slices.is_open() && self.relists.buried_before.remove(&uid) {
            self.buried.remove(&uid);
        }
        if self.buried.contains(&uid) {
            return;
        }
        let now = now.map(|(keeper, service)| (keeper, self.shared.texts.text(&service)));
        if let Some(old) = before.as_ref().filter(|b| now.as_ref() != Some(*b)) {
            // Another Service's now, or nobody's, but still this controller's: nobody asked it to stop.
            let still_kept = cache::keeper(&wire.metadata) == Some(old.0);
            self.slice_given_away(&namespace, &name, old, still_kept);
        }
        if let Some((keeper, service)) = now {
            self.slice_kept(&namespace, keeper, &service, wire);
        }
    }

    /// Somebody changed the labels by which a slice was this Service's: it is not to be written for it
    /// any more. What it held is put elsewhere: at the next occasion if we wrote it and somebody keeps it
    /// instead of us, otherwise at once.
    fn slice_given_away(
        &mut self,
        namespace: &Text,
        name: &Text,
        home: &(SliceKeeper, Text),
        still_kept: bool,
    ) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let (keeper, service) = home;
        space.homes.remove(name);
        let old = space.shelf(*keeper, service).remove(name);
        let written = &mut space.traffic(*keeper, service).written;
        let ours = old.as_ref().is_some_and(|old| written.contains(&old.uid));
        if let Some(old) = old {
            written.forget(&old.uid);
        }
        let due = still_kept || !ours;
        let controller = space.slices_changed(*keeper, service, due);
        if due {
            self.wake(controller, namespace, service, Pace::Gather);
        }
    }

    fn slice_kept(&mut self, namespace: &Text, keeper: SliceKeeper, service: &Text, wire: SliceWire) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let uid = Uid::from(wire.metadata.uid.as_str());
        let known = space.shelf(keeper, service).get(&wire.metadata.name).filter(|k| k.uid == uid);
        if known.is_some_and(|k| k.version >= cache::version(&wire.metadata)) {
            return;
        }
        let slice = Arc::new(Slice::read(wire, &mut self.shared));
        space.homes.insert(Arc::clone(&slice.name), (keeper, Arc::clone(service)));
        let old = space.shelf(keeper, service).put(Arc::clone(&slice)).filter(|o| o.uid == slice.uid);
        let written = space.traffic(keeper, service).written.generation(&slice.uid);
        let notice = old.as_ref().map_or(Notice::Now, |old| Notice::of(written, old, &slice));
        if notice == Notice::Never {
            return;
        }
        let controller = space.slices_changed(keeper, service, notice == Notice::Now);
        if notice == Notice::Now {
            // One edit by hand is often followed by the next.
            self.wake(controller, namespace, service, Pace::Gather);
        }
    }

    /// A slice that is gone.
    pub fn slice_deleted(&mut self, meta: &MetaWire) {
        if !self.buried.remove(&Uid::from(meta.uid.as_str())) {
            self.slice_gone(&meta.namespace, &meta.name);
        }
    }

    pub(crate) fn slice_gone(&mut self, namespace: &str, name: &str) {
        let (namespace, space) = self.space(namespace);
        let Some((name, (keeper, service))) =
            space.homes.get_key_value(name).map(|(n, h)| (Arc::clone(n), h.clone()))
        else {
            return;
        };
        if space.is_busy(keeper, &service) {
            space.traffic(keeper, &service).waiting.push(SliceEvent::Gone(name));
            return;
        }
        space.homes.remove(&name);
        if let Some(old) = space.shelf(keeper, &service).remove(&name) {
            space.traffic(keeper, &service).written.forget(&old.uid);
        }
        let controller = space.slices_changed(keeper, &service, true);
        // Where it went with its owner, the owner's end may be on its way on another watch.
        self.wake(controller, &namespace, &service, Pace::Gather);
    }
}

impl Space {
    /// Slices of a Service are not what they were; with `due` that is looked at now, otherwise at the
    /// next occasion. Gives whose matter it is.
    fn slices_changed(&mut self, keeper: SliceKeeper, service: &Text, due: bool) -> Controller {
        match keeper {
            SliceKeeper::Slices => {
                self.slice_states.entry(Arc::clone(service)).or_default().dirty.all(due);
                Controller::Slices
            }
            SliceKeeper::Mirrors => {
                self.mirror_states.entry(Arc::clone(service)).or_default().stale = true;
                Controller::Mirrors
            }
        }
    }
}

/// Who keeps a slice with this metadata, and for which Service.
fn home(meta: &MetaWire) -> Option<(SliceKeeper, Text)> {
    let service = cache::label(meta, keys::SERVICE_NAME).filter(|s| !s.is_empty())?;
    Some((cache::keeper(meta)?, service.into()))
}

/// When a change of a slice by somebody else is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// It is not wrong.
    Never,
    /// When the Service is looked at next: owners.
    Later,
    /// Without anything else happening: endpoints, ports, labels, deletion.
    Now,
}

impl Notice {
    /// What a change means to a slice of which our last write made the generation `written`. A slice
    /// that we did not write, or that somebody else changed since, is looked at whatever the change.
    fn of(written: Option<i64>, old: &Slice, new: &Slice) -> Self {
        let same = old.endpoints == new.endpoints
            && old.ports == new.ports
            && old.labels == new.labels
            && old.deleting == new.deleting;
        if !same || written.is_none_or(|written| new.generation > written) {
            Self::Now
        } else if old.owners != new.owners {
            Self::Later
        } else {
            Self::Never
        }
    }
}
