//! `sendo add version`: another version of a kind.

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::edit::{Code, EditFlags, Edits};
use crate::names::{Kind, Version};
use crate::syntax::{KindType, Program, Splices};
use crate::template::NewFile;

/// Add a version of a kind: a type of its own, to begin with the same as the stored one
///
/// Objects stay stored in the version they are stored in, unless you say
/// --stored. The API server converts between versions by the apiVersion alone,
/// so a field that is to survive has the same name in both.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sendo add version v1 --of Bar              served beside the one that is stored
  sendo add version v1 --of Bar --stored     and objects are stored in it from now on")]
pub(super) struct AddVersion {
    /// The new version, such as v1
    version: Version,

    /// The kind, one of the project's own
    #[arg(long, value_name = "KIND")]
    of: Kind,

    /// Store objects in the new version
    #[arg(long)]
    stored: bool,

    #[command(flatten)]
    flags: EditFlags,
}

impl AddVersion {
    pub(super) fn run(self) -> Result<()> {
        let code = Code::here()?;
        let versions = code.versions_of(self.of.as_str())?;
        let new = self.version.as_str();
        if let Some(known) = versions.iter().find(|known| known.version == new) {
            let place = known.file.path.display();
            bail!("{} has the version {new} already, in {place}", known.kind);
        }
        let stored = versions.iter().find(|known| known.is_stored);
        let stored = stored.with_context(|| {
            format!(
                "no version of {} is stored: take `storage = false` out of one of them",
                self.of.as_str()
            )
        })?;

        let mut edits = Edits::new(&code);
        edits.by_hand(format!(
            "copy {} to a module `{new}` beside it, with `version = \"{new}\"` in its #[kube(…)]",
            stored.file.path.display()
        ));
        edits.by_hand(format!(
            "write `storage = false` into the #[kube(…)] of {}",
            match self.stored {
                true => &stored.version,
                false => new,
            }
        ));
        edits.by_hand(format!(
            "after `Manager::new(…)`: .defines::<…::{new}::{}>()",
            stored.type_name
        ));
        edits.place(|edits| self.add(&code, stored, edits))?;
        edits.note(format!(
            "Change the fields of the new version in its file; objects are stored as {}.",
            match self.stored {
                true => new,
                false => &stored.version,
            }
        ));
        edits.finish(self.flags)
    }

    fn add(&self, code: &Code, stored: &KindType<'_>, edits: &mut Edits<'_>) -> Result<()> {
        let new = self.version.as_str();
        let program = Program::find(&code.files)?;
        let place = stored.file.path.display();
        let module = stored.file.module_path();
        let module = module.with_context(|| format!("{place} is in no module"))?;
        if module.last() != Some(&stored.version) {
            bail!("{place} is not named after the version {}", stored.version);
        }
        let others = code
            .kinds()
            .into_iter()
            .filter(|kind| kind.file.path == stored.file.path);
        if others.count() > 1 {
            bail!("{place} has several kinds");
        }
        let above = &module[..module.len() - 1];
        let parent = code
            .file(above)
            .or(code.root().ok().filter(|_| above.is_empty()));
        let parent = parent.with_context(|| format!("{place} has no module above it"))?;

        let text = self.copy_of(stored);
        let path = stored.file.path.with_file_name(format!("{new}.rs"));
        edits.changes.create(NewFile::new(path, text))?;
        if self.stored {
            set_stored(stored, false, edits.splices(stored.file));
        }
        parent.declare_module(new, edits.splices(parent));
        let path = [above, &[new.to_owned(), stored.type_name.clone()]]
            .concat()
            .join("::");
        let path = code.path_from(&program, &path);
        let splices = edits.splices(program.file);
        program.add(
            &["defines", "version"],
            &format!(".defines::<{path}>()"),
            splices,
        );
        Ok(())
    }

    /// The file of the stored version, as that of the new one.
    fn copy_of(&self, stored: &KindType<'_>) -> String {
        let new = self.version.as_str();
        let mut splices = Splices::default();
        splices.replace(stored.version_literal.clone(), format!("\"{new}\""));
        if !self.stored {
            set_stored(stored, false, &mut splices);
        }
        // The module's own comment names the version.
        let header = stored
            .file
            .text
            .lines()
            .take_while(|line| line.starts_with("//!"));
        let end = header.map(|line| line.len() + 1).sum::<usize>();
        let head = &stored.file.text[..end.min(stored.file.text.len())];
        for (at, name) in head.match_indices(&stored.version) {
            let follows = head[at + name.len()..].chars().next();
            if follows.is_none_or(|next| !next.is_alphanumeric()) {
                splices.replace(at..at + name.len(), new);
            }
        }
        splices.apply(&stored.file.text)
    }
}

/// Says in a type's `#[kube(…)]` whether objects are stored in its version.
fn set_stored(kind: &KindType<'_>, is_stored: bool, splices: &mut Splices) {
    let setting = format!("storage = {is_stored}");
    if let Some(range) = &kind.storage {
        splices.replace(range.clone(), setting);
        return;
    }
    let text = &kind.file.text;
    let literal = &kind.version_literal;
    let line = text[..literal.start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line..literal.start];
    let blanks = before.len() - before.trim_start().len();
    let separator = match before.trim_start().starts_with("version") {
        true => format!(",\n{}", &before[..blanks]),
        false => ", ".to_owned(),
    };
    splices.insert(literal.end, format!("{separator}{setting}"));
}
