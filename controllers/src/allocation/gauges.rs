//! How full ranges and pools are and what the audits find, read when somebody scrapes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use service_allocators::pools::Kind;

use crate::ledger::Ledger;

/// What the audits find, by reason.
type Findings = Box<dyn Fn() -> BTreeMap<&'static str, usize> + Send + Sync>;

/// The gauges; they show nothing before the controllers run.
#[derive(Clone, Default)]
pub struct Gauges(Arc<OnceLock<(Ledger, Findings)>>);

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Part {
    range: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolPart {
    pool: String,
    kind: &'static str,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

impl Gauges {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        registry.register_collector(Box::new(gauges.clone()));
        gauges
    }

    pub(super) fn attach(&self, ledger: Ledger, findings: Findings) {
        let _ = self.0.set((ledger, findings));
    }
}

#[allow(clippy::cast_possible_wrap)] // counts of values; a gauge of more than 2^63 says as much
fn set(gauge: &Gauge, count: u64) {
    gauge.set(count.min(i64::MAX as u64) as i64);
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some((ledger, findings)) = self.0.get() else { return Ok(()) };
        let addresses: Family<Part, Gauge> = Family::default();
        let ports: Family<Part, Gauge> = Family::default();
        let pools: Family<PoolPart, Gauge> = Family::default();
        let lacking: Gauge = Gauge::default();
        ledger.with(|known| {
            for range in known.live.ledger.addresses.usage() {
                for (state, count) in [("used", range.allocated), ("free", range.available)] {
                    set(&addresses.get_or_create(&Part { range: range.prefix.to_string(), state }), count);
                }
            }
            for (name, _, _) in known.live.ledger.ports.named_ranges() {
                let Some([lower, upper]) = known.live.ledger.ports.fill(name) else { continue };
                for (state, count) in [("used", lower.0 + upper.0), ("free", lower.1 + upper.1)] {
                    set(&ports.get_or_create(&Part { range: name.to_owned(), state }), count);
                }
            }
            for usage in known.live.pools.usage(&known.live.ledger) {
                for kind in Kind::ALL {
                    let Some((used, free)) = usage.total(kind) else { continue };
                    for (state, count) in [("used", used), ("free", free)] {
                        let part = PoolPart { pool: usage.pool.clone(), kind: kind.name(), state };
                        set(&pools.get_or_create(&part), count);
                    }
                }
            }
            set(&lacking, known.lacking().len() as u64);
        });
        let found: Family<ByReason, Gauge> = Family::default();
        for (reason, count) in findings() {
            set(&found.get_or_create(&ByReason { reason }), count as u64);
        }
        show(&mut encoder, "service_ledger_addresses", "Addresses of ServiceCIDRs by state", &addresses)?;
        show(&mut encoder, "service_ledger_node_ports", "Node ports of ranges by state", &ports)?;
        show(&mut encoder, "service_pool_values", "Values of ServicePools by state", &pools)?;
        show(&mut encoder, "service_ledger_findings", "What the audits find, by reason", &found)?;
        let name = "service_ledger_services_without_values";
        lacking.encode(encoder.encode_descriptor(
            name,
            "Services that lack a value",
            None,
            lacking.metric_type(),
        )?)
    }
}

fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}
