//! One package from Debian's unstable suite, unpacked into a folder.
//!
//! Nothing of the machine changes and no right is needed: apt works in folders
//! of its own that are thrown away afterwards. The mirror and the keys are those
//! the machine trusts already, so what is unpacked was signed by Debian.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The suite that carries the newest packages, on the same mirror as all others.
const SUITE: &str = "sid";

/// Where the machine gets its Debian packages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    uri: String,
    /// The value of `Signed-By`: paths, or a key with its continuation lines.
    signed_by: Option<String>,
}

/// Downloads the newest `package` whose version begins with `version` and
/// unpacks it into `target`, which must not exist.
///
/// # Errors
///
/// When apt is missing, the machine has no Debian mirror, or the mirror has no
/// such version.
pub(super) fn unpack(package: &str, version: &str, target: &Path) -> anyhow::Result<()> {
    let parent = target.parent().context("a folder to unpack into")?;
    fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    let scratch = tempfile::tempdir_in(parent)?;
    let apt = Apt::new(scratch.path(), &Mirror::of_this_machine()?)?;
    apt.run("apt-get", ["--quiet", "update"])?;
    let offered = apt.run("apt-cache", ["madison", package])?;
    let exact = newest(&offered, version)
        .with_context(|| format!("no {package} {version} in suite {SUITE}; it has:\n{offered}"))?;
    apt.run(
        "apt-get",
        ["--quiet", "download", &format!("{package}={exact}")],
    )?;
    let archive = apt.downloaded()?;
    let unpacked = scratch.path().join("unpacked");
    let words: [&OsStr; 3] = ["-x".as_ref(), archive.as_ref(), unpacked.as_ref()];
    run(Command::new("dpkg-deb").args(words))?;
    // Whoever sees the folder sees all of it.
    fs::rename(&unpacked, target).with_context(|| format!("create {}", target.display()))
}

/// The first version in a table of `apt-cache madison` that begins so, the
/// newest since the table is sorted.
fn newest<'a>(offered: &'a str, version: &str) -> Option<&'a str> {
    let versions = offered.lines().filter_map(|line| line.split('|').nth(1));
    versions.map(str::trim).find(|exact| {
        let rest = exact.strip_prefix(version);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    })
}

/// apt with all its folders below one.
struct Apt<'a> {
    root: &'a Path,
}

impl<'a> Apt<'a> {
    fn new(root: &'a Path, mirror: &Mirror) -> anyhow::Result<Self> {
        for folder in ["state/lists/partial", "cache/archives/partial", "download"] {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::write(root.join("status"), "")?;
        fs::write(root.join("mirror.sources"), mirror.source(SUITE))?;
        Ok(Self { root })
    }

    fn run<'w>(
        &self,
        program: &str,
        words: impl IntoIterator<Item = &'w str>,
    ) -> anyhow::Result<String> {
        let root = self.root.display();
        let options = [
            format!("Dir::State={root}/state"),
            format!("Dir::State::status={root}/status"),
            format!("Dir::Cache={root}/cache"),
            format!("Dir::Etc::sourcelist={root}/mirror.sources"),
            "Dir::Etc::sourceparts=-".into(),
            "Acquire::Languages=none".into(),
            // The user apt would change to cannot enter the cache folder of root.
            "APT::Sandbox::User=root".into(),
        ];
        let mut command = Command::new(program);
        for option in options {
            command.arg("-o").arg(option);
        }
        run(command.args(words).current_dir(self.root.join("download")))
    }

    fn downloaded(&self) -> anyhow::Result<PathBuf> {
        let mut files = self.root.join("download").read_dir()?;
        let file = files.next().context("apt-get download wrote no file")??;
        Ok(file.path())
    }
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .env("LC_ALL", "C")
        .output()
        .with_context(|| format!("run {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} failed, {}:\n{}", output.status, said.trim_end());
    }
    Ok(String::from_utf8(output.stdout)?)
}

impl Mirror {
    /// The first source of this machine that carries its own release.
    fn of_this_machine() -> anyhow::Result<Self> {
        let release = release(&fs::read_to_string("/etc/os-release").unwrap_or_default())
            .context("this machine is not Debian")?;
        let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
        if let Ok(folder) = Path::new("/etc/apt/sources.list.d").read_dir() {
            for file in folder {
                files.push(file?.path());
            }
        }
        files.sort();
        files
            .iter()
            .find_map(|path| {
                let text = fs::read_to_string(path).ok()?;
                match path.extension()?.to_str()? {
                    "sources" => Self::in_stanzas(&text, &release),
                    "list" => Self::in_lines(&text, &release),
                    _ => None,
                }
            })
            .with_context(|| format!("the apt sources of this machine do not name {release} main"))
    }

    /// Reads the format of `.sources` files: fields in stanzas.
    fn in_stanzas(text: &str, release: &str) -> Option<Self> {
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        lines
            .split(|line| line.trim().is_empty())
            .find_map(|stanza| {
                let has = |field, word| {
                    value(stanza, field)
                        .is_some_and(|value| value.split_whitespace().any(|w| w == word))
                };
                let disabled = has("Enabled", "no") || has("Enabled", "false");
                if disabled
                    || !has("Types", "deb")
                    || !has("Suites", release)
                    || !has("Components", "main")
                {
                    return None;
                }
                let uris = value(stanza, "URIs")?;
                Some(Self {
                    uri: uris.split_whitespace().next()?.to_owned(),
                    signed_by: value(stanza, "Signed-By"),
                })
            })
    }

