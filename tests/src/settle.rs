//! The settle step: waits until the controllers write no more, compares the listed objects and the number of writes.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use crate::{
    bindings::Bindings,
    case::{ExpectObjects, SettleStep, Writes},
    http::Client,
    listing,
    matcher::{Matcher, Mismatch},
    normalise,
    placeholder::PortRange,
    proxy::Proxy,
};

/// The longest wait for controllers that never stop writing.
const RESTLESS: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

/// Runs a settle step; the bindings are those after it.
pub async fn settle(
    step: &SettleStep,
    client: &Client,
    proxy: Option<&Proxy>,
    bindings: &mut Bindings,
    ports: PortRange,
) -> Result<(), Vec<Mismatch>> {
    let started = Instant::now();
    let mut mismatches = quiet(step, proxy, started).await;
    let deadline = started + Duration::from_secs_f64(step.within.unwrap_or_default());
    loop {
        let (bound, found) = compare(step, client, bindings.clone(), ports).await;
        if found.is_empty() || Instant::now() >= deadline {
            *bindings = bound;
            mismatches.extend(found);
            break;
        }
        sleep(POLL).await;
    }
    if let Some(proxy) = proxy {
        mismatches.extend(too_many(step.writes.as_ref(), &proxy.take()));
    }
    if mismatches.is_empty() { Ok(()) } else { Err(mismatches) }
}

/// Waits until nothing was written for a while.
async fn quiet(step: &SettleStep, proxy: Option<&Proxy>, started: Instant) -> Vec<Mismatch> {
    let quiet = Duration::from_secs_f64(step.quiet);
    loop {
        let since = proxy.map_or(started, |proxy| proxy.last_write().max(started));
        let Some(left) = quiet.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) else {
            return Vec::new();
        };
        if started.elapsed() > RESTLESS {
            return vec![mismatch("writes", None, None, "the controllers never stop writing")];
        }
        sleep(left).await;
    }
}

async fn compare(
    step: &SettleStep,
    client: &Client,
    bindings: Bindings,
    ports: PortRange,
) -> (Bindings, Vec<Mismatch>) {
    let mut bindings = bindings;
    let mut mismatches = Vec::new();
    for expected in &step.expect_objects {
        let path = match expected {
            ExpectObjects::Items(expected) => &expected.path,
            ExpectObjects::Groups(expected) => &expected.path,
        };
        match list(client, path, &bindings).await {
            Ok(listed) => {
                let mut matcher = Matcher::new(bindings.clone(), ports);
                match expected {
                    ExpectObjects::Items(expected) => {
                        listing::items(&mut matcher, &expected.items, &listed);
                    }
                    ExpectObjects::Groups(expected) => {
                        listing::groups(&mut matcher, &expected.groups, &listed);
                    }
                }
                let (bound, found) = matcher.finish();
                bindings = bound;
                mismatches.extend(
                    found
                        .into_iter()
                        .map(|found| Mismatch { path: format!("{path} {}", found.path), ..found }),
                );
            }
            Err(found) => mismatches.push(found),
        }
    }
    (bindings, mismatches)
}

async fn list(client: &Client, path: &str, bindings: &Bindings) -> Result<Vec<Value>, Mismatch> {
    let failed = |note: String| mismatch(path, None, None, note);
    let filled = bindings.in_path(path).map_err(|unbound| failed(unbound.to_string()))?;
    match client.get(&filled).await {
        Ok((200, list)) => {
            normalise::listed(&list).ok_or_else(|| mismatch(path, None, Some(list), "the answer is no list"))
        }
        Ok((code, body)) => Err(mismatch(path, Some(200.into()), Some(code.into()), body.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Writes beyond the expected ones.
fn too_many(expected: Option<&Writes>, got: &Writes) -> Vec<Mismatch> {
    let Some(expected) = expected else { return Vec::new() };
    let mut found = Vec::new();
    for (resource, verbs) in got {
        for (verb, count) in verbs {
            let most = expected.get(resource).and_then(|verbs| verbs.get(verb)).copied().unwrap_or_default();
            if *count > most {
                let path = format!("writes.{resource}.{verb}");
                found.push(mismatch(&path, Some(most.into()), Some((*count).into()), "too many writes"));
            }
        }
    }
    found
}

fn mismatch(path: &str, expected: Option<Value>, got: Option<Value>, note: impl Into<String>) -> Mismatch {
    Mismatch { path: path.to_owned(), expected, got, note: note.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn writes(value: Value) -> Writes {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn fewer_writes_pass_and_more_do_not() {
        let expected = writes(json!({"endpointslices": {"create": 2, "update": 1}}));
        assert_eq!(too_many(Some(&expected), &writes(json!({"endpointslices": {"create": 1}}))), []);
        assert_eq!(too_many(Some(&expected), &expected), []);
        for more in [
            json!({"endpointslices": {"create": 3}}),
            json!({"endpointslices": {"delete": 1}}),
            json!({"endpoints": {"create": 1}}),
        ] {
            assert_eq!(too_many(Some(&expected), &writes(more)).len(), 1);
        }
    }
}
