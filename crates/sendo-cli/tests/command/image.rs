//! `sendo image`, with programs that are there: this test's own, and what is no program.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

const MANIFEST: &str = "
[package]
name = \"bar-controller\"
version = \"1.2.3\"
description = \"Keeps bars\"
license = \"Apache-2.0\"
";

/// A folder that is a project as far as an image is concerned.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), MANIFEST).unwrap();
    folder
}

fn image(folder: &Path, arguments: &[&str]) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sendo"));
    let command = command.arg("image").args(arguments).current_dir(folder);
    // Nobody is logged in.
    let output = command
        .env("DOCKER_CONFIG", folder)
        .env("HOME", folder)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, error)
}

/// This test's program, for the platform of this machine.
fn own_binary() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let path = std::env::current_exe().unwrap();
    format!("--binary=linux/{architecture}={}", path.display())
}

fn made(folder: &Path, arguments: &[&str]) -> Value {
    let binary = own_binary();
    let (output, error) = image(folder, &[arguments, &[&binary, "--format=json"]].concat());
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    let (output, error) = image(folder, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    error
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A blob of a layout, whose name is its digest.
fn blob(layout: &Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap();
    let data = std::fs::read(layout.join("blobs").join(digest.replace(':', "/"))).unwrap();
    let hash = Sha256::digest(&data);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, format!("sha256:{hex}"));
    if let Some(size) = descriptor["size"].as_u64() {
        assert_eq!(size, data.len() as u64);
    }
    data
}

/// The files of a layer, with their modes and owners.
fn files(layer: &[u8]) -> BTreeMap<String, (Vec<u8>, u32, u64)> {
    use std::io::Read as _;
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(layer));
    let entries = tar.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).unwrap();
        let header = entry.header();
        assert_eq!(header.mtime().unwrap(), 0);
        let about = (data, header.mode().unwrap(), header.uid().unwrap());
        (entry.path().unwrap().display().to_string(), about)
    });
    entries.collect()
}

#[test]
fn an_image_has_the_program_its_libraries_and_a_user_that_is_not_root() {
    let folder = project();
    let made = made(folder.path(), &["--output=image", "--label=a=b"]);
    let layout = folder.path().join("image");
    let index = read_json(&layout.join("index.json"));
    assert_eq!(
        read_json(&layout.join("oci-layout"))["imageLayoutVersion"],
        "1.0.0"
    );
    let named = &index["manifests"][0];
    assert_eq!(named["digest"], made["digest"]);
    assert_eq!(
        named["annotations"]["org.opencontainers.image.ref.name"],
        "1.2.3"
    );
    let manifest: Value = serde_json::from_slice(&blob(&layout, named)).unwrap();
    let config: Value = serde_json::from_slice(&blob(&layout, &manifest["config"])).unwrap();
    let run = &config["config"];
    assert_eq!(run["User"], "65532:65532");
    assert_eq!(run["Entrypoint"][0], "/usr/local/bin/bar-controller");
    let labels = &run["Labels"];
    for (name, value) in [
        ("org.opencontainers.image.title", "bar-controller"),
        ("org.opencontainers.image.version", "1.2.3"),
        ("org.opencontainers.image.description", "Keeps bars"),
        ("org.opencontainers.image.licenses", "Apache-2.0"),
        ("a", "b"),
    ] {
        assert_eq!(labels[name], value);
        assert_eq!(manifest["annotations"][name], value);
    }
    let layers = manifest["layers"].as_array().unwrap();
    let system = files(&blob(&layout, &layers[0]));
    let own = files(&blob(&layout, &layers[1]));
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let (data, mode, owner) = &own["usr/local/bin/bar-controller"];
    assert!(*data == program && *mode == 0o755 && *owner == 0);
    assert_eq!(system["home/nonroot/"].2, 65532);
    assert_eq!(system["tmp/"].1, 0o1777);
    assert!(system["etc/passwd"].0.starts_with(b"root:x:0:0:"));
    assert!(system.contains_key("etc/ssl/certs/ca-certificates.crt"));
    assert!(
        system.keys().any(|path| path.contains("/libc.")),
        "{:?}",
        system.keys()
    );
}

