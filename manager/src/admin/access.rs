//! Who may ask for what: a bearer token is shown to the API server (TokenReview), and so is what its owner asks for
//! (SubjectAccessReview), as kube-controller-manager delegates both. Who shows no token is `system:anonymous`.
//!
//! Owns the answers of the last seconds; never decides anything itself but which paths are open to all.

use std::{collections::HashMap, fmt, time::Duration};

use http::{HeaderMap, Method, StatusCode, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use service_controllers::error::{in_a_line, with_causes};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::args::OpenPath;

/// An answer counts for so long, as upstream's flags for it have it by default.
const KEPT: Duration = Duration::from_secs(10);
/// And so many are kept.
const MOST_KEPT: usize = 256;
/// So many reviews are under way at once; who asks more often waits.
const REVIEWS: usize = 4;
/// A review that takes longer has failed.
const REVIEW: Duration = Duration::from_secs(10);
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The token is nobody's.
    #[error("Unauthorized: {0}")]
    Unauthorized(String),
    /// Its owner may not.
    #[error("forbidden: User {user:?} cannot {verb} path {path:?}{reason}")]
    Forbidden {
        /// Who asks.
        user: String,
        /// For what.
        verb: String,
        /// Of which path.
        path: String,
        /// What the API server adds, after a colon.
        reason: String,
    },
    /// The API server does not say.
    #[error("the API server was asked whether this is allowed, and did not say: {0}")]
    Unknown(String),
}

impl Denied {
    /// The status code of the answer.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } => StatusCode::FORBIDDEN,
            Self::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// What was asked: token, verb, path.
type Question = (String, String, String);
/// What the API server said, and when.
type Answer = (Instant, Result<(), Denied>);

/// Asks the API server who may do what.
pub struct Access {
    client: Client,
    open: Vec<OpenPath>,
    answers: Mutex<HashMap<Question, Answer>>,
    reviews: Semaphore,
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Access").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Access {
    /// Asks by a client; who asks for an open path is let through unasked.
    pub fn new(client: Client, open: Vec<OpenPath>) -> Self {
        Self { client, open, answers: Mutex::default(), reviews: Semaphore::new(REVIEWS) }
    }

    /// Whether a request is let through.
    pub async fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Denied> {
        if self.open.iter().any(|open| open.includes(path)) {
            return Ok(());
        }
        let token = bearer(headers).unwrap_or_default();
        let verb = method.as_str().to_lowercase();
        let question = (token.to_owned(), verb, path.to_owned());
        let now = Instant::now();
        if let Some((_, answer)) =
            self.answers.lock().get(&question).filter(|(at, _)| now.duration_since(*at) < KEPT)
        {
            return answer.clone();
        }
        let reviewed = async {
            // It is never closed.
            let _permit = self.reviews.acquire().await;
            self.review(&question).await
        };
        let answer = timeout(REVIEW, reviewed)
            .await
            .unwrap_or_else(|_| Err(Denied::Unknown(format!("nothing came within {REVIEW:?}"))));
        if !matches!(answer, Err(Denied::Unknown(_))) {
            let mut answers = self.answers.lock();
            answers.retain(|_, (at, _)| now.duration_since(*at) < KEPT);
            if answers.len() < MOST_KEPT {
                answers.insert(question, (now, answer.clone()));
            }
        }
        answer
    }

    async fn review(&self, (token, verb, path): &Question) -> Result<(), Denied> {
        let user = if token.is_empty() { anonymous() } else { self.authenticate(token).await? };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username.clone(),
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path.clone()),
                    verb: Some(verb.clone()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await;
        let forbidden = |reason: String| Denied::Forbidden {
            user: user.username.clone().unwrap_or_default(),
            verb: verb.clone(),
            path: path.clone(),
            reason,
        };
        let status = match reviewed {
            Ok(reviewed) => reviewed.status.unwrap_or_default(),
            Err(error) if is_not_served(&error) => {
                return Err(forbidden(": the API server has no SubjectAccessReview to ask by".to_owned()));
            }
            Err(error) => return Err(Denied::Unknown(in_a_line(&with_causes(&error)))),
        };
        if status.allowed && !status.denied.unwrap_or_default() {
            return Ok(());
        }
        let reason = status.reason.filter(|reason| !reason.is_empty());
        Err(forbidden(reason.map_or_else(String::new, |reason| format!(": {}", in_a_line(&reason)))))
    }

