//! The page as a browser sees it, in front of an API server that has one Service and nothing else.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt as _, future, stream};
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, StreamBody};
use kube::client::Body as Sent;
use rstest::rstest;
use tower::{ServiceExt as _, service_fn};

use super::*;

const HOST: &str = "127.0.0.1:6443";

/// Knows one token.
struct OneToken;

impl Authority for OneToken {
    fn may_look<'a>(&'a self, token: Option<&'a str>) -> Later<'a, Result<(), Refused>> {
        let refused = Refused { status: StatusCode::UNAUTHORIZED, message: "another token".to_owned() };
        Box::pin(future::ready(if token == Some("good") { Ok(()) } else { Err(refused) }))
    }
}

/// How often a list of Services was asked for, and how many watches are open.
#[derive(Default)]
struct Asked {
    lists: AtomicUsize,
    watches: AtomicUsize,
}

struct Open(Arc<Asked>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Relaxed);
    }
}

fn answer(request: &Request<Sent>, asked: &Arc<Asked>) -> Response<Body> {
    let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default());
    let service = json!({"metadata": {"namespace": "demo", "name": "hello", "resourceVersion": "1", "managedFields": [{}]}, "spec": {"clusterIPs": ["10.96.0.7"]}});
    let body = match path.as_str() {
        _ if query.contains("watch=true") => {
            asked.watches.fetch_add(1, Relaxed);
            let open = Open(Arc::clone(asked));
            let silent = stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>();
            let silent = silent.map(move |frame| {
                let _ = &open;
                frame
            });
            return Response::new(Body::new(StreamBody::new(silent)));
        }
        "/api/v1/services" => {
            asked.lists.fetch_add(1, Relaxed);
            json!({"apiVersion": "v1", "kind": "ServiceList", "metadata": {"resourceVersion": "1"}, "items": [service]})
        }
        "/api/v1/namespaces/demo/services/hello" => {
            json!({"apiVersion": "v1", "kind": "Service", "metadata": service["metadata"]})
        }
        path if path.starts_with("/apis/service-control-plane.io/") || path.ends_with("/missing") => {
            let status = json!({"kind": "Status", "code": 404, "reason": "NotFound", "status": "Failure", "message": "not found"});
            return Response::builder().status(404).body(Body::from(status.to_string())).unwrap();
        }
        _ => json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}),
    };
    Response::new(Body::from(body.to_string()))
}

fn page() -> (Page, Arc<Asked>) {
    let asked = Arc::new(Asked::default());
    let of_server = Arc::clone(&asked);
    let server = service_fn(move |request: Request<Sent>| {
        let answer = answer(&request, &of_server);
        async move { Ok::<_, Infallible>(answer) }
    });
    let settings = Settings {
        title: "a \"test\"".to_owned(),
        node_ports: NodePortRange::new(30000, 32767).unwrap(),
        hosts: vec!["services.example".to_owned()],
        linger: Duration::from_mins(1),
        shutdown: CancellationToken::new(),
    };
    let client = Client::new(server, "default");
    (Page::new(client, Arc::new(OneToken), None, Reconciles::default(), settings), asked)
}

async fn send(page: &Page, method: Method, path: &str, shown: &[(&str, &str)]) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path);
    let named = shown.iter().any(|(name, _)| *name == "host");
    if !named {
        request = request.header("host", HOST);
    }
    for (name, value) in shown {
        request = request.header(*name, *value);
    }
    page.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn get(page: &Page, path: &str, shown: &[(&str, &str)]) -> (u16, Value) {
    let response = send(page, Method::GET, path, shown).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (
        code,
        serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&body).as_ref())),
    )
}

const GOOD: (&str, &str) = ("authorization", "Bearer good");

