//! `lab`: the embedded API server, the controllers in it, and where a person finds it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http::{Request, header};
use ipnet::IpNet;
use kube::Client;
use service_api::address::Family;
use service_controllers::{controller, runtime};
use service_lab_apiserver::{
    bootstrap::RangeOrigin,
    http::auth::Token,
    registry::Allocation,
    server::{self, Bound, Controllers, LabConfig},
};
use service_lab_simulator::{
    self as simulator,
    demo::{self, Access},
    nodes,
};
use service_page::{Page, Reconciles};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{
    CommandError, controllers,
    explain::Explains,
    lab_network::{self, ApiServer},
    private_directory::{self, PrivateDirectory},
};
use crate::{
    args::{AllocationMode, Controller, LabArgs},
    page, shutdown,
};

/// The lab's controllers wait so long before a range goes that nothing holds.
const LAB_GRACE: Duration = Duration::from_secs(1);
const KUBECONFIG: &str = "kubeconfig";
const DEMO_NODES: usize = 3;

/// Serves until a signal comes.
pub(super) async fn run(args: LabArgs, reconciles: Reconciles) -> Result<(), CommandError> {
    let token = args.settings()?.token;
    controllers::warn_of_others(&args.controllers.selection);
    let shutdown = shutdown::on_signal().map_err(CommandError::Signals)?;
    let place = KubeconfigPlace::choose(&args)?;
    let simulated_nodes = nodes::simulated_nodes(&nodes(&args), &families(&args))?;
    let bound = server::build(config(&args, token, place.file.clone())).await?;
    let network = if args.network {
        let command: Vec<String> =
            args.proxy_command.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect();
        Some(lab_network::make(bound.api(), &simulated_nodes, &ranges(&args), &command).await?)
    } else {
        None
    };
    let (api, client) = (bound.api(), client(&bound));
    let page = page(&args, &bound, client.clone(), reconciles, shutdown.clone());
    bound.serve_beside(page::ROOT, page.router());
    announce(&bound, &place.file, &page);
    let prober = network.as_ref().map(lab_network::Network::prober);
    let networked = network.map(|network| {
        network.announce();
        bound.serve_pods(network.pods());
        let server = ApiServer {
            address: local(bound.address()),
            client: client.clone(),
            kubeconfig: place.file.clone(),
        };
        tokio::spawn(network.run(server, shutdown.clone()))
    });
    let serving = tokio::spawn(bound.run(shutdown.clone()));
    let simulating =
        tokio::spawn(simulator::run(Arc::clone(&api), simulated_nodes, prober, shutdown.clone()));
    let working = tokio::spawn(work(&args, client.clone(), shutdown.clone()));
    if args.demo {
        let access = Access { kubeconfig: &place.file, nodes: nodes(&args).count };
        let mut out = io::stdout();
        tokio::select! {
            shown = demo::run(&api, access, &mut out) => shown?,
            () = shutdown.cancelled() => {}
        }
    }
    let worked = working.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    shutdown.cancel();
    // The server ends by the signal alone; a panic in it ends the process.
    for task in [Some(serving), Some(simulating), networked].into_iter().flatten() {
        task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
    api.store.close()?;
    Ok(worked?)
}

/// How programs of this machine reach a server that listens here.
fn local(listens: SocketAddr) -> SocketAddr {
    let ip = match listens.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens.port())
}

/// A client that goes straight into the server, without a port and without TLS.
fn client(bound: &Bound) -> Client {
    let bearer = header::HeaderValue::from_str(&format!("Bearer {}", bound.token().reveal()));
    let service = bound.router().map_request(move |mut request: Request<kube::client::Body>| {
        if let Ok(bearer) = &bearer {
            request.headers_mut().insert(header::AUTHORIZATION, bearer.clone());
        }
        request
    });
    Client::new(service, "default")
}

/// The page to look at; it sees what the client sees.
fn page(
    args: &LabArgs,
    bound: &Bound,
    client: Client,
    reconciles: Reconciles,
    shutdown: CancellationToken,
) -> Page {
    let settings = service_page::Settings {
        title: format!("lab on {}", bound.address()),
        node_ports: args.service_node_port_range,
        hosts: Vec::new(),
        linger: page::LINGER,
        shutdown,
    };
    let holders = Arc::new(page::HoldersOf(bound.token().clone()));
    let explains = Explains::new(client.clone(), args.sync.max_endpoints_per_slice.get().into());
    Page::new(client, holders, Some(Arc::new(explains)), reconciles, settings)
}

/// The controllers of the Service control plane, if any is to run; they end with the server.
fn work(
    args: &LabArgs,
    client: Client,
    shutdown: CancellationToken,
) -> impl Future<Output = Result<(), service_controllers::error::Error>> + use<> {
    let mut settings = controllers::settings(&args.sync, &args.controllers.selection);
    // The lab's allocator sees each change of a range at once.
    settings.service_cidr_grace = LAB_GRACE;
    let (ports, sharing) = (args.service_node_port_range, args.node_port_sharing.into());
    let mut of_ledger = controllers::ledger_settings(&args.controllers.selection, ports, sharing, &settings);
    of_ledger.controllers.extend(of_the_lab(args));
    async move {
        let end = shutdown.clone();
        let with_ledger = async {
            controllers::start_ledger(client.clone(), of_ledger, end).await;
            std::future::pending::<()>().await;
        };
        let with_index = async {
            if settings.controllers.is_empty() {
                shutdown.cancelled().await;
                return Ok(());
            }
            runtime::start(client.clone(), settings, shutdown.clone()).await
        };
        // What is under way in the ledger may be cut at any point: whoever comes next goes on from there.
        tokio::select! {
            () = with_ledger => Ok(()),
            ended = with_index => ended,
        }
    }
}

