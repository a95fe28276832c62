//! Which controllers run, by the names that upstream's flag `--controllers` takes.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::watch::world::Controller;

/// What a list of names comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The controllers to run.
    pub controllers: BTreeSet<Controller>,
    /// Names of upstream's controllers that are not ours to run.
    pub foreign: Vec<String>,
}

/// The controllers of upstream's manager that this one does not have (v1.36).
const FOREIGN: [&str; 44] = [
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
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "namespace-controller",
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
    "root-ca-certificate-publisher-controller",
    "selinux-warning-controller",
    "service-lb-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "taint-eviction-controller",
    "token-cleaner-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
];

/// Older names that upstream still takes.
const ALIASES: [(&str, Controller); 3] = [
    ("endpoint", Controller::Endpoints),
    ("endpointslice", Controller::Slices),
    ("endpointslicemirroring", Controller::Mirrors),
];

/// Resolves names: `*` is all, `NAME` is one more, `-NAME` one less, wherever they stand.
///
/// # Errors
/// A name that neither upstream nor this set knows.
pub fn choose<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Choice, Error> {
    let mut choice = Choice::default();
    let mut off = BTreeSet::new();
    for name in names.into_iter().map(str::trim).filter(|name| !name.is_empty()) {
        let (wanted, plain) = name.strip_prefix('-').map_or((true, name), |plain| (false, plain));
        if plain == "*" && wanted {
            choice.controllers.extend(Controller::ALL);
        } else if let Some(controller) = by_name(plain) {
            let _ = if wanted { choice.controllers.insert(controller) } else { off.insert(controller) };
        } else if !FOREIGN.contains(&plain) {
            return Err(Error::UnknownController(plain.to_owned()));
        } else if wanted {
            choice.foreign.push(plain.to_owned());
        }
    }
    choice.controllers.retain(|controller| !off.contains(controller));
    Ok(choice)
}

fn by_name(name: &str) -> Option<Controller> {
    let own = Controller::ALL.into_iter().find(|c| c.name() == name);
    own.or_else(|| ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, controller)| *controller))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("*", &Controller::ALL[..], &[])]
    #[case("*,-endpoints-controller", &[Controller::Slices, Controller::Mirrors, Controller::Cidrs], &[])]
    #[case("-endpoints-controller,*", &[Controller::Slices, Controller::Mirrors, Controller::Cidrs], &[])]
    #[case("endpointslice-controller,garbage-collector-controller", &[Controller::Slices], &["garbage-collector-controller"])]
    #[case("-garbage-collector-controller", &[], &[])]
    fn names_are_resolved(#[case] names: &str, #[case] controllers: &[Controller], #[case] foreign: &[&str]) {
        let choice = choose(names.split(',')).unwrap();
        assert_eq!(choice.controllers, controllers.iter().copied().collect());
        assert_eq!(choice.foreign, foreign);
    }

    #[test]
    fn a_name_nobody_knows_is_an_error() {
        let error = choose(["endpointslices"]).unwrap_err();
        assert!(error.to_string().contains("endpointslice-controller"), "{error}");
    }
}
