//! Writes of a controller: apply, finalizers, statuses, conditions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget as Budget;
use sendo::cache::{Cache, CacheOptions, Informer};
use sendo::client::{CleanUp, Client, ClientOptions, Error, Finalizer, OperationResult};
use sendo::conditions::{self, News};
use sendo::rights::{Right, Verb};
use sendo::{
    Action, Context, Controller, Kind, Manager, ObjectExt, ObjectKey, Random, Selection, Timestamp,
};
use serde_json::json;

use super::{Log, Place, SECOND, map};

#[tokio::test(start_paused = true)]
async fn fields_that_a_controller_applies_are_tracked_under_its_name_and_removed_when_left_out() {
    let place = Place::new(1).await;
    let owner = place.create("owner").await;
    let reconcile = |owner: Arc<ConfigMap>, cx: Context| async move {
        if owner.name() != "owner" {
            return Ok(Action::done());
        }
        let mut wanted = map("owned", 0);
        let data = owner.data.clone().unwrap_or_default();
        wanted.data = Some(
            data.into_iter()
                .filter(|(name, _)| name != "hidden")
                .collect(),
        );
        cx.apply_owned(&owner, wanted).await?;
        Ok(Action::done())
    };
    let controller = Controller::new::<ConfigMap>()
        .named("applier")
        .owns::<ConfigMap>()
        .reconcile(reconcile);
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(SECOND).await;
    let live = place.client.live();
    let owned = async || {
        live.get::<ConfigMap>("default/owned")
            .await
            .unwrap()
            .unwrap()
    };
    let first = owned().await;
    assert_eq!(first.data.as_ref().unwrap()["value"], "0");
    assert_eq!(first.controller_of::<ConfigMap>(), Some(owner.uid()));
    let managers = first.metadata.managed_fields.clone().unwrap();
    let tracked: Vec<_> = managers
        .iter()
        .map(|m| (m.manager.as_deref(), m.operation.as_deref()))
        .collect();
    assert_eq!(tracked, [(Some("applier"), Some("Apply"))]);

    // Somebody else's field stays; what the controller no longer says goes.
    let theirs = |map: &mut ConfigMap| {
        map.data
            .get_or_insert_default()
            .insert("theirs".to_owned(), "x".to_owned());
    };
    place
        .client
        .modify::<ConfigMap, _>(&first, theirs)
        .await
        .unwrap();
    let rename = |map: &mut ConfigMap| {
        map.data = Some([("other".to_owned(), "1".to_owned())].into());
    };
    place
        .client
        .modify::<ConfigMap, _>(&owner, rename)
        .await
        .unwrap();
    place.pass(SECOND).await;
    let data = owned().await.data.unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["other", "theirs"]);
    let version = owned().await.version();
    place.pass(3600 * SECOND).await;
    assert_eq!(
        owned().await.version(),
        version,
        "what is as it should be is not written"
    );
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_there_before_the_work_and_goes_after_the_clean_up() {
    const NAME: &str = "example.dev/clean";
    let place = Place::new(1).await;
    let object = place.create("a").await;
    let log = Log::default();
    let seen = (log.clone(), Arc::new(AtomicU64::new(0)));
    let reconcile = move |map: Arc<ConfigMap>, cx: Context| {
        let (log, times) = seen.clone();
        async move {
            let clean = || async {
                log.add("clean up");
                Ok(match times.fetch_add(1, Ordering::Relaxed) {
                    0 => CleanUp::Again(SECOND),
                    _ => CleanUp::Done,
                })
            };
            if let Finalizer::Going(action) = cx.finalizer(&map, NAME, clean).await? {
                return Ok(action);
            }
            let newest = cx
                .live()
                .get::<ConfigMap>(map.key())
                .await?
                .unwrap_or_default();
            log.add(format!(
                "work with {:?}",
                newest.metadata.finalizers.unwrap_or_default()
            ));
            Ok(Action::done())
        }
    };
    let controller = Controller::new::<ConfigMap>()
        .with_finalizer()
        .needs(Right::of::<ConfigMap>(Verb::Get))
        .reconcile(reconcile);
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(SECOND).await;
    let worked = log.take();
    assert!(
        worked
            .iter()
            .all(|line| line == "work with [\"example.dev/clean\"]"),
        "{worked:?}"
    );
    place.client.delete(&object).await.unwrap();
    place.pass(SECOND / 2).await;
    assert_eq!(log.take(), ["clean up"]);
    let live = place.client.live();
    let kept = live.get::<ConfigMap>("default/a").await.unwrap();
    assert!(kept.is_some(), "the first clean-up was not the last");
    place.pass(SECOND).await;
    assert_eq!(log.take(), ["clean up"]);
    assert!(live.get::<ConfigMap>("default/a").await.unwrap().is_none());
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn writes_to_what_is_gone_or_another_are_distinguished() {
    let place = Place::new(1).await;
    let client = &place.client;
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    let first = client.create(&pod).await.unwrap();
    client.delete(&first).grace_period(0).await.unwrap();
    let fail = |status: &mut k8s_openapi::api::core::v1::PodStatus| {
        status.phase = Some("Failed".to_owned());
    };
    let gone = client.status(&first, fail).await.unwrap();
    assert_eq!(gone, None, "it is gone");
    let second = client.create(&pod).await.unwrap();
    let other = client.status(&first, fail).await.unwrap();
    assert_eq!(other, None, "another has its name");
    let phase = |pod: Pod| pod.status.and_then(|status| status.phase);
    let live = client.live();
    let untouched: Pod = live.get("default/p").await.unwrap().unwrap();
    assert_ne!(phase(untouched), Some("Failed".to_owned()));
    assert_eq!(client.status(&second, fail).await.unwrap(), Some(()));
    let failed: Pod = live.get("default/p").await.unwrap().unwrap();
    assert_eq!(client.status(&failed, fail).await.unwrap(), None);
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn create_or_patch_and_dry_runs_on_a_server() {
    let place = Place::new(1).await;
    let set = |map: &mut ConfigMap| {
        map.data = Some([("k".to_owned(), "v".to_owned())].into());
    };
    let client = &place.client;
    let made = client.create_or_patch(map("a", 0), set).await.unwrap();
    assert!(matches!(made, OperationResult::Created(_)));
    let same = client.create_or_patch(map("a", 0), set).await.unwrap();
    assert!(matches!(same, OperationResult::Unchanged(_)));
    place.touch("a", 3).await;
    let patched = client.create_or_patch(map("a", 0), set).await.unwrap();
    let OperationResult::Updated(patched) = patched else {
        panic!("it was different");
    };
    assert_eq!(patched.data.unwrap().into_keys().collect::<Vec<_>>(), ["k"]);
    client.dry_run().create(&map("b", 0)).await.unwrap();
    let key = ObjectKey::namespaced("default", "b");
    assert!(client.live().get::<ConfigMap>(key).await.unwrap().is_none());
    let taken = client.create(&map("a", 0)).await.unwrap_err();
    assert!(taken.is_already_exists() && !matches!(taken, Error::Transport { .. }));
    place.end([]).await;
}

/// Writes its own condition `times` times, each time another reason, and makes sure
/// that each is there afterwards.
async fn report(
    client: Client,
    informer: Informer<Budget>,
    kind: &str,
    times: u64,
    random: Random,
) {
    for time in 1..=times {
        client.cache().synced().await;
        loop {
            let budget = informer.snapshot().get(&"default/b".into()).unwrap();
            let reason = format!("Time{time}");
            let now = client_now(&random);
            let condition = conditions::condition(&*budget, now, kind, true, &reason, "");
            let written = client.status(&budget, |status| {
                let all = status.conditions.get_or_insert_default();
                conditions::set(all, condition)
            });
            match written.await {
                Ok(Some(news)) => break assert!(news > News::Nothing),
                Ok(None) => panic!("{kind} {time} is lost in silence"),
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
        }
        let seen = informer.snapshot().get(&"default/b".into()).unwrap();
        let seen = reason_of(&seen, kind);
        assert_eq!(seen, Some(format!("Time{time}")), "behind its own write");
    }
}

fn client_now(random: &Random) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + random.below(0..1000) as i64).unwrap()
}

fn reason_of(budget: &Budget, kind: &str) -> Option<String> {
    let all = budget.status.as_ref()?.conditions.as_deref()?;
    Some(conditions::get(all, kind)?.reason.clone())
}

#[tokio::test(start_paused = true)]
async fn two_programs_with_a_condition_each_keep_both() {
    const TIMES: u64 = 20;
    for seed in 0..20 {
        let place = Place::new(seed).await;
        let budget =
            json!({"metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 1}});
        let budget: Budget = serde_json::from_value(budget).unwrap();
        place.client.create(&budget).await.unwrap();
        let mut programs = Vec::new();
        for kind in ["Fed", "Clean"] {
            let world = place.world.child(kind);
            let random = world.random().child("delay");
            let (clock, delays) = (world.clock().clone(), random.clone());
            // Requests take their time, so that each cache is behind the other program.
            let kube = place.through(move |_| {
                let wait = Duration::from_millis(delays.below(0..20));
                let clock = clock.clone();
                async move {
                    clock.sleep(wait).await;
                    Ok(())
                }
            });
            let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
            let informer = cache.informer::<Budget>(Kind::of::<Budget>(), Selection::default());
            informer.synced().await;
            let client = Client::new(kube, cache, world.clone(), ClientOptions::default());
            let work = report(client, informer, kind, TIMES, random);
            programs.push(world.tasks().spawn("report", work));
        }
        for program in programs {
            program.output().await.expect("it did not fail");
        }
        let live: Budget = place.client.live().get("default/b").await.unwrap().unwrap();
        for kind in ["Fed", "Clean"] {
            assert_eq!(
                reason_of(&live, kind),
                Some(format!("Time{TIMES}")),
                "seed {seed}"
            );
        }
        place.end([]).await;
    }
}
