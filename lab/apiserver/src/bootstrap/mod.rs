//! What a cluster has before anybody creates anything: system namespaces, the default ServiceCIDR, and the Service
//! `default/kubernetes` with the endpoint behind it.
//!
//! Runs at every start, every few seconds and when one of these objects is touched, and changes only what is missing or no
//! longer true, so that a restart on a settled store writes nothing. It never takes away what users made.

mod endpoint;
mod ports;
mod range;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};
use service_allocators::NodePortRange;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::follow::follow;
use crate::managed_fields::{UpdateContext, track_update};
use crate::registry::error::ApiError;
use crate::registry::strategy::{Context, Strategy, Subresource};
use crate::registry::verbs::Api;
use crate::registry::{LabIndex, Registry, Tx, kinds};
use crate::store::{Event, EventType, ResourceId, Store, StoreError, WriteError};

/// Namespaces that are always there.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const DEFAULT_CIDR: &str = "kubernetes";
/// How often the cluster's own objects are looked at, as upstream.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long after one of them was touched: edits come in groups, and whoever insists on another value is not fought without
/// a pause.
const PAUSE: Duration = Duration::from_millis(500);
/// The field manager of these objects.
const MANAGER: &str = "kube-apiserver";
const NETWORKING: &str = "networking.k8s.io";

/// What the flags of the server say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// One range, or two of different families.
    pub service_cidrs: Vec<IpNet>,
    /// Where they come from.
    pub origin: RangeOrigin,
    /// `--service-node-port-range`.
    pub node_ports: NodePortRange,
    /// What `default/kubernetes` leads to: an address that is not on loopback, of the family of the first range.
    pub advertise: SocketAddr,
}

/// Where the ranges of a server come from; whoever reads that others are stored wants to know what to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeOrigin {
    /// `--service-cluster-ip-range`.
    #[default]
    Flag,
    /// Nobody gave that flag.
    Default,
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
    /// The stored default ServiceCIDR has other ranges than this server was started with.
    #[error("{0}; add a ServiceCIDR for the new range and delete `kubernetes` to move")]
    RangeDiffers(String),
    /// The flag names other node ports than the stored default NodePortRange.
    #[error(
        "the default NodePortRange {stored} does not match --service-node-port-range {flag}: the stored one stays in use; \
         add a NodePortRange for the new ports and delete `kubernetes` to move"
    )]
    PortsDiffer {
        /// Ports of the stored object.
        stored: String,
        /// Ports of the flag.
        flag: String,
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

/// Whose settings the cluster's own objects follow while servers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// Those of the server that opened the store: what is edited is put right.
    First,
    /// Those of another one: only what is missing is made.
    Another,
}

/// Keeps the cluster's own objects as they should be until `closing`: looks at them every few seconds, and a moment after
/// one of them was touched.
pub async fn keep(api: Arc<Api>, settings: Settings, keeper: Keeper, closing: CancellationToken) {
    let kinds = [
        (NETWORKING, "servicecidrs"),
        ("", "namespaces"),
        ("", "services"),
        ("", "endpoints"),
        ("discovery.k8s.io", "endpointslices"),
    ];
    let mut events =
        follow(&api, kinds.iter().filter_map(|(group, resource)| api.registry.id(group, resource)));
    let occasion = match keeper {
        Keeper::First => Occasion::Kept,
        Keeper::Another => Occasion::Beside,
    };
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
            Some(batch) = events.next() => {
                if !batch.iter().any(|event| concerns(event)) {
                    continue;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        let done = bring_up(&api.store, &api.registry, &settings, occasion, Timestamp::now());
        if let Err(error) = done {
            tracing::error!(%error, "the cluster's own objects could not be kept");
        }
    }
}

/// Is the event about one of the cluster's own objects?
fn concerns(event: &Event) -> bool {
    match &*event.object.namespace {
        "" => event.ty == EventType::Deleted,
        "default" => &*event.object.name == "kubernetes",
        _ => false,
    }
}

/// When the cluster's own objects are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// The flags of this start are told and obeyed.
    Start,
    /// What is missing is made, and the endpoint is put right; the Service stays as users edited it, as upstream.
    Kept,
    /// Only what is missing is made.
    Beside,
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
        notices.extend(range::publish(tx, &ctx, settings)?);
        notices.extend(ports::publish(tx, &ctx, settings)?);
        Ok(())
    })?;
    if occasion == Occasion::Start {
        commit(store, "the NodePorts of stored Services", |tx| ports::adopt(tx, &ctx))?;
    }
    let created =
        commit(store, "Service default/kubernetes", |tx| default_service(tx, &ctx, settings, occasion));
    match created {
        Ok(()) => {}
        Err(BootstrapError::Refused { reason, .. }) => {
            notices.push(Notice::NoDefaultService(reason.to_string()));
        }
        Err(error) => return Err(error),
    }
    commit(store, "the endpoint of default/kubernetes", |tx| {
        endpoint::publish(tx, &ctx, settings.advertise, occasion)
    })?;
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
    track(ctx, id, None, &mut object, None);
    rules.prepare_create(&mut object);
    tx.put(id, object).map_err(ApiError::from)?;
    Ok(())
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
    let rules = kinds::service::Service;
    if let Some(stored) = tx.get(id, "default", "kubernetes").cloned() {
        let old: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
        let is_right = old.pointer("/spec/ports") == Some(&ports)
            && old.pointer("/spec/type") == Some(&json!("ClusterIP"));
        if occasion != Occasion::Start || is_right {
            return Ok(());
        }
        let mut object = old.clone();
        object["spec"]["type"] = json!("ClusterIP");
        object["spec"]["ports"] = ports;
        rules.default(&mut object);
        track(ctx, id, Some(&old), &mut object, None);
        rules.allocate_update(&mut object, &old, Subresource::None, tx, ctx)?;
        tx.put(id, object).map_err(ApiError::from)?;
        return Ok(());
    }
    let mut metadata = born("kubernetes", "default", ctx.now);
    metadata["labels"] = json!({"component": "apiserver", "provider": "kubernetes"});
    let address = first_address(*range).to_string();
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {
            "type": "ClusterIP", "clusterIP": address, "sessionAffinity": "None", "ports": ports,
            "ipFamilyPolicy": "SingleStack",
        },
    });
    rules.default(&mut object);
    track(ctx, id, None, &mut object, None);
    rules.allocate_create(&mut object, Subresource::None, tx, ctx)?;
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

/// Notes which fields this server sets.
fn track(ctx: &Context<'_>, id: ResourceId, old: Option<&Value>, new: &mut Value, subresource: Option<&str>) {
    let context = UpdateContext { manager: MANAGER, subresource, now: ctx.now };
    track_update(ctx.registry.schema(id), old, new, &context);
}

/// Stores an object of this server's.
fn put(
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
    id: ResourceId,
    old: Option<&Value>,
    mut object: Value,
) -> Result<(), ApiError> {
    track(ctx, id, old, &mut object, None);
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
