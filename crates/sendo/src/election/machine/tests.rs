//! The state machine of an election, step by step.

use super::*;
use serde_json::json;

const START: i64 = 1_767_225_600;

/// `seconds` after the start, on both clocks.
fn at(seconds: u64) -> Now {
    Now {
        moment: Moment::START + Duration::from_secs(seconds),
        wall: Timestamp::from_second(START + seconds as i64).unwrap(),
    }
}

fn machine() -> Machine {
    let mut options = ElectionOptions::new("ns", "lease");
    options.labels.insert("app".into(), "test".into());
    Machine::new(&options, "me")
}

/// A lease as `holder` renewed it, with a renew time of long ago.
fn held_by(holder: &str, renewal: u32) -> Box<Lease> {
    let lease = json!({
        "metadata": {"name": "lease", "resourceVersion": renewal.to_string()},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 4,
            "acquireTime": "2001-01-01T00:00:00.000000Z",
            "renewTime": format!("2001-01-01T00:00:{renewal:02}.000000Z"),
        },
    });
    Box::new(serde_json::from_value(lease).unwrap())
}

fn spec(step: &Step) -> LeaseSpec {
    match step {
        Step::Send(Request::Create(lease) | Request::Update(lease)) => lease.spec.clone().unwrap(),
        other => panic!("no lease is written by {other:?}"),
    }
}

/// Answers the request of `step`, sent at `sent`.
fn respond(machine: &mut Machine, step: Step, sent: u64, response: Response, now: u64) -> Step {
    let Step::Send(request) = step else {
        panic!("{step:?} is no request")
    };
    machine.answered(&request, at(sent).moment, response, at(now))
}

/// Answers a write of `step` with what was written.
fn accept(machine: &mut Machine, step: Step, sent: u64, now: u64) -> Step {
    let Step::Send(Request::Create(lease) | Request::Update(lease)) = step.clone() else {
        panic!("{step:?} writes nothing")
    };
    respond(machine, step, sent, Response::Lease(lease), now)
}

/// Gets a lease, as it is at `now`.
fn look(machine: &mut Machine, lease: Box<Lease>, now: u64) -> Step {
    let get = machine.begin(at(now));
    assert_eq!(get, Step::Send(Request::Get));
    respond(machine, get, now, Response::Lease(lease), now)
}

/// A machine that became the leader at 0.
fn leader() -> Machine {
    let mut machine = machine();
    let step = look(&mut machine, held_by("", 1), 0);
    assert_eq!(accept(&mut machine, step, 0, 0), Step::Rest);
    assert!(machine.leads_until().is_some());
    machine
}

#[test]
fn a_missing_lease_is_created() {
    let mut machine = machine();
    let get = machine.begin(at(0));
    let create = respond(&mut machine, get, 0, Response::Missing, 1);
    let Step::Send(Request::Create(lease)) = &create else {
        panic!("{create:?}")
    };
    let expected = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "lease", "labels": {"app": "test"}},
        "spec": {
            "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-01-01T00:00:01.000000Z",
            "renewTime": "2026-01-01T00:00:01.000000Z",
        },
    });
    assert_eq!(serde_json::to_value(lease).unwrap(), expected);
    assert_eq!(accept(&mut machine, create, 1, 3), Step::Rest);
}

#[test]
fn leadership_counts_from_the_start_of_the_request() {
    let mut machine = machine();
    let step = look(&mut machine, held_by("", 1), 0);
    accept(&mut machine, step, 1, 4);
    assert_eq!(machine.leads_until(), Some(at(11).moment));
}

#[test]
fn a_lease_is_taken_when_its_record_did_not_change_for_its_duration() {
    let mut machine = machine();
    assert_eq!(look(&mut machine, held_by("other", 1), 100), Step::Rest);
    assert_eq!(machine.holder(), Some("other"));
    assert_eq!(look(&mut machine, held_by("other", 1), 115), Step::Rest);
    let take = look(&mut machine, held_by("other", 1), 116);
    let spec = spec(&take);
    assert_eq!(spec.holder_identity.as_deref(), Some("me"));
    assert_eq!(spec.lease_transitions, Some(5));
    assert_eq!(spec.acquire_time, Some(MicroTime(at(116).wall)));
    assert_eq!(accept(&mut machine, take, 116, 116), Step::Rest);
    assert_eq!(machine.leads_until(), Some(at(126).moment));
}

#[test]
fn a_renewal_is_a_sign_of_life_and_a_label_is_none() {
    let mut machine = machine();
    assert_eq!(look(&mut machine, held_by("other", 1), 0), Step::Rest);
    assert_eq!(look(&mut machine, held_by("other", 2), 10), Step::Rest);
    let mut labelled = held_by("other", 2);
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    labelled.metadata.resource_version = Some("77".into());
    assert_eq!(look(&mut machine, labelled.clone(), 20), Step::Rest);
    let take = look(&mut machine, labelled, 26);
    assert!(matches!(take, Step::Send(Request::Update(_))), "{take:?}");
}

#[test]
fn the_holder_says_how_long_its_lease_is() {
    let mut machine = machine();
    let mut lease = held_by("other", 1);
    lease.spec.as_mut().unwrap().lease_duration_seconds = Some(60);
    assert_eq!(look(&mut machine, lease.clone(), 0), Step::Rest);
    assert_eq!(look(&mut machine, lease.clone(), 59), Step::Rest);
    assert_ne!(look(&mut machine, lease, 61), Step::Rest);
}

