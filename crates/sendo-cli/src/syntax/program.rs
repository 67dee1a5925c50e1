//! The program: the chain of calls after `Manager::new(…)`.

use std::ops::Range;

use anyhow::{Result, bail};
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ItemFn, ItemMod};

use super::splices::{end_of_line, indent, whole_lines};
use super::uses::uses_of_module;
use super::{SourceFile, Splices, bytes, is_for_tests};

/// The chain of calls that declares the program.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    pub(crate) file: &'a SourceFile,
    /// Where `Manager::new(…)` is.
    pub(crate) new: Range<usize>,
    /// The calls after it, in order.
    pub(crate) calls: Vec<Call>,
}

/// A call in the chain, such as `.controller(bar::controller::controller())`.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    name_range: Range<usize>,
    /// From its dot to its closing parenthesis.
    pub(crate) range: Range<usize>,
}

impl Call {
    /// Where its name is.
    pub(crate) fn name_range(&self) -> Range<usize> {
        self.name_range.clone()
    }
}

impl<'a> Program<'a> {
    /// Finds the one chain in these files.
    pub(crate) fn find(files: &'a [SourceFile]) -> Result<Self> {
        let mut found: Vec<Self> = Vec::new();
        for file in files {
            let mut chains = Chains::default();
            chains.visit_file(&file.tree);
            found.extend(
                chains
                    .0
                    .into_iter()
                    .map(|(new, calls)| Program { file, new, calls }),
            );
        }
        if found.len() > 1 {
            let places = found.iter().map(|one| one.file.place(one.new.start));
            let places: Vec<_> = places.collect();
            bail!("there are several `Manager::new(…)`: {}", places.join(", "));
        }
        match found.pop() {
            Some(program) => Ok(program),
            None => bail!("there is no `Manager::new(…)` in src"),
        }
    }

    /// Adds a call after the last one of the first of these names that is there.
    pub(crate) fn add(&self, after: &[&str], call: &str, splices: &mut Splices) {
        let text = &self.file.text;
        let last = |name: &&str| self.calls.iter().rfind(|call| call.name == **name);
        let end = after
            .iter()
            .find_map(last)
            .map_or(self.new.end, |call| call.range.end);
        let on_own_line = |call: &&Call| {
            let dot = call.range.start;
            text[..dot].ends_with(indent(text, dot)) && text[..dot].trim_end().len() < dot
        };
        let blanks = match self.calls.iter().find(on_own_line) {
            Some(call) => indent(text, call.range.start).to_owned(),
            None => format!("{}    ", indent(text, self.new.start)),
        };
        let at = end_of_line(text, end).unwrap_or(end);
        splices.insert(at, format!("\n{blanks}{call}"));
    }

    /// The calls of this name that name what is in a module, by its path from the root of the crate.
    pub(crate) fn calls_naming(&self, name: &str, library: &str, module: &[String]) -> Vec<&Call> {
        let uses = uses_of_module(self.file, library, module);
        let names_it = |call: &&Call| uses.iter().any(|used| call.range.contains(&used.start));
        let calls = self.calls.iter().filter(|call| call.name == name);
        calls.filter(names_it).collect()
    }

    /// The text of a call with its line, to be taken away.
    pub(crate) fn call_text(&self, call: &Call) -> Range<usize> {
        let text = &self.file.text;
        let lines = whole_lines(text, call.range.clone());
        if lines == call.range || !text[lines.clone()].ends_with('\n') {
            return call.range.clone();
        }
        // The line break before it goes, so that what follows the chain stays where it is.
        lines.start.saturating_sub(1)..lines.end - 1
    }
}

/// All chains of a file.
#[derive(Default)]
struct Chains(Vec<(Range<usize>, Vec<Call>)>);

impl<'ast> Visit<'ast> for Chains {
    fn visit_expr_method_call(&mut self, last: &'ast ExprMethodCall) {
        let mut calls = Vec::new();
        let mut next = last;
        loop {
            calls.push(Call {
                name: next.method.to_string(),
                name_range: bytes(&next.method),
                range: bytes(&next.dot_token).start..next.paren_token.span.close().byte_range().end,
            });
            match &*next.receiver {
                Expr::MethodCall(before) => next = before,
                Expr::Call(new) if is_manager_new(new) => {
                    calls.reverse();
                    self.0.push((bytes(new), calls));
                    return;
                }
                _ => break,
            }
        }
        visit::visit_expr_method_call(self, last);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if is_manager_new(call) {
            self.0.push((bytes(call), Vec::new()));
            return;
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let is_test = |attribute: &syn::Attribute| {
            let last = attribute.path().segments.last();
            last.is_some_and(|last| last.ident == "test")
        };
        if !function.attrs.iter().any(is_test) {
            visit::visit_item_fn(self, function);
        }
    }
}

fn is_manager_new(call: &ExprCall) -> bool {
    let Expr::Path(path) = &*call.func else {
        return false;
    };
    let names: Vec<String> = path
        .path
        .segments
        .iter()
        .map(|part| part.ident.to_string())
        .collect();
    names.ends_with(&["Manager".to_owned(), "new".to_owned()])
}
