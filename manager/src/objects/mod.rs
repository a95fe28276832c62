//! Objects for commands that look and write nothing: from an API server, or from files that kubectl wrote.
//!
//! Owns how they come in: one after the other, so that memory does not grow with the size of a file or an answer. What is
//! kept of them is the taker's business.

pub(crate) mod dump;
mod json;
pub(crate) mod live;
mod yaml;

/// An object as it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'a> {
    /// Its API group; empty for the core group.
    pub(crate) group: &'a str,
    /// Its kind.
    pub(crate) kind: &'a str,
    /// The object.
    pub(crate) json: &'a [u8],
}

/// Takes objects one after the other.
pub(crate) type Sink<'a> = dyn FnMut(Item<'_>) -> Result<(), serde_json::Error> + 'a;

/// Objects that cannot be told apart.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SplitError {
    /// No JSON.
    #[error("no JSON: {0}")]
    Json(serde_json::Error),
    /// No YAML.
    #[error("no YAML, at line {line}: {reason}")]
    Yaml {
        /// Where the object begins that cannot be read.
        line: usize,
        /// What the reader says.
        reason: String,
    },
    /// It ends too early.
    #[error("it ends in the middle of an object, after {0} objects: the copy is not complete")]
    Truncated(usize),
    /// Something else than objects.
    #[error("{0:?} is no beginning of a Kubernetes object")]
    NoObject(char),
    /// An object without a kind.
    #[error("an object says neither kind nor apiVersion: this is no Kubernetes object")]
    NoKind,
    /// An object that is too large.
    #[error("an object of more than {} MiB: this is no Kubernetes object", LARGEST >> 20)]
    TooLarge,
    /// An object that is not what its kind says.
    #[error("{kind} {name:?}: {source}")]
    Object {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// No object is larger than this; etcd takes 1.5 MiB.
pub(crate) const LARGEST: usize = 64 << 20;

/// What an object or a list says of itself.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    api_version: String,
    kind: String,
}

impl Head {
    fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// This head with what stands behind the items as well.
    fn with(self, more: Self) -> Self {
        let either = |own: String, other: String| if own.is_empty() { other } else { own };
        Self { api_version: either(self.api_version, more.api_version), kind: either(self.kind, more.kind) }
    }

    /// What the items of a list with this head are, if it says so.
    fn of_items(&self) -> Option<Self> {
        let kind = self.kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
        Some(Self { api_version: self.api_version.clone(), kind: kind.to_owned() })
    }
}

/// Hands an object on. What a list of one kind says of its items counts for all of them.
fn hand_on(json: &[u8], of_list: Option<&Head>, sink: &mut Sink<'_>) -> Result<(), SplitError> {
    let head = match of_list {
        Some(head) => head.clone(),
        None => head(json)?,
    };
    if head.kind.is_empty() {
        return Err(SplitError::NoKind);
    }
    let item = Item { group: head.group(), kind: &head.kind, json };
    sink(item).map_err(|source| SplitError::Object { kind: head.kind.clone(), name: name(json), source })
}

/// What an object says of itself. It stands at the beginning; only if not is the whole object read for it.
fn head(json: &[u8]) -> Result<Head, SplitError> {
    const BEGINNING: usize = 200;
    if let Some(head) = first_two(&json[..json.len().min(BEGINNING)]) {
        return Ok(head);
    }
    serde_json::from_slice(json).map_err(SplitError::Json)
}

/// The head, if `kind` and `apiVersion` are the first two fields.
fn first_two(json: &[u8]) -> Option<Head> {
    let mut fields = serde_json::Map::new();
    let text = std::str::from_utf8(json).ok()?.trim_start().strip_prefix('{')?;
    let mut rest = text;
    for _ in 0..2 {
        let comma = rest.find(',')?;
        let (field, after) = rest.split_at(comma);
        let field: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&format!("{{{field}}}")).ok()?;
        fields.extend(field);
        rest = after.strip_prefix(',')?;
    }
    let head: Head = serde_json::from_value(fields.into()).ok()?;
    (!head.kind.is_empty() && !head.api_version.is_empty()).then_some(head)
}

fn name(json: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    value["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
