//! Who holds which node port: what Services name, and what NodePort objects say.
//!
//! Owns both reasons for a hold, so that one of them going does not end the other's. It never chooses a port.

use std::collections::BTreeMap;

use service_api::crds::NodePort;
use service_api::crds::nodeport::port_of;

use super::{PortLedger, Protocols, ServiceKey};

/// The holds of NodePort objects and of Services.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortHolds {
    /// What the NodePort of this name holds.
    objects: BTreeMap<String, (u16, ServiceKey, Protocols)>,
    /// What stored Services name.
    services: BTreeMap<(u16, ServiceKey), Protocols>,
}

impl PortHolds {
    /// A NodePort is stored, new or changed.
    pub(crate) fn set_object(&mut self, ledger: &mut PortLedger, port: &NodePort) {
        let name = port.metadata.name.as_deref().unwrap_or_default();
        self.remove_object(ledger, name);
        let Some(number) = port_of(name) else { return };
        let parent = &port.spec.parent_ref;
        let key = if parent.is_service() {
            ServiceKey::new(&*parent.namespace, &*parent.name)
        } else {
            // Nobody's Service has a name like this.
            ServiceKey::new(
                format!("{}/{}", parent.group, parent.resource),
                format!("{}/{}", parent.namespace, parent.name),
            )
        };
        let protocols = port
            .spec
            .protocols
            .iter()
            .map(|p| Protocols::named(p))
            .fold(Protocols::default(), Protocols::and);
        self.objects.insert(name.to_owned(), (number, key.clone(), protocols));
        self.settle(ledger, number, &key);
    }

    /// The NodePort of this name is gone.
    pub(crate) fn remove_object(&mut self, ledger: &mut PortLedger, name: &str) {
        if let Some((port, key, _)) = self.objects.remove(name) {
            self.settle(ledger, port, &key);
        }
    }

    /// A Service names this port for these protocols, or `None` when it does not any more.
    pub(crate) fn set_service(
        &mut self,
        ledger: &mut PortLedger,
        port: u16,
        key: &ServiceKey,
        protocols: Option<Protocols>,
    ) {
        match protocols {
            Some(protocols) => self.services.insert((port, key.clone()), protocols),
            None => self.services.remove(&(port, key.clone())),
        };
        self.settle(ledger, port, key);
    }

    /// Holds the port for what either reason holds it for, or releases it.
    fn settle(&self, ledger: &mut PortLedger, port: u16, key: &ServiceKey) {
        let named = self.services.get(&(port, key.clone())).copied();
        let text = port.to_string();
        let own =
            ["", "-sctp", "-tcp", "-udp"].iter().filter_map(|end| self.objects.get(&format!("{text}{end}")));
        let said = own.filter(|(_, holder, _)| holder == key).map(|(_, _, protocols)| *protocols);
        match said.chain(named).reduce(Protocols::and) {
            Some(protocols) => ledger.hold(port, key, protocols),
            None => ledger.release(port, key),
        }
    }
}

#[cfg(test)]
mod tests {
    use service_api::crds::NodePortSpec;
    use service_api::crds::nodeport::PortParent;

    use crate::PortSharing;

    use super::*;

    fn object(name: &str, parent: PortParent, protocols: &[&str]) -> NodePort {
        let protocols = protocols.iter().map(|p| (*p).to_owned()).collect();
        NodePort::new(name, NodePortSpec { parent_ref: parent, protocols, ..NodePortSpec::default() })
    }

    #[test]
    fn a_port_is_free_when_neither_holds_it() {
        let mut ledger = PortLedger::new("30000-30009".parse().unwrap(), PortSharing::WithinService);
        let mut holds = PortHolds::default();
        let web = ServiceKey::new("shop", "web");
        holds.set_service(&mut ledger, 30001, &web, Some(Protocols::TCP));
        holds.set_object(&mut ledger, &object("30001", PortParent::service("shop", "web"), &["TCP", "UDP"]));
        assert_eq!(ledger.holders(30001)[0].protocols, Protocols::TCP.and(Protocols::named("UDP")));
        holds.remove_object(&mut ledger, "30001");
        assert_eq!(ledger.holders(30001)[0].protocols, Protocols::TCP);
        holds.set_object(&mut ledger, &object("30001", PortParent::service("shop", "web"), &["TCP"]));
        holds.set_service(&mut ledger, 30001, &web, None);
        assert!(ledger.contains(30001));
        holds.remove_object(&mut ledger, "30001");
        assert!(!ledger.contains(30001));
    }

    #[test]
    fn what_is_no_service_holds_a_port_as_well() {
        let mut ledger = PortLedger::new("30000-30009".parse().unwrap(), PortSharing::WithinService);
        let mut holds = PortHolds::default();
        let parent = PortParent {
            group: "example.com".into(),
            resource: "gateways".into(),
            ..PortParent::service("a", "b")
        };
        holds.set_object(&mut ledger, &object("30001", parent, &["TCP"]));
        assert!(ledger.contains(30001));
        holds.remove_object(&mut ledger, "30001");
        assert_eq!(ledger.allocated(), 0);
    }
}
