//! A small cluster DNS: the names of Services and headless pods from the API server's objects, all others from the machine's resolver.
//!
//! It listens on the machine's addresses of the nodes' network; pods reach it by the Service `kube-system/kube-dns`, as in any
//! cluster. It keeps nothing: each question looks at the objects as they are.

mod names;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hickory_proto::{
    op::{Message, Metadata, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata},
};
use serde_json::{Value, json};
use service_lab_apiserver::{
    local::{GroupResource, Local},
    registry::error::ApiError,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
    time::timeout,
};

use names::{Asked, Said};

pub(crate) use names::resolver_file;

const SERVICES: GroupResource = ("", "services");
const SLICES: GroupResource = ("discovery.k8s.io", "endpointslices");
const PORT: u16 = 53;
const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-dns";
/// Which address of the Service range it asks for, as kubeadm does.
const PLACE: usize = 9;
/// Seconds that an answer may be kept.
const TTL: u32 = 5;
/// How long the machine's resolver may take.
const UPSTREAM: Duration = Duration::from_secs(3);
/// The longest message over UDP, and how long a client may take over TCP.
const DATAGRAM: usize = 4096;
const IDLE: Duration = Duration::from_secs(10);

/// Creates the Service by which pods reach the DNS at these addresses; its cluster IP.
pub(crate) fn publish(
    local: &Local,
    addresses: &[IpAddr],
    ranges: &[ipnet::IpNet],
) -> Result<Option<IpAddr>, ApiError> {
    let wanted = ranges.first().and_then(|range| range.hosts().nth(PLACE));
    let mut spec = json!({"ports": [
        {"name": "dns", "port": PORT, "protocol": "UDP"}, {"name": "dns-tcp", "port": PORT, "protocol": "TCP"}]});
    if let Some(ip) = wanted {
        spec["clusterIP"] = json!(ip);
    }
    let labels =
        json!({"k8s-app": NAME, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"});
    let service = json!({"metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels}, "spec": spec});
    unless_there(local.create(SERVICES, NAMESPACE, &service))?;
    for ip in addresses {
        let (kind, suffix) = if ip.is_ipv4() { ("IPv4", "v4") } else { ("IPv6", "v6") };
        let labels = json!({"kubernetes.io/service-name": NAME, "endpointslice.kubernetes.io/managed-by": "lab-network"});
        let slice = json!({"metadata": {"name": format!("{NAME}-{suffix}"), "namespace": NAMESPACE, "labels": labels},
            "addressType": kind, "ports": [{"name": "dns", "port": PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "port": PORT, "protocol": "TCP"}],
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}]});
        unless_there(local.create(SLICES, NAMESPACE, &slice))?;
    }
    let made = local.get(SERVICES, NAMESPACE, NAME);
    Ok(made.and_then(|made| made["spec"]["clusterIP"].as_str()?.parse().ok()))
}

fn unless_there<T>(done: Result<T, ApiError>) -> Result<(), ApiError> {
    match done {
        Err(error) if error.code() == 409 => Ok(()),
        done => done.map(|_| ()),
    }
}

/// Listens at these addresses, until the set is dropped.
pub(crate) async fn serve(local: &Local, addresses: &[IpAddr]) -> io::Result<JoinSet<()>> {
    let resolver = Arc::new(Resolver { local: local.clone(), upstream: upstream() });
    let mut tasks = JoinSet::new();
    for ip in addresses {
        let socket = UdpSocket::bind((*ip, PORT)).await?;
        let listener = TcpListener::bind((*ip, PORT)).await?;
        tasks.spawn(Arc::clone(&resolver).over_udp(socket));
        tasks.spawn(Arc::clone(&resolver).over_tcp(listener));
    }
    Ok(tasks)
}

/// The first resolver of the machine.
fn upstream() -> Option<SocketAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").ok()?;
    let mut servers =
        text.lines().filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok());
    servers.next().map(|ip: IpAddr| SocketAddr::new(ip, PORT))
}

struct Resolver {
    local: Local,
    upstream: Option<SocketAddr>,
}

