use std::time::{Duration, Instant};

use serde_json::json;
use service_api::address::Family;

use super::*;
use crate::{
    nft::{
        fake::{FakeError, FakeKernel},
        wire::Snapshot,
    },
    track::Seen,
};

/// A fake kernel that can be told to refuse.
#[derive(Debug, Default)]
struct Fake {
    kernel: FakeKernel,
    generation: u32,
    /// Steps whose text has this are refused.
    refuses: Option<String>,
    /// The next transaction finds the table changed.
    differs: bool,
    transactions: Vec<usize>,
}

impl Kernel for Fake {
    fn apply(&mut self, ops: &[Op], _: Family) -> Result<usize, RunError> {
        let source = || std::io::Error::from_raw_os_error(22);
        if std::mem::take(&mut self.differs) {
            return Err(RunError::Differs { step: String::new(), needs: None, source: source() });
        }
        let bad = |op: &&Op| self.refuses.as_ref().is_some_and(|text| format!("{op:?}").contains(text));
        if let Some(op) = ops.iter().find(bad) {
            return Err(RunError::Refused { step: format!("{op:?}"), source: source() });
        }
        self.kernel.apply(ops).map_err(|error: FakeError| panic!("{error} in {ops:#?}")).unwrap();
        self.generation += 1;
        self.transactions.push(ops.len());
        Ok(ops.len())
    }

    fn read(&mut self, _: Family) -> Result<Snapshot, RunError> {
        // Looks at real tables are tested in a real kernel; here there is none yet.
        self.kernel = FakeKernel::default();
        Ok(Snapshot::default())
    }

    fn generation(&mut self) -> Result<u32, RunError> {
        Ok(self.generation)
    }
}

struct Fixture {
    cluster: Cluster,
    node: NodeView,
    settings: RuleSettings,
    syncer: Syncer<Fake>,
    now: Instant,
}

impl Fixture {
    fn new() -> Self {
        Self {
            cluster: Cluster::new("one"),
            node: NodeView::default(),
            settings: RuleSettings::default(),
            syncer: Syncer::new(Fake::default(), &[Family::V4]),
            now: Instant::now(),
        }
    }

    fn put(&mut self, n: usize, endpoints: usize) {
        let name = format!("s{n:05}");
        let service = json!({"metadata": {"namespace": "demo", "name": name}, "spec": {"type": "NodePort",
            "clusterIPs": [format!("10.96.{}.{}", n / 250, n % 250)], "ports": [{"port": 80, "nodePort": 30000 + n % 2000}]}});
        let endpoints: Vec<_> = (0..endpoints)
            .map(|e| json!({"addresses": [format!("10.{}.{}.{e}", n / 250, n % 250)]}))
            .collect();
        let slice = json!({"metadata": {"namespace": "demo", "name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints});
        let mut touched = self.cluster.on_service(Seen::Object(serde_json::from_value(service).unwrap()));
        touched.merge(self.cluster.on_slice(Seen::Object(serde_json::from_value(slice).unwrap())));
        self.touch(&touched);
    }

    fn drop_service(&mut self, n: usize) {
        let gone = json!({"metadata": {"namespace": "demo", "name": format!("s{n:05}")}});
        let touched = self.cluster.on_service(Seen::Gone(serde_json::from_value(gone).unwrap()));
        self.touch(&touched);
    }

    fn touch(&mut self, touched: &Touched) {
        let known = Known { cluster: &self.cluster, node: &self.node, settings: &self.settings };
        self.syncer.touch(touched, known);
    }

    fn settle(&mut self) -> Report {
        let mut report = Report::default();
        for _ in 0..1000 {
            if !self.syncer.has_work(self.now) {
                return report;
            }
            let known = Known { cluster: &self.cluster, node: &self.node, settings: &self.settings };
            report.merge(self.syncer.step(known, self.now));
        }
        panic!("it does not settle: {report:?}");
    }

    fn later(&mut self, seconds: u64) -> Report {
        self.now += Duration::from_secs(seconds);
        let mut report = self.syncer.overdue(self.now);
        report.merge(self.settle());
        report
    }

    fn chains(&self) -> usize {
        self.syncer.kernel.kernel.chains.keys().filter(|name| name.contains('/')).count()
    }
}

#[test]
fn transactions_are_capped_and_a_change_costs_what_it_touches() {
    let mut fixture = Fixture::new();
    for n in 0..1000 {
        fixture.put(n, 3);
    }
    fixture.settle();
    let largest = *fixture.syncer.kernel.transactions.iter().max().unwrap();
    assert!(largest < 2 * STEPS, "{largest}");
    assert_eq!(fixture.chains(), 2000);
    fixture.put(7, 2);
    let report = fixture.settle();
    assert_eq!((report.transactions, report.steps), (1, 2));
}

#[test]
fn what_all_services_share_changes_without_any_of_them() {
    let mut fixture = Fixture::new();
    fixture.put(1, 2);
    fixture.settle();
    let cidr = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}});
    let touched = fixture.cluster.on_cidr(Seen::Object(serde_json::from_value(cidr).unwrap()));
    fixture.touch(&touched);
    assert!(fixture.settle().steps > 0, "unallocated addresses of the new range are dropped");
    let touched = fixture.cluster.on_cidr(Seen::ListEnds);
    fixture.touch(&touched);
    assert_eq!(fixture.settle().steps, 0);
}

