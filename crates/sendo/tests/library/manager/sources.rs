//! Sources that are not objects: tickers, channels, functions, streams.

use std::sync::Arc;

use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::CustomResourceExt as _;
use sendo::controller::Watches;
use sendo::metrics::Format;
use sendo::rights::{Right, Verb};
use sendo::source::{self, AnyMeta, Item, Tick};
use sendo::{
    Action, Context, Controller, Event, Index, Kind, Manager, ObjectExt, ObjectKey, Reader,
    Selection, handler,
};

use super::{Bar, BarSpec, HOUR, Log, Place, SECOND, Tracing, metric};

/// The right to watch kinds that are known only at run time.
fn every_kind_is_read() -> Right {
    Right::resource("*", "*", Verb::List | Verb::Watch)
}

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.namespace = Some("default".to_owned());
    secret.metadata.name = Some(name.to_owned());
    secret
}

/// A controller of text keys that writes down what it reconciles, and when.
fn writing_down(
    log: &Log,
) -> impl Fn(String, Context) -> std::future::Ready<sendo::Result<Action>> + use<> {
    let log = log.clone();
    move |key, cx| {
        log.add(format!("{} {key}", cx.now()));
        std::future::ready(Ok(Action::done()))
    }
}

fn keys(log: &Log) -> Vec<String> {
    let lines = log.take();
    let keys = lines
        .iter()
        .map(|line| line.split_once(' ').unwrap().1.to_owned());
    keys.collect()
}

#[test]
fn an_hour_of_ticks_is_the_same_twice() {
    async fn hour() -> (Vec<String>, Vec<String>) {
        let tracing = Tracing::start();
        let place = Place::new(7).await;
        let log = Log::default();
        for name in ["a", "b"] {
            place.create(name).await;
        }
        let every = source::ticker(10 * SECOND);
        let maps = handler::map(|_: Tick, cx: &sendo::Reader| {
            let maps = cx.list::<ConfigMap>().keys();
            maps.iter().map(ToString::to_string).collect::<Vec<_>>()
        });
        let controller = Controller::keyed::<String>("ticked")
            .reads::<ConfigMap>()
            .watches(every, maps)
            .reconcile(writing_down(&log));
        let running = place
            .run(Manager::new("program").controller(controller))
            .await;
        place.pass(HOUR + SECOND).await;
        place.end([running]).await;
        (log.take(), tracing.lines())
    }
    let run = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build();
        runtime.unwrap().block_on(hour())
    };
    let (reconciles, logs) = run();
    assert_eq!(reconciles.len(), 2 * 360);
    assert!(logs.len() > reconciles.len(), "{}", logs.len());
    assert_eq!((reconciles, logs), run());
}

#[tokio::test(start_paused = true)]
async fn a_full_channel_makes_wait_or_drops_and_counts() {
    let place = Place::new(1).await;
    let log = Log::default();
    let (events, source) = source::channel::<u32>(2);
    let slow = handler::map_async(|event: u32, _| async move {
        tokio::time::sleep(SECOND).await;
        [event.to_string()]
    });
    let controller = Controller::keyed::<String>("slow")
        .watches(source.named("numbers"), slow)
        .reconcile(writing_down(&log));
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    let taken = (0..6).filter(|event| events.offer(*event).unwrap()).count();
    assert!((2..=3).contains(&taken), "{taken}");
    assert_eq!(events.dropped(), 6 - taken as u64);
    let dropped = metric(
        &running,
        "sendo_source_dropped_total{controller=\"slow\",source=\"numbers\"}",
    );
    assert_eq!(dropped, events.dropped() as f64);
    for event in 10..15 {
        events.send(event).await.unwrap();
    }
    place.pass(10 * SECOND).await;
    let keys = keys(&log);
    assert_eq!(keys.len(), taken + 5);
    assert!(keys.ends_with(&["10", "11", "12", "13", "14"].map(str::to_owned)));
    running.stop().await.unwrap();
    assert!(events.offer(99).is_err());
    place.end([]).await;
}