    /// Reads the format of `sources.list`: `deb [options] uri suite components`.
    fn in_lines(text: &str, release: &str) -> Option<Self> {
        text.lines().find_map(|line| {
            let rest = line.split('#').next()?.trim().strip_prefix("deb ")?.trim();
            let (options, rest) = match rest.strip_prefix('[') {
                Some(bracket) => bracket.split_once(']')?,
                None => ("", rest),
            };
            let mut words = rest.split_whitespace();
            let uri = words.next()?;
            if words.next()? != release || !words.any(|component| component == "main") {
                return None;
            }
            let mut options = options.split_whitespace();
            Some(Self {
                uri: uri.to_owned(),
                signed_by: options.find_map(|o| o.strip_prefix("signed-by=").map(str::to_owned)),
            })
        })
    }

    /// A `.sources` file for another suite of the mirror.
    fn source(&self, suite: &str) -> String {
        let uri = &self.uri;
        let mut stanza = format!(
            "Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nTargets: Packages\n"
        );
        if let Some(keys) = &self.signed_by {
            stanza.push_str(&format!("Signed-By: {keys}\n"));
        }
        stanza
    }
}

/// A field of a stanza, with its continuation lines.
fn value(stanza: &[&str], field: &str) -> Option<String> {
    let start = stanza.iter().position(|line| {
        line.split_once(':')
            .is_some_and(|(name, _)| name.eq_ignore_ascii_case(field))
    })?;
    let (_, first) = stanza[start].split_once(':')?;
    let more = stanza[start + 1..].iter();
    let more = more.take_while(|line| line.starts_with([' ', '\t']));
    let mut value = first.trim().to_owned();
    for line in more {
        value.push('\n');
        value.push_str(line);
    }
    Some(value)
}

/// The code name in an `os-release` file of Debian.
fn release(os_release: &str) -> Option<String> {
    let field = |name: &str| {
        let mut lines = os_release.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim_matches('"').to_owned())
    };
    if field("ID")? != "debian" {
        return None;
    }
    field("VERSION_CODENAME").or_else(|| Some(SUITE.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(uri: &str, signed_by: Option<&str>) -> Option<Mirror> {
        Some(Mirror {
            uri: uri.into(),
            signed_by: signed_by.map(str::to_owned),
        })
    }

    #[test]
    fn the_stanza_of_the_release_names_mirror_and_keys() {
        let text = "\
Types: deb
URIs: http://tools.example/apt
Suites: tools-bookworm
Components: main

Types: deb
# a comment inside
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /keys/debian.gpg
";
        assert_eq!(
            Mirror::in_stanzas(text, "bookworm"),
            mirror("http://mirror.example/debian", Some("/keys/debian.gpg"))
        );
        assert_eq!(Mirror::in_stanzas(text, "trixie"), None);
    }

    #[test]
    fn a_key_inside_a_stanza_is_carried_over_whole() {
        let text = "\
Types: deb
URIs: http://mirror.example/debian
Suites: trixie
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----
Components: main
";
        let found = Mirror::in_stanzas(text, "trixie").expect("the stanza");
        assert!(found.source("sid").ends_with(
            "Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF\n -----END PGP PUBLIC KEY BLOCK-----\n"
        ));
    }

    #[test]
    fn a_stanza_that_is_switched_off_is_not_used() {
        let text = "\
Enabled: no
Types: deb
URIs: http://mirror.example/debian
Suites: trixie
Components: main
";
        assert_eq!(Mirror::in_stanzas(text, "trixie"), None);
    }

    #[test]
    fn the_line_of_the_release_names_mirror_and_keys() {
        let text = "\
# deb http://old.example/debian bookworm main
deb-src http://mirror.example/debian bookworm main
deb http://security.example/debian bookworm-security main
deb [arch=amd64 signed-by=/keys/debian.gpg] http://mirror.example/debian bookworm contrib main
";
        assert_eq!(
            Mirror::in_lines(text, "bookworm"),
            mirror("http://mirror.example/debian", Some("/keys/debian.gpg"))
        );
        assert_eq!(
            Mirror::in_lines("deb http://mirror.example/debian bookworm main", "bookworm"),
            mirror("http://mirror.example/debian", None)
        );
    }

    #[test]
    fn a_machine_that_is_not_debian_has_no_release() {
        let debian = "NAME=\"Debian GNU/Linux\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(release(debian).as_deref(), Some("bookworm"));
        assert_eq!(release("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
    }

    #[test]
    fn a_version_is_matched_by_whole_numbers() {
        let table = "\
   kubectl | 1.37.0-1 | mirror sid/main amd64 Packages
   kubectl | 1.36.4+ds-1 | mirror sid/main amd64 Packages
   kubectl | 1.36.3+ds-1 | mirror sid/main amd64 Packages
";
        assert_eq!(newest(table, "1.36"), Some("1.36.4+ds-1"));
        assert_eq!(newest(table, "1.3"), None);
    }
}
