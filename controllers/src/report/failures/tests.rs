use super::*;
use crate::controller::Controller;

const PODS: Subject = Subject::Watch(ObjectKind::Pods);
const NODES: Subject = Subject::Watch(ObjectKind::Nodes);

fn key(name: &str) -> Subject {
    Subject::Key(Key { controller: Controller::Slices, namespace: "n".into(), name: name.into() })
}

fn denied() -> Cause {
    Cause::Denied("create endpointslices.discovery.k8s.io".into())
}

/// Failures at seconds since the beginning.
struct Story {
    failures: Failures,
    begun: Instant,
}

impl Story {
    fn new() -> Self {
        Self { failures: Failures::default(), begun: Instant::now() }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.begun + Duration::from_secs(seconds)
    }

    fn failed(&mut self, seconds: u64, subject: &Subject, cause: Cause) -> FailureReport {
        let now = self.at(seconds);
        self.failures.failed(subject, &[cause], now)
    }

    fn says(&mut self, seconds: u64, subject: &Subject, cause: Cause) -> Say {
        let told = self.failed(seconds, subject, cause);
        assert_eq!(told.over, []);
        told.say[0]
    }

    fn works(&mut self, seconds: u64, subject: &Subject) -> Vec<Over> {
        let now = self.at(seconds);
        self.failures.works(subject, now)
    }
}

#[test]
fn an_outage_is_told_once_for_all_and_its_end_with_how_long_it_was() {
    let mut story = Story::new();
    assert_eq!(story.says(0, &PODS, Cause::Unreachable), Say::Begins);
    for seconds in 1..40 {
        for subject in [&PODS, &NODES, &Subject::Lease("lock".into()), &key("web")] {
            assert_eq!(story.says(seconds, subject, Cause::Unreachable), Say::Quiet);
        }
    }
    let over = story.works(43, &NODES);
    let span = Span { lasted: Duration::from_secs(43), tries: 157, affected: 4 };
    assert_eq!(over, [Over { subject: None, carried_out: true, cause: Cause::Unreachable, span }]);
    assert_eq!(story.works(44, &PODS), []);
    assert_eq!(story.says(200, &PODS, Cause::Unreachable), Say::Begins, "the next one is told again");
}

#[test]
fn what_comes_and_goes_is_told_once_and_then_summed_up() {
    let mut story = Story::new();
    let unwell = || Cause::Unwell("etcdserver: request timed out".into());
    assert_eq!(story.says(0, &key("a"), unwell()), Say::Begins);
    assert_eq!(story.works(1, &key("a")).len(), 1);
    for seconds in (20..300).step_by(20) {
        assert_eq!(story.says(seconds, &key("b"), unwell()), Say::Quiet);
        assert_eq!(story.works(seconds + 1, &key("b")), []);
    }
    let span = Span { lasted: Duration::from_mins(5), tries: 16, affected: 1 };
    assert_eq!(story.says(300, &key("c"), unwell()), Say::Lasts(span));
    assert_eq!(story.works(301, &key("c")), []);
}

#[test]
fn an_outage_soon_after_another_is_told_when_it_stays() {
    let mut story = Story::new();
    story.says(0, &PODS, Cause::Unreachable);
    assert_eq!(story.works(5, &PODS).len(), 1);
    assert_eq!(story.says(30, &PODS, Cause::Unreachable), Say::Quiet);
    assert_eq!(story.says(39, &NODES, Cause::Unreachable), Say::Quiet);
    assert_eq!(story.says(40, &PODS, Cause::Unreachable), Say::Begins);
    let over = story.works(70, &PODS);
    assert_eq!((over.len(), over[0].span.lasted), (1, Duration::from_secs(40)));
}

#[test]
fn a_refusal_ends_an_outage_and_is_told_itself() {
    let mut story = Story::new();
    story.says(0, &PODS, Cause::Unreachable);
    let told = story.failed(9, &NODES, Cause::Denied("list nodes".into()));
    assert_eq!(told.say, [Say::Begins]);
    assert_eq!(told.over.len(), 1);
    assert_eq!(told.over[0].cause, Cause::Unreachable);
}

#[test]
fn a_connection_that_breaks_off_once_is_not_worth_a_line() {
    let mut story = Story::new();
    for seconds in [0, 60, 120] {
        assert_eq!(story.says(seconds, &PODS, Cause::Broken), Say::Quiet);
        assert_eq!(story.works(seconds + 1, &PODS), []);
    }
    assert_eq!(story.says(180, &PODS, Cause::Broken), Say::Quiet);
    assert_eq!(story.says(181, &PODS, Cause::Broken), Say::Begins);
}

#[test]
fn what_is_usual_has_no_end_to_tell_unless_it_lasted() {
    let mut story = Story::new();
    assert_eq!(story.says(0, &PODS, Cause::Expired), Say::Begins);
    assert_eq!(story.works(1, &PODS), []);
    assert_eq!(story.says(2, &PODS, Cause::Expired), Say::Begins);
    assert!(matches!(story.says(302, &PODS, Cause::Expired), Say::Lasts(_)));
    assert_eq!(story.works(303, &PODS).len(), 1);
}

#[test]
fn what_lasts_is_told_again_with_what_it_came_to() {
    let mut story = Story::new();
    assert_eq!(story.says(0, &key("a"), denied()), Say::Begins);
    assert_eq!(story.says(1, &key("b"), denied()), Say::Quiet);
    assert_eq!(story.says(299, &key("a"), denied()), Say::Quiet);
    let span = Span { lasted: Duration::from_mins(5), tries: 4, affected: 2 };
    assert_eq!(story.says(300, &key("b"), denied()), Say::Lasts(span));
    assert_eq!(story.says(301, &key("b"), denied()), Say::Quiet);
    assert_eq!(story.works(400, &key("a")), [], "one of two is not the end");
    assert_eq!(story.works(401, &key("b"))[0].span.affected, 2);
}

