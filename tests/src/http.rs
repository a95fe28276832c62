//! A small HTTP/1.1 client for one server: keeps one connection, opens another for a watch. Knows nothing of cases.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Mutex,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The URL names no server.
    #[error("{0:?} is no server URL: it must be http://host:port or https://host:port")]
    Url(String),
    /// No connection.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, std::io::Error),
    /// The connection ended.
    #[error("no answer: {0}")]
    Connection(#[from] hyper::Error),
    /// The request cannot be sent.
    #[error("no proper request: {0}")]
    Request(#[from] http::Error),
    /// It took too long.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
}

/// Where a server is and how to talk to it.
#[derive(Debug, Clone)]
pub struct Target {
    /// `host:port`.
    pub authority: String,
    /// The trust, for HTTPS.
    pub tls: Option<Arc<ClientConfig>>,
    /// The bearer token.
    pub token: Option<String>,
}

impl Target {
    /// A target by URL; `tls` is used for HTTPS.
    pub fn new(url: &str, tls: Arc<ClientConfig>, token: Option<String>) -> Result<Self, HttpError> {
        let bad = || HttpError::Url(url.to_owned());
        let uri: http::Uri = url.parse().map_err(|_| bad())?;
        let (port, tls) = match uri.scheme_str() {
            Some("http") => (80, None),
            Some("https") => (443, Some(tls)),
            _ => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?;
        let authority = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(port));
        Ok(Self { authority, tls, token })
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.authority)
    }

    /// A kept connection if it still stands (the server may have closed it in the meantime), or a new one.
    pub async fn reconnect(
        &self,
        kept: Option<SendRequest<Full<Bytes>>>,
    ) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        if let Some(mut sender) = kept
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        self.connect().await
    }

    /// Opens a connection; a task of its own drives it.
    pub async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        let failed = |error| HttpError::Connect(self.authority.clone(), error);
        let stream = TcpStream::connect(&self.authority).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let Some(tls) = &self.tls else { return handshake(stream).await };
        let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| HttpError::Url(self.authority.clone()))?;
        handshake(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(failed)?).await
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Its end shows in the next request.
    tokio::spawn(connection);
    Ok(sender)
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code.
    pub code: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON, or as a string if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&self.body).into_owned()))
    }

    /// The texts of the `Warning` headers.
    pub fn warnings(&self) -> Vec<String> {
        warnings(&self.headers)
    }
}

/// The texts of all `Warning` headers in order.
pub fn warnings(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(header::WARNING)
        .iter()
        .map(|value| warning_text(&String::from_utf8_lossy(value.as_bytes())))
        .collect()
}

/// The text of one warning: `299 - "text"` with backslashes before quotes and backslashes.
fn warning_text(header: &str) -> String {
    let Some((_, quoted)) = header.split_once('"') else { return header.to_owned() };
    let mut text = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => text.extend(characters.next()),
            character => text.push(character),
        }
    }
    text
}

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    target: Target,
    kept: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Client {
    /// A client; it connects with the first request.
    pub fn new(target: Target) -> Self {
        Self { target, kept: Mutex::new(None) }
    }

    /// Where the server is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Answer, HttpError> {
        within(async {
            let mut kept = self.kept.lock().await;
            let mut sender = self.target.reconnect(kept.take()).await?;
            let response = sender.send_request(self.complete(request)?).await?;
            let answer = collect(response).await?;
            *kept = Some(sender);
            Ok(answer)
        })
        .await
    }

    /// Sends a request over a connection of its own and gives the answer before its body was read.
    pub async fn open(&self, request: Request<Bytes>) -> Result<Response<Incoming>, HttpError> {
        within(async {
            let mut sender = self.target.connect().await?;
            Ok(sender.send_request(self.complete(request)?).await?)
        })
        .await
    }

    /// Gets a path as JSON; the status code comes with it.
    pub async fn get(&self, path: &str) -> Result<(u16, Value), HttpError> {
        let answer = self.send(request("GET", path, Bytes::new())?).await?;
        Ok((answer.code, answer.json()))
    }

    /// Sends a JSON body, or none for null; the content type is that of a merge patch for PATCH.
    pub async fn call(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value), HttpError> {
        let text = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let mut request = request(method, path, text)?;
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        request.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
        let answer = self.send(request).await?;
        Ok((answer.code, answer.json()))
    }

    fn complete(&self, request: Request<Bytes>) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = request.map(Full::new);
        let value = |text: &str| header::HeaderValue::from_str(text).map_err(http::Error::from);
        request.headers_mut().insert(header::HOST, value(&self.target.authority)?);
        if let Some(token) = &self.target.token {
            request.headers_mut().insert(header::AUTHORIZATION, value(&format!("Bearer {token}"))?);
        }
        Ok(request)
    }
}

/// A request without headers.
pub fn request(method: &str, path: &str, body: Bytes) -> Result<Request<Bytes>, HttpError> {
    Ok(Request::builder().method(method).uri(path).body(body)?)
}

/// Reads an answer to its end.
pub async fn collect(response: Response<Incoming>) -> Result<Answer, HttpError> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer { code: parts.status.as_u16(), headers: parts.headers, body })
}

async fn within<T>(work: impl Future<Output = Result<T, HttpError>>) -> Result<T, HttpError> {
    timeout(PATIENCE, work).await.unwrap_or(Err(HttpError::Timeout(PATIENCE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_warning_is_unquoted() {
        assert_eq!(warning_text(r#"299 - "spec.a: \"x\" is \\ b""#), r#"spec.a: "x" is \ b"#);
        assert_eq!(warning_text("299 - plain"), "299 - plain");
    }

    #[test]
    fn urls_become_targets() {
        let tls = crate::tls::trusting_anyone().unwrap();
        let target = |url| Target::new(url, Arc::clone(&tls), None);
        assert_eq!(target("https://127.0.0.1:6443").unwrap().url(), "https://127.0.0.1:6443");
        assert_eq!(target("http://localhost").unwrap().url(), "http://localhost:80");
        assert!(target("127.0.0.1:6443").is_err());
        assert!(target("ftp://a").is_err());
    }
}
