//! Which IP families a Service gets: `ipFamilies` and `ipFamilyPolicy`, filled in and checked
//! against what the cluster has.
//!
//! Owns the rules of KEP-563 that need the cluster's configuration. It allocates nothing, and a
//! Service that it refuses is not to be used any further.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use service_api::address::parse_lenient;
use service_api::errors::{FieldErrors, invalid};
use service_api::service::{cluster_ips, families, needs_cluster_ip, policy, type_of, validate_cluster_ips};

use crate::prefix::{self, Family};
use crate::spec::is_headless_without_selector;

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";
const POLICY: &str = "spec.ipFamilyPolicy";

/// The IP families that the cluster is configured for.
///
/// The primary one is what Services get that ask for nothing: the family of the first
/// `--service-cluster-ip-range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterFamilies {
    primary: Family,
    dual: bool,
}

impl ClusterFamilies {
    /// One family.
    pub fn single(primary: Family) -> Self {
        Self { primary, dual: false }
    }

    /// Both families.
    pub fn dual(primary: Family) -> Self {
        Self { primary, dual: true }
    }

    /// The family of Services that ask for none.
    pub fn primary(self) -> Family {
        self.primary
    }

    /// Whether the cluster has both.
    pub fn is_dual(self) -> bool {
        self.dual
    }

    /// Whether the cluster has `family`.
    pub fn contains(self, family: Family) -> bool {
        self.dual || family == self.primary
    }
}

/// Fills in `ipFamilyPolicy` and `ipFamilies` of a Service that is about to be created, or to
/// replace `old`. On a downgrade the second cluster IP is dropped from it too.
pub(crate) fn settle(
    new: &mut ServiceSpec,
    old: Option<&ServiceSpec>,
    cluster: ClusterFamilies,
) -> Result<(), FieldErrors> {
    if !needs_cluster_ip(new) || old.is_some_and(|old| is_unchanged_preference(old, new)) {
        return Ok(());
    }
    if new.ip_family_policy.is_none() {
        new.ip_family_policy = Some(default_policy(new, old));
    }
    refuse(contradictions(new))?;
    let mut errors = old.map_or(FieldErrors::new(), |old| release_second(new, old));
    errors.extend(policy_contradictions(new));
    errors.extend(infer_families(new, cluster));
    refuse(errors)?;
    if !is_headless_without_selector(new) {
        refuse(unconfigured(new, cluster))?;
    }
    complete_families(new, cluster);
    Ok(())
}

/// The linked fields contradict each other, wherever the Service would live.
fn contradictions(new: &mut ServiceSpec) -> FieldErrors {
    let service = Service { spec: Some(std::mem::take(new)), ..Service::default() };
    let errors = validate_cluster_ips(&service);
    *new = service.spec.unwrap_or_default();
    errors
}

fn refuse(errors: FieldErrors) -> Result<(), FieldErrors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A Service that prefers two stacks stays as it is when the cluster has become single- or
/// dual-stack since: only a change of the policy, the families or the addresses moves it.
pub(crate) fn is_unchanged_preference(old: &ServiceSpec, new: &ServiceSpec) -> bool {
    let prefers = |policy: Option<&str>| policy.is_none_or(|p| p == PREFER);
    new.ip_family_policy.as_deref() == Some(PREFER)
        && prefers(old.ip_family_policy.as_deref())
        && type_of(old) == type_of(new)
        && needs_cluster_ip(new)
        && cluster_ips(old) == cluster_ips(new)
        && families(old) == families(new)
}

/// The policy of a Service that names none. An update keeps the old one, so that nobody moves
/// between one and two stacks without asking.
fn default_policy(new: &ServiceSpec, old: Option<&ServiceSpec>) -> String {
    let kept = old.and_then(|old| old.ip_family_policy.clone());
    kept.unwrap_or_else(|| if is_headless_without_selector(new) { REQUIRE } else { SINGLE }.to_owned())
}

/// Going back to one stack: clear when the policy says so, an error when only the lists shrink.
fn release_second(new: &mut ServiceSpec, old: &ServiceSpec) -> FieldErrors {
    let shrunk = |now: &[String], before: &[String]| !now.is_empty() && now.len() < before.len();
    if new.ip_family_policy.as_deref() == Some(SINGLE) {
        if cluster_ips(new) == cluster_ips(old) {
            new.cluster_ips.iter_mut().for_each(|ips| ips.truncate(1));
        }
        if families(new) == families(old) {
            new.ip_families.iter_mut().for_each(|list| list.truncate(1));
        }
        return FieldErrors::new();
    }
    let must_be_single = |what: &str| {
        invalid(POLICY, policy(new), format!("must be 'SingleStack' to release the secondary {what}"))
    };
    let mut errors = FieldErrors::new();
    if shrunk(cluster_ips(new), cluster_ips(old)) {
        errors.push(must_be_single("cluster IP"));
    }
    if shrunk(families(new), families(old)) {
        errors.push(must_be_single("IP family"));
    }
    errors
}

/// One stack, but two addresses or two families.
fn policy_contradictions(new: &ServiceSpec) -> FieldErrors {
    if policy(new) != SINGLE {
        return FieldErrors::new();
    }
    let must_be_dual = |what: &str| {
        let detail =
            format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        invalid(POLICY, policy(new), detail)
    };
    let ips = (cluster_ips(new).len() == 2).then(|| must_be_dual("cluster IPs"));
    let both = (families(new).len() == 2).then(|| must_be_dual("IP families"));
    ips.into_iter().chain(both).collect()
}

/// Adds the families of the addresses that were asked for.
fn infer_families(new: &mut ServiceSpec, cluster: ClusterFamilies) -> FieldErrors {
    let ips = cluster_ips(new).to_vec();
    let mut errors = FieldErrors::new();
    for (i, ip) in ips.iter().enumerate().skip(families(new).len()) {
        let Some(family) = parse_lenient(ip).map(Family::of) else { break };
        if cluster.contains(family) {
            new.ip_families.get_or_insert_default().push(family.as_str().to_owned());
        } else {
            let detail = format!("{family} is not configured on this cluster");
            errors.push(invalid(format!("spec.clusterIPs[{i}]"), ips.as_slice(), detail));
        }
    }
    errors
}

/// What is asked for and the cluster does not have.
fn unconfigured(new: &ServiceSpec, cluster: ClusterFamilies) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if policy(new) == REQUIRE && !cluster.is_dual() {
        errors.push(invalid(POLICY, REQUIRE, "this cluster is not configured for dual-stack services"));
    }
    for (i, name) in families(new).iter().enumerate() {
        if Family::parse(name).is_none_or(|family| !cluster.contains(family)) {
            let field = format!("spec.ipFamilies[{i}]");
            errors.push(invalid(field, name.as_str(), "not configured on this cluster"));
        }
    }
    errors
}

/// The cluster's primary family for a Service that names none, and a second one for a Service that
/// wants two. A headless Service without a selector gets both even where the cluster has one: its
/// endpoints are somebody else's.
fn complete_families(new: &mut ServiceSpec, cluster: ClusterFamilies) {
    let wants_two = policy(new) != SINGLE && (cluster.is_dual() || is_headless_without_selector(new));
    let list = new.ip_families.get_or_insert_default();
    if list.is_empty() {
        list.push(cluster.primary().as_str().to_owned());
    }
    if wants_two
        && let [only] = list.as_slice()
        && let Some(family) = Family::parse(only)
    {
        list.push(prefix::other(family).as_str().to_owned());
    }
}

#[cfg(test)]
mod tests;
