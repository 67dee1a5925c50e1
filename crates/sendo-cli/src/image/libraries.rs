//! The shared libraries that a program needs, found on this machine as its loader would.
//!
//! The image has no cache of the loader's, so that all of them are put into the folder with the C
//! library, which the loader looks into by itself.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::elf::{self, Executable};

/// A library and where it is in the image.
#[derive(Debug)]
pub(super) struct Library {
    /// The path in the image.
    pub(super) path: String,
    pub(super) data: Vec<u8>,
}

/// Libraries that no program names, and that the C library loads to look up hosts, where it is
/// older than glibc 2.34.
const LOADED_LATE: &[&str] = &["libnss_files.so.2", "libnss_dns.so.2"];

/// The loader and all libraries of a program, and theirs.
pub(super) fn find(program: &Path, executable: &Executable) -> Result<Vec<Library>> {
    let Some(loader) = &executable.loader else {
        return Ok(Vec::new());
    };
    let mut found = BTreeMap::new();
    let Some(data) = read_for(executable.machine, Path::new(loader)) else {
        bail!(
            "{} is started by {loader}, which this machine has not for that platform: build it without shared libraries, for a target such as x86_64-unknown-linux-musl or with RUSTFLAGS=-Ctarget-feature=+crt-static",
            program.display()
        );
    };
    found.insert(loader.clone(), data);
    let folders = default_folders();
    let mut names = BTreeMap::new();
    let mut left = VecDeque::from([(program.to_owned(), executable.clone())]);
    while let Some((user, executable)) = left.pop_front() {
        for name in &executable.needed {
            if names.contains_key(name) || Path::new(loader).ends_with(name) {
                continue;
            }
            let own = executable.search.iter().map(|folder| expand(folder, &user));
            let Some((path, data)) = own
                .chain(folders.iter().cloned())
                .map(|folder| folder.join(name))
                .find_map(|path| Some((path.clone(), read_for(executable.machine, &path)?)))
            else {
                bail!(
                    "{} needs the library {name}, which is not on this machine: install it, or build the program without shared libraries (RUSTFLAGS=-Ctarget-feature=+crt-static)",
                    user.display()
                );
            };
            let library = elf::read(&data, &path)?;
            names.insert(name.clone(), (path.clone(), data));
            left.push_back((path, library));
        }
    }
    let c_library = names.iter().find(|(name, _)| name.starts_with("libc."));
    let folder = c_library.and_then(|(_, (path, _))| path.parent());
    let folder = folder.unwrap_or(Path::new("/lib")).to_owned();
    for name in LOADED_LATE {
        let path = folder.join(name);
        if let Some(data) = read_for(executable.machine, &path) {
            names.insert((*name).to_owned(), (path, data));
        }
    }
    for (name, (_, data)) in names {
        found.insert(folder.join(name).display().to_string(), data);
    }
    let libraries = found.into_iter();
    Ok(libraries
        .map(|(path, data)| Library { path, data })
        .collect())
}

/// The file if it is an ELF file for this processor.
fn read_for(machine: u16, path: &Path) -> Option<Vec<u8>> {
    let data = std::fs::read(path).ok()?;
    let is_same = elf::read(&data, path).is_ok_and(|library| library.machine == machine);
    is_same.then_some(data)
}

/// A folder that a program names relative to its own.
fn expand(folder: &str, user: &Path) -> PathBuf {
    let origin = user
        .parent()
        .unwrap_or(Path::new("/"))
        .display()
        .to_string();
    let folder = folder
        .replace("${ORIGIN}", &origin)
        .replace("$ORIGIN", &origin);
    PathBuf::from(folder)
}

/// The folders that loaders look into: those of the system, and those that it is configured with.
fn default_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for root in ["/lib", "/usr/lib"] {
        let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
        let of_platform = entries.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.contains("-linux-")
        });
        let mut of_platform: Vec<PathBuf> = of_platform.collect();
        of_platform.sort();
        folders.append(&mut of_platform);
    }
    folders.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    let included = std::fs::read_dir("/etc/ld.so.conf.d")
        .into_iter()
        .flatten()
        .flatten();
    files.extend(included.map(|entry| entry.path()));
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let paths = text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with('/'));
        folders.extend(paths.map(PathBuf::from));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_the_running_program_are_beside_its_c_library() {
        let path = std::env::current_exe().unwrap();
        let program = elf::read(&std::fs::read(&path).unwrap(), &path).unwrap();
        let found = find(&path, &program).unwrap();
        let Some(loader) = &program.loader else {
            assert!(found.is_empty());
            return;
        };
        assert!(found.iter().any(|library| library.path == *loader));
        let c_library = found.iter().find(|library| library.path.contains("/libc."));
        let folder = Path::new(&c_library.unwrap().path).parent();
        for name in &program.needed {
            let is_there = |library: &Library| {
                let path = Path::new(&library.path);
                path.ends_with(name) && (path.parent() == folder || library.path == *loader)
            };
            assert!(found.iter().any(is_there), "{name}");
        }
    }

    #[test]
    fn a_library_that_is_not_there_is_named_with_the_fix() {
        let path = std::env::current_exe().unwrap();
        let mut program = elf::read(&std::fs::read(&path).unwrap(), &path).unwrap();
        if program.loader.is_some() {
            program.needed.push("libnowhere.so.1".to_owned());
            let error = find(&path, &program).unwrap_err().to_string();
            assert!(
                error.contains("needs the library libnowhere.so.1"),
                "{error}"
            );
            assert!(error.contains("+crt-static"), "{error}");
        }
    }
}
