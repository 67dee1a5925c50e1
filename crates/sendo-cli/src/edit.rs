//! An edit of a project's code: from what was read to what is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;

use crate::output::Format;
use crate::project::{Changes, Project, check_clean};
use crate::screen::Screen;
use crate::syntax::{KindType, Program, SourceFile, Splices, parse, rust_files};
use crate::template::NewFile;

/// The flags of commands that edit code.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct EditFlags {
    /// Show the changes as a diff, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Edit files although git could not undo it, because changes are not committed
    #[arg(long)]
    allow_dirty: bool,

    /// Print JSON for programs
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// A project and its code, as it was read.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) project: Project,
    /// The files in `src`.
    pub(crate) files: Vec<SourceFile>,
}

impl Code {
    /// The code of the project of the current folder.
    pub(crate) fn here() -> Result<Self> {
        let project = Project::here()?;
        let files = rust_files(&project.root, "src")?;
        Ok(Code { project, files })
    }

    /// The file of a module, by the path to it.
    pub(crate) fn file(&self, module: &[String]) -> Option<&SourceFile> {
        let is_root = module.is_empty();
        let mut files = self.files.iter();
        files.find(|file| {
            let is_library = !is_root || file.path != Path::new("src/main.rs");
            is_library && file.module_path().is_some_and(|path| path == module)
        })
    }

    /// The root of the library, or of the program if there is no library.
    pub(crate) fn root(&self) -> Result<&SourceFile> {
        let main = || {
            self.files
                .iter()
                .find(|file| file.path == Path::new("src/main.rs"))
        };
        let root = self.file(&[]).or_else(main);
        root.context("there is neither src/lib.rs nor src/main.rs")
    }

    /// The kinds of the project's own.
    pub(crate) fn kinds(&self) -> Vec<KindType<'_>> {
        KindType::find(&self.files)
    }

    /// The versions of one kind; fails with those there are.
    pub(crate) fn versions_of(&self, kind: &str) -> Result<Vec<KindType<'_>>> {
        let mut kinds = self.kinds();
        let mut names: Vec<String> = kinds.iter().map(|one| one.kind.clone()).collect();
        kinds.retain(|one| one.kind == kind);
        if kinds.is_empty() {
            names.sort();
            names.dedup();
            let there_are = match names.is_empty() {
                true => "there is none yet: `sendo add api` makes one".to_owned(),
                false => format!("there is {}", names.join(", ")),
            };
            bail!(
                "no type with #[derive(CustomResource)] in src has the kind `{kind}`; {there_are}"
            );
        }
        if kinds.iter().any(|one| one.group != kinds[0].group) {
            bail!(
                "there are kinds `{kind}` in several groups, which this command does not tell apart"
            );
        }
        Ok(kinds)
    }

    /// A path to a module of the library, as code in the program's file names it.
    pub(crate) fn path_from(&self, program: &Program<'_>, module: &str) -> String {
        let file = program.file;
        let is_root = file.module_path().is_some_and(|path| path.is_empty());
        let in_library = self.file(&[]).is_some();
        let outside = file.path.ends_with("main.rs") || file.module_path().is_none();
        match (in_library && outside, is_root) {
            (true, _) => format!("{}::{module}", self.project.library),
            (false, true) => module.to_owned(),
            (false, false) => format!("crate::{module}"),
        }
    }

    /// Whether tests can start the program by `library::manager()`.
    pub(crate) fn has_manager_function(&self) -> bool {
        self.file(&[]).is_some_and(|root| {
            root.tree.items.iter().any(|item| {
                matches!(item, syn::Item::Fn(function)
                    if function.sig.ident == "manager"
                        && function.sig.inputs.is_empty()
                        && matches!(function.vis, syn::Visibility::Public(_)))
            })
        })
    }
}

/// What is to be changed, and how to do it by hand where this command cannot.
#[derive(Debug)]
pub(crate) struct Edits<'a> {
    code: &'a Code,
    pub(crate) changes: Changes,
    splices: BTreeMap<PathBuf, Splices>,
    by_hand: Vec<String>,
    notes: Vec<String>,
}

impl<'a> Edits<'a> {
    pub(crate) fn new(code: &'a Code) -> Self {
        Edits {
            code,
            changes: Changes::new(&code.project.root),
            splices: BTreeMap::new(),
            by_hand: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The changes of a file's text.
    pub(crate) fn splices(&mut self, file: &SourceFile) -> &mut Splices {
        self.splices.entry(file.path.clone()).or_default()
    }

    /// Says how to do a part by hand, should the place for it not be found.
    pub(crate) fn by_hand(&mut self, step: impl Into<String>) {
        self.by_hand.push(step.into());
    }

    /// Says something when it is done.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds new files.
    pub(crate) fn create_all(&mut self, files: Vec<NewFile>) -> Result<()> {
        for file in files {
            self.changes.create(file)?;
        }
        Ok(())
    }

    /// Adds the dependencies that a kind's code needs.
    pub(crate) fn add_dependencies(&mut self) -> Result<()> {
        if let Some((before, text)) = self.code.project.with_dependencies()? {
            self.changes.replace(Path::new("Cargo.toml"), before, text);
        }
        Ok(())
    }

    /// Finds places in the code; if one is not found, the error says what to do by hand.
    pub(crate) fn place(&mut self, find: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        find(self).map_err(|error| self.unplaced(&error))
    }

    fn unplaced(&self, error: &anyhow::Error) -> anyhow::Error {
        let steps: String = self
            .by_hand
            .iter()
            .map(|step| format!("\n  {step}"))
            .collect();
        anyhow!("{error:#}; nothing was changed. By hand it would be:{steps}")
    }

    /// Applies all edits, checks that the code is Rust still, and writes.
    pub(crate) fn finish(mut self, flags: EditFlags) -> Result<()> {
        for (path, splices) in std::mem::take(&mut self.splices) {
            let Some(file) = self.code.files.iter().find(|file| file.path == path) else {
                bail!("{} was not read", path.display());
            };
            let text = splices.apply(&file.text);
            if let Err(error) = parse(&path, &text) {
                return Err(self.unplaced(&error.context("the edit does not do here")));
            }
            self.changes.replace(&path, &file.text, text);
        }
        self.changes.format(&self.code.project.edition);
        if flags.dry_run {
            return flags.output.print_diff(&self.changes);
        }
        if !flags.allow_dirty {
            check_clean(&self.code.project.root)?;
        }
        self.changes.write()?;
        flags.output.print_changes(&self.changes)?;
        if flags.output == Format::Text && !self.notes.is_empty() {
            let screen = Screen::stdout();
            screen.title("Next");
            for note in &self.notes {
                screen.say(format!("  {note}"));
            }
        }
        Ok(())
    }
}
