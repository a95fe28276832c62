//! What the process takes of the machine, under the names that every client of Prometheus gives it.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

/// Reads it when somebody scrapes; where the system does not tell, the series is left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessMetrics;

/// What was read.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    cpu_seconds: Option<f64>,
    start_time: Option<f64>,
    resident: Option<u64>,
    virtual_size: Option<u64>,
    virtual_most: Option<u64>,
    open_files: Option<u64>,
    most_files: Option<u64>,
}

#[cfg(target_os = "linux")]
#[allow(clippy::cast_precision_loss)] // seconds and ticks
fn usage() -> Usage {
    use procfs::{
        CurrentSI as _, KernelStats,
        process::{LimitValue, Process},
    };
    let Ok(process) = Process::myself() else { return Usage::default() };
    let (stat, limits) = (process.stat().ok(), process.limits().ok());
    let ticks = procfs::ticks_per_second() as f64;
    let most = |value: LimitValue| match value {
        LimitValue::Value(value) => value,
        LimitValue::Unlimited => u64::MAX,
    };
    let booted = KernelStats::current().ok().map(|stats| stats.btime as f64);
    Usage {
        cpu_seconds: stat.as_ref().map(|stat| (stat.utime + stat.stime) as f64 / ticks),
        start_time: stat.as_ref().zip(booted).map(|(stat, booted)| booted + stat.starttime as f64 / ticks),
        resident: stat.as_ref().map(|stat| stat.rss * procfs::page_size()),
        virtual_size: stat.as_ref().map(|stat| stat.vsize),
        virtual_most: limits.as_ref().map(|limits| most(limits.max_address_space.soft_limit)),
        open_files: process.fd_count().ok().and_then(|count| u64::try_from(count).ok()),
        most_files: limits.as_ref().map(|limits| most(limits.max_open_files.soft_limit)),
    }
}

#[cfg(not(target_os = "linux"))]
fn usage() -> Usage {
    Usage::default()
}

impl Collector for ProcessMetrics {
    #[allow(clippy::cast_precision_loss)] // bytes
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = usage();
        if let Some(seconds) = usage.cpu_seconds {
            let counter = ConstCounter::new(seconds);
            let help = "CPU time in user and system mode, in seconds";
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, kind)?)?;
        }
        let size = |value: Option<u64>| value.map(|value| value as f64);
        for (name, help, value) in [
            (
                "process_start_time_seconds",
                "When the process started, in seconds since 1970",
                usage.start_time,
            ),
            ("process_resident_memory_bytes", "Memory in use", size(usage.resident)),
            ("process_virtual_memory_bytes", "Address space in use", size(usage.virtual_size)),
            ("process_virtual_memory_max_bytes", "Address space there may be", size(usage.virtual_most)),
            ("process_open_fds", "File descriptors in use", size(usage.open_files)),
            ("process_max_fds", "File descriptors there may be", size(usage.most_files)),
        ] {
            if let Some(value) = value {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use prometheus_client::registry::Registry;
    use service_controllers::report::metrics::exposition;

    use super::*;

    #[test]
    fn the_process_is_measured() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics));
        let text = exposition(&registry).unwrap();
        let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(
            types,
            [
                "process_cpu_seconds_total counter",
                "process_start_time_seconds gauge",
                "process_resident_memory_bytes gauge",
                "process_virtual_memory_bytes gauge",
                "process_virtual_memory_max_bytes gauge",
                "process_open_fds gauge",
                "process_max_fds gauge",
            ]
        );
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
            line.parse::<f64>().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6 && value("process_open_fds") > 2.0, "{text}");
        assert!(value("process_start_time_seconds") > 1.6e9, "{text}");
    }
}
