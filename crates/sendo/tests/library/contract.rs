//! What holds between the library and any API server, in real time: on the
//! embedded one always, and on a real one too if `SENDO_REAL_KUBECONFIG` names it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use sendo::cache::{Cache, CacheOptions, Informer, KindOptions, Namespaces, Selection};
use sendo::client::{Client, ClientOptions, Deletion, Finalizer};
use sendo::election::ElectionOptions;
use sendo::events::EventsApi;
use sendo::{
    Action, Config, Context, Controller, EventSeverity, Kind, Manager, ObjectExt, ObjectKey, Typed,
    World,
};
use sendo_server::{ApiServer, Options, User};
use sendo_store::{Memory, Retention};
use serde::{Deserialize, Serialize};
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);

/// A namespace of its own on an API server.
struct TestNamespace {
    world: World,
    server: Server,
    kube: kube::Client,
    client: Client,
    namespace: String,
}

enum Server {
    Embedded(Box<ApiServer>),
    Real(Box<kube::Config>),
}

impl Server {
    async fn embedded(world: &World) -> Self {
        let store = Memory::new(world.clock().clone(), Retention::default());
        let options = Options::new(Arc::new(store), world.clone());
        Server::Embedded(Box::new(ApiServer::start(options).await.unwrap()))
    }

    async fn real() -> Option<Self> {
        let path = std::env::var_os("SENDO_REAL_KUBECONFIG")?;
        let file = Kubeconfig::read_from(path).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await;
        Some(Server::Real(Box::new(config.unwrap())))
    }

    /// A connection of a user of that name, or of one who may do anything.
    fn connect(&self, user: Option<&str>) -> kube::Client {
        match self {
            Server::Embedded(server) => {
                let named = |name| User::new(name, ["contract"]);
                let user = user.map_or_else(User::admin, named);
                kube::Client::new(server.as_user(user), "default")
            }
            Server::Real(config) => {
                let mut config = kube::Config::clone(config);
                config.auth_info.impersonate = user.map(str::to_owned);
                sendo::client::connect(config).unwrap()
            }
        }
    }
}

/// Runs a test on each server there is.
async fn everywhere(test: impl AsyncFn(&TestNamespace)) {
    let embedded = World::real();
    let mut servers = vec![(embedded.clone(), Server::embedded(&embedded).await)];
    if let Some(real) = Server::real().await {
        servers.push((World::real(), real));
    }
    for (world, server) in servers {
        let namespace = TestNamespace::new(world, server).await;
        test(&namespace).await;
        namespace.end().await;
    }
}

