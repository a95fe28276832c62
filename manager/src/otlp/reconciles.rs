//! The trace of a reconcile: from the first event to the last answer, with a span for each part and each write.
//!
//! The trace has the number that the line of the log and the Events have.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use service_controllers::report::look::{LookId, Times, WRITES};
use service_controllers::report::reconcile::{Listener, Reconcile, Written};

use super::{Spans, TracingConfig};

/// Makes traces of reconciles, of as many as are to be kept.
#[derive(Debug)]
pub struct Reconciles {
    config: TracingConfig,
    spans: Spans,
    scope: InstrumentationScope,
}

impl Reconciles {
    /// Those that go this way.
    #[must_use]
    pub fn new(config: TracingConfig, spans: Spans) -> Self {
        let scope =
            InstrumentationScope::builder("service-controllers").with_version(env!("CARGO_PKG_VERSION"));
        Self { config, spans, scope: scope.build() }
    }
}

impl Listener for Reconciles {
    fn wants(&self, id: LookId) -> bool {
        self.config.keeps(id.number())
    }

    fn reconciled(&self, reconcile: &Reconcile<'_>) {
        for span in spans(reconcile, SystemTime::now(), &self.scope) {
            self.spans.send(span);
        }
    }
}

/// The spans of a reconcile that has ended now; the first is that of the whole.
fn spans(reconcile: &Reconcile<'_>, now: SystemTime, scope: &InstrumentationScope) -> Vec<SpanData> {
    let Times { gathering, queued, planning, writing } = reconcile.times;
    let of = Trace { id: reconcile.id, scope };
    // From the first event on, times are offsets.
    let began = now - reconcile.times.total();
    let at = |offset: Duration| began + offset;
    let mut whole = of.span(0, "reconcile".into(), (began, now), SpanKind::Internal, about(reconcile));
    if reconcile.failed > 0 {
        whole.status = Status::error(format!("{} writes were not carried out", reconcile.failed));
    }
    let looked = gathering + queued;
    let parts = [
        ("gather", Duration::ZERO, gathering),
        ("queue", gathering, queued),
        ("plan", looked, planning),
        ("write", looked + planning, writing),
    ];
    let mut spans = vec![whole];
    for (name, offset, took) in parts.into_iter().filter(|(.., took)| !took.is_zero()) {
        let number = spans.len() as u64;
        spans.push(of.span(
            number,
            name.into(),
            (at(offset), at(offset + took)),
            SpanKind::Internal,
            Vec::new(),
        ));
    }
    for written in &reconcile.written {
        let name = format!("{} {}", written.verb.name(), written.resource.plural());
        // The place that the request named to the server.
        let (sent, number) = (looked + written.sent, WRITES + written.place);
        let times = (at(sent), at(sent + written.took));
        spans.push(of.span(number, name.into(), times, SpanKind::Client, about_write(reconcile, written)));
    }
    spans
}

/// What the spans of a trace have in common.
struct Trace<'a> {
    id: LookId,
    scope: &'a InstrumentationScope,
}

impl Trace<'_> {
    /// The span of this number, which all but the first stand below.
    fn span(
        &self,
        number: u64,
        name: Cow<'static, str>,
        (start_time, end_time): (SystemTime, SystemTime),
        span_kind: SpanKind,
        attributes: Vec<KeyValue>,
    ) -> SpanData {
        let trace = TraceId::from(u128::from(self.id.number()));
        let span = |number: u64| SpanId::from(self.id.span(number));
        let context =
            SpanContext::new(trace, span(number), TraceFlags::SAMPLED, false, TraceState::default());
        SpanData {
            span_context: context,
            parent_span_id: if number == 0 { SpanId::INVALID } else { span(0) },
            parent_span_is_remote: false,
            span_kind,
            name,
            start_time,
            end_time,
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

fn about(reconcile: &Reconcile<'_>) -> Vec<KeyValue> {
    let key = reconcile.key;
    let mut about = vec![
        KeyValue::new("controller", key.controller.name()),
        KeyValue::new("name", key.name.to_string()),
        KeyValue::new("trigger", reconcile.trigger.to_string()),
        KeyValue::new("decision", reconcile.decision()),
        KeyValue::new("writes", i64::try_from(reconcile.written.len()).unwrap_or(i64::MAX)),
        KeyValue::new("reconcile.id", reconcile.id.to_string()),
    ];
    if !key.namespace.is_empty() {
        about.push(KeyValue::new("k8s.namespace.name", key.namespace.to_string()));
    }
    about
}

fn about_write(reconcile: &Reconcile<'_>, written: &Written) -> Vec<KeyValue> {
    let mut about = vec![KeyValue::new("name", written.name.clone())];
    if !reconcile.key.namespace.is_empty() {
        about.push(KeyValue::new("k8s.namespace.name", reconcile.key.namespace.to_string()));
    }
    let versions = [("version.before", written.before), ("version.after", written.after)];
    let versions = versions.into_iter().filter_map(|(name, version)| Some((name, version?)));
    about.extend(versions.map(|(name, version)| KeyValue::new(name, version.to_string())));
    about
}

#[cfg(test)]
mod tests {
    use service_controllers::api::{Resource, Verb};
    use service_controllers::controller::{Controller, Key};
    use service_controllers::report::reconcile::{Decision, Told};
    use service_controllers::report::trigger::{Event, Trigger};

    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_reconcile_is_one_trace_with_its_parts_in_their_order() {
        let key = Key::new(Controller::Slices, &"demo".into(), &"hello".into());
        let (trigger, id) = (Trigger::of(Event::ServiceAdded), Told::default().begin().id);
        let written = Written {
            verb: Verb::Create,
            resource: Resource::Slices,
            name: "hello-x".into(),
            before: None,
            after: Some(7),
            endpoints: Some(1),
            place: 3,
            sent: ms(2),
            took: ms(5),
        };
        let reconcile = Reconcile {
            id,
            key: &key,
            trigger: &trigger,
            decision: Decision::Words("go on"),
            written: vec![written],
            failed: 1,
            times: Times { gathering: ms(20), queued: ms(1), planning: ms(2), writing: ms(5) },
        };
        let now = SystemTime::UNIX_EPOCH + ms(1000);
        let spans = spans(&reconcile, now, &InstrumentationScope::default());
        let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let seen: Vec<_> =
            spans.iter().map(|span| (&*span.name, since(span.start_time), since(span.end_time))).collect();
        assert_eq!(
            seen,
            [
                ("reconcile", 972, 1000),
                ("gather", 972, 992),
                ("queue", 992, 993),
                ("plan", 993, 995),
                ("write", 995, 1000),
                ("create endpointslices", 995, 1000),
            ]
        );
        assert_eq!(spans[0].parent_span_id, SpanId::INVALID);
        let of_write = SpanId::from(id.span(WRITES + 3));
        assert_eq!(spans[5].span_context.span_id(), of_write, "what the request says of itself");
        assert!(matches!(spans[0].status, Status::Error { .. }));
        for span in &spans[1..] {
            assert_eq!(span.parent_span_id, spans[0].span_context.span_id());
            assert_ne!(span.span_context.span_id(), spans[0].span_context.span_id());
            assert!(
                span.span_context.trace_id().to_string().ends_with(&id.to_string()),
                "the number of the log"
            );
        }
    }
}
