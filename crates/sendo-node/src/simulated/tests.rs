use super::*;
use serde_json::json;

const PACE: Pace = Pace {
    start: Duration::from_secs(1),
    init: Duration::from_secs(10),
    stop: Duration::from_secs(2),
    job: Duration::from_secs(5),
};

fn at(seconds: u64) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + Duration::from_secs(seconds)
}

fn pod(status: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "uid": "u", "annotations": {RUN_FOR: "4s", EXIT_CODE: "3"}},
        "spec": {"initContainers": [{"name": "a"}], "containers": [{"name": "main"}]},
        "status": status,
    }))
    .unwrap()
}

fn state(runtime: &Simulated, pod: &Pod, container: &str, seconds: u64) -> Option<RunState> {
    let observed = runtime.observe(pod, at(seconds));
    let runs = observed.runs.get(container)?;
    Some(runs.current.state.clone())
}

#[test]
fn patterns_match_images() {
    for (pattern, image, expected) in [
        ("nginx", "nginx", true),
        ("nginx", "nginx:1", false),
        ("*/broken:*", "r.example/broken:1", true),
        ("*/broken:*", "r.example/whole:1", false),
        ("", "", false),
        ("*", "anything", true),
    ] {
        assert_eq!(matches(pattern, image), expected, "{pattern} {image}");
    }
}

#[test]
fn what_an_earlier_agent_reported_goes_on() {
    let time = |seconds: u64| at(seconds).to_string();
    let pod = pod(json!({
        "initContainerStatuses": [{"name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "startedAt": time(1), "finishedAt": time(11)}}}],
        "containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": true, "restartCount": 2,
            "state": {"running": {"startedAt": time(50)}},
            "lastState": {"terminated": {"exitCode": 3, "startedAt": time(30), "finishedAt": time(34)}}}],
    }));
    let runtime = Simulated::new(PACE);
    let ended = RunState::Exited(Exit::with_code(at(1), at(11), 0));
    assert_eq!(state(&runtime, &pod, "a", 52), Some(ended));
    let observed = runtime.observe(&pod, at(52));
    assert_eq!(observed.next, Some(at(54)));
    let main = &observed.runs["main"];
    assert_eq!(main.current.attempt, 2);
    assert_eq!(main.current.state, RunState::Running { since: at(50) });
    let last = main.last.as_ref().unwrap();
    assert_eq!((last.attempt, last.exit().unwrap().code), (1, 3));
    let ended = RunState::Exited(Exit::with_code(at(50), at(54), 3));
    assert_eq!(state(&runtime, &pod, "main", 54), Some(ended));
}

#[test]
fn a_container_that_waits_for_its_next_run_is_found_as_exited() {
    let pod = pod(
        json!({"containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": false,
        "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 3, "finishedAt": at(10).to_string()}}}]}),
    );
    let runtime = Simulated::new(PACE);
    let ended = RunState::Exited(Exit::with_code(at(10), at(10), 3));
    assert_eq!(state(&runtime, &pod, "main", 12), Some(ended));
}

#[test]
fn a_signal_ends_a_container_once_it_has_started() {
    let pod = pod(
        json!({"containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": true,
        "restartCount": 0, "state": {"running": {"startedAt": at(50).to_string()}}}]}),
    );
    let runtime = Simulated::new(PACE);
    runtime.signal(&pod, "main", Signal::Terminate, at(51));
    let terminated = RunState::Exited(Exit::with_code(at(50), at(53), 143));
    assert_eq!(state(&runtime, &pod, "main", 53), Some(terminated.clone()));
    runtime.signal(&pod, "main", Signal::Kill, at(60));
    assert_eq!(state(&runtime, &pod, "main", 60), Some(terminated));
    let killed = Simulated::new(PACE);
    killed.signal(&pod, "main", Signal::Kill, at(51));
    let ended = RunState::Exited(Exit::with_code(at(50), at(51), 137));
    assert_eq!(state(&killed, &pod, "main", 51), Some(ended));
}

#[test]
fn annotations_say_which_probes_fail() {
    let mut pod = pod(json!({}));
    let annotations = pod.metadata.annotations.as_mut().unwrap();
    annotations.insert(
        FAILING_PROBES.to_owned(),
        "readiness, main/liveness".to_owned(),
    );
    let runtime = Simulated::new(PACE);
    let fails = |container: &Container, kind| {
        runtime
            .declared_answer(&pod, container, kind)
            .unwrap()
            .is_err()
    };
    let (init, main) = (&pod.init_containers()[0], &pod.containers()[0]);
    assert!(fails(init, ProbeKind::Readiness) && fails(main, ProbeKind::Readiness));
    assert!(!fails(init, ProbeKind::Liveness) && fails(main, ProbeKind::Liveness));
    assert!(!fails(main, ProbeKind::Startup));
}
