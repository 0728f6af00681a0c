//! What the system says of this process, by the names that Prometheus' own libraries give it.

use std::fs;

/// Bytes of a kibibyte, in which the system counts memory.
const KIB: f64 = 1024.0;

/// Takes the figures. What a system does not tell is left out.
pub(super) fn sample() {
    if let Ok(status) = fs::read_to_string("/proc/self/status") {
        if let Some(kib) = field(&status, "VmRSS:") {
            metrics::gauge!("process_resident_memory_bytes").set(kib * KIB);
        }
        if let Some(n) = field(&status, "Threads:") {
            metrics::gauge!("process_threads").set(n);
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is that of the reading itself.
        metrics::gauge!("process_open_fds").set(open.count().saturating_sub(1) as f64);
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        metrics::gauge!("process_max_fds").set(most as f64);
    }
}

/// A number of `/proc/self/status`.
fn field(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
