//! A program's command line: flags and environment for everything in [`Config`].

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sendo_world::World;

use super::Command;
use crate::cache::Namespaces;
use crate::client::{Rate, connect};
use crate::election::ElectionOptions;
use crate::error::{Error, Result};
use crate::manager::Config;
use crate::webhook::{Certificates, Reached, Serving};

/// What is logged by default. `kube_client` logs an error for every request that
/// gets no answer, which is each attempt of each watch while the API server is away.
#[cfg(feature = "logging")]
pub(super) const LOG: &str = "info,kube_client::client::builder=off";

/// The flags every program has. Each can also be set in the environment.
///
/// A program with flags of its own takes these in beside them:
///
/// ```no_run
/// use clap::Parser;
/// use sendo::{Manager, command::Args};
///
/// #[derive(Parser)]
/// struct Flags {
///     /// How often the buckets are checked, in seconds
///     #[arg(long, global = true, default_value_t = 60)]
///     every: u64,
///     #[command(flatten)]
///     common: Args,
/// }
///
/// # fn manager(every: u64) -> Manager { Manager::new("bucket") }
/// #[tokio::main]
/// async fn main() -> sendo::Result<()> {
///     let flags = Flags::parse();
///     manager(flags.every).run_with(flags.common).await
/// }
/// ```
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// What to do instead of running
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The kubeconfig to use [default: $KUBECONFIG, then the cluster this runs in, then ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE", env = "SENDO_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME", env = "SENDO_CONTEXT")]
    pub context: Option<String>,

    /// Watch only these namespaces, separated by commas [default: all]
    #[arg(
        long,
        global = true,
        value_name = "LIST",
        value_delimiter = ',',
        env = "SENDO_NAMESPACES"
    )]
    pub namespaces: Vec<String>,

    /// Watch all namespaces but these, separated by commas
    #[arg(
        long,
        global = true,
        value_name = "LIST",
        value_delimiter = ',',
        env = "SENDO_EXCEPT_NAMESPACES",
        conflicts_with = "namespaces"
    )]
    pub except_namespaces: Vec<String>,

    /// Install the program's own kinds, or bring them up to date, before anything starts
    #[arg(long, global = true, env = "SENDO_INSTALL_KINDS")]
    pub install_kinds: bool,

    /// Workers of a controller, as `name=number`; can be given several times
    #[arg(long, global = true, value_name = "NAME=N", value_delimiter = ',', value_parser = workers, env = "SENDO_WORKERS")]
    pub workers: Vec<(String, usize)>,

    /// Reconcile everything again every so many seconds [default: never]
    #[arg(long, global = true, value_name = "SECONDS", env = "SENDO_RESYNC")]
    pub resync: Option<u64>,

    /// Send at most so many requests a second, and five times as many at once [default: no limit]
    #[arg(long, global = true, value_name = "NUMBER", value_parser = rate, env = "SENDO_MAX_REQUESTS")]
    pub max_requests: Option<Rate>,

    /// Elect a leader: run several replicas, one at a time does the work
    #[arg(long, global = true, env = "SENDO_LEADER_ELECT")]
    pub leader_elect: bool,

    /// The namespace of the leader's lease [default: this pod's namespace, or `default`]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "SENDO_LEADER_ELECT_NAMESPACE"
    )]
    pub leader_elect_namespace: Option<String>,

    /// Seconds that others wait for a leader that gives no sign
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        default_value_t = 15,
        env = "SENDO_LEASE_DURATION"
    )]
    pub lease_duration: u64,

    /// Seconds after its last renewal in which a leader may still write
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        default_value = "10",
        value_parser = seconds,
        env = "SENDO_RENEW_DEADLINE"
    )]
    pub renew_deadline: Duration,

    /// Seconds between two attempts to take or to renew the lease
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        default_value = "2",
        value_parser = seconds,
        env = "SENDO_RETRY_PERIOD"
    )]
    pub retry_period: Duration,

    /// Serve metrics here, at /metrics
    #[arg(
        long,
        global = true,
        value_name = "ADDRESS",
        env = "SENDO_METRICS_ADDRESS"
    )]
    pub metrics_address: Option<String>,

    /// Serve metrics through TLS, and only to who may `get /metrics`
    #[arg(long, global = true, env = "SENDO_METRICS_SECURE")]
    pub metrics_secure: bool,

    /// The folder with `tls.crt` and `tls.key` for that [default: a certificate signed by itself]
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        env = "SENDO_METRICS_CERTIFICATES"
    )]
    pub metrics_certificates: Option<PathBuf>,

    /// Serve probes here, at /healthz and /readyz
    #[arg(
        long,
        global = true,
        value_name = "ADDRESS",
        env = "SENDO_HEALTH_ADDRESS"
    )]
    pub health_address: Option<String>,

    /// Serve webhooks here, through TLS [default: :9443 in a cluster, else where --webhooks-at says]
    #[arg(
        long,
        global = true,
        value_name = "ADDRESS",
        env = "SENDO_WEBHOOK_ADDRESS"
    )]
    pub webhook_address: Option<String>,

    /// Run by hand beside a cluster: register the webhooks to be called at this address of this
    /// machine. Port 0 takes a free one
    #[arg(long, global = true, value_name = "HOST:PORT", value_parser = host_and_port, env = "SENDO_WEBHOOKS_AT")]
    pub webhooks_at: Option<String>,

    /// Where the certificate of the webhooks comes from
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "SOURCE",
        default_value = "own",
        env = "SENDO_WEBHOOK_CERTIFICATES"
    )]
    pub webhook_certificates: Certificates,

    /// The folder with `tls.crt` and `tls.key` for webhooks, unless they are the program's own
    /// [default: /etc/webhook-certificates]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "SENDO_WEBHOOK_CERTIFICATES_DIR"
    )]
    pub webhook_certificates_dir: Option<PathBuf>,

    /// Let only those call webhooks who show a certificate signed by an authority of this file
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SENDO_WEBHOOK_CLIENT_CA"
    )]
    pub webhook_client_ca: Option<PathBuf>,

    /// Seconds that work in flight has to end after a stop
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        default_value_t = 30,
        env = "SENDO_SHUTDOWN_TIMEOUT"
    )]
    pub shutdown_timeout: u64,

    /// What to log, such as `info` or `warn,my_controller=debug`. By default without kube's own
    /// line for each request that fails: a failure is logged once, by the caller, with its cause
    #[cfg(feature = "logging")]
    #[arg(long, global = true, value_name = "FILTER", default_value = LOG, env = "RUST_LOG")]
    pub log: String,

    /// Log lines as JSON
    #[cfg(feature = "logging")]
    #[arg(long, global = true, env = "SENDO_LOG_JSON")]
    pub log_json: bool,
}

