//! The rules of a node in the layout of kube-proxy's iptables mode, as `iptables-restore` takes them: for people who know that
//! layout, and for comparing. The proxy itself makes no iptables rules.

use std::{collections::BTreeMap, fmt::Write as _, net::IpAddr};

use data_encoding::BASE32;
use ipnet::IpNet;
use ring::digest::{SHA256, digest};
use service_api::address::Family;

use crate::{
    config::LocalTraffic,
    endpoint::{Place, ServiceKey},
    plan::{Choice, choose, from_outside, of_port},
    sync::Known,
    track::{PortInfo, ServiceInfo},
};

const HASH: usize = 16;

/// The tables `filter` and `nat` of a family.
pub fn rules(known: Known<'_>, family: Family) -> String {
    let mut text = Text::new(known, family);
    let mut services: Vec<_> = known.cluster.services().collect();
    services.sort_by_key(|(key, _)| *key);
    for (key, service) in services {
        let Some(cluster_ip) = service.cluster_ip(family) else { continue };
        for port in &service.ports {
            let endpoints = of_port(known.cluster.slices(key), port, family);
            let choice = choose(&endpoints, service, port, &known.node.info);
            Port { key, service, info: port, cluster_ip, choice: &choice }.write(&mut text);
        }
    }
    text.finish()
}

fn hash(text: &str) -> String {
    let mut encoded = BASE32.encode(digest(&SHA256, text.as_bytes()).as_ref());
    encoded.truncate(HASH);
    encoded
}

/// Rules as they come together.
struct Text<'a> {
    known: Known<'a>,
    family: Family,
    /// Chains of `nat` with their rules.
    chains: BTreeMap<String, Vec<String>>,
    services: Vec<String>,
    node_ports: Vec<String>,
    refused_services: Vec<String>,
    refused_outside: Vec<String>,
    firewall: Vec<String>,
    health: Vec<String>,
}

impl<'a> Text<'a> {
    const fn new(known: Known<'a>, family: Family) -> Self {
        Self {
            known,
            family,
            chains: BTreeMap::new(),
            services: Vec::new(),
            node_ports: Vec::new(),
            refused_services: Vec::new(),
            refused_outside: Vec::new(),
            firewall: Vec::new(),
            health: Vec::new(),
        }
    }

    /// What lets the traffic of this node's pods on, or only other traffic.
    fn pods(&self, negated: bool) -> Option<String> {
        let not = if negated { "! " } else { "" };
        match &self.known.settings.local_traffic {
            LocalTraffic::Unknown => None,
            LocalTraffic::Bridge(name) => Some(format!("{not}-i {name}")),
            LocalTraffic::InterfacePrefix(name) => Some(format!("{not}-i {name}+")),
            _ => {
                let nets = self.known.node.pod_nets(self.known.settings, self.family);
                nets.first().map(|net| format!("{not}-s {net}"))
            }
        }
    }

    fn add(&mut self, chain: &str, rule: impl Into<String>) {
        self.chains.entry(chain.to_owned()).or_default().push(rule.into());
    }

