//! A person erased by the real binary: nothing of theirs is left in any file, and what others said stays.

use std::path::Path;

use cairn_testkit::home::Home;
use serde_json::{Value, json};

use crate::home;

/// What only Marzena says; the offline model quotes it wherever it fits.
const HERS: [&str; 5] = ["marzena", "zorblax", "quillonite", "48601555", "rambutan"];

const CONFIG: &str = "[defaults]\ncontext_window = 4000\n\n[store]\nsegment_mib = 1\n";

/// Marzena and Ben in one channel, with summaries and memories, a `/new` in between; Ben alone in another.
fn talked() -> Home {
    let home = home();
    home.config(CONFIG);
    let talk = |name: &str, range: std::ops::Range<u64>| {
        let mut lines = String::new();
        for n in range {
            let hers = format!(
                "I am Marzena. My parrot Zorblax {n} likes a rambutan from the quillonite bowl, call 48601555{n}"
            );
            let bens = format!(
                "The ferry number {n} leaves Gdynia at seven. Did Zorblax eat? I prefer herring {n}."
            );
            for (user, text) in [("marzena", hers), ("ben", bens.replace("Did Zorblax eat? ", ""))] {
                let at = format!("2026-03-01T{:02}:{:02}:00Z", n / 60, n % 60);
                lines.push_str(&json!({ "user": user, "text": text, "at": at }).to_string());
                lines.push('\n');
            }
        }
        home.file(name, lines);
    };
    talk("one.jsonl", 0..25);
    talk("two.jsonl", 25..50);
    let report = home.json(&["import", "--answer", "one.jsonl"]);
    assert_eq!(report[0]["failed"], 0, "{report}");
    home.json(&["compact", "main", "--wait"]);
    home.cairn(&["new", "main"]).ended(0);
    home.json(&["import", "--answer", "two.jsonl"]);
    home.cairn(&["memory", "add", "Marzena is the owner", "--kind", "fact", "--scope", "agent"]).ended(0);
    home.cairn(&["memory", "add", "The ferry is blue", "--kind", "fact", "--scope", "agent"]).ended(0);
    home
}

/// Names and bytes of all files below a folder, in lower case; compressed ones as they read.
fn all_bytes(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        all.extend(path.file_name().unwrap().to_string_lossy().bytes());
        if path.is_dir() {
            all.extend(all_bytes(&path));
        } else if path.is_file() {
            all.extend(std::fs::read(&path).unwrap());
        }
    }
    all.make_ascii_lowercase();
    all
}

#[track_caller]
fn nothing_is_left(state: &Path) {
    let bytes = all_bytes(state);
    for word in HERS {
        let at = bytes.windows(word.len()).position(|window| window == word.as_bytes());
        let around = at.map(|at| {
            String::from_utf8_lossy(&bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())]).into_owned()
        });
        assert_eq!(around, None, "{word} is still there");
    }
}

/// What `--json` shows of all there is.
fn shown(home: &Home) -> Vec<Value> {
    let mut shown = vec![home.json(&["channels"]), home.json(&["memory", "list"])];
    for command in ["context", "history"] {
        shown.push(home.json(&[command, "main"]));
    }
    shown
}

#[test]
fn a_scan_of_all_files_finds_nothing_and_others_words_stay() {
    let home = talked();
    let before = home.json(&["history", "main"]);
    let memories = home.json(&["memory", "list"]).to_string();
    assert!(memories.contains("Marzena is the owner") && memories.contains("herring"), "{memories}");
    let there = all_bytes(&home.state());
    for word in HERS {
        assert!(there.windows(word.len()).any(|window| window == word.as_bytes()), "{word} is nowhere");
    }

    home.cairn(&["forget-user", "marzena"]).ended(2);
    home.cairn(&["forget-user", "local/nobody", "--yes"]).ended(4);
    let refused = home.cairn(&["forget-user", "local/marzena"]).ended(2);
    assert!(refused.stderr.contains("--yes"), "{refused:?}");
    let dry = home.json(&["forget-user", "local/marzena", "--dry-run"]);
    assert_eq!((&dry["entries"], &dry["pseudonym"]), (&json!(50), &Value::Null), "{dry}");
    assert_eq!(home.json(&["history", "main"]), before, "a dry run changes nothing");

    let done = home.json(&["forget-user", "local/marzena", "--yes"]);
    assert_eq!((&done["entries"], &done["answers"]), (&json!(50), &json!(50)), "{done}");
    assert!(done["summaries"].as_u64().unwrap() > 0 && done["memories"].as_u64().unwrap() > 0, "{done}");
    assert_eq!(done["pseudonym"], "local/erased-1");
    nothing_is_left(&home.state());
    assert!(!home.state().join("erasure.json").exists());
    home.cairn(&["forget-user", "local/marzena", "--yes"]).ended(4);

    let after = home.json(&["history", "main"]);
    let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
    assert_eq!(before.len(), after.len());
    for (was, is) in before.iter().zip(after) {
        assert_eq!(
            (&was["seq"], &was["turn"], &was["generation"]),
            (&is["seq"], &is["turn"], &is["generation"])
        );
        if was["author"]["id"] == "local/ben" {
            assert_eq!(was["parts"], is["parts"], "what Ben said stays");
        }
    }
    let memories = home.json(&["memory", "list"]).to_string();
    assert!(memories.contains("The ferry is blue") && memories.contains("herring"), "{memories}");
    let found = home.json(&["search", "main", "herring"]);
    assert!(!found.as_array().unwrap().is_empty());
    assert_eq!(home.json(&["store", "verify"])["ok"], true);
    let shown_before = shown(&home);
    home.cairn(&["store", "rebuild"]).ended(0);
    assert_eq!(shown(&home), shown_before);
    nothing_is_left(&home.state());
}