impl Args {
    /// Connects, and gathers what a manager named `name` needs to run.
    pub async fn config(&self, name: &str, world: World) -> Result<Config> {
        let kube = self.kube_config().await?;
        let election = self.leader_elect.then(|| {
            let namespace = self.leader_elect_namespace.as_ref();
            let namespace = namespace.unwrap_or(&kube.default_namespace);
            ElectionOptions {
                lease_duration: Duration::from_secs(self.lease_duration),
                renew_deadline: self.renew_deadline,
                retry_period: self.retry_period,
                ..ElectionOptions::new(namespace, name)
            }
        });
        let host = kube.cluster_url.authority().map(ToString::to_string);
        let client = connect(kube)?;
        Ok(Config {
            namespaces: self.chosen_namespaces(),
            host: host.unwrap_or_default(),
            rate: self.max_requests,
            resync: self.resync.map(Duration::from_secs),
            install_kinds: self.install_kinds,
            workers: self.workers.iter().cloned().collect(),
            election,
            metrics_address: self.metrics_address.clone(),
            metrics_secure: self.metrics_secure,
            metrics_certificates: self.metrics_certificates.clone(),
            health_address: self.health_address.clone(),
            webhooks: self.webhooks(),
            shutdown_timeout: Duration::from_secs(self.shutdown_timeout),
            ..Config::new(client, world)
        })
    }

    fn webhooks(&self) -> Serving {
        let reached = self.webhooks_at.clone();
        let in_cluster = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let usual = in_cluster.then(|| ":9443".to_owned());
        let address = self.webhook_address.clone();
        Serving {
            address: address.or_else(|| reached.clone()).or(usual),
            // Whoever runs it by hand has not applied its manifests.
            install: reached.is_some(),
            reached: reached.map(|authority| Reached::Url { authority }),
            certificates: self.webhook_certificates,
            certificates_dir: self.webhook_certificates_dir.clone(),
            client_authorities: self.webhook_client_ca.clone(),
            pod: std::env::var("POD_NAME").ok(),
            ..Serving::default()
        }
    }

    pub(super) fn chosen_namespaces(&self) -> Namespaces {
        let set = |names: &[String]| names.iter().cloned().collect();
        match (&self.namespaces[..], &self.except_namespaces[..]) {
            ([], []) => Namespaces::All,
            ([], these) => Namespaces::Except(set(these)),
            (these, _) => Namespaces::Only(set(these)),
        }
    }

