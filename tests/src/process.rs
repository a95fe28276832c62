//! Child processes: their output goes to a file, and they do not outlive their owner.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// How long a process may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(20);

/// A process that does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It cannot be started or waited for.
    #[error("{program}: {source}")]
    Io {
        /// What was run.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("{program} ended with {status}:\n{output}")]
    Ended {
        /// What was run.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote.
        output: String,
    },
    /// It does not become ready.
    #[error("{program} is not ready: {reason}\n{output}")]
    NotReady {
        /// What was run.
        program: String,
        /// The last thing that was tried.
        reason: String,
        /// What it wrote.
        output: String,
    },
    /// It goes on although it was asked to end, or should end by itself.
    #[error("{program} did not end within {} s:\n{output}", GRACE.as_secs())]
    Stuck {
        /// What was run.
        program: String,
        /// What it wrote.
        output: String,
    },
}

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    program: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command whose output goes to a file.
    pub fn start(mut command: Command, log: &Path) -> Result<Self, ProcessError> {
        let program = format!("{:?}", command.as_std());
        let failed = |source| ProcessError::Io { program: program.clone(), source };
        let file = File::create(log).map_err(failed)?;
        let errors = file.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors).kill_on_drop(true);
        let child = command.spawn().map_err(failed)?;
        Ok(Self { program, child, log: log.to_owned() })
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// What it wrote so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_else(|error| format!("(no output: {error})"))
    }

    /// Fails if it has ended.
    pub fn check_running(&mut self) -> Result<(), ProcessError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(ProcessError::Ended { program: self.program.clone(), status, output: self.output() })
            }
            Err(source) => Err(ProcessError::Io { program: self.program.clone(), source }),
        }
    }

    /// The error of a process that does not become ready.
    pub fn not_ready(&self, reason: impl Into<String>) -> ProcessError {
        ProcessError::NotReady { program: self.program.clone(), reason: reason.into(), output: self.output() }
    }

    /// Sends it a signal by its name (`STOP`, `CONT`): the standard library sends none, and unsafe code is forbidden.
    pub async fn signal(&self, name: &str) -> Result<(), ProcessError> {
        let failed = |source| ProcessError::Io { program: self.program.clone(), source };
        if let Some(id) = self.child.id() {
            Command::new("kill")
                .arg(format!("-{name}"))
                .arg(id.to_string())
                .status()
                .await
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Waits for the end that it comes to by itself; gives how it ended, and what it wrote.
    pub async fn ended(mut self) -> Result<(ExitStatus, String), ProcessError> {
        match timeout(GRACE, self.child.wait()).await {
            Ok(Ok(status)) => Ok((status, self.output())),
            Ok(Err(source)) => Err(ProcessError::Io { program: self.program.clone(), source }),
            Err(_) => Err(ProcessError::Stuck { program: self.program.clone(), output: self.output() }),
        }
    }

    /// Kills it with SIGKILL and waits for its end.
    pub async fn kill(mut self) -> Result<(), ProcessError> {
        self.child.kill().await.map_err(|source| ProcessError::Io { program: self.program.clone(), source })
    }

    /// Ends it with SIGTERM and waits for its end.
    pub async fn terminate(mut self) -> Result<ExitStatus, ProcessError> {
        self.signal("TERM").await?;
        let failed = |source| ProcessError::Io { program: self.program.clone(), source };
        match timeout(GRACE, self.child.wait()).await {
            Ok(status) => status.map_err(failed),
            Err(_) => Err(ProcessError::Stuck { program: self.program.clone(), output: self.output() }),
        }
    }
}
