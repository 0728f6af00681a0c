//! `[log]` and `[admin]`: what is wrong, and what is probably not meant.

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

#[rstest]
#[case::port_alone("9464")]
#[case::name("localhost:9464")]
#[case::no_port("127.0.0.1")]
#[case::empty("")]
fn what_is_no_address_is_an_error_with_an_example(#[case] listen: &str) {
    let text = error(&format!("[admin]\nlisten = \"{listen}\""));
    assert!(text.contains("config.toml:2:10: `listen`") && text.contains("127.0.0.1:9464"), "{text}");
}

#[test]
fn it_is_off_by_default_and_an_open_address_is_warned_of() {
    assert_eq!(fine("").config.admin.address(), None);
    for (listen, warned) in [("127.0.0.1:9464", false), ("[::1]:0", false), ("0.0.0.0:9464", true)] {
        let loaded = fine(&format!("[admin]\nlisten = \"{listen}\""));
        assert_eq!(loaded.config.admin.address(), listen.parse().ok());
        assert_eq!(loaded.warnings.iter().any(|warning| warning.contains("firewall")), warned, "{listen}");
    }
}
