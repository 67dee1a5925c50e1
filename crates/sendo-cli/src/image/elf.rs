//! What an ELF file says about itself: its processor, its loader, the libraries that it needs.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader as _};
use object::{Endianness, FileKind};

/// A program or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Executable {
    /// The number of its processor (`e_machine`).
    pub(super) machine: u16,
    /// The loader that starts it (`PT_INTERP`); none in a static program, or in a library.
    pub(super) loader: Option<String>,
    /// The libraries that it names (`DT_NEEDED`).
    pub(super) needed: Vec<String>,
    /// Where it says they are (`DT_RPATH` and `DT_RUNPATH`).
    pub(super) search: Vec<String>,
}

/// Reads a file; fails if it is no program for Linux.
pub(super) fn read(data: &[u8], path: &Path) -> Result<Executable> {
    let read = match FileKind::parse(data) {
        Ok(FileKind::Elf32) => read_as::<FileHeader32<Endianness>>(data),
        Ok(FileKind::Elf64) => read_as::<FileHeader64<Endianness>>(data),
        other => bail!(
            "{} is no program for Linux{}: an image needs one, built for a target such as x86_64-unknown-linux-musl",
            path.display(),
            match system_of(data, other.is_ok()) {
                Some(system) => format!(" but one for {system}"),
                None => String::new(),
            }
        ),
    };
    read.with_context(|| format!("{} is a damaged ELF file", path.display()))
}

/// The system whose programs begin as this one does.
fn system_of(data: &[u8], is_object: bool) -> Option<&'static str> {
    match data.get(..4)? {
        [0xcf | 0xce, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe] => Some("macOS"),
        [b'M', b'Z', ..] => Some("Windows"),
        _ if is_object => Some("another system"),
        _ => None,
    }
}

fn read_as<H: FileHeader<Endian = Endianness>>(data: &[u8]) -> Result<Executable> {
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let mut loader = None;
    for segment in header.program_headers(endian, data)? {
        if let Some(name) = segment.interpreter(endian, data)? {
            loader = Some(String::from_utf8_lossy(name).into_owned());
        }
    }
    let (mut needed, mut search) = (Vec::new(), Vec::new());
    let table = header.sections(endian, data)?.dynamic_table(endian, data)?;
    for entry in &table {
        let list = match entry.tag {
            elf::DT_NEEDED => &mut needed,
            elf::DT_RPATH | elf::DT_RUNPATH => &mut search,
            elf::DT_NULL => break,
            _ => continue,
        };
        list.push(String::from_utf8_lossy(table.string(entry)?).into_owned());
    }
    let search = search.iter().flat_map(|paths| paths.split(':'));
    Ok(Executable {
        machine: header.e_machine(endian).0,
        loader,
        needed,
        search: search.map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_program_is_read() {
        let path = std::env::current_exe().unwrap();
        let program = read(&std::fs::read(&path).unwrap(), &path).unwrap();
        if program.loader.is_some() {
            assert!(
                program.needed.iter().any(|name| name.starts_with("libc.")),
                "{program:?}"
            );
        }
    }

    #[test]
    fn programs_of_other_systems_are_refused_by_name() {
        for (data, part) in [
            (
                &b"\xcf\xfa\xed\xfe............................"[..],
                "for macOS",
            ),
            (b"MZ..............................", "for Windows"),
            (
                b"#!/bin/sh\nexec true\n............",
                "no program for Linux:",
            ),
            (b"", "no program for Linux:"),
        ] {
            let error = read(data, Path::new("bar")).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(error.contains("x86_64-unknown-linux-musl"), "{error}");
        }
        let error = read(
            b"\x7fELF\x02\x01\x01.........................",
            Path::new("bar"),
        );
        let error = format!("{:#}", error.unwrap_err());
        assert!(error.contains("damaged ELF file"), "{error}");
    }
}
