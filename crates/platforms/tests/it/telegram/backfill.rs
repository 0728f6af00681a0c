//! What was said while nobody ran: which of it is answered.

use cairn_testkit::runtime::text;
use cairn_testkit::telegram::{FakeTelegram, Say};

use crate::telegram::{Rig, open_to};

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
        let taken = rig.runtime.wait_taken(1).await;
        rig.fake.wait_confirmed().await;
        assert_eq!((text(&taken[0]).as_str(), taken[0].addressed), ("new", true), "of {most} at most");
        assert_eq!(rig.runtime.state.lock().taken.len(), 1);
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
    let taken = rig.runtime.state.lock().taken.clone();
    let answered: Vec<_> = taken.iter().map(|inbound| (text(inbound), inbound.addressed)).collect();
    assert_eq!(answered, [("first".to_owned(), true), ("second".to_owned(), true)]);
}

#[tokio::test]
async fn what_is_older_than_the_catch_up_or_too_much_is_kept_without_an_answer() {
    let mut rig = Rig::set_up(FakeTelegram::start().await, open_to(&[]), |settings| {
        settings.chat.catch_up.max_messages = 2;
    });
    let ann = rig.fake.person("Ann");
    rig.fake.say(ann.id, &ann, Say::text("two days ago").age_secs(48 * 3600));
    for n in 1..=3 {
        rig.fake.say(ann.id, &ann, Say::text(format!("{n}")).age_secs(60));
    }
    rig.fake.say(ann.id, &ann, Say::text("/new").age_secs(48 * 3600));
    rig.run();
    let taken = rig.runtime.wait_taken(4).await;
    let addressed: Vec<bool> = taken.iter().map(|inbound| inbound.addressed).collect();
    assert_eq!(addressed, [false, false, false, true], "the old command counts among the newest two");
    rig.fake.wait_confirmed().await;
    assert!(rig.runtime.state.lock().calls.is_empty(), "a command of two days ago is not run");
}
