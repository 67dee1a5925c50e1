//! Logs of containers: lines with their time and stream, in the format of container runtimes.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/cri-client/pkg/logs/logs.go`: `parseCRILog`, `ReadLogs`
//! - `pkg/kubelet/logs/container_log_manager.go`: `rotateLog`

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sendo::Timestamp;

use crate::runtime::LogReader;

/// A log of this size is followed by a new file.
const MAX_SIZE: u64 = 10 << 20;
/// How many files there are for a run at most.
const MAX_FILES: u32 = 5;
/// A line that is longer is written in parts.
const MAX_LINE: usize = 16 * 1024;

/// Writes the log of one run.
pub(super) struct LogWriter {
    folder: PathBuf,
    file: File,
    size: u64,
    max_size: u64,
    /// The beginning of a line, by stream.
    begun: [(&'static str, Vec<u8>); 2],
}

impl LogWriter {
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        Ok(LogWriter {
            folder: folder.to_owned(),
            file: open(folder)?,
            size: 0,
            max_size: MAX_SIZE,
            begun: [("stdout", Vec::new()), ("stderr", Vec::new())],
        })
    }

    /// Writes what a stream had at `at`. The end of a line may come later.
    pub(super) fn write(
        &mut self,
        stream: &'static str,
        bytes: &[u8],
        at: Timestamp,
    ) -> io::Result<()> {
        let mut lines = Vec::new();
        if let Some((_, begun)) = self.begun.iter_mut().find(|(name, _)| *name == stream) {
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                begun.extend_from_slice(piece);
                let is_whole = begun.last() == Some(&b'\n');
                if is_whole || begun.len() >= MAX_LINE {
                    write_line(&mut lines, stream, at, is_whole, begun);
                    begun.clear();
                }
            }
        }
        self.append(&lines)
    }

    /// Writes the lines that have no end.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let mut lines = Vec::new();
        for (stream, begun) in &mut self.begun {
            if !begun.is_empty() {
                write_line(&mut lines, stream, Timestamp::now(), false, begun);
                begun.clear();
            }
        }
        self.append(&lines)
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.size >= self.max_size {
            self.rotate()?;
        }
        self.file.write_all(lines)?;
        self.size += lines.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..MAX_FILES).rev() {
            let from = file_name(&self.folder, number - 1);
            match std::fs::rename(from, file_name(&self.folder, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = open(&self.folder)?;
        self.size = 0;
        Ok(())
    }
}

fn open(folder: &Path) -> io::Result<File> {
    let path = file_name(folder, 0);
    OpenOptions::new().create(true).append(true).open(path)
}

/// The file of a run's log; older ones have higher numbers.
fn file_name(folder: &Path, number: u32) -> PathBuf {
    match number {
        0 => folder.join("log"),
        _ => folder.join(format!("log.{number}")),
    }
}

fn write_line(lines: &mut Vec<u8>, stream: &str, at: Timestamp, is_whole: bool, text: &[u8]) {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let tag = if is_whole { "F" } else { "P" };
    lines.extend_from_slice(format!("{at:.9} {stream} {tag} ").as_bytes());
    lines.extend_from_slice(text);
    lines.push(b'\n');
}

/// Reads the log of a run, while it is being written too.
pub(super) struct LogFiles {
    folder: PathBuf,
    /// The file that was the newest one when it was opened.
    file: Option<File>,
    /// The beginning of a line whose end is not written yet.
    begun: Vec<u8>,
    has_begun: bool,
}

impl LogFiles {
    pub(super) fn new(folder: PathBuf) -> Self {
        LogFiles {
            folder,
            file: None,
            begun: Vec::new(),
            has_begun: false,
        }
    }

    fn is_newest(&self, file: &File) -> bool {
        let newest = std::fs::metadata(file_name(&self.folder, 0));
        match (file.metadata(), newest) {
            (Ok(own), Ok(newest)) => own.ino() == newest.ino(),
            _ => true,
        }
    }
}

impl LogReader for LogFiles {
    fn read(&mut self) -> Vec<u8> {
        let mut read = std::mem::take(&mut self.begun);
        if !std::mem::replace(&mut self.has_begun, true) {
            let older = (1..MAX_FILES)
                .rev()
                .map(|number| file_name(&self.folder, number));
            read.extend(older.filter_map(|file| std::fs::read(file).ok()).flatten());
        }
        loop {
            let mut file = match self.file.take() {
                Some(file) => file,
                None => match File::open(file_name(&self.folder, 0)) {
                    Ok(file) => file,
                    Err(_) => break,
                },
            };
            // What was written before it was replaced is read after that is known.
            let is_newest = self.is_newest(&file);
            if file.read_to_end(&mut read).is_err() {
                break;
            }
            if is_newest {
                self.file = Some(file);
                break;
            }
        }
        let end = read
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        self.begun = read.split_off(end);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("sendo-log-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn texts(log: &[u8]) -> Vec<String> {
        let lines = std::str::from_utf8(log).unwrap().lines();
        lines
            .map(|line| line.split_once('Z').unwrap().1.to_owned())
            .collect()
    }

    #[test]
    fn lines_are_written_whole_or_in_parts() {
        let folder = folder("parts");
        let at: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let mut log = LogWriter::create(&folder).unwrap();
        log.write("stdout", b"one\ntw", at).unwrap();
        log.write("stderr", b"error\n", at).unwrap();
        log.write("stdout", b"o\n", at).unwrap();
        log.write("stdout", &[b'x'; MAX_LINE], at).unwrap();
        log.write("stdout", b"end\nrest", at).unwrap();
        log.finish().unwrap();
        let written = LogFiles::new(folder.clone()).read();
        assert!(written.starts_with(b"2026-01-01T00:00:00.500000000Z stdout F one\n"));
        let long = format!(" stdout P {}", "x".repeat(MAX_LINE));
        let expected = [
            " stdout F one",
            " stderr F error",
            " stdout F two",
            &long,
            " stdout F end",
            " stdout P rest",
        ];
        assert_eq!(texts(&written), expected);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_log_that_is_rotated_is_read_without_a_gap() {
        let folder = folder("rotated");
        let mut log = LogWriter::create(&folder).unwrap();
        log.max_size = 100;
        let mut follower = LogFiles::new(folder.clone());
        let mut followed = Vec::new();
        for number in 0..100 {
            let line = format!("{number}\n");
            log.write("stdout", line.as_bytes(), Timestamp::now())
                .unwrap();
            followed.extend(texts(&follower.read()));
        }
        let expected: Vec<String> = (0..100)
            .map(|number| format!(" stdout F {number}"))
            .collect();
        assert_eq!(followed, expected);
        // The oldest files are gone.
        let later = texts(&LogFiles::new(folder.clone()).read());
        assert!(later.len() < 100 && expected.ends_with(&later));
        assert!(!file_name(&folder, MAX_FILES).exists());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
