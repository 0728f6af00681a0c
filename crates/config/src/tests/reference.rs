//! `config/config.toml` is the reference: it is made from the types, says what is built in, and names every key.

use std::path::Path;

use cairn_core::agent::RuntimeLimits;
use serde_json::{Value, json};

use super::{fine, load};
use crate::Limits;
use crate::schema::{SCHEMA, TABLES, Table, schema_at};

pub(super) const REFERENCE: &str = include_str!("../../../../config/config.toml");

const HEAD: &str = "\
# Cairn's configuration reference: every key with its default, meaning and unit.
#
# Cairn looks for its configuration in this order: --config FILE, $CAIRN_CONFIG, $CONFIGURATION_DIRECTORY/config.toml,
# ./config.toml, $XDG_CONFIG_HOME/cairn/config.toml (~/.config/cairn/config.toml). Without any of them, it uses the
# defaults below: one agent `main` that answers offline. A file only needs the keys that it changes.
#
# Relative paths start at the folder of this file. `#key = …` is a key that is not set by default, with an example.
# `##key = …` is one for another set-up than the example above it, such as a key file instead of a variable.
# `cairn config check` reports errors in a file; `cairn config show` prints the result with all defaults filled in.
";

/// Of an agent's keys, which are those of `[defaults]`, as many as show how they are written.
const AGENT: &str = "\
#id = \"main\"
#models = [\"main\"]
#context_window = 24000

#[agents.compaction]
#background_threshold = 0.70
";

/// Longest line of the reference, in characters.
const WIDTH: usize = 120;

fn comment(words: &str) -> String {
    let mut out = String::from("#");
    let mut width = 1;
    for word in words.split_whitespace() {
        if width + 1 + word.chars().count() > WIDTH {
            out.push_str("\n#");
            width = 1;
        }
        out.push(' ');
        out.push_str(word);
        width += 1 + word.chars().count();
    }
    out + "\n"
}

fn headline(words: &str) -> String {
    format!("# ---- {words} {}\n", "-".repeat(WIDTH.saturating_sub(words.chars().count() + 8)))
}

/// The reference, from the schema of the types.
fn generated() -> String {
    let mut out = HEAD.to_owned();
    for table in TABLES.iter().filter(|table| !table.path.starts_with("agents.")) {
        let (above, key) = table.path.rsplit_once('.').unwrap_or(("", &table.path));
        let said = schema_at(&SCHEMA, above)["properties"][key]["description"].as_str().unwrap_or_default();
        if !table.path.is_empty() {
            out.push('\n');
        }
        if above.is_empty() && !said.is_empty() {
            let (words, more) = said.split_once("\n\n").unwrap_or((said, ""));
            out.push_str(&headline(words));
            if !more.is_empty() {
                out.push_str(&comment(more));
            }
            out.push('\n');
        } else if table.name().starts_with("[[")
            && !table.path.starts_with("telegram")
            && !table.path.starts_with("bridges")
        {
            out.push_str(&comment(said));
        }
        out.push_str(&lines_of(table));
    }
    out
}

/// A table with its keys.
fn lines_of(table: &Table) -> String {
    let root = table.path.split('.').next().unwrap();
    // Their keys are explained at [discord], but for those that it does not have.
    let own_mark = match root {
        "telegram" => Some("x-telegram-only"),
        "bridges" => Some("x-bridges-only"),
        _ => None,
    };
    let is_brief = own_mark.is_some();
    // Without one of these tables there is no such thing: all of it is an example.
    let is_example = ["models", "agents", "mcp", "schedules", "discord", "telegram", "bridges", "openai_api"]
        .contains(&root);
    let (mut out, mut before) = (String::new(), None);
    if !table.path.is_empty() {
        out = format!("{}{}\n", if is_example { "#" } else { "" }, table.name());
    }
    for key in &table.keys {
        let schema = &schema_at(&SCHEMA, &table.path)["properties"][key];
        if schema["properties"].is_object() || schema["items"]["properties"].is_object() {
            continue;
        }
        let said = schema["description"].as_str();
        let is_told = own_mark.is_none_or(|mark| schema[mark] == true);
        if is_brief && !is_told && before.take().is_some() {
            out.push('\n');
        }
        if said != before && is_told && !table.path.ends_with(".places") {
            out.push_str(if before.is_some() || table.path.is_empty() || is_brief { "\n" } else { "" });
            out.push_str(&comment(said.unwrap_or_default()));
            before = said;
        }
        if table.path == "agents" {
            return out + AGENT;
        }
        let for_it = is_brief.then(|| schema.get(format!("x-{root}"))).flatten();
        let example = for_it.or_else(|| schema["examples"].get(0));
        let (default, none) = (schema.get("default"), json!({}));
        let (mark, value) = match (is_example, default, example) {
            (false, Some(default), _) => ("", default),
            (_, default, example) if schema["x-alternative"] == true => ("##", example.or(default).unwrap()),
            (true, default, example) => ("#", example.or(default).unwrap()),
            (false, None, Some(example)) => ("#", example),
            (false, None, None) => ("", &none),
        };
        out.push_str(&format!("{mark}{key} = {}\n", toml::Value::try_from(value).unwrap()));
    }
    out
}

