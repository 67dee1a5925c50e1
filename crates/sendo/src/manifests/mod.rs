//! What a program is deployed by, printed by the program itself: its kinds, rights, Deployment,
//! Services, webhooks and what observes it.
//!
//! A declared [`Manager`] knows its kinds, rights, ports and paths. Names, rights and ports of what is
//! printed can therefore not disagree with the program, and nobody keeps them. All formats are
//! made of the same objects:
//!
//! ```
//! use sendo::Manager;
//! use sendo::manifests::{Format, Options};
//!
//! # fn main() -> Result<(), sendo::manifests::ManifestError> {
//! let program = Manager::new("labels").version("1.2.0");
//! let options = Options { replicas: 2, ..Options::new(&program) };
//! let files = program.manifests(&options, Format::Yaml)?;
//! assert!(files.get("40-deployment.yaml").unwrap().contains("image: labels:1.2.0"));
//! # Ok(())
//! # }
//! ```
//!
//! Every program with [`Manager::run_from_args`] prints them: `program manifests`. See the guide's
//! chapter on [rights and manifests](crate::guide::rights_and_manifests).

mod bundle;
mod catalog;
mod diff;
mod files;
mod helm;
mod kustomize;
mod model;
mod monitoring;
mod network;
mod options;
mod rbac;
#[cfg(test)]
mod tests;
mod webhooks;
mod workload;
mod yaml;

use std::path::PathBuf;

use crate::manager::Manager;

pub use catalog::{Catalog, Icon};
pub use diff::unified_diff;
pub use files::{Difference, Files};
pub use options::{Extra, Options};

pub use crate::webhook::Certificates;

use model::{File, Item, Model};

const BUNDLE_CERTIFICATES: &str = "what installs a bundle makes the certificates of its webhooks: leave out --webhook-certificates";

/// What the files are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
pub enum Format {
    /// Objects, for `kubectl apply` or `sendo deploy`.
    #[default]
    Yaml,
    /// A kustomization: the objects, and their image, replicas and namespace as values.
    Kustomize,
    /// A chart for Helm.
    Helm,
    /// A bundle for the Operator Lifecycle Manager.
    Bundle,
}

/// Why manifests cannot be printed, written or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The program's declaration has problems, of which each names the fix.
    #[error("{0}")]
    Program(String),
    /// An option has a value that the API server would refuse.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// The format cannot say something; the message names what can.
    #[error("{0}")]
    Format(String),
    /// The folder holds what this program has not printed.
    #[error(
        "{} holds {}, which this program has not printed: name an empty folder, or one that it has written",
        folder.display(),
        first_few(others)
    )]
    OtherFiles {
        /// The folder.
        folder: PathBuf,
        /// The files, relative to it.
        others: Vec<String>,
    },
    /// A file cannot be read or written. Those that were there before are as they were.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// The first of many names.
fn first_few(names: &[String]) -> String {
    const SHOWN: usize = 3;
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more files", names[..SHOWN].join(", ")),
    }
}

/// An option with a value that the API server would refuse; the message names one that is right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidOption(pub(crate) String);

impl Manager {
    /// The files by which the program is deployed. The same program and options give the same
    /// bytes. Needs no cluster.
    ///
    /// # Errors
    ///
    /// If the declaration has [problems](Manager::problems), or an option is wrong.
    pub fn manifests(&self, options: &Options, format: Format) -> Result<Files, ManifestError> {
        let problems = self.problems();
        if !problems.is_empty() {
            return Err(ManifestError::Program(problems.join("; ")));
        }
        options.check()?;
        match format {
            Format::Yaml => Ok(plain(&Model::filled_in(self, options))),
            Format::Kustomize => Ok(kustomize::files(&Model::filled_in(self, options))),
            Format::Helm => helm::files(&Model::of_chart(self, options)),
            Format::Bundle => {
                if options.certificates == Certificates::CertManager {
                    return Err(ManifestError::Format(BUNDLE_CERTIFICATES.to_owned()));
                }
                let options = Options {
                    certificates: Certificates::Files,
                    ..options.clone()
                };
                bundle::files(&Model::filled_in(self, &options))
            }
        }
    }

    /// The program's kinds as YAML documents, as `crds` prints them; those that it converts call
    /// its Service in `namespace`.
    pub fn crds(&self, namespace: &str) -> Result<String, ManifestError> {
        let options = Options {
            namespace: namespace.to_owned(),
            ..Options::new(self)
        };
        let files = self.manifests(&options, Format::Yaml)?;
        Ok(files.get(File::Crds.name()).unwrap_or_default().to_owned())
    }
}

/// The items that are asked for.
fn wanted<'a>(model: &'a Model<'_>) -> impl Iterator<Item = Item> + 'a {
    let extras = &model.options.extras;
    let items = model.items().into_iter();
    items.filter(|item| item.extra.is_none_or(|extra| extras.contains(&extra)))
}

/// Plain objects, one file for each concern.
fn plain(model: &Model<'_>) -> Files {
    let mut files = Files::new(&model.manager.name);
    for item in wanted(model) {
        files.add_document(
            item.file.name(),
            &yaml::document(&item.object, &item.comments),
        );
    }
    files
}
