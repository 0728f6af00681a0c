//! `cairn memory`: added, seen again, corrected, forgotten.

use crate::e2e::home;

#[test]
fn a_memory_lives_from_add_to_forget() {
    let home = home::new();
    let add = ["memory", "add", "The ferry leaves at noon.", "--kind", "fact", "--scope", "agent", "--json"];
    let added = home.cairn(&add).ended(0).json();
    let id = added["id"].as_str().unwrap();
    assert_eq!(added["source"]["model"], "operator");
    assert_eq!((added["sightings"].as_u64(), added["kind"].as_str()), (Some(1), Some("fact")));
    let again = home.cairn(&add).ended(0).json();
    assert_eq!((again["id"].as_str(), again["sightings"].as_u64()), (Some(id), Some(2)));

    let edited = home.cairn(&["memory", "edit", id, "The ferry leaves at one.", "--json"]).ended(0).json();
    assert_eq!(edited["text"], "The ferry leaves at one.");
    let shown = home.cairn(&["memory", "show", id, "--json"]).ended(0).json();
    assert_eq!(shown, edited);
    for key in [
        "id",
        "agent",
        "scope",
        "kind",
        "text",
        "subject",
        "importance",
        "sightings",
        "source",
        "created_at",
        "updated_at",
        "recalled_at",
        "uses",
        "superseded_by",
    ] {
        assert!(shown.as_object().unwrap().contains_key(key), "{key} in {shown}");
    }
    let found = home.cairn(&["memory", "search", "ferry one", "--json"]).ended(0).json();
    assert_eq!(found[0]["id"], id);

    home.cairn(&["memory", "forget", id]).ended(0);
    home.cairn(&["memory", "show", id]).ended(4);
    assert_eq!(home.cairn(&["memory", "list", "--json"]).ended(0).json(), serde_json::json!([]));
}

#[test]
fn a_filter_lets_through_what_it_names() {
    let home = home::new();
    for (text, kind, scope) in [
        ("Ann rows.", "fact", "agent"),
        ("Bo prefers tea.", "preference", "chat:local/main"),
        ("We meet on Friday.", "decision", "chat:local/ops"),
    ] {
        home.cairn(&["memory", "add", text, "--kind", kind, "--scope", scope, "--subject", "Ann"]).ended(0);
    }
    let texts = |args: &[&str]| {
        let mut all = vec!["memory", "list", "--json"];
        all.extend(args);
        let list = home.cairn(&all).ended(0).json();
        let texts = list.as_array().unwrap().iter().map(|memory| memory["text"].as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(&[]), ["Ann rows.", "Bo prefers tea.", "We meet on Friday."]);
    assert_eq!(texts(&["--scope", "chat:local/main"]), ["Bo prefers tea."]);
    assert_eq!(texts(&["--kind", "decision"]), ["We meet on Friday."]);
    assert_eq!(texts(&["--subject", "nobody"]), Vec::<String>::new());
    assert_eq!(texts(&["--limit", "1"]), ["Ann rows."]);
}

#[test]
fn an_empty_or_bad_memory_is_refused() {
    let home = home::new();
    let bad = |args: &[&str], code| {
        let mut all = vec!["memory", "add"];
        all.extend(args);
        let run = home.cairn(&all).ended(code);
        assert!(run.stderr.starts_with("error: "), "{run:?}");
    };
    bad(&[" ", "--kind", "fact", "--scope", "agent"], 2);
    bad(&["x", "--kind", "fact", "--scope", "agent", "--importance", "2"], 2);
    bad(&["x", "--kind", "fact", "--scope", "agent", "--agent", "nobody"], 4);
    bad(&["x", "--kind", "thing", "--scope", "agent"], 2);
}
