//! The same with a real API server, if `SENDO_REAL_KUBECONFIG` names one that runs on this machine:
//! a program run by hand, whose certificates and authorities live for seconds.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::config::Kubeconfig;
use sendo::client::Client;
use sendo::webhook::{self, Lifetimes, Operation, Reached, Serving};
use sendo::{Config, Manager, ObjectKey, World};
use serde_json::json;

use super::place::{Kube, shake_hands};
use super::writers::Writers;
use super::{PATIENCE, allow};

const LIFETIMES: Lifetimes = Lifetimes {
    authority: Duration::from_secs(60),
    certificate: Duration::from_secs(20),
    settle: Duration::from_secs(5),
};

/// How many certificates are seen, and by how many authorities.
const CERTIFICATES: usize = 8;
const AUTHORITIES: usize = 3;

/// Decides about one namespace only: the cluster may have others.
fn guard(namespace: &str) -> Manager {
    let labels = [(
        "kubernetes.io/metadata.name".to_owned(),
        namespace.to_owned(),
    )];
    let selector = LabelSelector {
        match_labels: Some(labels.into()),
        ..LabelSelector::default()
    };
    let webhook = webhook::validates(allow)
        .on(Operation::Create | Operation::Update)
        .namespace_selector(selector);
    Manager::new("guard").webhook(webhook)
}

/// The port that is called, and the authorities that are trusted there.
async fn called(client: &Client) -> Option<(u16, String)> {
    let found = client.live();
    let found = found.get::<ValidatingWebhookConfiguration>(ObjectKey::cluster("guard"));
    let webhook = found.await.unwrap()?.webhooks?.remove(0);
    let rest = webhook.client_config.url?;
    let (address, _) = rest.strip_prefix("https://")?.split_once('/')?;
    let bundle = String::from_utf8(webhook.client_config.ca_bundle?.0).ok()?;
    Some((address.rsplit_once(':')?.1.parse().ok()?, bundle))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_api_server_trusts_each_certificate_when_it_is_shown() {
    let Some(path) = std::env::var_os("SENDO_REAL_KUBECONFIG") else {
        return;
    };
    let kube = Kube::read(Kubeconfig::read_from(path).unwrap()).await;
    let world = World::real();
    let client = kube.client(world.child("test"));
    let namespace = format!("rotation-{}", world.random().name_suffix(8));
    let object: Namespace =
        serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
    client.create(&object).await.unwrap();
    let mut config = Config::new(kube.connect(), world.child("guard"));
    let authority = "127.0.0.1:0".to_owned();
    config.webhooks = Serving {
        address: Some(authority.clone()),
        reached: Some(Reached::Url { authority }),
        install: true,
        lifetimes: LIFETIMES,
        ..Serving::default()
    };
    let running = guard(&namespace).start(config).unwrap();
    running.ready().await;

    // An API server learns of the configuration a moment later.
    let mut refused = ConfigMap::default();
    refused.metadata.name = Some("refused".to_owned());
    refused.metadata.namespace = Some(namespace.clone());
    let began = Instant::now();
    loop {
        match client.create(&refused).await {
            Err(error) if error.to_string().contains("denied the request") => break,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            Ok(made) => {
                assert!(began.elapsed() < PATIENCE, "nothing is called");
                client.delete(&made).await.unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let writers = Writers::start(&kube, &world, &namespace, 8).await;
    let (mut certificates, mut bundles) = (BTreeSet::new(), BTreeSet::new());
    let began = Instant::now();
    while certificates.len() < CERTIFICATES || bundles.len() < AUTHORITIES {
        let (port, bundle) = called(&client).await.unwrap();
        let shown = shake_hands(&client, &world, "127.0.0.1", port).await;
        certificates.insert(shown.unwrap());
        bundles.insert(bundle);
        let failed = writers.take_failed();
        assert!(failed.is_empty(), "{failed:?}");
        assert!(began.elapsed() < PATIENCE * 2, "nothing is renewed");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!(
        "{} certificates and {} bundles in {:?}: {} admissions, none failed",
        certificates.len(),
        bundles.len(),
        began.elapsed(),
        writers.admitted()
    );
    writers.stop().await;
    running.stop().await.unwrap();
    let guard = ObjectKey::cluster("guard");
    let deleted = client
        .delete::<ValidatingWebhookConfiguration>(&guard)
        .await;
    deleted.unwrap();
    client.delete(&object).await.unwrap();
}
