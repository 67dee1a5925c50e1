//! `cargo xtask deny`: whether the dependencies are what `deny.toml` allows.
//!
//! The file is that of cargo-deny, which needs minutes to install and a database
//! of advisories to compare with. What needs neither is checked here, from
//! `cargo metadata`: licences, banned crates, crates in two versions, version
//! requirements that allow everything, and where crates come from. Fields of
//! `deny.toml` that are not read here mean what they mean to cargo-deny.

mod licence;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::metadata::{Metadata, Package};

/// The part of `deny.toml` that is read.
#[derive(Deserialize)]
struct Policy {
    graph: Graph,
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Named>,
    skip: Vec<Named>,
}

/// A crate, or some versions of it: `syn` or `syn@2`.
#[derive(Deserialize)]
struct Named {
    #[serde(rename = "crate")]
    spec: String,
    reason: String,
}

impl Named {
    fn names(&self, package: &Package) -> bool {
        let (name, version) = self.spec.split_once('@').unwrap_or((&self.spec, ""));
        let rest = package.version.strip_prefix(version);
        name == package.name
            && rest
                .is_some_and(|rest| version.is_empty() || rest.is_empty() || rest.starts_with('.'))
    }
}

/// Prints what is not allowed; fails if there is anything.
pub(crate) fn run() -> Result<()> {
    let text = fs::read_to_string("deny.toml").context("run it in the workspace's folder")?;
    let policy: Policy = basic_toml::from_str(&text).context("deny.toml")?;
    let metadata = Metadata::read(&policy.graph.targets)?;
    let packages = metadata.used();
    let problems = problems(&policy, &packages);
    for problem in &problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => {
            let count = packages.len();
            println!(
                "{count} packages are as deny.toml wants them; advisories: `cargo deny check advisories`"
            );
            Ok(())
        }
        count => bail!(
            "{count} problems with dependencies: mend them, or change deny.toml with a reason"
        ),
    }
}

fn problems(policy: &Policy, packages: &[&Package]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for package in packages {
        let Package { name, version, .. } = package;
        match &package.license {
            None => problems.push(format!("{name} {version} names no licence")),
            Some(text) => match licence::allowed(text, &policy.licenses.allow) {
                Some(these) => used.extend(these),
                None => problems.push(format!("{name} {version}: licence {text} is not allowed")),
            },
        }
        for banned in policy
            .bans
            .deny
            .iter()
            .filter(|banned| banned.names(package))
        {
            problems.push(format!("{name} {version} is banned: {}", banned.reason));
        }
        // A package without a source is a member of the workspace, or beside it.
        let is_known = match &package.source {
            None => package.is_member,
            Some(source) => source.starts_with("registry+") && source.ends_with("/crates.io-index"),
        };
        if !is_known {
            problems.push(format!("{name} {version} comes from an unknown source"));
        }
        for dependency in package.unbounded_dependencies() {
            problems.push(format!("{name} takes any version of {dependency}"));
        }
    }
    for unused in policy.licenses.allow.difference(&used) {
        problems.push(format!(
            "deny.toml allows the licence {unused}, which is not needed"
        ));
    }
    problems.extend(duplicates(&policy.bans.skip, packages));
    problems
}

/// Crates in more versions than one, those that are skipped left out; and what
/// is skipped for nothing.
fn duplicates(skip: &[Named], packages: &[&Package]) -> Vec<String> {
    let mut versions = BTreeMap::<&str, BTreeSet<&str>>::new();
    for package in packages {
        let versions = versions.entry(&package.name).or_default();
        versions.insert(&package.version);
    }
    let is_skipped = |package: &&&Package| skip.iter().any(|skip| skip.names(package));
    for package in packages.iter().filter(is_skipped) {
        let versions = versions.entry(&package.name).or_default();
        // The only version there is needs no leave.
        if versions.len() > 1 {
            versions.remove(&*package.version);
        }
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    let several =
        several.map(|(name, versions)| format!("{name} is there in versions {versions:?}"));
    let is_idle = |skip: &&Named| {
        let mut named = packages.iter().filter(|package| skip.names(package));
        let others = |named: &Package| packages.iter().filter(|p| p.name == named.name).count() > 1;
        !named.any(|package| others(package))
    };
    let idle = skip.iter().filter(is_idle);
    let idle = idle.map(|skip| format!("deny.toml skips {}, which is not there twice", skip.spec));
    several.chain(idle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, license: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some(license.to_owned()),
            source: Some("registry+https://example.dev/crates.io-index".to_owned()),
            ..Package::default()
        }
    }

    fn policy() -> Policy {
        basic_toml::from_str(
            r#"
            [graph]
            targets = []
            [licenses]
            allow = ["MIT"]
            [bans]
            deny = [{ crate = "openssl-sys", reason = "TLS is rustls" }]
            skip = [{ crate = "syn@2", reason = "derives" }]
            "#,
        )
        .unwrap()
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let mut elsewhere = package("elsewhere", "1.0.0", "MIT");
        elsewhere.source = Some("git+https://example.dev/elsewhere".to_owned());
        let all = [
            package("syn", "2.0.1", "MIT"),
            package("syn", "3.0.0", "MIT"),
            package("rand", "0.9.0", "MIT"),
            package("rand", "0.10.0", "MIT"),
            package("openssl-sys", "0.9.0", "MIT"),
            package("closed", "1.0.0", "Proprietary"),
            elsewhere,
        ];
        let all: Vec<_> = all.iter().collect();
        let expected = [
            "openssl-sys 0.9.0 is banned: TLS is rustls",
            "closed 1.0.0: licence Proprietary is not allowed",
            "elsewhere 1.0.0 comes from an unknown source",
            r#"rand is there in versions {"0.10.0", "0.9.0"}"#,
        ];
        assert_eq!(problems(&policy(), &all), expected);
    }

    #[test]
    fn leave_that_nobody_needs_is_a_problem() {
        let all = [package("syn", "2.0.1", "Apache-2.0 OR MIT")];
        let all: Vec<_> = all.iter().collect();
        let expected = ["deny.toml skips syn@2, which is not there twice"];
        assert_eq!(problems(&policy(), &all), expected);
        let nothing = problems(&policy(), &[]);
        assert!(nothing[0].contains("allows the licence MIT"), "{nothing:?}");
    }

    #[test]
    fn a_version_is_named_by_its_leading_numbers() {
        let named = |spec: &str| Named {
            spec: spec.to_owned(),
            reason: String::new(),
        };
        let package = package("a", "0.2.17", "MIT");
        for spec in ["a", "a@0", "a@0.2", "a@0.2.17"] {
            assert!(named(spec).names(&package), "{spec}");
        }
        for spec in ["b", "a@0.21", "a@0.2.1", "a@2"] {
            assert!(!named(spec).names(&package), "{spec}");
        }
    }
}