    /// The flag, then `KUBECONFIG`, then the cluster this runs in, then the file in the home folder.
    pub(super) async fn kube_config(&self) -> Result<kube::Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..Default::default()
        };
        if let Some(path) = &self.kubeconfig {
            let file = Kubeconfig::read_from(path).map_err(|error| {
                Error::terminal(format!(
                    "cannot read the kubeconfig {}: {error}",
                    path.display()
                ))
            })?;
            return Ok(kube::Config::from_custom_kubeconfig(file, &options).await?);
        }
        if let Some(files) = std::env::var_os("KUBECONFIG") {
            let config = kube::Config::from_kubeconfig(&options).await;
            return config.map_err(|error| {
                let files = files.display();
                Error::terminal(format!("cannot use $KUBECONFIG, which is {files}: {error}"))
            });
        }
        if self.context.is_some() {
            return Ok(kube::Config::from_kubeconfig(&options).await?);
        }
        if let Ok(config) = kube::Config::incluster() {
            return Ok(config);
        }
        kube::Config::from_kubeconfig(&options).await.map_err(|error| {
            Error::terminal(format!(
                "no cluster to run on: name one with --kubeconfig or KUBECONFIG, or start one with `sendo up` ({error})"
            ))
        })
    }

    #[cfg(feature = "logging")]
    pub(super) fn start_logging(&self) -> Result<()> {
        let filter = tracing_subscriber::EnvFilter::try_new(&self.log).map_err(|error| {
            Error::terminal(format!(
                "--log {:?} is not a filter: {error}; try `info`",
                self.log
            ))
        })?;
        let format = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
        let started = if self.log_json {
            format.json().try_init()
        } else {
            format.try_init()
        };
        started.map_err(|error| Error::message(error.to_string()))
    }
}

fn workers(text: &str) -> Result<(String, usize), String> {
    let fix = || format!("`{text}` is not `name=number`, such as `bucket=8`");
    let (name, number) = text.split_once('=').ok_or_else(fix)?;
    match number.parse() {
        Ok(number) if number > 0 && !name.is_empty() => Ok((name.to_owned(), number)),
        _ => Err(fix()),
    }
}

