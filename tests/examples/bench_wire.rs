//! What the requests of the controllers cost when nobody reads or decides anything: three watches whose events are thrown
//! away, and for each event of a pod the same slice and the same Endpoints object written again. The controllers' figures
//! of `hack/bench/controllers.sh` are read against it: this much is spent by the kernel, TLS, HTTP and kube's client.
#![allow(clippy::print_stderr)]

use std::{error::Error, path::PathBuf, process::ExitCode};

use bytes::Buf;
use http::{Request, header};
use http_body_util::BodyExt;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const ENDPOINTS: &str = "/api/v1/endpoints";
const PODS: &str = "/api/v1/pods";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// An object that is written again and again.
#[derive(Clone)]
struct Object {
    path: String,
    before: String,
    behind: String,
}

impl Object {
    /// Some object of a kind, with a place for a number in its annotations.
    async fn any(client: &Client, collection: &str) -> Outcome<Self> {
        let list = get(client, &format!("{collection}?limit=1")).await?;
        let mut object = list["items"][0].clone();
        let meta = &object["metadata"];
        let (group, plural) = collection.rsplit_once('/').ok_or("a collection has a path")?;
        let path = format!(
            "{group}/namespaces/{}/{plural}/{}",
            meta["namespace"].as_str().ok_or("there is no object to write")?,
            meta["name"].as_str().unwrap_or_default()
        );
        let kept: Value = json!({"name": meta["name"], "namespace": meta["namespace"], "labels": meta["labels"],
            "ownerReferences": meta["ownerReferences"], "annotations": {"bench": "@"}});
        object["metadata"] = kept;
        let kind = if plural == "endpoints" {
            ("v1", "Endpoints")
        } else {
            ("discovery.k8s.io/v1", "EndpointSlice")
        };
        (object["apiVersion"], object["kind"]) = (kind.0.into(), kind.1.into());
        let text = object.to_string();
        let (before, behind) = text.split_once('@').ok_or("the annotation is in the text")?;
        Ok(Self { path, before: before.to_owned(), behind: behind.to_owned() })
    }

    async fn write(self, client: Client, round: u64) {
        let request = Request::put(&self.path)
            .header(header::ACCEPT, METADATA)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(format!("{}{round}{}", self.before, self.behind).into_bytes()));
        let sent = async {
            let response = client.send(request?).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            if status.is_success() { Ok(()) } else { Err(String::from_utf8_lossy(&body).into()) }
        };
        let result: Outcome<()> = sent.await;
        if let Err(error) = result {
            eprintln!("error: {}: {error}", self.path);
        }
    }
}

async fn get(client: &Client, path: &str) -> Outcome<Value> {
    let body = client.send(Request::get(path).body(Body::empty())?).await?.into_body();
    Ok(serde_json::from_slice(&body.collect().await?.to_bytes())?)
}

/// Watches a collection from now on; gives the number of lines that came to `each`.
async fn watch(client: Client, collection: &str, mut each: impl FnMut(usize)) -> Outcome<()> {
    let list = get(&client, &format!("{collection}?limit=1")).await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let path = format!("{collection}?watch=true&resourceVersion={version}");
    let mut body = client.send(Request::get(path).body(Body::empty())?).await?.into_body();
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame?.into_data() else { continue };
        let mut lines = 0;
        while data.has_remaining() {
            let chunk = data.chunk();
            lines += chunk.split(|byte| *byte == b'\n').count() - 1;
            data.advance(chunk.len());
        }
        each(lines);
    }
    Ok(())
}

async fn run(kubeconfig: PathBuf) -> Outcome<()> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let objects = [Object::any(&client, SLICES).await?, Object::any(&client, ENDPOINTS).await?];
    let mut round = 0;
    let writer = client.clone();
    let write = move |lines: usize| {
        for _ in 0..lines {
            round += 1;
            for object in &objects {
                tokio::spawn(object.clone().write(writer.clone(), round));
            }
        }
    };
    tokio::try_join!(
        watch(client.clone(), SLICES, |_| {}),
        watch(client.clone(), ENDPOINTS, |_| {}),
        watch(client, PODS, write)
    )?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(kubeconfig) = std::env::args_os().nth(1) else {
        eprintln!("usage: bench_wire KUBECONFIG");
        return ExitCode::from(2);
    };
    match run(kubeconfig.into()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