/// People say the names of others, and seldom their own: what Marzena calls Ludmila is no word of hers.
#[test]
fn others_keep_their_names_and_their_memories() {
    let home = home();
    home.config(CONFIG);
    let says = |user: &str, text: &str| json!({ "user": user, "text": text }).to_string();
    let lines = [
        says("marzena", "Hey Ludmila, my Zorblax likes a rambutan from quillonite, call 48601555"),
        says("ludmila", "Hi Marzena, I went camping with the kids."),
    ];
    home.file("met.jsonl", lines.join("\n"));
    home.json(&["import", "--answer", "met.jsonl", "--channel", "c"]);
    for (text, scope, subject) in [
        ("Ludmila loves camping.", "agent", "Ludmila"),
        ("Ludmila runs.", "user:local/ludmila", "Ludmila"),
        ("Ludmila met Marzena by the sea", "agent", "Ludmila"),
        ("Marzena is a friend of Ludmila", "agent", "Marzena"),
    ] {
        let add = ["memory", "add", text, "--kind", "fact", "--scope", scope, "--subject", subject];
        home.cairn(&add).ended(0);
    }
    let dry = home.json(&["forget-user", "local/marzena", "--dry-run"]);
    assert_eq!((&dry["memories"], &dry["memories_cleaned"]), (&json!(1), &json!(1)), "{dry}");
    let drawn = home.cairn(&["forget-user", "local/marzena", "--yes"]).ended(0).stdout;
    assert!(drawn.contains("memories       1; also removed from 1 of others"), "{drawn}");
    nothing_is_left(&home.state());

    let memories = home.json(&["memory", "list"]);
    let mut texts: Vec<&str> =
        memories.as_array().unwrap().iter().map(|memory| memory["text"].as_str().unwrap()).collect();
    texts.sort_unstable();
    let met = "Ludmila met erased-1 by the sea";
    assert_eq!(texts, ["Ludmila loves camping.", met, "Ludmila runs."]);
    let history = home.json(&["history", "c"]);
    let hers = |entry: &&Value| entry["author"]["id"] == "local/ludmila";
    let entry = history.as_array().unwrap().iter().find(hers).unwrap();
    assert_eq!(entry["author"]["name"], "ludmila");
    assert_eq!(entry["parts"][0]["text"], "Hi erased-1, I went camping with the kids.");
    let found = home.json(&["search", "c", "ludmila"]);
    assert!(found.to_string().contains("camping"), "she is found by her name: {found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_asked_and_killed_has_it_done_at_its_next_start() {
    let home = talked();
    let config = home.path("config.toml");
    let daemon = home.daemon(Some(&config)).await;
    let client = daemon.client();
    let unknown = client.ask("POST", "/v1/people/forget", &json!({ "user": "local/nobody" })).await.unwrap();
    assert_eq!((unknown.0.as_u16(), &unknown.1["error"]["code"]), (404, &json!("no_such_person")));
    assert_eq!(
        client.ask("POST", "/v1/people/forget", &json!({ "user": "x" })).await.unwrap().0.as_u16(),
        400
    );
    let (status, asked) =
        client.ask("POST", "/v1/people/forget", &json!({ "user": "local/marzena" })).await.unwrap();
    assert_eq!((status.as_u16(), &asked["entries"]), (202, &json!(50)), "{asked}");
    daemon.kill().await.unwrap();
    let daemon = home.daemon(Some(&config)).await;
    let done = daemon.client().get("/v1/people/erased").await.unwrap();
    assert_eq!((&done["pending"], &done["erasures"][0]["at"]), (&json!(false), &asked["at"]), "{done}");
    // The index is rebuilt behind it: a search waits for it, five seconds at the most.
    let of_ben = |found: &Value| {
        found.as_array().unwrap().iter().filter(|hit| hit["author"]["id"] == "local/ben").count() == 50
    };
    let search = "/v1/channels/main/search?q=herring&kind=entry&limit=10000";
    daemon.client().until(search, of_ben).await.unwrap();
    let (status, reply) = daemon.client().say("main", "is the ferry late?").await.unwrap();
    assert_eq!(status.as_u16(), 200, "{reply}");
    assert!(daemon.stop().await.unwrap().success());
    nothing_is_left(&home.state());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_taken_while_a_person_is_erased_and_none_is_lost() {
    let home = talked();
    let config = home.path("config.toml");
    let daemon = home.daemon(Some(&config)).await;
    let client = daemon.client();
    let (status, asked) =
        client.ask("POST", "/v1/people/forget", &json!({ "user": "local/marzena" })).await.unwrap();
    assert_eq!(status.as_u16(), 202, "{asked}");
    let mut n_taken = 0;
    loop {
        // Where the connection breaks the daemon restarts, and the message may be there or not.
        let text = format!("the ferry waits {n_taken} times");
        if let Ok((status, _)) = client.say("main", &text).await
            && status.is_success()
        {
            n_taken += 1;
        }
        let erased = client.get("/v1/people/erased").await.unwrap_or_default();
        if erased["erasures"][0]["at"] == asked["at"] {
            break;
        }
    }
    let history = client.get("/v1/channels/main/history?limit=10000").await.unwrap().to_string();
    for n in 0..n_taken {
        assert!(history.contains(&format!("the ferry waits {n} times")), "{n} of {n_taken}: {history}");
    }
    let report = client.get("/v1/store/verify").await.unwrap();
    assert_eq!(report["ok"], true, "{report}");
    assert!(daemon.stop().await.unwrap().success());
    nothing_is_left(&home.state());
    assert!(!home.state().join("erasing").exists());
}
