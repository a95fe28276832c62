//! The page of `lab` and of `run --page`: who gets to see it, what it shows, and what it is told as it happens.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use service_tests::{
    cluster::{Lab, SERVICES, service},
    http::{Answer, Client, Target},
    launch::{kubeconfig_text, secure_port, start_controllers},
};
use tokio::{
    process::Command,
    time::{Instant, timeout_at},
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const RANGES: &[&str] = &["10.96.0.0/16", "fd00:10:96::/112"];
/// How long what follows from a change may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// What stands before the link in what the lab prints.
const LINK: &str = "Look at it: ";

async fn send(client: &Client, method: &str, path: &str, shown: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in shown {
        request = request.header(*name, *value);
    }
    client.send(request.body(Bytes::new()).unwrap()).await.unwrap()
}

/// A client without a token.
fn stranger(target: &Target) -> Client {
    Client::new(Target { token: None, ..target.clone() })
}

/// The events of a page as they come; what was not asked for yet is kept.
struct Events {
    body: Incoming,
    text: String,
    kept: Vec<(String, Value)>,
}

impl Events {
    async fn follow(client: &Client) -> Self {
        let request = Request::builder().uri("/page/events").body(Bytes::new()).unwrap();
        let response = client.open(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), text: String::new(), kept: Vec::new() }
    }

    /// The data of the first event of a name for which this holds; it is given once.
    async fn until(&mut self, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.kept.iter().position(|(of, data)| of == name && holds(data));
            if let Some(at) = found {
                return self.kept.remove(at).1;
            }
            let Ok(frame) = timeout_at(deadline, self.body.frame()).await else {
                panic!("no {name} of the kind came, but {:#?}", self.kept);
            };
            let frame = frame.expect("the page ends its events").unwrap();
            self.text += &String::from_utf8_lossy(frame.data_ref().unwrap());
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let line = |start: &str| event.lines().find_map(|line| line.strip_prefix(start));
                let data = line("data: ").and_then(|data| serde_json::from_str(data).ok());
                let event = (line("event: ").unwrap_or_default().to_owned(), data.unwrap_or(Value::Null));
                let rest = rest.to_owned();
                self.kept.push(event);
                self.text = rest;
            }
        }
    }
}

/// All rows of a page, once those of these kinds are there, and no other kind is still to come: that would begin all anew.
async fn rows(client: &Client, events: &mut Events, kinds: &[&str]) -> Value {
    loop {
        let (code, all) = client.get("/page/data").await.unwrap();
        assert_eq!(code, 200, "{all}");
        let is_read = |kind: &Value| kind["state"] != "reading";
        if kinds.iter().all(|kind| all["kinds"][kind]["state"] == "current")
            && all["kinds"].as_object().is_some_and(|kinds| kinds.values().all(is_read))
        {
            return all;
        }
        events.until("anew", |_| true).await;
    }
}