    fn finish(self) -> String {
        let mark = format!("{:#x}", self.known.settings.mark);
        let mut out = String::new();
        let own = [
            "KUBE-EXTERNAL-SERVICES",
            "KUBE-FORWARD",
            "KUBE-NODEPORTS",
            "KUBE-PROXY-FIREWALL",
            "KUBE-SERVICES",
        ];
        table(&mut out, "filter", &own);
        for (from, comment, to) in [
            ("INPUT", "kubernetes load balancer firewall", "KUBE-PROXY-FIREWALL"),
            ("INPUT", "kubernetes health check service ports", "KUBE-NODEPORTS"),
            ("INPUT", "kubernetes externally-visible service portals", "KUBE-EXTERNAL-SERVICES"),
            ("FORWARD", "kubernetes load balancer firewall", "KUBE-PROXY-FIREWALL"),
            ("FORWARD", "kubernetes forwarding rules", "KUBE-FORWARD"),
            ("FORWARD", "kubernetes service portals", "KUBE-SERVICES"),
            ("FORWARD", "kubernetes externally-visible service portals", "KUBE-EXTERNAL-SERVICES"),
            ("OUTPUT", "kubernetes load balancer firewall", "KUBE-PROXY-FIREWALL"),
            ("OUTPUT", "kubernetes service portals", "KUBE-SERVICES"),
        ] {
            let new = if to == "KUBE-NODEPORTS" || to == "KUBE-FORWARD" {
                ""
            } else {
                "-m conntrack --ctstate NEW "
            };
            let _ = writeln!(out, "-A {from} {new}-m comment --comment \"{comment}\" -j {to}");
        }
        list(&mut out, "KUBE-NODEPORTS", &self.health);
        list(&mut out, "KUBE-SERVICES", &self.refused_services);
        list(&mut out, "KUBE-EXTERNAL-SERVICES", &self.refused_outside);
        list(&mut out, "KUBE-PROXY-FIREWALL", &self.firewall);
        let _ = writeln!(out, "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP");
        let _ = writeln!(
            out,
            "-A KUBE-FORWARD -m comment --comment \"kubernetes forwarding rules\" -m mark --mark {mark}/{mark} -j ACCEPT"
        );
        let _ = writeln!(
            out,
            "-A KUBE-FORWARD -m comment --comment \"kubernetes forwarding conntrack rule\" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
        );
        out.push_str("COMMIT\n");
        let mut own = vec!["KUBE-MARK-MASQ", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-SERVICES"];
        own.extend(self.chains.keys().map(String::as_str));
        table(&mut out, "nat", &own);
        for (from, comment, to) in [
            ("PREROUTING", "kubernetes service portals", "KUBE-SERVICES"),
            ("OUTPUT", "kubernetes service portals", "KUBE-SERVICES"),
            ("POSTROUTING", "kubernetes postrouting rules", "KUBE-POSTROUTING"),
        ] {
            let _ = writeln!(out, "-A {from} -m comment --comment \"{comment}\" -j {to}");
        }
        let _ = writeln!(out, "-A KUBE-MARK-MASQ -j MARK --or-mark {mark}");
        let _ = writeln!(out, "-A KUBE-POSTROUTING -m mark ! --mark {mark}/{mark} -j RETURN");
        let _ = writeln!(out, "-A KUBE-POSTROUTING -j MARK --xor-mark {mark}");
        let _ = writeln!(
            out,
            "-A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE --random-fully"
        );
        list(&mut out, "KUBE-SERVICES", &self.services);
        list(&mut out, "KUBE-NODEPORTS", &self.node_ports);
        for (chain, rules) in &self.chains {
            list(&mut out, chain, rules);
        }
        for to in self.node_port_destinations() {
            let _ = writeln!(
                out,
                "-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\" {to} -j KUBE-NODEPORTS"
            );
        }
        out.push_str("COMMIT\n");
        out
    }

    fn node_port_destinations(&self) -> Vec<String> {
        match self.known.node.node_port_ips(self.known.settings, self.family) {
            None => vec!["-m addrtype --dst-type LOCAL".to_owned()],
            Some(ips) => ips.iter().map(|ip| format!("-d {ip}")).collect(),
        }
    }
}

fn table(out: &mut String, name: &str, chains: &[&str]) {
    let _ = writeln!(out, "*{name}");
    for chain in chains {
        let _ = writeln!(out, ":{chain} - [0:0]");
    }
}

fn list(out: &mut String, chain: &str, rules: &[String]) {
    for rule in rules {
        let _ = writeln!(out, "-A {chain} {rule}");
    }
}

fn host(ip: IpAddr) -> String {
    IpNet::from(ip).to_string()
}

/// One port of a Service.
struct Port<'a> {
    key: &'a ServiceKey,
    service: &'a ServiceInfo,
    info: &'a PortInfo,
    cluster_ip: IpAddr,
    choice: &'a Choice,
}

