//! Simulated pods by the clock: containers, probes, gates, deadlines and deletion.

use rstest::rstest;
use serde_json::json;
use service_api::address::Family;

use super::super::probes::ProbeKind;
use super::super::probing::{Due, Found};
use super::super::simulated_node::{Settings, simulated_nodes};
use super::*;

fn pod(annotations: &[(&str, &str)], container: Value) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|(name, value)| (format!("{PREFIX}{name}"), json!(value))).collect();
    let mut container = container;
    container["name"] = json!("c");
    json!({"metadata": {"name": "p", "uid": "u", "annotations": annotations}, "spec": {"containers": [container]}})
}

fn look(pod: &Value, millis: i64) -> Moment {
    let simulated =
        &simulated_nodes(&Settings { count: 1, ..Settings::default() }, &[Family::V4]).unwrap()[0];
    let start = Timestamp::UNIX_EPOCH;
    at(pod, simulated, (&["10.244.1.2".parse().unwrap()], start), None, after(start, millis))
}

fn ready(moment: &Moment) -> bool {
    moment.status["conditions"][2]["status"] == "True"
}

fn next(moment: &Moment) -> Option<i64> {
    moment.next.map(Timestamp::as_millisecond)
}

#[test]
fn a_plain_pod_starts_and_is_ready_at_once() {
    let plain = pod(&[], json!({}));
    let creating = look(&plain, 0);
    assert_eq!(creating.status["phase"], json!("Pending"));
    assert_eq!(creating.status["podIPs"], json!([{"ip": "10.244.1.2"}]));
    assert_eq!((ready(&creating), next(&creating)), (false, Some(1000)));
    let running = look(&plain, 1000);
    assert_eq!(
        (running.status["phase"].clone(), ready(&running), next(&running)),
        (json!("Running"), true, None)
    );
    assert_eq!(running.status["conditions"][2]["lastTransitionTime"], json!("1970-01-01T00:00:01Z"));
}

#[rstest]
#[case(&[("ready-after", "5s")], json!({}), 6000)]
#[case(&[], json!({"readinessProbe": {"initialDelaySeconds": 3, "httpGet": {"path": "/"}}}), 4000)]
#[case(&[("start-after", "500ms")], json!({}), 500)]
fn readiness_takes_its_time(
    #[case] annotations: &[(&str, &str)],
    #[case] container: Value,
    #[case] when: i64,
) {
    let pod = pod(annotations, container);
    assert!(!ready(&look(&pod, when - 1)));
    assert!(ready(&look(&pod, when)));
    assert_eq!(look(&pod, when).status, look(&pod, when + 60_000).status);
}

fn counts(moment: &Moment) -> Vec<(&str, i64)> {
    moment.happened.iter().map(|event| (event.key.as_str(), event.count)).collect()
}

#[test]
fn a_probe_that_can_not_pass_is_counted() {
    let pod = pod(&[], json!({"readinessProbe": {"periodSeconds": 5, "httpGet": {"path": "/nope"}}}));
    for (millis, count, wake) in [(1000, 0, 2000), (2000, 1, 7000), (6999, 1, 7000), (7000, 2, 12_000)] {
        let moment = look(&pod, millis);
        assert!(!ready(&moment));
        let expected = if count == 0 { vec![] } else { vec![("unhealthy.readiness.c", count)] };
        assert_eq!((counts(&moment), next(&moment)), (expected, Some(wake)));
    }
    let told = &look(&pod, 2000).happened[0];
    assert_eq!(told.message, "Readiness probe failed: HTTP probe failed with statuscode: 404");
    assert_eq!(told.path, json!("spec.containers{c}"));
}

/// A pod of `spec`, its conditions being `conditions`.
fn whole(spec: &Value, conditions: &Value) -> Value {
    json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": {"conditions": conditions}})
}

fn condition(moment: &Moment, kind: &str) -> (String, String, String) {
    let conditions = moment.status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn told(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

const GATE: &str = "example.com/lb-attached";

#[rstest]
#[case::missing(json!([]), told("False", "ReadinessGatesNotReady",
    "corresponding condition of pod readiness gate \"example.com/lb-attached\" does not exist."))]
