//! Elections against an API server that keeps one Lease.

use std::time::Duration;

use sendo_world::{Stop, Task, World};

use super::lease_service::{Faults, LeaseService, Line};
use super::*;
use crate::metrics::{Format, LeaderMetrics, Registry};

const SECOND: Duration = Duration::from_secs(1);

/// A candidate that runs, and the line between it and the API server.
struct Candidate {
    election: Election,
    line: Line,
    release: Stop,
    running: Task<Result<(), Lost>>,
}

impl Candidate {
    fn start(world: &World, service: &LeaseService, identity: &str) -> Self {
        let mut options = ElectionOptions::new("ns", "lease");
        options.identity = Some(identity.to_owned());
        Candidate::with(world, service, options)
    }

    fn with(world: &World, service: &LeaseService, options: ElectionOptions) -> Self {
        let election = Election::new(world, options).unwrap();
        let (line, release) = (Line::default(), Stop::new());
        let client = service.client(world, &line);
        let running = {
            let (election, release) = (election.clone(), release.clone());
            let run = async move { election.run(client, &release).await };
            world.tasks().spawn("election", run)
        };
        Candidate {
            election,
            line,
            release,
            running,
        }
    }

    fn leads(&self) -> bool {
        self.election.gate().check().is_ok()
    }
}

fn setting() -> (World, LeaseService) {
    (World::seeded(1), LeaseService::default())
}

#[tokio::test(start_paused = true)]
async fn one_of_two_leads_and_the_other_knows_who() {
    let (world, service) = setting();
    let a = Candidate::start(&world, &service, "a");
    let leadership = a.election.acquired().await.unwrap();
    let b = Candidate::start(&world, &service, "b");
    world.clock().sleep(600 * SECOND).await;
    assert!(a.leads() && !b.leads() && !leadership.lost.is_cancelled());
    let status = b.election.status();
    let Status::Waiting { leader } = &*status.borrow() else {
        panic!("b waits")
    };
    assert_eq!(leader.as_deref(), Some("a"));
    let spec = service.lease().unwrap().spec.unwrap();
    let renewed = spec.renew_time.unwrap().0;
    assert!(world.clock().wall().duration_since(renewed).as_secs() <= 2);
    assert_eq!(spec.lease_transitions, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_hands_over_within_a_retry() {
    let (world, service) = setting();
    let a = Candidate::start(&world, &service, "a");
    let leadership = a.election.acquired().await.unwrap();
    let b = Candidate::start(&world, &service, "b");
    world.clock().sleep(60 * SECOND).await;

    a.release.cancel();
    assert_eq!(a.running.output().await, Some(Ok(())));
    assert!(leadership.lost.is_cancelled() && leadership.gate.check().is_err());
    assert_eq!(service.holder().as_deref(), Some(""));
    let before = world.clock().now();
    b.election.acquired().await.unwrap();
    assert!(world.clock().now() - before <= SECOND.mul_f64(4.4));
    assert_eq!(
        service.lease().unwrap().spec.unwrap().lease_transitions,
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_starts() {
    let (world, service) = setting();
    let a = Candidate::start(&world, &service, "a");
    let leadership = a.election.acquired().await.unwrap();
    let b = Candidate::start(&world, &service, "b");
    world.clock().sleep(61 * SECOND).await;

    let cut = world.clock().now();
    a.line.set(Faults {
        cut: true,
        ..Faults::default()
    });
    leadership.lost.cancelled().await;
    let lost = world.clock().now() - cut;
    assert!(lost >= 8 * SECOND && lost <= 10 * SECOND, "{lost:?}");
    assert!(!a.leads() && !b.leads());
    let error = a.running.output().await.unwrap().unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("leadership of ns/lease lost: the lease was last renewed 10.0 s ago: ")
    );
    assert!(text.ends_with("connection refused"), "{text}");
    b.election.acquired().await.unwrap();
    let taken = world.clock().now() - cut;
    assert!(taken >= 13 * SECOND && taken <= 21 * SECOND, "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_short_disturbance_costs_no_leadership() {
    let (world, service) = setting();
    let a = Candidate::start(&world, &service, "a");
    let leadership = a.election.acquired().await.unwrap();
    for faults in [
        Faults {
            cut: true,
            ..Faults::default()
        },
        Faults {
            deaf: true,
            ..Faults::default()
        },
        Faults {
            back: 30 * SECOND,
            ..Faults::default()
        },
    ] {
        a.line.set(faults);
        world.clock().sleep(4 * SECOND).await;
        a.line.set(Faults::default());
        world.clock().sleep(30 * SECOND).await;
        assert!(a.leads(), "{faults:?}");
    }
    assert!(!leadership.lost.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_election_ends_leadership_at_once() {
    let (world, service) = setting();
    let options = ElectionOptions::new("ns", "lease");
    let election = Election::new(&world, options).unwrap();
    let client = service.client(&world, &Line::default());
    let release = Stop::new();
    let run = election.run(client, &release);
    assert!(world.clock().timeout(5 * SECOND, run).await.is_none());
    assert!(election.gate().check().is_err());
    assert!(election.acquired().await.is_none());
    assert_eq!(service.holder().as_deref(), Some(election.identity()));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_never_led_leaves_without_a_trace() {
    let (world, service) = setting();
    let a = Candidate::start(&world, &service, "a");
    a.election.acquired().await.unwrap();
    let b = Candidate::start(&world, &service, "b");
    world.clock().sleep(20 * SECOND).await;
    b.release.cancel();
    assert_eq!(b.running.output().await, Some(Ok(())));
    assert!(a.leads());
    assert_eq!(service.holder().as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn metrics_show_who_leads() {
    let (world, service) = setting();
    let registry = Registry::new();
    let mut options = ElectionOptions::new("ns", "lease");
    options.metrics = Some(LeaderMetrics::new(&registry, "lease"));
    let candidate = Candidate::with(&world, &service, options);
    let shows = |n| {
        let line = format!("leader_election_master_status{{name=\"lease\"}} {n}\n");
        registry.encode(Format::Prometheus).contains(&line)
    };
    assert!(shows(0));
    candidate.election.acquired().await.unwrap();
    assert!(shows(1));
    candidate.release.cancel();
    candidate.running.output().await;
    assert!(shows(0));
}
