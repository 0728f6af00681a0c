//! README, docs and the other pages: the program takes every command line in them, every configuration in them passes its
//! check, every link leads somewhere, and the quick starts of the README do what they say.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cairn_testkit::discord::FakeDiscord;
use cairn_testkit::home::{Home, Run};
use cairn_testkit::model::FakeModel;
use cairn_testkit::telegram::FakeTelegram;

use crate::home;

/// Programs beside `cairn` that the pages call. Scripts of this repository have tests of their own or are the gate itself.
const OTHERS: [&str; 16] = [
    ".ci/release",
    ".ci/run",
    "apt",
    "cargo build",
    "cargo test",
    "curl",
    "deploy/image.sh",
    "deploy/install.sh",
    "deploy/package.sh",
    "deploy/static.sh",
    "echo",
    "journalctl",
    "jq",
    "podman load",
    "ssh",
    "systemctl",
];

struct Page {
    name: String,
    text: String,
}

/// A fenced block of a page.
struct Block {
    place: String,
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn pages() -> Vec<Page> {
    let mut names: Vec<String> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "crates/ARCHITECTURE.md"].map(str::to_owned).into();
    for dir in ["docs/src", "docs/design"] {
        for entry in std::fs::read_dir(root().join(dir)).unwrap() {
            names.push(format!("{dir}/{}", entry.unwrap().file_name().to_string_lossy()));
        }
    }
    names.sort();
    let read = |name: String| Page { text: std::fs::read_to_string(root().join(&name)).unwrap(), name };
    names.into_iter().filter(|name| name.ends_with(".md")).map(read).collect()
}

fn page(name: &str) -> Page {
    pages().into_iter().find(|page| page.name == name).unwrap()
}

impl Page {
    /// Its fenced blocks, and its lines outside of them.
    fn parts(&self) -> (Vec<Block>, String) {
        let (mut blocks, mut rest) = (Vec::new(), String::new());
        let mut open: Option<Block> = None;
        for (idx, line) in self.text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(language), None) => {
                    let place = format!("{}:{}", self.name, idx + 1);
                    open = Some(Block { place, language: language.to_owned(), text: String::new() });
                }
                (None, Some(block)) => block.text += &format!("{}\n", line.trim_start()),
                (None, None) => rest += &format!("{line}\n"),
            }
        }
        assert!(open.is_none(), "{}: a block has no end", self.name);
        (blocks, rest)
    }

    fn blocks(&self, language: &str) -> Vec<Block> {
        let found: Vec<_> = self.parts().0.into_iter().filter(|block| block.language == language).collect();
        assert!(found.iter().all(|block| !block.text.trim().is_empty()), "{}: an empty block", self.name);
        found
    }
}

impl Block {
    /// Its commands in words, as a shell would read them.
    fn commands(&self) -> Vec<Vec<String>> {
        let joined = self.text.replace("\\\n", " ");
        joined.lines().flat_map(commands).collect()
    }
}

/// The commands of a line: quotes, comments, `&&`, `|` and `>` are all of a shell that the pages use.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    for letter in line.chars().chain([' ']) {
        match (letter, quote) {
            (end, Some(open)) if end == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            (' ', None) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    assert!(quote.is_none(), "a quote is open: {line}");
    words.extend(word);
    for part in words.split(|word| word == "&&" || word == "|") {
        let part = part.iter().take_while(|word| *word != ">").cloned().collect::<Vec<_>>();
        all.extend((!part.is_empty()).then_some(part));
    }
    all
}

/// The arguments of a command that is `cairn`, however it is called; else nothing.
fn arguments(words: &[String]) -> Option<Vec<&str>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sudo", "-u", "cairn", "cairn", args @ ..]
        | ["sudo", "cairn", args @ ..]
        | ["cairn" | "target/release/cairn" | "target/debug/cairn", args @ ..]
        | ["cargo", "run", "--release", "--", args @ ..] => Some(args.to_vec()),
        _ => None,
    }
}

/// What is shown to people at their pace, without it.
fn at_once(args: Vec<&str>) -> Vec<&str> {
    if args == ["demo"] { vec!["demo", "--fast"] } else { args }
}

/// A home with a conversation `main` and the files that the pages name.
fn lived_in() -> Home {
    let home = home();
    home.cairn_with(&["chat"], b"Let us build the shed in May.\n").ended(0);
    home.file("talk.jsonl", "{\"user\": \"ada\", \"text\": \"hello\"}\n");
    for name in ["discord.token", "discord-work.token", "telegram.token", "openai.key", "anthropic.key"] {
        home.secret(name, &format!("123:{name}"));
    }
    for name in ["plan.pdf", "photo.jpg", "a.png"] {
        home.file(name, "by its name");
    }
    home.secret("desk.key", "sk-0123456789abcdef");
    home.secret("irc-bridge.token", "the-token-of-the-irc-bridge");
    home.secret("matrix-bridge.token", "the-token-of-the-matrix-bridge");
    home
}

