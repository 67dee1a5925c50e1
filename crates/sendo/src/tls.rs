//! TLS for what a program serves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sendo_world::{Clock, Timestamp};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use crate::certificates::{Identity, Names, Part, certificates_in, unix_time};
use crate::metrics::CertificateMetrics;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, or is not what it should be.
    #[error("cannot use {path}: {cause}; a certificate folder has `tls.crt` and `tls.key`")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// Certificate and key do not go together, or cannot be made.
    #[error("no TLS with this certificate: {0}")]
    Certificate(String),
}

/// How TLS is served.
#[derive(Clone)]
pub(crate) struct TlsOptions {
    pub(crate) clock: Clock,
    /// Whether HTTP/2 is offered beside HTTP/1.1.
    pub(crate) http2: bool,
    /// The file of the authorities of which a client must show a certificate.
    pub(crate) clients: Option<PathBuf>,
    /// What the certificate must be for.
    pub(crate) names: Option<Names>,
    pub(crate) metrics: Option<CertificateMetrics>,
}

impl TlsOptions {
    /// HTTP/1.1 for anybody.
    pub(crate) fn new(clock: &Clock) -> Self {
        TlsOptions {
            clock: clock.clone(),
            http2: false,
            clients: None,
            names: None,
            metrics: None,
        }
    }
}

/// Accepts TLS with the certificate of a folder, or with one that it is given. Clones are one.
///
/// A new certificate counts from the next connection on. Files are read again when they have
/// changed; as long as they cannot be used, the certificate before stays.
#[derive(Clone)]
pub(crate) struct Tls {
    inner: Arc<Inner>,
}

struct Inner {
    folder: Option<PathBuf>,
    options: TlsOptions,
    state: Mutex<State>,
    acceptor: watch::Sender<Option<TlsAcceptor>>,
}

#[derive(Default)]
struct State {
    /// The files as they were last read, in use or not.
    files: Files,
    identity: Option<Identity>,
    /// What is wrong with the files.
    problem: Option<String>,
}

/// The certificates, the key, and the authorities of clients, as they are written.
type Files = [Vec<u8>; 3];

impl Tls {
    /// With the certificate of a folder, or else one that is signed by itself: good enough against
    /// who only listens.
    pub(crate) fn new(folder: Option<&Path>, options: TlsOptions) -> Result<Self, TlsError> {
        let tls = Tls::without_certificate(folder, options);
        match folder {
            Some(_) => tls.inner.read_again()?,
            None => tls.give(self_signed()?)?,
        }
        Ok(tls)
    }

    /// With the certificate of a folder, as soon as there is one that can be used, or with one
    /// that it is [given](Tls::give). Connections wait for that.
    pub(crate) fn without_certificate(folder: Option<&Path>, options: TlsOptions) -> Self {
        Tls {
            inner: Arc::new(Inner {
                folder: folder.map(Path::to_owned),
                options,
                state: Mutex::default(),
                acceptor: watch::Sender::new(None),
            }),
        }
    }

    /// Takes another certificate for all connections to come.
    pub(crate) fn give(&self, identity: Identity) -> Result<(), TlsError> {
        let inner = &self.inner;
        let authorities = match &inner.options.clients {
            Some(path) => read(path)?,
            None => Vec::new(),
        };
        let mut state = inner.state.lock();
        inner.take(&mut state, identity, &authorities)
    }

    /// Reads the files of the folder, if there is one; whether they can be used is told in the
    /// log when it changes.
    pub(crate) fn refresh(&self) {
        if self.inner.folder.is_none() {
            return;
        }
        let problem = self.inner.read_again().err().map(|error| error.to_string());
        let mut state = self.inner.state.lock();
        if state.problem == problem {
            return;
        }
        match (&problem, &state.identity) {
            (Some(problem), Some(_)) => {
                tracing::error!(problem, "going on with the certificate before");
            }
            (Some(problem), None) => tracing::error!(problem, "there is no certificate to serve"),
            (None, _) => tracing::info!("the certificate can be used again"),
        }
        state.problem = problem;
    }

    /// For the next connection; waits until there is a certificate.
    pub(crate) async fn acceptor(&self) -> TlsAcceptor {
        self.refresh();
        let mut acceptor = self.inner.acceptor.subscribe();
        let found = acceptor.wait_for(Option::is_some).await;
        let found = found.expect("the sender is in what this borrows");
        found.clone().expect("it was just waited for")
    }

