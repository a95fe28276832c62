//! The page in a real browser, headless Chromium: opened by the link that the lab prints, used by pointer and by keys, light
//! and dark, narrow and wide. With `PAGE_PICTURES=DIR` it keeps pictures of what it saw.
//!
//! Needs Debian's `chromium` and `chromium-driver`, or the same by other means; without them it says that it is skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use serde_json::{Value, json};
use service_tests::{
    browser::{self, Browser},
    cluster::{Lab, SERVICES, service},
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const LINK: &str = "Look at it: ";
const POOLS: &str = "/apis/service-control-plane.io/v1alpha1/servicepools";

/// A lab with a page, and a browser.
struct Looker {
    lab: Lab,
    browser: Browser,
}

impl Looker {
    /// None if there is no browser.
    async fn start(more: &[&str]) -> Option<Self> {
        if !browser::is_there().await {
            println!("skipped: there is no chromedriver, so nobody looks at the page");
            return None;
        }
        let lab = Lab::start_with(BINARY, &["10.96.0.0/12", "fd00:10:96::/112"], "30000-32767", more)
            .await
            .unwrap();
        Some(Self { lab, browser: Browser::start().await.unwrap() })
    }

    async fn open(&self) {
        let said = self.lab.server.process.output();
        let link = said.lines().find_map(|line| line.strip_prefix(LINK)).unwrap();
        self.browser.open(link).await.unwrap();
        self.until("document.querySelector('#state').textContent === 'live'").await;
    }

    async fn go(&self, hash: &str) {
        self.browser.run(&format!("location.hash = {}", Value::from(hash))).await.unwrap();
    }

    async fn until(&self, script: &str) -> Value {
        let value = self.browser.until(&format!("return {script}")).await;
        value.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn value(&self, script: &str) -> Value {
        self.browser.run(&format!("return {script}")).await.unwrap()
    }

    /// Keeps a picture, if pictures are wanted.
    async fn picture(&self, name: &str) {
        if let Some(dir) = std::env::var_os("PAGE_PICTURES") {
            std::fs::create_dir_all(&dir).unwrap();
            self.browser.picture(&PathBuf::from(dir).join(format!("{name}.png"))).await.unwrap();
        }
    }

    async fn create(&self, name: &str, spec: &Value) {
        let (code, said) = self.lab.client.call("POST", SERVICES, &service(name, spec)).await.unwrap();
        assert_eq!(code, 201, "{said}");
    }

    async fn end(self) {
        let complaints = self.browser.complaints().await.unwrap();
        assert!(complaints.is_empty(), "{complaints:#?}");
        self.browser.end().await.unwrap();
        self.lab.stop().await.unwrap();
    }
}

/// What the map of the page says of the cell that is chosen.
const PANEL: &str = "document.querySelector('.panel').textContent";

#[tokio::test]
async fn a_person_looks_at_addresses_and_ports() {
    let Some(looker) = Looker::start(&[]).await else { return };
    looker.browser.look(1400, 1000, false).await.unwrap();
    looker.create("web", &json!({"type": "NodePort", "clusterIP": "10.96.0.77", "ports": [{"port": 80, "nodePort": 30080}]})).await;
    looker.open().await;
    assert_eq!(looker.value("location.hash").await, "", "the key does not stay in the address");
    looker.until("document.querySelectorAll('.cards .card').length === 2").await;
    looker.until("document.querySelector('h1').textContent === 'Addresses'").await;
    // The address is found, on the map and beside it.
    looker.browser.run("document.querySelector('#find-addresses').focus()").await.unwrap();
    looker.browser.press(&["1", "0", ".", "9", "6", ".", "0", ".", "7", "7", "Enter"]).await.unwrap();
    looker.until(&format!("{PANEL}.includes('10.96.0.77') && {PANEL}.includes('default/web')")).await;
    looker.picture("address-light").await;
    // By keys: to the next address, and up again.
    looker.browser.run("document.querySelector('.cells').focus()").await.unwrap();
    looker.browser.press(&["ArrowRight"]).await.unwrap();
    looker.until(&format!("{PANEL}.includes('10.96.0.78') && {PANEL}.includes('Free')")).await;
    looker
        .until("document.querySelector('.cells [aria-live]').textContent.startsWith('10.96.0.78: free')")
        .await;
    looker.browser.press(&["p"]).await.unwrap();
    looker.until(&format!("{PANEL}.includes('default/web')")).await;
    looker.browser.press(&["Escape"]).await.unwrap();
    looker.until("document.querySelectorAll('.path li').length === 1").await;
    // By the pointer: what is under it is said beside it.
    let at = looker.value("(() => { const box = document.querySelector('.cells canvas').getBoundingClientRect(); return [box.left + 110, box.top + 4]; })()").await;
    let [x, y] = [0, 1].map(|n| at[n].as_f64().unwrap_or_default().round());
    #[allow(clippy::cast_possible_truncation)] // a window is some thousand points wide
    looker.browser.point(x as i64, y as i64, false).await.unwrap();
    looker.until("!document.querySelector('.tip').hidden && document.querySelector('.tip').textContent.startsWith('10.96.0.0 to 10.96.1.255: 2 of 512 taken')").await;
    // An address that is taken while somebody looks.
    looker.create("late", &json!({"clusterIP": "10.96.0.99", "ports": [{"port": 80}]})).await;
    looker.until("document.querySelector('main p').textContent.startsWith('3 addresses taken')").await;
    looker.browser.look(1400, 1000, true).await.unwrap();
    looker.picture("addresses-dark").await;
    looker.go("#/find/port/30080").await;
    looker
        .until(&format!(
            "document.querySelector('h1').textContent === 'Node ports' && {PANEL}.includes('default/web')"
        ))
        .await;
    looker.until("document.querySelector('.holders-list').getAttribute('aria-rowcount') === '2'").await;
    looker.picture("ports-dark").await;
    // Why: one click, and the keyboard is in the drawer until it is closed.
    looker.browser.run("document.querySelector('.panel .why').click()").await.unwrap();
    looker.until("document.querySelector('dialog').open && document.querySelector('.explained').textContent.includes('web')").await;
    looker.picture("why-dark").await;
    looker.browser.press(&["Escape"]).await.unwrap();
    looker.until("!document.querySelector('dialog').open").await;
    let elsewhere = "performance.getEntriesByType('resource').filter((one) => !one.name.startsWith(location.origin)).map((one) => one.name)";
    assert_eq!(looker.value(elsewhere).await, json!([]), "nothing is asked of anybody else");
    looker.end().await;
}

#[tokio::test]
async fn a_person_looks_at_a_service_and_at_what_the_controllers_do() {
    let Some(looker) = Looker::start(&["--nodes=3", "--zones=a,b,c"]).await else { return };
    looker.browser.look(1400, 1100, false).await.unwrap();
    let spec = json!({"selector": {"app": "web"}, "trafficDistribution": "PreferSameZone", "ports": [{"name": "http", "port": 80}]});
    looker.create("web", &spec).await;
    for n in 0..6 {
        let pod = json!({"metadata": {"name": format!("web-{n}"), "labels": {"app": "web"}}, "spec": {"nodeName": format!("k8s-node-{}", n % 3 + 1), "containers": [{"name": "c", "image": "x"}]}});
        let (code, said) =
            looker.lab.client.call("POST", "/api/v1/namespaces/default/pods", &pod).await.unwrap();
        assert_eq!(code, 201, "{said}");
    }
    looker.open().await;
    looker.go("#/services?search=web").await;
    looker.until("document.querySelector('.services-list .list-body').textContent.includes('6/6')").await;
    looker.picture("services-light").await;
    looker.browser.run("document.querySelector('.services-list .object').click()").await.unwrap();
    looker.until("document.querySelectorAll('.flow-arrow').length === 3").await;
    looker.until("document.querySelector('.slice').textContent.includes('6 endpoints')").await;
    let said = looker.value("document.querySelector('.flow').getAttribute('aria-label')").await;
    assert!(said.as_str().unwrap().contains("traffic of a to 2 endpoints in a"), "{said}");
    looker.picture("service-light").await;
    looker.browser.look(390, 844, true).await.unwrap();
    looker.picture("service-narrow-dark").await;
    let wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(looker.value(wide).await, true, "a narrow window needs no scrolling sideways");
    looker.browser.look(1400, 1100, false).await.unwrap();
    // What goes is told at once.
    looker
        .lab
        .client
        .call("DELETE", "/api/v1/namespaces/default/pods/web-0?gracePeriodSeconds=0", &Value::Null)
        .await
        .unwrap();
    looker.until("document.querySelector('.slice').textContent.includes('5 endpoints')").await;
    looker.go("#/reconciles?search=default%2Fweb+endpointslice").await;
    looker.until("document.querySelectorAll('.lines-list .list-body .list-row').length > 0").await;
    looker.picture("reconciles-light").await;
    looker.browser.run("document.querySelector('.lines-list .list-body button').click()").await.unwrap();
    looker
        .until("document.querySelector('[aria-label=\"Chosen line\"]').textContent.includes('endpointslice')")
        .await;
    looker.end().await;
}

#[tokio::test]
async fn what_a_pool_keeps_for_a_service_is_on_the_maps() {
    let Some(looker) = Looker::start(&[]).await else { return };
    looker.browser.look(1400, 1000, false).await.unwrap();
    let pool = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool", "metadata": {"name": "banks"}, "spec": {
        "addresses": ["10.96.4.0/24"], "nodePorts": [{"firstPort": 30100, "lastPort": 30199}], "reservations": [
            {"address": "10.96.4.9", "namespace": "default", "name": "bank"},
            {"address": "10.96.4.10", "namespace": "default", "name": "gone", "until": "2020-01-01T00:00:00Z"},
            {"nodePort": 30111, "namespace": "default", "name": "bank"}]}});
    let (code, said) = looker.lab.client.call("POST", POOLS, &pool).await.unwrap();
    assert_eq!(code, 201, "{said}");
    looker.open().await;
    looker.go("#/find/address/10.96.4.9").await;
    looker
        .until(&format!("{PANEL}.includes('kept for default/bank') && {PANEL}.includes('by pool banks')"))
        .await;
    looker
        .until("document.querySelector('.legend').textContent.includes('kept by a pool for one Service')")
        .await;
    looker.picture("kept-light").await;
    // One that is over is none.
    looker.browser.run("document.querySelector('.cells').focus()").await.unwrap();
    looker.browser.press(&["ArrowRight"]).await.unwrap();
    looker.until(&format!("{PANEL}.includes('10.96.4.10') && !{PANEL}.includes('kept for')")).await;
    looker.browser.press(&["Escape"]).await.unwrap();
    looker.until("document.querySelector('.cells [aria-live]') && document.querySelectorAll('.path li').length === 1").await;
    looker.go("#/find/port/30111").await;
    looker.until(&format!("{PANEL}.includes('30111') && {PANEL}.includes('kept for default/bank')")).await;
    looker.browser.look(1400, 1000, true).await.unwrap();
    looker.picture("kept-dark").await;
    looker.end().await;
}

