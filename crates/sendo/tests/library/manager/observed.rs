//! What a program shows of itself: probes, logs, metrics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::CustomResourceExt;
use sendo::election::ElectionOptions;
use sendo::health::{Checks, Report};
use sendo::metrics::Counter;
use sendo::rights::Verb;
use sendo::{Action, Context, Controller, EventSeverity, Manager, Running, Selection, World};

use super::{Bar, Place, SECOND, Tracing, metric};

async fn report(checks: &Checks) -> Report {
    checks.run(&World::seeded(1), &[]).await
}

/// On threads and in real time, but for the program's own clock, which runs
/// fast: code that never waits stops everything else on its thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_stuck_past_its_time_out_is_noticed() {
    let place = Place::new(1).await;
    place.create("a").await;
    let barrier = Arc::new(Barrier::new(2));
    let held = barrier.clone();
    let controller = Controller::new::<ConfigMap>()
        .timeout(10 * SECOND)
        .reconcile(move |_: Arc<ConfigMap>, _: Context| {
            held.wait();
            async { Ok(Action::done()) }
        });
    let mut config = place.config("program");
    config.world = config.world.with_clock_rate(100.0);
    let manager = Manager::new("program").controller(controller);
    let running = manager.start(config).unwrap();
    let live = &running.probes().live;
    let until = async |alive: bool| {
        for _ in 0..1000 {
            let report = report(live).await;
            if report.passed() == alive {
                return report;
            }
            place.pass(Duration::from_millis(10)).await;
        }
        panic!("still {} after ten seconds", report(live).await.lines());
    };
    until(true).await;
    running.ready().await;
    let lines = until(false).await.lines();
    barrier.wait();
    let cause = "[-]workers-configmap failed: a reconcile of configmap (default/a) has not waited for anything for 6";
    assert!(lines.starts_with(cause), "{lines}");
    assert!(lines.ends_with("s, and blocks its thread\n"), "{lines}");
    until(true).await;
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_caches_and_election_and_says_what_is_missing() {
    let place = Place::new(1).await;
    let controller =
        Controller::new::<Bar>().reconcile(|_: Arc<Bar>, _: Context| async { Ok(Action::done()) });
    let mut config = place.config("program");
    config.election = Some(ElectionOptions::new("default", "program"));
    let manager = Manager::new("program").controller(controller);
    let running = manager.start(config).unwrap();
    let lines = async |running: &Running| report(&running.probes().ready).await.lines();
    place.pass(SECOND).await;
    let reported = lines(&running).await;
    let cause = "[-]caches failed: cannot watch bars.example.dev/v1: the API server does not serve this resource";
    assert!(reported.starts_with(cause), "{reported}");
    assert!(reported.ends_with("\n[+]election ok\n"), "{reported}");
    place.client.create(&Bar::crd()).await.unwrap();
    running.ready().await;
    assert_eq!(lines(&running).await, "[+]caches ok\n[+]election ok\n");
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_program_is_not_ready_before_its_kinds_are_installed() {
    let place = Place::new(1).await;
    let away = Arc::new(AtomicBool::new(true));
    let is_lost = away.clone();
    let mut config = place.config_losing("program", move |_| is_lost.load(Ordering::Relaxed));
    config.install_kinds = true;
    let controller =
        Controller::new::<Bar>().reconcile(|_: Arc<Bar>, _: Context| async { Ok(Action::done()) });
    let manager = Manager::new("program")
        .defines::<Bar>()
        .controller(controller);
    let running = manager.start(config).unwrap();
    let lines = async || report(&running.probes().ready).await.lines();
    place.pass(SECOND).await;
    assert_eq!(
        lines().await,
        "[-]caches failed: the program's kinds are not installed yet\n"
    );
    away.store(false, Ordering::Relaxed);
    running.ready().await;
    assert_eq!(lines().await, "[+]caches ok\n");
    place.end([running]).await;
}

/// A program that watches ConfigMaps and Secrets, until the API server is `away`.
fn watching_two_kinds(place: &Place, away: &Arc<AtomicBool>) -> Running {
    let controller = Controller::new::<ConfigMap>()
        .reads::<Secret>()
        .reconcile(|_: Arc<ConfigMap>, _: Context| async { Ok(Action::done()) });
    let away = away.clone();
    let is_lost = move |_: &http::Request<_>| away.load(Ordering::Relaxed);
    let config = place.config_losing("program", is_lost);
    let manager = Manager::new("program").controller(controller);
    manager.start(config).unwrap()
}

#[tokio::test(start_paused = true)]
async fn readiness_ends_when_watches_fail_for_a_minute_and_all_are_named() {
    let place = Place::new(1).await;
    let away = Arc::new(AtomicBool::new(false));
    let running = watching_two_kinds(&place, &away);
    running.ready().await;
    let lines = async || report(&running.probes().ready).await.lines();
    assert_eq!(lines().await, "[+]caches ok\n");
    away.store(true, Ordering::Relaxed);
    // A watch lives ten minutes at most. Until one has failed for a minute, there
    // is only something to remark.
    let failing = async |sign: &str| {
        for _ in 0..620 {
            place.pass(SECOND).await;
            let lines = lines().await;
            if lines.contains("cannot watch") {
                assert!(lines.starts_with(sign), "{lines}");
                return;
            }
        }
        panic!("nothing fails");
    };
    failing("[+]caches ok: cannot watch ").await;
    place.pass(55 * SECOND).await;
    failing("[+]caches ok: cannot watch ").await;
    place.pass(5 * SECOND).await;
    failing("[-]caches failed: cannot watch ").await;
    place.pass(620 * SECOND).await;
    let reported = lines().await;
    for kind in ["configmaps", "secrets"] {
        let cause = format!("cannot watch {kind}/v1: no answer from the API server");
        assert!(reported.contains(&cause), "{reported}");
    }
    assert!(reported.contains("connection refused"), "{reported}");
    away.store(false, Ordering::Relaxed);
    place.pass(60 * SECOND).await;
    assert_eq!(lines().await, "[+]caches ok\n");
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_logged_now_and_then_with_the_cause() {
    let tracing = Tracing::start();
    let place = Place::new(1).await;
    let away = Arc::new(AtomicBool::new(true));
    let running = watching_two_kinds(&place, &away);
    place.pass(3600 * SECOND).await;
    away.store(false, Ordering::Relaxed);
    place.pass(60 * SECOND).await;
    let reported = |lines: &[String], words: &str| {
        let lines = lines.iter().filter(|line| line.contains(words));
        lines.cloned().collect::<Vec<_>>()
    };
    let lines = tracing.lines();
    let first = reported(&lines, "WARN");
    assert!(first.len() >= 2 * 5 && first.len() <= 2 * 10, "{first:#?}");
    assert!(first.iter().all(|line| line.contains("connection refused")));
    assert!(first[first.len() - 1].contains(" attempts)"), "{first:#?}");
    assert_eq!(reported(&lines, "watching again").len(), 2, "{lines:#?}");
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn in_a_quiet_day_a_watch_is_opened_again_only_when_its_time_is_over() {
    let place = Place::new(1).await;
    place.create("a").await;
    let running = watching_two_kinds(&place, &Arc::default());
    running.ready().await;
    place.pass(24 * 3600 * SECOND).await;
    for kind in ["configmaps", "secrets"] {
        let of = |name: &str| metric(&running, &format!("{name}{{kind=\"{kind}/v1\"}}"));
        let restarts = of("sendo_watch_restarts_total");
        assert!((140.0..290.0).contains(&restarts), "{restarts}");
        assert_eq!(of("sendo_watch_lists_total"), 1.0);
        assert_eq!(of("sendo_watch_failing"), 0.0);
    }
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_is_a_span_with_key_and_id_and_no_secret_is_logged() {
    let tracing = Tracing::start();
    let place = Place::new(1).await;
    let mut secret = Secret::default();
    secret.metadata.name = Some("password".to_owned());
    secret.metadata.namespace = Some("default".to_owned());
    let word = "correct horse battery staple";
    let data = ByteString(word.as_bytes().to_vec());
    secret.data = Some([("word".to_owned(), data)].into());
    place.client.create(&secret).await.unwrap();
    let controller = Controller::new::<Secret>()
        .writes::<Secret>(Verb::Create)
        .reconcile(|secret: Arc<Secret>, cx: Context| async move {
            let mut other = Secret::clone(&secret);
            other.metadata.name = Some("not a name".to_owned());
            other.metadata.resource_version = None;
            cx.create(&other).await?;
            Ok(Action::done())
        });
    let manager = Manager::new("program").controller(controller);
    let running = place.run(manager).await;
    place.pass(SECOND).await;
    place.end([running]).await;

    let lines = tracing.lines();
    let spans: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("reconcile failed"))
        .filter_map(|line| line.split_once("reconcile{")?.1.split_once('}'))
        .map(|(span, _)| span)
        .collect();
    let ids: std::collections::BTreeSet<_> = spans
        .iter()
        .filter_map(|span| span.strip_prefix("controller=secret key=default/password id="))
        .collect();
    assert!(spans.len() > 5, "it was tried again and again: {lines:?}");
    assert_eq!(
        ids.len(),
        spans.len(),
        "every reconcile has an id: {spans:?}"
    );
    for form in [word, "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZQ"] {
        let reported: Vec<_> = lines.iter().filter(|line| line.contains(form)).collect();
        assert!(reported.is_empty(), "{reported:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_show_the_cache_its_watches_and_the_requests() {
    let place = Place::new(1).await;
    for name in ["a", "b", "c"] {
        place.create(name).await;
    }
    let controller = Controller::new::<ConfigMap>()
        .reconcile(|_: Arc<ConfigMap>, _: Context| async { Ok(Action::done()) });
    let packed = sendo::cache::KindOptions::<ConfigMap>::new().compact();
    let manager = Manager::new("program")
        .controller(controller)
        .caching(packed);
    let running = place.run(manager).await;
    place.pass(SECOND).await;
    let of = |name: &str| metric(&running, &format!("{name}{{kind=\"configmaps/v1\"}}"));
    assert_eq!(of("sendo_cache_objects"), 3.0);
    assert!(of("sendo_cache_bytes") > 300.0);
    assert_eq!(
        (
            of("sendo_watch_lists_total"),
            of("sendo_watch_restarts_total")
        ),
        (1.0, 0.0)
    );
    assert_eq!(of("sendo_watch_failing"), 0.0);
    assert_eq!(of("sendo_event_latency_seconds_count"), 3.0);
    place.pass(20 * 60 * SECOND).await;
    assert!(
        of("sendo_watch_restarts_total") >= 2.0,
        "a watch lives five to ten minutes"
    );
    assert!(of("sendo_watch_lag_seconds") < 600.0);
    let watches = "rest_client_requests_total{code=\"200\",host=\"kubernetes\",method=\"GET\"}";
    assert!(metric(&running, watches) >= 3.0);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_has_metrics_of_its_own_and_names_a_component_in_its_events() {
    let place = Place::new(1).await;
    let seen: Counter = Counter::default();
    let counted = seen.clone();
    let controller = Controller::new::<ConfigMap>()
        .events_as("librarian")
        .metric("maps_seen_total", "ConfigMaps seen", seen)
        .reconcile(move |_: Arc<ConfigMap>, cx: Context| {
            counted.inc();
            cx.event(EventSeverity::Normal, "Seen", "it was seen");
            async { Ok(Action::done()) }
        });
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.create("a").await;
    place.pass(SECOND).await;
    assert_eq!(metric(&running, "maps_seen_total"), 1.0);
    let live = place.client.live();
    let events = live.list::<Event>(&Selection::default()).await.unwrap();
    let sources: Vec<_> = events.iter().map(|event| &event.source).collect();
    let component = |source: &Option<k8s_openapi::api::core::v1::EventSource>| {
        source.as_ref().and_then(|source| source.component.clone())
    };
    let components: Vec<_> = sources.into_iter().map(component).collect();
    assert_eq!(components, [Some("librarian".to_owned())]);
    place.end([running]).await;
}
