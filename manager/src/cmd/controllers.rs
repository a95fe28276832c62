//! From flags to the settings of the controllers.

use std::sync::Arc;

use kube::Client;
use service_allocators::{NodePortRange, PortSharing};
use service_controllers::{allocation, controller, runtime::Settings};
use tokio_util::sync::CancellationToken;

use crate::args::{Controller, ControllerSelection, RepairMode, SyncArgs};

/// The settings that flags of both commands give.
pub(super) fn settings(sync: &SyncArgs, selection: &ControllerSelection) -> Settings {
    Settings {
        controllers: selection.enabled().filter_map(in_set).collect(),
        max_endpoints_per_slice: sync.max_endpoints_per_slice.get().into(),
        mirroring_max_endpoints_per_subset: sync.mirroring_max_endpoints_per_subset.get().into(),
        concurrent_service_endpoint_syncs: sync.concurrent_service_endpoint_syncs.get().into(),
        concurrent_endpoint_syncs: sync.concurrent_endpoint_syncs.get().into(),
        mirroring_concurrent_service_endpoint_syncs: sync
            .mirroring_concurrent_service_endpoint_syncs
            .get()
            .into(),
        endpointslice_updates_batch_period: sync.endpointslice_updates_batch_period.0,
        endpoint_updates_batch_period: sync.endpoint_updates_batch_period.0,
        mirroring_endpointslice_updates_batch_period: sync.mirroring_endpointslice_updates_batch_period.0,
        ..Settings::default()
    }
}

/// The controller of the set, if it is one.
const fn in_set(controller: Controller) -> Option<controller::Controller> {
    match controller {
        Controller::EndpointSlice => Some(controller::Controller::Slices),
        Controller::Endpoints => Some(controller::Controller::Endpoints),
        Controller::EndpointSliceMirroring => Some(controller::Controller::Mirrors),
        Controller::ServiceCidr => Some(controller::Controller::Cidrs),
        Controller::ServiceAllocation
        | Controller::IpAddressAudit
        | Controller::NodePortAudit
        | Controller::NodePortRange
        | Controller::ServicePool
        | Controller::GarbageCollector
        | Controller::Namespace
        | Controller::ServiceAccount
        | Controller::RootCa => None,
    }
}

/// The controller of the ledger, if it is one.
const fn of_the_ledger(controller: Controller) -> Option<controller::Controller> {
    match controller {
        Controller::ServiceAllocation => Some(controller::Controller::Allocation),
        Controller::IpAddressAudit => Some(controller::Controller::Addresses),
        Controller::NodePortAudit => Some(controller::Controller::NodePorts),
        Controller::NodePortRange => Some(controller::Controller::PortRanges),
        Controller::ServicePool => Some(controller::Controller::Pools),
        _ => None,
    }
}

/// The settings of the controllers of the ledger, beside those of the others.
pub(super) fn ledger_settings(
    selection: &ControllerSelection,
    node_ports: NodePortRange,
    sharing: PortSharing,
    beside: &Settings,
) -> allocation::Settings {
    allocation::Settings {
        controllers: selection.enabled().filter_map(of_the_ledger).collect(),
        node_ports,
        sharing,
        leadership: beside.leadership.clone(),
        kube_api_qps: beside.kube_api_qps,
        kube_api_burst: beside.kube_api_burst,
        metrics: beside.metrics.clone(),
        readiness: beside.readiness.clone(),
        repair: allocation::Repair::default(),
        protect: false,
        gauges: allocation::Gauges::default(),
        told: beside.told.clone(),
        failures: Arc::clone(&beside.failures),
    }
}

/// What the audits do, by the flag.
pub(super) const fn repair(mode: RepairMode) -> allocation::Repair {
    match mode {
        RepairMode::Off => allocation::Repair::Off,
        RepairMode::Report => allocation::Repair::Report,
        RepairMode::Safe => allocation::Repair::Safe,
    }
}

/// Runs the controllers of the ledger, if any is to run.
pub(super) async fn start_ledger(
    client: Client,
    settings: allocation::Settings,
    shutdown: CancellationToken,
) {
    if !settings.controllers.is_empty() {
        allocation::start(client, settings, shutdown).await;
    }
}

/// Warns of controllers that kube-controller-manager knows and nobody runs here.
pub(super) fn warn_of_others(selection: &ControllerSelection) {
    for name in selection.not_ours() {
        tracing::warn!(
            controller = name,
            "--controllers names a controller that is not part of this program"
        );
    }
}

/// Warns of controllers that belong to the lab's API server and are asked for by name elsewhere.
pub(super) fn warn_of_lab_only(selection: &ControllerSelection) {
    let of_the_lab =
        [Controller::GarbageCollector, Controller::Namespace, Controller::ServiceAccount, Controller::RootCa];
    for controller in of_the_lab {
        if selection.enables(controller) && selection.names(controller) {
            let name = controller.name();
            tracing::warn!(
                controller = name,
                "this controller runs only in the lab; kube-controller-manager has it"
            );
        }
    }
}