impl Port<'_> {
    fn name(&self) -> String {
        if self.info.name.is_empty() {
            self.key.to_string()
        } else {
            format!("{}:{}", self.key, self.info.name)
        }
    }

    fn chain(&self, prefix: &str) -> String {
        format!("KUBE-{prefix}-{}", hash(&format!("{}{}", self.name(), self.info.protocol)))
    }

    fn endpoint_chain(&self, place: Place) -> String {
        format!("KUBE-SEP-{}", hash(&format!("{}{}{place}", self.name(), self.info.protocol)))
    }

    fn comment(&self, what: &str) -> String {
        format!("-m comment --comment \"{}{}{what}\"", self.name(), if what.is_empty() { "" } else { " " })
    }

    fn to_port(&self, number: u16) -> String {
        let protocol = self.info.protocol;
        format!("-m {protocol} -p {protocol} --dport {number}")
    }

    fn to(&self, ip: IpAddr) -> String {
        let protocol = self.info.protocol;
        format!("-m {protocol} -p {protocol} -d {} --dport {}", host(ip), self.info.port)
    }

    fn of_family(&self, ips: &[IpAddr]) -> Vec<IpAddr> {
        ips.iter().copied().filter(|ip| Family::of(*ip) == Family::of(self.cluster_ip)).collect()
    }

    fn write(&self, text: &mut Text<'_>) {
        let (svc, svl) = (self.chain("SVC"), self.chain("SVL"));
        for (chain, places) in [(&svc, &self.choice.cluster), (&svl, &self.choice.local)] {
            self.spread(text, chain, places);
        }
        let local_only = self.service.internal_local;
        let inside = match (local_only, self.choice.local.is_empty()) {
            (true, true) => None,
            (true, false) => Some(svl.clone()),
            (false, _) => self.choice.any.then(|| svc.clone()),
        };
        let what = if self.choice.any { "has no local endpoints" } else { "has no endpoints" };
        let refusal = if self.choice.any { "DROP" } else { "REJECT" };
        match &inside {
            Some(chain) => {
                let comment = self.comment("cluster IP");
                text.services.push(format!("{comment} {} -j {chain}", self.to(self.cluster_ip)));
                self.masquerade(text, chain);
            }
            None => text.refused_services.push(format!(
                "{} {} -j {refusal}",
                self.comment(what),
                self.to(self.cluster_ip)
            )),
        }
        if from_outside(self.service, self.info) {
            self.outside(text, &svc, &svl, (what, refusal));
        }
        if let Some(port) = self.service.health_port {
            let comment = self.comment("health check node port");
            text.health.push(format!("{comment} -m tcp -p tcp --dport {port} -j ACCEPT"));
        }
    }

    fn masquerade(&self, text: &mut Text<'_>, chain: &str) {
        let all = text.known.settings.masquerade_all;
        let from = if all { Some(String::new()) } else { text.pods(true).map(|from| format!("{from} ")) };
        if let Some(from) = from {
            let rule = format!(
                "{} {} {from}-j KUBE-MARK-MASQ",
                self.comment("cluster IP"),
                self.to(self.cluster_ip)
            );
            text.chains.entry(chain.to_owned()).or_default().insert(0, rule);
        }
    }

    fn spread(&self, text: &mut Text<'_>, chain: &str, places: &[Place]) {
        let seconds = self.service.affinity;
        for place in places.iter().filter(|_| seconds.is_some()) {
            let (to, seconds) = (self.endpoint_chain(*place), seconds.unwrap_or_default());
            let comment = self.comment(&format!("-> {place}"));
            text.add(
                chain,
                format!("{comment} -m recent --name {to} --rcheck --seconds {seconds} --reap -j {to}"),
            );
        }
        for (i, place) in places.iter().enumerate() {
            let (to, comment) = (self.endpoint_chain(*place), self.comment(&format!("-> {place}")));
            let left = u32::try_from(places.len() - i).unwrap_or(u32::MAX);
            let chance = if left > 1 {
                format!("-m statistic --mode random --probability {:.10} ", 1.0 / f64::from(left))
            } else {
                String::new()
            };
            text.add(chain, format!("{comment} {chance}-j {to}"));
            self.endpoint(text, *place);
        }
    }

    fn endpoint(&self, text: &mut Text<'_>, place: Place) {
        let chain = self.endpoint_chain(place);
        if text.chains.contains_key(&chain) {
            return;
        }
        let comment = self.comment("");
        text.add(&chain, format!("{comment} -s {} -j KUBE-MARK-MASQ", host(place.ip)));
        let recent = if self.service.affinity.is_some() {
            format!("-m recent --name {chain} --set ")
        } else {
            String::new()
        };
        let protocol = self.info.protocol;
        text.add(
            &chain,
            format!("{comment} {recent}-m {protocol} -p {protocol} -j DNAT --to-destination {place}"),
        );
    }

    fn outside(&self, text: &mut Text<'_>, svc: &str, svl: &str, (what, refusal): (&str, &str)) {
        let ext = self.chain("EXT");
        let local = self.service.external_local;
        let refused = !self.choice.any || (local && self.choice.local.is_empty());
        let (external, vips) =
            (self.of_family(&self.service.external_ips), self.of_family(&self.service.vips));
        if self.choice.any {
            self.external_chain(text, &ext, svc, svl);
            for ip in &external {
                text.services.push(format!("{} {} -j {ext}", self.comment("external IP"), self.to(*ip)));
            }
            let guarded = self.firewall(text, &vips, &ext);
            for ip in &vips {
                let comment = self.comment("loadbalancer IP");
                text.services.push(format!("{comment} {} -j {guarded}", self.to(*ip)));
            }
            if let Some(port) = self.info.node_port {
                text.node_ports.push(format!("{} {} -j {ext}", self.comment(""), self.to_port(port)));
            }
        }
        if refused {
            for ip in external.iter().chain(&vips) {
                let rule = format!("{} {} -j {refusal}", self.comment(what), self.to(*ip));
                text.refused_outside.push(rule);
            }
            if let Some(port) = self.info.node_port {
                let to = format!("-m addrtype --dst-type LOCAL {}", self.to_port(port));
                text.refused_outside.push(format!("{} {to} -j {refusal}", self.comment(what)));
            }
        }
    }

    fn external_chain(&self, text: &mut Text<'_>, ext: &str, svc: &str, svl: &str) {
        let about =
            |what: &str| format!("-m comment --comment \"{what} for {} external destinations\"", self.name());
        if !self.service.external_local {
            text.add(ext, format!("{} -j KUBE-MARK-MASQ", about("masquerade traffic")));
            text.add(ext, format!("-j {svc}"));
            return;
        }
        if let Some(pods) = text.pods(false) {
            text.add(ext, format!("{} {pods} -j {svc}", about("pod traffic")));
        }
        let from_node = "-m addrtype --src-type LOCAL";
        text.add(ext, format!("{} {from_node} -j KUBE-MARK-MASQ", about("masquerade LOCAL traffic")));
        text.add(ext, format!("{} {from_node} -j {svc}", about("route LOCAL traffic")));
        if !self.choice.local.is_empty() {
            text.add(ext, format!("-j {svl}"));
        }
    }

    /// The chain that traffic to a load balancer's address goes to.
    fn firewall(&self, text: &mut Text<'_>, vips: &[IpAddr], ext: &str) -> String {
        let family = Family::of(self.cluster_ip);
        let nets: Vec<_> =
            self.service.source_ranges.iter().filter(|net| Family::of(net.addr()) == family).collect();
        if vips.is_empty() || nets.is_empty() || nets.iter().any(|net| net.prefix_len() == 0) {
            return ext.to_owned();
        }
        let chain = self.chain("FW");
        let comment = self.comment("loadbalancer IP");
        let mut allows_node = false;
        for net in nets {
            text.add(&chain, format!("{comment} -s {net} -j {ext}"));
            allows_node |= text.known.node.info.primary(family).is_some_and(|ip| net.contains(&ip));
        }
        for ip in vips.iter().filter(|_| allows_node) {
            text.add(&chain, format!("{comment} -s {} -j {ext}", host(*ip)));
        }
        let dropped = format!("other traffic to {} will be dropped by KUBE-PROXY-FIREWALL", self.name());
        text.add(&chain, format!("-m comment --comment \"{dropped}\""));
        for ip in vips {
            let comment = self.comment(&format!("traffic not accepted by {chain}"));
            text.firewall.push(format!("{comment} {} -j DROP", self.to(*ip)));
        }
        chain
    }
}
