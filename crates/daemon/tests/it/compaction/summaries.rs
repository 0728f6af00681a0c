//! `cairn summary`: what stands for what, and what it leaves out.

use cairn_testkit::model::{Answer, FakeModel, Kind};

use crate::compaction::rig::{WINDOW, configured, run_ended, talk_until_run};

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_shows_its_text_its_state_and_what_it_leaves_out() {
    let keys = "[agents.compaction]\nidentifiers = \"off\"\n";
    let rig = configured("openai", FakeModel::builder().window(WINDOW), WINDOW, keys).await;
    let text = "## Goal\n- Anna looks for a flat in Lisbon, and likes the third one best, near the river";
    rig.model.push(Kind::Compaction, Answer::text(text));
    rig.say("The offer is INV-20417, see /srv/flats/third.pdf").await;
    rig.say("Once more: INV-20417 is valid until Friday").await;
    let mut events = talk_until_run(&rig).await;
    let ended = run_ended(&mut events).await;
    assert_eq!(ended["outcome"], "committed", "{ended}");

    let list = rig.get(&rig.path_of("summaries")).await;
    let id = list[0]["id"].as_str().unwrap();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["state"]), (1, &"window".into()), "{list}");
    let view = rig.get(&rig.path_of(&format!("summaries/{id}"))).await;
    assert!(view["text"].as_str().unwrap().contains("likes the third one best"), "{view}");
    assert_eq!((&view["made_by"], &view["run"]), (&"main".into(), &ended["run"]), "{view}");
    let left_out = view["left_out"].as_array().unwrap();
    let of = |text: &str| left_out.iter().find(|one| one["text"] == text);
    let invoice = of("INV-20417").unwrap_or_else(|| panic!("{view}"));
    assert_eq!((&invoice["kind"], &invoice["seq"]), (&"id".into(), &1.into()), "{invoice}");
    // Both messages, and the answers of the model, which repeats them.
    assert!(invoice["entries"].as_u64().unwrap() >= 2, "{invoice}");
    assert!(of("/srv/flats/third.pdf").is_some_and(|one| one["kind"] == "path"), "{view}");
    let (status, error) =
        rig.client().ask("GET", &rig.path_of("summaries/s99"), &serde_json::Value::Null).await.unwrap();
    assert_eq!((status.as_u16(), &error["error"]["code"]), (404, &"no_such_summary".into()));

    // A new session: the summary of the old one is told as that.
    rig.post(&rig.path_of("new"), &serde_json::json!({})).await;
    assert_eq!(rig.get(&rig.path_of("summaries")).await[0]["state"], "archived");
    rig.model.assert_clean();
}
