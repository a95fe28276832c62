//! Traces of reconciles reach a collector, which stands in this test, by OTLP over gRPC.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeMap, convert::Infallible, fmt::Write as _, future};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::{collector::trace::v1::ExportTraceServiceRequest, trace::v1::Span};
use prost::Message as _;
use serde_json::{Value, json};
use service_tests::{
    account::Account,
    beside::{Beside, SERVICES, SLICES},
    cluster::service,
};
use tokio::{net::TcpListener, sync::mpsc};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Takes requests as a collector does; gives its address and what it is sent.
async fn collector() -> (String, mpsc::UnboundedReceiver<ExportTraceServiceRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
                let sender = sender.clone();
                async move {
                    assert_eq!(request.uri().path(), EXPORT);
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    // A message of gRPC: a byte about compression, four of length.
                    sender.send(ExportTraceServiceRequest::decode(&body[5..]).unwrap()).unwrap();
                    // An empty one, and the trailer that says all is well.
                    let trailers =
                        HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
                    let empty = Full::new(Bytes::from_static(&[0; 5]));
                    let body = empty.with_trailers(future::ready(Some(Ok(trailers))));
                    let response = Response::builder().header("content-type", "application/grpc");
                    Ok::<_, Infallible>(response.body(body).unwrap())
                }
            });
            let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(served.serve_connection(TokioIo::new(stream), answer));
        }
    });
    (address.to_string(), received)
}

fn spans(received: &mut mpsc::UnboundedReceiver<ExportTraceServiceRequest>) -> Vec<Span> {
    let mut spans = Vec::new();
    while let Ok(request) = received.try_recv() {
        for of_resource in request.resource_spans {
            let attributes = of_resource.resource.unwrap().attributes.into_iter();
            assert!(attributes.map(|attribute| attribute.key).any(|key| key == "service.name"));
            spans.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    spans
}

fn number(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Controllers that write one slice, told to send that share of a million traces; gives their log and what was sent.
async fn trace(rate: u32) -> (String, Vec<Span>) {
    let (endpoint, mut received) = collector().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tracing.yaml");
    let kind = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
    std::fs::write(&file, format!("{kind}endpoint: {endpoint}\nsamplingRatePerMillion: {rate}\n")).unwrap();
    let flag = format!("--tracing-config-file={}", file.display());
    let hello = service("hello", &json!({"selector": {"app": "hello"}, "ports": [{"port": 80}]}));
    let more = ["--leader-elect=false", "--controllers=endpointslice-controller", &flag];
    let beside = Beside::start(BINARY, Account::Controllers, &[(SERVICES, hello)], &more).await.unwrap();
    let there = |list: &Value| list["items"].as_array().is_some_and(|items| !items.is_empty());
    beside.until("the slice", SLICES, there).await.unwrap();
    beside.until_logged(&["wrote slices"]).await.unwrap();
    let log = beside.output();
    // What waits is sent at the end.
    beside.stop().await.unwrap();
    (log, spans(&mut received))
}

#[tokio::test]
async fn a_reconcile_is_a_trace_with_the_number_of_its_line() {
    let (log, spans) = trace(1_000_000).await;
    let by_name: BTreeMap<&str, &Span> = spans.iter().map(|span| (span.name.as_str(), span)).collect();
    let whole = by_name["reconcile"];
    let id = number(&whole.trace_id);
    assert!(log.contains(&format!("id={}", &id[16..])), "{id} is not in {log}");
    assert_eq!(id[..16], "0".repeat(16));
    assert!(whole.parent_span_id.is_empty());
    for name in ["plan", "write", "create endpointslices"] {
        let part = by_name[name];
        assert_eq!((&part.trace_id, &part.parent_span_id), (&whole.trace_id, &whole.span_id), "{name}");
        assert!(part.start_time_unix_nano >= whole.start_time_unix_nano, "{name}");
        assert!(part.end_time_unix_nano <= whole.end_time_unix_nano, "{name}");
    }
    let about: BTreeMap<String, String> = whole
        .attributes
        .iter()
        .map(|attribute| (attribute.key.clone(), format!("{:?}", attribute.value)))
        .collect();
    assert!(
        about["controller"].contains("endpointslice-controller") && about["trigger"].contains("start"),
        "{about:?}"
    );
}

#[tokio::test]
async fn nothing_is_traced_at_a_rate_of_none() {
    assert_eq!(trace(0).await.1.len(), 0);
}

#[tokio::test]
async fn a_file_that_says_what_cannot_be_done_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tracing.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: Pod\n").unwrap();
    for (file, part) in [
        (&file, "is not apiserver.config.k8s.io/v1"),
        (&dir.path().join("none"), "--tracing-config-file names it"),
    ] {
        let kubeconfig = dir.path().join("kubeconfig");
        let mut command = tokio::process::Command::new(BINARY);
        command.arg("run").arg(format!("--kubeconfig={}", kubeconfig.display()));
        command.arg("--secure-port=0").arg(format!("--tracing-config-file={}", file.display()));
        let output = command.output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.lines().last().is_some_and(|line| line.starts_with("error: ") && line.contains(part)),
            "{said}"
        );
    }
}
