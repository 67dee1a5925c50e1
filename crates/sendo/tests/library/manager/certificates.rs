//! The certificates that a program makes for its webhooks, in virtual time: the Secret, the
//! configurations, and what becomes of them when somebody spoils them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::webhook::{self, Admission, Change, Denied, Lifetimes, Serving};
use sendo::{Config, Manager, ObjectKey, Running};
use sendo_x509::Certificate;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

const LIFETIMES: Lifetimes = Lifetimes {
    authority: Duration::from_secs(10 * 3600),
    certificate: HOUR,
    settle: MINUTE,
};

async fn allow(_: Change<ConfigMap>, _: Admission) -> Result<(), Denied> {
    Ok(())
}

fn guard() -> Manager {
    Manager::new("guard").webhook(webhook::validates(allow).except_own_namespace())
}

/// A replica that serves, on a free port that nobody calls.
fn replica(place: &Place, name: &str) -> Config {
    let mut config = place.config(name);
    config.webhooks = Serving {
        address: Some("127.0.0.1:0".to_owned()),
        install: true,
        lifetimes: LIFETIMES,
        pod: Some(name.to_owned()),
        ..Serving::default()
    };
    config
}

fn secret() -> ObjectKey {
    ObjectKey::namespaced("default", "guard-webhook-certificates")
}

fn configuration() -> ObjectKey {
    ObjectKey::cluster("guard")
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    let certificates = CertificateDer::pem_slice_iter(pem);
    certificates.map(Result::unwrap).collect()
}

impl Place {
    async fn secret(&self) -> Option<BTreeMap<String, ByteString>> {
        let found = self.client.live().get::<Secret>(secret()).await.unwrap();
        found.and_then(|secret| secret.data)
    }

    async fn ca_bundle(&self) -> Vec<u8> {
        let found = self.client.live();
        let found = found.get::<ValidatingWebhookConfiguration>(configuration());
        let found = found.await.unwrap();
        let webhooks = found.and_then(|found| found.webhooks).unwrap_or_default();
        let bundle = webhooks.into_iter().next();
        let bundle = bundle.and_then(|webhook| webhook.client_config.ca_bundle);
        bundle.map(|bundle| bundle.0).unwrap_or_default()
    }

    /// Whether the API server would take the certificate that is kept.
    async fn is_trusted(&self) -> bool {
        let Some(data) = self.secret().await else {
            return false;
        };
        let chain = certificates(&data["tls.crt"].0);
        let mut roots = RootCertStore::empty();
        let bundle = self.ca_bundle().await;
        roots.add_parsable_certificates(certificates(&bundle));
        let seconds = self.world.clock().wall().as_second().unsigned_abs();
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(&chain[0]).unwrap(),
            &roots,
            &[],
            UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
            algorithms.all,
        )
        .is_ok()
    }

    /// What is kept now, and that it is trusted.
    async fn kept(&self) -> BTreeMap<String, ByteString> {
        assert!(self.is_trusted().await);
        self.secret().await.unwrap()
    }

    async fn change_secret(&self, change: impl Fn(&mut BTreeMap<String, ByteString>)) {
        let change = |secret: &mut Secret| change(secret.data.as_mut().unwrap());
        let key = secret();
        let changed = self.client.modify::<Secret, ()>(&key, change);
        changed.await.unwrap();
    }

    async fn set_bundle(&self, bundle: Option<&[u8]>) {
        let change = |found: &mut ValidatingWebhookConfiguration| {
            let webhooks = found.webhooks.as_mut().unwrap();
            webhooks[0].client_config.ca_bundle = bundle.map(|pem| ByteString(pem.to_vec()));
        };
        let key = configuration();
        let changed = self
            .client
            .modify::<ValidatingWebhookConfiguration, ()>(&key, change);
        let written = changed.await.unwrap().webhooks.unwrap();
        let written = &written[0].client_config.ca_bundle;
        assert_eq!(written.as_ref().map(|it| it.0.as_slice()), bundle);
    }
}

async fn readiness(running: &Running, place: &Place) -> String {
    let report = running.probes().ready.run(&place.world, &[]).await;
    report.lines()
}

