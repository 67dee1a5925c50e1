//! The code that converts between versions of a kind, written from the fields that they have.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use syn::{Fields, Item, ItemStruct, Visibility};

use crate::syntax::{KindType, SourceFile, bytes};
use crate::template::Values;

/// The values of the template: conversions of these versions to the stored one and back, and what
/// tests them. Also the fields that only one of two versions has.
pub(super) fn conversion_values(
    values: Values,
    stored: &KindType<'_>,
    others: &[&KindType<'_>],
) -> Result<(Values, Vec<String>)> {
    let (mut conversions, mut round_trips, mut reads) = <(String, String, String)>::default();
    let mut unmatched = Vec::new();
    for other in others {
        let (here, hub) = (Version::new(other)?, Version::new(stored)?);
        conversions += &conversion(&here, &hub, &mut unmatched);
        let names = values
            .clone()
            .with("other", &*here.module)
            .with("other_kind", &*other.type_name);
        round_trips += &names.fill(ROUND_TRIP);
        reads += &names.fill(READ);
    }
    let all = others.iter().chain([&stored]);
    let modules: BTreeSet<String> = all.map(|one| one.version.clone()).collect();
    let modules: Vec<String> = modules.into_iter().collect();
    let values = values
        .with("conversions", conversions)
        .with("round_trips", round_trips)
        .with("reads", reads)
        .with("versions", format!("{{{}}}", modules.join(", ")));
    Ok((values, unmatched))
}

const ROUND_TRIP: &str = "
    #[test]
    fn nothing_is_lost_on_the_way_to_{{other}}_and_back() {
        let back = {{other}}::{{other_kind}}::from_hub({{module}}()).unwrap().to_hub().unwrap();
        assert_eq!(to_value(back).unwrap(), to_value({{module}}()).unwrap());
    }
";

const READ: &str = "        let read: Option<{{other}}::{{other_kind}}> =
            live.get(ObjectKey::from_object(&stored)).await.unwrap();
        assert_eq!(read.unwrap().metadata.uid, stored.metadata.uid);
";

/// A version, as its file declares it.
struct Version<'a> {
    file: &'a SourceFile,
    module: String,
    /// The type of its objects.
    type_name: String,
    /// The types of their `spec`, and of their `status` if they have one.
    spec: String,
    status: Option<String>,
}

impl<'a> Version<'a> {
    fn new(kind: &KindType<'a>) -> Result<Self> {
        let place = kind.file.path.display();
        let module = kind.file.module_path().unwrap_or_default();
        if module.last() != Some(&kind.version) {
            bail!(
                "{place} is not named after the version {}: write the conversion by hand, as the guide's chapter on webhooks shows",
                kind.version
            );
        }
        Ok(Version {
            file: kind.file,
            module: kind.version.clone(),
            type_name: kind.type_name.clone(),
            spec: kind.spec.clone(),
            status: kind.status.clone(),
        })
    }

    fn path(&self, name: &str) -> String {
        format!("{}::{name}", self.module)
    }
}

/// `impl Convert` for a version.
fn conversion(here: &Version<'_>, hub: &Version<'_>, unmatched: &mut Vec<String>) -> String {
    let (this, there) = (here.path(&here.type_name), hub.path(&hub.type_name));
    format!(
        "
impl Convert for {this} {{
    type Hub = {there};

    fn to_hub(self) -> Result<{there}> {{
        Ok({there} {{
{}        }})
    }}

    fn from_hub(hub: {there}) -> Result<Self> {{
        Ok({this} {{
{}        }})
    }}
}}
",
        object(here, hub, "self", unmatched),
        object(hub, here, "hub", unmatched),
    )
}

