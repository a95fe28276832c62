//! The slices that one controller keeps for one Service, and which of them holds a pod's endpoint.
//!
//! Kept up by events and by the answers to our own writes. Nothing here is ever rebuilt for a key.

use std::sync::Arc;

use foldhash::HashMap;

use crate::cache::{AddressType, Slice, UNKNOWN_VERSION, version};
use crate::objects::SliceWire;
use crate::text::Text;

/// The slices one controller keeps for one Service, and which of them holds a pod's endpoint.
#[derive(Debug, Default)]
pub struct SliceSet {
    slices: Vec<Arc<Slice>>,
    by_pod: [HashMap<Text, u32>; 2],
    doubled: bool,
    /// Whether the pods are indexed; the mirroring controller has no use for it.
    indexed: bool,
}

fn family_index(family: AddressType) -> usize {
    usize::from(family == AddressType::IPv6)
}

impl SliceSet {
    /// A set that finds slices by pod.
    #[must_use]
    pub fn indexed() -> Self {
        Self { indexed: true, ..Self::default() }
    }

    /// The slices, in no order.
    #[must_use]
    pub fn slices(&self) -> &[Arc<Slice>] {
        &self.slices
    }

    /// The slice of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Slice>> {
        self.slices.iter().find(|s| &*s.name == name)
    }

    /// Whatever version is seen next of a slice counts.
    pub(crate) fn forget_versions(&mut self) {
        for slice in &mut self.slices {
            Arc::make_mut(slice).version = UNKNOWN_VERSION;
        }
    }

    /// Forgets the version of a slice if it is later than that of what was found.
    pub(crate) fn forget_version_after(&mut self, found: &SliceWire) {
        let known = self.slices.iter_mut().find(|s| *s.name == *found.metadata.name);
        if let Some(known) = known.filter(|k| k.version > version(&found.metadata)) {
            Arc::make_mut(known).version = UNKNOWN_VERSION;
        }
    }

    /// Puts in a slice in place of the one of the same name.
    pub fn put(&mut self, slice: Arc<Slice>) -> Option<Arc<Slice>> {
        let position = self.slices.iter().position(|s| s.name == slice.name);
        if let Some(position) = position {
            self.forget(position);
            let old = std::mem::replace(&mut self.slices[position], slice);
            self.note(position);
            return Some(old);
        }
        self.slices.push(slice);
        self.note(self.slices.len() - 1);
        None
    }

    /// Takes out a slice.
    pub fn remove(&mut self, name: &str) -> Option<Arc<Slice>> {
        let position = self.slices.iter().position(|s| &*s.name == name)?;
        let last = self.slices.len() - 1;
        self.forget(position);
        if position != last {
            self.forget(last);
        }
        let old = self.slices.swap_remove(position);
        if position != last {
            self.note(position);
        }
        Some(old)
    }

    fn forget(&mut self, position: usize) {
        if !self.indexed {
            return;
        }
        let slice = &self.slices[position];
        let index = &mut self.by_pod[family_index(slice.family)];
        for pod in slice.endpoints.iter().filter_map(|e| e.pod()) {
            if index.get(pod).is_some_and(|p| *p as usize == position) {
                index.remove(pod);
            }
        }
    }

    #[allow(clippy::cast_possible_truncation)] // a Service does not have 2^32 slices
    fn note(&mut self, position: usize) {
        if !self.indexed {
            return;
        }
        let slice = &self.slices[position];
        let index = &mut self.by_pod[family_index(slice.family)];
        for pod in slice.endpoints.iter().filter_map(|e| e.pod()) {
            let before = index.insert(Arc::clone(pod), position as u32);
            self.doubled |= before.is_some_and(|b| b as usize != position);
        }
    }

    /// Positions of the slices that hold endpoints of these pods; none if some pod is in several, so
    /// that only a look at all of them helps.
    #[must_use]
    pub fn holding<'a>(&self, pods: impl Iterator<Item = &'a Text>) -> Option<Vec<usize>> {
        if self.doubled {
            return None;
        }
        let mut positions: Vec<usize> = Vec::new();
        for pod in pods {
            for index in &self.by_pod {
                if let Some(position) = index.get(pod).map(|p| *p as usize)
                    && !positions.contains(&position)
                {
                    positions.push(position);
                }
            }
        }
        Some(positions)
    }

    /// Whether an endpoint of the pod is in some slice.
    #[must_use]
    pub fn holds(&self, pod: &str) -> bool {
        self.by_pod.iter().any(|index| index.contains_key(pod))
    }

    /// Notes that a look at all slices found every pod in one slice at most.
    pub fn settle(&mut self) {
        if self.doubled {
            self.doubled = false;
            for index in &mut self.by_pod {
                index.clear();
            }
            for position in 0..self.slices.len() {
                self.note(position);
            }
        }
    }
}