#[case::unmet(json!([{"type": GATE, "status": "False"}]), told("False", "ReadinessGatesNotReady",
    "the status of pod readiness gate \"example.com/lb-attached\" is not \"True\", but False"))]
#[case::met(json!([{"type": GATE, "status": "True"}]), told("True", "", ""))]
fn a_gate_holds_a_pod_back(#[case] conditions: Value, #[case] expected: (String, String, String)) {
    let spec = json!({"readinessGates": [{"conditionType": GATE}], "containers": [{"name": "c"}]});
    let moment = look(&whole(&spec, &conditions), 5000);
    assert_eq!(condition(&moment, "Ready"), expected);
    assert_eq!(condition(&moment, "ContainersReady"), told("True", "", ""));
    assert_eq!(moment.status["containerStatuses"][0]["ready"], json!(true));
}

#[test]
fn one_container_of_two_is_ready() {
    let failing = json!({"httpGet": {"path": "/fail"}, "periodSeconds": 1});
    let spec = json!({"containers": [{"name": "a"}, {"name": "b", "readinessProbe": failing}]});
    let moment = look(&whole(&spec, &json!([])), 5000);
    let unready = told("False", "ContainersNotReady", "containers with unready status: [b]");
    assert_eq!(condition(&moment, "Ready"), unready);
    assert_eq!(condition(&moment, "ContainersReady"), unready);
    let statuses = &moment.status["containerStatuses"];
    assert_eq!((&statuses[0]["ready"], &statuses[1]["ready"]), (&json!(true), &json!(false)));
}

#[test]
fn a_sidecar_counts_as_its_own_probe_says() {
    let failing = json!({"httpGet": {"path": "/fail"}, "periodSeconds": 1});
    let sidecar = json!({"name": "proxy", "restartPolicy": "Always", "readinessProbe": failing});
    let spec = json!({"initContainers": [sidecar], "containers": [{"name": "c"}]});
    let moment = look(&whole(&spec, &json!([])), 5000);
    assert_eq!(moment.status["phase"], json!("Running"));
    assert_eq!(
        condition(&moment, "Ready"),
        told("False", "ContainersNotReady", "containers with unready status: [proxy]")
    );
    assert_eq!(condition(&moment, "Initialized"), told("True", "", ""));
    let proxy = &moment.status["initContainerStatuses"][0];
    assert_eq!((&proxy["started"], &proxy["ready"]), (&json!(true), &json!(false)));
    assert_eq!(moment.status["containerStatuses"][0]["ready"], json!(true));
    assert_eq!(moment.happened[0].path, json!("spec.initContainers{proxy}"));
}

#[test]
fn a_sidecar_that_never_starts_holds_the_others_back() {
    let failing = json!({"httpGet": {"path": "/fail"}, "periodSeconds": 1, "failureThreshold": 300});
    let sidecar = json!({"name": "proxy", "restartPolicy": "Always", "startupProbe": failing});
    let spec = json!({"initContainers": [sidecar], "containers": [{"name": "c"}]});
    let moment = look(&whole(&spec, &json!([])), 20_000);
    assert_eq!(moment.status["phase"], json!("Pending"));
    assert_eq!(
        condition(&moment, "Initialized"),
        told("False", "ContainersNotInitialized", "containers with incomplete status: [proxy]")
    );
    assert_eq!(moment.status["containerStatuses"][0]["state"]["waiting"]["reason"], json!("PodInitializing"));
}

#[test]
fn a_container_that_never_starts_is_not_ready() {
    let failing = json!({"httpGet": {"path": "/fail"}, "periodSeconds": 1, "failureThreshold": 300});
    let spec = json!({"containers": [{"name": "c", "startupProbe": failing}]});
    let moment = look(&whole(&spec, &json!([])), 5000);
    let status = &moment.status["containerStatuses"][0];
    assert_eq!((&status["started"], &status["ready"]), (&json!(false), &json!(false)));
    assert_eq!(condition(&moment, "Ready").1, "ContainersNotReady");
    assert_eq!(moment.happened[0].message, "Startup probe failed: HTTP probe failed with statuscode: 404");
    assert_eq!(counts(&moment), [("unhealthy.startup.c", 4)]);
}

