//! The shape of the workspace: which crate knows which, what lies where.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The map of `crates/ARCHITECTURE.md`: which crates a crate may use.
const EDGES: [(&str, &[&str]); 17] = [
    ("cairn-types", &[]),
    ("cairn-core", &["cairn-types"]),
    ("cairn-config", &["cairn-core", "cairn-types"]),
    ("cairn-platforms", &["cairn-types"]),
    ("cairn-tools", &["cairn-types"]),
    ("cairn-llm", &["cairn-core", "cairn-types"]),
    ("cairn-embed", &["cairn-types"]),
    ("cairn-store", &["cairn-core", "cairn-types"]),
    ("cairn-actors", &["cairn-core", "cairn-types"]),
    ("cairn-api", &["cairn-core", "cairn-types"]),
    ("cairn-cli", &["cairn-api", "cairn-config", "cairn-core", "cairn-types"]),
    (
        "cairn-server",
        &[
            "cairn-actors",
            "cairn-api",
            "cairn-config",
            "cairn-core",
            "cairn-llm",
            "cairn-platforms",
            "cairn-store",
            "cairn-tools",
            "cairn-types",
        ],
    ),
    (
        "cairn-page",
        &["cairn-actors", "cairn-api", "cairn-config", "cairn-core", "cairn-server", "cairn-types"],
    ),
    (
        "cairn-daemon",
        &[
            "cairn-actors",
            "cairn-api",
            "cairn-cli",
            "cairn-config",
            "cairn-core",
            "cairn-embed",
            "cairn-llm",
            "cairn-page",
            "cairn-platforms",
            "cairn-server",
            "cairn-store",
            "cairn-tools",
            "cairn-types",
        ],
    ),
    (
        "cairn-fuzz",
        &[
            "cairn-config",
            "cairn-core",
            "cairn-llm",
            "cairn-platforms",
            "cairn-store",
            "cairn-tools",
            "cairn-types",
        ],
    ),
    ("cairn-testkit", &["cairn-core", "cairn-types"]),
    ("cairn-bench", &["cairn-core", "cairn-testkit", "cairn-types"]),
];

/// Fakes and measurements: never linked into the daemon.
const FOR_TESTS: [&str; 3] = ["cairn-testkit", "cairn-bench", "cairn-fuzz"];

/// What does I/O, tells the time or makes chance: never beneath `core`.
const NOT_IN_CORE: [&str; 25] = [
    "axum",
    "chrono",
    "fastrand",
    "getrandom",
    "hyper",
    "mio",
    "oorandom",
    "parking_lot",
    "quanta",
    "ractor",
    "rand",
    "rand_core",
    "reqwest",
    "rmcp",
    "rustls",
    "serenity",
    "sled",
    "socket2",
    "tantivy",
    "teloxide",
    "time",
    "tokio",
    "tokio-util",
    "tracing",
    "uuid",
];

/// The packages that Cairn is built upon, each with the crate that uses it.
const PACKAGES: [(&str, &str); 9] = [
    ("ractor", "cairn-actors"),
    ("tokio", "cairn-daemon"),
    ("sled", "cairn-store"),
    ("reqwest", "cairn-llm"),
    ("rmcp", "cairn-tools"),
    ("tokio-util", "cairn-actors"),
    ("serde", "cairn-types"),
    ("toml", "cairn-daemon"),
    ("tracing", "cairn-daemon"),
];

/// Packages of chat networks, required once their adapter is there.
const NETWORKS: [(&str, &str); 2] = [("serenity", "discord"), ("teloxide", "telegram")];

/// Within `cairn-store`: which modules of the crate's root the files of a folder may name.
const STORE_FOLDERS: [(&str, &[&str]); 4] = [
    ("files", &["files"]),
    ("journal", &["files", "journal"]),
    ("views", &["files", "journal", "views"]),
    ("index", &["files", "index", "journal", "views"]),
];

const TOP_LEVEL: [&str; 18] = [
    ".ci",
    ".clippy.toml",
    ".deny.toml",
    ".github",
    ".gitignore",
    ".rustfmt.toml",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "config",
    "crates",
    "deploy",
    "docs",
    "prompts",
];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// What a command prints; panics with what it said when it fails.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A direct dependency: of which crate, on what, and of which kind (`None`: a normal one).
struct Dependency {
    of: String,
    on: String,
    kind: Option<String>,
}

fn dependencies() -> Vec<Dependency> {
    let text = output(env!("CARGO"), &["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let mut out = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        for dependency in package["dependencies"].as_array().unwrap() {
            out.push(Dependency {
                of: package["name"].as_str().unwrap().to_owned(),
                on: dependency["name"].as_str().unwrap().to_owned(),
                kind: dependency["kind"].as_str().map(str::to_owned),
            });
        }
    }
    out
}

