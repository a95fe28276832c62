//! The binary's command line from outside: help, one-line errors, and the reference page.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread::sleep,
    time::Duration,
};

use rstest::rstest;
use service_controller_manager::args::reference;

fn call(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_service-controller-manager"));
    let output = command.args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[rstest]
#[case(&["lab", "--service-cluster-ip-range", "10.96.0.0/33"], "10.96.0.0/33")]
#[case(&["lab", "--service-cluster-ip-range", "10.97.0.0/12"], "host bits")]
#[case(&["lab", "--service-cluster-ip-range", "fd00::/48"], "too large")]
#[case(&["lab", "--service-node-port-range", "30000-20000"], "ends before it starts")]
#[case(&["lab", "--secure-port", "70000"], "70000")]
#[case(&["lab", "--bind-address", "localhost"], "localhost")]
#[case(&["lab", "--controllers", "endpoints-controler"], "endpoints-controler")]
#[case(&["lab", "--token", "a", "--token-file", "b"], "cannot be used with")]
#[case(&["lab", "--colour"], "--colour")]
#[case(&["run", "--max-endpoints-per-slice", "1001"], "1 to 1000")]
#[case(&["run", "--max-endpoints-per-slice=0"], "0")]
#[case(&["run", "--endpointslice-updates-batch-period", "4"], "500ms")]
#[case(&["run", "--kube-api-qps", "NaN"], "number")]
#[case(&["run", "--leader-elect=maybe"], "maybe")]
#[case(&["walk"], "walk")]
fn wrong_flags_are_refused_in_one_line(#[case] arguments: &[&str], #[case] part: &str) {
    let (code, out, err) = call(arguments);
    assert_eq!(code, Some(2), "{err}");
    assert_eq!(out, "");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("error: ") && err.contains(part), "{err}");
}

#[rstest]
#[case(&["lab", "--token", "abc"], "the token must be 4 or more")]
#[case(&["lab", "--zones", "a,b"], "--zones needs simulated nodes: give --nodes or --demo")]
#[case(&["run", "--leader-elect-lease-duration", "1s"], "--leader-elect-lease-duration must be longer")]
fn flags_that_do_not_go_together_are_refused_in_one_line(#[case] arguments: &[&str], #[case] part: &str) {
    let (code, out, err) = call(arguments);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("error: ") && err.contains(part), "{err}");
}

/// What comes of something in a minute, if something does.
fn soon<T>(mut of: impl FnMut() -> Option<T>) -> Option<T> {
    (0..3000).find_map(|_| {
        let found = of();
        if found.is_none() {
            sleep(Duration::from_millis(20));
        }
        found
    })
}

#[test]
fn a_process_whose_command_for_credentials_hangs_ends_when_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let (login, go, file) = (dir.path().join("login"), dir.path().join("go"), dir.path().join("kubeconfig"));
    // It waits until something is written for it.
    std::fs::write(&login, format!("#!/bin/sh\nmkfifo {0}\nexec cat {0}\n", go.display())).unwrap();
    std::fs::set_permissions(&login, std::fs::Permissions::from_mode(0o700)).unwrap();
    let text = r#"{"current-context": "c", "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {"exec":
        {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "interactiveMode": "Never"}}}]}"#;
    std::fs::write(&file, text).unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_service-controller-manager"))
        .args(["run", "--secure-port=0", "--kubeconfig"])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = soon(|| go.exists().then_some(()));
    Command::new("kill").arg(run.id().to_string()).status().unwrap();
    let ended: Option<ExitStatus> = soon(|| run.try_wait().unwrap());
    if ended.is_none() {
        run.kill().unwrap();
        run.wait().unwrap();
    }
    if begun.is_some() {
        std::fs::write(&go, "").unwrap();
    }
    assert!(begun.is_some() && ended.is_some_and(|status| status.success()), "{begun:?} {ended:?}");
}

#[test]
fn help_and_version_go_to_standard_output() {
    for arguments in [&["--help"][..], &["lab", "--help"], &["run", "--help"], &["--version"]] {
        let (code, out, err) = call(arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert!(out.contains("service-controller-manager"));
    }
}

#[test]
fn the_reference_page_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, reference()).unwrap();
    }
    let kept = std::fs::read_to_string(&page).unwrap();
    assert!(
        kept == reference(),
        "docs/cli.md is not current: UPDATE_DOCS=1 cargo test -p service-controller-manager --test cli"
    );
}

#[rstest]
#[case("bash", "complete -F")]
#[case("zsh", "#compdef service-controller-manager")]
#[case("fish", "complete -c service-controller-manager")]
fn shells_are_told_what_can_be_said(#[case] shell: &str, #[case] part: &str) {
    let (code, out, err) = call(&["completion", shell]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains(part) && out.contains("service-cluster-ip-range"), "{out}");
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("new");
    let (code, _, err) = call(&["man", "--dir", pages.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{err}");
    for command in ["-lab", "-run", "-diff", "-proxy", "-ranges", "-webhook", "-completion", "-man", ""] {
        let page =
            std::fs::read_to_string(pages.join(format!("service-controller-manager{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    std::fs::write(dir.path().join("file"), "").unwrap();
    let (code, _, err) = call(&["man", "--dir", dir.path().join("file").to_str().unwrap()]);
    assert!(code == Some(1) && err.starts_with("error: cannot write manual pages to"), "{err}");
}

/// Calls the binary by another name.
fn call_as(name: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join(name);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_service-controller-manager"), &link).unwrap();
    let output = Command::new(link).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn it_is_a_plugin_of_kubectl_by_its_name() {
    let (code, out, _) = call_as("kubectl-svcplane", &["ranges", "--help"]);
    assert!(code == Some(0) && out.contains("Usage: kubectl svcplane ranges"), "{out}");
    let (code, out, _) = call_as("kubectl_complete-svcplane", &["ranges", "--output", "j"]);
    assert_eq!((code, out.lines().collect::<Vec<_>>()), (Some(0), vec!["json\tFor programs", ":4"]));
}
