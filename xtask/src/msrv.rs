//! `cargo xtask msrv`: whether the oldest supported Rust is what we say it is.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::metadata::{Metadata, Package};

/// Major, minor, patch.
type Version = (u64, u64, u64);

/// Checks that all members name one `rust-version`, the README too, and that no
/// dependency asks for a newer one; then that the workspace builds with it, by
/// this toolchain if it is that version, else by an installed one.
///
/// Nothing is downloaded: where that version is not installed, it is said.
pub(crate) fn run() -> Result<()> {
    let target = host()?;
    let metadata = Metadata::read(&[target])?;
    let packages = metadata.used();
    let oldest = oldest(&packages)?;
    let readme = fs::read_to_string("README.md").context("run it in the workspace's folder")?;
    let said = format!("({oldest} or newer)");
    ensure!(readme.contains(&said), "README.md does not say {said:?}");
    match toolchain(&oldest)? {
        Toolchain::This => {
            println!("this toolchain is Rust {oldest}: clippy and the tests are the check")
        }
        Toolchain::Installed(name) => {
            println!("checking with {name}");
            let mut check = Command::new("rustup");
            check.args([
                "run",
                &name,
                "cargo",
                "check",
                "--workspace",
                "--all-targets",
                "--locked",
            ]);
            // Set by the cargo that runs this, for its own toolchain.
            check.env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
            ensure!(
                check.status()?.success(),
                "it does not build with Rust {oldest}"
            );
        }
        Toolchain::Missing => println!("not built: Rust {oldest} is not installed"),
    }
    Ok(())
}

/// The version that all members name.
fn oldest(packages: &[&Package]) -> Result<String> {
    let members = || packages.iter().filter(|package| package.is_member);
    let named = members()
        .next()
        .and_then(|member| member.rust_version.clone());
    let named = named.context("the first member has no rust-version")?;
    for member in members() {
        let name = &member.name;
        let same = member.rust_version.as_ref() == Some(&named);
        ensure!(same, "the rust-version of {name} is not {named}");
    }
    for package in packages {
        let Some(wanted) = &package.rust_version else {
            continue;
        };
        if parse(wanted)? > parse(&named)? {
            let (name, version) = (&package.name, &package.version);
            bail!("{name} {version} needs Rust {wanted}: raise rust-version, or keep an older one");
        }
    }
    Ok(named)
}

enum Toolchain {
    This,
    Installed(String),
    Missing,
}

/// Where to find a toolchain of a version: a patch of it will do.
fn toolchain(oldest: &str) -> Result<Toolchain> {
    let (major, minor, _) = parse(oldest)?;
    let is_it = |version: Version| (version.0, version.1) == (major, minor);
    let rustc = output("rustc", &["--version"]).context("cannot run rustc")?;
    let version = rustc.split_whitespace().nth(1).unwrap_or_default();
    if is_it(parse(version)?) {
        return Ok(Toolchain::This);
    }
    let installed = output("rustup", &["toolchain", "list"]).unwrap_or_default();
    for line in installed.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let version = name.split('-').next().unwrap_or_default();
        if let Ok(version) = parse(version)
            && is_it(version)
        {
            return Ok(Toolchain::Installed(name.to_owned()));
        }
    }
    Ok(Toolchain::Missing)
}

fn host() -> Result<String> {
    let rustc = output("rustc", &["-vV"])?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc names no host")
}

fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output()?;
    ensure!(output.status.success(), "{program} failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// `1.95`, `1.95.0`, or with what stands behind a hyphen in a version of one's own.
fn parse(text: &str) -> Result<Version> {
    let numbers = text.split('-').next().unwrap_or_default();
    let mut numbers = numbers.split('.').map(str::parse);
    let mut next = || numbers.next().unwrap_or(Ok(0));
    let version = (|| Ok((next()?, next()?, next()?)))();
    version.map_err(|error: std::num::ParseIntError| anyhow::anyhow!("{text:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, rust_version: &str, is_member: bool) -> Package {
        Package {
            name: name.to_owned(),
            rust_version: Some(rust_version.to_owned()),
            is_member,
            ..Package::default()
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(parse("1.100").unwrap() > parse("1.95.1").unwrap());
        assert_eq!(parse("1.95").unwrap(), parse("1.95.0-nightly").unwrap());
        assert!(parse("stable-x86_64").is_err());
    }

    #[test]
    fn a_dependency_must_not_need_a_newer_one() {
        let all = [
            package("ours", "1.95", true),
            package("theirs", "1.90", false),
        ];
        assert_eq!(oldest(&all.iter().collect::<Vec<_>>()).unwrap(), "1.95");
        let all = [
            package("ours", "1.95", true),
            package("theirs", "1.96.0", false),
        ];
        let error = oldest(&all.iter().collect::<Vec<_>>()).unwrap_err();
        assert!(error.to_string().contains("needs Rust 1.96.0"), "{error}");
        let all = [
            package("ours", "1.95", true),
            package("others", "1.94", true),
        ];
        assert!(oldest(&all.iter().collect::<Vec<_>>()).is_err());
    }
}