#[tokio::test]
async fn the_link_that_the_lab_prints_opens_the_page_once_and_nothing_else() {
    let lab = Lab::start(BINARY, RANGES, "30000-32767").await.unwrap();
    let said = lab.server.process.output();
    let link = said.lines().find_map(|line| line.strip_prefix(LINK)).unwrap().to_owned();
    let (page, key) = link.split_once("#key=").unwrap();
    assert_eq!(page, format!("{}/page/", lab.server.target.url()));
    assert!(!said.contains(lab.server.target.token.as_deref().unwrap()), "the token is not told");
    let client = stranger(&lab.server.target);
    let index = send(&client, "GET", "/page/", &[]).await;
    assert_eq!(index.code, 200);
    assert!(index.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert_eq!(send(&client, "GET", "/page/data", &[]).await.code, 401);
    let begun = send(&client, "GET", "/page/session", &[("page-key", key)]).await;
    assert_eq!(begun.code, 204);
    let cookie = begun.headers["set-cookie"].to_str().unwrap();
    let cookie = ("cookie", cookie.split(';').next().unwrap());
    assert_eq!(send(&client, "GET", "/page/data", &[cookie]).await.code, 200);
    assert_eq!(
        send(&client, "GET", "/api/v1/services", &[cookie]).await.code,
        401,
        "the API wants the token"
    );
    assert_eq!(send(&client, "POST", "/page/data", &[cookie]).await.code, 405);
    assert_eq!(send(&client, "GET", "/page/session", &[("page-key", key)]).await.code, 401);
    // Whoever holds the token gets another, as `kubectl get --raw /page/link` does.
    let another = send(&lab.client, "GET", "/page/link", &[]).await;
    assert!(String::from_utf8_lossy(&another.body).starts_with(page), "{another:?}");
    assert_eq!(send(&lab.client, "GET", "/pages", &[]).await.code, 404, "the rest is the API's");
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn what_happens_is_told_as_it_happens() {
    let lab = Lab::start_with(BINARY, RANGES, "30000-32767", &["--nodes=1", "--zones=a"]).await.unwrap();
    let mut events = Events::follow(&lab.client).await;
    let all = rows(
        &lab.client,
        &mut events,
        &["services", "ipaddresses", "servicecidrs", "nodeportranges", "nodes"],
    )
    .await;
    assert_eq!(all["rows"]["services"][0]["name"], "kubernetes");
    assert_eq!(all["rows"]["servicecidrs"][0]["ranges"][1]["usable"], "65535");
    assert_eq!(all["rows"]["nodeportranges"][0]["first"], 30000);
    let spec = json!({"type": "NodePort", "clusterIP": "10.96.0.77", "selector": {"app": "web"}, "ports": [{"port": 80, "nodePort": 30080}]});
    lab.client.call("POST", SERVICES, &service("web", &spec)).await.unwrap();
    let change = events.until("changes", |told| told["set"]["services"][0]["name"] == "web").await;
    assert_eq!(change["set"]["services"][0]["ips"], json!(["10.96.0.77"]));
    let (_, address) = lab.client.get("/page/object/ipaddresses/10.96.0.77").await.unwrap();
    assert_eq!(address["spec"]["parentRef"]["name"], "web");
    let (_, port) = lab.client.get("/page/object/nodeports/30080").await.unwrap();
    assert_eq!(port["spec"]["parentRef"]["name"], "web");

    let node = all["rows"]["nodes"][0]["name"].as_str().unwrap();
    assert_eq!(all["rows"]["nodes"][0]["zone"], "a");
    let pod = json!({"metadata": {"name": "web-1", "labels": {"app": "web"}}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}]}});
    lab.client.call("POST", "/api/v1/namespaces/default/pods", &pod).await.unwrap();
    let told = events
        .until("reconciles", |lines| {
            lines.as_array().unwrap().iter().any(|line| line["fields"]["service"] == "web")
        })
        .await;
    assert!(told[0]["fields"]["controller"].is_string(), "{told}");
    let ready = |told: &Value| {
        told["set"]["endpointslices"]
            .as_array()
            .is_some_and(|rows| rows.iter().any(|row| row["service"] == "web" && row["counts"][0] == 1))
    };
    events.until("changes", ready).await;
    let (_, view) = lab.client.get("/page/service/default/web").await.unwrap();
    let endpoint = &view["slices"][0]["endpoints"][0];
    assert_eq!(
        (&endpoint["condition"], &endpoint["target"], &endpoint["zone"]),
        (&json!("ready"), &json!("default/web-1"), &json!("a"))
    );

    let (code, why) = lab.client.get("/page/explain/service/default/web").await.unwrap();
    assert_eq!(
        (code, &why["kind"], &why["pods"][0]["state"]),
        (200, &json!("ServiceExplanation"), &json!("Ready"))
    );
    let (_, why) = lab.client.get("/page/explain/ip/10.96.0.77").await.unwrap();
    assert_eq!(why["holding"], "Held", "{why}");
    let (code, why) = lab.client.get("/page/explain/service/default/wed").await.unwrap();
    assert_eq!(code, 404);
    assert!(why["error"].as_str().unwrap().contains("is it web?"), "{why}");

    lab.client.call("DELETE", &format!("{SERVICES}/web"), &Value::Null).await.unwrap();
    events.until("changes", |told| told["gone"]["services"] == json!(["default/web"])).await;
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn the_page_of_run_is_for_whom_the_api_server_lets_look() {
    let lab = Lab::start(BINARY, RANGES, "30000-32767").await.unwrap();
    let dir = lab.server.dir.path();
    let kubeconfig = dir.join("run.kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_text(&lab.server.target.url())).unwrap();
    for (more, code) in [(&["--page"][..], 200), (&[], 404)] {
        let mut command = Command::new(BINARY);
        command.arg("run").arg(format!("--kubeconfig={}", kubeconfig.display())).args(more);
        let process = start_controllers(command, &dir.join("run.log")).await.unwrap();
        let target = secure_port(&process).unwrap();
        let holder = Client::new(Target { token: lab.server.target.token.clone(), ..target.clone() });
        assert_eq!(send(&holder, "GET", "/page/", &[]).await.code, code);
        if code == 200 {
            let mut events = Events::follow(&holder).await;
            let all = rows(&holder, &mut events, &["services", "servicecidrs"]).await;
            assert_eq!(all["rows"]["services"][0]["name"], "kubernetes");
            let client = stranger(&target);
            assert_eq!(send(&client, "GET", "/page/data", &[]).await.code, 401);
            let wrong = send(&client, "GET", "/page/data", &[("authorization", "Bearer wrong")]).await;
            assert_eq!(wrong.code, 401, "{wrong:?}");
            assert_eq!(send(&client, "GET", "/other", &[]).await.code, 403, "the rest is guarded as before");
            let token = format!("Bearer {}", lab.server.target.token.as_deref().unwrap());
            let begun = send(&client, "GET", "/page/session", &[("authorization", &token)]).await;
            let cookie = begun.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap();
            assert_eq!(send(&client, "GET", "/page/data", &[("cookie", cookie)]).await.code, 200);
            assert_eq!(
                send(&client, "GET", "/metrics", &[("cookie", cookie)]).await.code,
                403,
                "a session is for the page alone"
            );
        }
        process.terminate().await.unwrap();
    }
    lab.stop().await.unwrap();
}
