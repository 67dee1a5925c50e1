//! `sendo up` as a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use sendo::World;

use super::client::Target;

/// A running cluster, which ends with this value.
pub(crate) struct Process {
    child: Child,
    /// How to reach it.
    pub(crate) target: Target,
    /// From the start of the process to its first response.
    pub(crate) started_in: Duration,
    /// Where its kubeconfig is.
    pub(crate) kubeconfig: PathBuf,
    _folder: tempfile::TempDir,
}

/// Where the process keeps its objects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    Memory,
    Disk,
}

impl Process {
    /// Starts a cluster without nodes, and waits for its first answer over TLS.
    pub(crate) async fn start(world: &World, keeps: Keeps) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let mut command = Command::new(binary()?);
        command.args(["up", "--port", "0", "--nodes", "0", "--kubeconfig"]);
        command.arg(&kubeconfig).stdout(Stdio::null());
        if keeps == Keeps::Disk {
            command.arg("--data-dir").arg(folder.path().join("data"));
        }
        let began = world.clock().now();
        let child = command.spawn().context("start `sendo up`")?;
        let mut process = Unready { child: Some(child) };
        let target = process.answered(world, &kubeconfig).await?;
        Ok(Process {
            child: process.child.take().context("the process is there")?,
            target,
            started_in: world.clock().now() - began,
            kubeconfig,
            _folder: folder,
        })
    }

    pub(crate) fn processes(&self) -> Processes {
        Processes::new(vec![self.child.id()])
    }

    /// Memory that the process has in use.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        resident_bytes(self.child.id())
    }
}

/// Memory that a process has in use.
pub(crate) fn resident_bytes(id: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kilobytes.context("no VmRSS")?.parse::<u64>()? * 1024)
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A process that must end if it never answers.
struct Unready {
    child: Option<Child>,
}

impl Unready {
    async fn answered(&mut self, world: &World, kubeconfig: &Path) -> anyhow::Result<Target> {
        let child = self.child.as_mut().context("the process is there")?;
        loop {
            if let Some(status) = child.try_wait()? {
                bail!("`sendo up` ended: {status}");
            }
            if let Ok(text) = std::fs::read_to_string(kubeconfig)
                && let Ok(target) = Target::read(&text)
                && let Ok(mut connection) = target.connect(world).await
            {
                connection.get("/readyz").await?;
                return Ok(target);
            }
            world.clock().sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Drop for Unready {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            end(child);
        }
    }
}

fn end(child: &mut Child) {
    // The process may have ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// The processes of a server, which are stopped while others are measured, because an idle control
/// plane uses processor time and caches too.
pub(crate) struct Processes(Vec<u32>);

impl Processes {
    pub(crate) fn new(ids: Vec<u32>) -> Self {
        Processes(ids)
    }

    pub(crate) fn halt(&self) -> anyhow::Result<()> {
        self.signal("-STOP")
    }

    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, name: &str) -> anyhow::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let ids = self.0.iter().map(u32::to_string);
        let status = Command::new("kill").arg(name).args(ids).status()?;
        ensure!(status.success(), "a process of the server is gone");
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // Processes that have ended cannot be continued.
        let _ = self.go_on();
    }
}

/// What the processors of the machine have done so far, all together.
#[derive(Clone, Copy)]
pub(crate) struct Processors {
    /// For how long they worked.
    pub(crate) busy: Duration,
    /// The steal time: for how long the host gave the processors to other machines.
    pub(crate) stolen: Duration,
}

impl Processors {
    pub(crate) fn now() -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let of_all = stat.lines().find_map(|line| line.strip_prefix("cpu "));
        let spans = of_all.context("no figures of all processors")?;
        let ticks: Vec<u64> = spans
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [user, nice, system, _idle, _disks, hard, soft, stolen, ..] = ticks[..] else {
            bail!("too few figures of the processors: {spans}");
        };
        let span = |ticks: u64| Duration::from_millis(ticks * 10);
        Ok(Processors {
            busy: span(user + nice + system + hard + soft),
            stolen: span(stolen),
        })
    }
}

/// `sendo`, which was built beside this program.
fn binary() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let beside = own.with_file_name("sendo");
    if !beside.exists() {
        bail!(
            "{} is not there: build it with `cargo build --release -p sendo-cli`",
            beside.display()
        );
    }
    Ok(beside)
}