#[test]
fn a_liveness_probe_that_fails_restarts_its_container() {
    let failing = json!({"httpGet": {"path": "/fail"}, "periodSeconds": 1, "failureThreshold": 3});
    let pod =
        whole(&json!({"containers": [{"name": "c", "livenessProbe": failing}, {"name": "d"}]}), &json!([]));
    assert!(ready(&look(&pod, 3999)));
    let killed = look(&pod, 4000);
    assert!(!ready(&killed));
    let status = &killed.status["containerStatuses"];
    assert_eq!(status[0]["state"]["terminated"]["exitCode"], json!(137));
    assert_eq!((&status[0]["ready"], &status[1]["ready"]), (&json!(false), &json!(true)));
    assert_eq!(counts(&killed), [("unhealthy.liveness.c", 3), ("killing.liveness.c", 1)]);
    assert_eq!(killed.happened[1].message, "Container c failed liveness probe, will be restarted");
    let again = look(&pod, 5000);
    assert!(ready(&again));
    let status = &again.status["containerStatuses"];
    assert_eq!((&status[0]["restartCount"], &status[1]["restartCount"]), (&json!(1), &json!(0)));
    assert_eq!(status[0]["lastState"]["terminated"]["exitCode"], json!(137));
    let backing_off = &look(&pod, 8000).status["containerStatuses"][0];
    assert_eq!(backing_off["state"]["waiting"]["reason"], json!("CrashLoopBackOff"));
}

#[test]
fn init_containers_run_one_after_another() {
    let spec = json!({"initContainers": [{"name": "one"}, {"name": "two"}], "containers": [{"name": "c"}]});
    let mut pod = whole(&spec, &json!([]));
    let first = look(&pod, 1000);
    assert_eq!((first.status["phase"].clone(), next(&first)), (json!("Pending"), Some(1500)));
    assert_eq!(
        condition(&first, "Initialized"),
        told("False", "ContainersNotInitialized", "containers with incomplete status: [one two]")
    );
    let second = look(&pod, 1500);
    let statuses = &second.status["initContainerStatuses"];
    assert_eq!(statuses[0]["state"]["terminated"]["reason"], json!("Completed"));
    assert_eq!((&statuses[0]["ready"], &statuses[1]["ready"]), (&json!(true), &json!(false)));
    assert!(ready(&look(&pod, 2000)));
    pod["metadata"]["annotations"] = json!({"lab.service-controller-manager.io/init-fails": "true"});
    let failed = look(&pod, 2000);
    assert_eq!(failed.status["phase"], json!("Pending"));
    assert_eq!(
        failed.status["initContainerStatuses"][0]["state"]["waiting"]["reason"],
        json!("CrashLoopBackOff")
    );
    assert!(!ready(&look(&pod, 60_000)));
    pod["spec"]["restartPolicy"] = json!("Never");
    assert_eq!(look(&pod, 2000).status["phase"], json!("Failed"));
}

#[test]
fn a_pod_that_used_too_much_is_evicted() {
    let pod = pod(&[], json!({}));
    let simulated =
        &simulated_nodes(&Settings { count: 1, ..Settings::default() }, &[Family::V4]).unwrap()[0];
    let start = Timestamp::UNIX_EPOCH;
    let mut probing = Probing::of(&pod);
    probing.evicted("used too much", after(start, 5000));
    probing.evicted("used still more", after(start, 6000));
    let place: (&[IpAddr], _) = (&["10.244.1.2".parse().unwrap()], start);
    let evicted = at(&pod, simulated, place, Some(&probing), after(start, 7000));
    let status = &evicted.status;
    assert_eq!(
        (&status["phase"], &status["reason"], &status["message"]),
        (&json!("Failed"), &json!("Evicted"), &json!("used too much"))
    );
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], json!(137));
    assert_eq!(status["conditions"][4]["type"], json!("DisruptionTarget"));
    assert_eq!((evicted.happened[0].reason, evicted.running.len()), ("Evicted", 0));
}

