//! Where audit events are written: a file, standard output, or a function.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/plugin/pkg/audit/log/backend.go`: `FormatJson`
//! - `staging/src/k8s.io/apiserver/pkg/server/options/audit.go`: `AuditLogOptions`

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;

/// When a log file is put aside for a new one, and how long those put aside are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRotation {
    /// The size of a file in bytes at which a new one is begun; 100 MB by default.
    pub max_bytes: u64,
    /// How many files that were put aside are kept; all if this is `None`, the default.
    pub max_backups: Option<usize>,
    /// How long files that were put aside are kept; for ever if this is `None`, the default.
    pub max_age: Option<Duration>,
}

impl Default for AuditRotation {
    fn default() -> Self {
        AuditRotation {
            max_bytes: 100 << 20,
            max_backups: None,
            max_age: None,
        }
    }
}

/// Takes audit events: each is a line of JSON, an `Event` of `audit.k8s.io/v1`.
///
/// An event is written before the request goes on, so that what has happened is recorded if the
/// program ends. An event that cannot be written is counted in the metrics of the server, and
/// logged.
#[derive(Clone)]
pub struct AuditLog(Arc<Target>);

enum Target {
    Stdout,
    File(Mutex<LogFile>),
    Function(Box<dyn Fn(&str) + Send + Sync>),
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &*self.0 {
            Target::Stdout => "AuditLog(stdout)",
            Target::File(_) => "AuditLog(file)",
            Target::Function(_) => "AuditLog(function)",
        })
    }
}

impl AuditLog {
    /// Writes to standard output.
    pub fn stdout() -> Self {
        AuditLog(Arc::new(Target::Stdout))
    }

    /// Appends to a file, which is made if it is absent, with its folder.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn file(path: impl Into<PathBuf>, rotation: AuditRotation) -> io::Result<Self> {
        let file = LogFile::open(path.into(), rotation)?;
        Ok(AuditLog(Arc::new(Target::File(Mutex::new(file)))))
    }

    /// Gives each event, a JSON document without a line end, to a function, for example of a
    /// test. It is called by the thread that serves the request.
    pub fn function(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        AuditLog(Arc::new(Target::Function(Box::new(take))))
    }

    pub(super) fn write(&self, event: &str, now: Timestamp) -> io::Result<()> {
        match &*self.0 {
            Target::Function(take) => {
                take(event);
                Ok(())
            }
            Target::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(event.as_bytes())?;
                out.write_all(b"\n")?;
                out.flush()
            }
            Target::File(file) => {
                let mut line = String::with_capacity(event.len() + 1);
                line.push_str(event);
                line.push('\n');
                file.lock().write(line.as_bytes(), now)
            }
        }
    }
}

struct LogFile {
    path: PathBuf,
    rotation: AuditRotation,
    file: File,
    size: u64,
}

impl LogFile {
    fn open(path: PathBuf, rotation: AuditRotation) -> io::Result<Self> {
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            fs::create_dir_all(folder)?;
        }
        let file = append(&path)?;
        Ok(LogFile {
            size: file.metadata()?.len(),
            file,
            path,
            rotation,
        })
    }

    fn write(&mut self, line: &[u8], now: Timestamp) -> io::Result<()> {
        if self.size > 0 && self.size + line.len() as u64 > self.rotation.max_bytes {
            self.rotate(now)?;
        }
        self.file.write_all(line)?;
        self.size += line.len() as u64;
        Ok(())
    }

    /// Puts the file aside under a name with the time, and begins a new one.
    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let (before, after) = self.name_parts();
        let time = now
            .to_zoned(TimeZone::UTC)
            .strftime("%Y-%m-%dT%H-%M-%S%.3f");
        let aside = self.path.with_file_name(format!("{before}-{time}{after}"));
        fs::rename(&self.path, aside)?;
        self.file = append(&self.path)?;
        self.size = 0;
        self.remove_old(now)
    }

    /// The name of the file before and after where the time is put.
    fn name_parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.unwrap_or_default().to_string_lossy().into_owned()
        };
        let extension = text(self.path.extension());
        let dot = if extension.is_empty() { "" } else { "." };
        (text(self.path.file_stem()), format!("{dot}{extension}"))
    }

    fn remove_old(&self, now: Timestamp) -> io::Result<()> {
        let (before, after) = self.name_parts();
        let folder = self.path.parent().filter(|own| !own.as_os_str().is_empty());
        let mut aside: Vec<(Timestamp, PathBuf)> = Vec::new();
        for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let time = name.strip_prefix(&format!("{before}-"));
            let time = time
                .and_then(|rest| rest.strip_suffix(&after))
                .and_then(time_of);
            aside.extend(time.map(|time| (time, path)));
        }
        aside.sort_by(|(a, _), (b, _)| b.cmp(a));
        for (index, (time, path)) in aside.iter().enumerate() {
            let is_extra = self.rotation.max_backups.is_some_and(|most| index >= most);
            let age = Duration::try_from(now.duration_since(*time)).unwrap_or_default();
            let is_old = self.rotation.max_age.is_some_and(|most| age > most);
            if is_extra || is_old {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// The time in the name of a file that was put aside.
fn time_of(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once('T')?;
    format!("{date}T{}Z", time.replace('-', ":")).parse().ok()
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Events may hold secrets.
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_oldest_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/audit.log");
        let rotation = AuditRotation {
            max_bytes: 8,
            max_backups: Some(2),
            max_age: None,
        };
        let log = AuditLog::file(&path, rotation).unwrap();
        let start: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        for second in 0..5 {
            let now = start + jiff::SignedDuration::from_secs(second);
            log.write(&format!("event{second}"), now).unwrap();
        }
        let expected = [
            "audit-2026-03-01T10-00-03.000.log",
            "audit-2026-03-01T10-00-04.000.log",
            "audit.log",
        ];
        assert_eq!(names(path.parent().unwrap()), expected);
        assert_eq!(fs::read_to_string(&path).unwrap(), "event4\n");
    }

    #[test]
    fn files_that_were_put_aside_are_removed_when_they_are_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        fs::write(
            folder.path().join("audit-2026-01-01T00-00-00.000.log"),
            "old",
        )
        .unwrap();
        fs::write(folder.path().join("audit-other.log"), "not ours").unwrap();
        let rotation = AuditRotation {
            max_bytes: 1,
            max_backups: None,
            max_age: Some(Duration::from_secs(24 * 3600)),
        };
        let log = AuditLog::file(&path, rotation).unwrap();
        let now: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        log.write("a", now).unwrap();
        log.write("b", now).unwrap();
        let expected = [
            "audit-2026-03-01T10-00-00.000.log",
            "audit-other.log",
            "audit.log",
        ];
        assert_eq!(names(folder.path()), expected);
    }
}
