//! From flags to the settings of the controllers.

use service_controllers::{controller, runtime::Settings};

use crate::args::{Controller, ControllerSelection, SyncArgs};

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
        Controller::GarbageCollector
        | Controller::Namespace
        | Controller::ServiceAccount
        | Controller::RootCa => None,
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
