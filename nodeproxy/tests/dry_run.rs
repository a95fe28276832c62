//! The rules of a node as text, against committed files: what differs is seen in review.
//!
//! `UPDATE_DOCS=1` writes the files anew.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rstest::rstest;
use service_api::address::Family;
use service_nodeproxy::{
    agent::Settings,
    config::{LocalTraffic, RuleSettings},
    dump::{self, OutputFormat},
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dry_run").join(name)
}

fn rules(format: OutputFormat, node: &str) -> Result<String, dump::DumpError> {
    let pods = ["10.7.0.0/16", "fd00:70::/64"].map(|net| net.parse().unwrap());
    let settings = Settings {
        node_name: node.to_owned(),
        proxy_name: None,
        families: vec![Family::V4, Family::V6],
        rules: RuleSettings {
            local_traffic: LocalTraffic::ClusterCidrs(pods.to_vec()),
            ..RuleSettings::default()
        },
        health: None,
        metrics: None,
        bind_hard_fail: false,
        sync_period: Duration::from_secs(30),
        min_sync_period: Duration::ZERO,
    };
    let objects = dump::parse(&std::fs::read_to_string(file("dump.yaml")).unwrap())?;
    dump::rules(&objects, &settings, format)
}

#[rstest]
#[case(OutputFormat::Nft, "rules.nft")]
#[case(OutputFormat::Iptables, "rules.iptables")]
#[case(OutputFormat::Json, "rules.json")]
fn the_text_is_as_committed(#[case] format: OutputFormat, #[case] name: &str) {
    let text = rules(format, "one").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file(name), &text).unwrap();
    }
    let committed = std::fs::read_to_string(file(name)).unwrap();
    for (at, (new, old)) in text.lines().zip(committed.lines()).enumerate() {
        assert_eq!(new, old, "line {} of {name}", at + 1);
    }
    assert_eq!(text, committed, "{name} is longer or shorter");
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let error = rules(OutputFormat::Nft, "other").unwrap_err().to_string();
    assert!(error.contains("\"other\""), "{error}");
}

/// Whether a program can be run; says that a test is skipped if not.
fn there(program: &str) -> bool {
    let works = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let works = works.is_ok_and(|status| status.success());
    if !works {
        println!("skipped: {program} is not here");
    }
    works
}

/// A program's opinion of the rules, in a namespace of its own where the tables are empty.
fn is_taken(program: &str, arguments: &[&str], text: &str) {
    let input = std::env::temp_dir().join(format!("scm-dry-run-{}-{}", std::process::id(), arguments.len()));
    std::fs::write(&input, text).unwrap();
    let output = Command::new("unshare")
        .args(["--net", program])
        .args(arguments)
        .stdin(std::fs::File::open(&input).unwrap())
        .output()
        .unwrap();
    std::fs::remove_file(&input).unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if error.contains("unshare failed") || error.contains("ermission") {
        println!("skipped: {program} needs root");
        return;
    }
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
}

#[test]
fn nft_takes_its_form() {
    if there("nft") && there("unshare") {
        is_taken("nft", &["--check", "-f", "-"], &rules(OutputFormat::Nft, "one").unwrap());
    }
}

#[test]
fn iptables_restore_takes_its_form() {
    if !there("iptables-restore") || !there("unshare") {
        return;
    }
    let text = rules(OutputFormat::Iptables, "one").unwrap();
    let (v4, v6) = text.split_once("# for ip6tables-restore --noflush\n").unwrap_or((&text, ""));
    is_taken("iptables-restore", &["--test", "--noflush"], v4);
    is_taken("ip6tables-restore", &["--test", "--noflush"], v6);
}
