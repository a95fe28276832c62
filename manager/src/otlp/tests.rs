//! Spans reach a collector that stands in this test.

use std::{borrow::Cow, convert::Infallible, time::SystemTime};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full, combinators::WithTrailers};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry::{
    InstrumentationScope, SpanId, TraceFlags, TraceId,
    trace::{SpanContext, SpanKind, Status, TraceState},
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use tokio::{net::TcpListener, sync::mpsc};

use super::*;

/// Takes requests as a collector does; gives its endpoint and what it is sent.
async fn collector() -> (String, mpsc::UnboundedReceiver<ExportTraceServiceRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            let answer = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                let sender = sender.clone();
                async move {
                    assert_eq!(
                        request.uri().path(),
                        "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
                    );
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    // A message of gRPC: a byte about compression, four of length.
                    sender.send(ExportTraceServiceRequest::decode(&body[5..]).unwrap()).unwrap();
                    Ok::<_, Infallible>(
                        Response::builder().header("content-type", "application/grpc").body(empty()).unwrap(),
                    )
                }
            });
            let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(served.serve_connection(TokioIo::new(stream), answer));
        }
    });
    (address.to_string(), received)
}

/// An empty message, and the trailer that says all is well.
fn empty() -> WithTrailers<Full<Bytes>, std::future::Ready<Option<Result<HeaderMap, Infallible>>>> {
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
    Full::new(BytesMut::zeroed(5).freeze()).with_trailers(std::future::ready(Some(Ok(trailers))))
}

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

#[tokio::test]
async fn all_that_waits_is_sent_before_the_end() {
    let (endpoint, mut received) = collector().await;
    let (spans, sending) = start(&config(&endpoint)).unwrap();
    (1..=700).for_each(|number| spans.send(span(number)));
    sending.finish().await;
    let mut names = Vec::new();
    while let Ok(request) = received.try_recv() {
        for of_resource in request.resource_spans {
            let service = of_resource.resource.unwrap().attributes.into_iter();
            assert!(service.map(|attribute| attribute.key).any(|key| key == "service.name"));
            let scopes = of_resource.scope_spans.into_iter();
            names.extend(scopes.flat_map(|scope| scope.spans).map(|span| span.name));
        }
    }
    assert_eq!(names.len(), 700);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_collector_that_is_away() {
    let (spans, sending) = start(&config("127.0.0.1:1")).unwrap();
    (0..2 * WAITING as u64).for_each(|number| spans.send(span(number + 1)));
    assert_eq!(*spans.lost.lock(), WAITING as u64);
    sending.finish().await;
}