    async fn authenticate(&self, token: &str) -> Result<UserInfo, Denied> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let status = match reviews.create(&PostParams::default(), &review).await {
            Ok(reviewed) => reviewed.status.unwrap_or_default(),
            Err(error) if is_not_served(&error) => {
                let why = "the API server has no TokenReview to ask by";
                return Err(Denied::Unauthorized(why.to_owned()));
            }
            Err(error) => return Err(Denied::Unknown(in_a_line(&with_causes(&error)))),
        };
        if !status.authenticated.unwrap_or_default() {
            let why = status.error.filter(|error| !error.is_empty());
            let why = why.unwrap_or_else(|| "the API server does not know the token".to_owned());
            return Err(Denied::Unauthorized(in_a_line(&why)));
        }
        Ok(status.user.unwrap_or_default())
    }
}

fn anonymous() -> UserInfo {
    let groups = Some(vec![UNAUTHENTICATED.to_owned()]);
    UserInfo { username: Some(ANONYMOUS.to_owned()), groups, ..UserInfo::default() }
}

/// The token of a request, if it shows one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

fn is_not_served(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 405))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// An API server that knows the token `good` of the user `prometheus`, who may get /metrics.
    fn server(asked: Arc<AtomicUsize>) -> Client {
        let service = service_fn(move |request: Request<Body>| {
            asked.fetch_add(1, Relaxed);
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let asked: Value = serde_json::from_slice(&body).unwrap();
                let spec = &asked["spec"];
                let status = if path == "/apis/authentication.k8s.io/v1/tokenreviews" {
                    match spec["token"].as_str() {
                        Some("good") => json!({"authenticated": true, "user": {"username": "prometheus"}}),
                        _ => json!({"error": "token is not known"}),
                    }
                } else {
                    assert_eq!(path, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
                    let attributes = &spec["nonResourceAttributes"];
                    let allowed = spec["user"] == "prometheus"
                        && attributes["path"] == "/metrics"
                        && attributes["verb"] == "get";
                    json!({"allowed": allowed, "reason": if allowed { "by the role" } else { "" }})
                };
                let answer = json!({"metadata": {}, "spec": spec, "status": status});
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
            }
        });
        Client::new(service, "default")
    }

    async fn check(access: &Access, method: &Method, path: &str, token: Option<&str>) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        }
        access.check(method, path, &headers).await.map_err(|denied| format!("{} {denied}", denied.status()))
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_and_rights_are_the_api_servers() {
        let asked = Arc::new(AtomicUsize::new(0));
        let open = vec!["/healthz".parse().unwrap(), "/debug/o*".parse().unwrap()];
        let access = Access::new(server(Arc::clone(&asked)), open);
        for path in ["/healthz", "/debug/open"] {
            assert_eq!(check(&access, &Method::GET, path, None).await, Ok(()));
        }
        assert_eq!(asked.load(Relaxed), 0, "what is open is not asked for");
        assert_eq!(check(&access, &Method::GET, "/metrics", Some("good")).await, Ok(()));
        assert_eq!(check(&access, &Method::GET, "/metrics", Some("good")).await, Ok(()));
        assert_eq!(asked.load(Relaxed), 2, "the answer is kept");
        for (method, path, token, said) in [
            (Method::GET, "/metrics", Some("bad"), "401 Unauthorized Unauthorized: token is not known"),
            (
                Method::GET,
                "/metrics",
                None,
                "403 Forbidden forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",
            ),
            (
                Method::PUT,
                "/debug/flags/v",
                Some("good"),
                "403 Forbidden forbidden: User \"prometheus\" cannot put path \"/debug/flags/v\"",
            ),
        ] {
            assert_eq!(check(&access, &method, path, token).await, Err(said.to_owned()));
        }
        let before = asked.load(Relaxed);
        tokio::time::advance(KEPT).await;
        assert_eq!(check(&access, &Method::GET, "/metrics", Some("good")).await, Ok(()));
        assert_eq!(asked.load(Relaxed), before + 2, "and asked for again after a while");
    }

    #[tokio::test]
    async fn a_server_without_reviews_lets_nobody_in_and_it_is_said_why() {
        let service = service_fn(|_: Request<Body>| async {
            let body = r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"the server could not find the requested resource"}"#;
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(404).body(Body::from(body.as_bytes().to_vec())).unwrap(),
            )
        });
        let access = Access::new(Client::new(service, "default"), Vec::new());
        let said = check(&access, &Method::GET, "/metrics", Some("any")).await.unwrap_err();
        assert!(said.starts_with("401") && said.contains("has no TokenReview"), "{said}");
        let said = check(&access, &Method::GET, "/metrics", None).await.unwrap_err();
        assert!(said.starts_with("403") && said.contains("has no SubjectAccessReview"), "{said}");
    }

    #[rstest]
    #[case("metrics")]
    #[case("/a*b")]
    #[case("*")]
    #[case("")]
    fn no_path(#[case] text: &str) {
        assert!(text.parse::<OpenPath>().is_err());
    }
}
