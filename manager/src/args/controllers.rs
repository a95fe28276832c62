//! Which controllers run: the list of `--controllers`, with kube-controller-manager's names and meaning.

use std::{collections::BTreeSet, fmt, str::FromStr};

use clap::Args;

/// The flag of `lab` and `run`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ControllersArg {
    /// Which controllers run: `*` for all but those of addresses and node ports, `name`, `-name`, or `none`.
    #[arg(
        long = "controllers",
        env = "SCM_CONTROLLERS",
        value_name = "LIST",
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub selection: ControllerSelection,
}

/// A controller of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Keeps the EndpointSlices of Services with a selector.
    EndpointSlice,
    /// Keeps the legacy Endpoints objects.
    Endpoints,
    /// Mirrors Endpoints written by hand into EndpointSlices.
    EndpointSliceMirroring,
    /// Keeps the finalizers and conditions of ServiceCIDRs.
    ServiceCidr,
    /// Gives Services their addresses and ports, where the API server does not.
    ServiceAllocation,
    /// Compares IPAddresses with Services and ServiceCIDRs.
    IpAddressAudit,
    /// Keeps a NodePort for each node port of a Service.
    NodePortAudit,
    /// Keeps the finalizers and conditions of NodePortRanges.
    NodePortRange,
    /// Says how full ServicePools are.
    ServicePool,
    /// Deletes what owners leave behind; only in the lab.
    GarbageCollector,
    /// Empties namespaces that are deleted; only in the lab.
    Namespace,
    /// Gives every namespace its ServiceAccount `default`; only in the lab.
    ServiceAccount,
    /// Gives every namespace the ConfigMap `kube-root-ca.crt`; only in the lab.
    RootCa,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::EndpointSlice,
        Self::Endpoints,
        Self::EndpointSliceMirroring,
        Self::ServiceCidr,
        Self::ServiceAllocation,
        Self::IpAddressAudit,
        Self::NodePortAudit,
        Self::NodePortRange,
        Self::ServicePool,
        Self::GarbageCollector,
        Self::Namespace,
        Self::ServiceAccount,
        Self::RootCa,
    ];

    /// Those that `*` does not stand for: they need kinds that a cluster has only once they are installed.
    const BY_NAME: [Self; 5] = [
        Self::ServiceAllocation,
        Self::IpAddressAudit,
        Self::NodePortAudit,
        Self::NodePortRange,
        Self::ServicePool,
    ];

    /// The name in `--controllers`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EndpointSlice => "endpointslice-controller",
            Self::Endpoints => "endpoints-controller",
            Self::EndpointSliceMirroring => "endpointslice-mirroring-controller",
            Self::ServiceCidr => "service-cidr-controller",
            Self::ServiceAllocation => "service-allocation-controller",
            Self::IpAddressAudit => "ip-address-audit-controller",
            Self::NodePortAudit => "node-port-audit-controller",
            Self::NodePortRange => "node-port-range-controller",
            Self::ServicePool => "service-pool-controller",
            Self::GarbageCollector => "garbage-collector-controller",
            Self::Namespace => "namespace-controller",
            Self::ServiceAccount => "serviceaccount-controller",
            Self::RootCa => "root-ca-certificate-publisher-controller",
        }
    }

    /// The name that kube-controller-manager had before and still takes.
    const fn alias(self) -> &'static str {
        match self {
            Self::EndpointSlice => "endpointslice",
            Self::Endpoints => "endpoint",
            Self::EndpointSliceMirroring => "endpointslicemirroring",
            Self::ServiceCidr => "service-cidr",
            Self::ServiceAllocation => "service-allocation",
            Self::IpAddressAudit => "ip-address-audit",
            Self::NodePortAudit => "node-port-audit",
            Self::NodePortRange => "node-port-range",
            Self::ServicePool => "service-pool",
            Self::GarbageCollector => "garbagecollector",
            Self::Namespace => "namespace",
            Self::ServiceAccount => "serviceaccount",
            Self::RootCa => "root-ca-cert-publisher",
        }
    }

    fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| controller.name() == name || controller.alias() == name)
    }
}

/// Controllers of kube-controller-manager 1.36 that are not ours.
const OTHERS: &[&str] = &[
    "bootstrap-signer-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "cloud-node-lifecycle-controller",
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "node-route-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "podcertificaterequest-cleaner-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "selinux-warning-controller",
    "service-ca-certificate-publisher-controller",
    "service-lb-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "taint-eviction-controller",
    "token-cleaner-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
];

/// The names that those had before, and that kube-controller-manager still takes.
const OTHERS_BEFORE: &[&str] = &[
    "attachdetach",
    "bootstrapsigner",
    "cloud-node-lifecycle",
    "clusterrole-aggregation",
    "cronjob",
    "csrapproving",
    "csrcleaner",
    "csrsigning",
    "daemonset",
    "deployment",
    "disruption",
    "ephemeral-volume",
    "horizontalpodautoscaling",
    "job",
    "legacy-service-account-token-cleaner",
    "nodeipam",
    "nodelifecycle",
    "persistentvolume-binder",
    "persistentvolume-expander",
    "podgc",
    "pv-protection",
    "pvc-protection",
    "replicaset",
    "replicationcontroller",
    "resource-claim-controller",
    "resourcequota",
    "route",
    "service",
    "service-ca-cert-publisher",
    "serviceaccount-token",
    "statefulset",
    "storage-version-gc",
    "tokencleaner",
    "ttl",
    "ttl-after-finished",
];