/// The fields of an object of another version.
fn object(from: &Version<'_>, to: &Version<'_>, name: &str, unmatched: &mut Vec<String>) -> String {
    let mut converted = |names: (&str, &str), value: &str| {
        let fields = same_fields(from, to, names, value);
        if fields.is_none() {
            unmatched.extend(unmatched_fields(from, to, names));
        }
        fields
    };
    let spec = format!("{name}.spec");
    let spec = converted((&from.spec, &to.spec), &spec).unwrap_or_else(|| by_names(&spec));
    let status = match (&from.status, &to.status) {
        (_, None) => None,
        (None, Some(_)) => Some("None".to_owned()),
        (Some(here), Some(there)) => Some(match converted((here, there), "status") {
            Some(fields) => format!("{name}.status.map(|status| {fields})"),
            None => by_names(&format!("{name}.status")),
        }),
    };
    let status = status.map(|status| format!("            status: {status},\n"));
    format!(
        "            metadata: {name}.metadata,\n            spec: {spec},\n{}",
        status.unwrap_or_default()
    )
}

/// Fields of the same name are taken over, whatever their types are called in Rust.
fn by_names(value: &str) -> String {
    format!("serde_json::from_value(serde_json::to_value({value})?)?")
}

/// The value field by field; `None` if the structs do not have the same fields of types that both
/// know.
fn same_fields(
    from: &Version<'_>,
    to: &Version<'_>,
    (here, there): (&str, &str),
    value: &str,
) -> Option<String> {
    let here = fields(from.file, find_struct(from.file, here)?)?;
    let to_fields = fields(to.file, find_struct(to.file, there)?)?;
    let is_same = here.len() == to_fields.len() && to_fields.iter().all(|one| here.contains(one));
    let knows = |file: &SourceFile| {
        let own = own_types(file);
        let mut types = to_fields.iter().map(|field| &field.type_text);
        types.all(|text| !names_one_of(text, &own))
    };
    if !is_same || !knows(from.file) || !knows(to.file) {
        return None;
    }
    let fields = to_fields
        .iter()
        .map(|field| format!("{0}: {value}.{0}", field.name));
    let fields: Vec<String> = fields.collect();
    Some(format!("{} {{ {} }}", to.path(there), fields.join(", ")))
}

/// The fields that only the first of two structs has, for people.
fn unmatched_fields(
    from: &Version<'_>,
    to: &Version<'_>,
    (here, there): (&str, &str),
) -> Vec<String> {
    let names = |file, name| -> Vec<String> {
        let fields = find_struct(file, name).map(|found| found.fields.iter());
        let names = fields
            .into_iter()
            .flatten()
            .filter_map(|field| field.ident.as_ref());
        names.map(ToString::to_string).collect()
    };
    let there = names(to.file, there);
    let mut here = names(from.file, here);
    here.retain(|name| !there.contains(name));
    let (from, to) = (&from.module, &to.module);
    here.iter()
        .map(|name| format!("{from} has the field `{name}`, and {to} has not"))
        .collect()
}

/// A field that other modules can use.
#[derive(PartialEq, Eq)]
struct Field {
    name: String,
    type_text: String,
}

/// The fields of a struct; `None` if other modules cannot use all of them.
fn fields(file: &SourceFile, item: &ItemStruct) -> Option<Vec<Field>> {
    let Fields::Named(named) = &item.fields else {
        return None;
    };
    let fields = named.named.iter().map(|field| {
        let text = &file.text[bytes(&field.ty)];
        let is_public = matches!(field.vis, Visibility::Public(_));
        is_public.then(|| Field {
            name: field
                .ident
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            type_text: text.split_whitespace().collect(),
        })
    });
    fields.collect()
}

fn find_struct<'a>(file: &'a SourceFile, name: &str) -> Option<&'a ItemStruct> {
    file.tree.items.iter().find_map(|item| match item {
        Item::Struct(found) if found.ident == name => Some(found),
        _ => None,
    })
}

/// The names of the types that a file declares.
fn own_types(file: &SourceFile) -> Vec<String> {
    let items = file.tree.items.iter();
    let names = items.filter_map(|item| match item {
        Item::Struct(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        _ => None,
    });
    names.map(ToString::to_string).collect()
}

fn names_one_of(type_text: &str, names: &[String]) -> bool {
    let mut words = type_text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| names.iter().any(|name| name == word))
}
