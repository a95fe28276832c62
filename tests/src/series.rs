//! What a scrape says: the families of metrics by name, type, labels and buckets.

use std::collections::{BTreeMap, BTreeSet};

/// A family of a scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Family {
    /// Its type.
    pub kind: String,
    /// The names of its labels, but for that of buckets.
    pub labels: BTreeSet<String>,
    /// Of a histogram: the upper bounds of its buckets, but for the last.
    pub buckets: Vec<f64>,
}

impl Family {
    /// Whether two say the same; one of which nothing was counted yet says nothing of its labels and buckets.
    pub fn agrees(&self, other: &Self) -> bool {
        let close = |(one, other): (&f64, &f64)| (one - other).abs() <= one.abs() * 1e-9;
        let buckets =
            self.buckets.len() == other.buckets.len() && self.buckets.iter().zip(&other.buckets).all(close);
        let silent = self.labels.is_empty() && self.buckets.is_empty();
        self.kind == other.kind && (silent || (self.labels == other.labels && buckets))
    }
}

/// The families of a scrape in Prometheus' text format, by name.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            kind.clone_into(&mut families.entry(name.to_owned()).or_default().kind);
        } else if !line.starts_with('#') {
            let (series, labels) = line.split_once('{').map_or((line, ""), |(name, rest)| {
                (name, rest.rsplit_once('}').map_or("", |(labels, _)| labels))
            });
            let series = series.split(' ').next().unwrap_or_default();
            let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| series.strip_suffix(end));
            let histogram =
                histogram.filter(|name| families.get(*name).is_some_and(|f| f.kind == "histogram"));
            let Some(family) = families.get_mut(histogram.unwrap_or(series)) else { continue };
            for (label, value) in labels.split("\",").filter_map(|label| label.split_once("=\"")) {
                let value = value.trim_end_matches('"');
                if label != "le" || histogram.is_none() {
                    family.labels.insert(label.to_owned());
                } else if let Ok(bound) = value.parse::<f64>()
                    && bound.is_finite()
                    && !family.buckets.contains(&bound)
                {
                    family.buckets.push(bound);
                }
            }
        }
    }
    families
}
