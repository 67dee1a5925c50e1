//! Leader election of whole programs: hand-over, lost leases, what is logged and recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use sendo::election::ElectionOptions;
use sendo::{
    Action, Clock, Config, Context, Controller, Elected, Manager, ObjectExt, Running, Selection,
    elected_alone, everywhere, on_leader,
};

use super::{Log, Place, SECOND, Tracing, metric};

pub(crate) fn elected(place: &Place, name: &str) -> Config {
    let mut config = place.config(name);
    let options = ElectionOptions {
        identity: Some(name.to_owned()),
        ..ElectionOptions::new("default", "program")
    };
    config.election = Some(options);
    config
}

pub(crate) async fn holder(place: &Place, lease: &str) -> Option<String> {
    let key = format!("default/{lease}");
    let lease = place
        .client
        .live()
        .get::<Lease>(key.as_str())
        .await
        .unwrap()?;
    lease
        .spec?
        .holder_identity
        .filter(|holder| !holder.is_empty())
}

fn start(place: &Place, who: &'static str, log: &Log) -> Running {
    let seen = log.clone();
    let controller =
        Controller::new::<ConfigMap>().reconcile(move |map: Arc<ConfigMap>, _: Context| {
            seen.add(format!("{who} {}", map.name()));
            async { Ok(Action::done()) }
        });
    let manager = Manager::new("program").controller(controller);
    manager.start(elected(place, who)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_replica_works_and_another_takes_over_within_seconds_of_a_clean_end() {
    let place = Place::new(1).await;
    place.create("a").await;
    let log = Log::default();
    let one = start(&place, "one", &log);
    place.pass(5 * SECOND).await;
    let two = start(&place, "two", &log);
    two.ready().await;
    place.pass(60 * SECOND).await;
    assert_eq!(log.take(), ["one a"]);
    let leads = "leader_election_master_status{name=\"program\"}";
    assert_eq!((metric(&one, leads), metric(&two, leads)), (1.0, 0.0));
    one.stop().await.unwrap();
    assert_eq!(
        holder(&place, "program").await,
        None,
        "the lease is given back"
    );
    place.pass(5 * SECOND).await;
    // Its cache was warm.
    assert_eq!(log.take(), ["two a"]);
    assert_eq!(holder(&place, "program").await.as_deref(), Some("two"));
    place.end([two]).await;
}

#[tokio::test(start_paused = true)]
async fn who_leads_is_recorded_as_events_about_the_lease() {
    let place = Place::new(1).await;
    let one = start(&place, "one", &Log::default());
    place.pass(5 * SECOND).await;
    one.stop().await.unwrap();
    let lease = place.client.live().get::<Lease>("default/program").await;
    let uid = lease.unwrap().unwrap().metadata.uid;
    let live = place.client.live();
    let events = live.list::<Event>(&Selection::default()).await.unwrap();
    let mut reported: Vec<String> = events
        .iter()
        .map(|event| {
            let about = &event.involved_object;
            let is_lease = about.kind.as_deref() == Some("Lease")
                && about.api_version.as_deref() == Some("coordination.k8s.io/v1");
            assert!(is_lease && about.uid == uid, "{about:?}");
            let reason = event.reason.as_deref().unwrap_or_default();
            let message = event.message.as_deref().unwrap_or_default();
            format!("{reason}: {message}")
        })
        .collect();
    reported.sort();
    let words = ["one became leader", "one stopped leading"];
    assert_eq!(
        reported,
        words.map(|words| format!("LeaderElection: {words}"))
    );
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_logs_what_starts_when_it_is_ready_and_once_that_it_leads() {
    let tracing = Tracing::start();
    let place = Place::new(1).await;
    let controller = Controller::new::<ConfigMap>()
        .reconcile(|_: Arc<ConfigMap>, _: Context| async { Ok(Action::done()) });
    let manager = Manager::new("program")
        .version("1.2.3")
        .controller(controller);
    let running = manager.start(elected(&place, "one")).unwrap();
    running.ready().await;
    place.pass(10 * SECOND).await;
    place.end([running]).await;
    let lines = tracing.lines();
    let of = |message: &str| {
        let lines = lines.iter().filter(|line| line.contains("INFO"));
        let mut lines = lines.filter(|line| line.contains(message));
        let line = lines.next();
        let line = line.unwrap_or_else(|| panic!("{message} is not in {lines:?}"));
        assert!(lines.next().is_none(), "{message}: twice");
        line.clone()
    };
    let starting = of(": starting ");
    for part in [
        "program=\"program\"",
        "version=\"1.2.3\"",
        "cluster=\"kubernetes\"",
        "controllers=[\"configmap\"]",
    ] {
        assert!(starting.contains(part), "{part} is not in {starting}");
    }
    of(": ready ");
    assert!(of(": leading ").contains("identity=one"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_program_with_its_cause() {
    let place = Place::new(1).await;
    let log = Log::default();
    let one = start(&place, "one", &log);
    place.pass(5 * SECOND).await;
    steal(&place).await;
    let error = one.ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "leadership of default/program lost: thief holds the lease now"
    );
    place.end([]).await;
}

pub(crate) async fn steal(place: &Place) {
    let steal = |lease: &mut Lease| {
        lease.spec.get_or_insert_default().holder_identity = Some("thief".to_owned());
    };
    let key = sendo::ObjectKey::namespaced("default", "program");
    place.client.modify::<Lease, _>(&key, steal).await.unwrap();
}

/// Acts on something outside of the cluster, which no gate of writes guards, again
/// and again.
async fn act<T>(log: Log, clock: Clock) -> T {
    loop {
        log.add("acts");
        clock.sleep(SECOND / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_the_leader_does_is_cut_off_when_the_lease_is_lost() {
    let place = Place::new(1).await;
    place.create("a").await;
    let (outside, elsewhere) = (Log::default(), Log::default());
    let (reconciles, runs) = (outside.clone(), outside.clone());
    let controller =
        Controller::new::<ConfigMap>().reconcile(move |_: Arc<ConfigMap>, cx: Context| {
            assert!(cx.leading());
            act::<sendo::Result<Action>>(reconciles.clone(), cx.clock().clone())
        });
    let runnable = on_leader("acts", move |cx| {
        assert!(cx.leading());
        let more = act::<()>(runs.clone(), cx.clock().clone());
        cx.world().tasks().spawn("more", more);
        act::<sendo::Result<()>>(runs, cx.clock().clone())
    });
    let others = elsewhere.clone();
    let goes_on = everywhere("server", move |cx| async move {
        others.add(format!("leads: {}", cx.leading()));
        cx.stopping().cancelled().await;
        others.add(format!("leads: {}", cx.leading()));
        cx.clock().sleep(20 * SECOND).await;
        others.add("ends in its own time");
        Ok(())
    });
    let manager = Manager::new("program")
        .controller(controller)
        .runnable(runnable)
        .runnable(goes_on);
    let one = manager.start(elected(&place, "one")).unwrap();
    place.pass(5 * SECOND).await;
    assert!(outside.count() > 100);
    steal(&place).await;
    place.pass(3 * SECOND).await;
    outside.take();
    place.pass(10 * SECOND).await;
    assert_eq!(outside.count(), 0, "it acts while another leads");
    let error = one.ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "leadership of default/program lost: thief holds the lease now"
    );
    assert_eq!(
        elsewhere.take(),
        ["leads: false", "leads: false", "ends in its own time"]
    );
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_at_the_deadline_gives_its_lease_back() {
    let place = Place::new(1).await;
    let stubborn = on_leader("stubborn", |_| std::future::pending());
    let manager = Manager::new("program").runnable(stubborn);
    let one = manager.start(elected(&place, "one")).unwrap();
    place.pass(5 * SECOND).await;
    let error = one.stop().await.unwrap_err();
    assert_eq!(error.to_string(), "did not stop within 30s: `stubborn`");
    assert_eq!(holder(&place, "program").await, None);
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_the_api_server_does_not_answer_is_not_ready() {
    let place = Place::new(1).await;
    let log = Log::default();
    let one = start(&place, "one", &log);
    place.pass(5 * SECOND).await;
    let cut = Arc::new(AtomicBool::new(true));
    let is_cut = cut.clone();
    let mut config = elected(&place, "two");
    config.client = place.through(move |_| {
        let cut = is_cut.load(Ordering::Relaxed);
        async move {
            if cut {
                Err("connection refused".to_owned())
            } else {
                Ok(())
            }
        }
    });
    let manager = Manager::new("program").runnable(on_leader("work", |_| async { Ok(()) }));
    let two = manager.start(config).unwrap();
    let ready = async || {
        let report = two.probes().ready.run(&place.world, &[]).await;
        (report.passed(), report.lines())
    };
    place.pass(SECOND).await;
    let (passed, lines) = ready().await;
    assert!(!passed && lines.contains("[-]election"), "{lines}");
    cut.store(false, Ordering::Relaxed);
    place.pass(5 * SECOND).await;
    assert!(ready().await.0, "it can take over");
    cut.store(true, Ordering::Relaxed);
    place.pass(5 * SECOND).await;
    assert!(ready().await.0, "a short disturbance");
    place.pass(15 * SECOND).await;
    let (passed, lines) = ready().await;
    assert!(!passed && lines.contains("[-]election"), "{lines}");
    cut.store(false, Ordering::Relaxed);
    place.pass(5 * SECOND).await;
    assert!(ready().await.0, "it can again");
    place.end([one, two]).await;
}

#[tokio::test(start_paused = true)]
async fn parts_with_an_election_of_their_own_are_spread_over_the_replicas() {
    let place = Place::new(1).await;
    let log = Log::default();
    let part = |name: &'static str, who: &'static str| {
        let log = log.clone();
        elected_alone(name, move |cx| async move {
            log.add(format!("{who} {name}"));
            cx.stopping().cancelled().await;
            Ok(())
        })
    };
    let first = Manager::new("program").runnable(part("x", "one"));
    let one = first.start(elected(&place, "one")).unwrap();
    place.pass(5 * SECOND).await;
    let second = Manager::new("program")
        .runnable(part("x", "two"))
        .runnable(part("y", "two"));
    let two = second.start(elected(&place, "two")).unwrap();
    place.pass(30 * SECOND).await;
    assert_eq!(log.take(), ["one x", "two y"]);
    assert_eq!(holder(&place, "program-x").await.as_deref(), Some("one"));
    assert_eq!(holder(&place, "program-y").await.as_deref(), Some("two"));
    place.end([one, two]).await;
}

#[tokio::test(start_paused = true)]
async fn without_election_every_replica_leads() {
    let place = Place::new(1).await;
    place.create("a").await;
    let log = Log::default();
    let (seen, ran) = (log.clone(), log.clone());
    let controller = Controller::new::<ConfigMap>()
        .elected(Elected::Alone)
        .reconcile(move |map: Arc<ConfigMap>, _: Context| {
            seen.add(map.name());
            async { Ok(Action::done()) }
        });
    let leader = on_leader("leader", move |_| async move {
        ran.add("leader");
        Ok(())
    });
    let manager = Manager::new("program")
        .controller(controller)
        .runnable(leader);
    let running = place.run(manager).await;
    place.pass(SECOND).await;
    let mut seen = log.take();
    seen.sort();
    assert_eq!(seen, ["a", "leader"]);
    place.end([running]).await;
}
