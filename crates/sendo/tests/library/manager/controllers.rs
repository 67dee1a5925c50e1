//! Controllers: workers, results, predicates, resyncs, deleted objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use sendo::cache::KindOptions;
use sendo::predicate::{created, generation_changed, label, selected, updated};
use sendo::queue::Priority;
use sendo::rights::Verb;
use sendo::{
    Action, Context, Controller, Error, Manager, ObjectExt, ObjectKey, Patch, Reconcile, Result,
    handler, source,
};
use serde_json::json;

use super::{Bar, HOUR, Log, Place, SECOND, Tracing, metric};

#[tokio::test(start_paused = true)]
async fn workers_start_when_every_source_has_delivered_and_hold_up_no_other_controller() {
    let place = Place::new(1).await;
    place.create("a").await;
    let log = Log::default();
    let reported = |who: &'static str| {
        let log = log.clone();
        move |map: Arc<ConfigMap>, _: Context| {
            log.add(format!("{who} {}", map.name()));
            async { Ok(Action::done()) }
        }
    };
    let waits = Controller::new::<ConfigMap>()
        .named("waits")
        .owns::<Bar>()
        .reconcile(reported("waits"));
    let goes = Controller::new::<ConfigMap>()
        .named("goes")
        .reconcile(reported("goes"));
    let manager = Manager::new("program").controller(waits).controller(goes);
    let running = manager.start(place.config("program")).unwrap();
    place.pass(60 * SECOND).await;
    assert_eq!(log.take(), ["goes a"]);
    let waiting = running.waits_for();
    assert!(
        waiting[0].contains("bars.example.dev/v1: the API server does not serve this resource"),
        "{waiting:?}"
    );
    let report = running.probes().ready.run(&place.world, &[]).await;
    assert!(!report.passed(), "{}", report.lines());

    use kube::CustomResourceExt;
    place.client.create(&Bar::crd()).await.unwrap();
    running.ready().await;
    place.pass(SECOND).await;
    assert_eq!(log.take(), ["waits a"]);
    let report = running.probes().ready.run(&place.world, &[]).await;
    assert!(report.passed(), "{}", report.lines());
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn each_result_has_its_consequence() {
    let place = Place::new(1).await;
    for name in [
        "again", "broken", "conflict", "done", "panics", "slow", "terminal",
    ] {
        place.create(name).await;
    }
    let log = Log::default();
    let seen = log.clone();
    let tries = Arc::new(AtomicUsize::new(0));
    let reconcile = move |map: Arc<ConfigMap>, cx: Context| {
        seen.add(map.name());
        let tries = tries.clone();
        async move {
            match map.name() {
                "again" => return Ok(Action::after(600 * SECOND)),
                "broken" if tries.fetch_add(1, Ordering::Relaxed) < 2 => {
                    return Err(Error::message("not yet"));
                }
                "terminal" => return Err(Error::terminal("never")),
                "panics" => panic!("on purpose"),
                "slow" => cx.clock().sleep(HOUR).await,
                "conflict" => {
                    let mut old = (*map).clone();
                    old.metadata.resource_version = Some("1".to_owned());
                    cx.update(&old).await?;
                }
                _ => {}
            }
            Ok(Action::done())
        }
    };
    let controller = Controller::new::<ConfigMap>()
        .writes::<ConfigMap>(Verb::Update)
        .workers(16)
        .timeout(10 * SECOND)
        .reconcile(reconcile);
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(5 * SECOND).await;
    let count = |log: &[String], name: &str| log.iter().filter(|line| *line == name).count();
    let lines = log.take();
    assert_eq!(count(&lines, "done"), 1);
    assert_eq!(count(&lines, "broken"), 3);
    assert_eq!(count(&lines, "terminal"), 1);
    assert_eq!(count(&lines, "slow"), 1);
    assert_eq!(count(&lines, "again"), 1);
    assert!(count(&lines, "panics") > 3 && count(&lines, "conflict") > 3);
    place.pass(600 * SECOND).await;
    let lines = log.take();
    assert_eq!((count(&lines, "again"), count(&lines, "terminal")), (1, 0));
    assert!(
        count(&lines, "slow") > 3,
        "a reconcile that took too long is tried again"
    );

    let total = |what: &str| metric(&running, &format!("controller_runtime_{what}"));
    let of = "{controller=\"configmap\"}";
    assert_eq!(total(&format!("terminal_reconcile_errors_total{of}")), 1.0);
    assert!(total(&format!("reconcile_panics_total{of}")) > 3.0);
    assert!(total(&format!("reconcile_timeouts_total{of}")) > 3.0);
    let conflicts = "reconcile_total{controller=\"configmap\",result=\"conflict\"}";
    assert!(total(conflicts) > 3.0, "conflicts are counted on their own");
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_can_say_how_urgent_the_next_time_is() {
    let place = Place::new(1).await;
    let log = Log::default();
    let seen = log.clone();
    let reconcile = move |map: Arc<ConfigMap>, cx: Context| {
        seen.add(map.name());
        let urgent = map.name().starts_with("urgent");
        async move {
            // All come back at the same moment.
            let left = HOUR.saturating_sub(cx.clock().now() - sendo::Moment::START);
            if left.is_zero() {
                return Ok(Action::done());
            }
            let priority = if urgent { Priority(10) } else { Priority::LOW };
            Ok(Action::after(left).priority(priority))
        }
    };
    let controller = Controller::new::<ConfigMap>().reconcile(reconcile);
    for name in ["a", "b", "urgent"] {
        place.create(name).await;
    }
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(SECOND).await;
    assert_eq!(log.take(), ["a", "b", "urgent"]);
    place.pass(HOUR).await;
    assert_eq!(log.take(), ["urgent", "a", "b"]);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_handler_or_predicate_costs_one_event_and_is_counted() {
    let place = Place::new(1).await;
    let log = Log::default();
    let seen = log.clone();
    let odd = sendo::predicate::matches(|map: &ConfigMap| {
        assert_ne!(map.name(), "bad", "on purpose");
        true
    });
    let handler = handler::map_object(|secret: &Secret, _| {
        assert_ne!(secret.name(), "bad", "on purpose");
        [secret.key()]
    });
    let controller = Controller::new::<ConfigMap>()
        .when(odd)
        .watches(source::kind::<Secret>(), handler)
        .reconcile(move |map: Arc<ConfigMap>, _| {
            seen.add(map.name());
            async { Ok(Action::done()) }
        });
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.create("bad").await;
    place.create("good").await;
    let mut secret = Secret::default();
    secret.metadata.namespace = Some("default".to_owned());
    secret.metadata.name = Some("bad".to_owned());
    place.client.create(&secret).await.unwrap();
    place.pass(SECOND).await;
    assert_eq!(log.take(), ["good"]);
    let panics = metric(
        &running,
        "sendo_handler_panics_total{controller=\"configmap\"}",
    );
    assert_eq!(panics, 2.0);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn predicates_decide_which_events_matter() {
    let place = Place::new(1).await;
    let log = Log::default();
    let seen = log.clone();
    let wanted = selected("tier in (web)".parse().unwrap())
        & (created() | updated() & !generation_changed())
        | label("tier", "always");
    let controller =
        Controller::new::<ConfigMap>()
            .when(wanted)
            .reconcile(move |map: Arc<ConfigMap>, _| {
                seen.add(map.name());
                async { Ok(Action::done()) }
            });
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "always")] {
        let mut map = super::map(name, 0);
        map.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
        place.client.create(&map).await.unwrap();
    }
    place.pass(SECOND).await;
    assert_eq!(log.take(), ["a", "c"]);
    // ConfigMaps have no generation: it never changes.
    for name in ["a", "b", "c"] {
        place.touch(name, 1).await;
    }
    place.pass(SECOND).await;
    assert_eq!(log.take(), ["a", "c"]);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_reconciles_everything_again_after_all_news() {
    let place = Place::new(1).await;
    place.create("a").await;
    place.create("b").await;
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::new::<ConfigMap>().reconcile(move |map: Arc<ConfigMap>, _| {
        seen.add(map.name());
        async { Ok(Action::done()) }
    });
    let often = KindOptions::<ConfigMap>::new().resync(HOUR);
    let manager = Manager::new("program")
        .controller(controller)
        .caching(often);
    let running = place.run(manager).await;
    place.pass(SECOND).await;
    assert_eq!(log.take(), ["a", "b"]);
    place.pass(10 * HOUR).await;
    let times = log.take().len();
    assert!((18..=22).contains(&times), "{times}");
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn who_runs_a_program_can_change_its_number_of_workers() {
    let place = Place::new(1).await;
    let at_once = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, max) = (at_once.clone(), most.clone());
    let reconcile = move |_: Arc<ConfigMap>, cx: Context| {
        let (now, max) = (now.clone(), max.clone());
        async move {
            max.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            cx.clock().sleep(SECOND).await;
            now.fetch_sub(1, Ordering::Relaxed);
            Ok(Action::done()) as Result<_>
        }
    };
    for name in ["a", "b", "c", "d", "e"] {
        place.create(name).await;
    }
    let controller = Controller::new::<ConfigMap>().reconcile(reconcile);
    let mut config = place.config("program");
    config.workers.insert("configmap".to_owned(), 3);
    let running = Manager::new("program")
        .controller(controller)
        .start(config)
        .unwrap();
    place.pass(10 * SECOND).await;
    assert_eq!(most.load(Ordering::Relaxed), 3);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn gone_is_called_until_it_succeeds() {
    struct Keeper(Log);
    impl Reconcile<ConfigMap> for Keeper {
        async fn reconcile(&self, map: Arc<ConfigMap>, _: Context) -> Result<Action> {
            self.0.add(format!("keeps {}", map.name()));
            Ok(Action::done())
        }

        async fn gone(&self, key: ObjectKey, cx: Context) -> Result<()> {
            assert_eq!(cx.key(), key.to_string());
            self.0.add(format!("forgets {key}"));
            match self.0.count() {
                0..3 => Err(Error::message("not now")),
                _ => Ok(()),
            }
        }
    }
    let place = Place::new(1).await;
    let object = place.create("a").await;
    let log = Log::default();
    // Predicates of changes let deletions pass.
    let controller = Controller::new::<ConfigMap>()
        .when(generation_changed())
        .reconcile(Keeper(log.clone()));
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(SECOND).await;
    place.client.delete(&object).await.unwrap();
    place.pass(SECOND).await;
    let reported = ["keeps a", "forgets default/a", "forgets default/a"];
    assert_eq!(log.take(), reported);

    // Another that takes its name at once is reconciled instead.
    let object = place.create("a").await;
    place.client.delete(&object).await.unwrap();
    place.create("a").await;
    place.pass(SECOND).await;
    assert_eq!(log.take().last().unwrap(), "keeps a");
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn what_finds_its_object_gone_is_no_failure() {
    let tracing = Tracing::start();
    let place = Place::new(1).await;
    let elsewhere = place.client.clone();
    let reconcile = move |map: Arc<ConfigMap>, cx: Context| {
        let elsewhere = elsewhere.clone();
        async move {
            elsewhere.delete(&*map).await?;
            let change = Patch::Merge(json!({"data": {"value": "1"}}));
            cx.patch(&map, change).await?;
            Ok(Action::done())
        }
    };
    let controller = Controller::new::<ConfigMap>()
        .writes::<ConfigMap>(Verb::Patch)
        .reconcile(reconcile);
    place.create("a").await;
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(HOUR).await;
    let conflicts =
        "controller_runtime_reconcile_total{controller=\"configmap\",result=\"conflict\"}";
    assert_eq!(metric(&running, conflicts), 1.0);
    place.end([running]).await;
    let lines = tracing.lines();
    assert_eq!(lines.iter().find(|line| line.contains("ERROR")), None);
}

#[tokio::test(start_paused = true)]
async fn events_do_not_put_off_the_retry_of_a_key_that_fails() {
    let place = Place::new(1).await;
    place.create("a").await;
    let log = Log::default();
    let seen = log.clone();
    let controller =
        Controller::new::<ConfigMap>().reconcile(move |_: Arc<ConfigMap>, _: Context| {
            seen.add("tried");
            async { Err(sendo::Error::message("not yet")) }
        });
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    for value in 1..=18 {
        place.touch("a", value).await;
        place.pass(SECOND / 20).await;
    }
    assert!(log.take().len() >= 18, "an event waits for nothing");
    place.pass(5 * SECOND).await;
    assert!(log.count() >= 2, "{}", log.count());
    place.end([running]).await;
}