#[test]
fn a_service_comes_and_goes_and_its_chains_go_a_little_later() {
    let mut fixture = Fixture::new();
    fixture.put(1, 2);
    fixture.settle();
    fixture.put(2, 2);
    // Two chains with three rules, and elements for the cluster IP, the Service and the node port.
    assert_eq!(fixture.settle().steps, 2 + 3 + 3);
    fixture.drop_service(2);
    assert_eq!(fixture.settle().steps, 3 + 2);
    assert_eq!(fixture.chains(), 4);
    assert!(fixture.syncer.due().is_some());
    assert_eq!(fixture.later(2).steps, 2);
    assert_eq!(fixture.chains(), 2);
}

#[test]
fn a_chain_that_comes_back_in_time_stays() {
    let mut fixture = Fixture::new();
    fixture.put(1, 2);
    fixture.settle();
    fixture.drop_service(1);
    fixture.settle();
    fixture.put(1, 2);
    fixture.settle();
    fixture.later(2);
    assert_eq!(fixture.chains(), 2);
}

#[test]
fn one_that_is_refused_does_not_stop_the_others() {
    let mut fixture = Fixture::new();
    fixture.put(0, 1);
    fixture.settle();
    fixture.syncer.kernel.refuses = Some("demo/s00002".to_owned());
    for n in 1..4 {
        fixture.put(n, 1);
    }
    let report = fixture.settle();
    assert_eq!(report.refused.len(), 1);
    assert_eq!(report.refused[0].0.as_str(), "demo/s00002");
    assert_eq!(fixture.chains(), 6);
    // It is tried again, ever more rarely.
    assert_eq!(fixture.later(1).refused.len(), 1);
    assert!(fixture.later(1).refused.is_empty());
    fixture.syncer.kernel.refuses = None;
    assert!(fixture.later(1).refused.is_empty());
    assert_eq!(fixture.chains(), 8);
}

#[test]
fn at_the_start_too() {
    let mut fixture = Fixture::new();
    fixture.syncer.kernel.refuses = Some("demo/s00002".to_owned());
    for n in 0..4 {
        fixture.put(n, 1);
    }
    assert_eq!(fixture.settle().refused.len(), 1);
    assert_eq!(fixture.chains(), 6);
}

#[test]
fn a_table_that_somebody_changed_is_looked_at_and_made_right() {
    let mut fixture = Fixture::new();
    fixture.put(1, 1);
    fixture.settle();
    fixture.put(2, 1);
    fixture.syncer.kernel.differs = true;
    let report = fixture.settle();
    assert!(matches!(report.stopped, Some(RunError::Differs { .. })));
    assert_eq!(fixture.chains(), 4);
    assert!(!fixture.syncer.suspect().unwrap());
    fixture.syncer.kernel.generation += 1;
    assert!(fixture.syncer.suspect().unwrap());
}

#[test]
fn two_services_with_one_node_port_are_taken_by_the_kernel() {
    let mut fixture = Fixture::new();
    fixture.put(5, 1);
    fixture.put(2005, 1);
    fixture.settle();
    fixture.drop_service(5);
    fixture.settle();
    let elements = &fixture.syncer.kernel.kernel.elements;
    let node_port =
        elements.values().find(|element| element.container.name() == "service-nodeports").unwrap();
    assert!(format!("{:?}", node_port.verdict).contains("s02005"), "{node_port:?}");
}
