//! States of earlier and later versions, with the real binary.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::faults::home::{self, copy};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/fixtures")
}

/// What commands show of a fixture; kept in `records` beside it.
const RECORDS: [(&str, &[&str]); 8] = [
    ("channels", &["channels"]),
    ("context", &["context", "main"]),
    ("history", &["history", "main", "--limit", "1000"]),
    ("history-telegram", &["history", "main/telegram/7"]),
    ("memories", &["memory", "list"]),
    ("outbox", &["outbox", "list"]),
    ("artifacts", &["artifact", "list", "main"]),
    ("tools-log", &["tools", "log"]),
];

#[test]
fn every_format_shows_what_it_showed() {
    for format in [1, 2] {
        let home = home::new();
        copy(&fixtures().join(format!("format-{format}")), &home.state());
        assert_eq!(home.cairn(&["store", "verify", "--json"]).ended(0).json()["ok"], true);
        for (name, args) in RECORDS {
            let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
            let mut found = home.cairn(&args).ended(0).json();
            for item in found.as_array_mut().into_iter().flatten() {
                // The one figure that depends on the day.
                item.as_object_mut().unwrap().remove("age_seconds");
            }
            let kept = fixtures().join("records").join(format!("{name}.json"));
            let kept: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
            assert_eq!(found, kept, "format {format}: {name} is shown otherwise: {found:#}");
        }
        assert_eq!(home.state().join("before-format-2").is_dir(), format == 1);
    }
}

#[test]
fn a_newer_state_is_refused_with_a_clear_word() {
    let home = home::new();
    copy(&fixtures().join("format-2"), &home.state());
    let marker = json!({ "format": 3, "written_by": "9.8.7" });
    std::fs::write(home.state().join("format"), marker.to_string()).unwrap();
    for args in [
        &["run"][..],
        &["history", "main"],
        &["store", "verify"],
        &["store", "verify", "--quarantine"],
        &["store", "rebuild"],
    ] {
        home.cairn(args).told(1, &["format 3", "cairn 9.8.7", "up to 2"]);
    }
    let mut names: Vec<_> =
        std::fs::read_dir(home.state()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["artifacts", "format", "journal"], "nothing was made");
}