/// `CAIRN_WRITE_REFERENCE=1 cargo test -p cairn-config reference` writes it.
#[test]
#[expect(clippy::disallowed_methods, reason = "whoever runs the test says whether to write the file")]
fn the_reference_is_made_from_the_types() {
    let generated = generated();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/config.toml");
    if std::env::var_os("CAIRN_WRITE_REFERENCE").is_some() {
        std::fs::write(file, &generated).unwrap();
        return;
    }
    let written = std::fs::read_to_string(file).unwrap();
    let differs = generated.lines().zip(written.lines()).find(|(made, written)| made != written);
    assert_eq!(
        differs, None,
        "config/config.toml is not what the types say: set CAIRN_WRITE_REFERENCE=1 to write it"
    );
    assert_eq!(generated.len(), written.len());
}

/// The reference with the keys that are not set by default switched on.
pub(super) fn with_all_keys() -> String {
    let prompts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../prompts");
    let on = REFERENCE.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => key,
        _ => line,
    });
    let on = on.collect::<Vec<_>>().join("\n");
    on.replace("\"prompts/", &format!("\"{}/", prompts.display()))
}

#[test]
fn the_reference_equals_the_built_in_defaults() {
    let written = fine(REFERENCE);
    assert_eq!(written.config, fine("").config);
    assert!(written.warnings.is_empty(), "{:?}", written.warnings);
}

#[test]
fn the_reference_with_its_examples_switched_on_is_a_valid_file() {
    let loaded = load(&with_all_keys()).unwrap_or_else(|error| panic!("{error}"));
    let agent = &loaded.config.agents[0];
    assert_eq!(agent.model(), "main");
    assert_eq!(agent.compaction.background_threshold, 0.70);
    assert_eq!(
        agent.compaction.aggressive_threshold, 0.85,
        "each key by itself takes the place of the default"
    );
}

/// The tables of the schema, by the keys on the way to each.
fn tables_of(schema: &Value, path: &str, out: &mut Vec<String>) {
    out.push(path.to_owned());
    for (key, below) in schema["properties"].as_object().unwrap() {
        let below = below.get("items").unwrap_or(below);
        if below["properties"].is_object() {
            tables_of(below, format!("{path}.{key}").trim_start_matches('.'), out);
        }
    }
}

#[test]
fn no_table_of_the_types_is_left_out() {
    let mut derived = Vec::new();
    tables_of(&SCHEMA, "", &mut derived);
    let mut listed: Vec<_> = TABLES.iter().map(|table| table.path.clone()).collect();
    listed.sort();
    derived.sort();
    assert_eq!(listed, derived);
}

#[test]
fn limits_reach_the_actors_as_they_are() {
    assert_eq!(Limits::default().runtime(), RuntimeLimits::default());
}

#[test]
fn what_show_prints_resolves_to_the_same_configuration() {
    for text in ["", &with_all_keys()] {
        let loaded = fine(text);
        let shown = loaded.show();
        let again = fine(&shown);
        assert_eq!(again.config, loaded.config, "{shown}");
    }
}

#[test]
fn show_names_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, "").unwrap();
    let env = crate::FixedEnvironment::new("/");
    let shown = crate::Config::load(Some(&file), &env).unwrap().show();
    assert!(shown.starts_with(&format!("# resolved from {}\n", file.display())), "{shown}");
    assert!(fine("").show().starts_with("# built-in defaults"));
}