/// All files below a folder with that ending.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            out.push(path);
        }
    }
    out.sort();
    out
}

/// All Rust sources, with their paths from the root.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let found = files(&root.join("crates"), ".rs");
    assert!(found.len() > 50, "only {} sources found", found.len());
    found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// Lines of sources that hold a text, as `file:line`.
fn lines_with(needle: &str) -> String {
    let mut hits = String::new();
    for (name, text) in sources() {
        for (idx, _) in text.lines().enumerate().filter(|(_, line)| line.contains(needle)) {
            let _ = writeln!(hits, "{name}:{}", idx + 1);
        }
    }
    hits
}

/// What a source names of its crate's root, by `use` or in a path, outside of its tests. `module`: where it is, such as
/// `journal::open`.
fn named_at_the_root(module: &str, text: &str) -> BTreeSet<String> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: Vec<&str> = product.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let depth = module.split("::").count();
    let mut found = BTreeSet::new();
    for (root, climbs) in [("crate::".to_owned(), 0), ("super::".repeat(depth), depth)] {
        for (at, _) in code.match_indices(&root) {
            let before = code[..at].chars().next_back();
            // `super::super::` is found within `super::super::super::`, too.
            if before.is_some_and(is_name) || (climbs > 0 && code[..at].ends_with("super::")) {
                continue;
            }
            let rest = &code[at + root.len()..];
            let Some(tree) = rest.strip_prefix('{') else {
                found.insert(rest.chars().take_while(|c| is_name(*c)).collect());
                continue;
            };
            // The first name of each branch.
            let (mut open, mut name, mut is_first) = (0, String::new(), true);
            for c in tree.chars() {
                match c {
                    '{' => open += 1,
                    '}' if open == 0 => break,
                    '}' => open -= 1,
                    ',' if open == 0 => {
                        found.insert(std::mem::take(&mut name));
                        is_first = true;
                    }
                    ':' => is_first = false,
                    c if is_first && open == 0 && is_name(c) => name.push(c),
                    _ => {}
                }
            }
            found.insert(name);
        }
    }
    found.remove("");
    found
}

#[test]
fn within_the_store_no_folder_names_one_above_it() {
    let mut violations = String::new();
    for (folder, may) in STORE_FOLDERS {
        let start = format!("crates/store/src/{folder}/");
        let files: Vec<_> = sources().into_iter().filter(|(name, _)| name.starts_with(&start)).collect();
        assert!(files.len() > 3, "{start} has only {} sources", files.len());
        for (name, text) in files {
            let within = name.trim_start_matches("crates/store/src/").trim_end_matches(".rs");
            let module = within.trim_end_matches("/mod").replace('/', "::");
            for named in named_at_the_root(&module, &text) {
                if !may.contains(&named.as_str()) {
                    let _ = writeln!(violations, "{name} names `{named}`, which {folder} must not know");
                }
            }
        }
    }
    assert!(violations.is_empty(), "{violations}");
}

#[test]
fn a_name_of_the_root_is_seen_however_it_is_written() {
    for (module, text, names) in [
        ("journal::open", "use crate::cluster::copy;", &["cluster"][..]),
        (
            "journal::open",
            "use crate::{\n    files::disk::{Layout, put},\n    Store,\n};",
            &["Store", "files"],
        ),
        (
            "journal::open",
            "fn f() { crate::views::apply(super::super::index::reach()) }",
            &["index", "views"],
        ),
        ("journal::open", "use super::segment; // crate::views", &[]),
        ("journal", "use super::upkeep;", &["upkeep"]),
        ("views::db", "\n#[cfg(test)]\nmod tests {\n    use crate::Store;\n}", &[]),
    ] {
        let found = named_at_the_root(module, text);
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), names, "{text}");
    }
}

#[test]
fn crates_know_each_other_only_along_the_map() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in EDGES.map(|(name, _)| name) {
        found.insert(name.to_owned(), BTreeSet::new());
    }
    for Dependency { of, on, kind } in dependencies() {
        if !on.starts_with("cairn-") {
            continue;
        }
        if FOR_TESTS.contains(&on.as_str()) && !FOR_TESTS.contains(&of.as_str()) {
            assert_eq!(kind.as_deref(), Some("dev"), "{of} uses {on} outside its tests");
        } else if kind.is_none() {
            found.entry(of).or_default().insert(on);
        }
    }
    let map = EDGES.map(|(name, may)| (name.to_owned(), may.iter().map(|to| (*to).to_owned()).collect()));
    assert_eq!(found, BTreeMap::from(map));
}

