//! Health check ports of Services: a load balancer asks each node whether it has endpoints.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use service_api::address::Family;
use tokio::{net::TcpListener, task::JoinHandle};

use super::state::Health;
use crate::endpoint::ServiceKey;

const WEIGHT: &str = "x-load-balancing-endpoint-weight";

/// The port that a Service wants, and how many endpoints of each family it has here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The port.
    pub port: u16,
    /// Ready endpoints on this node, by the families that the Service has.
    pub endpoints: BTreeMap<Family, usize>,
}

/// A port that answers.
#[derive(Debug)]
struct Open {
    port: u16,
    counts: BTreeMap<Family, Arc<AtomicUsize>>,
    addresses: Vec<SocketAddr>,
    serving: Vec<JoinHandle<()>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        for task in &self.serving {
            task.abort();
        }
    }
}

/// The ports that answer.
#[derive(Debug)]
pub struct HealthPorts {
    health: Health,
    open: HashMap<ServiceKey, Open>,
    failed: BTreeMap<ServiceKey, Wanted>,
}

#[derive(Clone)]
struct Answer {
    service: ServiceKey,
    count: Arc<AtomicUsize>,
    health: Health,
}

impl HealthPorts {
    /// None yet.
    pub fn new(health: Health) -> Self {
        Self { health, open: HashMap::new(), failed: BTreeMap::new() }
    }

    /// How many answer.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none answers.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens, changes or closes the port of a Service. `addresses` are those of the node that take node port traffic, by family;
    /// none means all. The error names the port that cannot be had; [`Self::again`] tries it later.
    pub async fn set(
        &mut self,
        service: &ServiceKey,
        wanted: Option<Wanted>,
        addresses: impl Fn(Family) -> Option<Vec<IpAddr>>,
    ) -> Result<(), (SocketAddr, io::Error)> {
        self.failed.remove(service);
        let Some(wanted) = wanted else {
            self.open.remove(service);
            return Ok(());
        };
        let places = places(&wanted, addresses);
        if let Some(open) = self.open.get(service)
            && open.port == wanted.port
            && open.addresses == places.iter().map(|(_, address)| *address).collect::<Vec<_>>()
            && open.counts.keys().eq(wanted.endpoints.keys())
        {
            for (family, count) in &wanted.endpoints {
                if let Some(shown) = open.counts.get(family) {
                    shown.store(*count, Ordering::Relaxed);
                }
            }
            return Ok(());
        }
        self.open.remove(service);
        match self.listen(service, &wanted, places).await {
            Ok(open) => {
                self.open.insert(service.clone(), open);
                Ok(())
            }
            Err(error) => {
                self.failed.insert(service.clone(), wanted);
                Err(error)
            }
        }
    }

    /// The ports that could not be had, to be set again.
    pub fn again(&self) -> Vec<(ServiceKey, Wanted)> {
        self.failed.iter().map(|(key, wanted)| (key.clone(), wanted.clone())).collect()
    }

    async fn listen(
        &self,
        service: &ServiceKey,
        wanted: &Wanted,
        places: Vec<(Family, SocketAddr)>,
    ) -> Result<Open, (SocketAddr, io::Error)> {
        let of = |(family, count): (&Family, &usize)| (*family, Arc::new(AtomicUsize::new(*count)));
        let counts: BTreeMap<_, _> = wanted.endpoints.iter().map(of).collect();
        let mut open = Open { port: wanted.port, counts, addresses: Vec::new(), serving: Vec::new() };
        for (family, address) in places {
            let listener = listen_on(address).await.map_err(|error| (address, error))?;
            open.addresses.push(address);
            let Some(count) = open.counts.get(&family) else { continue };
            let answer =
                Answer { service: service.clone(), count: Arc::clone(count), health: self.health.clone() };
            // Any path: load balancers are told different ones.
            let router = Router::new().fallback(answered).with_state(answer);
            open.serving.push(tokio::spawn(async move {
                if let Err(error) = axum::serve(listener, router).await {
                    tracing::warn!(%error, %address, "a health check port answers no longer");
                }
            }));
        }
        Ok(open)
    }
}

/// A listener of one family alone, so that the other one can have its own.
async fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    if address.is_ipv6() {
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET6, rustix::net::SocketType::STREAM, None)?;
        rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, 128)?;
        let listener = std::net::TcpListener::from(socket);
        listener.set_nonblocking(true)?;
        return TcpListener::from_std(listener);
    }
    TcpListener::bind(address).await
}

fn places(wanted: &Wanted, addresses: impl Fn(Family) -> Option<Vec<IpAddr>>) -> Vec<(Family, SocketAddr)> {
    let mut places = Vec::new();
    for family in wanted.endpoints.keys() {
        let all = || {
            vec![match family {
                Family::V4 => IpAddr::from(Ipv4Addr::UNSPECIFIED),
                Family::V6 => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            }]
        };
        let ips = addresses(*family).unwrap_or_else(all);
        places.extend(ips.into_iter().map(|ip| (*family, SocketAddr::new(ip, wanted.port))));
    }
    places
}

async fn answered(State(answer): State<Answer>) -> Response {
    let count = answer.count.load(Ordering::Relaxed);
    let healthy = answer.health.is_healthy(Instant::now());
    let status = if count > 0 && healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let headers = [
        (header::CONTENT_TYPE.as_str(), "application/json".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS.as_str(), "nosniff".to_owned()),
        (WEIGHT, count.to_string()),
    ];
    (status, headers, body(&answer.service, count, healthy)).into_response()
}

/// The answer as kube-proxy lays it out; names of Services need no escapes.
fn body(service: &ServiceKey, count: usize, healthy: bool) -> String {
    format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"{}\",\n\t\t\"name\": \"{}\"\n\t}},\n\t\"localEndpoints\": {count},\n\t\"serviceProxyHealthy\": {healthy}\n}}",
        service.namespace(),
        service.name()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn ask(port: u16) -> String {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"GET /any HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
    }

    #[tokio::test]
    async fn a_port_answers_with_the_number_of_endpoints() {
        let mut ports = HealthPorts::new(Health::new(Duration::from_mins(1)));
        let (key, port) = (ServiceKey::new("demo", "hello-lb"), free_port().await);
        let local =
            |family| Some(if family == Family::V4 { vec![Ipv4Addr::LOCALHOST.into()] } else { vec![] });
        let wanted = |count| Some(Wanted { port, endpoints: [(Family::V4, count)].into() });
        ports.set(&key, wanted(2), local).await.unwrap();
        let answer = ask(port).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("content-length: 116"), "{answer}");
        assert!(answer.contains("x-load-balancing-endpoint-weight: 2"), "{answer}");
        ports.set(&key, wanted(0), local).await.unwrap();
        assert!(ask(port).await.starts_with("HTTP/1.1 503"));
        ports.set(&key, None, local).await.unwrap();
        assert!(ports.is_empty());
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_told_and_tried_again() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let mut ports = HealthPorts::new(Health::new(Duration::from_mins(1)));
        let key = ServiceKey::new("demo", "web");
        let local = |_| Some(vec![Ipv4Addr::LOCALHOST.into()]);
        let wanted = Wanted { port, endpoints: [(Family::V4, 1)].into() };
        let (address, _) = ports.set(&key, Some(wanted), local).await.unwrap_err();
        assert_eq!(address.port(), port);
        drop(taken);
        let (key, wanted) = ports.again().remove(0);
        ports.set(&key, Some(wanted), local).await.unwrap();
        assert!(ports.again().is_empty() && ports.len() == 1);
    }
}
