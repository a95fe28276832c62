//! How a finding is told: its reason and its message, and what makes two findings the same. Pure.

use service_allocators::Finding;

use crate::ledger::Known;

/// The reason of the Event that tells of a finding, by upstream's names.
pub(crate) fn reason(known: &Known, finding: &Finding) -> &'static str {
    match finding {
        Finding::AddressLeaked { parent, .. } if known.service(parent).is_some() => "IPAddressWrongReference",
        finding => finding.reason(),
    }
}

/// What is told of a finding; that it is put right only where it is.
pub(crate) fn message(finding: &Finding, repairs: bool) -> String {
    if repairs || finding.remedy().is_none() {
        return finding.told_repairing();
    }
    format!("{finding}; --repair=safe puts that right")
}

/// What makes two findings about a Service the same: not which ranges there are, which is told beside it.
pub(crate) fn identity(finding: &Finding) -> String {
    match finding {
        Finding::PortOutOfRange { port, .. } => format!("{} {port}", finding.reason()),
        finding => finding.to_string(),
    }
}
