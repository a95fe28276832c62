//! Who may ask: one bearer token, or nobody for the paths that are open to all.
//!
//! The token is compared in constant time and never printed.

use std::fmt;

use http::{HeaderMap, header::AUTHORIZATION};

use crate::registry::error::ApiError;

/// The secret that opens the API.
#[derive(Clone)]
pub struct Token(Box<str>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// A token with that text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// A token nobody can guess: 128 random bits in hexadecimal.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string().into())
    }

    /// The text, for the kubeconfig.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Does the text equal the token? Takes the same time for every text of a length.
    pub fn admits(&self, text: &str) -> bool {
        let (a, b) = (self.0.as_bytes(), text.as_bytes());
        let different = a.iter().zip(b).fold(0u8, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(different) == 0 && a.len() == b.len()
    }
}

/// What is known of who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// They hold the token.
    Holder,
    /// Nothing.
    Nobody,
}

/// Is the path readable without a token, as upstream lets anonymous clients read it?
pub fn is_open(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"]
        .iter()
        .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
        || matches!(path, "/version" | "/version/")
}

/// Who sends a request.
///
/// # Errors
/// 401 for a wrong token, and for none where one is needed.
pub(crate) fn authenticate(token: &Token, headers: &HeaderMap, path: &str) -> Result<Known, ApiError> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, rest) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(rest.trim())
    });
    match bearer {
        Some(text) if token.admits(text) => Ok(Known::Holder),
        None if is_open(path) => Ok(Known::Nobody),
        _ => Err(service_api::status::unauthorized().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(Some("Bearer secret"), "/api", true)]
    #[case(Some("bearer  secret"), "/api", true)]
    #[case(Some("Bearer secret2"), "/api", false)]
    #[case(Some("Bearer secre"), "/api", false)]
    #[case(Some("Basic secret"), "/api", false)]
    #[case(Some("Bearer wrong"), "/livez", false)]
    #[case(None, "/livez", true)]
    #[case(None, "/readyz/ping", true)]
    #[case(None, "/readyzz", false)]
    #[case(None, "/version", true)]
    #[case(None, "/metrics", false)]
    fn tokens_open_the_api(#[case] header: Option<&str>, #[case] path: &str, #[case] open: bool) {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, header.parse().unwrap());
        }
        assert_eq!(authenticate(&Token::new("secret"), &headers, path).is_ok(), open);
    }

    #[test]
    fn a_token_does_not_show_itself() {
        assert!(!format!("{:?}", Token::new("secret")).contains("secret"));
    }
}
