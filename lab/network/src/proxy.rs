//! `pods/proxy` and `services/proxy`: a request over HTTP that the API server sends on to a pod.
//!
//! Which address is asked is decided by pure functions on the objects; the request goes out from the machine, which reaches every pod.
//! Pages are passed on as they are: links in them are not rewritten.

use std::{net::IpAddr, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use service_lab_apiserver::{
    http::pods::{PodRequest, Whose},
    local::{GroupResource, Local, PODS},
};
use tokio::{net::TcpStream, time::timeout};

use crate::{parameters::refuse, tls};

const SERVICES: GroupResource = ("", "services");
const SLICES: GroupResource = ("discovery.k8s.io", "endpointslices");
/// How long a pod may take to take a connection.
const CONNECT: Duration = Duration::from_secs(30);
/// What is between two ends alone (RFC 9110, section 7.6.1), and what is the API server's own.
const NOT_PASSED_ON: [HeaderName; 8] = [
    header::AUTHORIZATION,
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Where a request is sent.
pub(crate) type Target = (IpAddr, u16);

/// Why it is sent nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Nowhere {
    /// The request is wrong.
    Wrong(String),
    /// Nobody is there who could answer.
    Nobody(String),
}

/// Finds out where a request goes. Of a Service's endpoints one is taken by `choice`, any number.
pub(crate) fn target(local: &Local, asked: &PodRequest<'_>, choice: usize) -> Result<Target, Nowhere> {
    match asked.whose {
        Whose::Pod => of_pod(&local.get(PODS, asked.namespace, asked.name).unwrap_or_default(), asked.port),
        Whose::Service => {
            let service = local.get(SERVICES, asked.namespace, asked.name).unwrap_or_default();
            let slices = local.list(SLICES, Some(asked.namespace));
            of_service(&service, asked.name, &slices, asked.port, choice)
        }
    }
}

fn of_pod(pod: &Value, port: &str) -> Result<Target, Nowhere> {
    let ip = pod.pointer("/status/podIP").and_then(Value::as_str).and_then(|ip| ip.parse().ok());
    let ip = ip.ok_or_else(|| Nowhere::Wrong("address not allowed".to_owned()))?;
    let first = || {
        let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
        let mut ports =
            containers.filter_map(|container| container.pointer("/ports/0/containerPort")?.as_u64());
        u16::try_from(ports.next()?).ok()
    };
    let port = match port {
        "" => first().unwrap_or(80),
        port => port
            .parse()
            .map_err(|_| Nowhere::Wrong(format!("invalid pod port {port:?}: a number is needed")))?,
    };
    Ok((ip, port))
}

/// A ready endpoint behind the port of the Service that is named by name or number.
fn of_service(
    service: &Value,
    name: &str,
    slices: &[Value],
    port: &str,
    choice: usize,
) -> Result<Target, Nowhere> {
    let name_of = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let wanted = match port.parse::<u64>() {
        Ok(number) => {
            let mut ports = service.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
            let found = ports.find(|of| of["port"] == number).map(name_of);
            found.ok_or_else(|| {
                Nowhere::Nobody(format!("no service port {number} found for service {name:?}"))
            })?
        }
        Err(_) => port.to_owned(),
    };
    let ours = |slice: &&Value| {
        slice.pointer("/metadata/labels/kubernetes.io~1service-name").and_then(Value::as_str) == Some(name)
    };
    let mut all = Vec::new();
    for slice in slices.iter().filter(ours) {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let number = ports.filter(|port| name_of(port) == wanted).find_map(|port| port["port"].as_u64());
        let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
        let addresses = ready.filter_map(|endpoint| endpoint["addresses"][0].as_str()?.parse().ok());
        all.extend(addresses.map(|ip: IpAddr| (ip, number)));
    }
    match all.len() {
        0 => Err(Nowhere::Nobody(format!("no endpoints available for service {name:?}"))),
        count => Ok(all[choice % count]),
    }
}

/// Sends the request on, in TLS if that is wanted, and its answer back.
pub(crate) async fn pass_on(
    request: Request,
    to: Result<Target, Nowhere>,
    secure: bool,
    rest: &str,
) -> Response {
    let (ip, port) = match to {
        Ok(to) => to,
        Err(Nowhere::Wrong(why)) => return refuse(StatusCode::BAD_REQUEST, &why),
        Err(Nowhere::Nobody(why)) => return refuse(StatusCode::SERVICE_UNAVAILABLE, &why),
    };
    let (parts, body) = request.into_parts();
    // Relative links of a page would lead elsewhere.
    if rest.is_empty() && matches!(parts.method, Method::GET | Method::HEAD) {
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let to = [(header::LOCATION, format!("{}/{query}", parts.uri.path()))];
        return (StatusCode::MOVED_PERMANENTLY, to).into_response();
    }
    match ask(parts, body, (ip, port, secure), rest).await {
        Ok(response) => response,
        Err(why) => refuse(StatusCode::SERVICE_UNAVAILABLE, &format!("error trying to reach service: {why}")),
    }
}

async fn ask(
    parts: Parts,
    body: Body,
    (ip, port, secure): (IpAddr, u16, bool),
    rest: &str,
) -> Result<Response, Box<dyn std::error::Error + Send + Sync>> {
    let host = std::net::SocketAddr::from((ip, port)).to_string();
    let connected = timeout(CONNECT, TcpStream::connect((ip, port))).await;
    let stream = connected.map_err(|_| format!("dial tcp {host}: i/o timeout"))?;
    let stream = stream.map_err(|error| format!("dial tcp {host}: connect: {}", in_words(&error)))?;
    let stream = timeout(CONNECT, tls::connection(stream, ip, secure)).await;
    let stream = stream.map_err(|_| format!("dial tcp {host}: TLS handshake timeout"))??;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let base = parts.uri.path().strip_suffix(rest).unwrap_or_default().to_owned();
    let request = passed_on(parts, body, &host, rest)?;
    let mut response = sender.send_request(request).await?.map(Body::new);
    relocate(response.headers_mut(), &base);
    Ok(response)
}

fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        std::io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        _ => error.to_string(),
    }
}

