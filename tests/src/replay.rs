//! Replays a case against a server: sends its requests in order and compares every answer.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    bindings::Bindings,
    case::{Case, Expect, RequestStep, SettleStep, Step, StopOrStart, field},
    diff,
    http::{self as client, Client, HttpError, Target},
    launch::{Controllers, LaunchError, Launcher, Server},
    matcher::{Matcher, Mismatch, distinct},
    normalise,
    placeholder::PortRange,
    proxy::Proxy,
    settle::settle,
};

const USER_AGENT: &str = "conformance";
/// How long a step with `retry` may take.
const RETRY_FOR: Duration = Duration::from_secs(10);
const RETRY_EVERY: Duration = Duration::from_millis(100);
/// How long the next event of a watch may take.
const EVENT_WITHIN: Duration = Duration::from_secs(15);

/// A step whose answer is not as expected.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The step, counted from 0.
    pub step: usize,
    /// The request or the kind of step.
    pub what: String,
    /// What differs, for a person.
    pub difference: String,
}

/// How a case went.
#[derive(Debug, Clone)]
pub struct Report {
    /// The case.
    pub name: String,
    /// All steps that failed; empty for a case that passed.
    pub failures: Vec<Failure>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Report {
    /// Whether every answer matched.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// How cases are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How a server is started for each case.
    pub servers: Servers,
    /// The binary that runs the controllers.
    pub controllers: PathBuf,
    /// Whether to go on after a step that failed.
    pub keep_going: bool,
}

/// Where the server of a case comes from.
#[derive(Debug, Clone)]
pub enum Servers {
    /// A fresh one for each case.
    Fresh(Launcher),
    /// One that runs already.
    Running(Target),
}

/// Runs a case from the start of its server to its end.
pub async fn run(case: &Case, options: &Options) -> Report {
    let started = Instant::now();
    let failures = match &options.servers {
        Servers::Fresh(launcher) => match launcher.server(case).await {
            Ok(server) => on_fresh(case, server, options).await,
            Err(error) => vec![aside("start of the server", &error)],
        },
        Servers::Running(target) => on_target(case, target.clone(), options).await,
    };
    Report { name: case.name.clone(), failures, elapsed: started.elapsed() }
}

async fn on_fresh(case: &Case, server: Server, options: &Options) -> Vec<Failure> {
    let mut failures = on_target(case, server.target.clone(), options).await;
    if let Err(error) = server.stop().await {
        failures.push(aside("end of the server", &error));
    }
    failures
}

/// A failure outside the steps.
fn aside(what: &str, error: &dyn std::error::Error) -> Failure {
    Failure { step: 0, what: what.to_owned(), difference: format!("    {error}\n") }
}

async fn on_target(case: &Case, target: Target, options: &Options) -> Vec<Failure> {
    match Replay::prepare(case, target, options).await {
        Ok((mut replay, _dir)) => {
            let mut failures = replay.steps(case, options.keep_going).await;
            if let Some(controllers) = &mut replay.controllers
                && let Err(error) = controllers.stop().await
            {
                failures.push(aside("end of the controllers", &error));
            }
            failures
        }
        Err(error) => vec![aside("start of the controllers", &error)],
    }
}

/// A case in progress.
struct Replay {
    client: Client,
    bindings: Bindings,
    ports: PortRange,
    proxy: Option<Proxy>,
    controllers: Option<Controllers>,
}

impl Replay {
    async fn prepare(
        case: &Case,
        target: Target,
        options: &Options,
    ) -> Result<(Self, Option<tempfile::TempDir>), LaunchError> {
        let ports = PortRange::parse(&case.server.node_port_range).unwrap_or(PortRange { first: 0, last: 0 });
        let client = Client::new(target.clone());
        let mut replay =
            Self { client, bindings: Bindings::default(), ports, proxy: None, controllers: None };
        if !case.has_controllers() {
            return Ok((replay, None));
        }
        let dir = tempfile::tempdir()?;
        let proxy = Proxy::start(target).await?;
        let mut controllers = Controllers::new(options.controllers.clone(), case, &proxy.url(), dir.path())?;
        if case.controllers_start_first() {
            controllers.start().await?;
        }
        replay.proxy = Some(proxy);
        replay.controllers = Some(controllers);
        Ok((replay, Some(dir)))
    }

    async fn steps(&mut self, case: &Case, keep_going: bool) -> Vec<Failure> {
        let mut failures = Vec::new();
        for (index, step) in case.steps.iter().enumerate() {
            let (what, mismatches) = self.step(step).await;
            if !mismatches.is_empty() {
                failures.push(Failure { step: index, what, difference: diff::render(&mismatches) });
                if !keep_going {
                    break;
                }
            }
        }
        failures
    }