impl TestNamespace {
    async fn new(world: World, server: Server) -> Self {
        let kube = server.connect(None);
        let test = world.child("test");
        let cache = Cache::new(kube.clone(), test.clone(), CacheOptions::default());
        let client = Client::new(kube.clone(), cache, test, ClientOptions::default());
        let namespace = format!("sendo-{}", world.random().name_suffix(8));
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.clone());
        client.create(&object).await.unwrap();
        TestNamespace {
            world,
            server,
            kube,
            client,
            namespace,
        }
    }

    /// An informer, and its cache, with which its watches end.
    fn informer<K: Typed>(&self, options: CacheOptions, of: Selection) -> (Cache, Informer<K>) {
        let world = self.world.child("informer");
        let cache = Cache::new(self.kube.clone(), world, options);
        let informer = cache.informer(Kind::of::<K>(), of);
        (cache, informer)
    }

    fn here(&self) -> Selection {
        Selection::in_namespace(&self.namespace)
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
        if let Server::Embedded(server) = self.server {
            server.shutdown().await;
        }
        self.world.tasks().stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_in_pages_and_one_as_a_stream_show_the_same() {
    everywhere(async |namespace| {
        // One more than a page.
        stream::iter(0..501)
            .map(Ok)
            .try_for_each_concurrent(16, |number| async move {
                let map = namespace.map(&format!("m{number}"));
                namespace.client.create(&map).await.map(drop)
            })
            .await
            .unwrap();
        let mut seen = Vec::new();
        for streaming in [true, false] {
            let options = CacheOptions {
                streaming,
                ..CacheOptions::default()
            };
            let (_cache, informer) = namespace.informer::<ConfigMap>(options, namespace.here());
            informer.synced().await;
            assert_eq!(informer.state().lists, 1);
            // Whatever else a namespace has from its beginning.
            let mine = |map: &ConfigMap| map.name().starts_with('m');
            seen.push(informer.snapshot().list().filter(mine).keys());
        }
        assert_eq!(seen[0].len(), 501);
        assert_eq!(seen[0], seen[1]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_shows_what_it_selects_and_follows_what_enters_and_leaves() {
    everywhere(async |namespace| {
        let labelled = |name: &str, tier: &str| {
            let mut map = namespace.map(name);
            map.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
            map
        };
        let web = namespace
            .client
            .create(&labelled("a", "web"))
            .await
            .unwrap();
        let db = namespace.client.create(&labelled("b", "db")).await.unwrap();
        let labels = Selection {
            labels: "tier=web".parse().unwrap(),
            ..namespace.here()
        };
        let fields = Selection {
            fields: "metadata.name=b".parse().unwrap(),
            ..namespace.here()
        };
        let (_labels, by_label) =
            namespace.informer::<ConfigMap>(CacheOptions::default(), labels.clone());
        let (_fields, by_field) = namespace.informer::<ConfigMap>(CacheOptions::default(), fields);
        type Meta = PartialObjectMeta<ConfigMap>;
        let (_metadata, metadata) = namespace.informer::<Meta>(CacheOptions::default(), labels);
        by_label.synced().await;
        by_field.synced().await;
        metadata.synced().await;
        let key = |name: &str| vec![namespace.key(name)];
        assert_eq!(by_label.snapshot().list().keys(), key("a"));
        assert_eq!(by_field.snapshot().list().keys(), key("b"));
        assert_eq!(metadata.snapshot().list().keys(), key("a"));

        let tier = |tier: &'static str| {
            move |map: &mut ConfigMap| {
                let labels = map.metadata.labels.get_or_insert_default();
                labels.insert("tier".to_owned(), tier.to_owned());
            }
        };
        namespace.client.modify(&web, tier("db")).await.unwrap();
        namespace.client.modify(&db, tier("web")).await.unwrap();
        namespace
            .until("one has left and one has entered", async || {
                let shown = by_label.snapshot().list().keys();
                shown == key("b") && metadata.snapshot().list().keys() == shown
            })
            .await;
    })
    .await;
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "contract.example.dev",
    version = "v1",
    kind = "Late",
    plural = "lates",
    namespaced
)]
struct LateSpec {}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_missing_is_reported_and_watched_as_soon_as_it_is_there() {
    everywhere(async |namespace| {
        let (_cache, informer) =
            namespace.informer::<Late>(CacheOptions::default(), namespace.here());
        namespace
            .until("it is reported", async || {
                let words = "lates.contract.example.dev/v1 in namespace";
                let cause = "is its CustomResourceDefinition installed?";
                let reported = informer.state().to_string();
                reported.contains(words) && reported.contains(cause)
            })
            .await;
        let made = namespace.client.create(&Late::crd()).await.unwrap();
        informer.synced().await;
        assert!(informer.state().is_healthy());
        namespace.client.delete(&made).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_that_is_missing_is_reported_and_recovered_from() {
    everywhere(async |namespace| {
        let user = "contract-reader";
        let cache = Cache::new(
            namespace.server.connect(Some(user)),
            namespace.world.child("reader"),
            CacheOptions::default(),
        );
        let informer = cache.informer::<ConfigMap>(Kind::of::<ConfigMap>(), namespace.here());
        namespace
            .until("it is reported", async || {
                let reported = informer.state().to_string();
                let cause = "User \"contract-reader\" cannot watch resource \"configmaps\"";
                reported.starts_with("cannot watch configmaps/v1") && reported.contains(cause)
            })
            .await;
        let role: Role = serde_json::from_value(json!({
            "metadata": {"name": "reader", "namespace": namespace.namespace},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}],
        }))
        .unwrap();
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "reader", "namespace": namespace.namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }))
        .unwrap();
        namespace.client.create(&role).await.unwrap();
        namespace.client.create(&binding).await.unwrap();
        informer.synced().await;
        assert!(informer.state().is_healthy());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn own_writes_are_seen_at_once_however_objects_are_kept() {
    everywhere(async |namespace| {
        for compact in [false, true] {
            let options = KindOptions::<ConfigMap>::new();
            let options = if compact { options.compact() } else { options };
            let options = CacheOptions::default().kind(options);
            let world = namespace.world.child("writer");
            let cache = Cache::new(namespace.kube.clone(), world.clone(), options);
            let options = ClientOptions::default();
            let client = Client::new(namespace.kube.clone(), cache.clone(), world, options);
            let informer = cache.informer::<ConfigMap>(Kind::of::<ConfigMap>(), namespace.here());
            informer.synced().await;
            assert_eq!(
                informer.state().watches,
                1,
                "the list and the watch are one request"
            );
            let read = |name: &str| informer.snapshot().get(&namespace.key(name));
            for number in 0..100 {
                let name = format!("m{number}");
                let made = client.create(&namespace.map(&name)).await.unwrap();
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
    })
    .await;
}

fn without_managed_fields(mut map: ConfigMap) -> ConfigMap {
    map.metadata.managed_fields = None;
    map
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_owns_its_fields_and_a_finalizer_holds_until_the_clean_up() {
    everywhere(async |namespace| {
        let client = namespace.client.with_field_manager("owner-test");
        let owner = client.create(&namespace.map("owner")).await.unwrap();
        let mut object = namespace.map("owned");
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
        let going: ConfigMap = live.get(namespace.key("owner")).await.unwrap().unwrap();
        let done = client.finalizer(&going, NAME, nothing).await.unwrap();
        assert_eq!(done, Finalizer::Going(Action::done()));
        assert!(
            live.get::<ConfigMap>(namespace.key("owner"))
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
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reconciles_elects_and_tells() {
    everywhere(async |namespace| {
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
                        cx.event(EventSeverity::Normal, "Made", "a Secret");
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
            let mut config = namespace.config(name);
            config.events = EventsApi::Series;
            config.election = Some(ElectionOptions {
                identity: Some(name.to_owned()),
                retry_period: SECOND / 2,
                ..ElectionOptions::new(&namespace.namespace, "real")
            });
            config
        };
        let live = namespace.client.live();
        let holder = async || {
            let lease = live.get::<Lease>(namespace.key("real")).await.unwrap();
            lease.and_then(|lease| lease.spec?.holder_identity)
        };
        let leads = async |who: &str| holder().await.as_deref() == Some(who);
        let one = program(elected("one"));
        namespace
            .until("the first leads", async || leads("one").await)
            .await;
        let two = program(elected("two"));
        two.ready().await;
        let mut map = namespace.map("a");
        map.metadata.labels = Some([("mine".to_owned(), "yes".to_owned())].into());
        namespace.client.create(&map).await.unwrap();
        namespace
            .until("the Secret is there", async || {
                live.get::<Secret>(namespace.key("a"))
                    .await
                    .unwrap()
                    .is_some()
            })
            .await;
        type Told = k8s_openapi::api::events::v1::Event;
        let selection = Selection::in_namespace(&namespace.namespace);
        namespace
            .until("the event is there", async || {
                let events = live.list::<Told>(&selection).await.unwrap();
                events
                    .iter()
                    .any(|event| event.reason.as_deref() == Some("Made"))
            })
            .await;
        assert!(leads("one").await);
        one.stop().await.unwrap();
        namespace
            .until("the other leads", async || leads("two").await)
            .await;
        two.stop().await.unwrap();
    })
    .await;
}
