//! Service: its rules are `service_api`'s, its addresses and ports the allocators'; here they meet in one transaction.
//!
//! A plan is made on the ledger while the transaction holds the writer's lock, and the IPAddress objects it needs are
//! staged beside the Service: both become true together or not at all. The ledger follows on commit.

use k8s_openapi::api::core::v1::Service as ServiceObject;
use serde_json::Value;
use service_allocators::{Plan, PlanError, PlanOptions};
use service_api::address::Family;
use service_api::errors::FieldErrors;
use service_api::{service, status};

use super::fields::text;
use super::{ipaddress, typed};
use crate::registry::Tx;
use crate::registry::error::ApiError;
use crate::registry::strategy::{Context, Strategy, Subresource};

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
        let ports = obj.pointer("/spec/ports").and_then(Value::as_array).map_or(0, Vec::len);
        if ports <= MANY_PORTS {
            return FieldErrors::new();
        }
        let faults = typed::judge(obj, service::port_faults);
        // Fewer are told together with the others, once it is known what can be allocated.
        if ports > service::MAX_PORTS || faults.is_cut() { faults } else { FieldErrors::new() }
    }

    fn begin_create(&self, obj: &mut Value, tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
        let mut new: ServiceObject = read(obj)?;
        service::prepare_create(&mut new);
        let exists = exists(obj, tx, ctx);
        // A duplicate costs nothing: it is planned for the sake of its faults only.
        let options = PlanOptions { dry_run: ctx.dry_run || exists };
        match tx.index().services.ledger.plan_create(&mut new, &mut rand::rng(), options) {
            Ok(plan) => {
                stage(&plan, tx, ctx)?;
                drop_internal_policy(&mut new);
                typed::write(obj, &new);
                Ok(())
            }
            Err(_) if exists => {
                Err(status::already_exists("", "services", text(obj, "/metadata/name")).into())
            }
            Err(error) => Err(refusal(text(obj, "/metadata/name"), error)),
        }
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        typed::judge(obj, service::validate_create)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>, sub: Subresource) -> Vec<String> {
        if sub == Subresource::Status {
            return typed::warn(new, None, |new, _| service::status_warnings(new));
        }
        typed::warn(new, old, service::warnings)
    }

    fn begin_update(
        &self,
        new: &mut Value,
        old: &Value,
        sub: Subresource,
        tx: &mut Tx<'_>,
        ctx: &Context<'_>,
    ) -> Result<(), ApiError> {
        let (mut after, before): (ServiceObject, ServiceObject) = (read(new)?, read(old)?);
        if sub == Subresource::Status {
            service::prepare_status_update(&mut after, &before);
        } else {
            service::prepare_update(&mut after, &before);
            let options = PlanOptions { dry_run: ctx.dry_run };
            let plan = tx
                .index()
                .services
                .ledger
                .plan_update(&before, &mut after, &mut rand::rng(), options)
                .map_err(|error| refusal(text(old, "/metadata/name"), error))?;
            stage(&plan, tx, ctx)?;
            drop_internal_policy(&mut after);
        }
        typed::write(new, &after);
        Ok(())
    }

    fn validate_update(&self, new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
        let rules = if sub == Subresource::Status {
            service::validate_status_update
        } else {
            service::validate_update
        };
        typed::judge_update(new, old, rules)
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("services/specs")
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn after_delete(&self, old: &Value, tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
        let before: ServiceObject = read(old)?;
        let plan = tx.index().services.ledger.plan_delete(&before);
        stage(&plan, tx, ctx)?;
        delete_endpoints(old, tx, ctx)
    }

    fn returns_deleted(&self) -> bool {
        true
    }
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

/// Beyond this many ports a Service is looked at before anything is allocated for it.
const MANY_PORTS: usize = 500;

/// Stages what a plan does to IPAddress objects. Ports need no objects: the Service that names them holds them.
fn stage(plan: &Plan, tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
    let Some(id) = ctx.registry.id(ipaddress::GROUP, ipaddress::RESOURCE) else { return Ok(()) };
    let (namespace, name) = (plan.service.namespace(), plan.service.name());
    for address in &plan.release_addresses {
        let key = address.to_string();
        let Some(held) = tx.get(id, "", &key) else { continue };
        let object: Value = serde_json::from_slice(&held.body).unwrap_or_default();
        if ipaddress::belongs_to(&object, namespace, name) {
            tx.delete(id, "", &key, object).map_err(ApiError::from)?;
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

fn refusal(name: &str, error: PlanError) -> ApiError {
    match error {
        PlanError::Invalid(faults) => status::invalid("", "Service", name, faults).into(),
        PlanError::Internal(text) => ApiError::internal(&text),
    }
}
