//! What the proxy asks of a kernel, and why it may not get it.

use std::io;

use service_api::address::Family;

use super::{
    model::{Op, Statement},
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
    #[error("the table differs from what was written to it: {step}: {source}{}", hint(*.needs))]
    Differs {
        /// The step that does not fit.
        step: String,
        /// What the kernel may lack if that goes on.
        needs: Option<&'static str>,
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
    pub(super) const EINVAL: i32 = 22;
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
            // Nobody answers requests of this kind.
            Some(errno::EINVAL | errno::EOPNOTSUPP) if step.is_none() => {
                Self::Lacks { feature: "nftables (CONFIG_NF_TABLES, module nf_tables)", source }
            }
            Some(code @ (errno::ENOENT | errno::EEXIST | errno::EBUSY)) => {
                let needs = step.filter(|_| code == errno::ENOENT).and_then(uses);
                Self::Differs { step: text, needs, source }
            }
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

/// The part of the kernel that a step uses besides tables and chains. Where that is missing the kernel says the same as where a chain is.
fn uses(step: &Op) -> Option<&'static str> {
    let Op::AddRule { rule, .. } = step else { return None };
    rule.statements.iter().find_map(|statement| match statement {
        Statement::SendTo(_) => Some("CONFIG_NFT_NAT"),
        Statement::SendToOneOf(_) => Some("CONFIG_NFT_NAT or CONFIG_NFT_NUMGEN"),
        Statement::GotoOneOf(_) => Some("CONFIG_NFT_NUMGEN"),
        Statement::Masquerade => Some("CONFIG_NFT_MASQ"),
        Statement::Reject => Some("CONFIG_NFT_REJECT"),
        Statement::AddressIsLocal(_) => Some("CONFIG_NFT_FIB_IPV4 or CONFIG_NFT_FIB_IPV6"),
        Statement::ConnectionIsNew | Statement::ConnectionIsRewritten => Some("CONFIG_NFT_CT"),
        _ => None,
    })
}

fn hint(needs: Option<&str>) -> String {
    needs.map(|needs| format!("; if that goes on, the kernel lacks {needs}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::nft::model::{Base, BaseKind, Chain, Container, Hook, Rule};

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

    #[rstest]
    #[case(errno::EINVAL)]
    #[case(errno::EOPNOTSUPP)]
    fn without_nftables_the_module_is_named(#[case] code: i32) {
        let error = refused(code, &[]);
        assert!(error.to_string().contains("the kernel has no nftables (CONFIG_NF_TABLES"), "{error}");
    }

    #[rstest]
    #[case(Statement::Masquerade, Some("CONFIG_NFT_MASQ"))]
    #[case(Statement::Reject, Some("CONFIG_NFT_REJECT"))]
    #[case(Statement::ConnectionIsNew, Some("CONFIG_NFT_CT"))]
    #[case(Statement::SendToOneOf(Vec::new()), Some("CONFIG_NFT_NUMGEN"))]
    #[case(Statement::Drop, None)]
    fn a_rule_that_is_refused_names_what_it_uses(#[case] statement: Statement, #[case] name: Option<&str>) {
        let step = [Op::AddRule { chain: "services".into(), rule: Rule::new([statement]) }];
        let error = refused(errno::ENOENT, &step);
        assert!(error.asks_for_a_look(), "the chain may have been removed by somebody else");
        let text = error.to_string();
        assert_eq!(text.contains("the kernel lacks"), name.is_some(), "{text}");
        assert!(name.is_none_or(|name| text.contains(name)), "{text}");
        assert!(!refused(errno::EEXIST, &step).to_string().contains("lacks"));
    }

    #[test]
    fn other_refusals_are_told_apart() {
        assert!(matches!(refused(errno::EPERM, &[Op::AddTable]), RunError::NotAllowed(_)));
        let add = [Op::AddContainer(Container::ServiceIps)];
        assert!(refused(errno::EEXIST, &add).asks_for_a_look());
        assert!(matches!(refused(22, &add), RunError::Refused { .. }));
    }
}
