//! Disks that take no writes: one that is full, and one that the kernel made read-only. Reads go on, writes are told to come
//! back, readiness names the store, and a server whose disk has room again goes on by itself.
//!
//! Both need mounts of their own, which only root may make; where that cannot be done the tests say so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use http::header;
use rand::distr::Alphanumeric;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use service_tests::case::ServerOptions;
use service_tests::http::{Answer, Client, request};
use service_tests::launch::{Launcher, Server};
use tempfile::TempDir;
use tokio::time::sleep;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How long the server may take to notice that there is room.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file system that is unmounted at the end.
struct Mount {
    dir: TempDir,
    /// What a loop device shows.
    _image: Option<TempDir>,
}

impl Mount {
    /// # Errors
    /// In words, why it cannot be mounted here.
    fn in_memory(options: &str) -> Result<Self, String> {
        let mount = Self { dir: TempDir::new().map_err(|error| error.to_string())?, _image: None };
        run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &mount.path()])?;
        Ok(mount)
    }

    /// One that the kernel makes read-only at its first error, as most disks of servers are mounted.
    ///
    /// # Errors
    /// In words, why it cannot be mounted here.
    fn of_a_file() -> Result<Self, String> {
        let image = TempDir::new().map_err(|error| error.to_string())?;
        let file = image.path().join("image");
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(64 << 20));
        made.map_err(|error| error.to_string())?;
        run("mkfs.ext4", &["-q", &file.to_string_lossy()])?;
        let dir = TempDir::new().map_err(|error| error.to_string())?;
        let mount = Self { dir, _image: Some(image) };
        run("mount", &["-o", "loop,errors=remount-ro", &file.to_string_lossy(), &mount.path()])?;
        Ok(mount)
    }

    fn path(&self) -> String {
        self.dir.path().to_string_lossy().into_owned()
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The file of the kernel that makes it meet an error.
    fn trigger(&self) -> Result<PathBuf, String> {
        let source = run("findmnt", &["-n", "-o", "SOURCE", &self.path()])?;
        let device = Path::new(source.trim()).file_name().unwrap_or_default().to_owned();
        let trigger = Path::new("/sys/fs/ext4").join(device).join("trigger_fs_error");
        if trigger.exists() { Ok(trigger) } else { Err(format!("there is no {}", trigger.display())) }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", &self.path()]);
    }
}

/// What a program prints; an error is what it complains of.
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

async fn start(data: &Path) -> Server {
    let options =
        ServerOptions { service_cidrs: vec!["10.96.0.0/16".into()], node_port_range: "30000-32767".into() };
    let more = ["--controllers", "none", "--data-dir", &data.to_string_lossy()];
    Launcher::Binary(BINARY.into()).start(&options, &more).await.unwrap()
}

async fn write(client: &Client, name: &str, size: usize) -> Answer {
    // What does not become smaller on the disk.
    let text: String =
        StdRng::from_rng(&mut rand::rng()).sample_iter(Alphanumeric).take(size).map(char::from).collect();
    let body = json!({"metadata": {"name": name}, "data": {"a": text}}).to_string();
    let mut post = request("POST", MAPS, Bytes::from(body)).unwrap();
    post.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    client.send(post).await.unwrap()
}

async fn names(client: &Client) -> Vec<String> {
    let (code, list) = client.get(MAPS).await.unwrap();
    assert_eq!(code, 200, "{list}");
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Nothing is written, and everything else works.
async fn only_writes_are_refused(client: &Client, refused: &Answer) {
    assert_eq!(refused.code, 503, "{}", refused.json());
    assert_eq!(refused.headers.get(header::RETRY_AFTER).unwrap(), "1");
    let (code, text) = client.get("/readyz").await.unwrap();
    assert_eq!(code, 500, "{text}");
    assert!(text.as_str().is_some_and(|text| text.contains("[-]store failed: ")), "{text}");
    assert_eq!(client.get("/livez").await.unwrap(), (200, Value::String("ok".to_owned())));
}

#[tokio::test]
async fn a_full_disk() {
    let mount = match Mount::in_memory("size=24m") {
        Ok(mount) => mount,
        Err(why) => {
            return println!("SKIPPED: a full disk was not tried, nothing can be mounted here: {why}");
        }
    };
    let server = start(&mount.data()).await;
    let client = Client::new(server.target.clone());
    assert_eq!(write(&client, "before", 10).await.code, 201);
    let mut answered = vec!["before".to_owned()];
    let refused = loop {
        let name = format!("fill-{:03}", answered.len());
        let answer = write(&client, &name, 700_000).await;
        if answer.code != 201 {
            break answer;
        }
        answered.push(name);
        assert!(answered.len() < 1000, "the disk takes everything");
    };
    only_writes_are_refused(&client, &refused).await;
    assert_eq!(names(&client).await, answered);

    run("mount", &["-o", "remount,size=512m", &mount.path()]).unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while write(&client, "after", 10).await.code != 201 {
        assert!(tokio::time::Instant::now() < deadline, "there is room, and nothing is written");
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.get("/readyz").await.unwrap().0, 200);
    answered.insert(0, "after".to_owned());
    assert_eq!(names(&client).await, answered);

    server.process.kill().await.unwrap();
    let server = start(&mount.data()).await;
    assert_eq!(names(&Client::new(server.target.clone())).await, answered);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_disk_that_is_read_only_all_at_once() {
    let mounted = Mount::of_a_file().and_then(|mount| Ok((mount.trigger()?, mount)));
    let (trigger, mount) = match mounted {
        Ok(mounted) => mounted,
        Err(why) => {
            return println!("SKIPPED: a read-only disk was not tried, none can be made here: {why}");
        }
    };
    let server = start(&mount.data()).await;
    let client = Client::new(server.target.clone());
    assert_eq!(write(&client, "before", 10).await.code, 201);
    std::fs::write(&trigger, "1").unwrap();
    let refused = write(&client, "refused", 10).await;
    only_writes_are_refused(&client, &refused).await;
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Read-only file system"), "{message}");
    assert_eq!(names(&client).await, ["before"]);
    assert_eq!(write(&client, "again", 10).await.code, 503);
    // The kernel takes no writes until it is mounted anew, which no process can outlive.
    server.process.kill().await.unwrap();
}
