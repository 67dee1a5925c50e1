//! Webhooks over real TLS while their certificates are renewed: three replicas, an API server that
//! finds them by their Service, clients that write all the time.
//!
//! The clock of the API server and of the replicas is set ahead to when the next certificate is
//! due, so that a test takes no longer for it, and a machine under load has as much time for each
//! renewal as any other.

mod definitions;
mod place;
mod real;
mod spoilt;
mod writers;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use sendo::Manager;
use sendo::webhook::{self, Admission, Change, Denied, Lifetimes};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use place::{Place, Replica};
use writers::Writers;

const HOUR: Duration = Duration::from_secs(3600);

/// How long is waited for what is a matter of seconds.
const PATIENCE: Duration = Duration::from_secs(180);

/// An authority is replaced at every tenth rotation.
const LIFETIMES: Lifetimes = Lifetimes {
    authority: Duration::from_secs(10 * 3600),
    certificate: HOUR,
    settle: Duration::from_secs(1),
};

/// How much is done.
struct Size {
    rotations: usize,
    admissions: u64,
    clients: usize,
    jumps: u32,
}

const SMALL: Size = Size {
    rotations: 3,
    admissions: 300,
    clients: 4,
    jumps: 1,
};

const FULL: Size = Size {
    rotations: 100,
    admissions: 100_000,
    clients: 16,
    jumps: 3,
};

async fn allow(change: Change<ConfigMap>, _: Admission) -> Result<(), Denied> {
    match change.new().is_some_and(|map| map.data.is_none()) {
        true => Err(Denied::field("data").required("")),
        false => Ok(()),
    }
}

fn guard() -> Manager {
    Manager::new("guard").webhook(webhook::validates(allow).except_own_namespace())
}

/// What was done so far.
struct Rotation {
    place: Place,
    replicas: Vec<Replica>,
    writers: Writers,
    certificate: Vec<u8>,
    authority: Vec<u8>,
    rotations: usize,
    authorities: usize,
    handshakes: usize,
    terminated: usize,
}

impl Rotation {
    async fn start(clients: usize) -> Self {
        let place = Place::new(LIFETIMES, guard).await;
        let mut replicas = Vec::new();
        for name in ["replica-0", "replica-1", "replica-2"] {
            replicas.push(place.start(name).await);
        }
        Rotation {
            writers: Writers::start(&place.kube, &place.world, "work", clients).await,
            certificate: place.kept("tls.crt").await,
            authority: place.kept("ca.key").await,
            place,
            replicas,
            rotations: 0,
            authorities: 0,
            handshakes: 0,
            terminated: 0,
        }
    }

    /// Makes a certificate due, and waits until every replica shows it.
    async fn rotate(&mut self) {
        let due = LIFETIMES.certificate * 2 / 3 + Duration::from_secs(1);
        self.place.set_ahead(due);
        let began = Instant::now();
        loop {
            let certificate = self.place.kept("tls.crt").await;
            let shown = self.check().await;
            let is_shown = |shown: &[u8]| {
                shown
                    == CertificateDer::from_pem_slice(&certificate)
                        .unwrap()
                        .as_ref()
            };
            if certificate != self.certificate && shown.iter().all(|shown| is_shown(shown)) {
                self.certificate = certificate;
                break;
            }
            assert!(began.elapsed() < PATIENCE, "it was not renewed");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.rotations += 1;
        let authority = self.place.kept("ca.key").await;
        self.authorities += usize::from(authority != self.authority);
        self.authority = authority;
    }

    /// Replaces a replica as a rollout does.
    async fn replace(&mut self) {
        self.terminated += 1;
        self.place.terminate(self.replicas.remove(0)).await;
        let name = format!("replica-{}", self.terminated + 2);
        self.replicas.push(self.place.start(&name).await);
    }

    /// Waits for so many admissions in all.
    async fn admit(&mut self, admissions: u64) {
        let began = Instant::now();
        while self.writers.admitted() < admissions {
            self.check().await;
            assert!(began.elapsed() < PATIENCE, "too few are admitted");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// That every replica is trusted by who connects now, and no call has failed. Returns the
    /// certificates that are shown.
    async fn check(&mut self) -> Vec<Vec<u8>> {
        let mut shown = Vec::new();
        for replica in &self.replicas {
            let shaken = self.place.shake_hands(replica.port).await;
            let (name, rotations) = (&replica.name, self.rotations);
            let certificate =
                shaken.unwrap_or_else(|error| panic!("{name} at rotation {rotations}: {error}"));
            shown.push(certificate);
            self.handshakes += 1;
        }
        let failed = self.writers.take_failed();
        let rotations = self.rotations;
        assert!(failed.is_empty(), "after {rotations} rotations: {failed:?}");
        shown
    }

    /// Ends a replica at once: what was on its way to it fails, and nothing that begins when the
    /// Service leads there no more.
    async fn kill(&mut self) {
        let killed = self.replicas.remove(0);
        self.place.kill(killed).await;
        let out = Instant::now();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let failed = self.writers.take_failed();
        println!("{} calls failed of a replica that was killed", failed.len());
        for (began, why) in &failed {
            let late = began.saturating_duration_since(out);
            assert!(late.is_zero(), "{late:?} after: {why}");
        }
    }

    /// Sets the clock past the end of the certificate, and of its authority.
    async fn jump(&mut self) {
        let (set, admitted) = (Instant::now(), self.writers.admitted());
        self.place.set_ahead(24 * HOUR);
        while self.place.kept("tls.crt").await == self.certificate
            || self.writers.admitted() < admitted + 50
        {
            let failed = self.writers.take_failed();
            assert!(set.elapsed() < PATIENCE, "{failed:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.certificate = self.place.kept("tls.crt").await;
        println!(
            "a clock set ahead by a day: renewed and serving after {:?}, {} calls failed",
            set.elapsed(),
            self.writers.failed()
        );
        self.writers.take_failed();
    }

    async fn end(self) {
        self.writers.stop().await;
        for replica in self.replicas {
            self.place.terminate(replica).await;
        }
        self.place.server.shutdown().await;
    }
}

async fn rotate(size: Size) {
    let started = Instant::now();
    let mut rotation = Rotation::start(size.clients).await;
    for number in 1..=size.rotations {
        rotation.rotate().await;
        if number % 3 == 2 {
            rotation.replace().await;
        }
        let share = size.admissions * number as u64 / size.rotations as u64;
        rotation.admit(share).await;
    }
    println!(
        "{} rotations, {} of them with a new authority, {} admissions, {} handshakes, {} replicas \
         terminated in {:?}: none failed",
        rotation.rotations,
        rotation.authorities,
        rotation.writers.admitted(),
        rotation.handshakes,
        rotation.terminated,
        started.elapsed()
    );
    assert!(rotation.terminated > 0);
    assert!(size.rotations < 20 || rotation.authorities > 5);
    rotation.kill().await;
    for _ in 0..size.jumps {
        rotation.jump().await;
    }
    rotation.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_renewed_without_a_failed_admission() {
    rotate(SMALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten minutes; `cargo test --release -p sendo --test library -- --ignored --nocapture rotations`"]
async fn a_hundred_rotations_and_a_hundred_thousand_admissions() {
    rotate(FULL).await;
}