    /// Whether connections can be served now. What is wrong with files that are not in use is a
    /// remark.
    pub(crate) fn readiness(&self) -> Result<String, String> {
        self.refresh();
        let state = self.inner.state.lock();
        let problem = state.problem.clone().unwrap_or_default();
        let Some(identity) = &state.identity else {
            return Err(match problem.is_empty() {
                true => "there is no certificate yet".to_owned(),
                false => problem,
            });
        };
        match self.inner.check(identity) {
            Ok(()) => Ok(problem),
            Err(why) => Err(format!("the certificate cannot be used: {why}")),
        }
    }

    /// The certificate that is served.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.inner.state.lock().identity.clone()
    }
}

impl Inner {
    fn now(&self) -> Timestamp {
        self.options.clock.wall()
    }

    fn check(&self, identity: &Identity) -> Result<(), String> {
        match &self.options.names {
            Some(names) => identity.check(names, self.now()),
            None => identity.check_validity(self.now()),
        }
        .map_err(|why| why.to_string())
    }

    /// Reads the files of the folder, and takes the certificate in them if it is another one that
    /// can be used.
    fn read_again(&self) -> Result<(), TlsError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let paths = ["tls.crt", "tls.key"].map(|name| folder.join(name));
        let bad = |path: &Path, cause: String| TlsError::File {
            path: path.to_owned(),
            cause,
        };
        if let Some(metrics) = &self.options.metrics {
            metrics.read();
        }
        let counted = |error| {
            if let Some(metrics) = &self.options.metrics {
                metrics.failed();
            }
            error
        };
        let authorities = match &self.options.clients {
            Some(path) => read(path).map_err(counted)?,
            None => Vec::new(),
        };
        let (certificate, key) = (read(&paths[0]), read(&paths[1]));
        let files = [
            certificate.map_err(counted)?,
            key.map_err(counted)?,
            authorities,
        ];
        let mut state = self.state.lock();
        if state.files == files
            && state.problem.is_none()
            && let Some(identity) = &state.identity
        {
            let expired = |why| counted(bad(&paths[0], why));
            return self.check(identity).map_err(expired);
        }
        let identity = Identity::from_pem(&files[0], &files[1]);
        let identity = identity.map_err(|part| match part {
            Part::Certificate(why) => counted(bad(&paths[0], why)),
            Part::Key(why) => counted(bad(&paths[1], why)),
        })?;
        self.check(&identity)
            .map_err(|why| counted(bad(&paths[0], why)))?;
        self.take(&mut state, identity, &files[2])?;
        state.files = files;
        Ok(())
    }

    fn take(
        &self,
        state: &mut State,
        identity: Identity,
        client_authorities: &[u8],
    ) -> Result<(), TlsError> {
        let acceptor = self.accept_with(&identity, client_authorities)?;
        if let Some(metrics) = &self.options.metrics {
            metrics.expires(identity.fields.not_after);
        }
        state.identity = Some(identity);
        self.acceptor.send_replace(Some(acceptor));
        Ok(())
    }

    fn accept_with(&self, identity: &Identity, clients: &[u8]) -> Result<TlsAcceptor, TlsError> {
        let options = &self.options;
        let provider = Arc::new(ring::default_provider());
        let time = Arc::new(WallTime(options.clock.clone()));
        let builder = ServerConfig::builder_with_details(provider.clone(), time)
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .map_err(unusable)?;
        let builder = match &options.clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                let (authorities, _) = certificates_in(clients);
                roots.add_parsable_certificates(authorities.into_iter().map(|one| one.der));
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| TlsError::File {
                    path: path.clone(),
                    cause: error.to_string(),
                })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config =
            builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
        if options.http2 {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        }
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// The time that certificates of clients are checked at.
#[derive(Debug)]
struct WallTime(Clock);

impl TimeProvider for WallTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(unix_time(self.0.wall()))
    }
}

fn unusable(cause: impl std::fmt::Display) -> TlsError {
    TlsError::Certificate(cause.to_string())
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|cause| TlsError::File {
        path: path.to_owned(),
        cause: cause.to_string(),
    })
}

#[cfg(feature = "certificates")]
fn self_signed() -> Result<Identity, TlsError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(unusable)?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes());
    identity.map_err(|(Part::Certificate(why) | Part::Key(why))| TlsError::Certificate(why))
}

