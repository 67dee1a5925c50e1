//! What needs no virtual time, against a real API server: the one that
//! `SENDO_REAL_KUBECONFIG` names. Without it there is nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::config::{KubeConfigOptions, Kubeconfig};
use sendo::cache::{Cache, CacheOptions, KindOptions, Namespaces, Selection};
use sendo::client::{Client, ClientOptions, Deletion, Finalizer};
use sendo::election::ElectionOptions;
use sendo::events::EventsApi;
use sendo::{
    Action, Config, Context, Controller, EventType, Kind, Manager, ObjectExt, ObjectKey, World,
};

/// A namespace of its own on the real API server.
struct Place {
    world: World,
    kube: kube::Client,
    client: Client,
    namespace: String,
}

impl Place {
    async fn new() -> Option<Self> {
        let path = std::env::var_os("SENDO_REAL_KUBECONFIG")?;
        let file = Kubeconfig::read_from(path).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await;
        let kube = kube::Client::try_from(config.unwrap()).unwrap();
        let world = World::real();
        let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
        let client = Client::new(kube.clone(), cache, world.clone(), ClientOptions::default());
        let namespace = format!("sendo-{}", world.random().name_suffix(8));
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.clone());
        client.create(&object).await.unwrap();
        Some(Place {
            world,
            kube,
            client,
            namespace,
        })
    }

    fn config(&self, name: &str) -> Config {
        let mut config = Config::new(self.kube.clone(), self.world.child(name));
        config.namespaces = Namespaces::one(&self.namespace);
        config
    }

    fn map(&self, name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.namespace = Some(self.namespace.clone());
        map
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, name)
    }

    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        for _ in 0..300 {
            if holds().await {
                return;
            }
            self.world.clock().sleep(Duration::from_millis(100)).await;
        }
        panic!("{what}: did not come true within 30 s");
    }

    async fn end(self) {
        let key = ObjectKey::cluster(&self.namespace);
        self.client.delete::<Namespace>(&key).await.unwrap();
        self.world.tasks().stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_streamed_and_own_writes_are_seen_at_once() {
    let Some(place) = Place::new().await else {
        return;
    };
    for compact in [false, true] {
        let options = KindOptions::<ConfigMap>::new();
        let options = if compact { options.compact() } else { options };
        let options = CacheOptions::default().kind(options);
        let cache = Cache::new(place.kube.clone(), place.world.clone(), options);
        let client = Client::new(
            place.kube.clone(),
            cache.clone(),
            place.world.clone(),
            ClientOptions::default(),
        );
        let selection = Selection::in_namespace(&place.namespace);
        let informer = cache.informer::<ConfigMap>(Kind::of::<ConfigMap>(), selection);
        informer.synced().await;
        assert_eq!(
            informer.state().watches,
            1,
            "the list and the watch are one request"
        );
        let read = |name: &str| informer.snapshot().get(&place.key(name));
        for number in 0..200 {
            let name = format!("m{number}");
            let made = client.create(&place.map(&name)).await.unwrap();
            assert_eq!(read(&name).unwrap().version(), made.version());
            let changed = client.modify(&made, |map: &mut ConfigMap| {
                map.data = Some([("n".to_owned(), number.to_string())].into());
            });
            let changed = changed.await.unwrap();
            assert_eq!(
                *read(&name).unwrap(),
                without_managed_fields(changed.clone())
            );
            assert_eq!(client.delete(&changed).await.unwrap(), Deletion::Done);
            assert!(read(&name).is_none());
        }
    }
    place.end().await;
}

fn without_managed_fields(mut map: ConfigMap) -> ConfigMap {
    map.metadata.managed_fields = None;
    map
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_owns_its_fields_and_a_finalizer_holds_until_the_clean_up() {
    let Some(place) = Place::new().await else {
        return;
    };
    let client = place.client.with_field_manager("owner-test");
    let owner = client.create(&place.map("owner")).await.unwrap();
    let mut object = place.map("owned");
    object.data = Some(
        [
            ("a".to_owned(), "1".to_owned()),
            ("b".to_owned(), "2".to_owned()),
        ]
        .into(),
    );
    let applied = client.apply_owned(&owner, object.clone()).await.unwrap();
    assert_eq!(applied.controller_of::<ConfigMap>(), Some(owner.uid()));
    object.data = Some([("a".to_owned(), "1".to_owned())].into());
    let applied = client.apply_owned(&owner, object.clone()).await.unwrap();
    assert_eq!(
        applied.data, object.data,
        "what is no longer said is taken back"
    );
    let manager = &applied.metadata.managed_fields.unwrap()[0];
    assert_eq!(manager.manager.as_deref(), Some("owner-test"));

    const NAME: &str = "example.dev/clean";
    let nothing = || async { Ok::<(), sendo::Error>(()) };
    let placed = client.finalizer(&owner, NAME, nothing).await.unwrap();
    assert_eq!(placed, Finalizer::InPlace);
    assert_eq!(client.delete(&owner).await.unwrap(), Deletion::Begun);
    let live = client.live();
    let going: ConfigMap = live.get(place.key("owner")).await.unwrap().unwrap();
    let done = client.finalizer(&going, NAME, nothing).await.unwrap();
    assert_eq!(done, Finalizer::Going(Action::done()));
    assert!(
        live.get::<ConfigMap>(place.key("owner"))
            .await
            .unwrap()
            .is_none()
    );

    // A status that is written to what is gone is quiet.
    let pod = Pod {
        metadata: owner.metadata.clone(),
        ..Pod::default()
    };
    let written = client.status(&pod, |status| status.phase = Some("Failed".to_owned()));
    assert_eq!(written.await.unwrap(), None);
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reconciles_elects_and_tells() {
    let Some(place) = Place::new().await else {
        return;
    };
    let seen = Arc::new(AtomicU64::new(0));
    let program = |config: Config| {
        let seen = seen.clone();
        let reconcile = move |map: Arc<ConfigMap>, cx: Context| {
            let seen = seen.clone();
            async move {
                if map.label("mine").is_some() {
                    let mut secret = Secret::default();
                    secret.metadata.name = map.metadata.name.clone();
                    secret.metadata.namespace = map.metadata.namespace.clone();
                    cx.apply_owned(&map, secret).await?;
                    cx.event(EventType::Normal, "Made", "a Secret");
                    seen.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Action::done())
            }
        };
        let controller = Controller::new::<ConfigMap>()
            .owns::<Secret>()
            .reconcile(reconcile);
        let manager = Manager::new("real").controller(controller);
        manager.start(config).unwrap()
    };
    let elected = |name: &str| {
        let mut config = place.config(name);
        config.events = EventsApi::Series;
        config.election = Some(ElectionOptions {
            identity: Some(name.to_owned()),
            ..ElectionOptions::new(&place.namespace, "real")
        });
        config
    };
    let live = place.client.live();
    let holder = async || {
        let lease = live.get::<Lease>(place.key("real")).await.unwrap();
        lease.and_then(|lease| lease.spec?.holder_identity)
    };
    let leads = async |who: &str| holder().await.as_deref() == Some(who);
    let one = program(elected("one"));
    place
        .until("the first leads", async || leads("one").await)
        .await;
    let two = program(elected("two"));
    two.ready().await;
    let mut map = place.map("a");
    map.metadata.labels = Some([("mine".to_owned(), "yes".to_owned())].into());
    place.client.create(&map).await.unwrap();
    place
        .until("the Secret is there", async || {
            live.get::<Secret>(place.key("a")).await.unwrap().is_some()
        })
        .await;
    type Told = k8s_openapi::api::events::v1::Event;
    let selection = Selection::in_namespace(&place.namespace);
    place
        .until("the event is told", async || {
            let events = live.list::<Told>(&selection).await.unwrap();
            events
                .iter()
                .any(|event| event.reason.as_deref() == Some("Made"))
        })
        .await;
    assert!(leads("one").await);
    one.stop().await.unwrap();
    place
        .until("the other leads", async || leads("two").await)
        .await;
    two.stop().await.unwrap();
    place.end().await;
}