/// A list that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// Nobody knows it.
    #[error("{0:?} is no controller; known here are {known}", known = names())]
    Unknown(String),
    /// `none` and something else.
    #[error("`none` stands alone")]
    NoneWithOthers,
    /// Nothing.
    #[error("a name is empty; `none` runs no controller")]
    Empty,
}

fn names() -> String {
    Controller::ALL.map(Controller::name).join(", ")
}

/// A list of names: `*` for all, `name`, `-name`, or `none` alone. An earlier entry wins over a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerSelection {
    text: String,
    enabled: BTreeSet<Controller>,
    not_ours: Vec<String>,
}

impl ControllerSelection {
    /// Whether a controller is to run.
    pub fn enables(&self, controller: Controller) -> bool {
        self.enabled.contains(&controller)
    }

    /// The controllers that are to run.
    pub fn enabled(&self) -> impl Iterator<Item = Controller> + '_ {
        self.enabled.iter().copied()
    }

    /// Names that kube-controller-manager knows and nobody runs here; worth a warning.
    pub fn not_ours(&self) -> &[String] {
        &self.not_ours
    }

    /// Whether `*` is in the list and the controller is not named beside it.
    pub fn leaves_to_star(&self, controller: Controller) -> bool {
        let mut entries = self.text.split(',').map(str::trim);
        let named = |entry: &str| Controller::by_name(entry.strip_prefix('-').unwrap_or(entry));
        entries.clone().any(|entry| entry == "*") && entries.all(|entry| named(entry) != Some(controller))
    }

    /// Whether a controller is asked for by its name and not just by `*`.
    pub fn names(&self, controller: Controller) -> bool {
        self.text.split(',').any(|entry| Controller::by_name(entry.trim()) == Some(controller))
    }
}

impl FromStr for ControllerSelection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        let entries: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut selection = Self { text: text.to_owned(), enabled: BTreeSet::new(), not_ours: Vec::new() };
        if entries == ["none"] {
            return Ok(selection);
        }
        let (mut decided, mut all) = (BTreeSet::new(), false);
        for entry in entries {
            let (name, enable) = entry.strip_prefix('-').map_or((entry, true), |name| (name, false));
            match (name, Controller::by_name(name)) {
                ("", _) => return Err(SelectionError::Empty),
                ("none", _) => return Err(SelectionError::NoneWithOthers),
                ("*", _) if enable => all = true,
                (_, Some(controller)) => {
                    if decided.insert(controller) && enable {
                        selection.enabled.insert(controller);
                    }
                }
                _ if OTHERS.contains(&name) || OTHERS_BEFORE.contains(&name) => {
                    if enable {
                        selection.not_ours.push(name.to_owned());
                    }
                }
                _ => return Err(SelectionError::Unknown(name.to_owned())),
            }
        }
        if all {
            let by_star = |controller: &Controller| {
                !decided.contains(controller) && !Controller::BY_NAME.contains(controller)
            };
            selection.enabled.extend(Controller::ALL.into_iter().filter(by_star));
        }
        Ok(selection)
    }
}

impl fmt::Display for ControllerSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn enabled(text: &str) -> Vec<&'static str> {
        text.parse::<ControllerSelection>().unwrap().enabled().map(Controller::name).collect()
    }

    #[rstest]
    #[case("none", &[])]
    #[case("endpointslice-controller", &["endpointslice-controller"])]
    #[case("endpoint,endpointslice", &["endpointslice-controller", "endpoints-controller"])]
    #[case("-endpoints-controller", &[])]
    #[case("*,-endpoints-controller,-garbage-collector-controller,-namespace-controller,-service-cidr-controller,\
        -serviceaccount-controller,-root-ca-certificate-publisher-controller",
        &["endpointslice-controller", "endpointslice-mirroring-controller"])]
    #[case("endpoints-controller,-endpoints-controller", &["endpoints-controller"])]
    #[case("-endpoints-controller,endpoints-controller", &[])]
    fn lists(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(enabled(text), expected);
    }

    #[test]
    fn a_star_is_everything_that_a_cluster_has_the_kinds_for() {
        assert_eq!(enabled("*").len(), Controller::ALL.len() - Controller::BY_NAME.len());
        assert!(enabled("*,node-port-audit-controller").contains(&"node-port-audit-controller"));
        let left =
            |text: &str| text.parse::<ControllerSelection>().unwrap().leaves_to_star(Controller::ServicePool);
        assert!(left("*") && left("*,-endpoint"));
        assert!(!left("endpoint") && !left("*,-service-pool-controller") && !left("*,service-pool"));
    }

    #[test]
    fn names_of_others_are_kept_for_a_warning() {
        let selection: ControllerSelection =
            "endpoints-controller,job-controller,-ttl-controller,nodelifecycle".parse().unwrap();
        assert_eq!(selection.not_ours(), ["job-controller", "nodelifecycle"]);
        assert!(selection.names(Controller::Endpoints));
        assert!(!selection.names(Controller::EndpointSlice));
    }

    #[rstest]
    #[case("endpoints-controler")]
    #[case("-*")]
    #[case("")]
    #[case("endpoints-controller,,endpointslice-controller")]
    #[case("none,endpoints-controller")]
    fn refused(#[case] text: &str) {
        assert!(text.parse::<ControllerSelection>().is_err());
    }
}
