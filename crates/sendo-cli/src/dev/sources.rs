//! Watches the files that the program is built from, and its samples.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc::Sender;

use super::event::Event;
use super::metadata::Metadata;

/// Watches until it is dropped.
#[derive(Debug)]
pub(super) struct Sources {
    _watcher: RecommendedWatcher,
}

impl Sources {
    /// Reports changes of the packages' sources, and of the samples of the project in `root`.
    pub(super) fn watch(metadata: &Metadata, root: &Path, events: Sender<Event>) -> Result<Self> {
        let samples = root.join("samples");
        let target = metadata.target.clone();
        let report = {
            let samples = samples.clone();
            move |found: notify::Result<notify::Event>| {
                let Ok(found) = found else { return };
                if matches!(found.kind, EventKind::Access(_)) {
                    return;
                }
                for path in found.paths.iter().filter(|path| !path.starts_with(&target)) {
                    let event = match path.starts_with(&samples) {
                        true if is_sample(path) => Event::SamplesChanged,
                        false if is_source(path) => Event::SourceChanged(path.clone()),
                        _ => continue,
                    };
                    // A full channel has an event already, and a closed one has no reader left.
                    let _ = events.try_send(event);
                }
            }
        };
        let mut watcher = notify::recommended_watcher(report)
            .context("files cannot be watched on this machine")?;
        let mut watch = |path: PathBuf, how| {
            let watched = match path.exists() {
                true => watcher.watch(&path, how),
                false => Ok(()),
            };
            watched.with_context(|| {
                format!("cannot watch {}: if the system has a limit of watches, raise it (`sysctl fs.inotify.max_user_watches`)", path.display())
            })
        };
        for package in &metadata.packages {
            watch(package.clone(), RecursiveMode::NonRecursive)?;
            watch(package.join("src"), RecursiveMode::Recursive)?;
        }
        watch(samples, RecursiveMode::Recursive)?;
        Ok(Sources { _watcher: watcher })
    }
}

/// Whether the program is built anew when this changes.
fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with('.') || name.ends_with('~') {
        return false;
    }
    let in_source = path.components().any(|part| part.as_os_str() == "src");
    let end = path.extension().unwrap_or_default();
    end == "rs"
        || name == "Cargo.toml"
        || (in_source && path.extension().is_some() && !is_draft(path))
}

fn is_sample(path: &Path) -> bool {
    super::samples::is_sample(path) && !is_draft(path)
}

/// What editors write while they save.
fn is_draft(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = path.extension().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name.ends_with('~') || ["swp", "swx", "tmp", "bak"].contains(&&*end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_of_editors_build_nothing() {
        for path in [
            "/p/src/lib.rs",
            "/p/Cargo.toml",
            "/p/src/page.html",
            "/p/build.rs",
        ] {
            assert!(is_source(Path::new(path)), "{path}");
        }
        for path in [
            "/p/src/.lib.rs.swp",
            "/p/src/lib.rs~",
            "/p/src/.#lib.rs",
            "/p/src/4913",
            "/p/README.md",
            "/p/Cargo.lock",
        ] {
            assert!(!is_source(Path::new(path)), "{path}");
        }
    }
}
