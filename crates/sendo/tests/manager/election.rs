use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use sendo::election::ElectionOptions;
use sendo::{
    Action, Config, Context, Controller, Elected, Manager, ObjectExt, Running, alone, on_leader,
};

use crate::{Log, Place, SECOND, metric};

fn elected(place: &Place, name: &str) -> Config {
    let mut config = place.config(name);
    let options = ElectionOptions {
        identity: Some(name.to_owned()),
        ..ElectionOptions::new("default", "program")
    };
    config.election = Some(options);
    config
}

async fn holder(place: &Place, lease: &str) -> Option<String> {
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
async fn a_lost_lease_ends_the_program_with_its_cause() {
    let place = Place::new(1).await;
    let log = Log::default();
    let one = start(&place, "one", &log);
    place.pass(5 * SECOND).await;
    let steal = |lease: &mut Lease| {
        lease.spec.get_or_insert_default().holder_identity = Some("thief".to_owned());
    };
    let key = sendo::ObjectKey::namespaced("default", "program");
    place.client.modify::<Lease, _>(&key, steal).await.unwrap();
    let error = one.ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "leadership of default/program lost: thief holds the lease now"
    );
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn parts_with_an_election_of_their_own_are_spread_over_the_replicas() {
    let place = Place::new(1).await;
    let log = Log::default();
    let part = |name: &'static str, who: &'static str| {
        let log = log.clone();
        alone(name, move |cx| async move {
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
