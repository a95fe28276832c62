//! What a process costs, as the kernel says (`/proc`, Linux only).

use std::{fs, io, time::Duration};

/// Clock ticks a second in `/proc/PID/stat`; the kernel reports 100 on every architecture.
const TICKS: u64 = 100;

/// CPU time a process has used, in user and kernel mode.
pub fn cpu(pid: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    cpu_of(&stat).ok_or_else(|| io::Error::other(format!("unexpected /proc/{pid}/stat: {stat}")))
}

fn cpu_of(stat: &str) -> Option<Duration> {
    // The second field is a name in parentheses and may hold blanks.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

/// Memory of a process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Resident now.
    pub resident: u64,
    /// The most that was resident.
    pub peak: u64,
}

/// Resident memory of a process, now and at its peak.
pub fn memory(pid: u32) -> io::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        kib(&status, name).ok_or_else(|| io::Error::other(format!("no {name} in /proc/{pid}/status")))
    };
    Ok(Memory { resident: field("VmRSS:")? * 1024, peak: field("VmHWM:")? * 1024 })
}

fn kib(status: &str, name: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let stat = "77 (a b) c) S 1 77 77 0 -1 4194560 2593 0 1 0 12 30 0 0 20 0 9 0 100 1 2";
        assert_eq!(cpu_of(stat), Some(Duration::from_millis(420)));
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!((kib(status, "VmRSS:"), kib(status, "VmHWM:")), (Some(1024), Some(2048)));
    }
}