#[test]
fn a_pod_ends_with_its_deadline() {
    let pod = whole(&json!({"activeDeadlineSeconds": 3, "containers": [{"name": "c"}]}), &json!([]));
    assert_eq!((ready(&look(&pod, 2999)), next(&look(&pod, 2999))), (true, Some(3000)));
    let ended = look(&pod, 9000);
    assert_eq!(
        (&ended.status["phase"], &ended.status["reason"], next(&ended)),
        (&json!("Failed"), &json!("DeadlineExceeded"), None)
    );
    assert_eq!(condition(&ended, "Ready"), told("False", "PodFailed", ""));
    assert_eq!(
        ended.status["containerStatuses"][0]["state"]["terminated"]["finishedAt"],
        json!("1970-01-01T00:00:03Z")
    );
    assert_eq!(ended.happened[0].reason, "DeadlineExceeded");
    let mut done = pod.clone();
    done["spec"]["restartPolicy"] = json!("Never");
    done["metadata"]["annotations"] = json!({"lab.service-controller-manager.io/complete": "1s"});
    assert_eq!(look(&done, 9000).status["phase"], json!("Succeeded"));
}

#[test]
fn a_sidecar_ends_with_the_others() {
    let sidecar = json!({"name": "proxy", "restartPolicy": "Always"});
    let mut pod = whole(
        &json!({"restartPolicy": "Never", "initContainers": [sidecar], "containers": [{"name": "c"}]}),
        &json!([]),
    );
    pod["metadata"]["annotations"] = json!({"lab.service-controller-manager.io/complete": "3s"});
    let done = look(&pod, 9000);
    assert_eq!(done.status["phase"], json!("Succeeded"));
    assert_eq!(done.status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], json!(0));
}

#[test]
fn flapping_goes_on_and_on() {
    let pod = pod(&[("flap", "2s")], json!({}));
    let seen: Vec<bool> =
        [1000, 2999, 3000, 4999, 5000].iter().map(|millis| ready(&look(&pod, *millis))).collect();
    assert_eq!(seen, [true, true, false, false, true]);
    assert_eq!(next(&look(&pod, 3500)), Some(5000));
}

#[test]
fn failing_containers_are_started_again_or_not() {
    let mut failing = pod(&[("fail", "3s")], json!({}));
    let crashed = look(&failing, 4000);
    assert_eq!(
        crashed.status["containerStatuses"][0]["state"]["waiting"]["reason"],
        json!("CrashLoopBackOff")
    );
    assert!(!ready(&crashed));
    let again = look(&failing, 14_000);
    assert_eq!(again.status["containerStatuses"][0]["restartCount"], json!(1));
    assert!(ready(&again));
    failing["spec"]["restartPolicy"] = json!("Never");
    let failed = look(&failing, 4000);
    assert_eq!((failed.status["phase"].clone(), next(&failed)), (json!("Failed"), None));
}

#[test]
fn a_pod_completes() {
    let mut pod = pod(&[("complete", "3s")], json!({}));
    pod["spec"]["restartPolicy"] = json!("OnFailure");
    let done = look(&pod, 4000);
    assert_eq!(done.status["phase"], json!("Succeeded"));
    assert_eq!(done.status["conditions"][2]["reason"], json!("PodCompleted"));
}