#[test]
fn another_cause_is_told_at_once_and_each_subject_has_its_own() {
    let mut story = Story::new();
    let rejected = |text: &str| Cause::Rejected(text.into());
    assert_eq!(story.says(0, &key("a"), rejected("port")), Say::Begins);
    assert_eq!(story.says(1, &key("a"), rejected("port")), Say::Quiet);
    assert_eq!(story.says(2, &key("a"), rejected("zone")), Say::Begins);
    assert_eq!(story.says(3, &key("b"), rejected("zone")), Say::Begins);
    assert_eq!(story.says(4, &PODS, Cause::Expired), Say::Begins);
    assert_eq!(story.says(4, &NODES, Cause::Expired), Say::Begins);
    let over = story.works(5, &key("a"));
    assert_eq!((over.len(), &over[0].cause), (1, &rejected("zone")), "the other one was left before");
}

#[test]
fn an_outage_does_not_end_what_was_there_before() {
    let mut story = Story::new();
    assert_eq!(story.says(0, &key("a"), denied()), Say::Begins);
    assert_eq!(story.says(10, &key("a"), Cause::Unreachable), Say::Begins);
    assert!(!story.failed(20, &key("a"), denied()).news);
    assert_eq!(story.says(21, &key("a"), denied()), Say::Quiet);
}

#[test]
fn several_writes_at_a_time_are_one_round() {
    let mut story = Story::new();
    let now = story.begun;
    let causes = [denied(), Cause::Overtaken, denied(), Cause::Overtaken];
    let told = story.failures.failed(&key("a"), &causes, now);
    assert_eq!(told.say, [Say::Begins, Say::Quiet, Say::Quiet, Say::Quiet]);
    assert!(told.news);
    for _ in 0..6 {
        let told = story.failures.failed(&key("a"), &causes, now);
        assert_eq!(told.say, [Say::Quiet; 4]);
        assert!(!told.news);
    }
    let told = story.failures.failed(&key("a"), &causes, now);
    assert_eq!(told.say[1], Say::Begins, "overtaken in eight rounds");
}

#[test]
fn a_person_is_told_before_the_last_event_is_forgotten() {
    let mut story = Story::new();
    let mut told = (0..=60).filter(|minute| story.failed(minute * 60, &key("a"), denied()).news);
    assert_eq!((told.next(), told.next(), told.next()), (Some(0), Some(30), Some(60)));
}

#[test]
fn a_service_that_is_deleted_is_no_recovery() {
    let mut story = Story::new();
    story.says(0, &key("a"), denied());
    story.says(0, &key("b"), denied());
    story.says(0, &key("b"), Cause::Unreachable);
    let now = story.at(1);
    assert_eq!(story.failures.rests(&key("a"), now), []);
    let moot = story.failures.rests(&key("b"), now);
    assert!(matches!(&moot[..], [Over { carried_out: false, cause: Cause::Denied(_), .. }]), "{moot:?}");
    let over = story.works(2, &PODS);
    assert_eq!((over.len(), &over[0].cause), (1, &Cause::Unreachable), "only an answer ends an outage");
}

#[test]
fn who_fails_alone_is_not_looked_at_for_another_and_is_forgotten_when_gone() {
    const MANY: usize = 1000;
    let mut story = Story::new();
    let names: Vec<String> = (0..MANY).map(|i| format!("web-{i}")).collect();
    for name in &names {
        assert_eq!(story.says(0, &key(name), Cause::Rejected(format!("quota of {name}"))), Say::Begins);
    }
    story.failures.looked_at = 0;
    assert_eq!(story.works(1, &key("well")), []);
    assert_eq!(story.failures.answered(story.begun), []);
    assert_eq!(story.failures.looked_at, 0);
    assert_eq!(story.works(1, &key("web-7")).len(), 1);
    assert_eq!(story.failures.looked_at, 1);
    for name in &names {
        let now = story.at(2);
        let moot = story.failures.rests(&key(name), now);
        assert!(moot.iter().all(|over| !over.carried_out) && moot.len() == usize::from(name != "web-7"));
    }
    assert!(story.failures.own.is_empty() && story.failures.shared.is_empty());
}

#[test]
fn a_trouble_that_is_over_because_the_last_one_fails_for_something_else_has_its_end_told() {
    let mut story = Story::new();
    assert_eq!(story.says(0, &key("a"), denied()), Say::Begins);
    assert_eq!(story.says(0, &key("b"), denied()), Say::Quiet);
    assert_eq!(story.works(1, &key("a")), [], "one of two is not the end");
    let told = story.failed(2, &key("b"), Cause::Rejected("port".into()));
    let span = Span { lasted: Duration::from_secs(2), tries: 2, affected: 2 };
    assert_eq!(told.over, [Over { subject: None, carried_out: true, cause: denied(), span }]);
    assert_eq!(told.say, [Say::Begins]);
}

#[test]
fn who_is_gone_is_forgotten_while_nothing_is_answered() {
    let mut story = Story::new();
    for i in 0..100 {
        let (subject, now) = (key(&format!("web-{i}")), story.at(i));
        story.failed(i, &subject, Cause::Unreachable);
        assert_eq!(story.failures.rests(&subject, now), []);
    }
    assert!(story.failures.shared[&Cause::Unreachable].affected.is_empty());
    assert_eq!(story.works(100, &PODS).len(), 1, "the silence was there until now");
}
