//! Asking for updates: nothing is confirmed before it is durable, and nothing stops the rest.

use std::time::Duration;

use cairn_testkit::runtime::text;
use cairn_testkit::telegram::{FakeTelegram, Fault, Say};
use cairn_types::ports::{LinkState, Platform as _, Refusal, StoreError};
use serde_json::json;

use crate::telegram::{Rig, open_to};

#[tokio::test]
async fn nothing_is_confirmed_before_the_runtime_has_it() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    let gate = rig.runtime.hold(ann.id);
    let polls = rig.fake.calls("getUpdates").len();
    rig.fake.say(ann.id, &ann, "keep this");
    rig.fake.wait_for("getUpdates", polls + 3).await;
    assert_eq!(rig.fake.unconfirmed(), 1);
    gate.pass(1);
    rig.fake.wait_confirmed().await;
    assert_eq!(rig.runtime.state.lock().taken.len(), 1);
    rig.fake.assert_clean();
}

#[tokio::test]
async fn a_chat_that_is_held_up_holds_up_no_other() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let (ann, bob) = (rig.fake.person("Ann"), rig.fake.person("Bob"));
    let gate = rig.runtime.hold(ann.id);
    rig.fake.say(ann.id, &ann, "first of Ann");
    rig.fake.say(ann.id, &ann, "second of Ann");
    rig.fake.say(bob.id, &bob, "first of Bob");
    rig.runtime.wait_taken(1).await;
    rig.fake.say(bob.id, &bob, "second of Bob");
    let taken = rig.runtime.wait_taken(2).await;
    assert_eq!(taken.iter().map(text).collect::<Vec<_>>(), ["first of Bob", "second of Bob"]);
    gate.pass(2);
    let taken = rig.runtime.wait_taken(4).await;
    assert_eq!(taken[2..].iter().map(text).collect::<Vec<_>>(), ["first of Ann", "second of Ann"]);
    rig.fake.wait_confirmed().await;
}

#[tokio::test]
async fn what_the_runtime_cannot_take_yet_is_submitted_again_in_order() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |_| {});
    let full = StoreError::DiskFull { path: "/state".to_owned() };
    rig.runtime.state.lock().refusals.extend([Refusal::Unavailable("starting"), Refusal::Store(full)]);
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, "one");
    rig.fake.say(ann.id, &ann, "two");
    rig.run();
    let taken = rig.runtime.wait_taken(2).await;
    assert_eq!(taken.iter().map(text).collect::<Vec<_>>(), ["one", "two"]);
    rig.fake.wait_confirmed().await;
}

#[tokio::test]
async fn a_full_channel_makes_others_deaf_only_until_it_has_waited_long_enough() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |_| {});
    let (ann, bob) = (rig.fake.person("Ann"), rig.fake.person("Bob"));
    rig.runtime.state.lock().busy.insert(ann.id.to_string());
    let stuck = rig.fake.say(ann.id, &ann, "stuck");
    for n in 0..120 {
        rig.fake.say(bob.id, &bob, format!("{n}"));
    }
    rig.run();
    let taken = rig.runtime.wait_taken(120).await;
    assert!(taken.iter().all(|inbound| inbound.channel.chat() == bob.id.to_string()));
    rig.fake.wait_confirmed().await;
    let told = rig.fake.wait_sent(ann.id, 1).await;
    assert_eq!(told[0].reply_to, Some(stuck));
    assert!(told[0].text.contains("send it again"), "{}", told[0].text);
}

#[tokio::test]
async fn updates_that_cannot_be_read_are_confirmed_and_stop_nobody() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |_| {});
    let ann = rig.fake.person("Ann");
    for bad in [
        json!({}),
        json!({"message": null}),
        json!({"message": {"message_id": "five", "chat": {"id": 1}, "date": 1}}),
        json!({"message": {"message_id": 5, "date": 1}}),
        json!({"edited_message": []}),
        json!({"my_chat_member": {"chat": {"id": 1}}}),
        json!({"update_id": null, "message": {}}),
    ] {
        rig.fake.push_raw(bad);
    }
    rig.fake.say(ann.id, &ann, Say::text("still heard").extra(json!({"sticker": 7, "forward_origin": "?"})));
    rig.run();
    let taken = rig.runtime.wait_taken(1).await;
    assert_eq!(text(&taken[0]), "still heard");
    rig.fake.wait_confirmed().await;
}

#[tokio::test]
async fn ids_that_begin_again_below_the_old_ones_are_heard() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    for n in 1..=3 {
        rig.fake.say(ann.id, &ann, format!("{n}"));
        rig.runtime.wait_taken(n).await;
        rig.fake.wait_confirmed().await;
        rig.fake.restart_ids();
    }
    assert_eq!(rig.runtime.state.lock().taken.len(), 3);
}

