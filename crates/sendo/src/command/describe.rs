//! The subcommands by which a program describes itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::{Args, print};
use crate::check::{self, Severity};
use crate::client::connect;
use crate::error::{Error, Result};
use crate::manager::{Manager, RightsOptions, ServedWebhooks, longest_stop};
use crate::manifests::{Catalog, Extra, Format, Icon, ManifestError, Options};
use crate::webhook::Reached;

/// Print what deploys the program: kinds, rights, Deployment, Services, webhooks
///
/// The program knows what it watches, writes and serves: names, rights and ports are its own, and
/// need no cluster to be printed. Flags of the program that are given too are those that the
/// Deployment runs it with.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  manifests --image registry.example/program:1.0 | kubectl apply --server-side -f -
  manifests --output deploy                  one file for each concern
  manifests --check deploy                   fails if they are not what would be printed
  manifests --format helm --output chart     image, replicas, resources as values
  manifests --format bundle --samples samples --output bundle
  manifests --namespaces a,b                 rights in these two only")]
#[command(next_help_heading = "What is deployed")]
pub struct Manifests {
    /// The image [default: the program's name and version]
    #[arg(long, value_name = "IMAGE", env = "SENDO_IMAGE")]
    pub image: Option<String>,

    /// The namespace of the program [default: its name with `-system`]
    #[arg(long, value_name = "NAME", env = "SENDO_NAMESPACE")]
    pub namespace: Option<String>,

    /// How many replicas run, of which one leads
    #[arg(long, value_name = "N", default_value_t = 1, env = "SENDO_REPLICAS")]
    pub replicas: u32,

    /// The name of Deployment, account and roles [default: the program's]
    #[arg(long, value_name = "NAME", env = "SENDO_NAME")]
    pub name: Option<String>,

    /// An environment variable of the container; can be given several times
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub environment: Vec<(String, String)>,

    /// One more argument of the program, for flags of its own, such as `--argument=--every=60`;
    /// can be given several times
    #[arg(long = "argument", value_name = "TEXT", allow_hyphen_values = true)]
    pub arguments: Vec<String>,

    /// What to print beside what every deployment has, separated by commas
    #[arg(long = "with", value_name = "LIST", value_enum, value_delimiter = ',')]
    pub extras: Vec<Extra>,

    /// What the files are for
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: Format,

    /// Write files to this folder instead of printing them
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Compare with the files of this folder: prints what differs, and fails then
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub check: Option<PathBuf>,

    /// What a catalog of operators shows of the program.
    #[command(flatten)]
    pub catalog: CatalogFlags,
}

/// What a catalog of operators shows of the program, for `--format bundle`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "For --format bundle")]
pub struct CatalogFlags {
    /// Take the program's objects in the YAML files of this folder as examples for users
    #[arg(long, value_name = "DIR")]
    pub samples: Option<PathBuf>,

    /// Who provides the program [default: its name]
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,

    /// Who maintains it; can be given several times
    #[arg(long = "maintainer", value_name = "NAME <EMAIL>", value_parser = maintainer)]
    pub maintainers: Vec<(String, String)>,

    /// A page about it; can be given several times
    #[arg(long = "link", value_name = "TITLE=URL", value_parser = link)]
    pub links: Vec<(String, String)>,

    /// Its picture: .svg, .png, .jpg or .gif
    #[arg(long, value_name = "FILE")]
    pub icon: Option<PathBuf>,
}

impl CatalogFlags {
    fn is_given(&self) -> bool {
        self.samples.is_some()
            || self.provider.is_some()
            || self.icon.is_some()
            || !(self.maintainers.is_empty() && self.links.is_empty())
    }

    fn read(&self, manager: &Manager) -> Result<Catalog, ManifestError> {
        let samples = self.samples.as_ref();
        let samples = samples.map(|folder| Catalog::read_samples(manager, folder));
        Ok(Catalog {
            provider: self.provider.clone(),
            maintainers: self.maintainers.clone(),
            links: self.links.clone(),
            icon: self.icon.as_deref().map(Icon::read).transpose()?,
            samples: samples.transpose()?.unwrap_or_default(),
        })
    }
}

/// Print the program's own kinds, as CustomResourceDefinitions
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:
  crds | kubectl apply --server-side -f -")]
pub struct Crds {
    /// The namespace of the program, which is called to convert its kinds [default: its name with
    /// `-system`]
    #[arg(long, value_name = "NAME", env = "SENDO_NAMESPACE")]
    pub namespace: Option<String>,
}

/// Ask a cluster whether the program could run there: kinds, rights, webhooks
///
/// Changes nothing. Each finding names its fix; the exit status is 1 if there is one that keeps the
/// program from working.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  check                                      with the rights of your kubeconfig
  check --as system:serviceaccount:bar-system:bar
                                             with those of the account that it runs as
  check --output json                        for programs")]
pub struct Check {
    /// The namespace of the program [default: its name with `-system`]
    #[arg(long, value_name = "NAME", env = "SENDO_NAMESPACE")]
    pub namespace: Option<String>,

