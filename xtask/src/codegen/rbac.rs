//! The roles and bindings that a server creates when it starts, from the test data of
//! Kubernetes that lists them.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::Modules;

const LISTS: &str = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata";
const FILES: [&str; 6] = [
    "cluster-roles.yaml",
    "controller-roles.yaml",
    "cluster-role-bindings.yaml",
    "controller-role-bindings.yaml",
    "namespace-roles.yaml",
    "namespace-role-bindings.yaml",
];

/// The annotation and the label of every object, which the text leaves out.
const ANNOTATION: (&str, &str) = ("rbac.authorization.kubernetes.io/autoupdate", "true");
const LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

/// One object a paragraph; `crates/sendo-server/src/access/rbac/bootstrap.rs` reads it.
pub(crate) fn render(modules: &Modules) -> anyhow::Result<String> {
    let mut out = String::from(
        "# Roles and bindings of a new cluster, by `cargo xtask codegen`; do not edit.\n\
         # rule VERBS GROUPS RESOURCES [NAMES], where `core` is the group without a name\n",
    );
    for file in FILES {
        let path = modules.kubernetes().join(LISTS).join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let list: Value = serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is not YAML", path.display()))?;
        let items = list["items"].as_array().context("a list without items")?;
        for item in items {
            object(&mut out, item).with_context(|| format!("{file}: {}", item["metadata"]))?;
        }
    }
    Ok(out)
}

fn object(out: &mut String, object: &Value) -> anyhow::Result<()> {
    let metadata = &object["metadata"];
    let kind = text(&object["kind"])?;
    let name = text(&metadata["name"])?;
    match metadata.get("namespace") {
        Some(namespace) => writeln!(out, "\n{kind} {}/{name}", text(namespace)?)?,
        None => writeln!(out, "\n{kind} {name}")?,
    }
    if pairs(&metadata["annotations"])? != [ANNOTATION] {
        bail!("annotations that are not those of all");
    }
    for (key, value) in pairs(&metadata["labels"])? {
        if (key, value) != LABEL {
            writeln!(out, "  label {key}={value}")?;
        }
    }
    let selectors = object["aggregationRule"]["clusterRoleSelectors"].as_array();
    for selector in selectors.into_iter().flatten() {
        for (key, value) in pairs(&selector["matchLabels"])? {
            writeln!(out, "  aggregate {key}={value}")?;
        }
    }
    for rule in object["rules"].as_array().into_iter().flatten() {
        self::rule(out, rule)?;
    }
    if let Some(role) = object.get("roleRef") {
        writeln!(
            out,
            "  of {} {}",
            text(&role["kind"])?,
            text(&role["name"])?
        )?;
    }
    for subject in object["subjects"].as_array().into_iter().flatten() {
        let (kind, name) = (text(&subject["kind"])?, text(&subject["name"])?);
        match subject.get("namespace") {
            Some(namespace) => writeln!(out, "  to {kind} {}/{name}", text(namespace)?)?,
            None => writeln!(out, "  to {kind} {name}")?,
        }
    }
    Ok(())
}

fn rule(out: &mut String, rule: &Value) -> anyhow::Result<()> {
    let words = |member: &str| -> anyhow::Result<String> {
        let items = rule[member].as_array().into_iter().flatten();
        let items: Vec<&str> = items
            .map(|item| match item.as_str() {
                Some("") => Ok("core"),
                Some(word) if !word.contains([',', ' ']) => Ok(word),
                _ => bail!("{member}: {item} is no word"),
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(items.join(","))
    };
    let (verbs, urls) = (words("verbs")?, words("nonResourceURLs")?);
    if !urls.is_empty() {
        writeln!(out, "  urls {verbs} {urls}")?;
        return Ok(());
    }
    let (groups, resources) = (words("apiGroups")?, words("resources")?);
    let names = words("resourceNames")?;
    let line = format!("  rule {verbs} {groups} {resources} {names}");
    writeln!(out, "{}", line.trim_end())?;
    Ok(())
}

fn text(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("a text is missing")
}

fn pairs(value: &Value) -> anyhow::Result<Vec<(&str, &str)>> {
    let map = value.as_object().into_iter().flatten();
    map.map(|(key, value)| Ok((key.as_str(), text(value)?)))
        .collect()
}
