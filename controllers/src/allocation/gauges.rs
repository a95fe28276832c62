//! How full ranges and pools are, when they will be, and what the audits find, read when somebody scrapes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use service_allocators::pools::Kind;
use tokio::time::Instant;

use super::trend::Trend;
use crate::ledger::Ledger;

/// What the audits find, by reason.
type Findings = Box<dyn Fn() -> BTreeMap<&'static str, usize> + Send + Sync>;

/// The gauges; they show nothing before the controllers run.
#[derive(Clone, Default)]
pub struct Gauges(Arc<OnceLock<Shown>>);

/// What is shown, and how it was.
struct Shown {
    ledger: Ledger,
    findings: Findings,
    since: Instant,
    /// Of addresses and of node ports, by range.
    trends: Mutex<[Trends; 2]>,
}

type Trends = BTreeMap<String, Trend>;

/// How full a range is.
struct Fill {
    range: String,
    used: u64,
    free: u64,
}

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
struct OfRange {
    range: String,
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
        let (since, trends) = (Instant::now(), Mutex::default());
        let _ = self.0.set(Shown { ledger, findings, since, trends });
    }
}

#[allow(clippy::cast_possible_wrap)] // counts of values; a gauge of more than 2^63 says as much
fn set(gauge: &Gauge, count: u64) {
    gauge.set(count.min(i64::MAX as u64) as i64);
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(Shown { ledger, findings, since, trends }) = self.0.get() else { return Ok(()) };
        let (mut addresses, mut ports) = (Vec::new(), Vec::new());
        let pools: Family<PoolPart, Gauge> = Family::default();
        let lacking: Gauge = Gauge::default();
        ledger.with(|known| {
            for range in known.live.ledger.addresses.usage() {
                let (used, free) = (range.allocated, range.available);
                addresses.push(Fill { range: range.prefix.to_string(), used, free });
            }
            for (name, _, _) in known.live.ledger.ports.named_ranges() {
                let Some([lower, upper]) = known.live.ledger.ports.fill(name) else { continue };
                let (used, free) = (lower.0 + upper.0, lower.1 + upper.1);
                ports.push(Fill { range: name.to_owned(), used, free });
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
        let mut trends = trends.lock();
        let [of_addresses, of_ports] = &mut *trends;
        let now = since.elapsed();
        fills(
            &mut encoder,
            ("service_ledger_addresses", "addresses of ServiceCIDRs"),
            &addresses,
            (of_addresses, now),
        )?;
        fills(&mut encoder, ("service_ledger_node_ports", "node ports of ranges"), &ports, (of_ports, now))?;
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

/// Shows how full ranges are, and when they will be.
fn fills(
    encoder: &mut DescriptorEncoder<'_>,
    (name, what): (&str, &str),
    fills: &[Fill],
    (trends, now): (&mut Trends, Duration),
) -> fmt::Result {
    let counts: Family<Part, Gauge> = Family::default();
    let forecasts: Family<OfRange, Gauge> = Family::default();
    trends.retain(|range, _| fills.iter().any(|fill| fill.range == *range));
    for Fill { range, used, free } in fills {
        for (state, count) in [("used", *used), ("free", *free)] {
            set(&counts.get_or_create(&Part { range: range.clone(), state }), count);
        }
        let trend = trends.entry(range.clone()).or_default();
        if let Some(full_in) = trend.full_in(now, *used, *free) {
            set(&forecasts.get_or_create(&OfRange { range: range.clone() }), full_in.as_secs());
        }
    }
    show(encoder, name, &format!("The {what}, by state"), &counts)?;
    let help = format!("Seconds until the {what} are all taken, at the pace of the last day");
    show(encoder, &format!("{name}_full_in_seconds"), &help, &forecasts)
}

fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}
