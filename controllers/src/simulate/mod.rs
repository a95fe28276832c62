//! What the controllers would write, and what that costs, without a server: of objects as they are, and after edits.
//!
//! ```text
//!   objects, edits -> stages (what changes) -> world (the controllers' plans, carried out here) -> report
//! ```
//!
//! Pure. Owns no decision: plans are those of the controllers, values those of the allocators.

pub mod edit;
mod lines;
pub mod report;
mod stages;
mod values;
mod workloads;
mod world;

#[cfg(test)]
mod tests;

pub use edit::{Edit, EditError, ServiceEdit};
pub use report::Simulation;

use std::collections::BTreeSet;

use service_api::labels::Selector;

use self::report::Totals;
use self::stages::Kept;
use self::workloads::Workload;
use self::world::World;
use crate::explain::kind::Kind;
use crate::explain::report::{API_VERSION, Unknown};
use crate::explain::{Snapshot, Subject};
use crate::objects::{IdentityWire, PodWire, partial};

/// For which Services writes are shown and counted; for all, by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Only of this namespace.
    pub namespace: Option<String>,
    /// Only those whose labels meet this.
    pub selector: Option<Selector>,
}

impl Asked {
    /// The Services, as `namespace/name`; none if all are asked for. What has slices without a Service counts by its namespace.
    fn services(&self, world: &World) -> Option<BTreeSet<String>> {
        if *self == Self::default() {
            return None;
        }
        let labels = |key: &(String, String)| {
            let service = world.snapshot.services.get(key)?;
            Some(service.metadata.labels.clone().unwrap_or_default())
        };
        let of_namespace = |(namespace, _): &(String, String)| {
            self.namespace.as_ref().is_none_or(|asked| asked == namespace)
        };
        let selected = |key: &(String, String)| {
            self.selector
                .as_ref()
                .is_none_or(|selector| labels(key).is_some_and(|own| selector.matches(&own)))
        };
        let all =
            world.services().into_iter().map(|(namespace, name)| (namespace.to_string(), name.to_string()));
        let asked = all.filter(|key| of_namespace(key) && selected(key));
        Some(asked.map(|(namespace, name)| format!("{namespace}/{name}")).collect())
    }
}

/// Takes objects, and then says what would be written.
#[derive(Debug)]
pub struct Simulator {
    world: World,
    edits: Vec<Edit>,
    kept: Kept,
    workloads: Vec<Workload>,
    later: Vec<(Kind, serde_json::Value)>,
}

impl Simulator {
    /// A cluster without objects, whose controllers put at most so many endpoints into one slice.
    #[must_use]
    pub fn new(edits: Vec<Edit>, max_endpoints_per_slice: usize) -> Self {
        Self {
            world: World::new(max_endpoints_per_slice),
            edits,
            kept: Kept::default(),
            workloads: Vec::new(),
            later: Vec::new(),
        }
    }

    /// Takes in an object; what neither endpoints nor values depend on is left out. One without a namespace is in `default`.
    ///
    /// # Errors
    /// If it is not what its kind says.
    pub fn add(&mut self, group: &str, kind: &str, json: &[u8]) -> Result<(), serde_json::Error> {
        if let Some(workload) = Workload::read(group, kind, json)? {
            self.workloads.push(workload);
        }
        let Some(kind) = Kind::named(group, kind).filter(|kind| *kind != Kind::Event) else { return Ok(()) };
        if kind == Kind::Pod {
            self.keep_pod(json)?;
        }
        if kind == Kind::Node && self.edits.iter().any(|edit| matches!(edit, Edit::NodeZone { .. })) {
            self.kept.nodes.push(serde_json::from_slice(json)?);
        }
        match placed(kind, json)? {
            Some(object) => self.world.snapshot.add(kind, &serde_json::to_vec(&object)?),
            None => self.world.snapshot.add(kind, json),
        }
    }

    /// Takes in an object that comes, or changes, after the others.
    ///
    /// # Errors
    /// If it is not what its kind says.
    pub fn add_later(&mut self, group: &str, kind: &str, json: &[u8]) -> Result<(), serde_json::Error> {
        let Some(kind) = Kind::named(group, kind).filter(|kind| *kind != Kind::Event) else { return Ok(()) };
        let object = placed(kind, json)?.map_or_else(|| serde_json::from_slice(json), Ok)?;
        // Read once to be told of what is wrong.
        Snapshot::new(Subject::All).add(kind, json)?;
        self.later.push((kind, object));
        Ok(())
    }

