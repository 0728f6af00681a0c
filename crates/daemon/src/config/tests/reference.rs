//! `config/config.toml` is the reference: it says what is built in, and names every key.

use std::path::Path;

use cairn_actors::HouseLimits;
use cairn_core::settings::{PruningSettings, ResultGuardSettings, WindowGuard};
use cairn_core::tier::CompactionSettings;

use super::{fine, load};
use crate::config::Limits;
use crate::config::file::{Table, tables};
use crate::config::keys::fields_of;
use crate::config::overlay::{CompactionKeys, PruningKeys, ResultGuardKeys, WindowGuardKeys};

pub(super) const REFERENCE: &str = include_str!("../../../../../config/config.toml");

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
fn the_reference_names_every_key_of_every_table() {
    let text = with_all_keys();
    let defaults = section(&text, "[defaults]");
    for table in tables().iter().filter(|table| table.name != "the top level") {
        // Any table of the defaults may stand in an agent, too.
        let body = section(&text, &table.name.replace("[agents.", "[defaults."));
        for key in &table.keys {
            // `##` marks the second of two keys of which a model takes one.
            let named = [format!("\n{key} = "), format!("\n##{key} = ")];
            let below = |other: &Table| other.path.split_last() == Some((key, table.path));
            let is_table = *key == "classes" || tables().iter().any(below);
            // Any key of the defaults may stand in an agent: that is said once, in words.
            let inherited = table.name.contains("agents");
            let said = |body: &str| named.iter().any(|line| body.contains(line));
            assert!(
                is_table || said(body) || (inherited && (said(defaults) || text.contains(&named[0]))),
                "`{key}` of {} is not in the reference",
                table.name
            );
        }
    }
}

/// The lines of a table, up to the next header.
fn section<'t>(text: &'t str, header: &str) -> &'t str {
    let from = text.find(&format!("\n{header}\n")).unwrap_or_else(|| panic!("{header} is missing"));
    let body = &text[from + header.len() + 1..];
    body.find("\n[").map_or(body, |end| &body[..end])
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

#[test]
fn every_setting_that_an_agent_may_lay_over_may_be_written() {
    fn sorted(keys: &[&'static str]) -> Vec<&'static str> {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys
    }
    let of = |keys, settings| assert_eq!(sorted(keys), sorted(settings));
    of(fields_of::<CompactionKeys>(), fields_of::<CompactionSettings>());
    of(fields_of::<WindowGuardKeys>(), fields_of::<WindowGuard>());
    of(fields_of::<PruningKeys>(), fields_of::<PruningSettings>());
    of(fields_of::<ResultGuardKeys>(), fields_of::<ResultGuardSettings>());
}

#[test]
fn limits_reach_the_actors_as_they_are() {
    assert_eq!(Limits::default().runtime(), HouseLimits::default());
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
    let env = crate::config::FixedEnvironment::new("/");
    let shown = crate::config::Config::load(Some(&file), &env).unwrap().show();
    assert!(shown.starts_with(&format!("# resolved from {}\n", file.display())), "{shown}");
    assert!(fine("").show().starts_with("# built-in defaults"));
}
