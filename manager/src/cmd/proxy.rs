//! `proxy`: from flags and kube-proxy's configuration file to the settings of the node's proxy.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use ipnet::IpNet;
use service_api::address::Family;
use service_nodeproxy::{
    agent::{self, AgentError, Settings},
    config::{LocalTraffic, NodePortAddresses, RuleSettings},
    config_file::{self, ConfigFile, ConfigFileError},
    dump::{self, DumpError, OutputFormat},
    nft::run::RunError,
};

use super::CommandError;
use crate::{
    args::{DetectLocalMode, GoDuration, ProxyArgs, RuleArgs, RuleFormat},
    cluster::{self, Watched},
    shutdown,
};

const HEALTH: &str = "0.0.0.0:10256";
const METRICS: &str = "127.0.0.1:10249";
const SYNC_PERIOD: Duration = Duration::from_secs(30);
const MARK_BIT: u8 = 14;

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// A file cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A configuration file cannot be used.
    #[error("--config {file}: {source}")]
    Config {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: ConfigFileError,
    },
    /// A value of the configuration file cannot be meant.
    #[error("--config: {field}: {value:?} is no {expected}")]
    Value {
        /// The field.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A mode that is not here.
    #[error("the mode {0:?} is not part of this program: rules are made with nftables")]
    Mode(String),
    /// A way to know pods' traffic that lacks what it needs.
    #[error("--detect-local-mode {mode} needs {flag}")]
    DetectLocal {
        /// The mode.
        mode: &'static str,
        /// The flag.
        flag: &'static str,
    },
    /// No name.
    #[error("the machine's name is not known ({0}); give --hostname-override")]
    Hostname(io::Error),
    /// The proxy cannot run.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The rules cannot be removed.
    #[error(transparent)]
    Kernel(#[from] RunError),
    /// The rules cannot be printed.
    #[error(transparent)]
    Dump(#[from] DumpError),
}

/// Runs until a signal comes, or does what is asked for instead.
pub(super) async fn run(args: ProxyArgs) -> Result<(), CommandError> {
    let file = read_config(args.config.as_deref())?;
    let settings = settings(&args, &file)?;
    if args.instead.cleanup {
        agent::clean_up(&settings.families).map_err(ProxyError::from)?;
        return Ok(());
    }
    let named = Some(&file.client_connection.kubeconfig).filter(|name| !name.is_empty()).map(PathBuf::from);
    let kubeconfig = args.kubeconfig.clone().or(named);
    if args.instead.dry_run {
        return dry_run(&args, &settings, kubeconfig.as_deref()).await;
    }
    agent::check().map_err(ProxyError::from)?;
    let shutdown = shutdown::on_signal().map_err(CommandError::Signals)?;
    let client = tokio::select! {
        client = cluster::connect(kubeconfig.as_deref(), Watched::default()) => client?,
        () = shutdown.cancelled() => return Ok(()),
    };
    Ok(agent::run(client, settings, shutdown).await.map_err(ProxyError::from)?)
}

async fn dry_run(
    args: &ProxyArgs,
    settings: &Settings,
    kubeconfig: Option<&Path>,
) -> Result<(), CommandError> {
    let objects = match &args.instead.dump {
        Some(file) => dump::parse(&read(file)?).map_err(ProxyError::from)?,
        None => dump::fetch(cluster::connect(kubeconfig, Watched::default()).await?)
            .await
            .map_err(ProxyError::from)?,
    };
    let format = match args.instead.output {
        RuleFormat::Nft => OutputFormat::Nft,
        RuleFormat::Iptables => OutputFormat::Iptables,
        RuleFormat::Json => OutputFormat::Json,
    };
    let text = dump::rules(&objects, settings, format).map_err(ProxyError::from)?;
    // A reader that has seen enough is no failure.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn read(file: &Path) -> Result<String, ProxyError> {
    std::fs::read_to_string(file).map_err(|source| ProxyError::Read { file: file.to_owned(), source })
}

fn read_config(file: Option<&Path>) -> Result<ConfigFile, ProxyError> {
    let Some(file) = file else { return Ok(ConfigFile::default()) };
    let text = read(file)?;
    config_file::parse(&text).map_err(|source| ProxyError::Config { file: file.to_owned(), source })
}

fn settings(args: &ProxyArgs, file: &ConfigFile) -> Result<Settings, ProxyError> {
    match file.mode.as_str() {
        "" | "nftables" => {}
        "iptables" => tracing::warn!("the mode iptables is asked for; rules are made with nftables"),
        mode => return Err(ProxyError::Mode(mode.to_owned())),
    }
    let named = Some(&file.hostname_override).filter(|name| !name.is_empty()).cloned();
    let node_name = match args.hostname_override.clone().or(named) {
        Some(name) => name,
        None => hostname()?,
    };
    let running = &args.running;
    let period = |flag: Option<GoDuration>, field: &'static str, text: &str, default: Duration| {
        let written = || -> Result<Duration, ProxyError> {
            let value: GoDuration = value(field, text, "duration")?;
            Ok(value.0)
        };
        match flag {
            Some(flag) => Ok(flag.0),
            None if text.is_empty() => Ok(default),
            // Zero means the default, as for kube-proxy.
            None => written().map(|written| if written.is_zero() { default } else { written }),
        }
    };
    Ok(Settings {
        node_name,
        proxy_name: args.rules.service_proxy_name.clone(),
        families: families(),
        rules: rules(&args.rules, file)?,
        health: Some(match running.healthz_bind_address {
            Some(address) => address,
            None => address("healthzBindAddress", &file.healthz_bind_address, HEALTH)?,
        }),
        metrics: Some(match running.metrics_bind_address {
            Some(address) => address,
            None => address("metricsBindAddress", &file.metrics_bind_address, METRICS)?,
        }),
        bind_hard_fail: running.bind_address_hard_fail.unwrap_or(file.bind_address_hard_fail),
        sync_period: period(
            running.sync_period,
            "nftables.syncPeriod",
            &file.nftables.sync_period,
            SYNC_PERIOD,
        )?
        .max(Duration::from_secs(1)),
        min_sync_period: period(
            running.min_sync_period,
            "nftables.minSyncPeriod",
            &file.nftables.min_sync_period,
            Duration::ZERO,
        )?,
    })
}

fn address(field: &'static str, text: &str, default: &str) -> Result<SocketAddr, ProxyError> {
    value(field, if text.is_empty() { default } else { text }, "address with a port")
}

fn value<T: std::str::FromStr>(
    field: &'static str,
    text: &str,
    expected: &'static str,
) -> Result<T, ProxyError> {
    text.trim().parse().map_err(|_| ProxyError::Value { field, value: text.to_owned(), expected })
}

/// The machine's name as Nodes are named: in lower case.
fn hostname() -> Result<String, ProxyError> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").map_err(ProxyError::Hostname)?;
    Ok(name.trim().to_lowercase())
}

