//! What the operating system counts of this process. Only Linux is supported; elsewhere
//! nothing is known.

use std::fs;

/// Ticks in a second of the times in `/proc`: fixed by the kernel's interface,
/// whatever its own timer runs at.
const TICKS_PER_SECOND: f64 = 100.0;

/// What this process uses; `None` where the operating system does not say.
///
/// It differs from run to run in a seeded world too: it is for people and their monitoring,
/// and nothing may depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Seconds of processor time used.
    pub cpu_seconds: Option<f64>,
    /// When the process started, in seconds since 1970.
    pub start_seconds: Option<f64>,
    /// Memory in use.
    pub resident_bytes: Option<f64>,
    /// Address space in use.
    pub virtual_bytes: Option<f64>,
    /// Files and sockets open.
    pub open_files: Option<f64>,
    /// Files and sockets that may be open at once.
    pub max_files: Option<f64>,
}

impl Usage {
    /// Reads `/proc/self`.
    pub fn read() -> Self {
        let file = |name: &str| fs::read_to_string(name).unwrap_or_default();
        let stat = file("/proc/self/stat");
        let status = file("/proc/self/status");
        Usage {
            cpu_seconds: cpu_seconds(&stat),
            start_seconds: start_seconds(&stat, &file("/proc/stat")),
            resident_bytes: kilobytes(&status, "VmRSS:").map(|kb| kb * 1024.0),
            virtual_bytes: kilobytes(&status, "VmSize:").map(|kb| kb * 1024.0),
            open_files: open_files(),
            max_files: max_files(&file("/proc/self/limits")),
        }
    }
}

/// Field `number` of `/proc/self/stat`, counted from 1 as proc(5) does.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    // The second field is the program's name, in parentheses, with any character in it.
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(number - 3)?.trim().parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    let ticks = stat_field(stat, 14)? + stat_field(stat, 15)?;
    Some(ticks / TICKS_PER_SECOND)
}

fn start_seconds(stat: &str, system: &str) -> Option<f64> {
    let boot = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    let after_boot = stat_field(stat, 22)? / TICKS_PER_SECOND;
    Some(boot.trim().parse::<f64>().ok()? + after_boot)
}

fn kilobytes(status: &str, field: &str) -> Option<f64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(field))?;
    rest.trim().strip_suffix(" kB")?.parse().ok()
}

fn open_files() -> Option<f64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    // One of them is the directory being read.
    Some(entries.count().saturating_sub(1) as f64)
}

fn max_files(limits: &str) -> Option<f64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 11 12 13 14 15 16 12345 17 18";

    #[test]
    fn times_are_read_from_a_program_of_any_name() {
        assert_eq!(cpu_seconds(STAT), Some(3.0));
        let start = start_seconds(STAT, "cpu 1 2\nbtime 1700000000\nx 1\n");
        assert_eq!(start, Some(1_700_000_123.45));
    }

    #[test]
    fn sizes_and_limits_are_read() {
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t      12 kB\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(12.0));
        assert_eq!(kilobytes(status, "VmSize:"), Some(2048.0));
        let limits = "Limit  Soft  Hard  Units\nMax open files            1024   524288  files\n";
        assert_eq!(max_files(limits), Some(1024.0));
    }

    #[test]
    fn what_the_system_does_not_tell_is_left_out() {
        assert_eq!(cpu_seconds(""), None);
        assert_eq!(start_seconds(STAT, ""), None);
        assert_eq!(kilobytes("", "VmRSS:"), None);
        assert_eq!(max_files("Max open files  unlimited unlimited files"), None);
    }
}