    /// All objects of a kind that there are have been taken in.
    pub fn know(&mut self, kind: Kind) {
        self.world.snapshot.know(kind);
    }

    /// Whether there is anything to plan.
    #[must_use]
    pub fn has_services(&self) -> bool {
        self.world.snapshot.knows(Kind::Service) || !self.later.is_empty()
    }

    /// Keeps the pods that an edit ends as they are.
    fn keep_pod(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        let ends = |node: &str| {
            let mut names = self.edits.iter().filter_map(|edit| match edit {
                Edit::Drain(name) | Edit::NodeGone(name) => Some(name),
                _ => None,
            });
            names.any(|name| name == node)
        };
        if self.edits.iter().any(|edit| matches!(edit, Edit::Drain(_) | Edit::NodeGone(_))) {
            let pod: PodWire = serde_json::from_slice(json)?;
            if ends(&pod.spec.node_name) {
                self.kept.pods.push(serde_json::from_slice(json)?);
            }
        }
        Ok(())
    }

    /// What would be written: of the objects as they are, and then after each edit; for the Services that are asked for.
    /// `planned` is called after each Service, in each step.
    #[must_use]
    pub fn run(mut self, asked: &Asked, planned: &dyn Fn()) -> Simulation {
        let mut notes = Vec::new();
        let made_up = workloads::pods(&self.workloads, &self.world, &mut notes);
        if !made_up.is_empty() {
            self.kept.pods.extend(made_up.iter().filter_map(|change| match change {
                world::Change::Put(Kind::Pod, pod) => Some(pod.clone()),
                _ => None,
            }));
        }
        let missing = [Kind::Pod, Kind::EndpointSlice, Kind::Endpoints, Kind::Node];
        let unknown = missing
            .into_iter()
            .filter(|kind| !self.world.snapshot.knows(*kind))
            .filter(|kind| made_up.is_empty() || !matches!(kind, Kind::Pod | Kind::Node))
            .map(|kind| Unknown {
                kind: kind.name(),
                why: format!("there are no {} in what was read", kind.resource()),
                means: match kind {
                    Kind::EndpointSlice | Kind::Endpoints => "all of them would be made",
                    _ => kind.without(),
                },
            })
            .collect();
        self.world.snapshot.settle();
        // What was not read does not exist in this cluster.
        for kind in [Kind::EndpointSlice, Kind::Endpoints, Kind::Node] {
            self.world.snapshot.know(kind);
        }
        let mut first = self.world.step("as it is".to_owned(), made_up, planned);
        first.notes.splice(0..0, notes);
        let mut steps = vec![first];
        if !self.later.is_empty() {
            let later = std::mem::take(&mut self.later);
            steps.push(self.world.step_with(
                "with the objects of the other files".to_owned(),
                later,
                planned,
            ));
        }
        for edit in std::mem::take(&mut self.edits) {
            match stages::stages(&edit, &self.world, &self.kept) {
                Ok(stages) => {
                    for (name, changes) in stages {
                        steps.push(self.world.step(name, changes, planned));
                    }
                }
                Err(why) => steps.push(report::Step {
                    name: "an edit that can not be made".to_owned(),
                    notes: vec![why],
                    ..report::Step::default()
                }),
            }
        }
        let packed = world::could_be_packed(&self.world);
        if let (Some(last), true) = (steps.last_mut(), packed > 0) {
            last.notes.push(format!(
                "the slices of {packed} Services could be fewer: they are packed when nothing has happened for a minute"
            ));
        }
        if let Some(services) = asked.services(&self.world) {
            for step in &mut steps {
                step.writes.retain(|write| services.contains(&write.service));
                step.totals = Totals::of(&step.writes);
            }
        }
        Simulation { api_version: API_VERSION, kind: "Simulation", steps, unknown }
    }
}

/// The object in `default`, if it has to be in a namespace and names none, as many manifests do.
fn placed(kind: Kind, json: &[u8]) -> Result<Option<serde_json::Value>, serde_json::Error> {
    if !matches!(kind, Kind::Service | Kind::Pod | Kind::Endpoints | Kind::EndpointSlice) {
        return Ok(None);
    }
    let meta: IdentityWire = partial::metadata(json)?;
    if !meta.namespace.is_empty() {
        return Ok(None);
    }
    let mut object: serde_json::Value = serde_json::from_slice(json)?;
    object["metadata"]["namespace"] = "default".into();
    Ok(Some(object))
}
