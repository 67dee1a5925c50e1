//! A registry of images, built from its Go module: the tutorial's image is pushed to it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::go_tools;

/// Of github.com/distribution/distribution/v3, as `xtask/registry/go.mod` has it.
const VERSION: &str = "v3.1.2";

/// How long it may take to listen.
const START: Duration = Duration::from_secs(60);

/// The user `mate` with the password `sail`, as htpasswd writes it.
const USERS: &str = "mate:$2b$05$abcdefghijklmnopqrstuu06gU5KQ.N.GQ.zP8gNvVHV78FIYAZne\n";

/// `mate:sail` in base64.
const CREDENTIALS: &str = "bWF0ZTpzYWls";

/// Builds the registry, once; `None` where Go is not there.
///
/// # Errors
///
/// When it is not built.
pub(super) fn build() -> Result<Option<PathBuf>> {
    match go_tools::is_go_installed() {
        true => go_tools::build("registry", ".", VERSION).map(Some),
        false => Ok(None),
    }
}

/// Pushes the image of a program with `sendo image`: to nobody without credentials, and with them
/// so that it is found by its digest.
///
/// # Errors
///
/// When any of it is not so.
pub(super) fn check(registry: &Path, sendo: &Path, project: &Path, program: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let registry = Registry::start(registry, folder.path())?;
    let address = registry.address;
    let push = || -> Result<(bool, String, String)> {
        let output = Command::new(sendo)
            .args(["image", "--push", "--format=json"])
            .arg(format!("--tag={address}/boats/bar-controller:1"))
            .arg(format!(
                "--binary=linux/{}={}",
                architecture(),
                program.display()
            ))
            .current_dir(project)
            .env("DOCKER_CONFIG", folder.path())
            .env("HOME", folder.path())
            .env_remove("XDG_RUNTIME_DIR")
            .output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        ))
    };
    let (pushed, _, error) = push()?;
    ensure!(
        !pushed && error.contains("nobody is logged in; log in with `docker login"),
        "without credentials: {error}"
    );
    let config = json!({"auths": {address.to_string(): {"auth": CREDENTIALS}}});
    fs::write(folder.path().join("config.json"), config.to_string())?;
    for _ in 0..2 {
        let (pushed, said, error) = push()?;
        ensure!(pushed, "with credentials: {error}");
        let said: Value = serde_json::from_str(&said)?;
        let digest = said["digest"].as_str().context("a digest")?;
        let head = get(address, "/v2/boats/bar-controller/manifests/1")?.to_lowercase();
        ensure!(
            head.starts_with("http/1.1 200")
                && head.contains(&format!("docker-content-digest: {digest}")),
            "the registry has no {digest}:\n{head}"
        );
    }
    Ok(())
}

/// The platform's processor, in the words of images.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The answer to a request of `mate`.
fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let accept = "application/vnd.oci.image.manifest.v1+json";
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Basic {CREDENTIALS}\r\n\
         Accept: {accept}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A registry that runs until it is dropped.
struct Registry {
    child: Child,
    address: SocketAddr,
}

impl Registry {
    fn start(program: &Path, folder: &Path) -> Result<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = free.local_addr()?;
        drop(free);
        let users = folder.join("users");
        fs::write(&users, USERS)?;
        let config = json!({
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": folder.join("images")}},
            "http": {"addr": address.to_string()},
            "auth": {"htpasswd": {"realm": "boats", "path": users}},
        });
        let file = folder.join("config.yml");
        fs::write(&file, config.to_string())?;
        let log = folder.join("log");
        let output = File::create(&log)?;
        let child = Command::new(program)
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let mut registry = Registry { child, address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            let is_over = registry.child.try_wait()?.is_some();
            if is_over || began.elapsed() > START {
                let log = fs::read_to_string(&log).unwrap_or_default();
                bail!("the registry does not listen:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(registry)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
