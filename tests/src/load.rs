//! A cheap load generator: keep-alive connections, bodies made before the clock runs, latencies kept as numbers. It shares the
//! machine with the server it measures, so it parses nothing that it does not need.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use tokio::task::JoinSet;

use crate::http::{HttpError, Target};

/// One request of a load, ready to be sent.
#[derive(Debug, Clone)]
pub struct Shot {
    /// POST, DELETE or PATCH (a merge patch).
    pub method: http::Method,
    /// Path and query.
    pub path: String,
    /// The body, empty for none.
    pub body: Bytes,
}

/// A load that went wrong.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Another answer than success.
    #[error("{method} {path}: {code} {body}")]
    Refused {
        /// Method of the request.
        method: http::Method,
        /// Path of the request.
        path: String,
        /// Status code.
        code: u16,
        /// What the server says.
        body: String,
    },
    /// A task of the load panicked.
    #[error("the load broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// One connection.
pub struct Gun {
    sender: SendRequest<Full<Bytes>>,
    authorization: HeaderValue,
    host: HeaderValue,
}

impl Gun {
    /// Connects.
    pub async fn connect(target: &Target) -> Result<Self, LoadError> {
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|error| HttpError::Request(http::Error::from(error)))
        };
        let token = target.token.as_deref().unwrap_or_default();
        Ok(Self {
            sender: target.connect().await?,
            authorization: value(&format!("Bearer {token}"))?,
            host: value(&target.authority)?,
        })
    }

    /// Sends one request and waits for its success.
    pub async fn fire(&mut self, shot: &Shot) -> Result<(), LoadError> {
        let patch = shot.method == http::Method::PATCH;
        let kind = if patch { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(shot.method.clone())
            .uri(shot.path.as_str())
            .header(header::HOST, self.host.clone())
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::CONTENT_TYPE, kind)
            .body(Full::new(shot.body.clone()))
            .map_err(HttpError::from)?;
        self.sender.ready().await.map_err(HttpError::from)?;
        let response = self.sender.send_request(request).await.map_err(HttpError::from)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(HttpError::from)?.to_bytes();
        if status.is_success() {
            return Ok(());
        }
        Err(LoadError::Refused {
            method: shot.method.clone(),
            path: shot.path.clone(),
            code: status.as_u16(),
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// How a volley went.
#[derive(Debug, Clone)]
pub struct Volley {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Of every request, sorted.
    pub latencies: Vec<Duration>,
}

impl Volley {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        count(self.latencies.len()) / self.elapsed.as_secs_f64()
    }

    /// The latency that this share (0 to 1) of the requests did not exceed.
    pub fn percentile(&self, share: f64) -> Duration {
        percentile(&self.latencies, share)
    }
}

/// The value that this share (0 to 1) of sorted values does not exceed; zero without values.
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into a list in memory"
    )]
    let index = (count(sorted.len()) * share).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests are small")]
pub(crate) const fn count(number: usize) -> f64 {
    number as f64
}

/// Sends all shots over several connections as fast as they are answered.
pub async fn fire_all(target: &Target, shots: Vec<Shot>, connections: usize) -> Result<Volley, LoadError> {
    let mut guns = Vec::new();
    for _ in 0..connections {
        guns.push(Gun::connect(target).await?);
    }
    let (shots, next) = (Arc::new(shots), Arc::new(AtomicUsize::new(0)));
    let mut running = JoinSet::new();
    let started = Instant::now();
    for mut gun in guns {
        let (shots, next) = (Arc::clone(&shots), Arc::clone(&next));
        running.spawn(async move {
            let mut latencies = Vec::new();
            while let Some(shot) = shots.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sent = Instant::now();
                gun.fire(shot).await?;
                latencies.push(sent.elapsed());
            }
            Ok::<_, LoadError>(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = running.join_next().await {
        latencies.extend(done??);
    }
    let elapsed = started.elapsed();
    latencies.sort_unstable();
    Ok(Volley { elapsed, latencies })
}

/// Creations of Services `NAME-FROM` to `NAME-(TO-1)` in a namespace.
pub fn creations(namespace: &str, name: &str, numbers: std::ops::Range<usize>) -> Vec<Shot> {
    let path = format!("/api/v1/namespaces/{namespace}/services");
    numbers
        .map(|number| Shot { method: http::Method::POST, path: path.clone(), body: service(name, number) })
        .collect()
}

/// Deletions of the same.
pub fn deletions(namespace: &str, name: &str, numbers: std::ops::Range<usize>) -> Vec<Shot> {
    numbers
        .map(|number| Shot {
            method: http::Method::DELETE,
            path: format!("/api/v1/namespaces/{namespace}/services/{name}-{number}"),
            body: Bytes::new(),
        })
        .collect()
}

fn service(name: &str, number: usize) -> Bytes {
    let body = serde_json::json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("{name}-{number}"), "labels": {"app": name}},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    });
    Bytes::from(body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_values_themselves() {
        let millis: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        for (share, expected) in [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)] {
            assert_eq!(percentile(&millis, share), Duration::from_millis(expected));
        }
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }
}
