//! What a cluster has before anybody creates anything: system namespaces, the default ServiceCIDR, and the Service
//! `default/kubernetes` with the endpoint behind it.
//!
//! Runs at every start and changes only what is missing or no longer true, so that a restart on a settled store writes
//! nothing. It never takes away what users made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::registry::error::ApiError;
use crate::registry::strategy::{Context, Strategy};
use crate::registry::verbs::Api;
use crate::registry::{LabIndex, Registry, Tx, kinds};
use crate::store::{EventType, Store, StoreError, WriteError};

/// Namespaces that are always there.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const DEFAULT_CIDR: &str = "kubernetes";
/// How often the cluster's own objects are looked at, as upstream.
const INTERVAL: Duration = Duration::from_secs(10);
const NETWORKING: &str = "networking.k8s.io";

/// What the flags of the server say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--service-cluster-ip-range`: one range, or two of different families.
    pub service_cidrs: Vec<IpNet>,
    /// Where the server can be reached: what `default/kubernetes` leads to.
    pub advertise: SocketAddr,
}

/// The server can not start on this store.
#[derive(Debug, Error)]
pub enum BootstrapError {
    /// An object of the cluster's own could not be created.
    #[error("create {what}: {reason}")]
    Refused {
        /// Which object.
        what: &'static str,
        /// Why not.
        reason: ApiError,
    },
    /// The disk did not take it.
    #[error("write the cluster's own objects: {0}")]
    Storage(#[from] StoreError),
}

/// Something the operator should know; the server runs nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Notice {
    /// The flag names other ranges than the stored default ServiceCIDR.
    #[error(
        "the default ServiceCIDR {stored:?} does not match --service-cluster-ip-range {flag:?}: the stored one stays in \
         use; add a ServiceCIDR for the new range and delete `kubernetes` to move"
    )]
    RangeDiffers {
        /// Ranges of the stored object.
        stored: Vec<String>,
        /// Ranges of the flag.
        flag: Vec<String>,
    },
    /// The default Service could not get its address.
    #[error("Service default/kubernetes is missing and can not be created: {0}")]
    NoDefaultService(String),
}

/// Makes the cluster's own objects what they should be.
///
/// # Errors
/// When the store does not take a write. What merely contradicts the flags comes back as notices.
pub fn run(
    store: &Store<LabIndex>,
    registry: &Registry,
    settings: &Settings,
    now: Timestamp,
) -> Result<Vec<Notice>, BootstrapError> {
    bring_up(store, registry, settings, Occasion::Start, now)
}

/// Brings back what users deleted of the cluster's own objects: every few seconds, and at once when the default
/// ServiceCIDR goes, until `closing`.
pub async fn keep(api: Arc<Api>, settings: Settings, closing: CancellationToken) {
    let Some(ranges) = api.registry.id(NETWORKING, "servicecidrs") else { return };
    let mut watch = api.store.read_and_watch(ranges, |_| ()).1;
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
            batch = watch.next_batch() => match batch {
                Ok(events) if events.iter().all(|event| event.ty != EventType::Deleted) => continue,
                Ok(_) => {}
                Err(_) => watch = api.store.read_and_watch(ranges, |_| ()).1,
            },
        }
        let done = bring_up(&api.store, &api.registry, &settings, Occasion::Later, Timestamp::now());
        if let Err(error) = done {
            tracing::error!(%error, "the cluster's own objects could not be kept");
        }
    }
}

/// When the cluster's own objects are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// The flags of this start are told and obeyed.
    Start,
    /// Only what is missing is made.
    Later,
}

fn bring_up(
    store: &Store<LabIndex>,
    registry: &Registry,
    settings: &Settings,
    occasion: Occasion,
    now: Timestamp,
) -> Result<Vec<Notice>, BootstrapError> {
    let ctx = Context { registry, now, dry_run: false };
    let mut notices = Vec::new();
    // The ledger knows a range only after the transaction that stored it.
    commit(store, "system namespaces and the default ServiceCIDR", |tx| {
        for name in NAMESPACES {
            namespace(tx, &ctx, name)?;
        }
        notices.extend(default_range(tx, &ctx, settings)?);
        Ok(())
    })?;
    let created =
        commit(store, "Service default/kubernetes", |tx| default_service(tx, &ctx, settings, occasion));
    match created {
        Ok(()) => {}
        Err(BootstrapError::Refused { reason, .. }) => {
            notices.push(Notice::NoDefaultService(reason.to_string()));
        }
        Err(error) => return Err(error),
    }
    commit(store, "the endpoint of default/kubernetes", |tx| endpoint(tx, &ctx, settings, occasion))?;
    Ok(notices)
}

