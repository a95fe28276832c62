//! What a report on ranges consists of, as it is printed in JSON.
//!
//! Owns the shape only.

use std::collections::BTreeMap;

use serde::Serialize;
use service_api::crds::Role;

/// Values of one band.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Band {
    /// Values that are taken.
    pub used: u64,
    /// Values that are not.
    pub free: u64,
}

impl Band {
    pub(super) fn of((used, free): (u64, u64)) -> Self {
        Self { used, free }
    }
}

/// The first few of many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Many<T> {
    /// How many there are.
    pub count: usize,
    /// The first of them.
    pub first: Vec<T>,
}

/// Who holds a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The group and resource, such as `services`.
    pub kind: String,
    /// The namespace and name.
    pub name: String,
    /// What it holds.
    pub value: String,
}

/// A value that is held.
pub(super) trait Held {
    /// The namespace of who holds it; none for what is in none.
    fn namespace(&self) -> Option<&str>;
}

impl Held for Holder {
    fn namespace(&self) -> Option<&str> {
        self.name.split_once('/').map(|(namespace, _)| namespace)
    }
}

impl Held for Stray {
    fn namespace(&self) -> Option<&str> {
        self.service.split_once('/').map(|(namespace, _)| namespace)
    }
}

/// A CIDR of a ServiceCIDR.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CidrReport {
    /// The ServiceCIDR's name.
    pub name: String,
    /// The CIDR.
    pub cidr: String,
    /// `Ready`, `NotReady` or `Deleting`.
    pub state: String,
    /// The band that automatic choice leaves alone as long as it can.
    pub lower: Band,
    /// The rest.
    pub upper: Band,
    /// Who would be in no range without it.
    pub blockers: Many<Holder>,
    /// Networks that it overlaps with.
    pub clashes: Vec<String>,
}

/// A range of node ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortRangeReport {
    /// The NodePortRange's name.
    pub name: String,
    /// The ports.
    pub ports: String,
    /// What they are for.
    pub role: Role,
    /// The band that automatic choice leaves alone as long as it can.
    pub lower: Band,
    /// The rest.
    pub upper: Band,
    /// Who would be in no range without it.
    pub blockers: Many<Holder>,
    /// What it overlaps with.
    pub clashes: Vec<String>,
}

/// A ServicePool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// The lower and the upper band of each kind of value that it has.
    pub kinds: BTreeMap<String, [Band; 2]>,
    /// What is wrong with it.
    pub faults: Vec<String>,
}

/// A value of a Service that no range has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stray {
    /// The Service.
    pub service: String,
    /// The value.
    pub value: String,
}

/// What another range would mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// The range.
    pub range: String,
    /// Why it can not be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// How many values of the lower band would be free or taken.
    pub lower: Band,
    /// The same of the upper band.
    pub upper: Band,
    /// Who has a value of the same kind that is not in it, and would have to be created anew.
    pub moves: Many<Stray>,
    /// What it overlaps with.
    pub clashes: Vec<String>,
}

/// All that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Each CIDR of each ServiceCIDR.
    #[serde(rename = "serviceCIDRs")]
    pub service_cidrs: Vec<CidrReport>,
    /// Each NodePortRange.
    pub node_port_ranges: Vec<PortRangeReport>,
    /// Each ServicePool.
    pub pools: Vec<PoolReport>,
    /// What no range has.
    pub outside: Many<Stray>,
    /// What was asked for with `--if-cidr` and `--if-node-ports`.
    pub outlook: Vec<Outlook>,
    /// What is not known.
    pub notes: Vec<String>,
}

/// How a list is cut.
impl<T: std::fmt::Display> std::fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first: Vec<String> = self.0.first.iter().map(ToString::to_string).collect();
        f.write_str(&first.join(", "))?;
        match self.0.count - self.0.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Prints the first few and how many more there are.
#[derive(Debug)]
pub struct Shown<'a, T>(pub &'a Many<T>);

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.kind != "services" {
            write!(f, "{} ", self.kind)?;
        }
        write!(f, "{} ({})", self.name, self.value)
    }
}

impl std::fmt::Display for Stray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.service, self.value)
    }
}