/// The request as the pod sees it.
fn passed_on(parts: Parts, body: Body, host: &str, rest: &str) -> Result<Request, axum::http::Error> {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let slash = if rest.starts_with('/') { "" } else { "/" };
    let asked = HeaderValue::from_str(parts.uri.path());
    let mut request =
        Request::builder().method(parts.method).uri(format!("{slash}{rest}{query}")).body(body)?;
    let headers = request.headers_mut();
    *headers = parts.headers;
    if let Some(was) = headers.get(header::HOST).cloned() {
        headers.insert(HeaderName::from_static("x-forwarded-host"), was);
    }
    for name in &NOT_PASSED_ON {
        headers.remove(name);
    }
    headers.insert(header::HOST, HeaderValue::from_str(host)?);
    if let Ok(asked) = asked {
        headers.insert(HeaderName::from_static("x-forwarded-uri"), asked);
    }
    headers.insert(HeaderName::from_static("x-forwarded-proto"), HeaderValue::from_static("https"));
    Ok(request)
}

/// A pod that sends its client elsewhere on itself means a path behind the proxy's.
fn relocate(headers: &mut HeaderMap, base: &str) {
    let to =
        headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).and_then(|to| to.parse::<Uri>().ok());
    let Some(to) = to.filter(|to| to.host().is_none() && to.path().starts_with('/')) else { return };
    if let Ok(to) = HeaderValue::from_str(&format!("{base}{to}")) {
        headers.insert(header::LOCATION, to);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn at(ip: &str, port: u16) -> Target {
        (ip.parse().unwrap(), port)
    }

    #[rstest]
    #[case("", Ok(at("10.244.1.2", 8080)))]
    #[case("81", Ok(at("10.244.1.2", 81)))]
    #[case("http", Err(Nowhere::Wrong("invalid pod port \"http\": a number is needed".to_owned())))]
    fn a_pod_is_asked_at_its_first_port_or_another(
        #[case] port: &str,
        #[case] expected: Result<Target, Nowhere>,
    ) {
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"ports": [{"containerPort": 8080}]}]},
            "status": {"podIP": "10.244.1.2"}});
        assert_eq!(of_pod(&pod, port), expected);
        assert!(of_pod(&json!({}), port).is_err());
    }

    #[rstest]
    #[case("", 0, Err(Nowhere::Nobody("no endpoints available for service \"web\"".to_owned())))]
    #[case("http", 0, Ok(at("10.244.1.2", 8080)))]
    #[case("http", 3, Ok(at("10.244.2.2", 8080)))]
    #[case("80", 0, Ok(at("10.244.1.2", 8080)))]
    #[case("81", 0, Err(Nowhere::Nobody("no service port 81 found for service \"web\"".to_owned())))]
    fn a_service_is_asked_by_one_of_its_ready_endpoints(
        #[case] port: &str,
        #[case] choice: usize,
        #[case] expected: Result<Target, Nowhere>,
    ) {
        let service = json!({"spec": {"ports": [{"name": "http", "port": 80}]}});
        let slice = |name: &str, ips: &[(&str, bool)]| {
            let endpoints: Vec<_> = ips
                .iter()
                .map(|(ip, ready)| json!({"addresses": [ip], "conditions": {"ready": ready}}))
                .collect();
            json!({"metadata": {"labels": {"kubernetes.io/service-name": name}},
                "ports": [{"name": "http", "port": 8080}], "endpoints": endpoints})
        };
        let slices = [
            slice("other", &[("10.244.9.9", true)]),
            slice("web", &[("10.244.1.2", true), ("10.244.1.3", false)]),
            slice("web", &[("10.244.2.2", true)]),
        ];
        assert_eq!(of_service(&service, "web", &slices, port, choice), expected);
    }

    #[test]
    fn the_pod_sees_the_path_behind_the_proxys_and_no_token() {
        let asked = Request::builder()
            .uri("/api/v1/namespaces/a/pods/b/proxy/x%20y?z=1")
            .header(header::AUTHORIZATION, "Bearer secret")
            .header(header::HOST, "127.0.0.1:6443")
            .header("x-own", "kept");
        let (parts, body) = asked.body(Body::empty()).unwrap().into_parts();
        let passed = passed_on(parts, body, "10.244.1.2:80", "/x%20y").unwrap();
        assert_eq!(passed.uri(), "/x%20y?z=1");
        let of = |name: &str| passed.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!((of("authorization"), of("x-own")), (None, Some("kept".to_owned())));
        assert_eq!(of("host").as_deref(), Some("10.244.1.2:80"));
        assert_eq!(of("x-forwarded-uri").as_deref(), Some("/api/v1/namespaces/a/pods/b/proxy/x%20y"));
    }

    #[rstest]
    #[case("/next?a=b", "/base/next?a=b")]
    #[case("http://elsewhere.example/x", "http://elsewhere.example/x")]
    fn a_redirection_stays_behind_the_proxy(#[case] to: &str, #[case] expected: &str) {
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, HeaderValue::from_str(to).unwrap());
        relocate(&mut headers, "/base");
        assert_eq!(headers[header::LOCATION], expected);
    }
}
