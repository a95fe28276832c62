//! Service: its rules are `service_api`'s, its addresses and ports the allocators'; here they meet in one transaction.
//!
//! A plan is made on the ledger while the transaction holds the writer's lock, and the IPAddress and NodePort objects it needs are
//! staged beside the Service: both become true together or not at all. The ledger follows on commit.

use std::collections::BTreeMap;
use std::time::Instant;

use k8s_openapi::api::core::v1::Service as ServiceObject;
use serde_json::Value;
use service_allocators::pools::{Share, Steered};
use service_allocators::{Plan, PlanError, PlanOptions, PortSharing, ServiceKey};
use service_api::address::Family;
use service_api::errors::{ErrorKind, FieldError, FieldErrors};
use service_api::{crds, service, status};

use super::fields::text;
use super::{deferred, ipaddress, nodeport, service_size, typed};
use crate::registry::Tx;
use crate::registry::attempts::{Asked, Lacked, Watched};
use crate::registry::error::ApiError;
use crate::registry::ledger_index::{Allocation, ServiceIndex, now};
use crate::registry::strategy::{Context, Findings, Strategy, Subresource};

/// The rules of Service.
#[derive(Clone, Copy, Debug, Default)]
pub struct Service;

impl Strategy for Service {
    fn default(&self, obj: &mut Value) {
        typed::edit(obj, service::default);
    }

    fn allocates(&self) -> bool {
        true
    }

    fn faults_at_sight(&self, obj: &Value) -> FieldErrors {
        service_size::faults(obj)
    }

    fn allocate_create(
        &self,
        obj: &mut Value,
        sub: Subresource,
        tx: &mut Tx<'_>,
        ctx: &Context<'_>,
    ) -> Result<Findings, ApiError> {
        let exists = exists(obj, tx, ctx);
        let deferred = tx.index().services.allocation == Allocation::Reconcile;
        let allocate = |new: &mut ServiceObject| {
            if sub == Subresource::None { allocate(new, exists, tx, ctx) } else { Ok(()) }
        };
        let mut findings = typed::allocate_create(obj, allocate, |new| {
            Findings::new(still(deferred, service::validate_create(new)), || service::warnings(new, None))
        })?;
        if findings.faults.is_empty()
            && !matches!(text(obj, "/spec/clusterIP"), "" | "None")
            && let Some(difference) = tx.index().services.difference()
        {
            findings.warnings.push(difference.to_owned());
        }
        Ok(findings)
    }

