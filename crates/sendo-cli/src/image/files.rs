//! What is in an image.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::elf::Executable;
use super::libraries::Library;

/// The user that the program runs as, the same as in distroless images.
pub(super) const USER: u32 = 65532;

/// A file or a folder of an image.
#[derive(Debug)]
pub(super) struct ImageFile {
    /// Its path, without the first `/`.
    pub(super) path: String,
    pub(super) content: Content,
    pub(super) mode: u32,
    pub(super) owner: u32,
}

#[derive(Debug)]
pub(super) enum Content {
    Folder,
    File(Vec<u8>),
}

impl ImageFile {
    fn file(path: &str, data: Vec<u8>, mode: u32) -> Self {
        ImageFile {
            path: path.trim_start_matches('/').to_owned(),
            content: Content::File(data),
            mode,
            owner: 0,
        }
    }

    fn folder(path: &str, mode: u32, owner: u32) -> Self {
        ImageFile {
            path: path.to_owned(),
            content: Content::Folder,
            mode,
            owner,
        }
    }

    pub(super) fn size(&self) -> u64 {
        match &self.content {
            Content::Folder => 0,
            Content::File(data) => data.len() as u64,
        }
    }
}

/// Where the program is in its image.
pub(super) fn program_path(name: &str) -> String {
    format!("/usr/local/bin/{name}")
}

/// The files of the system, and the program: two layers, the first of which seldom changes.
pub(super) fn layers(
    name: &str,
    program: Vec<u8>,
    executable: &Executable,
    libraries: Vec<Library>,
) -> Result<(Vec<ImageFile>, Vec<ImageFile>)> {
    let text = |path: &str, text: String| ImageFile::file(path, text.into_bytes(), 0o644);
    let mut system = vec![
        text(
            "etc/passwd",
            format!(
                "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin\n"
            ),
        ),
        text("etc/group", format!("root:x:0:\nnonroot:x:{USER}:\n")),
        text("etc/ssl/certs/ca-certificates.crt", authorities()),
        ImageFile::folder("home/nonroot", 0o700, USER),
        ImageFile::folder("tmp", 0o1777, 0),
    ];
    if executable.loader.is_some() {
        // The C library of GNU looks hosts up nowhere else, if nobody says where.
        system.push(text("etc/nsswitch.conf", "hosts: files dns\n".to_owned()));
    }
    for library in libraries {
        system.push(ImageFile::file(&library.path, library.data, 0o755));
    }
    let path = program_path(name);
    Ok((
        with_parents(system),
        with_parents(vec![ImageFile::file(&path, program, 0o755)]),
    ))
}

/// Adds the folders that lead to the files, all in the order of their paths.
fn with_parents(mut files: Vec<ImageFile>) -> Vec<ImageFile> {
    let mut parents = Vec::new();
    for file in &files {
        for (at, _) in file.path.match_indices('/') {
            parents.push(file.path[..at].to_owned());
        }
    }
    parents.sort();
    parents.dedup();
    for parent in parents {
        if !files.iter().any(|file| file.path == parent) {
            files.push(ImageFile::folder(&parent, 0o755, 0));
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Mozilla's certificate authorities as PEM.
fn authorities() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text += "-----BEGIN CERTIFICATE-----\n";
        let encoded = STANDARD.encode(certificate);
        for line in encoded.as_bytes().chunks(64) {
            text += &String::from_utf8_lossy(line);
            text.push('\n');
        }
        text += "-----END CERTIFICATE-----\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them() {
        let files = with_parents(vec![
            ImageFile::file("/usr/local/bin/bar", Vec::new(), 0o755),
            ImageFile::folder("tmp", 0o1777, 0),
        ]);
        let paths: Vec<&str> = files.iter().map(|file| &*file.path).collect();
        assert_eq!(
            paths,
            [
                "tmp",
                "usr",
                "usr/local",
                "usr/local/bin",
                "usr/local/bin/bar"
            ]
        );
    }

    #[test]
    fn authorities_are_pem() {
        let text = authorities();
        let count = text.matches("-----BEGIN CERTIFICATE-----").count();
        assert!(count > 50, "{count}");
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}
