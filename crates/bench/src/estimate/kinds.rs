//! The kinds of text that estimates are measured on: written for it, from this project, or generated.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cairn_testkit::random::Random;

/// Texts in some thirty languages, and of chats and markdown: `# name`, then the text.
const LANGUAGES: &str = include_str!("../../samples/languages.txt");

#[derive(Debug, Clone)]
pub struct Kind {
    pub name: String,
    pub text: String,
}

/// All kinds that need no further files.
pub fn kinds() -> Vec<Kind> {
    let mut kinds: Vec<Kind> = LANGUAGES
        .split("\n# ")
        .filter_map(|section| section.trim_start_matches("# ").split_once('\n'))
        .map(|(name, text)| Kind { name: name.to_owned(), text: text.to_owned() })
        .collect();
    let mut random = Random::new(7);
    let mut add = |name: &str, text: String| kinds.push(Kind { name: name.to_owned(), text });
    add("base64", base64(&mut random, 9000));
    add("hex", hex_lines(&mut random));
    add("json, minified", json(&mut random, false));
    add("json, indented", json(&mut random, true));
    add("ls -l", listing(&mut random));
    add("log", log(&mut random));
    add("csv", csv(&mut random));
    add("rust", own_sources());
    kinds
}

/// Kinds by the extensions of further files.
pub fn from_files(paths: &[&str]) -> std::io::Result<Vec<Kind>> {
    let mut kinds: Vec<Kind> = Vec::new();
    for path in paths {
        let name = Path::new(path).extension().map_or("file".into(), |name| format!("*.{}", name.display()));
        let text = std::fs::read_to_string(path)?;
        match kinds.iter_mut().find(|kind| kind.name == name) {
            Some(kind) => kind.text.push_str(&text),
            None => kinds.push(Kind { name, text }),
        }
    }
    Ok(kinds)
}

fn hex(random: &mut Random, len: usize) -> String {
    (0..len).map(|_| char::from(b"0123456789abcdef"[random.below(16) as usize])).collect()
}

fn uuid(random: &mut Random) -> String {
    [8, 4, 4, 4, 12].map(|len| hex(random, len)).join("-")
}

fn base64(random: &mut Random, len: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..len).map(|_| char::from(LETTERS[random.below(64) as usize])).collect()
}

fn hex_lines(random: &mut Random) -> String {
    let mut out = String::new();
    for nth in 0..60 {
        let line = if nth % 3 == 0 { uuid(random) } else { hex(random, 64) };
        let _ = writeln!(out, "{line}  {}", random.of(FILES));
    }
    out
}

const FILES: &[&str] = &[
    "Cargo.lock",
    "README.md",
    "main.rs",
    "notes_2026-11-02.txt",
    "IMG_4711.jpeg",
    "backup.tar.gz",
    "index.html",
    "libfoo.so.1.2",
    "report-final(2).pdf",
    "Makefile",
    ".gitignore",
    "server.log",
    "data.csv",
    "photos",
    "node_modules",
];

const WORDS: &[&str] = &[
    "river", "garden", "invoice", "window", "teacher", "engine", "holiday", "button", "market", "silver",
    "answer", "bridge", "kitchen", "letter", "mountain", "number", "office", "picture", "question",
    "station",
];

fn json(random: &mut Random, indented: bool) -> String {
    let items: Vec<serde_json::Value> = (0..40)
        .map(|_| {
            serde_json::json!({
                "id": uuid(random),
                "createdAt": format!("2026-{:02}-{:02}T{:02}:{:02}:{:02}Z", 1 + random.below(12), 1 + random.below(28),
                    random.below(24), random.below(60), random.below(60)),
                "user_id": random.below(10_000_000),
                "title": format!("{} {}", random.of(WORDS), random.of(WORDS)),
                "price": random.below(100_000) as f64 / 100.0,
                "tags": [random.of(WORDS), random.of(WORDS)],
                "isActive": random.below(2) == 1,
                "owner": {"name": random.of(&["Anna", "Ben", "Chloé", "Dmitri"]), "email": null},
                "url": format!("https://example.org/{}/{}?page={}", random.of(WORDS), hex(random, 8), random.below(100)),
            })
        })
        .collect();
    let text = if indented { serde_json::to_string_pretty(&items) } else { serde_json::to_string(&items) };
    text.unwrap_or_default()
}

fn listing(random: &mut Random) -> String {
    let mut out = String::from("total 18244\n");
    for _ in 0..120 {
        let mode = random.of(&["-rw-r--r--", "drwxr-xr-x", "-rwxr-xr-x", "lrwxrwxrwx", "-rw-------"]);
        let digits = 1 + random.below(7) as u32;
        let size = random.below(10u64.pow(digits));
        let month = random.of(&["Jan", "Mar", "May", "Aug", "Oct", "Nov"]);
        let _ = writeln!(
            out,
            "{mode} {:>2} {} {:<6} {size:>8} {month} {:>2} {:02}:{:02} {}",
            1 + random.below(12),
            random.of(&["root", "anna", "www-data"]),
            random.of(&["root", "users", "staff"]),
            1 + random.below(28),
            random.below(24),
            random.below(60),
            random.of(FILES),
        );
    }
    out
}

fn log(random: &mut Random) -> String {
    let mut out = String::new();
    for _ in 0..80 {
        let _ = writeln!(
            out,
            "2026-11-{:02}T{:02}:{:02}:{:02}.{:06}Z {:>5} app::{}: {} finished request_id={} status={} elapsed_ms={}",
            1 + random.below(28),
            random.below(24),
            random.below(60),
            random.below(60),
            random.below(1_000_000),
            random.of(&["INFO", "WARN", "DEBUG", "ERROR"]),
            random.of(WORDS),
            random.of(WORDS),
            hex(random, 16),
            random.of(&["200", "404", "500"]),
            random.below(5000),
        );
    }
    out
}

fn csv(random: &mut Random) -> String {
    let mut out = String::from("date,name,city,amount,balance,note\n");
    for _ in 0..120 {
        let _ = writeln!(
            out,
            "2026-{:02}-{:02},{},{},{}.{:02},-{}.5,\"{} {}\"",
            1 + random.below(12),
            1 + random.below(28),
            random.of(&["Anna", "Ben", "Carla", "Dmitri"]),
            random.of(&["Graz", "Leeds", "Porto", "Uppsala"]),
            random.below(5000),
            random.below(100),
            random.below(900),
            random.of(WORDS),
            random.of(WORDS),
        );
    }
    out
}

/// The sources of core, as far as they are there.
fn own_sources() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
    let mut files: Vec<PathBuf> = std::fs::read_dir(root)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    let rust = files.iter().filter(|path| path.extension().is_some_and(|name| name == "rs"));
    rust.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}
