//! Kinds of a project's own: structs with `#[derive(CustomResource)]`.

use std::ops::Range;

use syn::visit::{self, Visit};
use syn::{Expr, ExprLit, ItemStruct, Lit, Token};

use super::{SourceFile, bytes};

/// A version of a kind, as a type declares it.
#[derive(Clone, Debug)]
pub(crate) struct KindType<'a> {
    pub(crate) file: &'a SourceFile,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    /// The name of the type of its objects.
    pub(crate) type_name: String,
    /// The name of the type of their `spec`.
    pub(crate) spec: String,
    /// The name of the type of their `status`, if they have one.
    pub(crate) status: Option<String>,
    /// Whether objects are stored in this version.
    pub(crate) is_stored: bool,
    /// Where `storage = …` is said.
    pub(crate) storage: Option<Range<usize>>,
    /// Where the version's literal is.
    pub(crate) version_literal: Range<usize>,
}

impl<'a> KindType<'a> {
    /// All of these files.
    pub(crate) fn find(files: &'a [SourceFile]) -> Vec<Self> {
        let mut found = Vec::new();
        for file in files {
            let mut kinds = Kinds {
                file,
                found: Vec::new(),
            };
            kinds.visit_file(&file.tree);
            found.append(&mut kinds.found);
        }
        found
    }
}

struct Kinds<'a> {
    file: &'a SourceFile,
    found: Vec<KindType<'a>>,
}

impl<'ast> Visit<'ast> for Kinds<'_> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let derives = item.attrs.iter().any(|attribute| {
            let mut found = false;
            if attribute.path().is_ident("derive") {
                let _ = attribute.parse_nested_meta(|meta| {
                    let last = meta.path.segments.last();
                    found |= last.is_some_and(|last| last.ident == "CustomResource");
                    Ok(())
                });
            }
            found
        });
        if derives {
            self.found.extend(read(self.file, item));
        }
        visit::visit_item_struct(self, item);
    }
}

/// The kind of a struct; `None` if its `#[kube(…)]` names none.
fn read<'a>(file: &'a SourceFile, item: &ItemStruct) -> Option<KindType<'a>> {
    let (mut group, mut version, mut kind, mut type_name) = (None, None, None, None);
    let mut status = None;
    let (mut namespaced, mut is_stored) = (false, true);
    let mut storage = None;
    let attributes = item.attrs.iter();
    for attribute in attributes.filter(|attribute| attribute.path().is_ident("kube")) {
        let parsed = attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string);
            let name = name.unwrap_or_default();
            let start = bytes(&meta.path).start;
            if meta.input.peek(Token![=]) {
                let value: Expr = meta.value()?.parse()?;
                let range = bytes(&value);
                let text = text_of(&value);
                match name.as_str() {
                    "group" => group = text,
                    "version" => version = text.map(|text| (text, range)),
                    "kind" => kind = text,
                    "struct" => type_name = text,
                    "status" => status = text,
                    "storage" => {
                        is_stored = &file.text[range.clone()] == "true";
                        storage = Some(start..range.end);
                    }
                    _ => {}
                }
            } else if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<proc_macro2::TokenStream>()?;
            } else if name == "namespaced" {
                namespaced = true;
            }
            Ok(())
        });
        parsed.ok()?;
    }
    let ((version, version_literal), kind) = (version?, kind?);
    Some(KindType {
        file,
        group: group?,
        version,
        type_name: type_name.unwrap_or_else(|| kind.clone()),
        kind,
        spec: item.ident.to_string(),
        status,
        namespaced,
        is_stored,
        storage,
        version_literal,
    })
}

fn text_of(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}
