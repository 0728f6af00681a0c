//! Metrics: recorded by all crates through the crate `metrics`, collected here, and rendered in Prometheus' format.

mod names;

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::Unit;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::metrics::names::{Kind, METRICS};

/// Time between two calls of [`Meters::upkeep`].
pub const UPKEEP_EVERY: Duration = Duration::from_secs(5);

static INSTALLED: OnceLock<Meters> = OnceLock::new();

#[derive(Debug)]
pub struct Meters {
    handle: PrometheusHandle,
}

#[derive(Debug, thiserror::Error)]
pub enum NoMeters {
    #[error("the buckets of a metric are wrong: {0}")]
    Buckets(#[from] BuildError),
    #[error("metrics are recorded already: {0}")]
    Taken(String),
}

/// Starts recording metrics. Only `cairn run` does so; a second call changes nothing.
///
/// # Errors
/// Another recorder is installed, or buckets are invalid.
pub fn install() -> Result<&'static Meters, NoMeters> {
    if let Some(meters) = INSTALLED.get() {
        return Ok(meters);
    }
    let mut builder = PrometheusBuilder::new();
    for (kind, name, _) in METRICS {
        if let Kind::Histogram(buckets) = kind {
            builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)?;
        }
    }
    let recorder = builder.build_recorder();
    let meters = Meters { handle: recorder.handle() };
    metrics::set_global_recorder(recorder).map_err(|error| NoMeters::Taken(error.to_string()))?;
    describe();
    Ok(INSTALLED.get_or_init(|| meters))
}

/// The metrics, if this process records them.
pub fn installed() -> Option<&'static Meters> {
    INSTALLED.get()
}

fn describe() {
    for (kind, name, help) in METRICS {
        let unit = unit(name);
        match (kind, unit) {
            (Kind::Counter, Some(unit)) => metrics::describe_counter!(*name, unit, *help),
            (Kind::Counter, None) => metrics::describe_counter!(*name, *help),
            (Kind::Gauge, Some(unit)) => metrics::describe_gauge!(*name, unit, *help),
            (Kind::Gauge, None) => metrics::describe_gauge!(*name, *help),
            (Kind::Histogram(_), Some(unit)) => metrics::describe_histogram!(*name, unit, *help),
            (Kind::Histogram(_), None) => metrics::describe_histogram!(*name, *help),
        }
    }
}

fn unit(name: &str) -> Option<Unit> {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let units = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes), ("_ratio", Unit::Percent)];
    units.into_iter().find_map(|(end, unit)| name.ends_with(end).then_some(unit))
}

impl Meters {
    /// All metrics in Prometheus' text format. Metrics without a value are described, too.
    pub fn render(&self) -> String {
        sample_process();
        let mut text = self.handle.render();
        let begun: std::collections::BTreeSet<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let mut rest = String::new();
        for (kind, name, help) in METRICS.iter().filter(|(_, name, _)| !begun.contains(name)) {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram(_) => "histogram",
            };
            let _ = writeln!(rest, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
        text.push_str(&rest);
        text
    }

    /// Moves recorded values into the histograms' buckets, so that they do not pile up without scrapes.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

/// Bytes per kibibyte; `/proc` states memory in kibibytes.
const KIB: f64 = 1024.0;

/// Records figures about this process, under the standard names of Prometheus' libraries.
fn sample_process() {
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        if let Some(kib) = proc_field(&status, "VmRSS:") {
            metrics::gauge!("process_resident_memory_bytes").set(kib * KIB);
        }
        if let Some(n) = proc_field(&status, "Threads:") {
            metrics::gauge!("process_threads").set(n);
        }
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of them belongs to this listing.
        metrics::gauge!("process_open_fds").set(open.count().saturating_sub(1) as f64);
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        metrics::gauge!("process_max_fds").set(most as f64);
    }
}

/// A number in `/proc/self/status`.
fn proc_field(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