    fn allocate_update(
        &self,
        new: &mut Value,
        old: &Value,
        sub: Subresource,
        tx: &mut Tx<'_>,
        ctx: &Context<'_>,
    ) -> Result<Findings, ApiError> {
        if sub == Subresource::Status {
            let prepare = |new: &mut ServiceObject, old: &ServiceObject| {
                service::prepare_status_update(new, old);
                Ok(())
            };
            return typed::allocate_update(new, old, prepare, |new, old| {
                Findings::new(service::validate_status_update(new, old), || service::status_warnings(new))
            });
        }
        let deferred = tx.index().services.allocation == Allocation::Reconcile;
        typed::allocate_update(
            new,
            old,
            |new, old| reallocate(new, old, tx, ctx),
            |new, old| {
                let faults = if deferred {
                    still(true, service::validate_update(new, &deferred::given_since(old, new)))
                } else {
                    service::validate_update(new, old)
                };
                Findings::new(faults, || service::warnings(new, Some(old)))
            },
        )
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("services/specs")
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn after_delete(&self, old: &Value, tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
        if tx.index().services.allocation == Allocation::Transaction {
            let before: ServiceObject = read(old)?;
            let plan = tx.index().services.live.ledger.plan_delete(&before);
            stage(&plan, tx, ctx)?;
            stage_ports(Some(&before), None, tx, ctx)?;
        }
        delete_endpoints(old, tx, ctx)
    }

    fn returns_deleted(&self) -> bool {
        true
    }
}

/// Gives a new Service its addresses and ports.
fn allocate(
    new: &mut ServiceObject,
    exists: bool,
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
) -> Result<(), ApiError> {
    service::prepare_create(new);
    if tx.index().services.allocation == Allocation::Reconcile && !exists {
        deferred::settle(None, new, tx, ctx)
            .map_err(|error| refusal(name(new), error, || service::validate_create(new)))?;
        drop_internal_policy(new);
        return Ok(());
    }
    // A duplicate costs nothing: it is planned for the sake of its faults only. A dry run is planned as the request
    // itself: its transaction is thrown away.
    let options = PlanOptions { dry_run: exists };
    let labels = namespace_labels(new, tx, ctx);
    let (services, mut rng) = (&tx.index().services, rand::rng());
    let (asked, begun) = (Asked::of(new, None), Instant::now());
    let mut source = Watched::new(steered(services, new, &labels, &mut rng));
    let planned = services.live.ledger.plan_create_from(new, &mut source, options);
    if !exists {
        count(services, &asked, &planned, source.lacked(), begun, ctx);
    }
    let plan = planned.map_err(|error| {
        if exists {
            status::already_exists("", "services", name(new)).into()
        } else {
            refusal(name(new), error, || service::validate_create(new))
        }
    })?;
    stage(&plan, tx, ctx)?;
    if !exists {
        stage_ports(None, Some(new), tx, ctx)?;
    }
    drop_internal_policy(new);
    Ok(())
}

/// Gives a Service the addresses and ports that an update asks for, and frees what it no longer needs.
fn reallocate(
    new: &mut ServiceObject,
    old: &ServiceObject,
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
) -> Result<(), ApiError> {
    service::prepare_update(new, old);
    if tx.index().services.allocation == Allocation::Reconcile {
        deferred::settle(Some(old), new, tx, ctx)
            .map_err(|error| refusal(name(old), error, || service::validate_update(new, old)))?;
        drop_internal_policy(new);
        return Ok(());
    }
    let labels = namespace_labels(new, tx, ctx);
    let (services, mut rng) = (&tx.index().services, rand::rng());
    let (asked, begun) = (Asked::of(new, Some(old)), Instant::now());
    let mut source = Watched::new(steered(services, new, &labels, &mut rng));
    let planned = services.live.ledger.plan_update_from(old, new, &mut source, PlanOptions::default());
    count(services, &asked, &planned, source.lacked(), begun, ctx);
    let plan = planned.map_err(|error| refusal(name(old), error, || service::validate_update(new, old)))?;
    stage(&plan, tx, ctx)?;
    stage_ports(Some(old), Some(new), tx, ctx)?;
    drop_internal_policy(new);
    Ok(())
}

/// Counts what a plan gives or is refused, as upstream when it allocates, whatever becomes of the request; a dry run allocates
/// nothing.
fn count(
    services: &ServiceIndex,
    asked: &Asked,
    planned: &Result<Plan, PlanError>,
    lacked: Option<Lacked>,
    begun: Instant,
    ctx: &Context<'_>,
) {
    let ledger = &services.live.ledger;
    match planned {
        _ if ctx.dry_run => {}
        Ok(plan) => services.attempts.given(ledger, asked, plan, begun.elapsed()),
        Err(_) => services.attempts.refused(ledger, asked, lacked),
    }
}

fn name(service: &ServiceObject) -> &str {
    service.metadata.name.as_deref().unwrap_or_default()
}

fn read(obj: &Value) -> Result<ServiceObject, ApiError> {
    typed::read(obj)
        .map_err(|faults| status::invalid("", "Service", text(obj, "/metadata/name"), faults).into())
}

fn exists(obj: &Value, tx: &Tx<'_>, ctx: &Context<'_>) -> bool {
    let id = ctx.registry.id("", "services");
    id.is_some_and(|id| tx.get(id, text(obj, "/metadata/namespace"), text(obj, "/metadata/name")).is_some())
}

/// A Service of type ExternalName is never shown with an `internalTrafficPolicy`; a malformed one is left for
/// validation to refuse.
fn drop_internal_policy(service: &mut ServiceObject) {
    let Some(spec) = &mut service.spec else { return };
    let valid = matches!(spec.internal_traffic_policy.as_deref(), Some("Cluster" | "Local"));
    if valid && spec.type_.as_deref() == Some("ExternalName") {
        spec.internal_traffic_policy = None;
    }
}

/// The labels of a Service's namespace, where there are pools that may look at them.
fn namespace_labels(service: &ServiceObject, tx: &Tx<'_>, ctx: &Context<'_>) -> BTreeMap<String, String> {
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let id = ctx.registry.id("", "namespaces").filter(|_| !tx.index().services.live.pools.is_empty());
    let stored = id.and_then(|id| tx.get(id, "", namespace));
    let labels = stored.into_iter().flat_map(|stored| stored.labels.iter());
    labels.map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// Where the values of a Service come from: its pool, if it has one, and the ranges otherwise.
fn steered<'a, R>(
    services: &'a ServiceIndex,
    service: &ServiceObject,
    namespace: &BTreeMap<String, String>,
    rng: &'a mut R,
) -> Steered<'a, R> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Steered {
        pools: &services.live.pools,
        pool: services.live.pools.find(service, namespace),
        service: ServiceKey::new(text(&service.metadata.namespace), text(&service.metadata.name)),
        share: Share::WHOLE,
        now: now(),
        rng,
    }
}

