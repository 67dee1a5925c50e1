//! Starts and stops: order, deadlines, failures, installed kinds, confined namespaces.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use sendo::cache::Namespaces;
use sendo::controller::Watches;
use sendo::manager::DidNotStop;
use sendo::predicate::generation_changed;
use sendo::rights::Verb;
use sendo::webhook::{self, Admission, Change, Denied, InProcess, Service};
use sendo::{
    Action, Category, Context, Controller, Elected, Error, Index, Manager, ObjectExt, ObjectKey,
    Reader, Undeclared, everywhere, handler, on_leader, source,
};
use serde_json::json;

use super::{Bar, Log, Place, SECOND, Tracing, metric};

#[tokio::test(start_paused = true)]
async fn a_stop_lets_work_in_flight_end_and_takes_up_nothing_new() {
    let place = Place::new(1).await;
    let log = Log::default();
    let seen = log.clone();
    let reconcile = move |map: Arc<ConfigMap>, cx: Context| {
        let log = seen.clone();
        async move {
            log.add(format!("begin {}", map.name()));
            cx.clock().sleep(20 * SECOND).await;
            log.add(format!("end {}", map.name()));
            Ok(Action::done())
        }
    };
    place.create("a").await;
    place.create("b").await;
    let controller = Controller::new::<ConfigMap>().reconcile(reconcile);
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(SECOND).await;
    let before = place.world.clock().now();
    running.stop().await.unwrap();
    let took = place.world.clock().now() - before;
    assert!(took > 18 * SECOND && took < 21 * SECOND, "{took:?}");
    assert_eq!(log.take(), ["begin a", "end a"]);
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_kind_that_is_not_there_stops_at_once() {
    let place = Place::new(1).await;
    let controller =
        Controller::new::<Bar>().reconcile(|_: Arc<Bar>, _: Context| async { Ok(Action::done()) });
    let reader = everywhere("reader", |_| async { Err(Error::message("started")) });
    let manager = Manager::new("program")
        .controller(controller)
        .reads::<Bar>()
        .runnable(reader);
    let running = manager.start(place.config("program")).unwrap();
    place.pass(5 * SECOND).await;
    let before = place.world.clock().now();
    running.stop().await.unwrap();
    assert!(place.world.clock().now() - before < SECOND);
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_by_the_deadline_is_cut_off_and_named_and_leaves_no_task() {
    let place = Place::new(1).await;
    place.create("a").await;
    let controller = Controller::new::<ConfigMap>()
        .workers(4)
        .reconcile(|_: Arc<ConfigMap>, _: Context| std::future::pending::<sendo::Result<Action>>());
    let stubborn = everywhere("stubborn", |_| std::future::pending());
    let manager = Manager::new("program")
        .controller(controller)
        .runnable(stubborn);
    let running = place.run(manager).await;
    place.pass(SECOND).await;
    let before = place.world.clock().now();
    let error = running.stop().await.unwrap_err();
    assert_eq!((place.world.clock().now() - before).as_secs(), 30);
    let late = error.downcast_ref::<DidNotStop>().unwrap();
    assert_eq!(
        late.cut_off,
        ["`configmap` (reconciling default/a)", "`stubborn`"]
    );
    assert_eq!(late.goes_on, Vec::<String>::new());
    assert_eq!(
        error.to_string(),
        "did not stop within 30s: `configmap` (reconciling default/a), `stubborn`"
    );
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn who_writes_stops_before_who_serves_and_runnables_start_with_their_caches() {
    let place = Place::new(1).await;
    place.create("a").await;
    let log = Log::default();
    let seen = log.clone();
    let reader = everywhere("reader", move |cx| async move {
        seen.add(format!("{} maps", cx.list::<ConfigMap>().count()));
        cx.stopping().cancelled().await;
        // The cache and the client work until the last writer has ended.
        cx.client().create(&super::map("last", 1)).await?;
        cx.clock().sleep(SECOND).await;
        seen.add(format!("{} maps", cx.list::<ConfigMap>().count()));
        Ok(())
    });
    let manager = Manager::new("program")
        .reads::<ConfigMap>()
        .writes::<ConfigMap>(Verb::Create)
        .runnable(reader);
    let running = place.run(manager).await;
    place.pass(SECOND).await;
    place.end([running]).await;
    assert_eq!(log.take(), ["1 maps", "2 maps"]);
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_one_part_ends_all_with_its_cause() {
    let place = Place::new(1).await;
    let other = everywhere("other", |cx| async move {
        cx.stopping().cancelled().await;
        Ok(())
    });
    let fails = on_leader("fails", |cx| async move {
        cx.clock().sleep(SECOND).await;
        Err(Error::message("the disk is full"))
    });
    let manager = Manager::new("program").runnable(other).runnable(fails);
    let error = manager.run(place.config("program")).await.unwrap_err();
    assert_eq!(error.to_string(), "the disk is full");
    let panics = everywhere("panics", |_| async { panic!("on purpose") });
    let manager = Manager::new("program").runnable(panics);
    let error = manager.run(place.config("other")).await.unwrap_err();
    assert_eq!(error.to_string(), "`panics` panicked: on purpose");
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn kinds_of_its_own_are_installed_brought_up_to_date_and_waited_for() {
    let place = Place::new(1).await;
    let mut old = Bar::crd();
    old.spec.versions[0].schema = None;
    old.metadata.annotations = Some([("kept".to_owned(), "yes".to_owned())].into());
    let schema = Bar::crd().spec.versions[0].schema.clone();
    let mut lax = schema.clone().unwrap();
    let properties = lax
        .open_api_v3_schema
        .as_mut()
        .unwrap()
        .properties
        .as_mut()
        .unwrap();
    properties.get_mut("spec").unwrap().properties = None;
    old.spec.versions[0].schema = Some(lax);
    place.client.create(&old).await.unwrap();

    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::new::<Bar>().reconcile(move |bar: Arc<Bar>, _: Context| {
        seen.add(format!("{} {:?}", bar.name(), bar.spec.size));
        async { Ok(Action::done()) }
    });
    let manager = Manager::new("program")
        .defines::<Bar>()
        .controller(controller);
    assert_eq!(manager.definitions().len(), 1);
    let mut config = place.config("program");
    config.install_kinds = true;
    let running = manager.start(config).unwrap();
    running.ready().await;
    let live = place.client.live();
    let served: CustomResourceDefinition = live.get("bars.example.dev").await.unwrap().unwrap();
    let properties = |crd: &CustomResourceDefinition| {
        let schema = crd.spec.versions[0]
            .schema
            .clone()
            .unwrap()
            .open_api_v3_schema
            .unwrap();
        schema.properties.unwrap()["spec"].properties.clone()
    };
    assert_eq!(properties(&served), properties(&Bar::crd()));
    assert_eq!(served.annotation("kept"), Some("yes"));
    let mut bar = Bar::new("b", super::BarSpec { size: Some(3) });
    bar.metadata.namespace = Some("default".to_owned());
    place.client.create(&bar).await.unwrap();
    place.pass(SECOND).await;
    assert_eq!(log.take(), ["b Some(3)"]);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_reads_of_kinds_that_are_installed_is_watched_when_they_are() {
    let place = Place::new(1).await;
    let log = Log::default();
    let seen = log.clone();
    let mut config = place.config_losing("program", move |request| {
        seen.add(request.uri().path());
        false
    });
    config.install_kinds = true;
    let called: Arc<OnceLock<Service>> = Arc::default();
    let registered = called.clone();
    config.webhooks.in_process = Some(InProcess::new(move |_, _, service| {
        registered.set(service).unwrap();
        Box::new(())
    }));
    // It counts the objects of its kind that it can see.
    let validate = |_: Change<Bar>, cx: Admission| async move {
        let seen = cx.list::<Bar>().count();
        Err::<(), Denied>(Denied::because(format!("{seen} are there")))
    };
    let manager = Manager::new("program")
        .defines::<Bar>()
        .webhook(webhook::validates(validate).reads::<Bar>());
    let running = manager.start(config).unwrap();
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "CREATE", "namespace": "default", "name": "b",
            "kind": {"group": "example.dev", "version": "v1", "kind": "Bar"},
            "resource": {"group": "example.dev", "version": "v1", "resource": "bars"},
            "userInfo": {},
            "object": {
                "apiVersion": "example.dev/v1", "kind": "Bar",
                "metadata": {"name": "b", "namespace": "default"}, "spec": {},
            },
        },
    });
    let request = http::Request::post("/validate-example-dev-v1-bar")
        .header("content-type", "application/json")
        .body(review.to_string().into())
        .unwrap();
    // A review that comes before waits.
    let answer = called.get().unwrap().call(request).await;
    let answer = String::from_utf8_lossy(answer.body()).into_owned();
    assert!(answer.contains("0 are there"), "{answer}");
    running.ready().await;
    let requests = log.take();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let installed = requests
        .iter()
        .rposition(|one| one.starts_with(definitions));
    let watched = requests
        .iter()
        .position(|one| one == "/apis/example.dev/v1/bars");
    assert!(installed.is_some() && installed < watched, "{requests:?}");
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_program_confined_to_namespaces_sees_no_other() {
    let place = Place::new(1).await;
    place.create("here").await;
    let mut there = super::map("there", 1);
    there.metadata.namespace = Some("kube-public".to_owned());
    place.client.create(&there).await.unwrap();
    for (namespaces, expected) in [
        (Namespaces::one("default"), "here"),
        (Namespaces::Except(["default".to_owned()].into()), "there"),
    ] {
        let log = Log::default();
        let seen = log.clone();
        let controller =
            Controller::new::<ConfigMap>().reconcile(move |map: Arc<ConfigMap>, _: Context| {
                seen.add(map.name());
                async { Ok(Action::done()) }
            });
        let mut config = place.config(expected);
        config.namespaces = namespaces;
        let running = Manager::new("program")
            .controller(controller)
            .start(config)
            .unwrap();
        place.pass(SECOND).await;
        assert_eq!(log.take(), [expected]);
        running.stop().await.unwrap();
    }
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn two_managers_in_one_process_share_nothing() {
    let place = Place::new(1).await;
    place.create("a").await;
    let manager = |name: &str| {
        let controller = Controller::new::<ConfigMap>()
            .named(name)
            .reconcile(|_: Arc<ConfigMap>, _: Context| async { Ok(Action::done()) });
        Manager::new(name).controller(controller)
    };
    let one = manager("one").start(place.config("one")).unwrap();
    let two = manager("two").start(place.config("two")).unwrap();
    one.ready().await;
    two.ready().await;
    place.pass(SECOND).await;
    let success = |name: &str| {
        format!("controller_runtime_reconcile_total{{controller=\"{name}\",result=\"success\"}}")
    };
    assert_eq!(metric(&one, &success("one")), 1.0);
    assert_eq!(metric(&two, &success("two")), 1.0);
    let page = one.metrics().encode(sendo::metrics::Format::Prometheus);
    assert!(!page.contains("\"two\""));
    one.stop().await.unwrap();
    place.touch("a", 1).await;
    place.pass(SECOND).await;
    assert_eq!(metric(&two, &success("two")), 2.0);
    place.end([two]).await;
}

#[tokio::test(start_paused = true)]
async fn mistakes_are_found_before_anything_starts() {
    let place = Place::new(1).await;
    let controller = || {
        Controller::new::<ConfigMap>()
            .reconcile(|_: Arc<ConfigMap>, _: Context| async { Ok(Action::done()) })
    };
    let manager = Manager::new("program")
        .controller(controller())
        .controller(controller());
    let refused = manager.start(place.config("program")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "two parts of program are called `configmap`: give one controller another name"
    );
    place.end([]).await;
}

#[test]
fn every_mistake_of_a_declaration_is_named_with_its_fix() {
    static BY_TYPE: Index<Secret, String> = Index::new("by-type", |secret| secret.type_.clone());
    let done = |_: Arc<ConfigMap>, _: Context| async { Ok(Action::done()) };
    let keyed = |_: String, _: Context| async { Ok(Action::done()) };
    let watches = Watches::<ObjectKey>::new();
    let fine = || async { Ok::<(), String>(()) };
    let manager = Manager::new("program")
        .controller(
            Controller::new::<ConfigMap>()
                .index(&BY_TYPE)
                .watches_also(&watches)
                .owns::<Namespace>()
                .reconcile(done),
        )
        .controller(
            Controller::new::<ConfigMap>()
                .named("Other")
                .reads::<Secret>()
                .index(&BY_TYPE)
                .watches_also(&watches)
                .timeout(Duration::ZERO)
                .elected(Elected::Alone)
                .reconcile(done),
        )
        .controller(Controller::keyed::<String>("idle").reconcile(keyed))
        .runnable(everywhere("", |_| async { Ok(()) }))
        .runnable(everywhere("line\nbreak", |_| async { Ok(()) }))
        .check("mine", fine)
        .check("mine", fine)
        .check("caches", fine);
    let expected = [
        "a runnable of program has an empty name",
        "the runnable \"line\\nbreak\" cannot write under this name: \
         no more than 128 characters that can be printed make a field manager",
        "the controller `Other` is elected alone, and no lease can be called `program-Other`: \
         use small letters, digits, `-` and `.`",
        "there is more than one readiness check called `mine`: give this one another name",
        "there is more than one readiness check called `caches`: give this one another name",
        "the controller `configmap` says that configmaps/v1 own namespaces/v1, but what is in a \
         namespace cannot own what is in none: use `.watches(…)` with a handler of your own",
        "the controller `configmap` keeps the index `by-type` over secrets/v1, which it neither \
         watches nor reads: add `.reads::<Secret>()`",
        "the controller `Other` has a time-out of zero, in which no reconcile can end: give it longer",
        "the `Watches` given to the controller `Other` are given to another one, or twice: \
         make one for each",
        "the controller `idle` has no source and would never start: add `.watches(…)`",
    ];
    let mut problems = manager.problems();
    let mut expected = expected.map(str::to_owned);
    problems.sort();
    expected.sort();
    assert_eq!(problems, expected);
    assert_eq!(
        Manager::new("").problems(),
        ["the program has no name: give it one in `Manager::new`"]
    );
}

#[tokio::test(start_paused = true)]
async fn workers_of_a_controller_that_is_not_there_are_refused() {
    let place = Place::new(1).await;
    let controller = Controller::new::<ConfigMap>()
        .reconcile(|_: Arc<ConfigMap>, _: Context| async { Ok(Action::done()) });
    let mut config = place.config("program");
    config.workers = [("configmaps".to_owned(), 4)].into();
    let manager = Manager::new("program").controller(controller);
    assert_eq!(
        manager.start(config).unwrap_err().to_string(),
        "workers are given to a controller `configmaps`, which program does not have: it has configmap"
    );
    place.end([]).await;
}

const UNDECLARED: &str = "reads secrets/v1 but does not declare it: add `.reads::<Secret>()` to its \
                          declaration, or ask the API server with `cx.live()`";

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_reads_what_is_not_declared_ends_with_an_error_that_names_the_fix() {
    let tracing = Tracing::start();
    let place = Place::new(1).await;
    place.create("a").await;
    let log = Log::default();
    let seen = log.clone();
    let controller =
        Controller::new::<ConfigMap>().reconcile(move |_: Arc<ConfigMap>, cx: Context| {
            let log = seen.clone();
            async move {
                log.add("begun");
                let secrets = cx.list::<Secret>().count();
                log.add(format!("{secrets} secrets"));
                Ok(Action::done())
            }
        });
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(3600 * SECOND).await;
    assert_eq!(log.take(), ["begun"], "it is not tried again");
    let count = |name: &str| metric(&running, &format!("{name}{{controller=\"configmap\"}}"));
    let terminal = "controller_runtime_terminal_reconcile_errors_total";
    assert_eq!(count(terminal), 1.0);
    assert_eq!(count("controller_runtime_reconcile_panics_total"), 0.0);
    place.touch("a", 1).await;
    place.pass(SECOND).await;
    assert_eq!(count(terminal), 2.0);
    let lines = tracing.lines();
    let failed = lines.iter().find(|line| line.contains("reconcile failed"));
    assert!(failed.unwrap().contains(UNDECLARED), "{failed:?}");
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_runnable_that_reads_what_is_not_declared_ends_the_program_with_the_fix() {
    let place = Place::new(1).await;
    let reader = everywhere("reader", |cx| async move {
        cx.get::<Secret>("a/b");
        Ok(())
    });
    let manager = Manager::new("program").runnable(reader);
    let error = manager.run(place.config("program")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("`reader` {UNDECLARED}"));
    assert_eq!(error.category(), Category::Terminal);
    assert!(error.downcast_ref::<Undeclared>().is_some());
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_reads_what_is_not_declared_loses_its_event_and_tells_the_fix() {
    let tracing = Tracing::start();
    let place = Place::new(1).await;
    place.create("a").await;
    let reads = handler::map_object(|map: &ConfigMap, cx: &Reader| {
        cx.get::<Secret>(map.key());
        [map.name().to_owned()]
    });
    let controller = Controller::keyed::<String>("handled")
        .watches(source::kind::<ConfigMap>(), reads)
        .reconcile(|_: String, _: Context| async { Ok(Action::done()) });
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(SECOND).await;
    place.end([running]).await;
    let lines = tracing.lines();
    let reported = lines
        .iter()
        .find(|line| line.contains("its event is skipped"));
    assert!(reported.unwrap().contains(UNDECLARED), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resync_reconciles_what_has_not_changed() {
    let place = Place::new(1).await;
    place.create("a").await;
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::new::<ConfigMap>()
        .when(generation_changed())
        .reconcile(move |map: Arc<ConfigMap>, _: Context| {
            seen.add(map.name());
            async { Ok(Action::done()) }
        });
    let mut config = place.config("program");
    config.resync = Some(3600 * SECOND);
    let manager = Manager::new("program").controller(controller);
    let running = manager.start(config).unwrap();
    place.pass(4 * 3600 * SECOND).await;
    assert!((4..=5).contains(&log.count()), "{}", log.count());
    place.end([running]).await;
}
