//! Levels of the log: what is wrong, and what is probably not meant.

use rstest::rstest;

use super::{error, fine};

#[rstest]
#[case::misspelt("inof", "did you mean `info`?")]
#[case::misspelt_of_a_module("info,cairn_store=debgu", "did you mean `debug`?")]
#[case::nothing_near("info,cairn_store=loudly", "write error, warn, info, debug or trace")]
#[case::empty("", "is not a level of the log")]
#[case::trailing("info,", "is not a level of the log")]
fn nonsense_is_an_error_with_a_remedy(#[case] level: &str, #[case] said: &str) {
    let text = error(&format!("[log]\nlevel = \"{level}\""));
    assert!(text.contains("config.toml:2:9: `level`") && text.contains(said), "{text}");
}

#[rstest]
#[case::plain("debug", None)]
#[case::modules("warn,cairn_store=debug,cairn_actors::channel=trace", None)]
#[case::all_of_ours("warn,cairn=debug", None)]
#[case::misspelt("info,cairn_stoer=debug", Some("did you mean `cairn_store`?"))]
#[case::none("info,cairn_of_nobody_at_all=debug", Some("there are cairn_actors, "))]
#[case::library("info,hyper::client=trace", Some("only cairn's own modules are logged"))]
fn modules_that_never_speak_are_warned_of(#[case] level: &str, #[case] said: Option<&str>) {
    let warnings = fine(&format!("[log]\nlevel = \"{level}\"")).warnings;
    match said {
        None => assert!(warnings.is_empty(), "{warnings:?}"),
        Some(said) => assert!(warnings.len() == 1 && warnings[0].contains(said), "{warnings:?}"),
    }
}
