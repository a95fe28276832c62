//! The page of `lab` and `run`: where it is, and who may look at it.
//!
//! Owns no path and no row: those are in `service-page`.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, header};
use service_lab_apiserver::http::auth::Token;
use service_page::{Authority, Later, Refused};

use crate::admin::Access;

/// The watches of the page go on for so long after the last viewer has gone.
pub(crate) const LINGER: Duration = Duration::from_mins(1);
/// All of the page is below this path.
pub(crate) const ROOT: &str = "/page";
/// The path that stands for all of the page where the API server is asked who may look.
const PATH: &str = "/page/";

/// Whoever holds the lab's token may look.
pub(crate) struct HoldersOf(pub(crate) Token);

impl Authority for HoldersOf {
    fn may_look<'a>(&'a self, token: Option<&'a str>) -> Later<'a, Result<(), Refused>> {
        let holds = token.is_some_and(|token| self.0.admits(token));
        let message = "the lab's token, or a link that was made with it, opens the page".to_owned();
        let answer =
            if holds { Ok(()) } else { Err(Refused { status: http::StatusCode::UNAUTHORIZED, message }) };
        Box::pin(std::future::ready(answer))
    }
}

/// Whoever may `get` the path `/page/`, by the API server's word, may look.
pub(crate) struct Reviewed(pub(crate) Arc<Access>);

impl Authority for Reviewed {
    fn may_look<'a>(&'a self, token: Option<&'a str>) -> Later<'a, Result<(), Refused>> {
        Box::pin(async move {
            let mut headers = HeaderMap::new();
            if let Some(bearer) =
                token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok())
            {
                headers.insert(header::AUTHORIZATION, bearer);
            }
            let checked = self.0.check(&http::Method::GET, PATH, &headers).await;
            checked.map_err(|denied| Refused {
                // Without a token nobody is known yet, whatever those may who are not.
                status: if token.is_none() { http::StatusCode::UNAUTHORIZED } else { denied.status() },
                message: denied.to_string(),
            })
        })
    }
}