/// Stages the NodePorts of a Service that was `old` and becomes `new`: what it has no more goes, what is new or held for
/// something else is written. What is somebody else's stays.
fn stage_ports(
    old: Option<&ServiceObject>,
    new: Option<&ServiceObject>,
    tx: &mut Tx<'_>,
    ctx: &Context<'_>,
) -> Result<(), ApiError> {
    let Some(id) = ctx.registry.id(crds::GROUP, nodeport::RESOURCE) else { return Ok(()) };
    if tx.index().services.allocation == Allocation::Reconcile {
        return Ok(());
    }
    let per_protocol = tx.index().services.live.ledger.ports.sharing() == PortSharing::PerProtocol;
    let of = |service: Option<&ServiceObject>| {
        service.map(|service| crds::nodeport::of_service(service, per_protocol)).unwrap_or_default()
    };
    let (before, after) = (of(old), of(new));
    for (name, spec) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        let Some(held) = tx.get(id, "", name) else { continue };
        let object: Value = serde_json::from_slice(&held.body).unwrap_or_default();
        if nodeport::belongs_to(&object, &spec.parent_ref) {
            tx.delete(id, "", name, object).map_err(ApiError::from)?;
        }
    }
    for (name, spec) in &after {
        let held = tx.get(id, "", name).map(|held| serde_json::from_slice(&held.body).unwrap_or_default());
        let object = match held {
            Some(held)
                if before.get(name) == Some(spec) || !nodeport::belongs_to(&held, &spec.parent_ref) =>
            {
                continue;
            }
            Some(held) if nodeport::says(&held, spec) => continue,
            held => nodeport::object(name, spec, held, ctx.now),
        };
        tx.put(id, object).map_err(ApiError::from)?;
    }
    Ok(())
}

/// Makes the NodePorts that a stored Service does not have yet: a server that had no such kind left none.
pub(crate) fn adopt_ports(service: &Value, tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
    stage_ports(None, Some(&read(service)?), tx, ctx)
}

/// Stages what a plan does to IPAddress objects.
fn stage(plan: &Plan, tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
    let Some(id) = ctx.registry.id(ipaddress::GROUP, ipaddress::RESOURCE) else { return Ok(()) };
    let (namespace, name) = (plan.service.namespace(), plan.service.name());
    for address in &plan.release_addresses {
        let key = address.to_string();
        let Some(held) = tx.get(id, "", &key) else { continue };
        let object: Value = serde_json::from_slice(&held.body).unwrap_or_default();
        if ipaddress::belongs_to(&object, namespace, name) {
            tx.delete(id, "", &key, object).map_err(ApiError::from)?;
            ipaddress::hand_on(*address, Some(&plan.service), tx, ctx)?;
        }
    }
    for address in &plan.take_addresses {
        tx.put(id, ipaddress::object(*address, Family::of(*address), namespace, name, ctx.now))
            .map_err(ApiError::from)?;
    }
    Ok(())
}

/// Endpoints of the Service's name go with it, whoever made them; slices are left to their owner references.
fn delete_endpoints(old: &Value, tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
    let (namespace, name) = (text(old, "/metadata/namespace"), text(old, "/metadata/name"));
    let Some(id) = ctx.registry.id("", "endpoints") else { return Ok(()) };
    let Some(endpoints) = tx.get(id, namespace, name) else { return Ok(()) };
    let last = serde_json::from_slice(&endpoints.body).unwrap_or_default();
    tx.delete(id, namespace, name, last).map_err(ApiError::from)?;
    Ok(())
}

/// What the server fills in: that it is missing is no fault of the user's.
const FILLED_IN: [&str; 3] = ["spec.clusterIP", "spec.clusterIPs", "spec.healthCheckNodePort"];

/// The faults of a Service; where its values are `deferred`, that they are missing is none.
fn still(deferred: bool, faults: FieldErrors) -> FieldErrors {
    let missing = |fault: &FieldError| {
        fault.kind == ErrorKind::Required
            && (FILLED_IN.contains(&fault.field.as_str()) || fault.field.starts_with("spec.clusterIPs["))
    };
    if !deferred || !faults.listed().iter().any(missing) {
        return faults;
    }
    faults.listed().iter().filter(|fault| !missing(fault)).cloned().collect::<Vec<_>>().into()
}

/// What is wrong with the Service itself (`own`) is told before what the server lacks: the user can mend that.
fn refusal(name: &str, error: PlanError, own: impl FnOnce() -> FieldErrors) -> ApiError {
    match error {
        PlanError::Invalid(faults) => status::invalid("", "Service", name, faults).into(),
        PlanError::Internal(text) => {
            let faults = own();
            let filled_in = |fault: &FieldError| {
                fault.kind == ErrorKind::Required && FILLED_IN.contains(&fault.field.as_str())
            };
            if faults.listed().iter().all(filled_in) {
                return ApiError::internal(&text);
            }
            let faults: Vec<_> = faults.listed().iter().filter(|fault| !filled_in(fault)).cloned().collect();
            status::invalid("", "Service", name, faults).into()
        }
    }
}
