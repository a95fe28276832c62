//! The kinds that say which addresses and node ports there are and who holds them, and the nodes' zones.

use k8s_openapi::{
    api::networking::v1::{IPAddressSpec, ServiceCIDRSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Deserialize, Serialize};
use service_allocators::{
    bands::{address_band, port_band},
    prefix::ServicePrefix,
};
use service_api::crds::{NodePortRangeSpec, NodePortSpec, Role, ServicePoolSpec, nodeport::Purpose};

use super::{Kind, Shown, created, list, slim, text};

/// The label that says in which zone a node is.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// What is read of an IPAddress.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Address {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: IPAddressSpec,
}

/// Who holds a value.
#[derive(Serialize)]
struct HolderRow<'a> {
    /// The resource, unless it is Services.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    ns: &'a str,
    name: &'a str,
}

impl<'a> HolderRow<'a> {
    fn new(resource: &'a str, ns: &'a str, name: &'a str) -> Self {
        Self { of: (resource != "services").then_some(resource), ns, name }
    }
}

impl Shown for Address {
    const KIND: Kind = Kind::Addresses;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn row(&self) -> String {
        #[derive(Serialize)]
        struct Row<'a> {
            ip: &'a str,
            holder: HolderRow<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            created: Option<i64>,
        }
        let parent = &self.spec.parent_ref;
        let holder =
            HolderRow::new(&parent.resource, parent.namespace.as_deref().unwrap_or_default(), &parent.name);
        let ip = self.metadata.name.as_deref().unwrap_or_default();
        text(&Row { ip, holder, created: created(&self.metadata) })
    }
}

/// What is read of a ServiceCIDR.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Cidr {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: ServiceCIDRSpec,
    #[serde(default)]
    status: Option<Status>,
}

/// What is read of a status: its conditions, however they are written.
#[derive(Debug, Clone, Default, Deserialize)]
struct Status {
    #[serde(default, deserialize_with = "list")]
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
}

fn conditions(status: Option<&Status>) -> &[Condition] {
    status.map(|status| &*status.conditions).unwrap_or_default()
}

/// One range of addresses: `size` counts all of them, those too that are never given away, `usable` does not; both are
/// texts, since the browser's numbers end at 2^53.
#[derive(Serialize)]
struct RangeRow {
    cidr: String,
    size: String,
    usable: String,
    band: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
}

impl RangeRow {
    fn of(prefix: ServicePrefix) -> Self {
        Self {
            cidr: prefix.net().to_string(),
            size: prefix.size().to_string(),
            usable: prefix.usable().to_string(),
            band: address_band(prefix.size()),
            first: prefix.first().map(|address| address.to_string()),
            last: prefix.last().map(|address| address.to_string()),
        }
    }
}

/// Why a range is not in use, if it is not: what its Ready condition says.
fn not_ready(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.r#type == "Ready" && condition.status != "True")
}

impl Shown for Cidr {
    const KIND: Kind = Kind::Cidrs;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn row(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Row<'a> {
            name: &'a str,
            ranges: Vec<RangeRow>,
            #[serde(skip_serializing_if = "Option::is_none")]
            not_ready: Option<&'a str>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            deleting: bool,
        }
        let cidrs = self.spec.cidrs.iter().flatten();
        text(&Row {
            name: self.metadata.name.as_deref().unwrap_or_default(),
            ranges: cidrs.filter_map(|cidr| cidr.parse().ok()).map(RangeRow::of).collect(),
            not_ready: not_ready(conditions(self.status.as_ref())).map(|condition| &*condition.message),
            deleting: self.metadata.deletion_timestamp.is_some(),
        })
    }
}

/// What is read of a NodePort.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NodePort {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    spec: NodePortSpec,
}

impl Shown for NodePort {
    const KIND: Kind = Kind::NodePorts;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn row(&self) -> String {
        #[derive(Serialize)]
        struct Row<'a> {
            name: &'a str,
            holder: HolderRow<'a>,
            protocols: &'a [String],
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            health: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            created: Option<i64>,
        }
        let parent = &self.spec.parent_ref;
        text(&Row {
            name: self.metadata.name.as_deref().unwrap_or_default(),
            holder: HolderRow::new(&parent.resource, &parent.namespace, &parent.name),
            protocols: &self.spec.protocols,
            health: self.spec.purpose == Purpose::HealthCheck,
            created: created(&self.metadata),
        })
    }
}

/// What is read of a NodePortRange.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PortRange {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    spec: NodePortRangeSpec,
    #[serde(default)]
    status: Option<Status>,
}

/// A range of node ports as the browser gets it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PortRangeRow<'a> {
    name: &'a str,
    first: i32,
    last: i32,
    band: u64,
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_ready: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleting: bool,
}

fn band_of(spec: &NodePortRangeSpec) -> u64 {
    let given = spec.lower_band.and_then(|band| u64::try_from(band).ok());
    given
        .unwrap_or_else(|| port_band(u32::try_from(spec.last_port - spec.first_port + 1).unwrap_or_default()))
}

impl Shown for PortRange {
    const KIND: Kind = Kind::PortRanges;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn row(&self) -> String {
        text(&PortRangeRow {
            name: self.metadata.name.as_deref().unwrap_or_default(),
            first: self.spec.first_port,
            last: self.spec.last_port,
            band: if self.spec.role == Role::Dynamic { band_of(&self.spec) } else { 0 },
            role: self.spec.role,
            not_ready: not_ready(conditions(self.status.as_ref())).map(|condition| &*condition.message),
            deleting: self.metadata.deletion_timestamp.is_some(),
        })
    }
}

