//! What a request shows of who sends it and from where. Pure.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};

/// The header that carries the key of a link. A page of another origin cannot send it.
pub(crate) const KEY_HEADER: HeaderName = HeaderName::from_static("page-key");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const COOKIE_PREFIX: &str = "__Secure-page-";

/// Why a request is not answered, whoever sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Improper {
    /// Something other than looking.
    #[error("the page can only be looked at: GET is the method")]
    Method,
    /// It was sent to a name that anybody could have pointed here.
    #[error("the page is reached by an address, as localhost, or by a name that `run --page-hosts` lists")]
    Host,
    /// A page of another origin sends it.
    #[error("a page of another origin asks for this")]
    Origin,
}

impl Improper {
    /// The status code of the answer.
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
        }
    }
}

/// Checks what makes a request proper. An address as host cannot be another's name for this one, which is how pages of
/// others reach servers on loopback (DNS rebinding); `names` are those that are known to be ours.
pub(crate) fn check_target(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    names: &[String],
) -> Result<(), Improper> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Improper::Method);
    }
    if !host(uri, headers).is_some_and(|host| is_unmistakable(host, names)) {
        return Err(Improper::Host);
    }
    Ok(())
}

/// Checks that no page of another origin asks. The page itself may be opened from anywhere; what it reads may not.
pub(crate) fn check_origin(headers: &HeaderMap) -> Result<(), Improper> {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    if !matches!(site, None | Some(b"same-origin" | b"none")) {
        return Err(Improper::Origin);
    }
    Ok(())
}

/// The host and port that a request is for: HTTP/2 has them in its path.
pub(crate) fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(http::uri::Authority::as_str);
    authority.or_else(|| headers.get(header::HOST)?.to_str().ok())
}

fn is_unmistakable(host: &str, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = authority.host();
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let known = names.iter().map(String::as_str).chain(["localhost"]);
    address.parse::<std::net::IpAddr>().is_ok() || known.into_iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// The bearer token of a request, if it shows one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// The name of the cookie: browsers do not tell servers on one address apart by their ports.
fn cookie_name(host: &str) -> String {
    let port = host.parse::<http::uri::Authority>().ok().and_then(|authority| authority.port_u16());
    format!("{COOKIE_PREFIX}{}", port.unwrap_or(443))
}

/// The session that a request shows.
pub(crate) fn session<'a>(host: &str, headers: &'a HeaderMap) -> Option<&'a str> {
    let name = cookie_name(host);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';'))
        .find_map(|cookie| cookie.trim().strip_prefix(&*name)?.strip_prefix('='))
}

/// What sets the session, or ends it: no script and no page of another origin gets at it.
pub(crate) fn set_cookie(host: &str, session: Option<&str>) -> String {
    let name = cookie_name(host);
    let ends = if session.is_some() { "" } else { "; Max-Age=0" };
    format!("{name}={}; Path=/page/; Secure; HttpOnly; SameSite=Strict{ends}", session.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[rstest]
    #[case(Method::GET, &[("host", "127.0.0.1:6443")], Ok(()))]
    #[case(Method::HEAD, &[("host", "[::1]:6443")], Ok(()))]
    #[case(Method::GET, &[("host", "LOCALHOST")], Ok(()))]
    #[case(Method::GET, &[("host", "192.0.2.7:10257"), ("sec-fetch-site", "same-origin")], Ok(()))]
    #[case(Method::POST, &[("host", "127.0.0.1")], Err(Improper::Method))]
    #[case(Method::GET, &[("host", "rebound.example:6443")], Err(Improper::Host))]
    #[case(Method::GET, &[("host", "127.0.0.1.rebound.example")], Err(Improper::Host))]
    #[case(Method::GET, &[("host", "localhost.rebound.example")], Err(Improper::Host))]
    #[case(Method::GET, &[("host", "Services.Example:443")], Ok(()))]
    #[case(Method::GET, &[("host", "services.example.rebound.example")], Err(Improper::Host))]
    #[case(Method::GET, &[("host", "rebound.services.example")], Err(Improper::Host))]
    #[case(Method::GET, &[], Err(Improper::Host))]
    #[case(Method::GET, &[("host", "127.0.0.1"), ("sec-fetch-site", "cross-site")], Err(Improper::Origin))]
    #[case(Method::GET, &[("host", "127.0.0.1"), ("sec-fetch-site", "same-site")], Err(Improper::Origin))]
    fn proper_requests(
        #[case] method: Method,
        #[case] shown: &[(&'static str, &str)],
        #[case] expected: Result<(), Improper>,
    ) {
        let (uri, headers) = (Uri::from_static("/page/data"), headers(shown));
        let names = ["services.example".to_owned()];
        let checked = check_target(&method, &uri, &headers, &names).and_then(|()| check_origin(&headers));
        assert_eq!(checked, expected);
    }

    #[test]
    fn a_session_is_known_by_the_port() {
        let shown = headers(&[("cookie", "a=b; __Secure-page-6443=one; __Secure-page-10257=two")]);
        assert_eq!(session("127.0.0.1:6443", &shown), Some("one"));
        assert_eq!(session("[::1]:10257", &shown), Some("two"));
        assert_eq!(session("127.0.0.1", &shown), None);
        let set = set_cookie("127.0.0.1:6443", Some("one"));
        assert_eq!(set, "__Secure-page-6443=one; Path=/page/; Secure; HttpOnly; SameSite=Strict");
        assert!(set_cookie("127.0.0.1:6443", None).ends_with("Max-Age=0"));
    }

    #[rstest]
    #[case("Bearer one", Some("one"))]
    #[case("bearer  one ", Some("one"))]
    #[case("Basic one", None)]
    #[case("Bearer ", None)]
    fn tokens(#[case] header: &str, #[case] expected: Option<&str>) {
        assert_eq!(bearer(&headers(&[("authorization", header)])), expected);
    }
}
