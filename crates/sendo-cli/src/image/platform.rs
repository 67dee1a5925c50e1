//! The platforms of images, in the words of the OCI image specification: `linux/amd64`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Error, Result, bail};

use super::elf::Executable;

/// An operating system with a processor. Images are for Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Platform {
    pub(super) architecture: String,
    pub(super) variant: Option<String>,
}

/// Architectures by the specification's name, Rust's, and the number in an ELF header.
const ARCHITECTURES: &[(&str, &str, u16)] = &[
    ("386", "x86", 3),
    ("ppc64le", "powerpc64", 21),
    ("s390x", "s390x", 22),
    ("arm", "arm", 40),
    ("amd64", "x86_64", 62),
    ("arm64", "aarch64", 183),
    ("riscv64", "riscv64", 243),
];

impl Platform {
    /// The one that this command runs on.
    pub(super) fn of_this_machine() -> Result<Self> {
        if std::env::consts::OS != "linux" {
            bail!(
                "an image has a program for Linux, and cargo builds one for {} here: build it with `cargo build --release --target x86_64-unknown-linux-musl` or the like, and name it with --binary linux/amd64=PATH",
                std::env::consts::OS
            );
        }
        let this = std::env::consts::ARCH;
        let known = ARCHITECTURES.iter().find(|(_, rust, _)| *rust == this);
        match known {
            Some((name, _, _)) => Ok(Platform {
                architecture: (*name).to_owned(),
                variant: None,
            }),
            None => bail!(
                "images have no name for the processor `{this}`: name the platform with --binary PLATFORM=PATH"
            ),
        }
    }

    /// Fails if the program is for another one.
    pub(super) fn check(&self, executable: &Executable, path: &Path) -> Result<()> {
        let of_program = ARCHITECTURES
            .iter()
            .find(|(_, _, machine)| *machine == executable.machine);
        match of_program {
            Some((name, _, _)) if *name == self.architecture => Ok(()),
            Some((name, _, _)) => bail!(
                "{} is a program for linux/{name}, not for {self}: build it for {self}, or say --binary linux/{name}=…",
                path.display()
            ),
            None => bail!(
                "{} is a program for a processor that images have no name for (ELF machine {})",
                path.display(),
                executable.machine
            ),
        }
    }
}

impl FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = || {
            ARCHITECTURES
                .iter()
                .map(|(name, _, _)| format!("linux/{name}"))
        };
        let parts: Vec<&str> = text.split('/').collect();
        let (system, architecture, variant) = match parts[..] {
            [system, architecture] => (system, architecture, None),
            [system, architecture, variant] => (system, architecture, Some(variant.to_owned())),
            _ => bail!("`{text}` is no platform, such as `linux/arm64`"),
        };
        if system != "linux"
            || !ARCHITECTURES
                .iter()
                .any(|(name, _, _)| *name == architecture)
        {
            bail!(
                "images can be made for {}, and not for `{text}`",
                known().collect::<Vec<_>>().join(", ")
            );
        }
        Ok(Platform {
            architecture: architecture.to_owned(),
            variant,
        })
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}
