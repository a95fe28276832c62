//! The way to a collector that is away; one that is there stands in the tests of the whole binary.

use std::{borrow::Cow, time::SystemTime};

use opentelemetry::{
    InstrumentationScope, SpanId, TraceFlags, TraceId,
    trace::{SpanContext, SpanKind, Status, TraceState},
};

use super::*;

fn span(number: u64) -> SpanData {
    let context = SpanContext::new(
        TraceId::from(u128::from(number)),
        SpanId::from(number),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    );
    SpanData {
        span_context: context,
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: Cow::Borrowed("reconcile"),
        start_time: SystemTime::UNIX_EPOCH,
        end_time: SystemTime::UNIX_EPOCH,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: opentelemetry_sdk::trace::SpanEvents::default(),
        links: opentelemetry_sdk::trace::SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::default(),
    }
}

fn config(endpoint: &str) -> TracingConfig {
    let kind = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
    TracingConfig::parse(&format!("{kind}endpoint: {endpoint}\nsamplingRatePerMillion: 1000000\n")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_collector_that_is_away() {
    let (spans, sending) = start(&config("127.0.0.1:1")).unwrap();
    (0..2 * WAITING as u64).for_each(|number| spans.send(span(number + 1)));
    assert_eq!(*spans.lost.lock(), WAITING as u64);
    sending.finish().await;
}