#[test]
fn nothing_beneath_core_does_io_tells_time_or_makes_chance() {
    let tree =
        output(env!("CARGO"), &["tree", "-p", "cairn-core", "-e", "normal", "--prefix", "none", "--offline"]);
    let below: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(below.contains("serde"), "not a tree of dependencies: {tree}");
    let found: Vec<_> = NOT_IN_CORE.iter().filter(|name| below.contains(**name)).collect();
    assert!(found.is_empty(), "beneath cairn-core: {found:?}");
}

#[test]
fn the_packages_that_cairn_is_built_upon_are_direct_dependencies() {
    let dependencies = dependencies();
    let uses = |of: &str, on: &str| {
        dependencies.iter().any(|edge| edge.of == of && edge.on == on && edge.kind.is_none())
    };
    for (package, of) in PACKAGES {
        assert!(uses(of, package), "{of} does not depend on {package}");
    }
    let sources = sources();
    for (package, adapter) in NETWORKS {
        let start = format!("crates/platforms/src/{adapter}");
        if sources.iter().any(|(name, _)| name.starts_with(&start)) {
            assert!(uses("cairn-platforms", package), "{adapter} is written without {package}");
        }
    }
}

#[test]
fn the_top_level_holds_what_a_user_looks_for() {
    let tracked = Command::new("git").args(["ls-files"]).current_dir(root()).output();
    let names: BTreeSet<String> = match tracked {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().filter_map(|path| path.split('/').next()).map(str::to_owned).collect()
        }
        // Not a checkout: what lies there, less what a build and its user leave behind.
        _ => {
            let entries = std::fs::read_dir(root()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
            names.filter(|name| !["target", ".git", "config.toml"].contains(&name.as_str())).collect()
        }
    };
    let more: Vec<_> = names.iter().filter(|name| !TOP_LEVEL.contains(&name.as_str())).collect();
    assert!(more.is_empty(), "at the top level, where nobody looks for it: {more:?}");
    let less: Vec<_> = TOP_LEVEL.iter().filter(|name| !root().join(name).exists()).collect();
    assert!(less.is_empty(), "missing at the top level: {less:?}");
}

#[test]
fn every_source_file_opens_with_its_job() {
    let without: Vec<_> =
        sources().into_iter().filter(|(_, text)| !text.starts_with("//! ")).map(|(name, _)| name).collect();
    assert!(without.is_empty(), "no `//!` at the top of {without:?}");
}

#[test]
fn no_test_is_skipped_and_no_lint_silenced_without_a_reason() {
    // Written in two halves, so that this file does not find itself.
    // `.ci/run` runs those that need a part of the machine; the outcome says what they need.
    let without_need = |line: &str| {
        line.contains(concat!("#[", "ignore"))
            && !["PostgreSQL", "Chromium"].iter().any(|part| line.contains(&format!("needs {part}: ")))
    };
    for (name, text) in sources() {
        let skipped: Vec<&str> = text.lines().filter(|line| without_need(line)).collect();
        assert!(skipped.is_empty(), "skipped tests in {name}: {skipped:?}");
    }
    let silenced = lines_with(concat!("[", "allow("));
    assert!(silenced.is_empty(), "silenced; use expect with a reason:\n{silenced}");
    let unfinished = lines_with(concat!("todo", "!(")) + &lines_with(concat!("unimplemented", "!("));
    assert!(unfinished.is_empty(), "unfinished:\n{unfinished}");
    for (name, text) in sources() {
        let marker = concat!("#[", "expect(");
        for (idx, _) in text.match_indices(marker) {
            let attribute = text[idx..].split(")]").next().unwrap_or_default();
            let line = text[..idx].lines().count() + 1;
            assert!(attribute.contains("reason = "), "{name}:{line}: no reason");
        }
    }
}

#[test]
fn what_is_published_speaks_of_the_project_alone() {
    let root = root();
    let names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Cargo.toml", "crates/ARCHITECTURE.md"];
    let mut texts: Vec<PathBuf> = names.map(|name| root.join(name)).into();
    for dir in ["config", "prompts", "deploy", "docs", ".ci"] {
        texts.extend(files(&root.join(dir), ""));
    }
    for path in texts {
        // A picture is read like a text: it names no place either.
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        for place in ["/work/", "/home/", "/root/", "/Users/", "/tmp/"] {
            assert!(!text.contains(place), "{} names {place}, a place of one machine", path.display());
        }
    }
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let sources: BTreeSet<&str> = lock.lines().filter(|line| line.starts_with("source = ")).collect();
    let public = BTreeSet::from(["source = \"registry+https://github.com/rust-lang/crates.io-index\""]);
    assert_eq!(sources, public, "Cargo.lock names another source than the public registry");
}
