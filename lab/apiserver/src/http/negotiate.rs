//! What a client accepts and what it sends: media types, quality values, and the forms of an answer they stand for.
//!
//! Pure. Protobuf is never spoken; a client that lists it beside JSON (as kubectl does) gets JSON.

use service_api::status;

use crate::registry::error::ApiError;

/// The text form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
}

impl Format {
    /// The value of `Content-Type`.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// What is shown of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The whole object.
    #[default]
    Object,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
    /// A `Table`.
    Table,
}

/// How to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendering {
    /// The text form.
    pub(crate) format: Format,
    /// With line breaks and indentation.
    pub(crate) pretty: bool,
    /// Whole, metadata only, or a table.
    pub(crate) shape: Shape,
    /// Tables and metadata in their form of old, which differs by its name alone.
    pub(crate) beta: bool,
}

impl Rendering {
    /// The `apiVersion` of tables and metadata.
    pub(crate) const fn meta_version(self) -> &'static str {
        if self.beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
    }
}

/// Which shapes a request can be answered in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Objects of a kind: all shapes.
    Objects,
    /// Documents that have one shape only (discovery, versions).
    Plain,
}

/// What upstream says it can write; protobuf is in its list, though not in ours to give.
const REPRESENTATIONS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// One element of an `Accept` header.
struct Clause<'a> {
    media: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let mut quality = 1.0;
        let mut params = Vec::new();
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim().trim_matches('"');
            if key.trim() == "q" {
                quality = value.parse().unwrap_or(1.0);
            } else {
                params.push((key.trim(), value));
            }
        }
        Self { media, params, quality }
    }

    fn param(&self, name: &str) -> Option<&'a str> {
        self.params.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn format(&self) -> Option<Format> {
        match self.media {
            "*/*" | "application/json" => Some(Format::Json),
            "application/yaml" => Some(Format::Yaml),
            _ => None,
        }
    }

    fn shape(&self, offer: Offer) -> Option<Shape> {
        let Some(kind) = self.param("as") else { return Some(Shape::Object) };
        if offer == Offer::Plain {
            return None;
        }
        let known =
            self.param("g") == Some("meta.k8s.io") && matches!(self.param("v"), Some("v1" | "v1beta1"));
        match kind {
            "Table" if known => Some(Shape::Table),
            "PartialObjectMetadata" if known => Some(Shape::Metadata),
            "PartialObjectMetadataList" if known => Some(Shape::MetadataList),
            _ => None,
        }
    }
}

/// Chooses the answer's form for an `Accept` header (`None` or empty: anything) and the `pretty` parameter.
///
/// # Errors
/// 406 when nothing that is asked for can be given.
pub(crate) fn negotiate(
    accept: Option<&str>,
    pretty: Option<bool>,
    user_agent: &str,
    offer: Offer,
) -> Result<Rendering, ApiError> {
    let (format, shape, explicit, beta) = match accept.map(str::trim) {
        None | Some("") => (Format::Json, Shape::Object, None, false),
        Some(accept) => {
            let mut clauses: Vec<_> = accept.split(',').map(Clause::parse).collect();
            clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
            let chosen = clauses.iter().filter(|clause| clause.quality > 0.0).find_map(|clause| {
                let pretty = clause.param("pretty").map(|value| value == "1");
                Some((clause.format()?, clause.shape(offer)?, pretty, clause.param("v") == Some("v1beta1")))
            });
            chosen.ok_or_else(|| status::not_acceptable(REPRESENTATIONS))?
        }
    };
    let by_hand = ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| user_agent.starts_with(prefix));
    let pretty = explicit.or(pretty).unwrap_or(by_hand);
    Ok(Rendering { format, pretty, shape, beta })
}

/// Does the header ask for aggregated discovery of that version (`v2`) before a plain answer?
pub(crate) fn wants_aggregated(accept: Option<&str>) -> bool {
    let mut clauses: Vec<_> = accept.unwrap_or_default().split(',').map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let best = clauses.iter().find(|clause| match clause.param("as") {
        None => clause.format().is_some(),
        Some(_) => is_aggregated(clause),
    });
    best.is_some_and(is_aggregated)
}

fn is_aggregated(clause: &Clause<'_>) -> bool {
    clause.format() == Some(Format::Json)
        && clause.param("as") == Some("APIGroupDiscoveryList")
        && clause.param("g") == Some("apidiscovery.k8s.io")
        && clause.param("v") == Some("v2")
}

/// The media type of a `Content-Type` header, without its parameters.
pub(crate) fn media_type(content_type: Option<&str>) -> &str {
    content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn form(accept: &str) -> Option<(Format, Shape)> {
        negotiate(Some(accept), None, "", Offer::Objects).ok().map(|r| (r.format, r.shape))
    }

    #[rstest]
    #[case("", Some((Format::Json, Shape::Object)))]
    #[case("*/*", Some((Format::Json, Shape::Object)))]
    #[case("application/yaml", Some((Format::Yaml, Shape::Object)))]
    #[case("application/vnd.kubernetes.protobuf,application/json", Some((Format::Json, Shape::Object)))]
    #[case("application/yaml;q=0.5, application/json;q=0.9", Some((Format::Json, Shape::Object)))]
    #[case("text/html", None)]
    #[case("application/*", None)]
    #[case("application/vnd.kubernetes.protobuf", None)]
    #[case("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some((Format::Json, Shape::Table)))]
    #[case("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some((Format::Json, Shape::Object)))]
    #[case(
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        Some((Format::Json, Shape::MetadataList))
    )]
    fn the_best_clause_that_can_be_served_is_chosen(
        #[case] accept: &str,
        #[case] expected: Option<(Format, Shape)>,
    ) {
        assert_eq!(form(accept), expected);
    }

    #[test]
    fn pretty_is_for_people() {
        let pretty = |agent: &str, pretty| negotiate(None, pretty, agent, Offer::Plain).unwrap().pretty;
        assert!(pretty("curl/8", None));
        assert!(!pretty("curl/8", Some(false)));
        assert!(pretty("kubectl", Some(true)));
        assert!(!pretty("kubectl", None));
    }

    #[rstest]
    #[case("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", true)]
    #[case(
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
        false
    )]
    #[case("application/json", false)]
    fn aggregated_discovery_is_asked_for(#[case] accept: &str, #[case] expected: bool) {
        assert_eq!(wants_aggregated(Some(accept)), expected);
    }
}