#[test]
fn the_same_program_makes_the_same_image() {
    let (first, second) = (project(), project());
    let one = made(first.path(), &["--output=a.tar"]);
    let other = made(second.path(), &["--output=a.tar"]);
    assert_eq!(one["digest"], other["digest"]);
    let read = |folder: &Path| std::fs::read(folder.join("a.tar")).unwrap();
    assert!(read(first.path()) == read(second.path()));
    // A label makes another.
    let labelled = made(first.path(), &["--output=a.tar", "--label=a=b"]);
    assert_ne!(labelled["digest"], one["digest"]);
}

#[test]
fn a_tar_is_a_layout_that_docker_loads_too() {
    let folder = project();
    made(
        folder.path(),
        &["--tag=registry.example.dev/bars/bar:7", "--output=bar.tar"],
    );
    let tar = std::fs::read(folder.path().join("bar.tar")).unwrap();
    let mut found = BTreeMap::new();
    let mut archive = tar::Archive::new(&tar[..]);
    for entry in archive.entries().unwrap() {
        use std::io::Read as _;
        let mut entry = entry.unwrap();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).unwrap();
        found.insert(entry.path().unwrap().display().to_string(), data);
    }
    assert!(found.contains_key("oci-layout") && found.contains_key("index.json"));
    let docker: Value = serde_json::from_slice(&found["manifest.json"]).unwrap();
    assert_eq!(docker[0]["RepoTags"][0], "registry.example.dev/bars/bar:7");
    let layers = docker[0]["Layers"].as_array().unwrap().iter();
    for path in layers.chain([&docker[0]["Config"]]) {
        assert!(found.contains_key(path.as_str().unwrap()), "{path}");
    }
}

#[test]
fn what_cannot_be_an_image_is_refused_and_nothing_is_written() {
    let folder = project();
    let write = |name: &str, data: &[u8]| std::fs::write(folder.path().join(name), data).unwrap();
    write("mac", b"\xcf\xfa\xed\xfe............................");
    write("script", b"#!/bin/sh\nexec true\n............");
    std::fs::create_dir(folder.path().join("full")).unwrap();
    write("full/notes", b"");
    let own = own_binary();
    let other = own.replace("amd64", "riscv64").replace("arm64", "riscv64");
    let long = format!("--tag=bar@sha256:{}", "a".repeat(64));
    for (arguments, part) in [
        (&["--binary=linux/amd64=mac"][..], "but one for macOS"),
        (&["--binary=linux/amd64=script"], "is no program for Linux"),
        (
            &["--binary=linux/amd64=nowhere"],
            "cannot read the program nowhere",
        ),
        (
            &["--binary=windows/amd64=mac"],
            "images can be made for linux/386",
        ),
        (&["--binary=mac"], "is not PLATFORM=PATH"),
        (&[&other], "not for linux/riscv64"),
        (&[&own, "--output=full"], "with other things in it"),
        (&[&own, "--output=Cargo.toml"], "is a file"),
        (&[&own, "--tag=Bar:1"], "is no name of an image"),
        (&[&own, &long], "by a tag"),
        (&[&own, "--push"], "--tag"),
        (&[&own, "--label=a"], "is not NAME=VALUE"),
        (
            &[&own, "--tag=127.0.0.1:1/bar:1", "--push"],
            "cannot reach the registry 127.0.0.1:1",
        ),
    ] {
        let error = refused(folder.path(), arguments);
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["Cargo.toml", "full", "mac", "script"]);
}

/// A registry that lets nobody in, or forbids what it is asked for.
fn registry_that_answers(status: &'static str) -> u16 {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let answer = format!(
                "HTTP/1.1 {status}\r\nWWW-Authenticate: Basic realm=\"x\"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn a_registry_that_refuses_is_told_with_who_is_logged_in() {
    let folder = project();
    let own = own_binary();
    for (status, part) in [
        (
            "401 Unauthorized",
            "nobody is logged in; log in with `docker login 127.0.0.1:",
        ),
        (
            "403 Forbidden",
            "nobody is logged in; log in with `docker login 127.0.0.1:",
        ),
        (
            "500 Internal Server Error",
            "refuses the image (nobody is logged in)",
        ),
    ] {
        let tag = format!("--tag=127.0.0.1:{}/bar:1", registry_that_answers(status));
        let error = refused(folder.path(), &[&own, &tag, "--push"]);
        assert!(error.contains(part), "{status}: {error}");
    }
    assert!(!folder.path().join("target").exists());
}
