//! A line of the log, whatever form it came in.

use jiff::Timestamp;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it was written.
    pub time: Timestamp,
    /// How grave it is.
    pub level: tracing::Level,
    /// What it says.
    pub message: String,
    /// Its fields in their order; of spans, those that it has not itself.
    pub fields: Vec<(String, String)>,
}

impl Line {
    /// A field; nothing if it has none of that name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Adds a field, unless it has one of that name.
    pub(super) fn add(&mut self, name: &str, value: String) {
        if self.field(name).is_none() {
            self.fields.push((name.to_owned(), value));
        }
    }

    /// The object that it is about, as `NAMESPACE/NAME` or the name alone where there are no namespaces.
    #[must_use]
    pub fn object(&self) -> Option<String> {
        let namespaced = self.field("namespace").zip(self.field("service"));
        let named = namespaced.map(|(namespace, name)| format!("{namespace}/{name}"));
        let cluster_wide = ["servicecidr", "servicepool", "nodeportrange"];
        named.or_else(|| cluster_wide.iter().find_map(|kind| self.field(kind)).map(ToOwned::to_owned))
    }
}
