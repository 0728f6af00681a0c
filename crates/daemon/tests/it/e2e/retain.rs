//! Retention of the journal by the real binary: by size here, since no clock has to be moved for that.

use std::path::Path;

use cairn_testkit::home::Home;
use cairn_testkit::random::Random;
use serde_json::json;

use crate::home;

/// Messages of 40 KB each: three segments of the smallest size, of which the last two are well over the limit together.
const MESSAGES: usize = 60;

/// Little of the words stands in summaries, which stay.
const SMALL: &str = "[defaults]\ncontext_window = 100000\n\n[defaults.compaction]\nstack_share = 0.05\n\n[store]\nsegment_mib = 1\n";

/// Words that no program packs to much less.
fn noise(seed: usize) -> String {
    let mut random = Random::new(seed as u64 * 2 + 1);
    let mut letter = || char::from(b'a' + random.below(26) as u8);
    (0..5_000).map(|_| (0..7).map(|_| letter()).chain([' ']).collect::<String>()).collect()
}

/// A word that only that message has, where no summary finds it.
fn word_of(n: usize) -> String {
    noise(n).split(' ').nth(2_500).unwrap().to_owned()
}

fn talk() -> String {
    let line = |n: usize| {
        let text = format!("parrot number {n} speaks: {}", noise(n));
        json!({ "user": "anna", "text": text, "id": format!("m{n}") }).to_string() + "\n"
    };
    (0..MESSAGES).map(line).collect()
}

/// Whether a word is in the journal; compressed segments as they read.
fn journal_has(home: &Home, word: &str) -> bool {
    let segments = std::fs::read_dir(home.state().join("journal")).unwrap();
    segments.map(|entry| entry.unwrap().path()).any(|path| {
        let tool = if path.extension().is_some_and(|end| end == "gz") { "zcat" } else { "cat" };
        let read = std::process::Command::new(tool).arg(&path).output().unwrap();
        assert!(read.status.success(), "{read:?}");
        String::from_utf8(read.stdout).unwrap().contains(word)
    })
}

fn bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap();
    files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn over_its_limit_the_journal_loses_its_oldest_words_and_nothing_else() {
    let home = home();
    let config = home.config(SMALL);
    let file = home.file("talk.jsonl", talk());
    let report = home.json(&["import", "--answer", file.to_str().unwrap()]);
    assert_eq!(
        (report[0]["failed"].as_u64(), report[0]["answers"].as_u64()),
        (Some(0), Some(MESSAGES as u64))
    );

    let daemon = home.daemon(Some(&config)).await;
    let journal = home.state().join("journal");
    let before = bytes(&journal);
    assert!(before > 2_300_000, "{before}");
    let off = home.json(&["store", "retain"]);
    assert_eq!((&off["compressed"]["segments"], &off["expired"]["segments"]), (&json!(0), &json!(0)));
    home.config(&format!("{SMALL}\n[retention]\njournal_mib = 1\n"));
    let reloaded = home.json(&["reload"]);
    assert_eq!(reloaded["changed"][0]["key"], "retention.journal_mib", "{reloaded}");
    let dry = home.json(&["store", "retain", "--dry-run"]);
    assert!(dry["expired"]["entries"].as_u64() > Some(0), "{dry}");
    assert_eq!(bytes(&journal), before, "nothing was changed");
    let (first, last) = (word_of(0), word_of(MESSAGES - 1));
    let found = home.json(&["search", "main", &first]);
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");

    let run = home.cairn(&["store", "retain"]).ended(0);
    assert!(run.stdout.starts_with("compressed  ") && !run.stdout.contains("forgotten"), "{run:?}");
    assert!(run.stdout.contains("\nexpired     the text of "), "{run:?}");
    assert!(bytes(&journal) <= 1024 * 1024, "{}", bytes(&journal));
    assert!(!journal_has(&home, &first) && journal_has(&home, &last));
    let check = |when: &str| {
        let history = home.json(&["history", "main", "--limit", "1000"]);
        assert_eq!(history.as_array().unwrap().len(), 2 * MESSAGES, "{when}");
        assert_eq!(history[0]["parts"][0]["text"], "[expired]", "{when}");
        assert_eq!(history[0]["author"]["name"], "anna", "{when}");
        let of_last = &history[2 * MESSAGES - 2]["parts"][0]["text"];
        assert!(of_last.as_str().unwrap().contains(&last), "{when}: {of_last}");
        let found = home.json(&["search", "main", &first]);
        assert_eq!(found, json!([]), "{when}");
        assert_eq!(home.json(&["store", "verify"])["ok"], true, "{when}");
    };
    check("at once");
    let explained = home.json(&["explain", "main", "t1"]);
    assert_eq!(explained["question"][0]["text"], "[expired]", "{explained}");
    assert!(explained["missing"].to_string().contains("has expired"), "{explained}");
    let prompt = home.json(&["explain", "main", "t3", "--prompt"]);
    assert_eq!((&prompt["exact"], &prompt["gaps"][0]["gap"]), (&json!(false), &json!("expired")));
    assert!(!prompt.to_string().contains(&first), "expired words are shown to nobody");
    let again = home.cairn(&["store", "retain"]).ended(0).stdout;
    assert_eq!(again, "nothing to do for [retention]\n");
    assert!(home.cairn(&["history", "main", "--limit", "1000"]).ended(0).stdout.contains("[expired]"));
    let said = home.cairn_with(&["chat", "--user", "anna"], b"and now?\n").ended(0);
    assert!(!said.stdout.is_empty(), "{said:?}");
    assert!(daemon.stop().await.unwrap().success());
}
