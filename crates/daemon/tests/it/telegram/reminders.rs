//! Reminders as people set them: they fire once, whatever happens to the daemon.

use std::collections::BTreeSet;

use cairn_testkit::clock::wall_time;
use jiff::{SignedDuration, Timestamp};

use super::rig::{Rig, World, texts};

fn soon() -> Timestamp {
    let at = wall_time() + SignedDuration::from_secs(15);
    Timestamp::from_second(at.as_second()).unwrap()
}

#[tokio::test]
async fn a_reminder_fires_once_over_a_kill_before_it_and_one_after_it() {
    let mut rig = Rig::open().await;
    rig.telegram.command(rig.alice.id, &rig.alice, &format!("/remind {} feed the quokka", soon()));
    let set = rig.telegram.wait_sent(rig.alice.id, 1).await.swap_remove(0).text;
    assert!(set.starts_with("Reminder 1 is set for") && set.contains("feed the quokka"), "{set}");
    rig.kill().await;
    rig.restart().await;
    let fired = rig.telegram.wait_sent(rig.alice.id, 2).await.swap_remove(1);
    assert!(fired.text.contains("reminder 1, which Alice Quokka set on"), "{fired:?}");
    assert!(fired.text.ends_with("feed the quokka") && fired.reply_to.is_none(), "{fired:?}");
    rig.delivered().await;
    rig.kill().await;
    rig.restart().await;
    assert_eq!(rig.ask(&rig.alice, "and now, quokka?").await.text, "echo: and now, quokka?");
    rig.delivered().await;
    let sent = rig.telegram.sent(rig.alice.id);
    assert_eq!((texts(&sent).len(), rig.asked()), (3, 2));
    rig.end().await;
}

#[tokio::test]
async fn reminders_are_listed_shown_and_cancelled_in_the_chat_and_beside_it() {
    let rig = World::new().await;
    let schedules = "direct = \"open\"\n\n[[schedules]]\nid = \"morning\"\nchannel = \"news\"\nevery = \"weekday 7:00\"\n\
                     prompt = \"What is new of the quokka?\"";
    let rig = rig.start(schedules).await;
    let mut n = 0;
    let mut command = async |command: &str| {
        rig.telegram.command(rig.alice.id, &rig.alice, command);
        n += 1;
        rig.telegram.wait_sent(rig.alice.id, n).await.swap_remove(n - 1).text
    };
    assert!(command("/reminders").await.contains("No reminder"));
    assert!(command("/remind quokka").await.contains("every monday 9:00"));
    assert!(command("/remind in 3h quokka one").await.contains("/remind cancel 1"));
    assert!(command("/remind every day 9:00 quokka two").await.contains("0 9 * * *"));
    assert!(command("/remind in 2h quokka nought").await.contains("/remind cancel 3"));
    let listed = command("/reminders").await;
    let place = |text: &str| listed.find(text).unwrap_or_else(|| panic!("{listed}"));
    assert!(place("quokka nought") < place("quokka one") && place("every 0 9 * * *)") > 0, "{listed}");
    assert!(command("/remind cancel 3").await.contains("cancelled"));
    assert!(command("/remind cancel 1").await.contains("cancelled"));
    let channel = format!("main/telegram/{}", rig.alice.id);
    let add = ["reminder", "add", &channel, "tomorrow", "9:00", "quokka", "three"];
    assert_eq!(rig.cairn(&add).await.0, 0);
    let set = rig.until("/v1/reminders", |list| list.as_array().unwrap().len() == 3).await;
    let of = |key: &str| -> Vec<&str> {
        set.as_array().unwrap().iter().map(|set| set[key].as_str().unwrap()).collect()
    };
    assert!(of("due").is_sorted(), "{set}");
    assert_eq!(BTreeSet::from_iter(of("id")), BTreeSet::from(["2", "4", "schedule:morning"]));
    let shown = rig.json(&["reminder", "show", &channel, "4"]).await;
    assert_eq!(
        (shown["text"].as_str(), shown["by"]["id"].as_str()),
        (Some("quokka three"), Some("local/operator"))
    );
    assert!(command("/remind cancel 4").await.contains("no reminder"), "it is not theirs");
    assert_eq!(rig.cairn(&["reminder", "cancel", &channel, "4"]).await.0, 0);
    assert!(rig.cairn(&["reminder", "list"]).await.1.contains("quokka two"));
    rig.rewrite("id = \"morning\"", "id = \"evening\"");
    assert_eq!(rig.cairn(&["reload"]).await.0, 0);
    let is_renamed = |list: &serde_json::Value| {
        let ids = list.as_array().unwrap().iter().filter_map(|set| set["id"].as_str());
        ids.collect::<BTreeSet<_>>() == BTreeSet::from(["2", "schedule:evening"])
    };
    rig.until("/v1/reminders", is_renamed).await;
    rig.end().await;
}