fn commit<T>(
    store: &Store<LabIndex>,
    what: &'static str,
    work: impl FnOnce(&mut Tx<'_>) -> Result<T, ApiError>,
) -> Result<T, BootstrapError> {
    store.write(work).map_err(|error| match error {
        WriteError::Aborted(reason) => BootstrapError::Refused { what, reason },
        WriteError::Storage(error) => BootstrapError::Storage(error),
    })
}

fn namespace(tx: &mut Tx<'_>, ctx: &Context<'_>, name: &str) -> Result<(), ApiError> {
    let Some(id) = ctx.registry.id("", "namespaces") else { return Ok(()) };
    if tx.get(id, "", name).is_some() {
        return Ok(());
    }
    let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": born(name, "", ctx.now)});
    let rules = kinds::namespace::Namespace;
    rules.default(&mut object);
    rules.prepare_create(&mut object);
    tx.put(id, object).map_err(ApiError::from)?;
    Ok(())
}

fn default_range(
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
    settings: &Settings,
) -> Result<Option<Notice>, ApiError> {
    let Some(id) = ctx.registry.id(NETWORKING, "servicecidrs") else { return Ok(None) };
    let flag: Vec<String> = settings.service_cidrs.iter().map(ToString::to_string).collect();
    let Some(stored) = tx.get(id, "", DEFAULT_CIDR) else {
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": born(DEFAULT_CIDR, "", ctx.now),
            "spec": {"cidrs": flag},
            "status": {"conditions": [ready(ctx.now)]},
        });
        tx.put(id, object).map_err(ApiError::from)?;
        return Ok(None);
    };
    let mut object: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
    let ranges: Vec<String> = object
        .pointer("/spec/cidrs")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|cidr| cidr.as_str().map(str::to_owned))
        .collect();
    // A cluster may become dual-stack by its flag; nothing else of the stored ranges ever changes.
    let grows = flag.len() == 2 && ranges.len() == 1 && flag[0] == ranges[0];
    let unready = object.pointer("/status/conditions").is_none();
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    if grows {
        object["spec"]["cidrs"] = json!(flag);
    }
    if unready && !deleting && (grows || ranges == flag) {
        object["status"]["conditions"] = json!([ready(ctx.now)]);
    }
    if grows || (unready && !deleting && ranges == flag) {
        tx.put(id, object).map_err(ApiError::from)?;
    }
    if grows || ranges == flag {
        return Ok(None);
    }
    tell_difference(tx, ctx, &ranges, &flag)?;
    Ok(Some(Notice::RangeDiffers { stored: ranges, flag }))
}

/// One Event on the default ServiceCIDR for each difference, with upstream's reason.
fn tell_difference(
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
    ranges: &[String],
    flag: &[String],
) -> Result<(), ApiError> {
    const REASON: &str = "KubernetesDefaultServiceCIDRInconsistent";
    let ids = (ctx.registry.id("", "events"), ctx.registry.id(NETWORKING, "servicecidrs"));
    let (Some(events), Some(id)) = ids else { return Ok(()) };
    let message = format!(
        "The default ServiceCIDR {ranges:?} does not match the flag --service-cluster-ip-range {flag:?}: the stored one \
         stays in use"
    );
    let name = format!("{DEFAULT_CIDR}.{}", REASON.to_lowercase());
    let now = time(ctx.now);
    if let Some(mut known) = tx.get(events, "default", &name).and_then(|stored| stored.parse().ok()) {
        if known["message"] != message {
            known["count"] = json!(known["count"].as_i64().unwrap_or_default() + 1);
            (known["message"], known["lastTimestamp"]) = (json!(message), json!(now));
            tx.put(events, known).map_err(ApiError::from)?;
        }
        return Ok(());
    }
    let object: Value =
        tx.get(id, "", DEFAULT_CIDR).and_then(|stored| stored.parse().ok()).unwrap_or_default();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": born(&name, "default", ctx.now),
        "involvedObject": {
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "namespace": "default", "name": DEFAULT_CIDR,
            "uid": object["metadata"]["uid"],
        },
        "type": "Warning", "reason": REASON, "message": message, "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "eventTime": null,
        "source": {"component": "kubernetes-service-cidr-controller"},
        "reportingComponent": "kubernetes-service-cidr-controller", "reportingInstance": "",
    });
    tx.put(events, event).map_err(ApiError::from)?;
    Ok(())
}

