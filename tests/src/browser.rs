//! A headless Chromium, driven by chromedriver (WebDriver, W3C): opens pages, types, looks, takes pictures.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{process::Command, time::sleep};

use crate::{
    http::{Client, HttpError, Target},
    launch::{LaunchError, announced},
    process::Process,
    tls,
};

/// What stands before the port in what chromedriver says.
const LISTENS: &str = "started successfully on port ";
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);
/// Chromium as a test wants it: it asks nobody for anything, and keeps nothing.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// A browser that does not do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// It cannot be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// chromedriver does not answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// It refuses.
    #[error("{command}: {said}")]
    Refused {
        /// What was asked.
        command: String,
        /// What it says.
        said: String,
    },
    /// What is waited for does not come.
    #[error("{script} is not true: {last}")]
    Never {
        /// The script whose value was waited for.
        script: String,
        /// Its last value.
        last: Value,
    },
    /// A picture cannot be kept.
    #[error("picture: {0}")]
    Picture(String),
}

/// A browser with one window.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    session: String,
    process: Process,
    _profile: TempDir,
}

/// Whether there is a chromedriver.
pub async fn is_there() -> bool {
    let mut command = Command::new("chromedriver");
    command.arg("--version").stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

impl Browser {
    /// Starts one that trusts the certificates of tests.
    pub async fn start() -> Result<Self, BrowserError> {
        let profile = tempfile::tempdir().map_err(LaunchError::from)?;
        let mut command = Command::new("chromedriver");
        command.arg("--port=0");
        let mut process =
            Process::start(command, &profile.path().join("driver.log")).map_err(LaunchError::from)?;
        let port = announced(&mut process, &[LISTENS]).await?;
        let tls = tls::trusting_anyone().map_err(LaunchError::from)?;
        let client = Client::new(Target::new(&format!("http://127.0.0.1:{port}"), Arc::clone(&tls), None)?);
        let data = format!("--user-data-dir={}", profile.path().join("profile").display());
        let arguments: Vec<&str> = FLAGS.iter().copied().chain([&*data]).collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "acceptInsecureCerts": true,
            "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let begun = ask(&client, "POST", "/session", &wanted).await?;
        let session = begun["sessionId"].as_str().unwrap_or_default().to_owned();
        Ok(Self { client, session, process, _profile: profile })
    }

    async fn command(&self, method: &str, path: &str, body: &Value) -> Result<Value, BrowserError> {
        ask(&self.client, method, &format!("/session/{}{path}", self.session), body).await
    }

    /// Opens a URL.
    pub async fn open(&self, url: &str) -> Result<(), BrowserError> {
        self.command("POST", "/url", &json!({"url": url})).await.map(drop)
    }

    /// Makes the window so large, and the theme dark or light.
    pub async fn look(&self, width: u32, height: u32, dark: bool) -> Result<(), BrowserError> {
        self.command("POST", "/window/rect", &json!({"width": width, "height": height})).await?;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size).await?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &features).await
    }

    async fn devtools(&self, command: &str, parameters: &Value) -> Result<(), BrowserError> {
        self.command("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
            .await
            .map(drop)
    }

    /// The value of a script in the page, which says `return`.
    pub async fn run(&self, script: &str) -> Result<Value, BrowserError> {
        self.command("POST", "/execute/sync", &json!({"script": script, "args": []})).await
    }

    /// Waits until the value of a script is true, or something else that counts as such; gives it.
    pub async fn until(&self, script: &str) -> Result<Value, BrowserError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = self.run(script).await?;
            if !matches!(value, Value::Null | Value::Bool(false)) && value != 0 && value != "" {
                return Ok(value);
            }
            if Instant::now() > deadline {
                return Err(BrowserError::Never { script: script.to_owned(), last: value });
            }
            sleep(POLL).await;
        }
    }

    /// Presses keys, one after another, in what has the focus: letters, or names such as `Tab`.
    pub async fn press(&self, keys: &[&str]) -> Result<(), BrowserError> {
        let strokes = keys.iter().flat_map(|key| {
            let key = key_code(key);
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        });
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": strokes.collect::<Vec<_>>()});
        self.command("POST", "/actions", &json!({"actions": [keyboard]})).await.map(drop)
    }

    /// Moves the pointer to a point of the window, and clicks there if asked to.
    pub async fn point(&self, x: i64, y: i64, click: bool) -> Result<(), BrowserError> {
        let mut steps = vec![json!({"type": "pointerMove", "duration": 0, "x": x, "y": y})];
        if click {
            steps.extend([
                json!({"type": "pointerDown", "button": 0}),
                json!({"type": "pointerUp", "button": 0}),
            ]);
        }
        let pointer = json!({"type": "pointer", "id": "mouse", "actions": steps});
        self.command("POST", "/actions", &json!({"actions": [pointer]})).await.map(drop)
    }

    /// What the page and the browser complained of since the last time.
    pub async fn complaints(&self) -> Result<Vec<String>, BrowserError> {
        let lines = self.command("POST", "/se/log", &json!({"type": "browser"})).await?;
        let lines = lines.as_array().cloned().unwrap_or_default();
        let severe = lines.iter().filter(|line| line["level"] == "SEVERE");
        Ok(severe.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// Keeps a picture of the window, as PNG.
    pub async fn picture(&self, file: &Path) -> Result<(), BrowserError> {
        let picture = self.command("GET", "/screenshot", &Value::Null).await?;
        let bytes = STANDARD.decode(picture.as_str().unwrap_or_default());
        let bytes = bytes.map_err(|error| BrowserError::Picture(error.to_string()))?;
        std::fs::write(file, bytes)
            .map_err(|error| BrowserError::Picture(format!("{}: {error}", file.display())))
    }

    /// Ends it.
    pub async fn end(self) -> Result<(), BrowserError> {
        self.command("DELETE", "", &Value::Null).await?;
        self.process.terminate().await.map_err(LaunchError::from)?;
        Ok(())
    }
}

/// A key as WebDriver writes it.
fn key_code(key: &str) -> &str {
    match key {
        "Backspace" => "\u{e003}",
        "Tab" => "\u{e004}",
        "Enter" => "\u{e007}",
        "Escape" => "\u{e00c}",
        "End" => "\u{e010}",
        "Home" => "\u{e011}",
        "ArrowLeft" => "\u{e012}",
        "ArrowUp" => "\u{e013}",
        "ArrowRight" => "\u{e014}",
        "ArrowDown" => "\u{e015}",
        letter => letter,
    }
}

async fn ask(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value, BrowserError> {
    let (code, answer) = client.call(method, path, body).await?;
    let value = answer["value"].clone();
    if code == 200 {
        return Ok(value);
    }
    let said = value["message"].as_str().unwrap_or("no reason is given").to_owned();
    Err(BrowserError::Refused { command: format!("{method} {path} {body}"), said })
}
