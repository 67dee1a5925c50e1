//! A parser for the part of Go's syntax in which structs and their tags are declared.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, bail};

use super::Modules;

/// One field of a Go struct, embedded ones included.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The JSON name; empty for a field that is inlined into its parent.
    pub(crate) json: String,
    /// The type as written, without the pointer's star.
    pub(crate) go_type: String,
    pub(crate) pointer: bool,
    pub(crate) omit_empty: bool,
    pub(crate) omit_zero: bool,
    /// Number and name of the protobuf field; none if it is not encoded.
    pub(crate) proto: Option<(u32, String)>,
}

/// A package's structs, and the names under which it imports packages.
pub(crate) struct Package {
    pub(crate) structs: BTreeMap<String, Vec<Field>>,
    imports: BTreeMap<String, String>,
}

/// Packages read so far, by import path.
pub(crate) struct Packages<'a> {
    modules: &'a Modules,
    read: BTreeMap<String, Package>,
}

impl<'a> Packages<'a> {
    pub(crate) fn new(modules: &'a Modules) -> Self {
        Self {
            modules,
            read: BTreeMap::new(),
        }
    }

    /// The fields of a struct with embedded structs still in place.
    pub(crate) fn fields(&mut self, import_path: &str, name: &str) -> anyhow::Result<Vec<Field>> {
        let package = self.package(import_path)?;
        let fields = package.structs.get(name);
        Ok(fields
            .with_context(|| format!("no Go struct {import_path}.{name}"))?
            .clone())
    }

    /// Whether a package declares a struct of that name.
    pub(crate) fn is_struct(&mut self, import_path: &str, name: &str) -> anyhow::Result<bool> {
        Ok(self.package(import_path)?.structs.contains_key(name))
    }

    /// The import path and name behind a type as written in a package.
    pub(crate) fn resolve(
        &mut self,
        import_path: &str,
        go_type: &str,
    ) -> anyhow::Result<(String, String)> {
        let Some((alias, name)) = go_type.split_once('.') else {
            return Ok((import_path.to_owned(), go_type.to_owned()));
        };
        let package = self.package(import_path)?;
        let path = package.imports.get(alias);
        let path = path.with_context(|| format!("{import_path} imports no {alias}"))?;
        Ok((path.clone(), name.to_owned()))
    }

    fn package(&mut self, import_path: &str) -> anyhow::Result<&Package> {
        if !self.read.contains_key(import_path) {
            let package = Package::read(self.modules, import_path)
                .with_context(|| format!("read the Go package {import_path}"))?;
            self.read.insert(import_path.to_owned(), package);
        }
        Ok(&self.read[import_path])
    }
}

impl Package {
    fn read(modules: &Modules, import_path: &str) -> anyhow::Result<Self> {
        let mut package = Self {
            structs: BTreeMap::new(),
            imports: BTreeMap::new(),
        };
        for entry in modules.package(import_path)?.read_dir()? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let generated = name.starts_with("zz_generated") || name.starts_with("generated.");
            if name.ends_with(".go") && !name.ends_with("_test.go") && !generated {
                package
                    .read_source(&fs::read_to_string(&path)?)
                    .with_context(|| name)?;
            }
        }
        Ok(package)
    }

    fn read_source(&mut self, source: &str) -> anyhow::Result<()> {
        let mut lines = source.lines().map(str::trim_end);
        while let Some(line) = lines.next() {
            if line == "import (" {
                for line in lines.by_ref().take_while(|line| *line != ")") {
                    self.read_import(line.trim());
                }
            } else if let Some(import) = line.strip_prefix("import ") {
                self.read_import(import);
            } else if let Some(name) = struct_name(line, " struct{}") {
                self.structs.insert(name.to_owned(), Vec::new());
            } else if let Some(name) = struct_name(line, " struct {") {
                let body = lines.by_ref().take_while(|line| *line != "}");
                let fields = body.filter_map(|line| Field::parse(line).transpose());
                self.structs
                    .insert(name.to_owned(), fields.collect::<Result<_, _>>()?);
            }
        }
        Ok(())
    }

    fn read_import(&mut self, line: &str) {
        let mut parts = line.split('"');
        if let (Some(alias), Some(path)) = (parts.next(), parts.next()) {
            let base = path.rsplit('/').next().unwrap_or(path);
            let alias = if alias.trim().is_empty() {
                base
            } else {
                alias.trim()
            };
            self.imports.insert(alias.to_owned(), path.to_owned());
        }
    }
}

fn struct_name<'a>(line: &'a str, opening: &str) -> Option<&'a str> {
    line.strip_prefix("type ")?.strip_suffix(opening)
}

