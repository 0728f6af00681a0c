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
