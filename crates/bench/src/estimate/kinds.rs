//! The kinds of text that estimates are measured on: written for it, from this project, or generated.

use std::fmt::Write;
use std::path::{Path, PathBuf};

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
    let mut chance = Chance(7);
    let mut add = |name: &str, text: String| kinds.push(Kind { name: name.to_owned(), text });
    add("base64", base64(&mut chance, 9000));
    add("hex", hex_lines(&mut chance));
    add("json, minified", json(&mut chance, false));
    add("json, indented", json(&mut chance, true));
    add("ls -l", listing(&mut chance));
    add("log", log(&mut chance));
    add("csv", csv(&mut chance));
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

/// A small generator of numbers: the same sequence at every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn hex(&mut self, len: usize) -> String {
        (0..len).map(|_| char::from(b"0123456789abcdef"[self.below(16) as usize])).collect()
    }

    fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|len| self.hex(len)).join("-")
    }
}

fn base64(chance: &mut Chance, len: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..len).map(|_| char::from(LETTERS[chance.below(64) as usize])).collect()
}

fn hex_lines(chance: &mut Chance) -> String {
    let mut out = String::new();
    for nth in 0..60 {
        let line = if nth % 3 == 0 { chance.uuid() } else { chance.hex(64) };
        let _ = writeln!(out, "{line}  {}", chance.of(FILES));
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

fn json(chance: &mut Chance, indented: bool) -> String {
    let items: Vec<serde_json::Value> = (0..40)
        .map(|_| {
            serde_json::json!({
                "id": chance.uuid(),
                "createdAt": format!("2026-{:02}-{:02}T{:02}:{:02}:{:02}Z", 1 + chance.below(12), 1 + chance.below(28),
                    chance.below(24), chance.below(60), chance.below(60)),
                "user_id": chance.below(10_000_000),
                "title": format!("{} {}", chance.of(WORDS), chance.of(WORDS)),
                "price": chance.below(100_000) as f64 / 100.0,
                "tags": [chance.of(WORDS), chance.of(WORDS)],
                "isActive": chance.below(2) == 1,
                "owner": {"name": chance.of(&["Anna", "Ben", "Chloé", "Dmitri"]), "email": null},
                "url": format!("https://example.org/{}/{}?page={}", chance.of(WORDS), chance.hex(8), chance.below(100)),
            })
        })
        .collect();
    let text = if indented { serde_json::to_string_pretty(&items) } else { serde_json::to_string(&items) };
    text.unwrap_or_default()
}

fn listing(chance: &mut Chance) -> String {
    let mut out = String::from("total 18244\n");
    for _ in 0..120 {
        let mode = chance.of(&["-rw-r--r--", "drwxr-xr-x", "-rwxr-xr-x", "lrwxrwxrwx", "-rw-------"]);
        let digits = 1 + chance.below(7) as u32;
        let size = chance.below(10u64.pow(digits));
        let month = chance.of(&["Jan", "Mar", "May", "Aug", "Oct", "Nov"]);
        let _ = writeln!(
            out,
            "{mode} {:>2} {} {:<6} {size:>8} {month} {:>2} {:02}:{:02} {}",
            1 + chance.below(12),
            chance.of(&["root", "anna", "www-data"]),
            chance.of(&["root", "users", "staff"]),
            1 + chance.below(28),
            chance.below(24),
            chance.below(60),
            chance.of(FILES),
        );
    }
    out
}

fn log(chance: &mut Chance) -> String {
    let mut out = String::new();
    for _ in 0..80 {
        let _ = writeln!(
            out,
            "2026-11-{:02}T{:02}:{:02}:{:02}.{:06}Z {:>5} app::{}: {} finished request_id={} status={} elapsed_ms={}",
            1 + chance.below(28),
            chance.below(24),
            chance.below(60),
            chance.below(60),
            chance.below(1_000_000),
            chance.of(&["INFO", "WARN", "DEBUG", "ERROR"]),
            chance.of(WORDS),
            chance.of(WORDS),
            chance.hex(16),
            chance.of(&["200", "404", "500"]),
            chance.below(5000),
        );
    }
    out
}

fn csv(chance: &mut Chance) -> String {
    let mut out = String::from("date,name,city,amount,balance,note\n");
    for _ in 0..120 {
        let _ = writeln!(
            out,
            "2026-{:02}-{:02},{},{},{}.{:02},-{}.5,\"{} {}\"",
            1 + chance.below(12),
            1 + chance.below(28),
            chance.of(&["Anna", "Ben", "Carla", "Dmitri"]),
            chance.of(&["Graz", "Leeds", "Porto", "Uppsala"]),
            chance.below(5000),
            chance.below(100),
            chance.below(900),
            chance.of(WORDS),
            chance.of(WORDS),
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