impl Field {
    /// One line of a struct; none for comments and fields without a JSON name.
    fn parse(line: &str) -> anyhow::Result<Option<Self>> {
        let line = line.trim();
        if line.is_empty() || line.starts_with("//") {
            return Ok(None);
        }
        let Some((declaration, tags)) = line.split_once('`') else {
            return Ok(None);
        };
        let tags = tags.split('`').next().unwrap_or_default();
        let Some(json) = tag(tags, "json") else {
            return Ok(None);
        };
        let mut json = json.split(',');
        let name = json.next().unwrap_or_default();
        if name == "-" {
            return Ok(None);
        }
        let options: Vec<_> = json.collect();
        if name.is_empty() && !options.contains(&"inline") {
            bail!("a field with neither name nor inline: {line}");
        }
        let go_type = declaration.split_whitespace().last().unwrap_or_default();
        Ok(Some(Self {
            json: name.to_owned(),
            go_type: go_type.trim_start_matches('*').to_owned(),
            pointer: go_type.starts_with('*'),
            omit_empty: options.contains(&"omitempty"),
            omit_zero: options.contains(&"omitzero"),
            proto: tag(tags, "protobuf")
                .map(|tag| proto_tag(tag, declaration))
                .transpose()?,
        }))
    }
}

/// The value of one key of a struct tag: `json:"a,omitempty" protobuf:"…"`.
fn tag<'a>(tags: &'a str, key: &str) -> Option<&'a str> {
    let start = tags.find(&format!("{key}:\""))? + key.len() + 2;
    tags[start..].split('"').next()
}

/// `bytes,1,opt,name=metadata` is field 1, named `metadata`; a tag without a
/// name means the Go name in lower camel case.
fn proto_tag(tag: &str, declaration: &str) -> anyhow::Result<(u32, String)> {
    let mut parts = tag.split(',').skip(1);
    let number = parts.next().unwrap_or_default();
    let number = number
        .parse()
        .with_context(|| format!("unreadable protobuf tag {tag:?}"))?;
    if let Some(name) = parts.find_map(|part| part.strip_prefix("name=")) {
        return Ok((number, name.to_owned()));
    }
    let name = declaration.split_whitespace().next().unwrap_or_default();
    let mut characters = name.chars();
    let first = characters.next().into_iter().flat_map(char::to_lowercase);
    Ok((number, first.chain(characters).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(source: &str) -> Package {
        let mut package = Package {
            structs: BTreeMap::new(),
            imports: BTreeMap::new(),
        };
        package.read_source(source).unwrap();
        package
    }

    #[test]
    fn a_field_is_read_from_its_declaration_and_tags() {
        let line =
            r#"  Port *int32 `json:"port,omitempty" protobuf:"varint,3,opt,name=port"` // note"#;
        let field = Field::parse(line).unwrap().unwrap();
        assert_eq!((&*field.json, &*field.go_type), ("port", "int32"));
        assert!(field.pointer && field.omit_empty && !field.omit_zero);
        assert_eq!(field.proto, Some((3, "port".to_owned())));
    }

    #[test]
    fn an_embedded_struct_is_inlined_and_named_after_its_type() {
        let line = r#"  ProbeHandler `json:",inline" protobuf:"bytes,1,opt"`"#;
        let field = Field::parse(line).unwrap().unwrap();
        assert_eq!((&*field.json, &*field.go_type), ("", "ProbeHandler"));
        assert_eq!(field.proto, Some((1, "probeHandler".to_owned())));
    }

    #[test]
    fn comments_and_fields_outside_of_json_are_passed_over() {
        for line in [
            "",
            "// Name string `json:\"name\"`",
            "  hidden int",
            "  X int `json:\"-\"`",
        ] {
            assert!(Field::parse(line).unwrap().is_none(), "{line}");
        }
        assert!(Field::parse("  X int `json:\",omitempty\"`").is_err());
    }

    #[test]
    fn structs_and_imports_are_found_in_a_source() {
        let package = package(concat!(
            "import (\n\tv1 \"k8s.io/api/core/v1\"\n\t\"k8s.io/api/apps/v2\"\n)\n",
            "type Empty struct{}\n",
            "type One struct {\n\tA string `json:\"a\"`\n}\n",
        ));
        assert_eq!(package.structs["One"].len(), 1);
        assert!(package.structs["Empty"].is_empty());
        assert_eq!(package.imports["v1"], "k8s.io/api/core/v1");
        assert_eq!(package.imports["v2"], "k8s.io/api/apps/v2");
    }
}