    async fn step(&mut self, step: &Step) -> (String, Vec<Mismatch>) {
        match step {
            Step::Controllers(step) => ("controllers".to_owned(), self.control(step.controllers).await),
            Step::Settle(step) => (describe_settle(step), self.settle(step).await),
            Step::Request(step) => (format!("{} {}", step.method, step.path), self.requests(step).await),
        }
    }

    async fn control(&mut self, what: StopOrStart) -> Vec<Mismatch> {
        let Some(controllers) = &mut self.controllers else {
            return vec![problem("the case has no controllers")];
        };
        let done = match what {
            StopOrStart::Stop => controllers.stop().await,
            StopOrStart::Start => controllers.start().await,
        };
        done.err().iter().map(problem).collect()
    }

    async fn settle(&mut self, step: &SettleStep) -> Vec<Mismatch> {
        if let Some(Err(error)) = self.controllers.as_mut().map(Controllers::check) {
            return vec![problem(&error)];
        }
        let settled = settle(step, &self.client, self.proxy.as_ref(), &mut self.bindings, self.ports);
        settled.await.err().unwrap_or_default()
    }

    /// One request, or one for each number.
    async fn requests(&mut self, step: &RequestStep) -> Vec<Mismatch> {
        let Some((name, (from, to))) = step.repeat.iter().flatten().next() else {
            let found = self.request(step, self.bindings.clone()).await;
            if let Some(pause) = step.pause {
                sleep(Duration::from_secs_f64(pause)).await;
            }
            return found;
        };
        for number in *from..=*to {
            let mut numbered = self.bindings.clone();
            numbered.set(name, number.into());
            numbered.set(&format!("{name}.hi"), (number / 250).into());
            numbered.set(&format!("{name}.lo"), (number % 250 + 1).into());
            let mut found = self.request(step, numbered).await;
            if !found.is_empty() {
                for found in &mut found {
                    found.note = format!("{} ({name} = {number})", found.note);
                }
                return found;
            }
        }
        Vec::new()
    }

    /// Sends one request, again and again if it says so, and compares the last answer.
    async fn request(&mut self, step: &RequestStep, filled_from: Bindings) -> Vec<Mismatch> {
        let deadline = Instant::now() + RETRY_FOR;
        loop {
            let answer = match self.exchange(step, &filled_from).await {
                Ok(answer) => answer,
                Err(error) => return vec![problem(&error)],
            };
            let (bindings, mismatches) = self.compare(&step.expect, &answer);
            let again = step.retry && !as_awaited(step, &answer, &mismatches) && Instant::now() < deadline;
            if !again {
                self.bindings = bindings;
                return [mismatches, self.bind(step, &answer)].concat();
            }
            sleep(RETRY_EVERY).await;
        }
    }

    fn bind(&mut self, step: &RequestStep, answer: &Got) -> Vec<Mismatch> {
        let mut missing = Vec::new();
        for (name, path) in &step.bind {
            match field(&answer.body, path) {
                Some(value) => self.bindings.set(name, value.clone()),
                None => {
                    missing.push(problem(&format!("{path}, to be bound to {name}, is not in the answer")));
                }
            }
        }
        missing
    }

    async fn exchange(&self, step: &RequestStep, bindings: &Bindings) -> Result<Got, ExchangeError> {
        let request = build(step, bindings)?;
        let Some(events) = step.watch else {
            let answer = self.client.send(request).await?;
            return Ok(Got {
                code: answer.code,
                warnings: answer.warnings(),
                body: normalised(answer.json()),
                events: None,
            });
        };
        let response = self.client.open(request).await?;
        if step.expect.events.is_none() || !response.status().is_success() {
            let answer = client::collect(response).await?;
            return Ok(Got {
                code: answer.code,
                warnings: answer.warnings(),
                body: normalised(answer.json()),
                events: None,
            });
        }
        let (code, warnings) = (response.status().as_u16(), client::warnings(response.headers()));
        let events = read_events(response.into_body(), events).await?;
        Ok(Got { code, warnings, body: Value::Null, events: Some(events) })
    }

