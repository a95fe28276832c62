//! Network namespaces for tests, and what runs in them.

use std::{
    fs::File,
    os::fd::AsFd as _,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

static MADE: AtomicU32 = AtomicU32::new(0);

/// A network namespace; dropped with all that is in it.
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one with its loopback up.
    pub(crate) fn new() -> Self {
        let name = format!("scm-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        run("ip", &["netns", "add", &name]);
        let namespace = Self { name };
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `ip` in it.
    pub(crate) fn ip(&self, arguments: &[&str]) -> String {
        let mut all = vec!["-n", &self.name];
        all.extend_from_slice(arguments);
        run("ip", &all)
    }

    /// A program in it; what it prints.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut all = vec!["netns", "exec", &self.name, program];
        all.extend_from_slice(arguments);
        run("ip", &all)
    }

    /// Does something on a thread that is in it.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/var/run/netns/{}", self.name);
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let file = File::open(&path).unwrap();
                    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                    work()
                })
                .join()
                .unwrap()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// A program that must succeed; what it prints.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Whether namespaces can be made here and the tools are there; says so if not.
pub(crate) fn possible(test: &str) -> bool {
    let works = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    let probe = format!("scm-{}-probe-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let lacks = if !works("nft", &["--version"]) {
        "nft"
    } else if !works("ip", &["netns", "add", &probe]) {
        "root, or ip"
    } else {
        let _ = works("ip", &["netns", "del", &probe]);
        return true;
    };
    eprintln!("skipped: {test} needs {lacks}");
    false
}
