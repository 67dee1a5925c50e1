//! A layer: files as a tar, compressed, without anything that differs from one time to the next.

use std::io::{self, Write};

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::files::{Content, ImageFile};
use super::progress::Progress;

/// A compressed tar with its digests.
#[derive(Debug)]
pub(super) struct Layer {
    /// What is stored, and pushed.
    pub(super) blob: Vec<u8>,
    /// The digest of the blob.
    pub(super) digest: String,
    /// The digest of the tar in it.
    pub(super) diff_id: String,
}

/// Packs files, in their order.
pub(super) fn pack(files: &[ImageFile], progress: &Progress) -> Result<Layer> {
    let encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut tar = Builder::new(Hashed::new(encoder));
    for file in files {
        let mut header = Header::new_ustar();
        header.set_mode(file.mode);
        header.set_uid(file.owner.into());
        header.set_gid(file.owner.into());
        header.set_mtime(0);
        let (kind, path, data) = match &file.content {
            Content::Folder => (EntryType::Directory, format!("{}/", file.path), &[][..]),
            Content::File(data) => (EntryType::Regular, file.path.clone(), &data[..]),
        };
        header.set_entry_type(kind);
        header.set_size(data.len() as u64);
        tar.append_data(&mut header, path, progress.reading(data))?;
    }
    let hashed = tar.into_inner()?;
    let diff_id = digest_text(hashed.hash);
    let blob = hashed.inner.finish()?;
    Ok(Layer {
        digest: digest(&blob),
        diff_id,
        blob,
    })
}

/// The digest of bytes, as the specification writes it.
pub(super) fn digest(data: &[u8]) -> String {
    digest_text(Sha256::new_with_prefix(data))
}

fn digest_text(hash: Sha256) -> String {
    let hash = hash.finalize();
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Hashes what is written through it.
struct Hashed<W> {
    inner: W,
    hash: Sha256,
}

impl<W> Hashed<W> {
    fn new(inner: W) -> Self {
        Hashed {
            inner,
            hash: Sha256::new(),
        }
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(data)?;
        self.hash.update(&data[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