#[cfg(not(feature = "certificates"))]
fn self_signed() -> Result<Identity, TlsError> {
    Err(unusable(
        "name a folder with `tls.crt` and `tls.key`, or build with the feature `certificates` of `sendo`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::{AuthorityKey, Lifetimes};
    use sendo_world::World;
    use std::time::Duration;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::ClientConfig;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// An authority, and the folder with a certificate of it.
    struct Place {
        world: World,
        folder: tempfile::TempDir,
        authority: AuthorityKey,
    }

    impl Place {
        fn new() -> Self {
            let world = World::seeded(1);
            let now = world.clock().wall();
            let random = world.random();
            Place {
                folder: tempfile::tempdir().unwrap(),
                authority: AuthorityKey::make("tests", now, &Lifetimes::default(), random).unwrap(),
                world,
            }
        }

        fn sign(&self, name: &str) -> Identity {
            let (names, now) = (Names::new(name, []), self.world.clock().wall());
            let lifetimes = Lifetimes::default();
            let random = self.world.random();
            self.authority
                .sign(&names, now, &lifetimes, random)
                .unwrap()
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, identity: &Identity) {
            std::fs::write(self.path("tls.crt"), &identity.chain_pem).unwrap();
            std::fs::write(self.path("tls.key"), &identity.key_pem).unwrap();
        }

        fn options(&self) -> TlsOptions {
            TlsOptions {
                names: Some(Names::new("localhost", [])),
                ..TlsOptions::new(self.world.clock())
            }
        }

        fn tls(&self) -> Tls {
            Tls::without_certificate(Some(self.folder.path()), self.options())
        }

        /// Whether a connection is made, with the certificate of a client or without.
        async fn connects(&self, tls: &Tls, client: Option<&Identity>) -> bool {
            let mut roots = RootCertStore::empty();
            roots.add(self.authority.certificate.der.clone()).unwrap();
            let time = Arc::new(WallTime(self.world.clock().clone()));
            let provider = Arc::new(ring::default_provider());
            let config = ClientConfig::builder_with_details(provider, time)
                .with_protocol_versions(rustls::DEFAULT_VERSIONS)
                .unwrap()
                .with_root_certificates(roots);
            let config = match client {
                None => config.with_no_client_auth(),
                Some(identity) => {
                    let chain = CertificateDer::pem_slice_iter(identity.chain_pem.as_bytes());
                    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes());
                    let chain = chain.map(Result::unwrap).collect();
                    config.with_client_auth_cert(chain, key.unwrap()).unwrap()
                }
            };
            let (there, here) = tokio::io::duplex(1 << 16);
            let name = ServerName::try_from("localhost").unwrap();
            let connect = TlsConnector::from(Arc::new(config)).connect(name, there);
            let acceptor = tls.acceptor().await;
            let (connected, accepted) = tokio::join!(connect, acceptor.accept(here));
            connected.is_ok() && accepted.is_ok()
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let options = || TlsOptions::new(World::seeded(1).clock());
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let _entered = runtime.as_ref().unwrap().enter();
        assert!(Tls::new(None, options()).is_ok());
        let error = Tls::new(Some(Path::new("/nowhere")), options());
        let text = error.err().unwrap().to_string();
        assert!(text.starts_with("cannot use /nowhere/tls.crt: "), "{text}");
    }

    #[tokio::test]
    async fn new_files_count_from_the_next_connection_on() {
        let place = Place::new();
        let (first, second) = (place.sign("localhost"), place.sign("localhost"));
        place.write(&first);
        let tls = place.tls();
        assert!(place.connects(&tls, None).await);
        assert_eq!(tls.identity().as_ref(), Some(&first));
        // A certificate without its key yet is not used.
        std::fs::write(place.path("tls.crt"), &second.chain_pem).unwrap();
        assert!(place.connects(&tls, None).await);
        assert_eq!(tls.identity().as_ref(), Some(&first));
        place.write(&second);
        assert!(place.connects(&tls, None).await);
        assert_eq!(tls.identity(), Some(second));
        assert_eq!(tls.readiness(), Ok(String::new()));
    }

    /// As the kubelet writes a volume: a folder for each state, and one link that is exchanged.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_volume_whose_link_is_exchanged_is_read_again() {
        use std::os::unix::fs::symlink;
        let place = Place::new();
        let states = [place.sign("localhost"), place.sign("localhost")];
        for (number, identity) in states.iter().enumerate() {
            let folder = place.path(&format!("..state_{number}"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("tls.crt"), &identity.chain_pem).unwrap();
            std::fs::write(folder.join("tls.key"), &identity.key_pem).unwrap();
        }
        symlink("..state_0", place.path("..data")).unwrap();
        for name in ["tls.crt", "tls.key"] {
            symlink(format!("..data/{name}"), place.path(name)).unwrap();
        }
        let tls = place.tls();
        tls.refresh();
        assert_eq!(tls.identity().as_ref(), Some(&states[0]));
        symlink("..state_1", place.path("..data_tmp")).unwrap();
        std::fs::rename(place.path("..data_tmp"), place.path("..data")).unwrap();
        tls.refresh();
        assert_eq!(tls.identity().as_ref(), Some(&states[1]));
    }

    #[tokio::test]
    async fn files_that_cannot_be_used_are_named_and_the_certificate_before_stays() {
        let place = Place::new();
        let good = place.sign("localhost");
        let tls = place.tls();
        let missing = tls.readiness().unwrap_err();
        assert!(missing.contains("tls.crt: No such file"), "{missing}");
        place.write(&good);
        assert_eq!(tls.readiness(), Ok(String::new()));

        let write = |name: &str, text: &str| std::fs::write(place.path(name), text).unwrap();
        let half = &good.chain_pem[..good.chain_pem.len() / 2];
        let other = place.sign("elsewhere");
        for (certificate, key, named, why) in [
            (half, &*good.key_pem, "tls.crt", ""),
            (
                "",
                &*good.key_pem,
                "tls.crt",
                "there is no certificate in it",
            ),
            ("garbage", "garbage", "tls.crt", ""),
            (&*good.chain_pem, "garbage", "tls.key", ""),
            (&*good.chain_pem, "", "tls.key", ""),
            (
                &*good.chain_pem,
                &*other.key_pem,
                "tls.key",
                "it is not the key of the certificate",
            ),
            (
                &*other.chain_pem,
                &*other.key_pem,
                "tls.crt",
                "it is not for localhost",
            ),
        ] {
            write("tls.crt", certificate);
            write("tls.key", key);
            let remark = tls.readiness().expect("the one before is served");
            assert!(remark.contains(named) && remark.contains(why), "{remark}");
            assert_eq!(tls.identity().as_ref(), Some(&good));
            assert!(place.connects(&tls, None).await);
        }
        std::fs::remove_file(place.path("tls.key")).unwrap();
        assert!(tls.readiness().unwrap().contains("tls.key"));
        place.write(&good);
        assert_eq!(tls.readiness(), Ok(String::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_that_expires_is_told_and_replaced_by_the_next_that_is_written() {
        let place = Place::new();
        place.write(&place.sign("localhost"));
        let tls = place.tls();
        assert_eq!(tls.readiness(), Ok(String::new()));
        place.world.clock().sleep(DAY * 91).await;
        let expired = tls.readiness().unwrap_err();
        assert!(
            expired.contains("it has expired at 2026-04-01"),
            "{expired}"
        );
        place.write(&place.sign("localhost"));
        assert_eq!(tls.readiness(), Ok(String::new()));
        assert!(place.connects(&tls, None).await);
    }

    #[tokio::test]
    async fn a_client_has_to_show_a_certificate_if_that_is_asked_for() {
        let place = Place::new();
        std::fs::write(place.path("clients.crt"), place.authority.certificate.pem()).unwrap();
        place.write(&place.sign("localhost"));
        let options = TlsOptions {
            clients: Some(place.path("clients.crt")),
            ..place.options()
        };
        let tls = Tls::without_certificate(Some(place.folder.path()), options);
        assert!(!place.connects(&tls, None).await);
        // It is one for servers, which a client must not show.
        assert!(!place.connects(&tls, Some(&place.sign("api"))).await);
        let client = client_certificate(&place);
        assert!(place.connects(&tls, Some(&client)).await);
        std::fs::write(place.path("clients.crt"), "garbage").unwrap();
        let remark = tls.readiness().unwrap();
        assert!(remark.contains("clients.crt"), "{remark}");
        assert!(place.connects(&tls, Some(&client)).await);
    }

    fn client_certificate(place: &Place) -> Identity {
        let mut params = rcgen::CertificateParams::default();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let authority = rcgen::KeyPair::from_pem(&place.authority.pem).unwrap();
        let mut issuer = rcgen::CertificateParams::default();
        issuer.distinguished_name = rcgen::DistinguishedName::new();
        issuer
            .distinguished_name
            .push(rcgen::DnType::CommonName, "tests");
        let issuer = rcgen::Issuer::from_params(&issuer, authority);
        let key = rcgen::KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &issuer).unwrap();
        Identity::from_pem(made.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }
}