/// IPv4, and IPv6 where the kernel has it.
fn families() -> Vec<Family> {
    let v6 = Path::new("/proc/net/if_inet6").exists().then_some(Family::V6);
    [Some(Family::V4), v6].into_iter().flatten().collect()
}

fn rules(args: &RuleArgs, file: &ConfigFile) -> Result<RuleSettings, ProxyError> {
    let bit = args.masquerade_bit.or(file.nftables.masquerade_bit).unwrap_or(MARK_BIT);
    Ok(RuleSettings {
        masquerade_all: args.masquerade_all.unwrap_or(file.nftables.masquerade_all),
        mark: 1u32.checked_shl(bit.into()).ok_or_else(|| ProxyError::Value {
            field: "nftables.masqueradeBit",
            value: bit.to_string(),
            expected: "bit from 0 to 31",
        })?,
        local_traffic: local_traffic(args, file)?,
        node_port_addresses: node_port_addresses(args, file)?,
    })
}

fn networks(field: &'static str, texts: &[&str]) -> Result<Vec<IpNet>, ProxyError> {
    texts.iter().map(|text| value(field, text, "network")).collect()
}

fn local_traffic(args: &RuleArgs, file: &ConfigFile) -> Result<LocalTraffic, ProxyError> {
    let mut nets = args.cluster_cidr.clone();
    if nets.is_empty() {
        let texts: Vec<&str> = file.cluster_cidr.split(',').filter(|text| !text.trim().is_empty()).collect();
        nets = networks("clusterCIDR", &texts)?;
    }
    let written = match file.detect_local_mode.as_str() {
        "" => None,
        "ClusterCIDR" => Some(DetectLocalMode::ClusterCidr),
        "NodeCIDR" => Some(DetectLocalMode::NodeCidr),
        "BridgeInterface" => Some(DetectLocalMode::BridgeInterface),
        "InterfaceNamePrefix" => Some(DetectLocalMode::InterfaceNamePrefix),
        other => {
            let value = other.to_owned();
            return Err(ProxyError::Value { field: "detectLocalMode", value, expected: "mode" });
        }
    };
    let name = |flag: &Option<String>, field: &str, mode, needs| {
        let named = flag.clone().or_else(|| Some(field.to_owned())).filter(|name| !name.is_empty());
        named.ok_or(ProxyError::DetectLocal { mode, flag: needs })
    };
    let names = &file.detect_local;
    Ok(match args.detect_local_mode.or(written) {
        // Without networks nothing is known, as for kube-proxy: only masqueradeAll masquerades then.
        None | Some(DetectLocalMode::ClusterCidr) if nets.is_empty() => LocalTraffic::Unknown,
        None | Some(DetectLocalMode::ClusterCidr) => LocalTraffic::ClusterCidrs(nets),
        Some(DetectLocalMode::NodeCidr) => LocalTraffic::NodeCidr,
        Some(DetectLocalMode::BridgeInterface) => LocalTraffic::Bridge(name(
            &args.pod_bridge_interface,
            &names.bridge_interface,
            "BridgeInterface",
            "--pod-bridge-interface",
        )?),
        Some(DetectLocalMode::InterfaceNamePrefix) => LocalTraffic::InterfacePrefix(name(
            &args.pod_interface_name_prefix,
            &names.interface_name_prefix,
            "InterfaceNamePrefix",
            "--pod-interface-name-prefix",
        )?),
    })
}