    /// Ask as this user, which takes the right to impersonate
    #[arg(long = "as", value_name = "USER")]
    pub user: Option<String>,

    /// How to print what was found
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,
}

/// How a subcommand prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

impl Manifests {
    pub(super) fn run(&self, manager: &Manager, args: &Args) -> Result<()> {
        if self.format != Format::Bundle && self.catalog.is_given() {
            return Err(Error::terminal(
                "what a catalog shows is in a bundle alone: add `--format bundle`, or leave out --samples, --provider, --maintainer, --link and --icon",
            ));
        }
        let mut options = self.options(manager, args);
        options.catalog = self.catalog.read(manager).map_err(Error::terminal)?;
        let files = manager.manifests(&options, self.format);
        let files = files.map_err(Error::terminal)?;
        if let Some(folder) = &self.check {
            let differences = files.differences_in(folder).map_err(Error::terminal)?;
            if differences.is_empty() {
                return Ok(());
            }
            print(&differences.iter().map(|one| &*one.diff).collect::<String>())?;
            return Err(Error::terminal(format!(
                "{} of {} differ from what the program prints: write them again with `--output {}` in place of `--check`",
                count(differences.len(), "file"),
                folder.display(),
                folder.display()
            )));
        }
        if let Some(folder) = &self.output {
            return files.write_to(folder).map_err(Error::terminal);
        }
        if self.format != Format::Yaml {
            return Err(Error::terminal(
                "this format is a folder of files: name one with `--output DIR`",
            ));
        }
        print(&files.to_yaml())
    }

    fn options(&self, manager: &Manager, args: &Args) -> Options {
        let defaults = Options::new(manager);
        let seconds = Duration::from_secs;
        let mut arguments = args.to_flags();
        arguments.extend(self.arguments.iter().cloned());
        Options {
            name: self.name.clone().unwrap_or(defaults.name),
            namespace: self.namespace.clone().unwrap_or(defaults.namespace),
            image: self.image.clone().unwrap_or(defaults.image),
            replicas: self.replicas,
            certificates: args.webhook_certificates,
            extras: self.extras.iter().copied().collect(),
            namespaces: args.chosen_namespaces(),
            install_kinds: args.install_kinds,
            arguments,
            environment: self.environment.iter().cloned().collect::<BTreeMap<_, _>>(),
            grace_period: longest_stop(
                seconds(args.shutdown_timeout),
                seconds(args.lease_duration),
            ),
            catalog: defaults.catalog,
        }
    }
}

impl Crds {
    pub(super) fn run(&self, manager: &Manager) -> Result<()> {
        let namespace = self.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| Options::new(manager).namespace);
        print(&manager.crds(&namespace).map_err(Error::terminal)?)
    }
}

/// `1 file`, `2 files`.
pub(super) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not `NAME=VALUE`, such as `REGION=eu`")),
    }
}

fn maintainer(text: &str) -> Result<(String, String), String> {
    let parts = text
        .trim()
        .strip_suffix('>')
        .and_then(|rest| rest.split_once('<'));
    match parts.map(|(name, address)| (name.trim(), address.trim())) {
        Some((name, address)) if !name.is_empty() && address.contains('@') => {
            Ok((name.to_owned(), address.to_owned()))
        }
        _ => Err(format!(
            "`{text}` is not `NAME <EMAIL>`, such as `Ann <ann@example.dev>`"
        )),
    }
}

fn link(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((title, url)) if !title.is_empty() && url.contains("://") => {
            Ok((title.to_owned(), url.to_owned()))
        }
        _ => Err(format!(
            "`{text}` is not `TITLE=URL`, such as `Guide=https://example.dev/guide`"
        )),
    }
}

impl Check {
    pub(super) async fn run(&self, manager: &Manager, args: &Args) -> Result<()> {
        let problems = manager.problems();
        if !problems.is_empty() {
            return Err(Error::terminal(problems.join("; ")));
        }
        let mut config = args.kube_config().await?;
        config.auth_info.impersonate.clone_from(&self.user);
        let client = connect(config)?;
        let namespace = self.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| Options::new(manager).namespace);
        let options = check::Options {
            rights: RightsOptions {
                namespaces: args.chosen_namespaces(),
                lease: Some((namespace.clone(), manager.name().to_owned())),
                metrics_secure: true,
                install_kinds: args.install_kinds,
                webhooks: Some(ServedWebhooks {
                    reached: Reached::by_service_of(manager.name(), &namespace),
                    certificates: args.webhook_certificates,
                }),
                ..RightsOptions::default()
            },
            namespace,
        };
        let report = manager.check_cluster(&client, &options).await?;
        match self.output {
            Output::Text => print(&report.to_string())?,
            Output::Json => print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?,
        }
        match report.is_fine() {
            true => Ok(()),
            false => {
                let errors = report
                    .findings
                    .iter()
                    .filter(|one| one.severity == Severity::Error);
                let errors = count(errors.count(), "error");
                Err(Error::terminal(format!(
                    "{errors} found: {} could not run there",
                    manager.name()
                )))
            }
        }
    }
}
