//! What keeps a watch alive: a scripted API server answers, and what is taken is compared.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use service_controllers::api::WatchError;
use service_controllers::objects::{Lenient, ObjectKind, PodWire, Read, SliceWire, Watched};
use service_controllers::watch::guard::{Guard, Observer};
use service_controllers::watch::outage::Outage;
use service_controllers::watch::stream::{WatchEvent, follow};
use tokio::sync::Notify;
use tower::service_fn;

/// Answers in their order; after the last one the server says nothing more. Asked how far it has come,
/// it says so without the script.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
    ended: Arc<Notify>,
    /// Versions the server is at, one for each time it is asked; then it is far ahead.
    at: Arc<Mutex<VecDeque<u32>>>,
}

impl Script {
    fn new(answers: &[(u16, &str)]) -> Self {
        let answers = answers.iter().map(|(code, body)| (*code, (*body).to_owned())).collect();
        Self { answers: Arc::new(Mutex::new(answers)), ..Self::default() }
    }

    fn client(&self) -> kube::Client {
        let script = self.clone();
        let answer = move |request: Request<Body>| {
            let script = script.clone();
            async move {
                let query = request.uri().query().unwrap_or_default();
                if query == "limit=1" {
                    let at = script.at.lock().pop_front().unwrap_or(u32::MAX);
                    let body = format!(r#"{{"metadata":{{"resourceVersion":"{at}"}},"items":[]}}"#);
                    return Ok(Response::new(Body::from(body.into_bytes())));
                }
                let kept = query.split('&').filter(|part| !part.starts_with("timeoutSeconds"));
                script.asked.lock().push(kept.collect::<Vec<_>>().join("&"));
                let Some((code, body)) = script.answers.lock().pop_front() else {
                    script.ended.notify_one();
                    return std::future::pending().await;
                };
                Ok::<Response<Body>, Infallible>(
                    Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap(),
                )
            }
        };
        kube::Client::new(service_fn(answer), "default")
    }
}

/// What was taken, in words, until the script is at its end.
async fn taken(script: &Script, kind: ObjectKind) -> Vec<String> {
    match kind {
        ObjectKind::Slices => follow_script::<SliceWire>(script).await,
        _ => follow_script::<PodWire>(script).await,
    }
}

/// Notes what is told of a watch.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Observer for Heard {
    fn answered(&self, _: ObjectKind) {}
    fn listed(&self, _: ObjectKind) {}
    fn works(&self, _: ObjectKind) {}
    fn failed(&self, _: ObjectKind, error: &WatchError, _: Duration) {
        self.0.lock().push(format!("failed: {error}"));
    }
}

async fn follow_script<K: Watched>(script: &Script) -> Vec<String> {
    let heard = Heard::default();
    let log = Arc::clone(&heard.0);
    let take = move |event: WatchEvent<Lenient<K>>| {
        let named = |object: &Lenient<K>, word: &str| match &object.read {
            Read::Unreadable(unreadable) => {
                format!("unreadable {}/{}", unreadable.0.namespace, unreadable.0.name)
            }
            Read::Whole(_) | Read::Partial(_) => format!("{word} {}", object.version()),
        };
        log.lock().push(match &event {
            WatchEvent::ListBegins => "list".to_owned(),
            WatchEvent::Restored => "restored".to_owned(),
            WatchEvent::ListEnds => "end".to_owned(),
            WatchEvent::Seen(object) => named(object, "seen"),
            WatchEvent::Gone(object) => named(object, "gone"),
        });
    };
    let guard = Guard::new(K::KIND, Arc::new(heard.clone()), None);
    let (outage, client) = (Outage::default(), script.client());
    tokio::select! {
        () = follow(&client, &guard, &outage, take) => {}
        () = script.ended.notified() => {}
    }
    let heard = heard.0.lock();
    heard.clone()
}

const LATER: &str = r#"{"metadata":{"resourceVersion":"20"},"items":null}"#;
const EMPTY: &str = r#"{"metadata":{"resourceVersion":"5"},"items":null}"#;

