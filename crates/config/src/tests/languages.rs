//! Languages of the bot's own texts: tags, places, files beside the configuration.

use std::path::Path;

use cairn_types::texts::Key;
use rstest::rstest;

use super::{error, fine};
use crate::{Config, FixedEnvironment, Loaded};

fn agents(text: &str) -> Vec<String> {
    let tags = fine(text).config.agents.into_iter().map(|agent| agent.languages.own.tag().to_owned());
    tags.collect()
}

#[rstest]
#[case::none("", &["en"])]
#[case::of_defaults("[defaults]\nlanguage = \"de\"\n[[agents]]\nid = \"a\"\n[[agents]]\nid = \"b\"\nlanguage = \"ja\"\n", &["de", "ja"])]
#[case::of_a_region("[defaults]\nlanguage = \"pt-BR\"", &["pt"])]
#[case::in_capitals("[defaults]\nlanguage = \"FR\"", &["fr"])]
fn an_agent_speaks_its_language(#[case] text: &str, #[case] tags: &[&str]) {
    assert_eq!(agents(text), tags);
}

#[test]
fn an_unknown_language_is_named_with_those_that_are_known() {
    let message = error("[[agents]]\nid = \"a\"\nlanguage = \"tlh\"\n");
    assert!(message.contains("`language` = \"tlh\" has no texts") && message.contains(":3:12"), "{message}");
    assert!(message.contains("de, en, es, fr, it, ja, pl, pt, ru, uk, zh"), "{message}");
    assert!(message.contains("prompts/texts/tlh.toml"), "{message}");
    let message =
        error("[telegram]\ntoken_env = \"T\"\n[[telegram.places]]\nchat = -100123\nlanguage = \"xx\"\n");
    assert!(message.contains("`language` = \"xx\"") && message.contains(":5:12"), "{message}");
    let message = error(
        "[[bridges]]\nname = \"irc\"\ntoken_env = \"T\"\n[[bridges.places]]\nchat = \"#a\"\nlanguage = \"xx\"\n",
    );
    assert!(message.contains("`language` = \"xx\""), "{message}");
}

#[test]
fn a_place_may_have_another_language_than_its_agent() {
    let config =
        fine("[telegram]\ntoken_env = \"T\"\n[[telegram.places]]\nchat = -100123\nlanguage = \"uk\"\n")
            .config;
    let languages = &config.agents[0].languages;
    assert_eq!((languages.of(None).tag(), languages.of(Some("uk")).tag()), ("en", "uk"));
    assert_eq!(config.telegram[0].policy(&"main".into()).places[0].language.as_deref(), Some("uk"));
}

/// Loads `language = TAG` with these files beside it.
fn with_files(tag: &str, files: &[(&str, &str)]) -> Result<Loaded, String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("prompts/texts")).unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join("prompts/texts").join(name), text).unwrap();
    }
    let file = dir.path().join("config.toml");
    std::fs::write(&file, format!("[defaults]\nlanguage = \"{tag}\"\n")).unwrap();
    Config::load(Some(Path::new(&file)), &FixedEnvironment::new("/")).map_err(|error| error.to_string())
}

#[test]
fn a_file_beside_the_configuration_adds_a_language_or_changes_texts() {
    let loaded = with_files("nl", &[("nl.toml", "help = \"Praat met me:\"\n")]).unwrap();
    let texts = &loaded.config.agents[0].languages.own;
    assert_eq!((texts.tag(), texts.say(Key::Help).as_str()), ("nl", "Praat met me:"));
    assert_eq!(texts.say(Key::Stopped), "Stopped.", "what it leaves out is English");
    assert_eq!(loaded.config.language_files.len(), 1);

    let own = [("de.toml", "stopped = \"Schluss.\"\n")];
    let texts = with_files("de", &own).unwrap().config.agents[0].languages.own.clone();
    assert_eq!(texts.say(Key::Stopped), "Schluss.");
    assert!(texts.say(Key::Help).starts_with("Sprechen Sie"), "the rest stays as it is built in");

    let region = [("pt-BR.toml", "stopped = \"Pronto.\"\n")];
    let texts = with_files("pt-br", &region).unwrap().config.agents[0].languages.own.clone();
    assert_eq!(texts.say(Key::Stopped), "Pronto.");
    assert!(texts.say(Key::Help).starts_with("Converse"), "{}", texts.say(Key::Help));
}

#[test]
fn a_broken_file_is_told_even_if_nothing_names_it() {
    let broken = [("nl.toml", "forgotten = \"Vergeten.\"\n")];
    let message = with_files("en", &broken).err().unwrap();
    assert!(
        message.contains("nl.toml") && message.contains("`forgotten` needs these placeholders"),
        "{message}"
    );
}
