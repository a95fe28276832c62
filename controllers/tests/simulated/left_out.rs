//! Pods that have an address and are no endpoints: somebody is told why.

use service_controllers::objects::PodWire;

use crate::server::{Sim, node, pod, service};

fn on(node: &str, mut pod: PodWire) -> PodWire {
    pod.spec.node_name = node.into();
    pod
}

fn told(sim: &mut Sim) -> Vec<String> {
    sim.settle();
    std::mem::take(&mut sim.notes)
        .into_iter()
        .filter(|note| {
            note.warning
                && ["FailedToUpdateEndpointSlices", "TrafficDistributionIncomplete"].contains(&note.reason)
        })
        .map(|note| note.message)
        .collect()
}

#[test]
fn a_pod_whose_node_does_not_exist_is_told_of_once() {
    let mut sim = Sim::new(100);
    sim.pod(pod("here", "web", "10.1.0.1"));
    sim.pod(on("gone", pod("lost", "web", "10.1.0.2")));
    sim.service(service("web", "web"));
    assert_eq!(
        told(&mut sim),
        [
            "Error updating Endpoint Slices for Service default/web: skipping Pod lost for Service default/web: \
          Node gone Not Found"
        ]
    );
    assert_eq!(sim.in_slices("web"), ["10.1.0.1"]);

    // Neither another look nor a change of another pod is news.
    sim.set_ready("here", false);
    assert_eq!(told(&mut sim), Vec::<String>::new());
    sim.change_service("web", |s| s.metadata.generation += 1);
    assert_eq!(told(&mut sim), Vec::<String>::new());

    // One more is, and it alone is told of.
    sim.pod(on("gone", pod("lost-too", "web", "10.1.0.3")));
    let news = told(&mut sim);
    assert_eq!(news.len(), 1);
    assert!(news[0].contains("skipping Pod lost-too for"), "{news:?}");

    // The node comes; when it goes again, that is news again.
    sim.node(node("gone", None));
    assert_eq!(told(&mut sim), Vec::<String>::new());
    assert_eq!(sim.in_slices("web"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
    sim.nodes.remove("gone");
    sim.cluster.feed.node_deleted("gone");
    sim.change_pod("lost", |pod| pod.spec.hostname = "h".into());
    let news = told(&mut sim);
    assert_eq!(news.len(), 1);
    assert!(
        news[0].contains("skipping Pod lost for") && news[0].ends_with("and 1 more such Pods"),
        "{news:?}"
    );
}

#[test]
fn a_pod_without_a_node_is_told_of() {
    let mut sim = Sim::new(100);
    sim.pod(on("", pod("unbound", "web", "10.1.0.1")));
    sim.service(service("web", "web"));
    let news = told(&mut sim);
    assert_eq!(news.len(), 1);
    assert!(
        news[0].ends_with("skipping Pod unbound for Service default/web: it is bound to no Node"),
        "{news:?}"
    );
}

#[test]
fn pods_that_are_published_whatever_they_say_are_not_left_out() {
    let mut sim = Sim::new(100);
    sim.pod(on("gone", pod("lost", "web", "10.1.0.2")));
    let mut all = service("web", "web");
    all.spec.publish_not_ready_addresses = true;
    sim.service(all);
    assert_eq!(told(&mut sim), Vec::<String>::new());
    assert_eq!(sim.in_slices("web"), ["10.1.0.2"]);
}

#[test]
fn a_pod_without_a_node_is_left_out_and_keeps_nobody_from_being_listed() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.service(service("web", "web"));
    let mut all = service("all", "web");
    all.spec.publish_not_ready_addresses = true;
    sim.service(all);
    let mut unbound = pod("p2", "web", "10.1.0.2");
    unbound.spec.node_name = String::new();
    sim.pod(unbound);
    sim.settle();
    sim.pod(pod("p3", "web", "10.1.0.3"));
    sim.settle();
    assert_eq!(sim.in_endpoints("web"), ["10.1.0.1", "10.1.0.3"]);
    assert_eq!(sim.in_slices("web"), ["10.1.0.1", "10.1.0.3"]);
    assert_eq!(sim.in_endpoints("all"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
    let node = |ip: &str| {
        let addresses = &sim.endpoints["all"].subsets[0].addresses;
        addresses.iter().find(|a| a.ip == ip).unwrap().node_name.clone()
    };
    assert_eq!((node("10.1.0.1"), node("10.1.0.2")), (Some("n1".to_owned()), None));
}

#[test]
fn a_pod_of_a_node_that_does_not_exist_is_in_neither_object() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.pod(on("ghost", pod("p2", "web", "10.1.0.2")));
    sim.service(service("web", "web"));
    sim.settle();
    assert_eq!(
        (sim.in_endpoints("web"), sim.in_slices("web")),
        (vec!["10.1.0.1".into()], vec!["10.1.0.1".into()])
    );
    sim.node(node("ghost", None));
    sim.settle();
    assert_eq!(sim.in_endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    sim.nodes.remove("ghost");
    sim.cluster.feed.node_deleted("ghost");
    sim.settle();
    assert_eq!(sim.in_endpoints("web"), ["10.1.0.1"], "its end is noticed at once");
}

#[test]
fn hints_that_readers_ignore_are_told_of_once() {
    let mut sim = Sim::new(100);
    for i in 0..11 {
        sim.pod(pod(&format!("p{i}"), "web", &format!("10.1.0.{i}")));
    }
    sim.node(node("bare", None));
    sim.pod(on("bare", pod("odd", "web", "10.1.0.99")));
    let mut close = service("web", "web");
    close.spec.traffic_distribution = Some("PreferClose".into());
    sim.service(close);
    let news = told(&mut sim);
    assert_eq!(news.len(), 1, "{news:?}");
    assert!(
        news[0].contains("1 of 12 ready endpoints") && news[0].contains("Pod odd on Node bare"),
        "{news:?}"
    );
    sim.set_ready("p3", false);
    assert_eq!(told(&mut sim), Vec::<String>::new(), "that is no news");
    // It is over, and begins again.
    sim.set_ready("odd", false);
    assert_eq!(told(&mut sim), Vec::<String>::new());
    sim.set_ready("odd", true);
    assert_eq!(told(&mut sim).len(), 1);
    // None of them in a zone is what it is.
    sim.node(node("n1", None));
    assert_eq!(told(&mut sim), Vec::<String>::new());
}
