//! Objects as JSON into the world: of each kind only as much is read as the caches want.
//!
//! Owns which events are dropped or put aside unread; what an object means is the caches' business.

use serde::Deserialize;
use serde_json::from_slice;

use super::objects::{
    CidrWire, EndpointsWire, IdentityWire, IpAddressWire, MetaWire, NodeWire, PodMetaWire, PodWire,
    ServiceWire, SliceWire,
};
use super::peek;
use super::relist::Kind;
use super::source::Taken;
use super::world::World;
use crate::endpoints::state::EndpointsEvent;
use crate::endpointslice::state::SliceEvent;
use crate::text::Uid;

impl World {
    /// Takes in an object as it is now; gives its version.
    ///
    /// # Errors
    /// If it is not what the API calls an object of this kind; the caches keep what they had.
    pub fn seen(&mut self, kind: Kind, json: &[u8]) -> Taken {
        let version = match kind {
            Kind::Nodes => {
                let node: NodeWire = from_slice(json)?;
                self.node(&node);
                node.metadata.resource_version
            }
            Kind::Services => {
                let service: ServiceWire = from_slice(json)?;
                self.service(&service);
                service.metadata.resource_version
            }
            Kind::Pods => {
                let pod: PodWire = from_slice(json)?;
                self.pod(&pod);
                pod.metadata.resource_version
            }
            Kind::Slices => return self.slice_seen(json),
            Kind::Endpoints => return self.endpoints_seen(json),
            Kind::Cidrs => {
                let cidr: CidrWire = from_slice(json)?;
                let version = cidr.metadata.resource_version.clone();
                self.cidr(cidr);
                version
            }
            Kind::Addresses => {
                let address: IpAddressWire = from_slice(json)?;
                self.ip_address(&address);
                address.metadata.resource_version
            }
        };
        Ok(version)
    }

    /// Takes in that an object is gone; gives its last version.
    ///
    /// # Errors
    /// If its metadata cannot be read.
    pub fn gone(&mut self, kind: Kind, json: &[u8]) -> Taken {
        if kind == Kind::Pods {
            let meta: PodMetaWire = peek::metadata(json)?;
            self.pod_deleted(&meta);
            return Ok(meta.resource_version);
        }
        let meta: MetaWire = peek::metadata(json)?;
        match kind {
            Kind::Nodes => self.node_deleted(&meta.name),
            Kind::Services => self.service_deleted(&meta.namespace, &meta.name),
            Kind::Pods => {}
            Kind::Slices => self.slice_deleted(&meta),
            Kind::Endpoints => self.endpoints_deleted(&meta),
            Kind::Cidrs => self.cidr_deleted(&meta.name),
            Kind::Addresses => self.ip_address_deleted(&meta),
        }
        Ok(meta.resource_version)
    }

    /// Notes that an object is there that could not be read: a list that has it does not end its
    /// life. Gives its name as `namespace/name`, as far as that can be read.
    pub fn unreadable(&mut self, kind: Kind, json: &[u8]) -> String {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Name {
            name: String,
            namespace: String,
        }
        let Name { name, namespace } = peek::metadata(json).unwrap_or_default();
        let text = self.shared.texts.text(&name);
        self.relists.of(kind).see(&namespace, &text);
        if namespace.is_empty() { name } else { format!("{namespace}/{name}") }
    }

    /// A slice as it is now. What we wrote ourselves is known by its version and not read again; what
    /// comes while an answer is awaited is read when the answer is there, if it still matters then.
    fn slice_seen(&mut self, json: &[u8]) -> Taken {
        let meta: IdentityWire = peek::metadata(json)?;
        let version = meta.resource_version.parse().unwrap_or(0);
        if let Some(space) = self.spaces.get_mut(meta.namespace.as_str())
            && let Some((name, (keeper, service))) = space.homes.get_key_value(meta.name.as_str())
        {
            let (name, keeper, service) = (name.clone(), *keeper, service.clone());
            let known = space.shelf(keeper, &service).get(&name);
            if known.is_some_and(|k| k.uid == Uid::from(&*meta.uid) && k.version >= version) {
                self.relists.slices.see(&meta.namespace, &name);
                return Ok(meta.resource_version);
            }
            if space.is_busy(keeper, &service) {
                self.relists.slices.see(&meta.namespace, &name);
                space.traffic(keeper, &service).waiting.push(SliceEvent::Unread(json.into()));
                return Ok(meta.resource_version);
            }
        }
        self.slice(from_slice::<SliceWire>(json)?);
        Ok(meta.resource_version)
    }

    /// A slice that was put aside unread.
    pub(crate) fn slice_put_aside(&mut self, json: &[u8]) {
        if self.slice_seen(json).is_err()
            && let Ok(meta) = peek::metadata::<IdentityWire>(json)
            && let Some(space) = self.spaces.get_mut(meta.namespace.as_str())
            && let Some((keeper, service)) = space.homes.get(meta.name.as_str()).cloned()
        {
            // What is there is asked for before the next plan.
            space.traffic(keeper, &service).uncertain = true;
        }
    }

    /// An `Endpoints` object as it is now; see [`World::slice_seen`].
    pub(crate) fn endpoints_seen(&mut self, json: &[u8]) -> Taken {
        let meta: IdentityWire = peek::metadata(json)?;
        let version: u64 = meta.resource_version.parse().unwrap_or(0);
        if let Some(space) = self.spaces.get_mut(meta.namespace.as_str())
            && let Some((name, known)) = space.endpoints.get_key_value(meta.name.as_str())
        {
            let name = name.clone();
            if known.uid == Uid::from(&*meta.uid) && known.version >= version {
                self.relists.endpoints.see(&meta.namespace, &name);
                return Ok(meta.resource_version);
            }
            if let Some(state) = space.endpoints_states.get_mut(&name).filter(|s| s.is_writing()) {
                self.relists.endpoints.see(&meta.namespace, &name);
                state.waiting.push(EndpointsEvent::Unread(json.into()));
                return Ok(meta.resource_version);
            }
        }
        self.endpoints(from_slice::<EndpointsWire>(json)?);
        Ok(meta.resource_version)
    }
}