#[tokio::test]
async fn a_server_that_answers_500_html_or_nothing_is_asked_again() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |_| {});
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, "after all that");
    rig.fake.fail_next("getMe", Fault::Html);
    for fault in [
        Fault::internal(),
        Fault::CloseAfter,
        Fault::Body("{\"ok\":true,\"result\":{}}".to_owned()),
        Fault::Body(String::new()),
        Fault::flood(0),
    ] {
        rig.fake.fail_next("getUpdates", fault);
    }
    rig.run();
    let taken = rig.runtime.wait_taken(1).await;
    assert_eq!(text(&taken[0]), "after all that");
    assert!(rig.fake.calls("getUpdates").len() > 5, "each fault was met");
    assert_eq!(rig.telegram.status().state, LinkState::Connected);
    assert_eq!(rig.telegram.status().reason, None);
    rig.fake.wait_confirmed().await;
}

#[tokio::test]
async fn a_server_that_is_gone_shows_and_what_was_said_meanwhile_is_heard() {
    let rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    rig.fake.go_down();
    let shown = async {
        while rig.telegram.status().state != LinkState::Reconnecting {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), shown).await.expect("the state shows it");
    let status = rig.telegram.status();
    assert!(status.reason.is_some() && status.hint.is_some());
    rig.fake.say(ann.id, &ann, "are you there?");
    rig.fake.come_back().await;
    rig.runtime.wait_taken(1).await;
    rig.fake.wait_confirmed().await;
}

#[tokio::test]
async fn a_second_program_with_the_same_token_ends_the_run_with_a_clear_reason() {
    let mut rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let _other = rig.fake.second_poller();
    let failure = rig.failure().await;
    assert!(failure.lasting);
    assert!(failure.reason.contains("another program"), "{failure}");
}

#[tokio::test]
async fn a_webhook_and_a_wrong_token_end_the_run_with_a_clear_reason() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |_| {});
    rig.fake.set_webhook();
    rig.run();
    let failure = rig.failure().await;
    assert!(failure.lasting && failure.reason.contains("webhook"), "{failure}");
    rig.fake.revoke_token();
    rig.run();
    let failure = rig.failure().await;
    assert!(failure.lasting && failure.hint.contains("@BotFather"), "{failure}");
    assert!(!failure.to_string().contains(rig.fake.token()));
}

#[tokio::test]
async fn a_refusal_that_is_over_at_once_and_a_program_that_is_being_replaced_do_not_end_the_run() {
    let mut rig = Rig::start(FakeTelegram::start().await, &[]).await;
    let ann = rig.fake.person("Ann");
    let conflict = || Fault::error(409, "Conflict: terminated by other getUpdates request");
    for (n, faults) in [vec![Fault::unauthorized(); 2], vec![conflict(); 2]].into_iter().enumerate() {
        let polls = rig.fake.calls("getUpdates").len() + faults.len();
        faults.into_iter().for_each(|fault| rig.fake.fail_next("getUpdates", fault));
        // Ends the poll that is open.
        rig.fake.say(ann.id, &ann, format!("{n}"));
        rig.fake.wait_for("getUpdates", polls + 1).await;
        rig.runtime.wait_taken(n + 1).await;
        rig.fake.wait_confirmed().await;
    }
    assert!(rig.running.take().is_some_and(|run| !run.is_finished()));
    assert_eq!(rig.fake.calls("getMe").len(), 1, "it is the same run");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "what was sent long ago is not answered, by the wall's time")]
async fn an_update_that_is_no_valid_json_is_skipped_and_the_rest_is_heard() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |_| {});
    let ann = rig.fake.person("Ann");
    let user = json!({"id": ann.id, "is_bot": false, "first_name": "Ann"});
    let chat = json!({"id": ann.id, "type": "private", "first_name": "Ann"});
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("is after 1970").as_secs();
    let update = |n: i64, text: &str| {
        format!(
            r#"{{"update_id":{n},"message":{{"message_id":{n},"date":{now},"chat":{chat},"from":{user},"text":{text}}}}}"#
        )
    };
    let bad = [r#""half of \ud83d one""#, "1e999"].into_iter().zip(501..).map(|(text, n)| update(n, text));
    let list: Vec<String> = bad.chain([update(503, r#""a whole one""#)]).collect();
    let body = format!(r#"{{"ok":true,"result":[{}]}}"#, list.join(","));
    rig.fake.fail_next("getUpdates", Fault::Body(body));
    rig.run();
    let taken = rig.runtime.wait_taken(1).await;
    assert_eq!(text(&taken[0]), "a whole one");
    rig.fake
        .wait_until("the next offset", |fake| {
            fake.calls("getUpdates").iter().any(|call| call.params["offset"] == 504)
        })
        .await;
}
