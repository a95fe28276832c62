//! From flags to the settings of the controllers.

use crate::args::ControllerSelection;

/// Warns of controllers that kube-controller-manager knows and nobody runs here.
pub(super) fn warn_of_others(selection: &ControllerSelection) {
    for name in selection.not_ours() {
        tracing::warn!(
            controller = name,
            "--controllers names a controller that is not part of this program"
        );
    }
}
