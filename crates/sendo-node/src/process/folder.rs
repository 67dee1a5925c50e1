//! The folders of the containers of a node: what they tell of a run, and how all that a folder
//! tells of is ended.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use k8s_openapi::api::core::v1::Pod;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use sendo::cache::{FieldSelector, Selection};
use sendo::{ObjectExt, RunContext, Timestamp};

use super::shim::{Ended, Started};
use crate::runtime::{Exit, RunState};

/// What containers get to terminate when the node stops.
const PARTING: Duration = Duration::from_secs(2);
/// How often it is looked whether they have.
const PARTING_LOOK: Duration = Duration::from_millis(20);
pub(super) fn pod_folder(state: &Path, pod: &str) -> PathBuf {
    state.join("pods").join(pod)
}

pub(super) fn entries(folder: &Path) -> impl Iterator<Item = OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.file_name()))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// How far a run is, by its folder; `None` if it was not even begun.
pub(super) fn run_state(folder: &Path) -> Option<RunState> {
    let started: Option<Started> = read_json(&folder.join("started"));
    if let Some(ended) = read_json::<Ended>(&folder.join("exit")) {
        let began = started.map_or(ended.at, |started| started.at);
        let mut exit = Exit::with_code(began, ended.at, ended.code);
        if let Some(error) = ended.start_error {
            exit.reason = "StartError".to_owned();
            exit.message = Some(error);
        }
        return Some(RunState::Exited(exit));
    }
    Some(RunState::Running { since: started?.at })
}

/// The end of a run whose shim is gone and has not recorded it.
pub(super) fn lost(folder: &Path) -> RunState {
    let now = Timestamp::now();
    let started = read_json::<Started>(&folder.join("started"));
    RunState::Exited(Exit {
        reason: "ContainerStatusUnknown".to_owned(),
        message: Some("the process beside the container was killed".to_owned()),
        ..Exit::with_code(started.map_or(now, |started| started.at), now, 137)
    })
}

/// Creates the folder of a run, for its owner only, with its pipes.
pub(super) fn create_run_folder(folder: &Path) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    for name in ["control", "events"] {
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, folder.join(name), FileType::Fifo, mode, 0)?;
    }
    Ok(())
}

/// The pipes to the shims of a pod that may run.
pub(super) fn controls(pod: &Path) -> Vec<OwnedFd> {
    let containers = entries(pod).map(|name| pod.join(name));
    let runs = containers.flat_map(|folder| {
        let runs: Vec<PathBuf> = entries(&folder).map(|name| folder.join(name)).collect();
        runs
    });
    let active = runs.filter(|run| !run.join("exit").exists());
    active.filter_map(|run| open_control(&run).ok()).collect()
}

/// Opens the pipe to a shim for writing; an error if no shim reads it.
fn open_control(run: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(run.join("control"), flags, Mode::empty())?)
}

/// Ends the containers of pods that the API does not have any more.
pub(super) async fn end_left_over(state: &Path, node: &str, cx: &RunContext) -> sendo::Result<()> {
    let pods = state.join("pods");
    if !pods.exists() {
        return Ok(());
    }
    let on_this_node = Selection::fields(FieldSelector::equal("spec.nodeName", node));
    let live = cx.client().live();
    let known = live.list::<Pod>(&on_this_node).await?;
    let known: Vec<String> = known.iter().map(|pod| pod.uid().to_string()).collect();
    for name in entries(&pods) {
        if known.iter().any(|uid| name.to_str() == Some(uid)) {
            continue;
        }
        let folder = pods.join(&name);
        for control in controls(&folder) {
            let _ = rustix::io::write(&control, b"K");
        }
        let _ = fs::remove_dir_all(folder);
    }
    Ok(())
}

/// Ends all containers of the node: they are asked, and killed if that takes too long.
pub(super) async fn end_all(state: &Path, cx: &RunContext) {
    let pods = state.join("pods");
    let alive = || {
        let folders = entries(&pods).map(|name| pods.join(name));
        folders.flat_map(|pod| controls(&pod)).collect::<Vec<_>>()
    };
    for (signal, limit) in [(b"T", PARTING), (b"K", PARTING)] {
        for control in alive() {
            let _ = rustix::io::write(&control, signal);
        }
        let begun = cx.clock().now();
        while !alive().is_empty() && cx.clock().now() - begun < limit {
            cx.clock().sleep(PARTING_LOOK).await;
        }
    }
}
