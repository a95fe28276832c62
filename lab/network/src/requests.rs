//! `kubectl logs`, `exec`, `attach` and `port-forward`, and `kubectl get --raw .../proxy`: what the API server hands on for a pod of this
//! network.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use service_lab_apiserver::http::pods::{Answering, PodRequest, PodServer, PodVerb};

use crate::{
    exec::{self, Job, Wanted},
    follow::Pods,
    forward,
    log::Log,
    parameters::{Parameters, refuse},
    proxy,
};

impl PodServer for Pods {
    fn answer(&self, asked: PodRequest<'_>, request: Request) -> Answering {
        if asked.verb == PodVerb::Proxy {
            let to = proxy::target(self.local(), &asked, self.choice());
            let (rest, secure) = (asked.rest.to_owned(), asked.scheme == "https");
            return Box::pin(async move { proxy::pass_on(request, to, secure, &rest).await });
        }
        let query = Parameters::of(request.uri().query().unwrap_or_default());
        let (verb, name) = (asked.verb, asked.name.to_owned());
        let container = query.all("container").last().unwrap_or_default();
        let place = self.place(asked.namespace, asked.name, container);
        let log = self.log(asked.namespace, asked.name);
        Box::pin(async move {
            if let (PodVerb::Log, Some(log)) = (verb, &log) {
                return match Choice::of(&query, Timestamp::now()) {
                    Ok(choice) => lines(log, choice),
                    Err(why) => refuse(StatusCode::BAD_REQUEST, &why),
                };
            }
            let (Some(place), Some(log)) = (place, log) else {
                return refuse(StatusCode::BAD_REQUEST, &format!("pod {name:?} does not run"));
            };
            match verb {
                PodVerb::Exec => match Wanted::of(&query) {
                    Ok(wanted) => exec::upgrade(request, Job::Command(place, wanted)).await,
                    Err(why) => refuse(StatusCode::BAD_REQUEST, &why),
                },
                PodVerb::Attach => exec::upgrade(request, Job::Follow(log)).await,
                PodVerb::PortForward | PodVerb::Proxy | PodVerb::Log => {
                    forward::upgrade(request, place.namespace, &query).await
                }
            }
        })
    }
}

/// Which lines of a log are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Choice {
    since: Option<Timestamp>,
    last: Option<usize>,
    timestamps: bool,
    follow: bool,
    bytes: Option<usize>,
}

impl Choice {
    fn of(query: &Parameters, now: Timestamp) -> Result<Self, String> {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let ago = query.number("sinceSeconds")?.and_then(|seconds| {
            now.checked_sub(SignedDuration::from_secs(i64::try_from(seconds).ok()?)).ok()
        });
        let at = query.all("sinceTime").last();
        let at =
            at.map(|text| text.parse().map_err(|_| format!("sinceTime: {text:?} is no time"))).transpose()?;
        Ok(Self {
            since: ago.or(at),
            last: query.number("tailLines")?.map(size),
            timestamps: query.flag("timestamps"),
            follow: query.flag("follow"),
            bytes: query.number("limitBytes")?.map(size),
        })
    }

    /// The text of lines that are there already.
    fn text(&self, lines: &[(Timestamp, String)]) -> String {
        let chosen: Vec<_> =
            lines.iter().filter(|(time, _)| self.since.is_none_or(|since| *time >= since)).collect();
        let skipped = self.last.map_or(0, |last| chosen.len().saturating_sub(last));
        let mut text: String = chosen.into_iter().skip(skipped).map(|line| self.line(line)).collect();
        if let Some(bytes) = self.bytes {
            let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
        }
        text
    }

    fn line(&self, (time, line): &(Timestamp, String)) -> String {
        if self.timestamps { format!("{time} {line}\n") } else { format!("{line}\n") }
    }
}

fn lines(log: &Arc<Log>, choice: Choice) -> Response {
    // Before the lines are read, so that none is missed.
    let watched = log.watch();
    let (there, written) = log.after(0);
    let first = choice.text(&there);
    let body = if choice.follow {
        let begin = (Arc::clone(log), watched, written.last);
        let later = stream::unfold(begin, move |(log, mut watched, last)| async move {
            loop {
                let (new, written) = log.after(last);
                if !new.is_empty() {
                    let text: String = new.iter().map(|line| choice.line(line)).collect();
                    return Some((text, (log, watched, written.last)));
                }
                if written.closed {
                    return None;
                }
                watched.changed().await.ok()?;
            }
        });
        let all = stream::iter([first]).chain(later);
        Body::from_stream(all.map(|text| Ok::<_, std::io::Error>(Bytes::from(text))))
    } else {
        Body::from(first)
    };
    ([(CONTENT_TYPE, "text/plain")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(query: &str) -> Choice {
        let now = Timestamp::from_second(100).unwrap();
        Choice::of(&Parameters::of(query), now).unwrap()
    }

    #[test]
    fn lines_are_chosen_as_kubectl_asks() {
        let lines: Vec<_> = [70, 85, 99]
            .map(|second| (Timestamp::from_second(second).unwrap(), format!("at {second}")))
            .into();
        assert_eq!(choose("").text(&lines), "at 70\nat 85\nat 99\n");
        assert_eq!(choose("sinceSeconds=20").text(&lines), "at 85\nat 99\n");
        assert_eq!(choose("tailLines=1").text(&lines), "at 99\n");
        assert_eq!(choose("tailLines=1&timestamps=true").text(&lines), "1970-01-01T00:01:39Z at 99\n");
        assert_eq!(choose("limitBytes=4").text(&lines), "at 7");
        assert_eq!(choose("sinceTime=1970-01-01T00:01:20Z&tailLines=9").text(&lines), "at 85\nat 99\n");
        assert!(Choice::of(&Parameters::of("tailLines=x"), Timestamp::UNIX_EPOCH).is_err());
    }
}