#[tokio::test]
async fn who_has_no_session_is_asked_for_a_token() {
    let Some(looker) = Looker::start(&[]).await else { return };
    looker.browser.open(&format!("{}/page/", looker.lab.server.target.url())).await.unwrap();
    looker.until("document.querySelector('h1')?.textContent === 'Who looks?'").await;
    looker.picture("sign-in-light").await;
    looker.browser.run("document.querySelector('#token').focus()").await.unwrap();
    let token = looker.lab.server.target.token.clone().unwrap();
    let keys: Vec<String> = token.chars().map(String::from).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).chain(["Enter"]).collect();
    looker.browser.press(&keys).await.unwrap();
    looker.until("document.querySelector('#state').textContent === 'live'").await;
    // The refusals before are in the browser's log, and are meant.
    looker.browser.complaints().await.unwrap();
    looker.end().await;
}

#[tokio::test]
async fn every_view_can_be_used_without_a_pointer_and_has_names() {
    let Some(looker) = Looker::start(&["--nodes=1"]).await else { return };
    looker.open().await;
    for hash in ["#/addresses", "#/ports", "#/services", "#/service/default/kubernetes", "#/reconciles"] {
        looker.go(hash).await;
        looker
            .until(&format!(
                "location.hash === '{hash}' && document.querySelectorAll('main h1').length === 1"
            ))
            .await;
        let nameless = "[...document.querySelectorAll('button, a, input, select, [role=application], [role=table], main section')].filter((one) => \
            !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)).map((one) => one.outerHTML)";
        assert_eq!(looker.value(nameless).await, json!([]), "{hash}");
        let twice = "[...document.querySelectorAll('[id]')].map((one) => one.id).filter((id, at, all) => all.indexOf(id) !== at)";
        assert_eq!(looker.value(twice).await, json!([]), "{hash}");
        let levels = "[...document.querySelectorAll('main h1, main h2, main h3')].map((one) => Number(one.tagName[1]))";
        let levels: Vec<i64> = serde_json::from_value(looker.value(levels).await).unwrap();
        assert!(levels[0] == 1 && levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{hash}: {levels:?}");
    }
    looker
        .browser
        .run("document.activeElement.blur(); document.querySelector('.skip').focus()")
        .await
        .unwrap();
    let mut reached = Vec::new();
    for _ in 0..6 {
        looker.browser.press(&["Tab"]).await.unwrap();
        reached.push(
            looker.value("document.activeElement.textContent.trim() || document.activeElement.id").await,
        );
    }
    assert_eq!(
        reached,
        ["Service control plane", "Addresses", "Node ports", "Services", "Reconciles", "go-to"]
    );
    looker.end().await;
}

#[tokio::test]
async fn the_arithmetic_of_the_browser() {
    let Some(looker) = Looker::start(&[]).await else { return };
    looker.open().await;
    let model =
        |script: &str| format!("return import(location.origin + '/page/model.js').then((m) => ({script}))");
    let addresses = "['10.96.0.1', '::', '::1', 'fd00:10:96::1', '1:0:0:2::3', '2001:db8::1:0:0:1', '1:2:3:4:5:6:7:8'].filter((text) => { \
        const { family, number } = m.parseAddress(text); return m.formatAddress(family, number) !== text; })";
    assert_eq!(looker.browser.run(&model(addresses)).await.unwrap(), json!([]));
    let none = "['10.96.0', '256.1.1.1', '1::2::3', ':', 'g::1', '1:2:3:4:5:6:7:8:9', ''].filter((text) => m.parseAddress(text) !== null)";
    assert_eq!(looker.browser.run(&model(none)).await.unwrap(), json!([]));
    let parts = "(() => { const range = { cidr: 'fd00::/64', usable: '18446744073709551615', band: 256 }; \
        const space = m.addressSpace('k', range, {}, [], []); \
        return [m.window_(space), m.window_(space, 0n, 1n << 53n), m.window_(space, 0n, 512n)].map((view) => [view.cells, Number(view.bits)]); })()";
    assert_eq!(looker.browser.run(&model(parts)).await.unwrap(), json!([[2048, 53], [2048, 42], [512, 0]]));
    let shades = "[0, 1, 2, 511, 512].map((taken) => m.density(taken, 9n)).concat(m.density(1, 0n))";
    assert_eq!(looker.browser.run(&model(shades)).await.unwrap(), json!([0, 1, 1, 4, 5, 4]));
    let wrong = "(() => { const service = (name, ips) => [`d/${name}`, { ns: 'd', name, ips }]; \
        const record = (ip, name) => [ip, { ip, holder: { ns: 'd', name } }]; \
        const rows = { services: new Map([service('a', ['10.0.0.1']), service('b', ['10.0.0.2']), service('c', ['10.0.0.3']), service('e', ['10.0.0.3']), service('f', ['10.0.0.5'])]), \
            ipaddresses: new Map([record('10.0.0.1', 'a'), record('10.0.0.3', 'c'), record('10.0.0.4', 'x'), record('10.0.0.5', 'y')]) }; \
        return m.addressHolders(rows, true).map((holder) => holder.problem); })()";
    let expected = json!([null, "unrecorded", "clash", "unowned", "clash"]);
    assert_eq!(looker.browser.run(&model(wrong)).await.unwrap(), expected);
    looker.end().await;
}
