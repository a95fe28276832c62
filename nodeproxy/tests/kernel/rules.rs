//! What is in the kernel after a sync, as `nft` lists it.

use std::time::{Duration, Instant};

use serde_json::json;
use service_api::address::Family;
use service_nodeproxy::{
    nft::{netlink::Netlink, render},
    sync::{Report, Syncer},
    track::Touched,
};

use crate::{
    namespace::{Namespace, possible},
    scene::{Scene, full, ready},
};

const BOTH: [Family; 2] = [Family::V4, Family::V6];

pub(crate) fn settle(syncer: &mut Syncer<Netlink>, scene: &Scene, now: Instant) -> Report {
    let mut report = Report::default();
    for _ in 0..100 {
        if !syncer.has_work(now) {
            break;
        }
        report.merge(syncer.step(scene.known(), now));
    }
    assert!(report.stopped.is_none() && report.refused.is_empty(), "{report:?}");
    report
}

/// The whole table as `nft` lists it, without handles and in a fixed order of chains.
pub(crate) fn listed(namespace: &Namespace, word: &str) -> String {
    namespace.run("nft", &["list", "table", word, "kube-proxy"])
}

pub(crate) fn normal(text: &str) -> Vec<String> {
    let text = text.replace("\n\t\t\t     ", " ");
    let mut blocks: Vec<String> =
        text.split("\n\n").map(|block| block.trim_matches(['}', '\n', '\t', ' ']).to_owned()).collect();
    blocks.sort();
    blocks
}

#[test]
fn the_kernel_has_what_the_tool_would_have_made() {
    if !possible("the_kernel_has_what_the_tool_would_have_made") {
        return;
    }
    let (ours, theirs) = (Namespace::new(), Namespace::new());
    let scene = full();
    ours.enter(|| {
        let mut syncer = Syncer::new(Netlink::open().unwrap(), &BOTH);
        settle(&mut syncer, &scene, Instant::now());
        for (family, word) in [(Family::V4, "ip"), (Family::V6, "ip6")] {
            let text = render::table(syncer.table(family).unwrap(), family);
            let file = std::env::temp_dir().join(format!("{}-{word}.nft", ours.name()));
            std::fs::write(&file, text).unwrap();
            theirs.run("nft", &["-f", file.to_str().unwrap()]);
            std::fs::remove_file(&file).unwrap();
        }
    });
    for word in ["ip", "ip6"] {
        let (ours, theirs) = (listed(&ours, word), listed(&theirs, word));
        for (ours, theirs) in normal(&ours).iter().zip(&normal(&theirs)) {
            assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn a_second_look_finds_nothing_to_do_and_foreign_edits_are_put_right() {
    if !possible("a_second_look_finds_nothing_to_do_and_foreign_edits_are_put_right") {
        return;
    }
    let namespace = Namespace::new();
    let scene = full();
    namespace.enter(|| {
        let now = Instant::now();
        let mut syncer = Syncer::new(Netlink::open().unwrap(), &BOTH);
        settle(&mut syncer, &scene, now);
        assert!(!syncer.suspect().unwrap());
        // As after a restart: nothing is known of what is there.
        let mut again = Syncer::new(Netlink::open().unwrap(), &BOTH);
        let report = settle(&mut again, &scene, now);
        assert_eq!((report.steps, report.put_right), (0, 0), "{report:?}");
        let before = listed(&namespace, "ip");
        for edit in [
            "flush chain ip kube-proxy services",
            "add element ip kube-proxy cluster-ips { 10.1.2.3 }",
            "delete element ip kube-proxy service-ips { 10.96.0.1 . tcp . 80 }",
            "add chain ip kube-proxy service-XXXXXXXX-no/such/tcp/one",
            "delete table ip kube-proxy",
        ] {
            namespace.run("nft", &[edit]);
            assert!(syncer.suspect().unwrap(), "{edit}");
            let report = settle(&mut syncer, &scene, now);
            if edit.starts_with("flush") {
                assert_eq!(report.steps, 3, "only the rules of one chain: {report:?}");
            }
            syncer.overdue(now + Duration::from_secs(2));
            assert_eq!(normal(&listed(&namespace, "ip")), normal(&before), "{edit}");
        }
    });
}

#[test]
fn a_flip_is_one_transaction_of_two_steps() {
    if !possible("a_flip_is_one_transaction_of_two_steps") {
        return;
    }
    let namespace = Namespace::new();
    let mut scene = full();
    namespace.enter(|| {
        let now = Instant::now();
        let mut syncer = Syncer::new(Netlink::open().unwrap(), &BOTH);
        settle(&mut syncer, &scene, now);
        let flip = json!([ready("10.7.0.2", "one"),
            {"addresses": ["10.7.1.2"], "nodeName": "two", "conditions": {"ready": false}}]);
        let touched: Touched = scene.slice("plain", "TCP", &flip);
        syncer.touch(&touched, scene.known());
        let report = settle(&mut syncer, &scene, now);
        assert_eq!((report.transactions, report.steps), (1, 2), "{report:?}");
        let chain = namespace.run("nft", &["list", "table", "ip", "kube-proxy"]);
        assert!(chain.contains("numgen random mod 1 map { 0 : 10.7.0.2 . 8080 }"), "{chain}");
        syncer.touch(&scene.gone("plain"), scene.known());
        settle(&mut syncer, &scene, now);
        syncer.overdue(now + Duration::from_secs(2));
        assert!(!listed(&namespace, "ip").contains("demo/plain"));
        syncer.clean_up().unwrap();
        assert_eq!(namespace.run("nft", &["list", "tables"]), "");
    });
}
