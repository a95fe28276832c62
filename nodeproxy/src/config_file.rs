//! kube-proxy's configuration file (`KubeProxyConfiguration`, `kubeproxy.config.k8s.io/v1alpha1`), as far as it is about this
//! proxy. What it says of other modes and of Windows is read over.

use serde::Deserialize;

const KIND: &str = "KubeProxyConfiguration";
const GROUP: &str = "kubeproxy.config.k8s.io/";

/// What the file says; what it leaves out is empty. Durations are as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigFile {
    /// `kubeproxy.config.k8s.io/v1alpha1`.
    pub api_version: String,
    /// `KubeProxyConfiguration`.
    pub kind: String,
    /// The node's name.
    pub hostname_override: String,
    /// How to reach the API server.
    pub client_connection: ClientConnection,
    /// The cluster's pod networks, separated by commas.
    #[serde(rename = "clusterCIDR")]
    pub cluster_cidr: String,
    /// How traffic of this node's pods is known.
    pub detect_local_mode: String,
    /// Names for that.
    pub detect_local: DetectLocal,
    /// Which addresses take node port traffic.
    pub node_port_addresses: Option<Vec<String>>,
    /// Where `/healthz` answers.
    pub healthz_bind_address: String,
    /// Where `/metrics` answers.
    pub metrics_bind_address: String,
    /// A port that is taken ends the process.
    pub bind_address_hard_fail: bool,
    /// The mode.
    pub mode: String,
    /// Choices of the mode `nftables`.
    pub nftables: Nftables,
}

/// How to reach the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClientConnection {
    /// A kubeconfig.
    pub kubeconfig: String,
}

/// Names of interfaces of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DetectLocal {
    /// The bridge.
    pub bridge_interface: String,
    /// How names begin.
    pub interface_name_prefix: String,
}

/// Choices of the mode `nftables`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nftables {
    /// Rewrites the source of all traffic to cluster IPs.
    pub masquerade_all: bool,
    /// Which bit marks packets whose source is to be rewritten.
    pub masquerade_bit: Option<u8>,
    /// How often what failed is tried again.
    pub sync_period: String,
    /// The least time between two syncs.
    pub min_sync_period: String,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// Not YAML, or of another shape.
    #[error("{0}")]
    Parse(String),
    /// Something else.
    #[error("it is a {kind:?} of {api_version:?} and not a {KIND} of {GROUP}v1alpha1")]
    Kind {
        /// Its kind.
        kind: String,
        /// Its API version.
        api_version: String,
    },
}

/// Reads the text of a file.
pub fn parse(text: &str) -> Result<ConfigFile, ConfigFileError> {
    let file: ConfigFile =
        serde_saphyr::from_str(text).map_err(|error| ConfigFileError::Parse(error.to_string()))?;
    if file.kind != KIND || !file.api_version.starts_with(GROUP) {
        return Err(ConfigFileError::Kind { kind: file.kind, api_version: file.api_version });
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_kubeadm_is_read() {
        let text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nbindAddress: 0.0.0.0\n\
            clientConnection: {acceptContentTypes: '', burst: 0, kubeconfig: /var/lib/kube-proxy/kubeconfig.conf, qps: 0}\n\
            clusterCIDR: 172.20.0.0/16\nconfigSyncPeriod: 0s\nconntrack: {maxPerCore: null}\nhostnameOverride: ''\n\
            iptables: {masqueradeBit: null}\nmode: nftables\nnftables: {masqueradeAll: false, masqueradeBit: null, syncPeriod: 0s}\n\
            nodePortAddresses: null\nwinkernel: {enableDSR: false}\n";
        let file = parse(text).unwrap();
        assert_eq!((file.cluster_cidr.as_str(), file.mode.as_str()), ("172.20.0.0/16", "nftables"));
        assert_eq!(file.client_connection.kubeconfig, "/var/lib/kube-proxy/kubeconfig.conf");
        assert_eq!(file.node_port_addresses, None);
    }

    #[test]
    fn another_kind_is_refused_by_name() {
        let error =
            parse("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n").unwrap_err();
        assert!(error.to_string().contains("KubeletConfiguration"), "{error}");
        assert!(matches!(parse("kind: [").unwrap_err(), ConfigFileError::Parse(_)));
    }
}