#[test]
fn a_candidate_that_lost_the_race_waits() {
    let mut machine = machine();
    let take = look(&mut machine, held_by("", 1), 0);
    let after = respond(&mut machine, take, 0, Response::Conflict, 0);
    assert_eq!((after, machine.leads_until()), (Step::Rest, None));
}

#[test]
fn a_renewal_is_one_request_that_changes_the_renew_time_only() {
    let mut machine = leader();
    let before = machine.observed.as_ref().unwrap().lease.clone();
    let renew = machine.begin(at(2));
    let Step::Send(Request::Update(lease)) = &renew else {
        panic!("{renew:?}")
    };
    let mut expected = before;
    expected.spec.as_mut().unwrap().renew_time = Some(MicroTime(at(2).wall));
    assert_eq!(**lease, expected);
    assert_eq!(accept(&mut machine, renew, 2, 3), Step::Rest);
    assert_eq!(machine.leads_until(), Some(at(12).moment));
}

#[test]
fn a_leader_whose_own_write_was_not_answered_finds_it_and_goes_on() {
    let mut machine = leader();
    let renew = machine.begin(at(2));
    let Step::Send(Request::Update(written)) = renew.clone() else {
        panic!("{renew:?}")
    };
    let step = respond(&mut machine, renew, 2, Response::Failed("cut".into()), 4);
    assert_eq!(step, Step::Rest);
    assert_eq!(machine.leads_until(), Some(at(10).moment));
    let again = machine.begin(at(5));
    let get = respond(&mut machine, again, 5, Response::Conflict, 5);
    assert_eq!(get, Step::Send(Request::Get));
    let renew = respond(&mut machine, get, 5, Response::Lease(written), 6);
    assert_eq!(accept(&mut machine, renew, 6, 6), Step::Rest);
    assert_eq!(machine.leads_until(), Some(at(16).moment));
}

#[test]
fn a_leader_that_finds_another_in_its_place_has_lost() {
    let mut machine = leader();
    let renew = machine.begin(at(2));
    let get = respond(&mut machine, renew, 2, Response::Conflict, 2);
    let lost = respond(
        &mut machine,
        get,
        2,
        Response::Lease(held_by("other", 9)),
        2,
    );
    assert_eq!(lost, Step::Lost("other holds the lease now".into()));
}

#[test]
fn a_leader_that_cannot_renew_in_time_has_lost_and_says_why() {
    let mut machine = leader();
    let renew = machine.begin(at(6));
    let step = respond(&mut machine, renew, 6, Response::Failed("cut".into()), 9);
    assert_eq!(step, Step::Rest);
    let lost = machine.begin(at(10));
    let text = "the lease was last renewed 10.0 s ago: cut";
    assert_eq!(lost, Step::Lost(text.into()));
}

#[test]
fn a_leader_that_stood_still_does_not_go_on() {
    let mut machine = leader();
    let lost = machine.begin(at(60));
    let text = "the lease was last renewed 60.0 s ago: the process stood still";
    assert_eq!(lost, Step::Lost(text.into()));
}

#[test]
fn a_lease_is_given_back_in_the_words_of_client_go_and_is_free_at_once() {
    let mut machine = leader();
    let held = machine.observed.as_ref().unwrap().lease.clone();
    let get = machine.release();
    assert_eq!(machine.leads_until(), None);
    let give = respond(&mut machine, get, 3, Response::Lease(Box::new(held)), 3);
    let given = spec(&give);
    assert_eq!(given.holder_identity.as_deref(), Some(""));
    assert_eq!(given.lease_duration_seconds, Some(1));
    assert_eq!(given.lease_transitions, Some(5));
    assert_eq!(given.renew_time, Some(MicroTime(at(3).wall)));
    let Step::Send(Request::Update(free)) = give.clone() else {
        panic!("{give:?}")
    };
    assert_eq!(accept(&mut machine, give, 3, 3), Step::Released);
    let mut other = super::Machine::new(&ElectionOptions::new("ns", "lease"), "other");
    assert_eq!(spec(&look(&mut other, free, 3)).lease_transitions, Some(6));
}

#[test]
fn what_somebody_else_holds_is_not_given_back() {
    let mut machine = leader();
    let get = machine.release();
    let step = respond(
        &mut machine,
        get,
        3,
        Response::Lease(held_by("other", 1)),
        3,
    );
    assert_eq!(step, Step::Released);
    assert_eq!(super::tests::machine().release(), Step::Released);
}

#[test]
fn a_candidate_that_may_have_taken_the_lease_unknowingly_gives_it_back() {
    let mut machine = machine();
    let take = look(&mut machine, held_by("", 1), 0);
    let Step::Send(Request::Update(taken)) = take.clone() else {
        panic!("{take:?}")
    };
    respond(&mut machine, take, 0, Response::Failed("cut".into()), 5);
    let get = machine.release();
    let give = respond(&mut machine, get, 6, Response::Lease(taken), 6);
    assert_eq!(spec(&give).holder_identity.as_deref(), Some(""));
}

#[test]
fn a_lease_that_was_deleted_is_created_anew_by_its_leader() {
    let mut machine = leader();
    let renew = machine.begin(at(2));
    let create = respond(&mut machine, renew, 2, Response::Missing, 2);
    assert!(matches!(create, Step::Send(Request::Create(_))));
    let get = respond(&mut machine, create, 2, Response::Conflict, 2);
    let lost = respond(
        &mut machine,
        get,
        2,
        Response::Lease(held_by("other", 1)),
        2,
    );
    assert!(matches!(lost, Step::Lost(_)), "{lost:?}");
}