fn host_and_port(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':');
    match parts.map(|(host, port)| (host, port.parse::<u16>())) {
        Some((host, Ok(_))) if !host.is_empty() && !host.contains('/') => Ok(text.to_owned()),
        _ => Err(format!(
            "`{text}` is not `host:port`, such as `127.0.0.1:9443`"
        )),
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.parse::<f64>() {
        Ok(per_second) if per_second.is_finite() && per_second > 0.0 => Ok(Rate {
            per_second,
            burst: (per_second * 5.0).ceil() as u32,
        }),
        _ => Err(format!("`{text}` is not a positive number, such as `20`")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let span = text.parse().ok();
    let span = span.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    span.filter(|span| !span.is_zero())
        .ok_or_else(|| format!("`{text}` is not a number of seconds, such as `2` or `0.5`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from([&["program"], flags].concat())
    }

    #[test]
    fn flags_say_what_is_wrong_with_them() {
        let args = parse(&["--workers", "bucket=8,pod=2", "--max-requests", "20"]).unwrap();
        assert_eq!(
            args.workers,
            [("bucket".to_owned(), 8), ("pod".to_owned(), 2)]
        );
        assert_eq!(args.max_requests.unwrap().burst, 100);
        let wrong = parse(&["--workers", "bucket"]).unwrap_err().to_string();
        assert!(
            wrong.contains("is not `name=number`, such as `bucket=8`"),
            "{wrong}"
        );
        assert!(parse(&["--max-requests", "0"]).is_err());
        assert!(parse(&["--workers", "bucket=0"]).is_err());
    }

    #[test]
    fn a_program_run_by_hand_serves_webhooks_where_it_registers_them() {
        let serving = |flags: &[&str]| parse(flags).unwrap().webhooks();
        let by_hand = serving(&["--webhooks-at", "127.0.0.1:9443"]);
        assert!(by_hand.install);
        assert_eq!(by_hand.address.as_deref(), Some("127.0.0.1:9443"));
        let authority = "127.0.0.1:9443".to_owned();
        assert_eq!(by_hand.reached, Some(Reached::Url { authority }));
        let elsewhere = serving(&["--webhooks-at", "a:1", "--webhook-address", ":2"]);
        assert_eq!(elsewhere.address.as_deref(), Some(":2"));

        let files = serving(&["--webhook-certificates", "cert-manager"]);
        assert_eq!(files.certificates, Certificates::CertManager);
        assert!(!files.install && files.reached.is_none());
        for wrong in ["9443", ":9443", "https://a:1", "a:x"] {
            let refused = parse(&["--webhooks-at", wrong]).unwrap_err().to_string();
            assert!(
                refused.contains("is not `host:port`, such as `127.0.0.1:9443`"),
                "{refused}"
            );
        }
        let refused = parse(&["--webhook-certificates", "mine"]).unwrap_err();
        assert!(refused.to_string().contains("own, files, cert-manager"));
    }

    #[test]
    fn an_election_may_be_timed_in_parts_of_a_second() {
        let args = parse(&["--retry-period", "0.5"]).unwrap();
        assert_eq!(args.retry_period, Duration::from_millis(500));
        assert_eq!(args.renew_deadline, Duration::from_secs(10));
        for wrong in ["0", "-1", "soon", "inf"] {
            let refused = parse(&[&format!("--retry-period={wrong}")]).unwrap_err();
            let fix = "is not a number of seconds, such as `2` or `0.5`";
            assert!(refused.to_string().contains(fix), "{refused}");
        }
    }

    #[test]
    fn a_program_with_flags_of_its_own_has_the_subcommands_and_takes_its_flags_after_them() {
        #[derive(Parser)]
        struct Flags {
            #[arg(long, global = true, default_value_t = 60)]
            every: u64,
            #[command(flatten)]
            common: Args,
        }
        let parse = |flags: &[&str]| Flags::try_parse_from([&["program"], flags].concat());
        let flags = parse(&["check", "--namespace=a", "--every=5", "--context=c"]).unwrap();
        assert_eq!(flags.every, 5);
        assert_eq!(flags.common.context.as_deref(), Some("c"));
        let Some(Command::Check(check)) = flags.common.command else {
            panic!("{:?}", flags.common.command);
        };
        assert_eq!(check.namespace.as_deref(), Some("a"));

        let flags = parse(&[
            "--every=5",
            "manifests",
            "--argument=--every=5",
            "--resync=9",
        ]);
        let common = flags.unwrap().common;
        assert_eq!(common.to_flags(), ["--resync=9"]);
        let Some(Command::Manifests(manifests)) = common.command else {
            panic!("{:?}", common.command);
        };
        assert_eq!(manifests.arguments, ["--every=5"]);
        assert!(parse(&["run"]).is_ok() && parse(&[]).unwrap().common.command.is_none());
        assert!(parse(&["manifest"]).is_err());
    }

    #[test]
    fn what_a_catalog_shows_is_checked_when_it_is_read() {
        let maintainer = "--maintainer=Ann Bee <ann@example.dev>";
        let link = "--link=Guide=https://example.dev/?a=b";
        let args = parse(&["manifests", maintainer, link]).unwrap();
        let Some(Command::Manifests(manifests)) = args.command else {
            panic!("{:?}", args.command);
        };
        let pair = |a: &str, b: &str| [(a.to_owned(), b.to_owned())];
        let catalog = manifests.catalog;
        assert_eq!(catalog.maintainers, pair("Ann Bee", "ann@example.dev"));
        assert_eq!(catalog.links, pair("Guide", "https://example.dev/?a=b"));
        for (wrong, fix) in [
            ("--maintainer=Ann", "such as `Ann <ann@example.dev>`"),
            ("--link=Guide", "such as `Guide=https://example.dev/guide`"),
        ] {
            let refused = parse(&["manifests", wrong]).unwrap_err().to_string();
            assert!(refused.contains(fix), "{refused}");
        }
    }

    /// Lines of a log.
    #[derive(Clone, Default)]
    struct Lines(std::sync::Arc<parking_lot::Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is logged with this filter while requests to nobody fail.
    async fn logged(filter: &str) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
            .with_writer(move || writer.clone())
            .finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", nobody.local_addr().unwrap());
        drop(nobody);
        let config = kube::Config::new(url.parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        assert!(client.apiserver_version().await.is_err());
        String::from_utf8(lines.0.lock().clone()).unwrap()
    }

    #[tokio::test]
    async fn lines_of_kube_about_each_failed_request_are_left_out_unless_asked_for() {
        let asked_for = logged("info").await;
        assert!(asked_for.contains("ERROR"), "{asked_for}");
        let by_default = parse(&[]).unwrap().log;
        assert_eq!(logged(&by_default).await, "");
    }

    #[test]
    fn namespaces_are_chosen_or_left_out_and_not_both() {
        let chosen = |flags: &[&str]| parse(flags).unwrap().chosen_namespaces();
        assert_eq!(chosen(&[]), Namespaces::All);
        let two = ["a".to_owned(), "b".to_owned()].into();
        assert_eq!(chosen(&["--namespaces", "a,b"]), Namespaces::Only(two));
        let one = ["a".to_owned()].into();
        assert_eq!(
            chosen(&["--except-namespaces", "a"]),
            Namespaces::Except(one)
        );
        assert!(parse(&["--namespaces", "a", "--except-namespaces", "b"]).is_err());
    }
}
