//! Which HTTP proxy stands between this process and a server, by the environment (golang.org/x/net/http/httpproxy, which
//! kubectl and the upstream controllers go by).
//!
//! Owns the choice alone; whoever connects goes through the proxy.

use std::net::IpAddr;

use http::{Uri, uri::InvalidUri};
use ipnet::IpNet;

/// A proxy that is no URL.
#[derive(Debug, thiserror::Error)]
#[error("the proxy {text:?} of the environment is no URL: {source}")]
pub struct ProxyError {
    text: String,
    source: InvalidUri,
}

/// What the environment says of proxies.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    /// `HTTPS_PROXY`, for servers that speak https.
    https: Option<String>,
    /// `HTTP_PROXY`, for servers that speak http.
    http: Option<String>,
    /// `NO_PROXY`: who is reached without one.
    bypass: String,
}

impl Environment {
    /// That of this process; the names in capitals win.
    pub(super) fn of_process() -> Self {
        let variable = |names: [&str; 2]| {
            let mut values = names.into_iter().filter_map(|name| std::env::var(name).ok());
            values.find(|value| !value.is_empty())
        };
        Self {
            https: variable(["HTTPS_PROXY", "https_proxy"]),
            http: variable(["HTTP_PROXY", "http_proxy"]),
            bypass: variable(["NO_PROXY", "no_proxy"]).unwrap_or_default(),
        }
    }

    /// The proxy for a server, if there is one between.
    pub(super) fn proxy_for(&self, server: &Uri) -> Result<Option<Uri>, ProxyError> {
        let https = server.scheme_str() == Some("https");
        let Some(proxy) = (if https { &self.https } else { &self.http }) else { return Ok(None) };
        let host = server.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        let port = server.port_u16().unwrap_or(if https { 443 } else { 80 });
        if is_here(&host) || self.bypass.split(',').any(|entry| passes(entry.trim(), &host, port)) {
            return Ok(None);
        }
        // `proxy:3128` is an authority without a scheme.
        let text = if proxy.contains("://") { proxy.clone() } else { format!("http://{proxy}") };
        text.parse().map(Some).map_err(|source| ProxyError { text, source })
    }
}

/// A server on this machine never stands behind a proxy.
fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Whether an entry of `NO_PROXY` means a host: `*`, an address, a CIDR, a domain with what is below it, or with a dot in
/// front only what is below it; domains and addresses perhaps with a port.
fn passes(entry: &str, host: &str, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    let entry = entry.to_ascii_lowercase();
    if let Ok(network) = entry.parse::<IpNet>() {
        return host.parse().is_ok_and(|address: IpAddr| network.contains(&address));
    }
    let (name, wanted) = match entry.rsplit_once(':') {
        // All of an IPv6 address without brackets is name.
        Some((name, digits)) if !name.contains(':') || name.ends_with(']') => (name, Some(digits)),
        _ => (entry.as_str(), None),
    };
    let name = name.trim_matches(['[', ']']);
    if name.is_empty() || wanted.is_some_and(|wanted| wanted.parse() != Ok(port)) {
        return false;
    }
    let below = name.strip_prefix('*').unwrap_or(name);
    if let Some(domain) = below.strip_prefix('.') {
        return host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    }
    host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn environment(bypass: &str) -> Environment {
        Environment {
            https: Some("http://proxy:3128".into()),
            http: Some("plain:80".into()),
            bypass: bypass.into(),
        }
    }

    fn proxy(server: &str, bypass: &str) -> Option<String> {
        let proxy = environment(bypass).proxy_for(&server.parse().unwrap()).unwrap();
        proxy.map(|proxy| proxy.to_string())
    }

    #[rstest]
    #[case::kind("https://127.0.0.1:41234")]
    #[case::another_loopback("https://127.0.1.1")]
    #[case::loopback_v6("https://[::1]:6443")]
    #[case::by_name("https://localhost:6443")]
    #[case::plain("http://localhost:8080")]
    fn a_server_on_this_machine_is_reached_directly(#[case] server: &str) {
        assert_eq!(proxy(server, ""), None);
    }

    #[test]
    fn the_scheme_of_the_server_chooses() {
        assert_eq!(proxy("https://10.0.0.1:6443", "").as_deref(), Some("http://proxy:3128/"));
        assert_eq!(proxy("http://10.0.0.1:8080", "").as_deref(), Some("http://plain:80/"));
        assert!(Environment::default().proxy_for(&Uri::from_static("https://a")).unwrap().is_none());
        let odd = Environment { https: Some("http://a b".into()), ..Environment::default() };
        assert!(odd.proxy_for(&Uri::from_static("https://a")).unwrap_err().to_string().contains("a b"));
    }

    #[rstest]
    #[case("*", true)]
    #[case("10.1.2.3", true)]
    #[case("10.1.2.3:6443", true)]
    #[case("10.1.2.3:443", false)]
    #[case("10.1.2.4", false)]
    #[case("10.0.0.0/8", true)]
    #[case(" 192.168.0.0/16 , 10.1.0.0/16,", true)]
    #[case("fd00::/8,", false)]
    #[case(",,", false)]
    fn an_address_is_passed_by(#[case] bypass: &str, #[case] direct: bool) {
        assert_eq!(proxy("https://10.1.2.3:6443", bypass).is_none(), direct);
    }

    #[rstest]
    #[case("example.org", true)]
    #[case("EXAMPLE.org:443", true)]
    #[case("k8s.example.org", true)]
    #[case(".example.org", true)]
    #[case("*.example.org", true)]
    #[case(".k8s.example.org", false)]
    #[case("ample.org", false)]
    #[case("example.org:8443", false)]
    #[case(".", false)]
    fn a_name_is_passed_by(#[case] bypass: &str, #[case] direct: bool) {
        assert_eq!(proxy("https://K8s.example.org", bypass).is_none(), direct);
    }

    #[rstest]
    #[case("fd00::1", true)]
    #[case("[fd00::1]:6443", true)]
    #[case("[fd00::1]:443", false)]
    #[case("fd00::/16", true)]
    fn an_ipv6_address_is_passed_by(#[case] bypass: &str, #[case] direct: bool) {
        assert_eq!(proxy("https://[fd00::1]:6443", bypass).is_none(), direct);
    }
}
