//! The table of metrics: complete, and by Prometheus' conventions.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn sources(dir: &Path, out: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            out.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_metric_that_is_recorded_is_described_and_the_other_way_round() {
    let mut text = String::new();
    for krate in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap() {
        let src = krate.unwrap().path().join("src");
        if src.is_dir() {
            sources(&src, &mut text);
        }
    }
    let mut recorded = BTreeSet::new();
    for (macro_name, kind) in [("counter", "counter"), ("gauge", "gauge"), ("histogram", "histogram")] {
        for call in text.split(&format!("metrics::{macro_name}!(")).skip(1) {
            let Some(name) = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            recorded.insert((kind, name));
        }
    }
    let described = METRICS.iter().map(|(kind, name, _)| {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        (kind, *name)
    });
    assert_eq!(recorded, described.collect::<BTreeSet<_>>());
}

#[test]
fn names_follow_the_conventions() {
    for (idx, (kind, name, help)) in METRICS.iter().enumerate() {
        assert!(name.starts_with("cairn_") || name.starts_with("process_"), "{name}");
        assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
        assert!(!help.is_empty() && !help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
        assert!(METRICS[idx + 1..].iter().all(|(_, other, _)| other != name), "{name} is there twice");
        if let Kind::Histogram(buckets) = kind {
            assert!(name.ends_with("_seconds") || name.ends_with("_ratio"), "{name} has no unit");
            assert!(buckets.is_sorted() && buckets.len() <= 16, "{name}");
        }
    }
}
