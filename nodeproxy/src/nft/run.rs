//! What the proxy asks of a kernel, and why it may not get it.

use std::io;

use service_api::address::Family;

use super::{
    model::Op,
    wire::{Snapshot, SocketError},
};

/// A kernel with a table of each family.
pub trait Kernel: Send {
    /// Does all the steps or none; how many bytes they were.
    fn apply(&mut self, ops: &[Op], family: Family) -> Result<usize, RunError>;

    /// What is in the table.
    fn read(&mut self, family: Family) -> Result<Snapshot, RunError>;

    /// A number that grows with each change of any table by anybody.
    fn generation(&mut self) -> Result<u32, RunError>;
}

/// Why a kernel did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The process may not.
    #[error("nftables may only be changed by root (CAP_NET_ADMIN): {0}")]
    NotAllowed(io::Error),
    /// The kernel lacks something.
    #[error("the kernel has no {feature}: {source}")]
    Lacks {
        /// What.
        feature: &'static str,
        /// What it says.
        source: io::Error,
    },
    /// The table is not what it was taken for: somebody else changed it.
    #[error("the table differs from what was written to it: {step}: {source}")]
    Differs {
        /// The step that does not fit.
        step: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// A step is refused.
    #[error("{step} is refused: {source}")]
    Refused {
        /// The step.
        step: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The table belongs to somebody else.
    #[error(
        "the table {family} kube-proxy is not one of a kube-proxy: {why}; remove it with `nft delete table {family} kube-proxy`"
    )]
    Foreign {
        /// `ip` or `ip6`.
        family: &'static str,
        /// How that is known.
        why: String,
    },
    /// There is no way to the kernel.
    #[error("no way to nftables: {0}")]
    Socket(SocketError),
}

/// Errors of Linux (`errno.h`) that say what went wrong.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const EEXIST: i32 = 17;
    pub(super) const EPROTONOSUPPORT: i32 = 93;
    pub(super) const EOPNOTSUPP: i32 = 95;
}

impl RunError {
    /// The error of a socket, with the step that it is about if it is about one.
    pub fn from_socket(error: SocketError, step: &[Op]) -> Self {
        let SocketError::Refused { source, .. } = error else {
            return match error {
                SocketError::Io(source) if source.raw_os_error() == Some(errno::EPROTONOSUPPORT) => {
                    Self::Lacks { feature: "netfilter over netlink (CONFIG_NETFILTER_NETLINK)", source }
                }
                error => Self::Socket(error),
            };
        };
        let step = step.first();
        let text = step.map_or_else(|| "a request".to_owned(), |step| format!("{step:?}"));
        match source.raw_os_error() {
            Some(errno::EPERM | errno::EACCES) => Self::NotAllowed(source),
            // A module that is not there is "no such file" where it would be needed, and so is a chain.
            Some(errno::ENOENT | errno::EOPNOTSUPP) if step.and_then(needs).is_some() => {
                Self::Lacks { feature: step.and_then(needs).unwrap_or_default(), source }
            }
            Some(errno::ENOENT | errno::EEXIST | errno::EBUSY) => Self::Differs { step: text, source },
            _ => Self::Refused { step: text, source },
        }
    }

    /// Whether another look at the table may help.
    pub const fn asks_for_a_look(&self) -> bool {
        matches!(self, Self::Differs { .. })
    }

    /// A word for metrics.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) => "NotAllowed",
            Self::Lacks { .. } => "Lacks",
            Self::Differs { .. } => "Differs",
            Self::Refused { .. } => "Refused",
            Self::Foreign { .. } => "Foreign",
            Self::Socket(_) => "Socket",
        }
    }
}

/// The part of the kernel that a step needs of its own.
fn needs(step: &Op) -> Option<&'static str> {
    match step {
        Op::AddTable => Some("nftables for this family (CONFIG_NF_TABLES_IPV4, CONFIG_NF_TABLES_IPV6)"),
        Op::AddChain(chain) => chain.base.map(|_| "base chains of this kind (CONFIG_NFT_NAT)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::nft::model::{Base, BaseKind, Chain, Container, Hook};

    fn nat_chain() -> Op {
        let base = Some(Base { kind: BaseKind::Nat, hook: Hook::Prerouting, priority: -100 });
        Op::AddChain(Chain { base, ..Chain::new("nat-prerouting", []) })
    }

    fn refused(code: i32, step: &[Op]) -> RunError {
        let source = io::Error::from_raw_os_error(code);
        RunError::from_socket(SocketError::Refused { sequence: 1, source }, step)
    }

    #[rstest]
    #[case::no_ipv6(errno::EOPNOTSUPP, Op::AddTable, "CONFIG_NF_TABLES_IPV6")]
    #[case::no_module(errno::ENOENT, nat_chain(), "CONFIG_NFT_NAT")]
    fn a_feature_that_the_kernel_lacks_is_named(#[case] code: i32, #[case] step: Op, #[case] name: &str) {
        let error = refused(code, &[step]);
        assert!(matches!(error, RunError::Lacks { .. }), "{error:?}");
        assert!(error.to_string().contains(name), "{error}");
        assert!(!error.asks_for_a_look(), "another look does not help");
    }

    #[test]
    fn without_netfilter_there_is_no_way() {
        let error = io::Error::from_raw_os_error(errno::EPROTONOSUPPORT);
        let error = RunError::from_socket(SocketError::Io(error), &[]);
        assert!(error.to_string().contains("CONFIG_NETFILTER_NETLINK"), "{error}");
    }

    #[test]
    fn other_refusals_are_told_apart() {
        assert!(matches!(refused(errno::EPERM, &[Op::AddTable]), RunError::NotAllowed(_)));
        let add = [Op::AddContainer(Container::ServiceIps)];
        assert!(refused(errno::EEXIST, &add).asks_for_a_look());
        assert!(matches!(refused(22, &add), RunError::Refused { .. }));
    }
}
