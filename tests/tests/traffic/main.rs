//! The session of a course about Services and kube-proxy, typed on a laptop and on nodes of `lab --network`: every command of it, with
//! kubectl, nft, conntrack and curl, and what it shows. Addresses, ages and generated names vary.
//!
//! Needs root and these programs; without them it says that it is skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../walkthrough/manifests.rs"]
mod manifests;
#[path = "../person/mod.rs"]
#[allow(dead_code, reason = "its lines without a shell are for other tests")]
mod person;
mod rules;
mod terminal;
mod traffic;

use service_tests::kubectl::programs;
use terminal::Terminal;

/// Names a kube-proxy, for the session to be typed on its rules as well.
const KUBE_PROXY: &str = "KUBE_PROXY_BINARY";
const TOOLS: [&str; 6] = ["ip", "nft", "conntrack", "curl", "xxd", "base32"];

/// kubectl, where everything that the session needs is there.
async fn possible() -> Option<std::path::PathBuf> {
    let mut missing: Vec<&str> = Vec::new();
    for tool in TOOLS {
        if terminal::sh(&format!("command -v {tool}"), &[]).await.code != Some(0) {
            missing.push(tool);
        }
    }
    if terminal::sh("id -u", &[]).await.out.trim() != "0" {
        missing.push("root");
    }
    let kubectl = programs().await.into_iter().next();
    if kubectl.is_none() {
        missing.push("kubectl");
    }
    if missing.is_empty() {
        return kubectl;
    }
    println!("skipped: the session needs {}", missing.join(", "));
    None
}

#[tokio::test]
async fn a_whole_session() {
    let Some(program) = possible().await else { return };
    session(Terminal::start(program.clone(), &[]).await).await;
    // What is expected of our rules is what kube-proxy's rules do.
    match std::env::var(KUBE_PROXY) {
        Ok(proxy) => session(Terminal::start(program, &["--proxy-command", &proxy]).await).await,
        Err(_) => println!("skipped on kube-proxy's rules: {KUBE_PROXY} names no kube-proxy"),
    }
}

async fn session(terminal: Terminal) {
    rules::a_service_and_the_proxys_configuration(&terminal).await;
    rules::the_table_of_a_node(&terminal).await;
    rules::the_map_follows_the_pods(&terminal).await;
    traffic::a_client_is_spread_over_the_pods(&terminal).await;
    rules::a_pod_that_is_not_ready_and_one_that_ends(&terminal).await;
    rules::a_pod_on_the_first_node(&terminal).await;
    traffic::connections_are_tracked(&terminal).await;
    traffic::rejections(&terminal).await;
    traffic::node_ports_and_their_policies(&terminal).await;
    rules::health_checks(&terminal).await;
    traffic::affinity_and_local_pods(&terminal).await;
    rules::nearby_pods(&terminal).await;
    traffic::names(&terminal).await;
    rules::addresses_as_objects(&terminal).await;
    traffic::forwarded_and_proxied(&terminal).await;
    terminal.laptop.person.server.stop().await.unwrap();
}