impl Resolver {
    async fn over_udp(self: Arc<Self>, socket: UdpSocket) {
        let socket = Arc::new(socket);
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
            let (resolver, socket, asked) =
                (Arc::clone(&self), Arc::clone(&socket), buffer[..length].to_vec());
            tokio::spawn(async move {
                if let Some(answer) = resolver.answer(&asked).await {
                    let _ = socket.send_to(&answer, peer).await;
                }
            });
        }
    }

    async fn over_tcp(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let resolver = Arc::clone(&self);
            tokio::spawn(async move {
                let _ = resolver.converse(stream).await;
            });
        }
    }

    /// Messages over TCP begin with their length.
    async fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let length = timeout(IDLE, stream.read_u16()).await??;
            let mut asked = vec![0; length.into()];
            timeout(IDLE, stream.read_exact(&mut asked)).await??;
            let Some(answer) = self.answer(&asked).await else { return Ok(()) };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            stream.write_u16(length).await?;
            stream.write_all(&answer).await?;
        }
    }

    /// The answer to a message; none to what is no question.
    async fn answer(&self, asked: &[u8]) -> Option<Vec<u8>> {
        let request = Message::from_vec(asked).ok()?;
        let query = request.queries.first()?.clone();
        let said = match names::asked(&query.name.to_ascii()) {
            Asked::Foreign => return self.ask_upstream(asked).await.or_else(|| failed(&request)),
            Asked::Nothing => Said::Unknown,
            Asked::Service { service, namespace, host } => {
                self.of_service(&service, &namespace, host.as_deref())
            }
        };
        let mut response = response(&request, ResponseCode::NoError);
        response.metadata.authoritative = true;
        match said {
            Said::Unknown => response.metadata.response_code = ResponseCode::NXDomain,
            Said::Addresses(ips) => {
                for ip in ips.into_iter().filter(|ip| fits(*ip, query.query_type)) {
                    response.add_answer(Record::from_rdata(query.name.clone(), TTL, RData::from(ip)));
                }
            }
            Said::Alias(name) => {
                let target = Name::from_ascii(format!("{}.", name.trim_end_matches('.'))).ok()?;
                let alias = RData::CNAME(rdata::CNAME(target.clone()));
                response.add_answer(Record::from_rdata(query.name.clone(), TTL, alias));
                response.add_answers(self.follow(request.metadata.id, target, query.query_type).await);
            }
        }
        response.to_vec().ok()
    }

    fn of_service(&self, name: &str, namespace: &str, host: Option<&str>) -> Said {
        let Some(service) = self.local.get(SERVICES, namespace, name) else { return Said::Unknown };
        let ours = |slice: &Value| {
            slice.pointer("/metadata/labels/kubernetes.io~1service-name").and_then(Value::as_str)
                == Some(name)
        };
        let headless = service["spec"]["clusterIP"] == "None";
        let mut slices = if headless { self.local.list(SLICES, Some(namespace)) } else { Vec::new() };
        slices.retain(ours);
        names::of_service(&service, &slices, host)
    }

    /// What the machine's resolver says of the name that an alias leads to.
    async fn follow(&self, id: u16, name: Name, kind: RecordType) -> Vec<Record> {
        let mut request = Message::query();
        request.metadata.id = id;
        request.metadata.recursion_desired = true;
        request.add_query(Query::query(name, kind));
        let Ok(asked) = request.to_vec() else { return Vec::new() };
        let answer = self.ask_upstream(&asked).await;
        answer
            .and_then(|answer| Message::from_vec(&answer).ok())
            .map(|answer| answer.answers)
            .unwrap_or_default()
    }

    async fn ask_upstream(&self, asked: &[u8]) -> Option<Vec<u8>> {
        let upstream = self.upstream?;
        let any: IpAddr = if upstream.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let socket = UdpSocket::bind((any, 0)).await.ok()?;
        socket.connect(upstream).await.ok()?;
        socket.send(asked).await.ok()?;
        let mut buffer = vec![0; DATAGRAM];
        let length = timeout(UPSTREAM, socket.recv(&mut buffer)).await.ok()?.ok()?;
        buffer.truncate(length);
        Some(buffer)
    }
}

const fn fits(ip: IpAddr, kind: RecordType) -> bool {
    matches!(
        (ip, kind),
        (IpAddr::V4(_), RecordType::A | RecordType::ANY)
            | (IpAddr::V6(_), RecordType::AAAA | RecordType::ANY)
    )
}

fn response(request: &Message, code: ResponseCode) -> Message {
    let mut response = Message::response(request.metadata.id, request.metadata.op_code);
    response.metadata = Metadata::response_from_request(&request.metadata);
    response.metadata.recursion_available = true;
    response.metadata.response_code = code;
    response.add_queries(request.queries.iter().cloned());
    response
}

fn failed(request: &Message) -> Option<Vec<u8>> {
    response(request, ResponseCode::ServFail).to_vec().ok()
}