#[tokio::test(start_paused = true)]
async fn three_replicas_share_certificates_that_are_trusted_at_any_time() {
    let place = Place::new(1).await;
    let mut running = Vec::new();
    for name in ["a", "b", "c"] {
        running.push(guard().start(replica(&place, name)).unwrap());
    }
    for replica in &running {
        replica.ready().await;
    }
    place.pass(SECOND).await;
    let (mut renewed, mut replaced, mut last) = (0, 0, place.kept().await);
    for _ in 0..20 * 60 {
        place.pass(MINUTE).await;
        let now = place.kept().await;
        renewed += usize::from(now["tls.crt"] != last["tls.crt"]);
        replaced += usize::from(now["ca.key"] != last["ca.key"]);
        last = now;
    }
    // Every 40 minutes and every 6 hours and 40 minutes.
    assert!((28..=36).contains(&renewed), "{renewed}");
    assert!((2..=3).contains(&replaced), "{replaced}");
    for replica in &running {
        assert!(readiness(replica, &place).await.contains("[+]webhooks ok"));
    }
    place.end(running).await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_deleted_is_made_again_with_a_new_authority() {
    let place = Place::new(2).await;
    let running = place.run_guard().await;
    let before = place.kept().await;
    place.client.delete::<Secret>(&secret()).await.unwrap();
    place.pass(SECOND * 5).await;
    let after = place.kept().await;
    assert_ne!(after["ca.key"], before["ca.key"]);
    // What is served goes on, and its authority stays, until the new one is settled.
    assert_eq!(after["tls.crt"], before["tls.crt"]);
    let old = &certificates(&before["ca.crt"].0)[0];
    assert!(certificates(&after["ca.crt"].0).contains(old));
    place.pass(MINUTE * 2).await;
    assert_ne!(place.kept().await["tls.crt"], before["tls.crt"]);
    assert!(certificates(&place.ca_bundle().await).contains(old));
    // And goes when it has expired.
    place.pass(HOUR * 11).await;
    assert!(!certificates(&place.ca_bundle().await).contains(old));
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_spoilt_in_the_secret_is_told_and_made_again() {
    let place = Place::new(3).await;
    let running = place.run_guard().await;
    for entry in ["tls.crt", "tls.key", "ca.crt", "ca.key"] {
        let logged = Tracing::start();
        place
            .change_secret(|data| {
                let value = data.get_mut(entry).unwrap();
                value.0.truncate(value.0.len() / 2);
            })
            .await;
        place.pass(SECOND * 5).await;
        place.kept().await;
        let named =
            format!("the Secret default/guard-webhook-certificates has an unusable {entry}");
        let lines = logged.lines();
        assert!(
            lines.iter().any(|line| line.contains(&named)),
            "{entry}: {lines:?}"
        );
        assert!(readiness(&running, &place).await.contains("[+]webhooks ok"));
    }
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_ca_bundle_that_somebody_edits_is_put_right() {
    let place = Place::new(4).await;
    let running = place.run_guard().await;
    let right = place.ca_bundle().await;
    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
    let both = [&right[..], other.cert.pem().as_bytes()].concat();
    for wrong in [None, Some(&both[..])] {
        place.set_bundle(wrong).await;
        place.pass(SECOND).await;
        assert_eq!(place.ca_bundle().await, right);
    }
    // One that is deleted and applied again has none.
    let client = &place.client;
    let live = client.live();
    let found = live.get::<ValidatingWebhookConfiguration>(configuration());
    let mut found = found.await.unwrap().unwrap();
    client.delete(&found).await.unwrap();
    found.metadata.resource_version = None;
    found.metadata.uid = None;
    found.webhooks.as_mut().unwrap()[0].client_config.ca_bundle = None;
    client.create(&found).await.unwrap();
    place.pass(SECOND).await;
    assert_eq!(place.ca_bundle().await, right);
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_ahead_has_the_certificate_renewed_within_seconds() {
    let place = Place::new(5).await;
    let ahead = Arc::new(Mutex::new(Duration::ZERO));
    let mut config = replica(&place, "a");
    let (clock, by) = (place.world.clock().clone(), ahead.clone());
    config.world = config
        .world
        .with_wall(move || clock.wall() + *by.lock().unwrap());
    let running = guard().start(config).unwrap();
    running.ready().await;
    place.pass(SECOND).await;
    let before = place.kept().await;
    *ahead.lock().unwrap() = HOUR * 3;
    place.pass(SECOND * 6).await;
    let after = place.secret().await.unwrap();
    assert_ne!(after["tls.crt"], before["tls.crt"]);
    let leaf = certificates(&after["tls.crt"].0);
    let fields = Certificate::from_der(&leaf[0]).unwrap();
    assert!(fields.is_valid_at(place.world.clock().wall() + HOUR * 3));
    assert!(readiness(&running, &place).await.contains("[+]webhooks ok"));
    place.end([running]).await;
}

/// A configuration of this name that calls another Service.
fn of_another_program() -> ValidatingWebhookConfiguration {
    let service = ServiceReference {
        name: "other-webhooks".to_owned(),
        namespace: "elsewhere".to_owned(),
        ..ServiceReference::default()
    };
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta {
            name: Some("guard".to_owned()),
            ..ObjectMeta::default()
        },
        webhooks: Some(vec![ValidatingWebhook {
            name: "validate.things.example.dev".to_owned(),
            client_config: WebhookClientConfig {
                service: Some(service),
                ..WebhookClientConfig::default()
            },
            side_effects: "None".to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            ..ValidatingWebhook::default()
        }]),
    }
}

#[tokio::test(start_paused = true)]
async fn a_configuration_of_another_program_is_left_alone_and_told() {
    let place = Place::new(6).await;
    place.client.create(&of_another_program()).await.unwrap();
    let claim = "calls the Service elsewhere/other-webhooks, which is another program's";
    // Who installs its configurations cannot start.
    let running = guard().start(replica(&place, "a")).unwrap();
    let refused = running.ended().await.unwrap_err().to_string();
    assert!(refused.contains(claim), "{refused}");
    // Who does not goes on, and says so.
    let logged = Tracing::start();
    let mut config = replica(&place, "b");
    config.webhooks.install = false;
    let running = guard().start(config).unwrap();
    running.ready().await;
    place.pass(SECOND).await;
    let lines = logged.lines();
    assert!(lines.iter().any(|line| line.contains(claim)), "{lines:?}");
    assert!(place.ca_bundle().await.is_empty());
    place.end([running]).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_the_secret_readiness_says_so() {
    let place = Place::new(7).await;
    let refuse = |request: &http::Request<Body>| request.uri().path().contains("/secrets");
    let mut config = replica(&place, "a");
    config.client = place.config_losing("a", refuse).client;
    config.webhooks.install = false;
    let running = guard().start(config).unwrap();
    place.pass(MINUTE * 2).await;
    let lines = readiness(&running, &place).await;
    assert!(
        lines.contains("[-]webhooks failed: there is no certificate yet: ")
            && lines.contains("secrets"),
        "{lines}"
    );
    place.end([running]).await;
}

impl Place {
    async fn run_guard(&self) -> Running {
        let running = guard().start(replica(self, "a")).unwrap();
        running.ready().await;
        self.pass(SECOND).await;
        running
    }
}
