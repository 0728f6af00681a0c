//! What was said while nobody ran: which of it is answered.

use std::sync::Arc;

use cairn_testkit::clock::{TestClock, wall_time};
use cairn_testkit::runtime::text;
use cairn_testkit::telegram::{FakeTelegram, Say};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::telegram::{Rig, open_to};

/// What came in, and whether it is answered.
fn answered(rig: &Rig) -> Vec<(String, bool)> {
    rig.runtime.state.lock().taken.iter().map(|inbound| (text(inbound), inbound.addressed)).collect()
}

fn said(words: &str, addressed: bool) -> (String, bool) {
    (words.to_owned(), addressed)
}

#[tokio::test]
async fn a_message_that_was_answered_before_does_not_stand_for_an_older_new_one() {
    for most in [1, 200] {
        let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |settings| {
            settings.chat.catch_up.max_messages = most;
        });
        let ann = rig.fake.person("Ann");
        rig.fake.say(ann.id, &ann, Say::text("new").age_secs(60));
        let before = rig.fake.say(ann.id, &ann, Say::text("answered before").age_secs(60));
        rig.runtime.has(&format!("main/telegram/{}", ann.id), before);
        rig.run();
        rig.runtime.wait_taken(1).await;
        rig.fake.wait_confirmed().await;
        assert_eq!(answered(&rig), [said("new", true)], "of {most} at most");
    }
}

#[tokio::test]
async fn a_message_whose_first_copy_is_still_on_its_way_in_does_not_stand_for_a_new_one() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |_| {});
    let ann = rig.fake.person("Ann");
    let gate = rig.runtime.hold(ann.id);
    let first = rig.fake.say(ann.id, &ann, Say::text("first").age_secs(60));
    rig.run();
    rig.runtime.wait_until("the first to be at the gate", |state| state.at_gates == 1).await;
    let held = rig.fake.hold_updates();
    rig.fake.say(ann.id, &ann, Say::text("second").age_secs(60));
    rig.fake.repeat(ann.id, first);
    drop(held);
    let polls = rig.fake.calls("getUpdates").len();
    rig.fake.wait_for("getUpdates", polls + 3).await;
    gate.pass(3);
    rig.runtime.wait_taken(2).await;
    rig.fake.wait_confirmed().await;
    assert_eq!(answered(&rig), [said("first", true), said("second", true)]);
}

#[tokio::test]
async fn what_is_said_in_the_second_of_the_start_is_not_taken_for_missed() {
    let started = Timestamp::from_millisecond(wall_time().as_second() * 1000 + 700).expect("is a time");
    for (before, most, expected) in
        [(0, 0, [said("one", false), said("two", true)]), (1, 0, [said("one", false), said("two", false)])]
    {
        let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |settings| {
            settings.chat.catch_up.max_messages = most;
            settings.chat.catch_up.max_age = SignedDuration::ZERO;
        });
        rig.runtime.state.lock().clock = Some(Arc::new(TestClock::new(started)));
        let ann = rig.fake.person("Ann");
        for words in ["one", "two"] {
            let date = json!({ "date": started.as_second() - before });
            rig.fake.say(ann.id, &ann, Say::text(words).extra(date));
        }
        rig.run();
        rig.runtime.wait_taken(2).await;
        assert_eq!(answered(&rig), expected, "{before} s before");
    }
}
