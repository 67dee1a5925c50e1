//! `sendo new`: makes a project.

use std::io::{IsTerminal, Write as _, stderr, stdin};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::names::{Api, Group, Kind, NameError, ProgramName, Version};
use crate::output::Format;
use crate::project::{Changes, initialise};
use crate::screen::Screen;
use crate::sendo_source::SendoSource;
use crate::template::{self, Scope};

const DEFAULT_GROUP: &str = "example.dev";
const DEFAULT_VERSION: &str = "v1alpha1";

/// Make a project: a controller with a kind of its own, and tests
///
/// Twelve files in a new folder, or in an empty one, that build and pass their
/// tests as they are. On a terminal, group and kind can be typed where they are
/// not given; Enter takes the default.
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo new bar-controller                            the kind Bar in the group example.dev
  sendo new boats --group boats.dev --kind Boat --version v1
  sendo new fleet --kind Fleet --cluster-scoped       a kind outside of namespaces"
)]
pub(crate) struct New {
    /// The folder of the project
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The name of the program [default: that of the folder]
    #[arg(long)]
    name: Option<String>,

    /// The API group of the kind, a domain of yours [default: example.dev]
    #[arg(long)]
    group: Option<Group>,

    /// The kind [default: after the name, `Bar` for bar-controller]
    #[arg(long)]
    kind: Option<Kind>,

    /// The version of the kind
    #[arg(long, default_value = DEFAULT_VERSION)]
    version: Version,

    /// Objects of the kind are in no namespace
    #[arg(long)]
    cluster_scoped: bool,

    /// Use the clone of Sendo in this folder [default: what this command was built from]
    #[arg(long, value_name = "DIR", conflicts_with = "sendo_git")]
    sendo_path: Option<PathBuf>,

    /// Use Sendo from this git repository
    #[arg(long, value_name = "URL")]
    sendo_git: Option<String>,

    /// Print JSON for programs
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl New {
    pub(crate) fn run(self) -> Result<()> {
        let root = std::path::absolute(&self.folder)?;
        check_empty(&root)?;
        let name = self.program_name(&root)?;
        let api = self.api(&name)?;
        let source = match (&self.sendo_path, self.sendo_git) {
            (Some(folder), _) => SendoSource::folder(folder)?,
            (None, Some(url)) => SendoSource::Git {
                url,
                commit: String::new(),
            },
            (None, None) => SendoSource::built_from()?,
        };
        let scope = match self.cluster_scoped {
            true => Scope::Cluster,
            false => Scope::Namespaced,
        };
        let values = template::project_values(
            &name,
            &api,
            scope,
            &source.dependency("sendo"),
            &source.dependency("sendo-test"),
            is_in_workspace(&root),
        );
        let mut changes = Changes::new(&root);
        for file in template::project_files(&values, &api) {
            changes.create(file)?;
        }
        let was_there = root.is_dir();
        std::fs::create_dir_all(&root)
            .with_context(|| format!("cannot make the folder {}", root.display()))?;
        changes.format("2024");
        if let Err(error) = changes.write() {
            if !was_there {
                // The first error is the one to report.
                let _ = std::fs::remove_dir(&root);
            }
            return Err(error);
        }
        initialise(&root);
        self.output.print_changes(&changes)?;
        if self.output == Format::Text {
            print_next(&self.folder, &api);
        }
        Ok(())
    }

    fn program_name(&self, root: &Path) -> Result<ProgramName> {
        if let Some(name) = &self.name {
            return Ok(name.parse()?);
        }
        let folder = root.file_name().unwrap_or_default().to_string_lossy();
        let name = folder.parse();
        name.context("the folder's name does not do; name the program with --name NAME")
    }

    fn api(&self, name: &ProgramName) -> Result<Api> {
        let interactive = stdin().is_terminal() && stderr().is_terminal();
        let group = match &self.group {
            Some(group) => group.clone(),
            None => choose("Group of the kind", Some(DEFAULT_GROUP), interactive)?,
        };
        let kind = match &self.kind {
            Some(kind) => kind.clone(),
            None => {
                let likely = name.likely_kind();
                choose("Kind", likely.as_ref().map(Kind::as_str), interactive)
                    .context("name the kind with --kind NAME, such as `Bar`")?
            }
        };
        Ok(Api {
            group,
            kind,
            version: self.version.clone(),
        })
    }
}

/// The default, or on a terminal what is typed instead.
fn choose<T: FromStr<Err = NameError>>(
    what: &str,
    default: Option<&str>,
    interactive: bool,
) -> Result<T> {
    if !interactive {
        let Some(default) = default else {
            bail!("{what} has no default here");
        };
        return Ok(default.parse()?);
    }
    loop {
        let hint = default.map(|default| format!(" [{default}]"));
        eprint!("{what}{}: ", hint.unwrap_or_default());
        stderr().flush()?;
        let mut line = String::new();
        if stdin().read_line(&mut line)? == 0 {
            bail!("the input has ended");
        }
        let typed = Some(line.trim()).filter(|typed| !typed.is_empty());
        match typed.or(default).unwrap_or_default().parse() {
            Ok(chosen) => return Ok(chosen),
            Err(error) => eprintln!("{error}"),
        }
    }
}

/// Nothing of the user's is written over.
fn check_empty(root: &Path) -> Result<()> {
    let mut entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            bail!("{} is a file: choose another folder", root.display())
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", root.display())),
    };
    // A repository that was made before the project is fine.
    let found = entries.find_map(|entry| {
        let name = entry.ok()?.file_name();
        (name != ".git").then_some(name)
    });
    if let Some(found) = found {
        bail!(
            "{} is not empty, there is {}: choose another folder",
            root.display(),
            found.display()
        );
    }
    Ok(())
}

/// Whether cargo would take the project for a member of a workspace in a folder above.
fn is_in_workspace(root: &Path) -> bool {
    let mut manifests = root
        .ancestors()
        .skip(1)
        .map(|folder| folder.join("Cargo.toml"));
    manifests
        .any(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("[workspace")))
}

fn print_next(folder: &Path, api: &Api) {
    let screen = Screen::stdout();
    let module = api.kind.module();
    screen.title("Next");
    screen.command(&format!("cd {}", folder.display()));
    screen.command("cargo test                        # needs no cluster");
    screen.command(
        "sendo dev --samples               # on a cluster of its own, rebuilt on every change",
    );
    screen.say("");
    screen.say(format!(
        "{} is src/{module}/{}.rs, and what is done about it src/{module}/controller.rs.",
        api.kind.as_str(),
        api.version.as_str()
    ));
}
