//! Somebody spoils the Secret of the certificates: what works goes on being shown, and what is
//! missing is made.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use sendo::ObjectKey;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::place::{Place, Replica};
use super::{LIFETIMES, PATIENCE, guard};

type Data = BTreeMap<String, ByteString>;

fn secret() -> ObjectKey {
    ObjectKey::namespaced("default", "guard-webhook-certificates")
}

/// The certificate and its key.
fn identity(data: &Data) -> Data {
    let of_identity = |(entry, _): &(&String, &ByteString)| entry.starts_with("tls.");
    let found = data.iter().filter(of_identity);
    found.map(|(k, v)| (k.clone(), v.clone())).collect()
}

impl Place {
    async fn data(&self) -> Data {
        let found = self.client.live().get::<Secret>(secret()).await.unwrap();
        found.and_then(|secret| secret.data).unwrap_or_default()
    }

    async fn spoil(&self, change: impl Fn(&mut Data)) {
        let change = |secret: &mut Secret| change(secret.data.get_or_insert_default());
        let changed = self.client.modify::<Secret, ()>(&secret(), change).await;
        changed.unwrap();
    }

    /// Waits until there is another certificate, and it is shown. Whoever connects meanwhile trusts
    /// what is shown.
    async fn until_renewed(&self, replica: &Replica, before: &Data, what: &str) -> Data {
        let began = Instant::now();
        loop {
            let shown = self.shake_hands(replica.port).await;
            let shown = shown.unwrap_or_else(|error| panic!("{what}: {error}"));
            let now = self.data().await;
            let kept = now.get("tls.crt").map(|pem| pem.0.as_slice());
            let leaf = CertificateDer::from_pem_slice(kept.unwrap_or_default());
            let is_shown = leaf.is_ok_and(|leaf| leaf.as_ref() == shown);
            if is_shown && now.get("tls.crt") != before.get("tls.crt") && now.len() == 4 {
                return now;
            }
            assert!(began.elapsed() < PATIENCE, "{what}: nothing is made");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_becomes_of_the_secret_who_connects_is_shown_what_is_trusted() {
    let place = Place::new(LIFETIMES, guard).await;
    let replica = place.start("replica-0").await;
    let first = place.data().await;
    let mut data = first.clone();
    // The first one expires when the second is due for the second time.
    for _ in 0..2 {
        place.set_ahead(LIFETIMES.certificate * 2 / 3 + Duration::from_secs(1));
        data = place.until_renewed(&replica, &data, "time passes").await;
    }

    let name = "guard-webhooks.default.svc".to_owned();
    let other = rcgen::generate_simple_self_signed([name]).unwrap();
    let pem = |text: String| ByteString(text.into_bytes());
    let of_others = Data::from([
        ("tls.crt".to_owned(), pem(other.cert.pem())),
        ("tls.key".to_owned(), pem(other.signing_key.serialize_pem())),
    ]);
    let half = |data: &mut Data, entry: &str| {
        let value = data.get_mut(entry).unwrap();
        value.0.truncate(value.0.len() / 2);
    };
    type Spoil<'a> = &'a dyn Fn(&mut Data);
    let cases: [(&str, Spoil<'_>); 5] = [
        ("half a certificate", &|data| half(data, "tls.crt")),
        ("half a key", &|data| half(data, "tls.key")),
        ("one that has expired", &|data| {
            data.extend(identity(&first))
        }),
        ("one of another authority", &|data| {
            data.extend(of_others.clone());
        }),
        ("nothing", &|data| data.clear()),
    ];
    for (what, spoil) in cases {
        place.spoil(spoil).await;
        data = place.until_renewed(&replica, &data, what).await;
    }
    place.client.delete::<Secret>(&secret()).await.unwrap();
    place.until_renewed(&replica, &data, "no Secret").await;
    place.terminate(replica).await;
    place.server.shutdown().await;
}
