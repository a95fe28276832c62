//! Watchers that note when each event came, for latency and loss under load.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::{task::JoinSet, time::timeout};

use crate::{
    http::{Client, HttpError, Target, request},
    load::{Gun, LoadError, Shot},
};

/// How long a watcher waits for the next event before it calls the rest lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the watchers saw.
#[derive(Debug, Clone)]
pub struct Seen {
    /// From the answer to a create to its event, sorted; zero when the event came first.
    pub delays: Vec<Duration>,
    /// Events that never came.
    pub lost: usize,
    /// Creates a second that were reached.
    pub rate: f64,
}

/// Sends creates at a rate while several watchers read the Services of a namespace.
pub async fn watch_while_creating(
    target: &Target,
    namespace: &str,
    shots: Vec<Shot>,
    watchers: usize,
    per_second: u32,
) -> Result<Seen, LoadError> {
    let start = Instant::now();
    let answered: Arc<Vec<AtomicU64>> = Arc::new(shots.iter().map(|_| AtomicU64::new(0)).collect());
    let mut watching = JoinSet::new();
    for _ in 0..watchers {
        let client = Client::new(target.clone());
        let path = format!("/api/v1/namespaces/{namespace}/services?watch=true&resourceVersion=0");
        let response = client.open(request("GET", &path, Bytes::new())?).await?;
        watching.spawn(read(response.into_body(), shots.len(), start));
    }
    let elapsed = paced(target, shots, per_second, start, &answered).await?;
    let (mut delays, mut lost) = (Vec::new(), 0);
    while let Some(arrivals) = watching.join_next().await {
        let arrivals = arrivals?;
        for (number, answered) in answered.iter().enumerate() {
            let answered = Duration::from_micros(answered.load(Ordering::Relaxed));
            match arrivals.get(&number) {
                Some(arrived) => delays.push(arrived.saturating_sub(answered)),
                None => lost += 1,
            }
        }
    }
    delays.sort_unstable();
    Ok(Seen { delays, lost, rate: crate::load::count(answered.len()) / elapsed.as_secs_f64() })
}

/// Sends shots over eight connections, each at its time, and notes when each was answered.
async fn paced(
    target: &Target,
    shots: Vec<Shot>,
    per_second: u32,
    start: Instant,
    answered: &Arc<Vec<AtomicU64>>,
) -> Result<Duration, LoadError> {
    const CONNECTIONS: usize = 8;
    let shots = Arc::new(shots);
    let mut firing = JoinSet::new();
    let first = Instant::now();
    for offset in 0..CONNECTIONS {
        let mut gun = Gun::connect(target).await?;
        let (shots, answered) = (Arc::clone(&shots), Arc::clone(answered));
        firing.spawn(async move {
            for number in (offset..shots.len()).step_by(CONNECTIONS) {
                let due = first + Duration::from_secs(number as u64) / per_second;
                tokio::time::sleep_until(due.into()).await;
                gun.fire(&shots[number]).await?;
                answered[number].store(micros(start.elapsed()), Ordering::Relaxed);
            }
            Ok::<_, LoadError>(())
        });
    }
    while let Some(done) = firing.join_next().await {
        done??;
    }
    Ok(first.elapsed())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// When the event of each number came.
async fn read(mut body: hyper::body::Incoming, wanted: usize, start: Instant) -> HashMap<usize, Duration> {
    let mut arrivals = HashMap::with_capacity(wanted);
    let mut pending: Vec<u8> = Vec::new();
    while arrivals.len() < wanted {
        let Ok(Some(Ok(frame))) = timeout(PATIENCE, body.frame()).await else { break };
        let now = start.elapsed();
        pending.extend_from_slice(frame.data_ref().map_or(&[][..], Bytes::as_ref));
        let mut begin = 0;
        while let Some(length) = pending[begin..].iter().position(|byte| *byte == b'\n') {
            if let Some(number) = number_of(&pending[begin..begin + length]) {
                arrivals.entry(number).or_insert(now);
            }
            begin += length + 1;
        }
        pending.drain(..begin);
    }
    arrivals
}

/// The number in `"name":"PREFIX-NUMBER"` of the object's metadata: the first name in the event.
fn number_of(event: &[u8]) -> Option<usize> {
    const NAME: &[u8] = br#""name":""#;
    let text = event.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    text.map(|(at, _)| &event[at + NAME.len()..]).find_map(|rest| {
        let name = std::str::from_utf8(rest.split(|byte| *byte == b'"').next()?).ok()?;
        name.rsplit_once('-')?.1.parse().ok()
    })
}

impl From<http::Error> for LoadError {
    fn from(error: http::Error) -> Self {
        HttpError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_event() {
        let event =
            br#"{"type":"ADDED","object":{"spec":{"ports":[{"name":"http"}]},"metadata":{"name":"w-17"}}}"#;
        assert_eq!(number_of(event), Some(17));
        assert_eq!(number_of(b"{}"), None);
    }
}
