//! An image on disk: a folder in the OCI layout, or a tar of it that `docker load` reads.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::describe::Index;

const LAYOUT: &str = "oci-layout";

/// Fails if something else than an image would be lost.
pub(super) fn check_replaceable(path: &Path) -> Result<()> {
    let is_tar = path.extension().is_some_and(|end| end == "tar");
    if is_tar && path.is_dir() {
        bail!("{} is a folder: choose another --output", path.display());
    }
    if is_tar || !path.exists() {
        return Ok(());
    }
    if !path.is_dir() {
        bail!(
            "{} is a file: choose a name that ends with `.tar`, or a folder, with --output",
            path.display()
        );
    }
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if !is_empty && !path.join(LAYOUT).is_file() {
        bail!(
            "{} is a folder with other things in it: choose another --output",
            path.display()
        );
    }
    Ok(())
}

/// The files of the layout, in their order.
fn files(index: &Index) -> Vec<(String, Vec<u8>)> {
    let blobs = index.blobs().into_iter();
    let mut files: Vec<_> = blobs
        .map(|(digest, data)| (format!("blobs/{}", digest.replace(':', "/")), data))
        .collect();
    files.push((
        "index.json".to_owned(),
        index.layout_index().to_string().into_bytes(),
    ));
    let version = json!({"imageLayoutVersion": "1.0.0"});
    files.push((LAYOUT.to_owned(), version.to_string().into_bytes()));
    files
}

/// Writes a folder, in place of an image that was there.
pub(super) fn write_folder(path: &Path, index: &Index) -> Result<()> {
    replace(path, |draft| {
        for (name, data) in files(index) {
            let file = draft.join(name);
            fs::create_dir_all(file.parent().unwrap_or(draft))?;
            fs::write(file, data)?;
        }
        Ok(())
    })
}

/// Writes a tar, in place of what was there.
pub(super) fn write_tar(path: &Path, index: &Index) -> Result<()> {
    replace(path, |draft| {
        let mut tar = Builder::new(BufWriter::new(File::create(draft)?));
        for folder in ["blobs/", "blobs/sha256/"] {
            let mut header = header(EntryType::Directory, 0o755, 0);
            tar.append_data(&mut header, folder, io::empty())?;
        }
        let mut files = files(index);
        let docker = index.docker_manifest().to_string().into_bytes();
        files.push(("manifest.json".to_owned(), docker));
        for (name, data) in files {
            let mut header = header(EntryType::Regular, 0o644, data.len());
            tar.append_data(&mut header, name, &data[..])?;
        }
        tar.into_inner()?.flush()
    })
}

fn header(kind: EntryType, mode: u32, size: usize) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_size(size as u64);
    header
}

/// Writes to a name beside the path, and renames: there is the old image or the new one.
fn replace(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    let fix = || format!("cannot write {}: choose another --output", path.display());
    let path = std::path::absolute(path).with_context(fix)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(fix)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let draft = path.with_file_name(name);
    let written = write(&draft).and_then(|()| {
        remove(&path)?;
        fs::rename(&draft, &path)
    });
    if written.is_err() {
        // The first error is the one to report.
        let _ = remove(&draft);
    }
    written.with_context(fix)
}

fn remove(path: &PathBuf) -> io::Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