#[test]
fn the_program_takes_every_command_that_the_pages_mention() {
    let home = home();
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for page in pages() {
        let (blocks, prose) = page.parts();
        let mentioned = prose.replace('\n', " ");
        let spans = mentioned.split('`').skip(1).step_by(2);
        let spans = spans.filter(|span| ["cairn ", "sudo "].iter().any(|start| span.starts_with(start)));
        let spans = spans.flat_map(commands);
        let in_blocks = blocks.iter().filter(|block| block.language == "sh").flat_map(Block::commands);
        for words in spans.chain(in_blocks) {
            if let Some(args) = arguments(&words)
                && seen.insert(words.clone())
            {
                // As far as it reads its arguments before it does anything.
                let run = home.cairn(&[&args, &["--help"][..]].concat());
                wrong.extend((run.code != 0).then_some((page.name.clone(), words, run.stderr)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen.len() > 60, "only {} commands found", seen.len());
}

/// Each line of a `sh` block is run, in a state with a conversation. It may find nothing (4) or fail, as where no daemon runs
/// (1); it may not be wrong usage, hang or find damage.
#[test]
fn every_command_line_of_the_pages_runs() {
    let home = lived_in();
    let state = home.state().display().to_string();
    let backup = home.path("backup").display().to_string();
    for page in pages() {
        for block in page.blocks("sh") {
            for words in block.commands() {
                let Some(args) = arguments(&words) else {
                    let line = words.join(" ");
                    let line = line.strip_prefix("sudo ").unwrap_or(&line);
                    let known = OTHERS.iter().any(|other| line.starts_with(other));
                    assert!(known, "{}: nothing checks `{line}`", block.place);
                    continue;
                };
                // The first two are run by the quick starts; the last one needs a database.
                if matches!(args[..], ["init" | "run", ..] | ["store", "move", ..]) {
                    continue;
                }
                let place = |arg| match arg {
                    "/var/lib/cairn" => state.as_str(),
                    "/srv/backups/monday" => backup.as_str(),
                    arg => arg,
                };
                let args = at_once(args.into_iter().map(place).collect());
                let run = home.cairn(&args);
                let fine = [0, 1, 4].contains(&run.code) && !run.stderr.contains("panicked");
                assert!(fine, "{}: cairn {}: {run:?}", block.place, args.join(" "));
            }
        }
    }
}

#[test]
fn every_configuration_of_the_pages_passes_its_check() {
    let home = lived_in();
    home.secret("database.password", "hush");
    let (mut checked, mut wrong) = (0, Vec::new());
    for block in pages().iter().flat_map(|page| page.blocks("toml")) {
        let file = home.file("page.toml", &block.text);
        let run = home.cairn(&["config", "check", file.to_str().unwrap()]);
        // The folder of a model is on nobody's machine yet.
        let is_missing_model =
            run.stderr.starts_with("error: [embeddings]: cannot read /var/lib/cairn-models/");
        wrong.extend((run.code != 0 && !is_missing_model).then_some((block.place, run.stderr)));
        checked += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 15, "only {checked} configurations found");
}

/// How a heading is called in a link.
fn slug(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn every_link_leads_somewhere_and_the_summary_names_every_page() {
    for page in pages() {
        let (_, prose) = page.parts();
        let here = root().join(&page.name);
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { here.clone() } else { here.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", page.name);
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(target).unwrap();
                let there = text.lines().any(|line| line.starts_with('#') && slug(line) == anchor);
                assert!(there, "{}: {link} has no such heading", page.name);
            }
        }
    }
    let summary = page("docs/src/SUMMARY.md").text;
    for page in pages() {
        if let Some(name) = page.name.strip_prefix("docs/src/")
            && name != "SUMMARY.md"
        {
            assert!(summary.contains(&format!("({name})")), "SUMMARY.md does not name {name}");
        }
    }
}

/// What the page on troubleshooting quotes is what the program says; `…` stands for what differs.
#[test]
fn every_message_that_the_pages_explain_is_one_of_the_programs() {
    let mut source = std::fs::read_to_string(root().join("prompts/texts/en.toml")).unwrap();
    for file in every_file(&root().join("crates")).iter().filter(|file| file.contains("/src/")) {
        source += &std::fs::read_to_string(file).unwrap();
    }
    // A text that goes on in the next line.
    let source = source.split("\\\n").map(str::trim_start).collect::<String>();
    let page = page("docs/src/troubleshooting.md");
    let quoted = page.text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let quoted = quoted.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let pieces: Vec<_> = quoted.flat_map(|span| span.split('…')).map(str::trim).collect();
    let pieces = pieces.iter().map(|piece| piece.trim_matches([',', ';', ':', '.', ' ']));
    let unknown: Vec<_> = pieces.filter(|piece| piece.len() > 3 && !source.contains(piece)).collect();
    assert!(unknown.is_empty(), "the program says none of {unknown:#?}");
}

fn every_file(dir: &Path) -> Vec<String> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(every_file(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            out.push(path.display().to_string());
        }
    }
    out
}

/// Where the source is moved or renamed, what the pages for developers say of it follows.
#[test]
fn every_source_file_that_the_pages_name_is_there() {
    let files = every_file(&root().join("crates"));
    let mut gone = Vec::new();
    for page in pages().iter().filter(|page| !page.name.starts_with("docs/src")) {
        let prose = page.parts().1.replace('\n', " ");
        for name in prose.split('`').skip(1).step_by(2).filter(|span| span.ends_with(".rs")) {
            // `*` stands for each of some folders.
            let end = name.rsplit("*/").next().unwrap_or(name);
            let end = format!("/{end}");
            if !files.iter().any(|file| file.ends_with(&end)) {
                gone.push((page.name.clone(), name.to_owned()));
            }
        }
    }
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for dir in ["docs/design/", "docs/src/"] {
            for (idx, _) in text.match_indices(dir) {
                let name = text[idx..].split_once(".md").map_or("", |(name, _)| name);
                let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "/-".contains(c));
                if !name.is_empty() && is_name && !root().join(format!("{name}.md")).exists() {
                    gone.push((file.clone(), format!("{name}.md")));
                }
            }
        }
    }
    assert!(gone.is_empty(), "no such files: {gone:#?}");
}

/// Runs a command of the README, with what stands for servers elsewhere in its place.
fn follow(home: &Home, words: &[String], elsewhere: &str, input: &[u8]) -> Run {
    let mut args = at_once(arguments(words).unwrap());
    if args.contains(&"ollama") {
        args.extend(["--base-url", elsewhere]);
    }
    // No daemon runs here, and the status says so by its code.
    home.cairn_with(&args, input).ended(i32::from(args == ["status"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quick_starts_of_the_readme_do_what_they_say() {
    let readme = page("README.md");
    let commands: Vec<_> = readme.blocks("sh").iter().map(Block::commands).collect();
    let [first, models, looks, explains] = commands.as_slice() else {
        panic!("{} blocks of commands", commands.len())
    };

    let offline = home();
    let run = follow(&offline, &first[0], "", b"");
    assert!(run.stdout.contains("Nothing is lost."), "{run:?}");
    let run = follow(&offline, &first[1], "", b"My name is Ada, and I prefer tea.\nWhat do I prefer?\n");
    assert!(run.stdout.contains("tea"), "{run:?}");

    let home = home();
    let model = FakeModel::builder().advertise(64_000).start().await;
    for words in models {
        let run = follow(&home, words, &model.base_url(), b"Where is the shed?\n");
        assert!(!run.stdout.trim().is_empty(), "{run:?}");
    }
    for words in looks {
        follow(&home, words, "", b"");
    }
    for words in explains {
        let run = follow(&home, words, "", b"");
        assert!(run.stdout.contains("Where is the shed?") && !run.stderr.contains("not exact"), "{run:?}");
    }

    let (discord, telegram) = (FakeDiscord::start().await, FakeTelegram::start().await);
    discord.guild(1_122_334_455_667_788_990);
    let config = home.path(".config/cairn/config.toml");
    let mut text = std::fs::read_to_string(&config).unwrap();
    for (block, api) in readme.blocks("toml").iter().zip([discord.api_url(), telegram.api_url()]) {
        text += &format!("\n{}api_url = \"{api}\"\n", block.text);
    }
    std::fs::write(&config, text).unwrap();
    home.secret(".config/cairn/discord.token", discord.token());
    home.secret(".config/cairn/telegram.token", telegram.token());
    let daemon = home.daemon(Some(&config)).await;
    home.cairn(&["doctor"]).ended(0);
    curl(&home);
    daemon.stop().await.unwrap();
}

/// The call of the HTTP page, where `curl` is installed, to the daemon of this home.
fn curl(home: &Home) {
    let call = &page("docs/src/http-api.md").blocks("sh")[0].text;
    let socket = home.state().join("cairn.sock").display().to_string();
    let call = call.replace("~/.local/share/cairn/cairn.sock", &socket);
    let Ok(said) = Command::new("sh").args(["-c", &call]).output() else { return };
    // 127: no curl.
    if said.status.code() != Some(127) {
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.contains("\"reply\"") || said.contains("\"text\""), "{said}");
    }
}