#[rstest]
#[case(Method::GET, "/page/", &[], 200)]
#[case(Method::HEAD, "/page/app.js", &[], 200)]
#[case(Method::GET, "/page", &[], 308)]
#[case(Method::GET, "/page/other.js", &[], 404)]
#[case(Method::GET, "/page/data/more", &[], 404)]
#[case(Method::GET, "/page/../api", &[GOOD], 404)]
#[case(Method::POST, "/page/", &[GOOD], 405)]
#[case(Method::DELETE, "/page/object/services/demo/hello", &[GOOD], 405)]
#[case(Method::GET, "/page/", &[("host", "rebound.example")], 421)]
#[case(Method::GET, "/page/", &[("host", "services.example")], 200)]
#[case(Method::GET, "/page/data", &[("host", "services.example"), GOOD], 200)]
#[case(Method::GET, "/page/data", &[("host", "rebound.example"), GOOD], 421)]
// A link from elsewhere opens the page; a page from elsewhere reads nothing.
#[case(Method::GET, "/page/", &[("sec-fetch-site", "cross-site")], 200)]
#[case(Method::GET, "/page/data", &[("sec-fetch-site", "cross-site"), GOOD], 403)]
#[case(Method::GET, "/page/session", &[("sec-fetch-site", "same-site"), GOOD], 403)]
#[case(Method::GET, "/page/data", &[], 401)]
#[case(Method::GET, "/page/events", &[], 401)]
#[case(Method::GET, "/page/reconciles", &[], 401)]
#[case(Method::GET, "/page/service/demo/hello", &[], 401)]
#[case(Method::GET, "/page/object/services/demo/hello", &[], 401)]
#[case(Method::GET, "/page/link", &[], 401)]
#[case(Method::GET, "/page/session", &[], 401)]
#[case(Method::GET, "/page/data", &[("authorization", "Bearer bad")], 401)]
#[case(Method::GET, "/page/data", &[GOOD], 200)]
#[case(Method::GET, "/page/reconciles?after=x", &[GOOD], 400)]
#[case(Method::GET, "/page/object/secrets/demo/hello", &[GOOD], 404)]
#[case(Method::GET, "/page/object/services/demo/missing", &[GOOD], 404)]
#[case(Method::GET, "/page/service/demo/a%2Fb", &[GOOD], 400)]
#[case(Method::GET, "/page/explain/service/demo/hello", &[GOOD], 404)]
#[tokio::test]
async fn every_answer_has_the_policy(
    #[case] method: Method,
    #[case] path: &str,
    #[case] shown: &[(&str, &str)],
    #[case] code: u16,
) {
    let (page, _) = page();
    let response = send(&page, method, path, shown).await;
    assert_eq!(response.status().as_u16(), code);
    let headers = response.headers();
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(headers[name], value);
    }
    let cached = headers["cache-control"].to_str().unwrap();
    assert!(cached == "no-store" || cached == "no-cache" && headers.contains_key("etag"), "{cached}");
    assert!(!headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn a_file_that_is_known_is_not_sent_again() {
    let (page, _) = page();
    let first = send(&page, Method::GET, "/page/style.css", &[]).await;
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    let again = send(&page, Method::GET, "/page/style.css", &[("if-none-match", &tag)]).await;
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn a_link_makes_one_session_and_shows_no_token() {
    let (page, _) = page();
    let (code, link) = get(&page, "/page/link", &[GOOD]).await;
    let link = link.as_str().unwrap().trim().to_owned();
    let key = link.strip_prefix("https://127.0.0.1:6443/page/#key=").unwrap();
    assert!(code == 200 && key.len() == 64 && !link.contains("good"), "{link}");
    let begun = send(&page, Method::GET, "/page/session", &[("page-key", key)]).await;
    assert_eq!(begun.status(), StatusCode::NO_CONTENT);
    let set = begun.headers()[header::SET_COOKIE].to_str().unwrap();
    assert!(
        set.ends_with("; Path=/page/; Secure; HttpOnly; SameSite=Strict") && !set.contains("good"),
        "{set}"
    );
    let cookie = ("cookie", set.split(';').next().unwrap());
    assert_eq!(get(&page, "/page/data", &[cookie]).await.0, 200);
    assert_eq!(get(&page, "/page/session", &[("page-key", key)]).await.0, 401, "the link was followed");
    let ended = send(&page, Method::GET, "/page/session/end", &[cookie]).await;
    assert!(ended.headers()[header::SET_COOKIE].to_str().unwrap().ends_with("Max-Age=0"));
    assert_eq!(get(&page, "/page/data", &[cookie]).await.0, 401);
}

#[tokio::test]
async fn a_service_and_an_object_are_shown_without_their_field_owners() {
    let (page, _) = page();
    let metadata = json!({"namespace": "demo", "name": "hello", "resourceVersion": "1"});
    let (code, view) = get(&page, "/page/service/demo/hello", &[GOOD]).await;
    assert_eq!((code, &view["object"]["metadata"], &view["slices"]), (200, &metadata, &json!([])));
    let (code, object) = get(&page, "/page/object/services/demo/hello", &[GOOD]).await;
    assert_eq!((code, &object["metadata"]), (200, &metadata));
    let (code, view) = get(&page, "/page/service/demo/missing", &[GOOD]).await;
    assert_eq!((code, &view["object"]), (200, &Value::Null));
}

/// The next events of a stream of them.
async fn events(body: &mut Body, until: &str) -> String {
    let mut text = String::new();
    while !text.contains(until) {
        let frame = body.frame().await.unwrap().unwrap();
        text += &String::from_utf8_lossy(frame.data_ref().unwrap());
    }
    text
}

#[tokio::test(start_paused = true)]
async fn watches_begin_with_the_first_viewer_and_end_after_the_last() {
    let (page, asked) = page();
    assert_eq!(asked.lists.load(Relaxed), 0, "nobody looks");
    let mut viewer = send(&page, Method::GET, "/page/events", &[GOOD]).await.into_body();
    assert!(events(&mut viewer, "begin").await.starts_with("event: anew"));
    events(&mut viewer, "much has changed").await;
    let (_, all) = get(&page, "/page/data", &[GOOD]).await;
    assert_eq!(all["rows"]["services"][0]["name"], "hello");
    assert_eq!(all["kinds"]["services"]["state"], "current");
    assert_eq!(all["kinds"]["nodeports"]["state"], "absent");
    assert_eq!((&all["title"], &all["nodePorts"]["band"]), (&json!("a \"test\""), &json!(86)));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(
        (asked.lists.load(Relaxed), asked.watches.load(Relaxed) > 0),
        (1, true),
        "somebody still looks"
    );
    drop(viewer);
    tokio::time::sleep(Duration::from_secs(50)).await;
    get(&page, "/page/data", &[GOOD]).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(asked.lists.load(Relaxed), 1, "a glance keeps it going");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(asked.watches.load(Relaxed), 0, "nobody looks any more");
    get(&page, "/page/data", &[GOOD]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(asked.lists.load(Relaxed), 2, "it begins again");
}

#[tokio::test]
async fn lines_of_the_log_are_pushed() {
    let (page, _) = page();
    let mut viewer = send(&page, Method::GET, "/page/events", &[GOOD]).await.into_body();
    events(&mut viewer, "begin").await;
    let fields = |writes: u64| serde_json::Map::from_iter([("writes".to_owned(), Value::from(writes))]);
    page.shared.reconciles.record(1, "INFO", fields(1));
    page.shared.reconciles.record(2, "INFO", fields(2));
    let pushed = events(&mut viewer, "\"writes\":2").await;
    assert!(pushed.contains("event: reconciles") && pushed.contains("\"writes\":1"), "{pushed}");
    let (_, lines) = get(&page, "/page/reconciles?after=1", &[GOOD]).await;
    assert_eq!(lines, json!([{"n": 2, "at": 2, "level": "INFO", "fields": {"writes": 2}}]));
}

#[tokio::test]
async fn there_is_a_most_of_viewers() {
    let (page, _) = page();
    let mut viewers = Vec::new();
    for _ in 0..live::MOST_VIEWERS {
        viewers.push(send(&page, Method::GET, "/page/events", &[GOOD]).await);
    }
    assert_eq!(
        send(&page, Method::GET, "/page/events", &[GOOD]).await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    viewers.pop();
    assert_eq!(send(&page, Method::GET, "/page/events", &[GOOD]).await.status(), StatusCode::OK);
}
