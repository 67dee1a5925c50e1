//! What the operating system counts of this process. Only Linux is supported; elsewhere these
//! metrics are left out.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use sendo_world::process::Usage;

/// The families that [`Process`] writes.
pub(super) const NAMES: [&str; 6] = [
    "process_cpu_seconds",
    "process_start_time_seconds",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_open_fds",
    "process_max_fds",
];

/// Reads what the process uses at every scrape.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = Usage::read();
        let [cpu, start, resident, virtual_, open, max] = NAMES;

        if let Some(seconds) = usage.cpu_seconds {
            let counter = ConstCounter::new(seconds);
            let help = "Seconds of processor time used.";
            counter.encode(encoder.encode_descriptor(cpu, help, None, counter.metric_type())?)?;
        }
        let gauges = [
            (
                start,
                "When the process started, in seconds since 1970.",
                usage.start_seconds,
            ),
            (resident, "Memory in use.", usage.resident_bytes),
            (virtual_, "Address space in use.", usage.virtual_bytes),
            (open, "Files and sockets open.", usage.open_files),
            (
                max,
                "Files and sockets that may be open at once.",
                usage.max_files,
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(
                    name,
                    help,
                    None,
                    gauge.metric_type(),
                )?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_shows_itself() {
        let page = super::super::Registry::new().encode(super::super::Format::Prometheus);
        for name in NAMES {
            let name = name.replace("cpu_seconds", "cpu_seconds_total");
            assert!(page.contains(&format!("\n{name} ")), "{name}");
        }
    }
}