/// The controllers of the ledger that `*` stands for in the lab, which has all their kinds; and the one that allocates,
/// where the server does not.
fn of_the_lab(args: &LabArgs) -> Vec<controller::Controller> {
    let selection = &args.controllers.selection;
    let mut all = Vec::new();
    for (name, controller) in [
        (Controller::NodePortRange, controller::Controller::PortRanges),
        (Controller::ServicePool, controller::Controller::Pools),
    ] {
        all.extend(selection.leaves_to_star(name).then_some(controller));
    }
    let star = selection.leaves_to_star(Controller::ServiceAllocation);
    if args.allocation == AllocationMode::Reconcile && star {
        all.push(controller::Controller::Allocation);
    }
    all
}

fn config(args: &LabArgs, token: Option<String>, kubeconfig: PathBuf) -> LabConfig {
    LabConfig {
        bind_address: args.bind_address,
        port: args.secure_port,
        service_cidrs: ranges(args),
        range_origin: match args.service_cluster_ip_range {
            Some(_) => RangeOrigin::Flag,
            None => RangeOrigin::Default,
        },
        node_ports: args.service_node_port_range,
        port_sharing: args.node_port_sharing.into(),
        allocation: match args.allocation {
            AllocationMode::Transaction => Allocation::Transaction,
            AllocationMode::Reconcile => Allocation::Reconcile,
        },
        data_dir: args.data_dir.clone(),
        token: token.map(Token::new),
        controllers: Controllers {
            garbage_collector: args.controllers.selection.enables(Controller::GarbageCollector),
            namespaces: args.controllers.selection.enables(Controller::Namespace),
            accounts: args.controllers.selection.enables(Controller::ServiceAccount),
            root_ca: args.controllers.selection.enables(Controller::RootCa),
        },
        event_ttl: args.event_ttl.0,
        kubeconfig: Some(kubeconfig),
    }
}

/// The simulated nodes; the demo has some even if none are asked for.
fn nodes(args: &LabArgs) -> nodes::Settings {
    let count = if args.demo && args.nodes == 0 { DEMO_NODES } else { args.nodes.into() };
    nodes::Settings { count, zones: args.zones.clone() }
}

/// The families of nodes and pods: those of the Service ranges, in their order.
fn families(args: &LabArgs) -> Vec<Family> {
    ranges(args).iter().map(|range| Family::of(range.addr())).collect()
}

/// The ranges of the default ServiceCIDR.
fn ranges(args: &LabArgs) -> Vec<IpNet> {
    let given = args.service_cluster_ip_range.as_ref();
    given.map_or_else(|| LabConfig::local().service_cidrs, |given| given.as_slice().to_vec())
}

/// Says where the server is; this is the command's output, not its log.
fn announce(bound: &Bound, kubeconfig: &Path, page: &Page) {
    println!("The API server listens on {}.", bound.url());
    if bound.address().ip().is_unspecified() {
        println!("{}", elsewhere(&bound.addresses_of_machine(), bound.address().port()));
    }
    println!("Point kubectl at it: export KUBECONFIG={}", kubeconfig.display());
    println!("Look at it: {}", page.link(&bound.url(), bound.token().reveal()));
    println!("Ctrl-C ends it.");
}

/// How other machines reach a server that listens on all addresses, of which some are known.
fn elsewhere(known: &[SocketAddr], port: u16) -> String {
    let named: Vec<String> = known.iter().map(|address| format!("https://{address}")).collect();
    if named.is_empty() {
        return format!(
            "It listens on all addresses: other machines reach it at port {port} of any of them, with the token and --tls-server-name localhost."
        );
    }
    format!(
        "It listens on all addresses: other machines reach it at {} with the token, and at port {port} of any other address of this machine with --tls-server-name localhost as well.",
        named.join(" or ")
    )
}

/// Where the kubeconfig goes; a temporary directory is removed at the end.
struct KubeconfigPlace {
    file: PathBuf,
    _temporary: Option<PrivateDirectory>,
}

impl KubeconfigPlace {
    fn choose(args: &LabArgs) -> Result<Self, CommandError> {
        if let Some(file) = &args.kubeconfig_out {
            return Ok(Self { file: file.clone(), _temporary: None });
        }
        if let Some(dir) = &args.data_dir {
            return Ok(Self { file: dir.join(KUBECONFIG), _temporary: None });
        }
        let within = std::env::temp_dir();
        private_directory::remove_abandoned(&within);
        let dir = PrivateDirectory::new(&within).map_err(CommandError::TemporaryDirectory)?;
        Ok(Self { file: dir.path().join(KUBECONFIG), _temporary: Some(dir) })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        lab: LabArgs,
    }

    #[rstest::rstest]
    #[case::default("*", true)]
    #[case::none("none", false)]
    #[case::another("endpointslice-controller", false)]
    #[case::without("*,-service-allocation-controller", false)]
    fn who_allocates_is_a_controller_as_the_others(#[case] selection: &str, #[case] runs: bool) {
        let line = ["lab", "--allocation=reconcile", "--controllers", selection];
        let of_ledger = of_the_lab(&Line::parse_from(line).lab);
        assert_eq!(of_ledger.contains(&controller::Controller::Allocation), runs);
    }

    #[test]
    fn a_server_on_all_addresses_names_those_it_knows() {
        let known = ["192.0.2.7:6443".parse().unwrap(), "[2001:db8::7]:6443".parse().unwrap()];
        let said = elsewhere(&known, 6443);
        assert!(
            said.contains("at https://192.0.2.7:6443 or https://[2001:db8::7]:6443 with the token"),
            "{said}"
        );
        assert!(elsewhere(&[], 6443).contains("at port 6443 of any of them"));
    }
}
