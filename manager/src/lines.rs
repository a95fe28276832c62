//! Takes the lines that the controllers write about reconciles out of the log, whatever else is logged.

use serde_json::{Map, Value};
use service_page::Reconciles;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    subscriber::Interest,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, Filter},
    registry::LookupSpan,
};

/// Where the controllers are.
const CONTROLLERS: &str = "service_controllers";
/// A line about a reconcile has this field.
const CONTROLLER: &str = "controller";

/// The layer that hands the lines about reconciles to a page.
pub(crate) fn layer<S>(reconciles: Reconciles) -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    Taker(reconciles).with_filter(Wanted)
}

/// Whether a place in the code writes lines about reconciles.
fn is_about_reconciles(metadata: &Metadata<'_>) -> bool {
    metadata.is_event()
        && *metadata.level() <= Level::INFO
        && metadata.target().starts_with(CONTROLLERS)
        && metadata.fields().field(CONTROLLER).is_some()
}

/// Keeps all else from the layer, whatever is logged.
struct Wanted;

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        is_about_reconciles(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_about_reconciles(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }
}

struct Taker(Reconciles);

impl<S: Subscriber> Layer<S> for Taker {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let at = jiff::Timestamp::now().as_millisecond();
        self.0.record(at, event.metadata().level().as_str(), fields.0);
    }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::{fmt, layer::SubscriberExt as _};

    use super::*;

    #[test]
    fn lines_about_reconciles_are_taken_whatever_is_logged() {
        let (reconciles, quiet) = (Reconciles::default(), fmt::layer().with_filter(LevelFilter::OFF));
        let subscriber = tracing_subscriber::registry().with(quiet).with(layer(reconciles.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "service_controllers::report", controller = "c", writes = 2_u64, "wrote slices");
            tracing::debug!(target: "service_controllers::report", controller = "c", "quiet");
            tracing::info!(target: "service_controllers::runtime", "caches are filled");
            tracing::info!(target: "hyper", controller = "c", "another");
        });
        let kept: Value = serde_json::from_str(&reconciles.since(0)).unwrap();
        let fields: Vec<&Value> = kept.as_array().unwrap().iter().map(|line| &line["fields"]).collect();
        assert_eq!(fields, [&serde_json::json!({"controller": "c", "writes": 2, "message": "wrote slices"})]);
    }
}
