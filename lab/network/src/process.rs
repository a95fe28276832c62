//! A container's own command: runs apart from the machine's files in the pod's network, what it prints is the pod's log, and the container
//! ends as it does.

use std::{path::PathBuf, process::Stdio, time::Duration};

use nix::sys::statvfs::statvfs;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    time::{MissedTickBehavior, interval},
};

use crate::{
    exec,
    log::Log,
    program::{Limit, Program},
    server::{Ended, Served},
};

const CHUNK: usize = 16 * 1024;
/// What a kubelet has for a command that cannot be started.
const NOT_STARTED: i64 = 128;
/// How often it is looked how much has been written.
const LOOK: Duration = Duration::from_secs(1);

/// Runs the command to its end, and tells of that. Dropped before, it kills what the command has started.
pub(crate) async fn run(of: Served, program: Program) {
    let mut command = Command::new(&program.command);
    command.args(&program.arguments).envs(program.environment).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = match exec::spawn_apart(of.place.clone(), command).await {
        Ok(child) => {
            let root = child.id().map(|id| PathBuf::from(format!("/proc/{id}/root")));
            tokio::select! {
                code = attend(child, &of.log) => of.ended(code),
                message = outgrown(root, program.limit) => Ended::Evicted(message),
            }
        }
        Err(error) => {
            of.log.write(format!("exec: {:?}: {error}", program.command));
            of.ended(NOT_STARTED)
        }
    };
    of.tell(ended);
}

/// Writes what it prints to the log until it has ended; its exit code.
async fn attend(mut child: Child, log: &Log) -> i64 {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    tokio::join!(note(stdout, log), note(stderr, log));
    child.wait().await.map_or(NOT_STARTED, |status| exec::code(status).into())
}

async fn note(from: Option<impl AsyncRead + Unpin>, log: &Log) {
    let Some(mut from) = from else { return };
    let (mut lines, mut buffer) = (Lines::default(), vec![0; CHUNK]);
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        lines.push(&buffer[..length]).into_iter().for_each(|line| log.write(line));
    }
    lines.end().into_iter().for_each(|line| log.write(line));
}

/// Bytes as they come, in lines; one that is very long is cut.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.0.extend_from_slice(part);
            if part.ends_with(b"\n") || self.0.len() >= CHUNK {
                lines.extend(self.end());
            }
        }
        lines
    }

    fn end(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.0);
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        (!line.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    }
}

/// Waits until more was written than may be; what a kubelet says then.
async fn outgrown(root: Option<PathBuf>, limit: Option<Limit>) -> String {
    let (Some(root), Some(limit)) = (root, limit) else { return std::future::pending().await };
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let Ok(used) = statvfs(&root) else { continue };
        let blocks = used.blocks().saturating_sub(used.blocks_free());
        if u128::from(blocks) * u128::from(used.fragment_size()) > u128::from(limit.bytes) {
            return limit.exceeded();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_lines() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"one\ntw"), ["one"]);
        assert_eq!(lines.push(b"o\n\nthree"), ["two", ""]);
        assert_eq!(lines.end().as_deref(), Some("three"));
        assert_eq!(lines.end(), None);
        let long = vec![b'x'; 2 * CHUNK];
        assert_eq!(lines.push(&long).len(), 1);
    }
}
