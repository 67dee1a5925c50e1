//! A program sends what it declares, and nothing else.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use sendo::manager::{RightsOptions, ServedWebhooks};
use sendo::source::{self, AnyMeta};
use sendo::webhook::{self, Admission, Certificates, Change, Denied, Reached};
use sendo::{
    Action, Category, Context, Controller, Error, Event, Kind, Manager, Reader, Right, Verb,
    everywhere, handler,
};

use super::{HOUR, Log, Place, SECOND, map};

fn secret() -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some("s".to_owned());
    secret.metadata.namespace = Some("default".to_owned());
    secret
}

#[tokio::test(start_paused = true)]
async fn an_undeclared_write_is_not_sent_and_not_tried_again() {
    let place = Place::new(1).await;
    place.create("a").await;
    let log = Log::default();
    let seen = log.clone();
    let reconcile = move |_: Arc<ConfigMap>, cx: Context| {
        let log = seen.clone();
        async move {
            let error = Error::from(cx.create(&secret()).await.unwrap_err());
            log.add(format!("{:?}: {error}", error.category()));
            Err(error)
        }
    };
    let controller = Controller::new::<ConfigMap>().reconcile(reconcile);
    let running = place
        .run(Manager::new("program").controller(controller))
        .await;
    place.pass(HOUR).await;
    let expected = "Terminal: POST /api/v1/namespaces/default/secrets was not sent: `program` does \
                    not declare that it may create secrets in default; add \
                    `.writes::<Secret>(Verb::Create)` to the controller or the manager";
    assert_eq!(log.take(), [expected]);
    let live = place.client.live();
    assert!(live.get::<Secret>("default/s").await.unwrap().is_none());
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_of_kube_sends_what_is_declared() {
    let place = Place::new(1).await;
    let log = Log::default();
    let seen = log.clone();
    let work = everywhere("work", move |cx| async move {
        let maps: Api<ConfigMap> = Api::namespaced(cx.kube(), "default");
        let secrets: Api<Secret> = Api::namespaced(cx.kube(), "default");
        maps.create(&PostParams::default(), &map("a", 1)).await?;
        seen.add(cx.kube().apiserver_version().await?.major);
        let error = secrets.create(&PostParams::default(), &secret()).await;
        let error = Error::from(error.unwrap_err());
        assert_eq!(error.category(), Category::Terminal);
        seen.add(error.to_string());
        let missing = maps.get("b").await.unwrap_err();
        seen.add(missing.to_string());
        Ok(())
    });
    let manager = Manager::new("program")
        .writes::<ConfigMap>(Verb::Create)
        .needs(Right::of::<ConfigMap>(Verb::Get).in_namespace("default"))
        .runnable(work);
    let running = place.run(manager).await;
    place.pass(SECOND).await;
    let lines = log.take();
    assert_eq!(lines[0], "1");
    let fix = "`.needs(Right::resource(\"\", \"secrets\", Verb::Create))`";
    assert!(lines[1].contains(fix), "{}", lines[1]);
    assert!(lines[2].contains("not found"), "{}", lines[2]);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_program_in_some_namespaces_writes_in_no_other() {
    let place = Place::new(1).await;
    place.create("a").await;
    let log = Log::default();
    let seen = log.clone();
    let reconcile = move |map: Arc<ConfigMap>, cx: Context| {
        let log = seen.clone();
        async move {
            let mut other = (*map).clone();
            other.metadata.namespace = Some("kube-system".to_owned());
            other.metadata.resource_version = None;
            let error = cx.create(&other).await.unwrap_err();
            log.add(error.to_string());
            other.metadata.namespace = Some("default".to_owned());
            other.metadata.name = Some("b".to_owned());
            if map.metadata.name != other.metadata.name {
                cx.create(&other).await?;
            }
            Ok(Action::done())
        }
    };
    let controller = Controller::new::<ConfigMap>()
        .writes::<ConfigMap>(Verb::Create)
        .reconcile(reconcile);
    let mut config = place.config("program");
    config.namespaces = sendo::cache::Namespaces::one("default");
    let manager = Manager::new("program").controller(controller);
    let running = manager.start(config).unwrap();
    place.pass(SECOND).await;
    let lines = log.take();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let refused = "may create configmaps in kube-system";
    assert!(lines[0].contains(refused), "{lines:?}");
    place.end([running]).await;
}

#[test]
fn kinds_of_run_time_are_declared_all_at_once() {
    let manager = |controller: sendo::controller::ForKeys<String>| {
        let nothing = |_: (Kind, Event<AnyMeta>), _: &Reader| None;
        let controller = controller.watches(source::every_kind(), handler::map(nothing));
        let reconcile = |_: String, _: Context| async { Ok(Action::done()) };
        Manager::new("program").controller(controller.reconcile(reconcile))
    };
    assert_eq!(
        manager(Controller::keyed("all")).problems(),
        [
            "the controller `all` watches every kind, and the program does not declare that it may: \
             add `.needs(Right::resource(\"*\", \"*\", Verb::List | Verb::Watch))`"
        ]
    );
    let all = Right::resource("*", "*", Verb::List | Verb::Watch);
    let declared = manager(Controller::keyed("all").needs(all));
    assert_eq!(declared.problems(), [""; 0]);
}

#[test]
fn rights_follow_from_the_declaration_and_from_how_the_program_runs() {
    let reconcile = |_: Arc<ConfigMap>, _: Context| async { Ok(Action::done()) };
    let controller = || Controller::new::<ConfigMap>().owns::<Secret>();
    let rights = |manager: Manager, options: &RightsOptions| {
        let mut lines: Vec<String> = manager
            .rights(options)
            .iter()
            .map(ToString::to_string)
            .collect();
        lines.sort();
        lines
    };
    let plain = Manager::new("program").controller(controller().reconcile(reconcile));
    assert_eq!(
        rights(plain, &RightsOptions::default()),
        [
            "create,patch events",
            "get,create,update,patch,delete secrets",
            "list,watch configmaps",
            "list,watch secrets",
            "update configmaps/finalizers",
        ]
    );
    let narrowed = controller()
        .writes::<Secret>(Verb::Create)
        .with_finalizer()
        .without_events()
        .reconcile(reconcile);
    let options = RightsOptions {
        lease: Some(("system".to_owned(), "program".to_owned())),
        metrics_secure: true,
        namespaces: sendo::cache::Namespaces::one("a"),
        ..RightsOptions::default()
    };
    assert_eq!(
        rights(Manager::new("program").controller(narrowed), &options),
        [
            "create events in system",
            "create leases.coordination.k8s.io in system",
            "create secrets in a",
            "create subjectaccessreviews.authorization.k8s.io",
            "create tokenreviews.authentication.k8s.io",
            "get,update leases.coordination.k8s.io in system: program",
            "list,watch configmaps in a",
            "list,watch secrets in a",
            "patch configmaps in a",
            "update configmaps/finalizers in a",
        ]
    );
}

#[test]
fn webhooks_take_what_their_certificates_need_by_name_and_nothing_else() {
    async fn allow(_: Change<ConfigMap>, _: Admission) -> Result<(), Denied> {
        Ok(())
    }
    let rights = |reached: Reached, certificates: Certificates| {
        let options = RightsOptions {
            webhooks: Some(ServedWebhooks {
                reached,
                certificates,
            }),
            ..RightsOptions::default()
        };
        let webhook = webhook::validates(allow).except_own_namespace();
        let rights = Manager::new("guard").webhook(webhook).rights(&options);
        let mut lines: Vec<String> = rights.iter().map(ToString::to_string).collect();
        lines.sort();
        lines
    };
    let service = || Reached::by_service_of("guard", "system");
    let configuration = "get,list,watch,update \
         validatingwebhookconfigurations.admissionregistration.k8s.io: guard";
    let slices = "list endpointslices.discovery.k8s.io in system";
    assert_eq!(
        rights(service(), Certificates::Own),
        [
            "create secrets in system",
            "get,list,watch,update secrets in system: guard-webhook-certificates",
            configuration,
            slices,
        ]
    );
    assert_eq!(rights(service(), Certificates::CertManager), [slices]);
    let authority = "127.0.0.1:9443".to_owned();
    let by_hand = rights(Reached::Url { authority }, Certificates::Own);
    assert_eq!(by_hand, [configuration]);
}