fn node_port_addresses(args: &RuleArgs, file: &ConfigFile) -> Result<NodePortAddresses, ProxyError> {
    let texts = if args.nodeport_addresses.is_empty() {
        file.node_port_addresses.clone().unwrap_or_default()
    } else {
        args.nodeport_addresses.clone()
    };
    let texts: Vec<&str> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    match texts[..] {
        [] | ["primary"] => Ok(NodePortAddresses::Primary),
        _ => Ok(NodePortAddresses::In(networks("nodePortAddresses", &texts)?)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn args(flags: &[&str]) -> ProxyArgs {
        let all = ["service-controller-manager", "proxy", "--hostname-override=one"];
        match Cli::try_parse_from(all.iter().chain(flags)).unwrap().command {
            Command::Proxy(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = config_file::parse(
            "{apiVersion: kubeproxy.config.k8s.io/v1alpha1, kind: KubeProxyConfiguration, clusterCIDR: '10.0.0.0/8, fd00::/64',
              hostnameOverride: two, nodePortAddresses: [192.168.0.0/16], nftables: {syncPeriod: 10s, masqueradeBit: 3}}",
        )
        .unwrap();
        let from_file = settings(&args(&[]), &file).unwrap();
        assert_eq!((from_file.node_name.as_str(), from_file.rules.mark), ("one", 8));
        assert_eq!(from_file.sync_period, Duration::from_secs(10));
        assert!(
            matches!(&from_file.rules.local_traffic, LocalTraffic::ClusterCidrs(nets) if nets.len() == 2)
        );
        let flags = ["--sync-period=1m", "--nodeport-addresses=primary", "--detect-local-mode=NodeCIDR"];
        let from_flags = settings(&args(&flags), &file).unwrap();
        assert_eq!(from_flags.sync_period, Duration::from_mins(1));
        assert_eq!(from_flags.rules.node_port_addresses, NodePortAddresses::Primary);
        assert_eq!(from_flags.rules.local_traffic, LocalTraffic::NodeCidr);
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let of = |text: &str| ConfigFile { mode: text.to_owned(), ..ConfigFile::default() };
        assert!(settings(&args(&[]), &of("ipvs")).unwrap_err().to_string().contains("ipvs"));
        let mode = args(&["--detect-local-mode=BridgeInterface"]);
        let error = settings(&mode, &ConfigFile::default()).unwrap_err();
        assert!(error.to_string().contains("--pod-bridge-interface"), "{error}");
        let file = ConfigFile { cluster_cidr: "10.0.0.0".to_owned(), ..ConfigFile::default() };
        assert!(settings(&args(&[]), &file).unwrap_err().to_string().contains("clusterCIDR"));
    }
}