fn ready(now: Timestamp) -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": time(now),
    })
}

fn default_service(
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
    settings: &Settings,
    occasion: Occasion,
) -> Result<(), ApiError> {
    let Some(id) = ctx.registry.id("", "services") else { return Ok(()) };
    let Some(range) = settings.service_cidrs.first() else { return Ok(()) };
    let ports = json!([{
        "name": "https", "protocol": "TCP", "port": 443, "targetPort": settings.advertise.port(),
    }]);
    if let Some(stored) = tx.get(id, "default", "kubernetes") {
        let mut object: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
        if occasion == Occasion::Start && object.pointer("/spec/ports") != Some(&ports) {
            object["spec"]["ports"] = ports;
            tx.put(id, object).map_err(ApiError::from)?;
        }
        return Ok(());
    }
    let mut metadata = born("kubernetes", "default", ctx.now);
    metadata["labels"] = json!({"component": "apiserver", "provider": "kubernetes"});
    let address = first_address(*range).to_string();
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {
            "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "sessionAffinity": "None", "ports": ports,
            "ipFamilyPolicy": "SingleStack",
        },
    });
    let rules = kinds::service::Service;
    rules.default(&mut object);
    rules.begin_create(&mut object, tx, ctx)?;
    rules.prepare_create(&mut object);
    tx.put(id, object).map_err(ApiError::from)?;
    Ok(())
}

/// The first address after the network's own.
fn first_address(range: IpNet) -> IpAddr {
    match range.network() {
        IpAddr::V4(network) => Ipv4Addr::from_bits(network.to_bits().wrapping_add(1)).into(),
        IpAddr::V6(network) => Ipv6Addr::from_bits(network.to_bits().wrapping_add(1)).into(),
    }
}

fn endpoint(
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
    settings: &Settings,
    occasion: Occasion,
) -> Result<(), ApiError> {
    let (ip, port) = (settings.advertise.ip(), settings.advertise.port());
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let mut metadata = born("kubernetes", "default", ctx.now);
    metadata["labels"] = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": metadata,
        "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
    });
    // Later on another server of the same store may have put its own address there.
    let (subsets, slice_fields): (&[&str], &[&str]) = match occasion {
        Occasion::Start => (&["subsets"], &["addressType", "endpoints", "ports"]),
        Occasion::Later => (&[], &[]),
    };
    put_if_changed(tx, ctx, ("", "endpoints"), endpoints, subsets)?;
    let mut metadata = born("kubernetes", "default", ctx.now);
    metadata["labels"] = json!({"kubernetes.io/service-name": "kubernetes"});
    metadata["generation"] = json!(1);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": ports,
    });
    put_if_changed(tx, ctx, ("discovery.k8s.io", "endpointslices"), slice, slice_fields)
}

fn put_if_changed(
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
    (group, resource): (&str, &str),
    wanted: Value,
    fields: &[&str],
) -> Result<(), ApiError> {
    let Some(id) = ctx.registry.id(group, resource) else { return Ok(()) };
    let Some(stored) = tx.get(id, "default", "kubernetes") else {
        tx.put(id, wanted).map_err(ApiError::from)?;
        return Ok(());
    };
    let mut object: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
    if fields.iter().all(|field| object.get(*field) == wanted.get(*field)) {
        return Ok(());
    }
    for field in fields {
        object[*field] = wanted[*field].clone();
    }
    if let Some(generation) = object.pointer("/metadata/generation").and_then(Value::as_i64) {
        object["metadata"]["generation"] = json!(generation + 1);
    }
    tx.put(id, object).map_err(ApiError::from)?;
    Ok(())
}

fn born(name: &str, namespace: &str, now: Timestamp) -> Value {
    let mut metadata =
        json!({"name": name, "uid": uuid::Uuid::new_v4().to_string(), "creationTimestamp": time(now)});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}

fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::registry::testing::{self, Lab};

    fn settings(ranges: &[&str], port: u16) -> Settings {
        Settings {
            service_cidrs: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            advertise: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
        }
    }

    fn lab(ranges: &[&str]) -> (Lab, Vec<Notice>) {
        let lab = testing::empty(ranges);
        let notices = run(&lab.store, &lab.registry, &settings(ranges, 6443), Timestamp::UNIX_EPOCH).unwrap();
        (lab, notices)
    }

    #[rstest]
    #[case(&["10.96.0.0/12"], "10.96.0.1")]
    #[case(&["fd00:10:96::/112", "10.96.0.0/12"], "fd00:10:96::1")]
    #[case(&["10.97.0.0/30"], "10.97.0.1")]
    fn the_default_service_has_the_first_address(#[case] ranges: &[&str], #[case] address: &str) {
        let (lab, notices) = lab(ranges);
        assert_eq!(notices, []);
        let service = lab.get("", "services", "default", "kubernetes").unwrap();
        assert_eq!(service["spec"]["clusterIPs"], json!([address]));
        assert_eq!(service["spec"]["ports"][0]["targetPort"], json!(6443));
        let held = lab.get(NETWORKING, "ipaddresses", "", address).unwrap();
        assert_eq!(held["spec"]["parentRef"]["name"], json!("kubernetes"));
        let range = lab.get(NETWORKING, "servicecidrs", "", "kubernetes").unwrap();
        assert_eq!(range["spec"]["cidrs"], json!(ranges));
        assert_eq!(range["metadata"].get("finalizers"), None);
    }

    #[test]
    fn a_restart_writes_nothing() {
        let (lab, _) = lab(&["10.96.0.0/12"]);
        let before = lab.revision();
        run(&lab.store, &lab.registry, &settings(&["10.96.0.0/12"], 6443), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(lab.revision(), before);
    }

    #[test]
    fn a_restart_on_another_port_moves_the_endpoint() {
        let (lab, _) = lab(&["10.96.0.0/12"]);
        run(&lab.store, &lab.registry, &settings(&["10.96.0.0/12"], 7500), Timestamp::UNIX_EPOCH).unwrap();
        let slice = lab.get("discovery.k8s.io", "endpointslices", "default", "kubernetes").unwrap();
        assert_eq!(slice["ports"][0]["port"], json!(7500));
        assert_eq!(slice["metadata"]["generation"], json!(2));
        assert_eq!(
            lab.get("", "endpoints", "default", "kubernetes").unwrap()["subsets"][0]["ports"][0]["port"],
            json!(7500)
        );
    }

    #[test]
    fn another_range_is_told_and_not_taken() {
        let (lab, _) = lab(&["10.96.0.0/12"]);
        let notices =
            run(&lab.store, &lab.registry, &settings(&["10.200.0.0/16"], 6443), Timestamp::UNIX_EPOCH)
                .unwrap();
        assert!(matches!(&notices[..], [Notice::RangeDiffers { stored, .. }] if stored == &["10.96.0.0/12"]));
        assert_eq!(lab.names("", "events"), ["kubernetes.kubernetesdefaultservicecidrinconsistent"]);
        let before = lab.revision();
        let later = settings(&["10.200.0.0/16"], 6443);
        bring_up(&lab.store, &lab.registry, &later, Occasion::Later, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(lab.revision(), before, "told once");
        assert_eq!(
            lab.get(NETWORKING, "servicecidrs", "", "kubernetes").unwrap()["spec"]["cidrs"],
            json!(["10.96.0.0/12"])
        );
    }

    #[test]
    fn what_is_deleted_comes_back() {
        let (lab, _) = lab(&["10.96.0.0/12"]);
        lab.delete(("", "services", "default", "kubernetes"));
        lab.delete((NETWORKING, "servicecidrs", "", "kubernetes"));
        assert_eq!(lab.get("", "endpoints", "default", "kubernetes"), None);
        let settings = settings(&["10.96.0.0/12"], 6443);
        let done = bring_up(&lab.store, &lab.registry, &settings, Occasion::Later, Timestamp::UNIX_EPOCH);
        assert_eq!(done.unwrap(), []);
        assert!(lab.get(NETWORKING, "servicecidrs", "", "kubernetes").is_some());
        assert_eq!(
            lab.get("", "services", "default", "kubernetes").unwrap()["spec"]["clusterIP"],
            json!("10.96.0.1")
        );
        assert!(lab.get("", "endpoints", "default", "kubernetes").is_some());
    }

    #[test]
    fn a_second_family_is_added() {
        let (lab, _) = lab(&["10.96.0.0/12"]);
        let both = ["10.96.0.0/12", "fd00:10:96::/112"];
        assert_eq!(
            run(&lab.store, &lab.registry, &settings(&both, 6443), Timestamp::UNIX_EPOCH).unwrap(),
            []
        );
        assert_eq!(
            lab.get(NETWORKING, "servicecidrs", "", "kubernetes").unwrap()["spec"]["cidrs"],
            json!(both)
        );
    }
}
