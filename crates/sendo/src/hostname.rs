//! The name of the machine or pod, by which replicas are distinguished.

/// The name of this machine or pod.
pub(crate) fn hostname() -> String {
    let variable = std::env::var("HOSTNAME").ok();
    let name = variable.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let name = name.map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