fn pod(kind: &str, name: &str, version: u32) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{version}"}}}}}}"#
    ) + "\n"
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages_and_the_watch_goes_on_from_it() {
    let script = Script::new(&[
        (
            200,
            r#"{"metadata":{"resourceVersion":"7","continue":"a+b=="},"items":[{"metadata":{"name":"a","resourceVersion":"3"}}]}"#,
        ),
        (
            200,
            r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"b","resourceVersion":"4"}}]}"#,
        ),
        (200, &(pod("ADDED", "c", 8) + &pod("DELETED", "a", 9))),
    ]);
    assert_eq!(
        taken(&script, ObjectKind::Pods).await,
        ["list", "seen 3", "seen 4", "end", "seen 8", "gone 9"]
    );
    assert_eq!(
        *script.asked.lock(),
        [
            "limit=200",
            "limit=200&continue=a%2Bb%3D%3D",
            "watch=true&allowWatchBookmarks=true&resourceVersion=7",
            "watch=true&allowWatchBookmarks=true&resourceVersion=9",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_moves_the_version_and_nothing_else() {
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"90"},"spec":{"containers":null}}}"#;
    let script = Script::new(&[(200, EMPTY), (200, &format!("{bookmark}\n"))]);
    assert_eq!(taken(&script, ObjectKind::Pods).await, ["list", "end"]);
    assert_eq!(script.asked.lock().last().unwrap(), "watch=true&allowWatchBookmarks=true&resourceVersion=90");
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_calls_for_a_list() {
    let gone =
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
    let script = Script::new(&[
        (200, EMPTY),
        (200, &format!("{gone}\n")),
        (200, EMPTY),
        (410, r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old as well"}"#),
        (200, EMPTY),
    ]);
    assert_eq!(
        taken(&script, ObjectKind::Pods).await,
        [
            "list",
            "end",
            "failed: the version to continue from has expired: too old",
            "list",
            "end",
            "failed: the version to continue from has expired: too old as well",
            "list",
            "end",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_after_an_outage_is_not_put_off() {
    let mut answers = vec![(500, ""); 10];
    answers[0] = (200, EMPTY);
    answers[9] = (410, r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#);
    answers.push((200, EMPTY));
    let script = Script::new(&answers);
    let begun = tokio::time::Instant::now();
    assert_eq!(taken(&script, ObjectKind::Pods).await.last().unwrap(), "end");
    // 50 ms to 6.4 s, a quarter more at most; the next one would be 12.8 s, a quarter less at least.
    assert!(begun.elapsed().as_secs() < 17, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_between_its_pages_starts_anew() {
    let script = Script::new(&[
        (200, r#"{"metadata":{"resourceVersion":"7","continue":"x"},"items":[]}"#),
        (410, r#"{"kind":"Status","code":410,"reason":"Expired","message":"old"}"#),
        (200, EMPTY),
    ]);
    let heard = taken(&script, ObjectKind::Pods).await;
    assert_eq!(heard, ["list", "failed: the version to continue from has expired: old", "list", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_before_its_first_page_starts_anew() {
    let old = (410, r#"{"kind":"Status","code":410,"reason":"Expired","message":"old"}"#);
    let script = Script::new(&[old, old, (200, EMPTY)]);
    let heard = taken(&script, ObjectKind::Pods).await;
    let failed = "failed: the version to continue from has expired: old";
    assert_eq!(heard, ["list", failed, "list", failed, "list", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_years_is_asked_again_within_minutes() {
    let years = r#"{"message":"too many","details":{"retryAfterSeconds":1000000000}}"#;
    let first = (200, r#"{"metadata":{"resourceVersion":"7","continue":"x"},"items":[]}"#);
    // Before a list, between its pages, and on opening a watch.
    let script = Script::new(&[(429, years), first, (429, years), (200, EMPTY), (503, years)]);
    let begun = tokio::time::Instant::now();
    assert_eq!(
        taken(&script, ObjectKind::Pods).await.last().unwrap(),
        "failed: server unavailable: too many"
    );
    assert!(begun.elapsed() < Duration::from_mins(20), "{:?}", begun.elapsed());
    assert!(begun.elapsed() > Duration::from_mins(15), "what it asks for counts, up to a bound");
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_for_the_page_again_and_not_for_those_before_it() {
    let script = Script::new(&[
        (200, r#"{"metadata":{"resourceVersion":"7","continue":"x"},"items":[]}"#),
        (429, r#"{"message":"too many","details":{"retryAfterSeconds":30}}"#),
        (429, "Too many requests, please try again later.\n"),
        (200, EMPTY),
    ]);
    let heard = taken(&script, ObjectKind::Pods).await;
    let failed = |message: &str| format!("failed: server unavailable: {message}");
    let text = "Too many requests, please try again later.";
    assert_eq!(heard, ["list".to_owned(), failed("too many"), failed(text), "end".to_owned()]);
    assert_eq!(script.asked.lock()[1..4], ["limit=200&continue=x"; 3]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_and_waited_out_and_the_version_is_kept() {
    let script = Script::new(&[
        (500, "boom"),
        (200, "no list"),
        (200, EMPTY),
        (200, "no event\n"),
        (429, r#"{"message":"too many","details":{"retryAfterSeconds":30}}"#),
        (200, ""),
        (200, &pod("ADDED", "a", 6)),
    ]);
    let begun = tokio::time::Instant::now();
    let heard = taken(&script, ObjectKind::Pods).await;
    assert_eq!(heard.iter().filter(|word| word.starts_with("failed")).count(), 5, "{heard:?}");
    assert_eq!(heard.last().unwrap(), "seen 6");
    assert!(begun.elapsed().as_secs() >= 30, "the server asked for 30 s");
    let asked = script.asked.lock();
    assert!(asked[3..7].iter().all(|query| query.ends_with("resourceVersion=5")), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_named_and_passed_over() {
    let odd = r#"{"type":"MODIFIED","object":{"metadata":{"name":"odd","namespace":"n","resourceVersion":"8"},"status":{"conditions":7}}}"#;
    let list = r#"{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"bad","namespace":"n"},"spec":7},{"metadata":{"name":"a","resourceVersion":"3"}}]}"#;
    let events = format!("{odd}\n") + &pod("ADDED", "b", 9);
    // Once more, with the objects as texts.
    let script = Script::new(&[(200, list), (200, list), (200, &events)]);
    let mut heard = taken(&script, ObjectKind::Pods).await;
    let told = heard.remove(1);
    assert!(told.starts_with("failed: unreadable answer: invalid type: integer `7`"), "{told}");
    assert_eq!(heard, ["list", "list", "unreadable n/bad", "seen 3", "end", "unreadable n/odd", "seen 9"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_asked_for_once_more_and_named() {
    let odd = r#"{"type":"MODIFIED","object":{"metadata":{"name":"odd","namespace":"n","resourceVersion":"8"},"status":{"conditions":7}}}"#;
    let events = format!("{odd}\n") + &pod("ADDED", "b", 9);
    let script = Script::new(&[
        (200, EMPTY),
        (200, &(pod("ADDED", "a", 6) + &events)),
        (200, &events),
        (200, &odd.replace('8', "10")),
    ]);
    let mut heard = taken(&script, ObjectKind::Pods).await;
    let told = heard.remove(3);
    assert!(told.starts_with("failed: unreadable answer"), "{told}");
    assert_eq!(heard, ["list", "end", "seen 6", "unreadable n/odd", "seen 9", "unreadable n/odd"]);
    let asked = script.asked.lock();
    assert!(asked[2].ends_with("resourceVersion=6"), "from the last that could be read: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_may_begin_with_its_object() {
    let turned = |kind: &str, version: u32| {
        let metadata = format!(r#"{{"name":"a","namespace":"n","resourceVersion":"{version}"}}"#);
        format!(r#"{{"object":{{"metadata":{metadata}}},"type":"{kind}"}}"#) + "\n"
    };
    let bookmark =
        r#"{"object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}},"type":"BOOKMARK"}"#;
    let gone = r#"{"object":{"kind":"Status","code":410,"message":"too old"},"type":"ERROR"}"#;
    let events = turned("ADDED", 6) + &pod("MODIFIED", "a", 7) + &turned("DELETED", 8);
    let script = Script::new(&[
        (200, EMPTY),
        (200, &format!("{events}{bookmark}\n")),
        (200, &format!("{gone}\n")),
        (200, LATER),
    ]);
    let heard = taken(&script, ObjectKind::Pods).await;
    let failed = "failed: the version to continue from has expired: too old";
    assert_eq!(heard, ["list", "end", "seen 6", "seen 7", "gone 8", failed, "list", "end"]);
    assert!(script.asked.lock()[2].ends_with("resourceVersion=9"), "the bookmark counts");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_event_is_told_and_the_watch_goes_on_from_the_last_that_is() {
    for line in [
        r#"{"type":"MOVED","object":{}}"#,
        r#"{"object":{},"type":"MOVED"}"#,
        r#"{"type":"ADDED"}"#,
        r#"{"kind":"Pod","metadata":{"name":"a"}}"#,
        "{}",
        "[]",
        "7",
        "<html>",
    ] {
        let lost = pod("ADDED", "b", 7);
        let script =
            Script::new(&[(200, EMPTY), (200, &(pod("ADDED", "a", 6) + line + "\n" + &lost)), (200, &lost)]);
        let heard = taken(&script, ObjectKind::Pods).await;
        assert!(heard[3].starts_with("failed: unreadable answer: "), "{line}: {heard:?}");
        // What came after the line comes again, and the line with it, if it was an event.
        assert_eq!(
            heard.iter().filter(|word| !word.starts_with("failed")).collect::<Vec<_>>(),
            ["list", "end", "seen 6", "seen 7"],
            "{line}"
        );
        let asked = script.asked.lock();
        assert!(asked[2].ends_with("resourceVersion=6"), "{line}: {asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_line_at_the_end_of_a_watch_is_no_event_and_no_failure() {
    for half in [r#"{"type":"ADDED","obj"#, r#"{"object":{"metadata":{"name":"b""#, r#"{"ty"#] {
        let lost = pod("ADDED", "b", 7);
        let script = Script::new(&[(200, EMPTY), (200, &(pod("ADDED", "a", 6) + half)), (200, &lost)]);
        let heard = taken(&script, ObjectKind::Pods).await;
        assert_eq!(heard, ["list", "end", "seen 6", "seen 7"], "{half}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_without_end_is_cut_off() {
    let endless = "x".repeat((64 << 20) + 1);
    let script = Script::new(&[(200, EMPTY), (200, &endless), (200, &pod("ADDED", "a", 6))]);
    let heard = taken(&script, ObjectKind::Pods).await;
    assert!(heard[2].ends_with("a line has no end"), "{heard:?}");
    assert_eq!(heard.last().unwrap(), "seen 6");
}

#[tokio::test(start_paused = true)]
async fn an_error_without_a_code_is_told_by_what_it_says() {
    let error = |rest: &str| format!(r#"{{"type":"ERROR","object":{{"kind":"Status",{rest}}}}}"#) + "\n";
    let other = error(r#""message":"etcd is away""#);
    let gone = error(r#""reason":"Expired","message":"too old""#);
    let empty = r#"{"type":"ERROR","object":{}}"#.to_owned() + "\n";
    let script = Script::new(&[
        (200, EMPTY),
        (200, &other),
        (200, &empty),
        (200, &pod("ADDED", "a", 6)),
        (200, &gone),
        (200, LATER),
    ]);
    let heard = taken(&script, ObjectKind::Pods).await;
    assert!(
        heard.iter().any(|word| word.starts_with("failed") && word.ends_with("etcd is away")),
        "{heard:?}"
    );
    assert!(heard.iter().any(|word| word == "seen 6"), "{heard:?}");
    let expired = "failed: the version to continue from has expired: too old";
    assert_eq!(heard[heard.len() - 3..], [expired, "list", "end"], "{heard:?}");
    assert_eq!(heard.iter().filter(|word| **word == expired).count(), 1, "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_version_is_no_empty_list() {
    let script = Script::new(&[(200, "{}"), (200, r#"{"kind":"Status","metadata":{}}"#), (200, EMPTY)]);
    let heard = taken(&script, ObjectKind::Pods).await;
    let failed = "failed: unreadable answer: a list without a version";
    assert_eq!(heard, ["list", failed, "list", failed, "list", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_for_which_each_version_has_expired_is_not_listed_without_end() {
    let gone = (410, r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#);
    let script = Script::new(&[(200, EMPTY), gone].repeat(10));
    let begun = tokio::time::Instant::now();
    taken(&script, ObjectKind::Pods).await;
    assert!(begun.elapsed().as_secs() >= 15, "only {:?} for ten lists", begun.elapsed());
}

fn slices(version: u32, slice: u32, ip: &str) -> String {
    let metadata = format!(
        r#"{{"name":"s","namespace":"n","uid":"u","resourceVersion":"{slice}","labels":{{"kubernetes.io/service-name":"web","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io"}}}}"#
    );
    let item =
        format!(r#"{{"metadata":{metadata},"addressType":"IPv4","endpoints":[{{"addresses":["{ip}"]}}]}}"#);
    format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[{item}]}}"#)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_put_back_is_listed_anew() {
    let script =
        Script::new(&[(200, &slices(90, 80, "10.0.0.1")), (200, ""), (200, &slices(50, 40, "10.0.0.2"))]);
    *script.at.lock() = [50].into();
    let heard = taken(&script, ObjectKind::Slices).await;
    assert_eq!(
        heard,
        [
            "list",
            "seen 80",
            "end",
            "failed: the connection broke off: the watch ended as soon as it began",
            "failed: the server's versions went back from 90 to 50",
            "list",
            "restored",
            "seen 40",
            "end",
        ]
    );
    // It may show only by an event.
    let script = Script::new(&[(200, EMPTY), (200, &pod("ADDED", "a", 4)), (200, EMPTY)]);
    let heard = taken(&script, ObjectKind::Pods).await;
    let failed = "failed: the server's versions went back from 5 to 4";
    assert_eq!(heard, ["list", "end", "seen 4", failed, "list", "end"]);
}
