//! The file format of a recorded case, read strictly: a field nobody knows is an error, so that no expectation is skipped.
//! Owns no behaviour.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// One recorded case: requests in order and the answer to each.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// The file's name without `.json`.
    pub name: String,
    /// What a user does and what must happen.
    pub about: String,
    /// Subjects.
    pub tags: Vec<String>,
    /// Options of the server that the case needs.
    pub server: ServerOptions,
    /// Controllers that run beside the server, by their kube-controller-manager names.
    pub controllers: Vec<String>,
    /// Settings of the controllers by flag name.
    #[serde(default)]
    pub controller_args: BTreeMap<String, Value>,
    /// Requests, settle steps, and stops and starts of the controllers.
    pub steps: Vec<Step>,
}

/// Ranges of the server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerOptions {
    /// One or two CIDRs.
    pub service_cidrs: Vec<String>,
    /// `first-last`.
    pub node_port_range: String,
}

/// One step of a case.
#[derive(Debug, Clone)]
pub enum Step {
    /// Ends or starts the controllers.
    Controllers(ControllersStep),
    /// Waits until the controllers are quiet, then compares listed objects.
    Settle(SettleStep),
    /// Sends a request.
    Request(Box<RequestStep>),
}

impl<'de> Deserialize<'de> for Step {
    /// Tells the kinds apart by key, so that an error names the field and not just "no variant".
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let step = if value.get("settle").is_some() {
            SettleStep::deserialize(value).map(Self::Settle)
        } else if value.get("controllers").is_some() {
            ControllersStep::deserialize(value).map(Self::Controllers)
        } else {
            RequestStep::deserialize(value).map(|step| Self::Request(Box::new(step)))
        };
        step.map_err(D::Error::custom)
    }
}

/// `{"controllers": "stop"}` or `{"controllers": "start"}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllersStep {
    /// What to do.
    pub controllers: StopOrStart,
}

/// What a controllers step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopOrStart {
    /// End them.
    Stop,
    /// Start them anew.
    Start,
}

/// Successful writes by resource, then verb.
pub type Writes = BTreeMap<String, BTreeMap<String, u64>>;

/// A settle step.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettleStep {
    /// Always true; marks the step.
    pub settle: bool,
    /// Seconds without a write of the controllers that end the wait.
    #[serde(default = "default_quiet")]
    pub quiet: f64,
    /// The state may take that many seconds to come about.
    pub within: Option<f64>,
    /// A remark for the reader.
    pub note: Option<String>,
    /// What the server must list.
    #[serde(default)]
    pub expect_objects: Vec<ExpectObjects>,
    /// The most writes since the previous settle step.
    pub writes: Option<Writes>,
}

const fn default_quiet() -> f64 {
    2.5
}

/// The expected listing of one path.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ExpectObjects {
    /// Whole objects.
    Items(ExpectItems),
    /// Groups of slices, where it is arbitrary which endpoint is in which slice.
    Groups(ExpectGroups),
}

/// A listing as whole objects.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectItems {
    /// What to list.
    pub path: String,
    /// The objects, normalised.
    pub items: Vec<Value>,
}

/// A listing as groups of slices.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectGroups {
    /// What to list.
    pub path: String,
    /// The groups.
    pub groups: Vec<Group>,
}

/// Slices that agree in everything but name, uid, times and endpoints.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {
    /// The common rest.
    pub object: Value,
    /// Endpoints per slice, largest first.
    pub counts: Option<Vec<usize>>,
    /// Bounds of the number of slices, where the counts are arbitrary too.
    pub slices: Option<(usize, usize)>,
    /// The most endpoints a slice may have.
    pub max_per_slice: Option<usize>,
    /// All endpoints of the group.
    pub endpoints: Vec<Value>,
    /// Endpoints by zone, then by the zone they have a hint for; the endpoints are then listed without hints.
    pub hints: Option<BTreeMap<String, BTreeMap<String, u64>>>,
}

/// A request and the answer to it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestStep {
    /// HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// `application/json` if missing.
    pub content_type: Option<String>,
    /// The Accept header, `application/json` if missing.
    pub accept: Option<String>,
    /// The body as JSON.
    pub body: Option<Value>,
    /// The body as text.
    pub raw_body: Option<String>,
    /// How many events to read from a watch.
    pub watch: Option<usize>,
    /// Whether to repeat the request for up to ten seconds.
    #[serde(default)]
    pub retry: bool,
    /// Seconds to wait after the answer.
    pub pause: Option<f64>,
    /// A number to count through: one request for each.
    #[serde(rename = "for")]
    pub repeat: Option<BTreeMap<String, (u64, u64)>>,
    /// Fields of the answer to bind, by name.
    #[serde(default)]
    pub bind: BTreeMap<String, String>,
    /// A remark for the reader.
    pub note: Option<String>,
    /// The expected answer.
    pub expect: Expect,
}

/// An expected answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Status code.
    pub code: u16,
    /// The body, normalised, with placeholders.
    pub body: Option<Value>,
    /// Events of a watch.
    pub events: Option<Vec<Value>>,
    /// Texts of the `Warning` headers in order; none if missing.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// References whose values must all differ.
    #[serde(default)]
    pub distinct: Vec<String>,
}

/// A case file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// Reading failed.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not a case.
    #[error("{path} is no case: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

impl Case {
    /// Reads the case in a file.
    pub fn load(path: &Path) -> Result<Self, CaseError> {
        let text = std::fs::read(path).map_err(|source| CaseError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|source| CaseError::Parse { path: path.to_owned(), source })
    }

    /// Reads a case from its text.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Whether controllers run beside the server.
    pub fn has_controllers(&self) -> bool {
        !self.controllers.is_empty()
    }

    /// Whether the controllers start before the first step.
    pub fn controllers_start_first(&self) -> bool {
        let first = self.steps.iter().find_map(|step| match step {
            Step::Controllers(step) => Some(step.controllers),
            Step::Settle(_) | Step::Request(_) => None,
        });
        self.has_controllers() && first != Some(StopOrStart::Start)
    }
}

/// All cases of a folder, by name.
pub fn load_folder(folder: &Path) -> Result<Vec<Case>, CaseError> {
    let read = |source| CaseError::Read { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| Case::load(path)).collect()
}

/// An object's field by a dotted path.
pub fn field<'v>(value: &'v Value, dotted: &str) -> Option<&'v Value> {
    dotted.split('.').try_fold(value, |value, key| match value {
        Value::Object(map) => map.get(key),
        Value::Array(list) => key.parse::<usize>().ok().and_then(|index| list.get(index)),
        _ => None,
    })
}