    fn compare(&self, expect: &Expect, got: &Got) -> (Bindings, Vec<Mismatch>) {
        let mut matcher = Matcher::new(self.bindings.clone(), self.ports);
        if expect.code != got.code {
            let note = if got.body.is_null() { String::new() } else { got.body.to_string() };
            matcher.differs("code", Some(expect.code.into()), Some(got.code.into()), note);
        } else if let Some(events) = &expect.events {
            let events = Value::Array(events.clone());
            matcher.value("events", &events, got.events.as_ref().unwrap_or(&Value::Null));
        } else if let Some(body) = &expect.body {
            matcher.value("", body, &got.body);
        }
        // A case that only says the code, as those with controllers do, says nothing about warnings.
        if (expect.body.is_some() || expect.events.is_some()) && expect.code == got.code {
            let mut warnings = Matcher::new(Bindings::default(), self.ports);
            warnings.value("warnings", &json!(expect.warnings), &json!(got.warnings));
            for Mismatch { path, expected, got, note } in warnings.finish().1 {
                matcher.differs(&path, expected, got, note);
            }
        }
        let (bindings, mut mismatches) = matcher.finish();
        if mismatches.is_empty()
            && let Err(same) = distinct(&expect.distinct, &bindings)
        {
            mismatches.push(problem(&same));
        }
        (bindings, mismatches)
    }
}

/// Whether a request need not be repeated: a GET when all is as expected, another when the code is.
fn as_awaited(step: &RequestStep, got: &Got, mismatches: &[Mismatch]) -> bool {
    if step.method == "GET" { mismatches.is_empty() } else { step.expect.code == got.code }
}

/// An answer in comparable form.
struct Got {
    code: u16,
    warnings: Vec<String>,
    body: Value,
    events: Option<Value>,
}

/// A request that could not be sent or was not answered.
#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error(transparent)]
    Unbound(#[from] crate::bindings::Unbound),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the watch gave {got} of {wanted} events, then {then}")]
    Watch { got: usize, wanted: usize, then: String },
}

fn build(step: &RequestStep, bindings: &Bindings) -> Result<Request<Bytes>, ExchangeError> {
    let body = match (&step.raw_body, &step.body) {
        (Some(raw), _) => Some(bindings.in_path(raw)?.into_bytes()),
        (None, Some(body)) => Some(bindings.in_body(body)?.to_string().into_bytes()),
        (None, None) => None,
    };
    let path = escaped(&bindings.in_path(&step.path)?);
    let mut request = client::request(&step.method, &path, body.clone().unwrap_or_default().into())?;
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| HttpError::Request(error.into()));
    let headers = request.headers_mut();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.insert(header::ACCEPT, value(step.accept.as_deref().unwrap_or("application/json"))?);
    if body.is_some() {
        headers
            .insert(header::CONTENT_TYPE, value(step.content_type.as_deref().unwrap_or("application/json"))?);
    }
    Ok(request)
}

/// A path and query in which what a request line cannot hold, such as a blank in a selector, is percent-encoded.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && !br#""<>\^`{|}#"#.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.extend(char::from_digit(u32::from(digit), 16).map(|d| d.to_ascii_uppercase()));
            }
        }
    }
    out
}

async fn read_events(mut body: hyper::body::Incoming, wanted: usize) -> Result<Value, ExchangeError> {
    let mut events: Vec<Value> = Vec::new();
    let mut pending: Vec<u8> = Vec::new();
    while events.len() < wanted {
        let stopped = |then: String| ExchangeError::Watch { got: events.len(), wanted, then };
        let frame = match timeout(EVENT_WITHIN, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(stopped(error.to_string())),
            Ok(None) => return Err(stopped("ended".to_owned())),
            Err(_) => return Err(stopped("nothing came".to_owned())),
        };
        pending.extend_from_slice(frame.data_ref().map_or(&[][..], Bytes::as_ref));
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let event = serde_json::from_slice(&line);
            let event = event.map_err(|error| ExchangeError::Watch {
                got: events.len(),
                wanted,
                then: error.to_string(),
            })?;
            events.push(normalised(event));
        }
    }
    events.truncate(wanted);
    Ok(Value::Array(events))
}

fn normalised(mut value: Value) -> Value {
    normalise::answer(&mut value);
    value
}

fn problem(text: &(impl ToString + ?Sized)) -> Mismatch {
    Mismatch { path: String::new(), expected: None, got: None, note: text.to_string() }
}

fn describe_settle(step: &SettleStep) -> String {
    step.note.as_ref().map_or_else(|| "settle".to_owned(), |note| format!("settle ({note})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_line_cannot_hold_is_encoded() {
        assert_eq!(escaped("/a?l=tier in (web,db)&x=%2F+ü"), "/a?l=tier%20in%20(web,db)&x=%2F+%C3%BC");
    }
}