#[rstest]
#[case::default(&[], 30, 2000)]
#[case::short_grace(&[], 1, 1000)]
#[case::slow(&[("ends-after", "20s")], 30, 20_000)]
#[case::stubborn(&[("ends-after", "60s")], 30, 30_000)]
fn a_deleted_pod_serves_until_it_has_ended(
    #[case] annotations: &[(&str, &str)],
    #[case] grace: i64,
    #[case] takes: i64,
) {
    let mut pod = pod(annotations, json!({}));
    let deleted = 10_000;
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    pod["metadata"]["deletionTimestamp"] = json!(time(after(Timestamp::UNIX_EPOCH, deleted + grace * 1000)));
    let before = look(&pod, deleted + takes - 1);
    assert_eq!((ready(&before), before.ended, next(&before)), (true, false, Some(deleted + takes)));
    assert!(look(&pod, deleted + takes).ended);
}

#[rstest]
#[case(json!(["netexec", "--delay-shutdown=20"]))]
#[case(json!(["netexec", "--delay-shutdown", "20"]))]
fn an_agnhost_ends_when_its_arguments_say(#[case] args: Value) {
    let container = json!({"image": "r.example/agnhost:2.53", "args": args});
    let mut pod = pod(&[], container);
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(60);
    pod["metadata"]["deletionTimestamp"] = json!(time(after(Timestamp::UNIX_EPOCH, 70_000)));
    assert_eq!((look(&pod, 29_999).ended, look(&pod, 30_000).ended), (false, true));
}

#[test]
fn what_probes_found_goes_over_the_clock() {
    let container = json!({"readinessProbe": {"httpGet": {"path": "/nope"}, "periodSeconds": 1}, "livenessProbe": {"failureThreshold": 1}});
    let pod = pod(&[], container);
    let nodes = simulated_nodes(&Settings { count: 1, ..Settings::default() }, &[Family::V4]).unwrap();
    let look = |probing: &Probing, millis: i64| {
        let start = Timestamp::UNIX_EPOCH;
        at(&pod, &nodes[0], (&["10.244.1.2".parse().unwrap()], start), Some(probing), after(start, millis))
    };
    let mut probing = Probing::of(&pod);
    let moment = look(&probing, 1000);
    assert_eq!((ready(&moment), moment.running.len()), (false, 1));
    let run = |probing: &mut Probing, moment: &Moment, now: i64| {
        let running = moment.running.iter().map(|(name, begun)| (name.as_str(), *begun));
        probing.run(running, false, after(Timestamp::UNIX_EPOCH, now));
        probing.due(after(Timestamp::UNIX_EPOCH, now))
    };
    let answer = |probing: &mut Probing, dues: &[Due], kind: ProbeKind, found: &Found, now: i64| {
        let due = dues.iter().find(|due| due.kind == kind).unwrap();
        probing.found(due, found, after(Timestamp::UNIX_EPOCH, now));
    };
    let dues = run(&mut probing, &moment, 1000);
    answer(&mut probing, &dues, ProbeKind::Readiness, &Found::Passed, 1500);
    assert!(ready(&look(&probing, 1500)));
    answer(&mut probing, &dues, ProbeKind::Liveness, &Found::Failed("refused".to_owned()), 2000);
    let killed = look(&probing, 2000);
    let status = &killed.status["containerStatuses"][0];
    assert_eq!((ready(&killed), &status["state"]["terminated"]["exitCode"]), (false, &json!(137)));
    assert_eq!(killed.happened[0].message, "Liveness probe failed: refused");
    assert_eq!(counts(&killed), [("unhealthy.liveness.c", 1), ("killing.liveness.c", 1)]);
    let again = look(&probing, 3000);
    let status = &again.status["containerStatuses"][0];
    assert_eq!(
        (&status["restartCount"], &status["lastState"]["terminated"]["exitCode"]),
        (&json!(1), &json!(137))
    );
    assert_eq!((ready(&again), again.running.len()), (false, 1));
}

#[rstest]
#[case("500ms", Some(500))]
#[case("10s", Some(10_000))]
#[case("2m", Some(120_000))]
#[case("1.5s", Some(1500))]
#[case("7", Some(7000))]
#[case("soon", None)]
#[case("-3s", None)]
fn durations(#[case] text: &str, #[case] length: Option<i64>) {
    assert_eq!(millis(text), length);
}
