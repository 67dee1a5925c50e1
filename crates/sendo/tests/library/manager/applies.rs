//! Applies that are sent, and those that need not be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use sendo::cache::{Cache, CacheOptions, Informer};
use sendo::client::{Client, ClientOptions, Patch};
use sendo::{Action, Context, Controller, Kind, Manager, ObjectExt, ObjectKey, Running, Selection};
use serde_json::json;

use super::{Place, SECOND, map};

/// A program that makes a ConfigMap for each one called `owner-…`, and how many
/// patches it sends.
fn program(place: &Place) -> (Running, Arc<AtomicU64>) {
    let sent = Arc::new(AtomicU64::new(0));
    let count = sent.clone();
    let mut config = place.config("program");
    config.client = place.through(move |method| {
        if method == Method::PATCH {
            count.fetch_add(1, Ordering::Relaxed);
        }
        async { Ok(()) }
    });
    let reconcile = |owner: Arc<ConfigMap>, cx: Context| async move {
        if let Some(number) = owner.name().strip_prefix("owner-") {
            let mut owned = map(&format!("owned-{number}"), 0);
            owned.metadata.labels = Some([("made".to_owned(), "yes".to_owned())].into());
            let applied = cx.apply_owned(&owner, owned).await?;
            assert_eq!(applied.controller_of::<ConfigMap>(), Some(owner.uid()));
        }
        Ok(Action::done())
    };
    let controller = Controller::new::<ConfigMap>()
        .named("applier")
        .owns::<ConfigMap>()
        .workers(16)
        .reconcile(reconcile);
    let manager = Manager::new("program").controller(controller);
    (manager.start(config).unwrap(), sent)
}

#[tokio::test(start_paused = true)]
async fn a_restart_over_five_thousand_objects_applies_none() {
    const OBJECTS: u64 = 5000;
    let place = Place::new(1).await;
    for number in 0..OBJECTS {
        place.create(&format!("owner-{number}")).await;
    }
    let (first, sent) = program(&place);
    first.ready().await;
    place.pass(60 * SECOND).await;
    assert_eq!(sent.load(Ordering::Relaxed), OBJECTS, "each is made once");
    first.stop().await.unwrap();

    let (second, sent) = program(&place);
    second.ready().await;
    place.pass(60 * SECOND).await;
    assert_eq!(sent.load(Ordering::Relaxed), 0, "all is as it should be");
    // What somebody else changes of it is put right, and nothing but that.
    let key = ObjectKey::namespaced("default", "owned-7");
    let spoil = |map: &mut ConfigMap| map.data = None;
    place
        .client
        .modify::<ConfigMap, _>(&key, spoil)
        .await
        .unwrap();
    place.pass(60 * SECOND).await;
    assert_eq!(sent.load(Ordering::Relaxed), 1);
    let live = place.client.live();
    let owned: ConfigMap = live.get(key).await.unwrap().unwrap();
    assert_eq!(owned.data, map("any", 0).data);
    place.end([second]).await;
}

/// A client that applies as `manager`, with a warm cache of Deployments, and how
/// many patches it sends.
async fn client(place: &Place, manager: &str) -> (Client, Informer<Deployment>, Arc<AtomicU64>) {
    let sent = Arc::new(AtomicU64::new(0));
    let count = sent.clone();
    let kube = place.through(move |method| {
        if method == Method::PATCH {
            count.fetch_add(1, Ordering::Relaxed);
        }
        async { Ok(()) }
    });
    let world = place.world.child("client");
    let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
    let options = ClientOptions {
        name: manager.to_owned(),
        ..ClientOptions::default()
    };
    let client = Client::new(kube, cache.clone(), world, options);
    let informer = cache.informer(Kind::of::<Deployment>(), Selection::default());
    informer.synced().await;
    (client, informer, sent)
}

fn deployment(cpu: &str, args: &[&str]) -> Deployment {
    let labels = json!({"app": "web"});
    let container = json!({"name": "c", "image": "i", "args": args, "ports": [{"containerPort": 80}],
                           "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                           "resources": {"requests": {"cpu": cpu}}});
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "labels": labels},
        "spec": {"selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_apply_is_sent_if_and_only_if_it_changes_values_or_ownership() {
    let place = Place::new(1).await;
    let wanted = deployment("1", &["x"]);
    let (first, ..) = client(&place, "me").await;
    first.apply(&wanted).await.unwrap();

    // Over a cold cache, with defaults that the server has set.
    let (me, informer, sent) = client(&place, "me").await;
    let version = me.apply(&wanted).await.unwrap().version();
    assert_eq!(sent.load(Ordering::Relaxed), 0);
    let (other, _cache, of_other) = client(&place, "other").await;
    other.apply(&wanted).await.unwrap();
    assert_eq!(of_other.load(Ordering::Relaxed), 1, "it owns nothing yet");
    let catch_up = async |version: u64| {
        while informer.snapshot().version() < version {
            place.pass(SECOND).await;
        }
    };
    let live: Deployment = place
        .client
        .live()
        .get("default/web")
        .await
        .unwrap()
        .unwrap();
    assert!(live.version() > version);
    catch_up(live.version()).await;
    me.apply(&wanted).await.unwrap();
    assert_eq!(sent.load(Ordering::Relaxed), 0, "others may own the same");

    let less = deployment("1", &[]);
    me.apply(&less).await.unwrap();
    assert_eq!(sent.load(Ordering::Relaxed), 1, "something is said no more");
    me.apply(&less).await.unwrap();
    assert_eq!(sent.load(Ordering::Relaxed), 1);
    // A value that the server writes in its own way is sent once.
    let odd = deployment("2000m", &[]);
    me.apply(&odd).await.unwrap();
    me.apply(&odd).await.unwrap();
    assert_eq!(sent.load(Ordering::Relaxed), 2);
    let dry = me.dry_run().apply(&odd).await.unwrap();
    assert_eq!((dry.name(), sent.load(Ordering::Relaxed)), ("web", 3));

    // Somebody changes a value of it.
    let patch = Patch::Merge(
        json!({"spec": {"template": {"metadata": {"labels": {"app": "web", "x": "y"}}}}}),
    );
    let patched = place.client.patch(&live, patch).await.unwrap();
    catch_up(patched.version()).await;
    me.apply(&odd).await.unwrap();
    assert_eq!(
        sent.load(Ordering::Relaxed),
        4,
        "that state is not known yet"
    );
    place.end([]).await;
}
