//! `cairn import`: conversations from other programs, imported once with their answers; nothing is answered.

use cairn_testkit::model::{FakeModel, Kind};
use serde_json::{Value, json};

use crate::home;

/// A chat as Telegram Desktop exports it: of every four messages one is the bot's.
fn export(n: usize) -> String {
    let message = |n: usize| {
        let (from, from_id) = if n % 4 == 3 { ("Rook", "user9") } else { ("Ann", "user7") };
        json!({
            "id": n + 1, "type": "message", "date": "2024-01-01T11:00:00", "from": from, "from_id": from_id,
            "date_unixtime": (1_704_103_200 + 60 * n).to_string(),
            "text": ["word ", { "type": "bold", "text": format!("number {n} of a long talk about boats and sails") }],
        })
    };
    let messages: Vec<Value> = (0..n).map(message).collect();
    json!({ "name": "Sailing", "type": "personal_chat", "id": 7, "messages": messages }).to_string()
}

#[test]
fn an_export_is_imported_once_in_order_and_extended_by_a_later_one() {
    let home = home();
    let file = home.file("result.json", export(400));
    let file = file.to_str().unwrap();
    let plan = home.json(&["import", file, "--bot", "Rook", "--dry-run"]);
    assert_eq!((&plan[0]["messages"], &plan[0]["answers"]), (&json!(300), &json!(100)), "{plan}");
    assert_eq!(home.json(&["channels"]), json!([]));
    let first = home.json(&["import", file, "--bot", "Rook", "--channel", "boats"]);
    let figures =
        |report: &Value| ["messages", "answers", "known"].map(|key| report[0][key].as_u64().unwrap());
    assert_eq!(figures(&first), [300, 100, 0]);
    let history = home.json(&["history", "boats", "--limit", "1000"]);
    let history = history.as_array().unwrap();
    assert_eq!(history.len(), 400);
    let texts: Vec<&str> = history.iter().map(|entry| entry["parts"][0]["text"].as_str().unwrap()).collect();
    assert!((0..400).all(|n| texts[n].contains(&format!("number {n} of"))), "in their order");
    assert_eq!(history[3]["role"], "assistant");
    assert_eq!(
        (&history[0]["author"]["id"], &history[0]["at"]),
        (&json!("telegram/7"), &json!("2024-01-01T10:00:00Z"))
    );
    assert_eq!(figures(&home.json(&["import", file, "--bot", "Rook", "--channel", "boats"])), [0, 0, 300]);
    // A later export has more.
    let longer = home.file("later.json", export(404));
    let more = home.json(&["import", longer.to_str().unwrap(), "--bot", "Rook", "--channel", "boats"]);
    assert_eq!(figures(&more), [3, 1, 300]);
    let found = home.json(&["search", "boats", "number 17 of", "--limit", "1"]);
    assert!(found[0]["text"].as_str().unwrap().contains("number 17 of"), "{found}");
    home.cairn(&["store", "verify"]).ended(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_model_is_called_for_answers_and_the_window_has_room_afterwards() {
    let model = FakeModel::start().await;
    let home = home();
    let config = home.config(&format!(
        "[[models]]\nid = \"m\"\nmodel = \"m\"\nbase_url = \"{}\"\ncontext_window = 6000\nmax_output_tokens = 500\n\n\
         [[agents]]\nid = \"main\"\nmodels = [\"m\"]\n",
        model.base_url()
    ));
    let daemon = home.daemon(Some(&config)).await;
    let file = home.file("result.json", export(1_000));
    home.cairn(&["import", file.to_str().unwrap(), "--bot", "9", "--channel", "boats"]).ended(0);
    // Only compactions call it.
    assert_eq!(model.tally(Kind::Reply).arrived, 0);
    let context = home.json(&["context", "boats"]);
    assert!(context["usage_ratio"].as_f64().unwrap() < 1.0, "{context}");
    drop(daemon);
}

#[test]
fn unreadable_or_ambiguous_files_are_rejected_and_nothing_is_imported() {
    let home = home();
    let two = format!("{{\"chats\": {{\"list\": [{}, {}]}}}}", export(3), export(2));
    let file = home.file("two.json", two);
    let run = home.cairn(&["import", file.to_str().unwrap()]).ended(1);
    assert!(run.stderr.contains("2 conversations") && run.stderr.contains("--chat TITLE"), "{}", run.stderr);
    let file = home.file("no.json", "{\"a\": 1}");
    let run = home.cairn(&["import", file.to_str().unwrap()]).ended(1);
    assert!(run.stderr.contains("in no known format"), "{}", run.stderr);
    let file = home.file("cut.jsonl", "{\"user\": \"ann\", \"text\": \"hi\"}\n{\"user\": \"ann\"");
    let run = home.cairn(&["import", file.to_str().unwrap()]).ended(1);
    assert!(run.stderr.contains("line 2"), "{}", run.stderr);
    assert_eq!(home.json(&["channels"]), json!([]));
}
