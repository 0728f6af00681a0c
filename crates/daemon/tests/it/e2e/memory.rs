//! `cairn memory`: added, seen again, corrected, forgotten.

use crate::home;

#[test]
fn a_memory_lives_from_add_to_forget() {
    let home = home();
    let add = ["memory", "add", "The ferry leaves at noon.", "--kind", "fact", "--scope", "agent"];
    let added = home.json(&add);
    let id = added["id"].as_str().unwrap();
    assert_eq!(added["source"]["model"], "operator");
    assert_eq!((added["sightings"].as_u64(), added["kind"].as_str()), (Some(1), Some("fact")));
    let again = home.json(&add);
    assert_eq!((again["id"].as_str(), again["sightings"].as_u64()), (Some(id), Some(2)));

    let edited = home.json(&["memory", "edit", id, "The ferry leaves at one."]);
    assert_eq!(edited["text"], "The ferry leaves at one.");
    let shown = home.json(&["memory", "show", id]);
    for (key, value) in edited.as_object().unwrap() {
        assert_eq!(shown[key], *value, "{key}");
    }
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
    let found = home.json(&["memory", "search", "ferry one"]);
    assert_eq!(found[0]["id"], id);

    home.cairn(&["memory", "forget", id]).ended(0);
    home.cairn(&["memory", "show", id]).ended(4);
    assert_eq!(home.json(&["memory", "list"]), serde_json::json!([]));
}

#[test]
fn several_memories_are_made_one_and_only_what_the_same_people_see() {
    let home = home();
    let add = |text: &str, scope: &str, importance: &str| {
        let memory = home.json(&[
            "memory",
            "add",
            text,
            "--kind",
            "fact",
            "--scope",
            scope,
            "--importance",
            importance,
        ]);
        memory["id"].as_str().unwrap().to_owned()
    };
    let kept = add("Anna lives in Lisbon.", "agent", "0.4");
    let (older, newer) = (add("Anna moved.", "agent", "0.9"), add("Anna is in Berlin.", "agent", "0.3"));
    let elsewhere = add("Anna rows.", "chat:local/main", "0.5");

    let refused = home.cairn(&["memory", "unite", &kept, &elsewhere]).ended(2);
    assert!(refused.stderr.contains("scope"), "{}", refused.stderr);
    home.cairn(&["memory", "unite", &kept, &kept]).ended(2);
    let united = home.json(&["memory", "unite", &kept, &older, &newer, "--text", "Anna moved to Berlin."]);
    assert_eq!((&united["id"], &united["text"]), (&kept.as_str().into(), &"Anna moved to Berlin.".into()));
    assert_eq!(united["importance"], 0.9);
    home.cairn(&["memory", "show", &older]).ended(4);
    home.cairn(&["memory", "show", &newer]).ended(4);
    // Without a text it keeps what it says.
    let same = add("Anna went to Berlin.", "agent", "0.5");
    assert_eq!(home.json(&["memory", "unite", &kept, &same])["text"], "Anna moved to Berlin.");
    assert_eq!(home.json(&["memory", "list"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_filter_lets_through_what_it_names() {
    let home = home();
    for (text, kind, scope) in [
        ("Ann rows.", "fact", "agent"),
        ("Bo prefers tea.", "preference", "chat:local/main"),
        ("We meet on Friday.", "decision", "chat:local/ops"),
    ] {
        home.cairn(&["memory", "add", text, "--kind", kind, "--scope", scope, "--subject", "Ann"]).ended(0);
    }
    let texts = |args: &[&str]| {
        let mut all = vec!["memory", "list"];
        all.extend(args);
        let list = home.json(&all);
        let texts = list.as_array().unwrap().iter().map(|memory| memory["text"].as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(&[]), ["Ann rows.", "Bo prefers tea.", "We meet on Friday."]);
    assert_eq!(texts(&["--scope", "chat:local/main"]), ["Bo prefers tea."]);
    assert_eq!(texts(&["--kind", "decision"]), ["We meet on Friday."]);
    assert_eq!(texts(&["--subject", "nobody"]), Vec::<String>::new());
    assert_eq!(texts(&["--limit", "1"]), ["Ann rows."]);
}
