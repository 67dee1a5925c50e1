//! Declarations of modules: `pub mod bar;`.

use std::ops::Range;

use syn::{Item, ItemMod, Visibility};

use super::splices::{end_of_line, whole_lines};
use super::{SourceFile, Splices, bytes, is_for_tests};

impl SourceFile {
    /// The declaration of a module in a file of its own.
    pub(crate) fn module(&self, name: &str) -> Option<&ItemMod> {
        self.modules().find(|module| module.ident == name)
    }

    /// All declarations of modules in files of their own, but for those of tests.
    fn modules(&self) -> impl Iterator<Item = &ItemMod> {
        self.tree.items.iter().filter_map(|item| match item {
            Item::Mod(module) if module.content.is_none() && !is_for_tests(&module.attrs) => {
                Some(module)
            }
            _ => None,
        })
    }

    /// Declares a module where the others are, in their order if they have one.
    pub(crate) fn declare_module(&self, name: &str, splices: &mut Splices) {
        let known: Vec<&ItemMod> = self.modules().collect();
        let is_public = match known.first() {
            Some(first) => matches!(first.vis, Visibility::Public(_)),
            None => !self.path.ends_with("main.rs"),
        };
        let line = match is_public {
            true => format!("pub mod {name};\n"),
            false => format!("mod {name};\n"),
        };
        let after = known
            .iter()
            .find(|module| module.ident.to_string().as_str() > name);
        if let Some(next) = after {
            splices.insert(self.start_of_line(bytes(*next).start), line);
        } else if let Some(last) = known.last() {
            let end = bytes(*last).end;
            let end = end_of_line(&self.text, end).unwrap_or(end);
            splices.insert(end, format!("\n{}", line.trim_end()));
        } else if let Some(first) = self.tree.items.first() {
            splices.insert(self.start_of_line(bytes(first).start), line + "\n");
        } else {
            splices.insert(self.text.len(), line);
        }
    }

    /// The text of a module's declaration, to be taken away.
    pub(crate) fn module_text(&self, module: &ItemMod) -> Range<usize> {
        whole_lines(&self.text, bytes(module))
    }

    fn start_of_line(&self, at: usize) -> usize {
        let start = self.text[..at].rfind('\n').map_or(0, |at| at + 1);
        match self.text[start..at].trim().is_empty() {
            true => start,
            false => at,
        }
    }
}