/// What is read of a ServicePool.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Pool {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    spec: ServicePoolSpec,
    #[serde(default)]
    status: Option<Status>,
}

impl Shown for Pool {
    const KIND: Kind = Kind::Pools;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn row(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Row<'a> {
            name: &'a str,
            parts: Vec<RangeRow>,
            spec: &'a ServicePoolSpec,
            #[serde(skip_serializing_if = "Option::is_none")]
            not_ready: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            filling: Option<&'a str>,
        }
        let conditions = conditions(self.status.as_ref());
        let filling =
            conditions.iter().find(|condition| condition.r#type == "Filling" && condition.status == "True");
        let parts = self.spec.addresses.iter().filter_map(|part| part.parse().ok());
        text(&Row {
            name: self.metadata.name.as_deref().unwrap_or_default(),
            parts: parts.map(RangeRow::of).collect(),
            spec: &self.spec,
            not_ready: not_ready(conditions).map(|condition| &*condition.message),
            filling: filling.map(|condition| &*condition.reason),
        })
    }
}

/// What is read of a Node: its labels alone.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Node {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
}

impl Shown for Node {
    const KIND: Kind = Kind::Nodes;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn row(&self) -> String {
        #[derive(Serialize)]
        struct Row<'a> {
            name: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            zone: Option<&'a str>,
        }
        let zone = self.metadata.labels.as_ref().and_then(|labels| labels.get(ZONE_LABEL));
        text(&Row { name: self.metadata.name.as_deref().unwrap_or_default(), zone: zone.map(String::as_str) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row<S: Shown>(object: Value) -> Value {
        serde_json::from_str(&serde_json::from_value::<S>(object).unwrap().row()).unwrap()
    }

    #[test]
    fn an_address_says_who_holds_it() {
        let object = json!({"metadata": {"name": "10.96.0.1"}, "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}});
        let expected = json!({"ip": "10.96.0.1", "holder": {"ns": "default", "name": "kubernetes"}});
        assert_eq!(row::<Address>(object), expected);
        let foreign = json!({"metadata": {"name": "10.96.0.9"}, "spec": {"parentRef": {"group": "g.example", "resource": "gateways", "name": "one"}}});
        assert_eq!(row::<Address>(foreign)["holder"], json!({"of": "gateways", "name": "one"}));
    }

    #[test]
    fn ranges_have_their_bands_and_sizes_of_any_length() {
        let object = json!({
            "metadata": {"name": "kubernetes", "deletionTimestamp": "2026-12-01T00:00:00Z"},
            "spec": {"cidrs": ["10.96.0.0/12", "fd00::/64", "no range"]},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Terminating", "message": "There are still IPAddresses", "lastTransitionTime": null}]}
        });
        let row = row::<Cidr>(object);
        assert_eq!(
            row["ranges"],
            json!([
                {"cidr": "10.96.0.0/12", "size": "1048576", "usable": "1048574", "band": 256, "first": "10.96.0.1", "last": "10.111.255.254"},
                {"cidr": "fd00::/64", "size": "18446744073709551616", "usable": "18446744073709551615", "band": 256, "first": "fd00::1", "last": "fd00::ffff:ffff:ffff:ffff"}
            ])
        );
        assert_eq!(
            (&row["notReady"], &row["deleting"]),
            (&json!("There are still IPAddresses"), &json!(true))
        );
    }

    #[test]
    fn ports_and_their_ranges() {
        let port = json!({"metadata": {"name": "30080"}, "spec": {"parentRef": {"resource": "services", "namespace": "demo", "name": "np"}, "protocols": ["TCP"], "purpose": "HealthCheck"}});
        let expected = json!({"name": "30080", "holder": {"ns": "demo", "name": "np"}, "protocols": ["TCP"], "health": true});
        assert_eq!(row::<NodePort>(port), expected);
        let range =
            json!({"metadata": {"name": "kubernetes"}, "spec": {"firstPort": 30000, "lastPort": 32767}});
        let expected =
            json!({"name": "kubernetes", "first": 30000, "last": 32767, "band": 86, "role": "Dynamic"});
        assert_eq!(row::<PortRange>(range), expected);
        let closed = json!({"metadata": {"name": "x"}, "spec": {"firstPort": 40000, "lastPort": 40100, "role": "Excluded", "lowerBand": 7}});
        assert_eq!(row::<PortRange>(closed)["band"], 0);
    }

    #[test]
    fn pools_and_zones() {
        let pool = json!({"metadata": {"name": "web"}, "spec": {"addresses": ["10.96.1.0/24"], "nodePorts": [{"firstPort": 30100, "lastPort": 30199}], "exclusive": true},
            "status": {"conditions": [{"type": "Filling", "status": "True", "reason": "Over80", "message": "", "lastTransitionTime": null}]}});
        let row_of_pool = row::<Pool>(pool);
        assert_eq!(row_of_pool["parts"][0]["band"], 16);
        assert_eq!(row_of_pool["spec"]["nodePorts"][0]["firstPort"], 30100);
        assert_eq!(row_of_pool["filling"], "Over80");
        let node = json!({"metadata": {"name": "n1", "labels": {ZONE_LABEL: "a"}}, "spec": {"podCIDR": "10.0.0.0/24"}});
        assert_eq!(row::<Node>(node), json!({"name": "n1", "zone": "a"}));
    }
}