#[tokio::test(start_paused = true)]
async fn a_function_that_fails_runs_again_and_delays_nobody() {
    let place = Place::new(1).await;
    let log = Log::default();
    let failing = source::function("failing", |out: source::Output<u32>| async move {
        out.send(1).await?;
        if out.world().random().below(0..2) == 0 {
            panic!("on purpose");
        }
        Err(sendo::Error::message("the other side hung up"))
    });
    let ends = source::function("ends", |out: source::Output<u32>| async move {
        out.send(2).await?;
        Ok(())
    });
    let name = || handler::map(|event: u32, _: &sendo::Reader| [event.to_string()]);
    let controller = Controller::keyed::<String>("functions")
        .watches(failing, name())
        .watches(ends, name())
        .watches(
            source::from_stream("stream", stream::iter([3, 4])).when(|event| *event > 3),
            name(),
        )
        .reconcile(writing_down(&log));
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(SECOND / 2).await;
    let mut first = keys(&log);
    first.sort();
    assert_eq!(first, ["1", "2", "4"]);
    place.pass(300 * SECOND).await;
    let again = keys(&log);
    assert!(again.iter().all(|key| key == "1"));
    // 0.8 s, doubling to 30 s.
    assert!((12..=16).contains(&again.len()), "{}", again.len());
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_says_when_it_is_ready_is_waited_for() {
    let place = Place::new(1).await;
    let log = Log::default();
    let (items, receiver) = futures::channel::mpsc::unbounded();
    let controller = Controller::keyed::<String>("items")
        .watches(
            source::from_items("items", receiver),
            handler::map(|key: String, _: &sendo::Reader| [key]),
        )
        .reconcile(writing_down(&log));
    let running = Manager::new("program")
        .controller(controller)
        .start(place.config("program"));
    let running = running.unwrap();
    items
        .unbounded_send(Item::Event("early".to_owned()))
        .unwrap();
    place.pass(60 * SECOND).await;
    assert_eq!(keys(&log), Vec::<String>::new());
    items.unbounded_send(Item::Ready).unwrap();
    place.pass(SECOND).await;
    assert_eq!(keys(&log), ["early"]);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn one_controller_goes_on_from_what_another_has_done() {
    let place = Place::new(1).await;
    let log = Log::default();
    let (done, source) = source::channel::<ObjectKey>(64);
    let first = Controller::new::<ConfigMap>().announces(&done).reconcile(
        |map: Arc<ConfigMap>, _: Context| async move {
            if map.name() == "bad" {
                return Err(sendo::Error::terminal("no"));
            }
            Ok(Action::done())
        },
    );
    let second = Controller::keyed::<String>("second")
        .watches(
            source,
            handler::map(|key: ObjectKey, _: &sendo::Reader| [key.to_string()]),
        )
        .reconcile(writing_down(&log));
    let manager = Manager::new("program").controller(first).controller(second);
    let running = place.run(manager).await;
    place.create("bad").await;
    place.create("good").await;
    place.pass(SECOND).await;
    assert_eq!(keys(&log), ["default/good"]);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn sources_come_and_go_while_a_controller_runs() {
    let place = Place::new(1).await;
    place.client.create(&secret("old")).await.unwrap();
    let log = Log::default();
    let watches = Watches::<String>::new();
    let name = |what: &'static str| {
        handler::map_object(move |object: &Secret, _| [format!("{what} {}", object.name())])
    };
    let (_sender, idle) = source::channel::<String>(1);
    let controller = Controller::keyed::<String>("changing")
        .watches(idle, handler::map(|key: String, _: &sendo::Reader| [key]))
        .watches_also(&watches)
        .needs(every_kind_is_read())
        .reconcile(writing_down(&log));
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    assert!(running.cache().states().is_empty());

    let one = watches.add(source::kind::<Secret>(), name("one"));
    let two = watches.add(source::kind::<Secret>(), name("two"));
    place.pass(SECOND).await;
    let mut seen = keys(&log);
    seen.sort();
    assert_eq!(seen, ["one old", "two old"]);
    assert_eq!(running.cache().states().len(), 1, "both share one watch");

    watches.remove(one);
    place.pass(SECOND).await;
    place.client.create(&secret("new")).await.unwrap();
    place.pass(SECOND).await;
    assert_eq!(keys(&log), ["two new"]);
    watches.remove(two);
    watches.remove(two);
    place.pass(SECOND).await;
    assert!(
        running.cache().states().is_empty(),
        "nobody wants it any more"
    );
    let again = watches.add(source::kind::<Secret>(), name("again"));
    place.pass(SECOND).await;
    assert_eq!(keys(&log), ["again new", "again old"]);
    watches.remove(again);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn what_feeds_a_source_ends_when_the_source_is_taken_away() {
    let place = Place::new(1).await;
    let log = Log::default();
    let watches = Watches::<String>::new();
    let controller = Controller::keyed::<String>("changing")
        .watches_also(&watches)
        .needs(every_kind_is_read())
        .reconcile(writing_down(&log));
    let manager = Manager::new("program").controller(controller);
    let running = manager.start(place.config("program")).unwrap();
    running.ready().await;
    let before = place.world.tasks().running();

    let beats = Log::default();
    let beating = beats.clone();
    let function = source::function("beats", move |out: source::Output<u32>| {
        let beats = beating.clone();
        async move {
            loop {
                out.world().clock().sleep(SECOND).await;
                beats.add("beat");
                out.send(1).await?;
            }
        }
    });
    let tick = watches.add(
        source::ticker(SECOND),
        handler::map(|_: Tick, _: &Reader| ["tick".to_owned()]),
    );
    let function = watches.add(
        function,
        handler::map(|event: u32, _: &Reader| [event.to_string()]),
    );
    let kinds = watches.add(
        source::every_kind(),
        handler::map(|_: (Kind, Event<AnyMeta>), _: &Reader| None),
    );
    place.pass(10 * SECOND).await;
    assert!(place.world.tasks().running().len() > before.len() + 3);
    for source in [tick, function, kinds] {
        watches.remove(source);
    }
    place.pass(SECOND / 10).await;
    log.take();
    beats.take();
    place.pass(60 * SECOND).await;
    assert_eq!((log.count(), beats.count()), (0, 0));
    assert_eq!(place.world.tasks().running(), before);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_does_not_hold_up_every_other() {
    let tracing = Tracing::start();
    let place = Place::new(1).await;
    place.client.create(&Bar::crd()).await.unwrap();
    place.create("a").await;
    let log = Log::default();
    let maps = handler::map(|(kind, event): (Kind, Event<AnyMeta>), _: &Reader| {
        (kind.kind == "ConfigMap").then(|| event.object().name().to_owned())
    });
    let controller = Controller::keyed::<String>("all")
        .needs(every_kind_is_read())
        .watches(source::every_kind(), maps)
        .reconcile(writing_down(&log));
    let is_lost = |request: &http::Request<_>| request.uri().path().ends_with("/bars");
    let config = place.config_losing("program", is_lost);
    let running = Manager::new("program")
        .controller(controller)
        .start(config)
        .unwrap();
    place.pass(20 * SECOND).await;
    assert_eq!(log.count(), 0, "a failure may be over in a moment");
    let checks = &running.probes().ready;
    assert!(!checks.run(&place.world, &[]).await.passed());
    place.pass(60 * SECOND).await;
    assert!(keys(&log).contains(&"a".to_owned()));
    let report = checks.run(&place.world, &[]).await;
    assert!(report.passed(), "{}", report.lines());
    let remark = "[+]caches ok: cannot watch bars.example.dev/v1: no answer from the API server";
    assert!(report.lines().starts_with(remark), "{}", report.lines());
    place.end([running]).await;
    let reported = "begins without a kind: cannot watch bars.example.dev/v1";
    let lines = tracing.lines();
    assert_eq!(
        lines.iter().filter(|line| line.contains(reported)).count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_kind_are_read_together() {
    static BY_VALUE: Index<ConfigMap, String> = Index::new("by-value", |map: &ConfigMap| {
        map.data.as_ref()?.get("value").cloned()
    });
    let place = Place::new(1).await;
    let of_colour = |name: &str, colour: &str| {
        let mut map = super::map(name, 1);
        map.metadata.labels = Some([("colour".to_owned(), colour.to_owned())].into());
        map
    };
    for (name, colour) in [("r", "red"), ("b", "blue"), ("g", "green")] {
        place.client.create(&of_colour(name, colour)).await.unwrap();
    }
    let part = |colours: &str| {
        let selector = format!("colour in ({colours})").parse().unwrap();
        source::kind::<ConfigMap>().selecting(Selection::labels(selector))
    };
    let log = Log::default();
    let seen = log.clone();
    let name = || handler::map_object(|map: &ConfigMap, _: &Reader| [map.name().to_owned()]);
    let controller = Controller::keyed::<String>("parts")
        .writes::<ConfigMap>(Verb::Update | Verb::Delete)
        .watches(part("red,purple"), name())
        .watches(part("blue,purple"), name())
        .index(&BY_VALUE)
        .reconcile(move |name: String, cx: Context| {
            let log = seen.clone();
            async move {
                let key = |name: &str| ObjectKey::namespaced("default", name);
                let found = cx.get::<ConfigMap>(key(&name)).is_some();
                let names = |listing: sendo::Listing<'_, ConfigMap>| {
                    let keys = listing.keys();
                    let names = keys.iter().map(|key| key.name().to_owned());
                    names.collect::<Vec<_>>().join(" ")
                };
                let all = names(cx.list());
                let indexed = names(cx.list::<ConfigMap>().by(&BY_VALUE, "1"));
                log.add(format!("{name} {found}, all {all}, of 1 {indexed}"));
                if name == "r" && all == "b r" {
                    // Own writes are seen at once, in whichever part they are.
                    let paint = |map: &mut ConfigMap| {
                        let labels = map.metadata.labels.get_or_insert_default();
                        labels.insert("colour".to_owned(), "purple".to_owned());
                    };
                    cx.client().modify::<ConfigMap, _>(&key("b"), paint).await?;
                    log.add(format!("painted, all {}", names(cx.list())));
                    cx.client().modify::<ConfigMap, _>(&key("r"), paint).await?;
                    let red: Option<Arc<ConfigMap>> = cx.get(key("r"));
                    let colour = red.unwrap().label("colour").unwrap().to_owned();
                    log.add(format!("{colour}, all {}", names(cx.list())));
                    cx.delete(&*cx.get::<ConfigMap>(key("b")).unwrap()).await?;
                    log.add(format!("deleted, all {}", names(cx.list())));
                }
                Ok(Action::done())
            }
        });
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(SECOND).await;
    let lines = log.take();
    let expected = [
        "r true, all b r, of 1 b r",
        "painted, all b r",
        "purple, all b r",
        "deleted, all r",
    ];
    assert!(lines.windows(4).any(|lines| lines == expected), "{lines:?}");
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn functions_for_each_kind_of_event_see_old_and_new() {
    let place = Place::new(1).await;
    let log = Log::default();
    let value = |map: &ConfigMap| map.data.as_ref().unwrap()["value"].clone();
    let handler = handler::on::<ConfigMap, String>()
        .created(move |map, _| [format!("created {}", value(map))])
        .updated(move |old, new, _| [format!("from {} to {}", value(old), value(new))])
        .deleted(|map, _| [format!("deleted {}", map.name())])
        .handler();
    let controller = Controller::keyed::<String>("funcs")
        .watches(source::kind::<ConfigMap>(), handler)
        .reconcile(writing_down(&log));
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    let object = place.create("a").await;
    place.pass(SECOND).await;
    place.touch("a", 5).await;
    place.pass(SECOND).await;
    place.client.delete(&object).await.unwrap();
    place.pass(SECOND).await;
    assert_eq!(keys(&log), ["created 0", "from 0 to 5", "deleted a"]);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_away_is_watched_no_more_and_nothing_is_wrong() {
    let tracing = Tracing::start();
    let place = Place::new(1).await;
    let log = Log::default();
    let bars = handler::map(|(kind, event): (Kind, Event<AnyMeta>), _: &Reader| {
        (kind.kind == "Bar").then(|| event.object().name().to_owned())
    });
    let controller = Controller::keyed::<String>("all")
        .needs(every_kind_is_read())
        .watches(source::every_kind(), bars)
        .reconcile(writing_down(&log));
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    for _ in 0..2 {
        let definition = place.client.create(&Bar::crd()).await.unwrap();
        place.pass(SECOND).await;
        let mut bar = Bar::new("a", BarSpec { size: None });
        bar.metadata.namespace = Some("default".to_owned());
        place.client.create(&bar).await.unwrap();
        place.pass(SECOND).await;
        assert_eq!(keys(&log), ["a"]);
        let watched = || {
            let page = running.metrics().encode(Format::Prometheus);
            let mut cached = page
                .lines()
                .filter(|l| l.starts_with("sendo_cache_objects"));
            cached.any(|line| line.contains("bars"))
        };
        assert!(watched());
        place.client.delete(&definition).await.unwrap();
        place.pass(SECOND).await;
        assert!(!watched());
        log.take();
    }
    place.pass(HOUR).await;
    place.end([running]).await;
    let wrong = tracing.lines();
    let wrong = wrong
        .iter()
        .find(|line| line.contains("WARN") || line.contains("ERROR"));
    assert_eq!(wrong, None);
}

#[tokio::test(start_paused = true)]
async fn an_index_over_every_kind_is_there_whoever_has_begun_to_watch_one() {
    static BY_NAME: Index<AnyMeta, String> =
        Index::new("by-name", |object| Some(object.name().to_owned()));
    let tracing = Tracing::start();
    let place = Place::new(1).await;
    let log = Log::default();
    let plain = Controller::keyed::<String>("plain")
        .needs(every_kind_is_read())
        .watches(
            source::every_kind(),
            handler::map(|_: (Kind, Event<AnyMeta>), _: &Reader| None),
        )
        .reconcile(writing_down(&log));
    let look = handler::map(|_: (Kind, Event<AnyMeta>), cx: &Reader| {
        for kind in cx.watched_kinds::<AnyMeta>() {
            let objects = cx.list_of::<AnyMeta>(&kind);
            objects.map(|objects| objects.by(&BY_NAME, "a").count());
        }
        None
    });
    let indexed = Controller::keyed::<String>("indexed")
        .watches(source::every_kind().index(&BY_NAME), look)
        .reconcile(writing_down(&log));
    let manager = Manager::new("program").controller(plain);
    let running = place.run(manager.controller(indexed)).await;
    place.client.create(&Bar::crd()).await.unwrap();
    // There are events all the time while the new kind is found.
    for number in 0..400 {
        place.create(&format!("m{number}")).await;
        place.pass(SECOND / 1000).await;
    }
    place.end([running]).await;
    let lines = tracing.lines();
    assert_eq!(lines.iter().find(|line| line.contains("ERROR")), None);
}
