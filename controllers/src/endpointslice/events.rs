//! Events of slices: what somebody else did to them, and when it is put right.

use std::sync::Arc;

use super::state::SliceEvent;
use crate::keys;
use crate::text::{Text, Uid};
use crate::watch::cache::{self, Slice, SliceKeeper};
use crate::watch::objects::{MetaWire, SliceWire};
use crate::watch::world::{Controller, Pace, World};

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
            self.slice_given_away(&namespace, &name, old);
        }
        if let Some((keeper, service)) = now {
            self.slice_kept(&namespace, keeper, &service, wire);
        }
    }

    /// Somebody changed the labels by which a slice was ours: it is not ours to write any more, and
    /// what it held is put elsewhere at the next occasion.
    fn slice_given_away(&mut self, namespace: &Text, name: &Text, home: &(SliceKeeper, Text)) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        space.homes.remove(name);
        space.shelf(home.0, &home.1).remove(name);
        match home.0 {
            SliceKeeper::Slices => {
                space.slice_states.entry(Arc::clone(&home.1)).or_default().dirty.all(false);
            }
            SliceKeeper::Mirrors => space.mirror_states.entry(Arc::clone(&home.1)).or_default().stale = true,
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
        let notice = old.as_ref().map_or(Notice::Now, |old| Notice::of(keeper, old, &slice));
        let controller = match keeper {
            SliceKeeper::Slices => {
                if notice != Notice::Never {
                    let state = space.slice_states.entry(Arc::clone(service)).or_default();
                    state.dirty.all(notice == Notice::Now);
                }
                Controller::Slices
            }
            SliceKeeper::Mirrors => {
                space.mirror_states.entry(Arc::clone(service)).or_default().stale |= notice != Notice::Never;
                Controller::Mirrors
            }
        };
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
        space.shelf(keeper, &service).remove(&name);
        let controller = match keeper {
            SliceKeeper::Slices => {
                space.slice_states.entry(Arc::clone(&service)).or_default().dirty.all(true);
                Controller::Slices
            }
            SliceKeeper::Mirrors => {
                space.mirror_states.entry(Arc::clone(&service)).or_default().stale = true;
                Controller::Mirrors
            }
        };
        // Where it went with its owner, the owner's end may be on its way on another watch.
        self.wake(controller, &namespace, &service, Pace::Gather);
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
    /// When the Service is looked at next: owners and reserved labels.
    Later,
    /// Without anything else happening: endpoints, ports, labels, deletion.
    Now,
}

impl Notice {
    fn of(keeper: SliceKeeper, old: &Slice, new: &Slice) -> Self {
        let labels = match keeper {
            SliceKeeper::Slices => old.labels.equal_without(&new.labels, keys::is_reserved),
            SliceKeeper::Mirrors => old.labels == new.labels,
        };
        if old.endpoints != new.endpoints || old.ports != new.ports || !labels || old.deleting != new.deleting
        {
            Self::Now
        } else if old.owners != new.owners || old.labels != new.labels {
            Self::Later
        } else {
            Self::Never
        }
    }
}
