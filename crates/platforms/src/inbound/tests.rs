//! What every network has in common, asked once: over a runtime that a test tells what to say.

use std::collections::BTreeSet;

use cairn_testkit::runtime::{CODE, MAY_NOT, NOTHING_WAITS, Runtime};
use cairn_types::message::{Part, Provenance};
use cairn_types::people::access::{DirectPolicy, PlaceRule, Respond};
use cairn_types::ports::StoreError;
use cairn_types::texts::{Key, Saying};

use super::*;
use crate::settings::ChatSettings;

/// Two groups are served, private chats by pairing.
fn access() -> AccessPolicy {
    AccessPolicy {
        agent: AgentId::from("main"),
        direct: DirectPolicy::Pairing,
        users: BTreeSet::new(),
        servers: BTreeSet::new(),
        chats: ["1", "2"].map(str::to_owned).into(),
        members: ["7"].map(str::to_owned).into(),
        respond: Respond::Mention,
        bots: false,
        places: vec![PlaceRule {
            chat: Some("2".to_owned()),
            agent: Some("poet".into()),
            ..PlaceRule::default()
        }],
    }
}

fn path() -> (Arc<Runtime>, InboundPath) {
    let runtime = Runtime::new();
    let chat = LiveChat::new(ChatSettings::new(access()));
    let path = InboundPath::new("net", chat, runtime.ports(), runtime.clone());
    (runtime, path)
}

fn ann() -> Sender {
    Sender { id: "7".to_owned(), name: "Ann".to_owned(), bot: false, myself: false }
}

fn group(chat: &str) -> ChatAddress {
    ChatAddress { server: None, chat: chat.to_owned(), thread: None, title: None, direct: false }
}

fn private(chat: &str) -> ChatAddress {
    ChatAddress { direct: true, ..group(chat) }
}

fn inbound(chat: &str, message: &str) -> Inbound {
    Inbound {
        channel: format!("main/net/{chat}").parse().expect("is a channel"),
        message: message.into(),
        author: Author { id: "net/7".to_owned(), name: "Ann".to_owned() },
        at: Timestamp::UNIX_EPOCH,
        parts: vec![Part::text("hello")],
        addressed: true,
        direct: false,
        chat_name: None,
        language: None,
        reply_to: None,
        provenance: Provenance::default(),
        spoken: false,
        recordings: Vec::new(),
        gather: cairn_types::message::Gather::default(),
    }
}

/// The channel of a sender who is admitted and whether they are addressed, or why not.
fn judged(path: &InboundPath, sender: &Sender, at: &ChatAddress) -> String {
    match path.judge(sender, true, at) {
        Access::Admitted(Admitted { channel, author, .. }) => format!("{} in {channel}", author.id),
        Access::Stranger => "stranger".to_owned(),
        Access::Ignored(why) => why.to_owned(),
    }
}

#[test]
fn each_chat_has_its_channel_and_those_on_no_list_are_ignored() {
    let (runtime, path) = path();
    let thread = ChatAddress { thread: Some("5".to_owned()), ..group("1") };
    let bot = Sender { bot: true, ..ann() };
    let bob = Sender { id: "8".to_owned(), ..ann() };
    runtime.pair("net/8");
    for (sender, at, expected) in [
        (&ann(), group("1"), "net/7 in main/net/1"),
        (&ann(), thread, "net/7 in main/net/1/5"),
        (&ann(), group("2"), "net/7 in poet/net/2"),
        (&ann(), private("7"), "stranger"),
        (&bob, private("8"), "net/8 in main/net/8"),
        (&bot, group("1"), "message of a bot"),
    ] {
        assert_eq!(judged(&path, sender, &at), expected, "{at:?}");
    }
    assert!(matches!(path.judge(&bob, true, &group("1")), Access::Ignored(_)), "no member");
    assert!(matches!(path.judge(&ann(), false, &group("3")), Access::Ignored(_)), "nobody is called");
    assert_eq!(judged(&path, &ann(), &group("3")), "stranger", "a code lets it in");
    runtime.pair("net/chat:3");
    assert_eq!(judged(&path, &ann(), &group("3")), "net/7 in main/net/3");
}

#[tokio::test(start_paused = true)]
async fn other_bots_get_so_many_answers_a_minute_in_each_chat() {
    let (_, path) = path();
    let bot = Sender { bot: true, ..ann() };
    let access = AccessPolicy { bots: true, members: BTreeSet::new(), ..access() };
    path.chat.set(ChatSettings { bots_per_minute: 2, ..ChatSettings::new(access) });
    let addressed = |sender: &Sender, chat: &str| match path.judge(sender, true, &group(chat)) {
        Access::Admitted(Admitted { addressed, .. }) => addressed,
        other => panic!("{other:?}"),
    };
    let of = [&bot, &bot, &bot, &ann()].map(|sender| addressed(sender, "1"));
    assert_eq!(of, [true, true, false, true], "people are not counted");
    assert!(addressed(&bot, "2"), "each chat has its own count");
    tokio::time::advance(MINUTE).await;
    assert!(addressed(&bot, "1"));
}

#[test]
fn a_chat_that_moved_is_known_by_both_its_ids_and_keeps_its_channel() {
    let (runtime, path) = path();
    runtime.state.lock().moved.insert("1".to_owned(), "100".to_owned());
    assert_eq!(judged(&path, &ann(), &group("100")), "net/7 in main/net/1");
}

#[test]
fn a_chat_belongs_to_its_channel_whoever_speaks_there() {
    let (_, path) = path();
    let channel = |at: &ChatAddress| path.channel_of(at).map(|channel| channel.to_string());
    assert_eq!(channel(&group("2")).as_deref(), Some("poet/net/2"));
    assert_eq!(channel(&private("9")).as_deref(), Some("main/net/9"));
    assert_eq!(channel(&group("3")), None);
}

#[tokio::test]
async fn a_stranger_is_told_a_code_once_and_only_who_was_told_is_reminded_of_it() {
    let (runtime, path) = path();
    let told = path.pairing_reply(&ann(), &private("7")).await.expect("is told");
    assert!(told.contains(&format!("cairn pair approve {CODE}")), "{told}");
    assert_eq!(path.pairing_reply(&ann(), &private("7")).await, None);
    let refused = path.admit(&ann(), &private("7"), None).await.expect_err("is no member yet");
    assert!(refused.contains("have been told a code"), "{refused}");
    runtime.state.update(|state| state.full = true);
    let eve = Sender { id: "9".to_owned(), ..ann() };
    let refused = path.admit(&eve, &private("9"), None).await.expect_err("is no member");
    assert!(refused.contains("too many") && !refused.contains("told a code"), "{refused}");
    let refused = path.admit(&ann(), &group("3"), None).await.expect_err("is not served");
    assert!(refused.contains("not set up"), "there are no codes left: {refused}");
    let mine =
        path.admit(&ann(), &private("7"), Some(&Command::Export)).await.expect("it is about themselves");
    assert_eq!((mine.channel.to_string(), mine.direct), ("main/net/7".to_owned(), true));
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_in_passing_is_tried_again_and_the_rest_is_not() {
    let words = || Saying::from(Key::Stopped);
    let limited = |tell| Refusal::Limited { retry_after_secs: 60, words: words(), tell };
    let full = StoreError::DiskFull { path: "/state".to_owned() };
    let refused = |why, reply| Outcome::Refused { why, reply };
    for (refusal, outcome) in [
        (Refusal::Busy { retry_after_secs: 1 }, Outcome::Taken),
        (Refusal::Unavailable("starting"), Outcome::Taken),
        (Refusal::Store(full), Outcome::Taken),
        (limited(true), refused("limited", Some(words().to_string()))),
        (limited(false), refused("limited", None)),
        (Refusal::Decided { words: words() }, refused("decided", Some(words().to_string()))),
        (Refusal::Conflict("m".into()), refused("conflict", None)),
        (Refusal::UnknownAgent("main".into()), refused("refused", None)),
    ] {
        let (runtime, path) = path();
        runtime.refuse("m", vec![refusal.clone()]);
        assert_eq!(path.submit(inbound("1", "m"), || ()).await, outcome, "{refusal:?}");
        let n_taken = usize::from(outcome == Outcome::Taken);
        assert_eq!(runtime.state.lock().taken.len(), n_taken, "{refusal:?}");
    }
}

/// Submits until the message is given up; how many seconds that took.
async fn given_up(path: &InboundPath, chat: &str, message: &str) -> u64 {
    let began = Instant::now();
    let outcome = path.submit(inbound(chat, message), || ()).await;
    let Outcome::Refused { why: "given_up", reply: Some(words) } = outcome else { panic!("{outcome:?}") };
    assert!(words.contains("send it again"), "{words}");
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_full_channel_is_given_up_only_where_it_keeps_others_from_being_heard() {
    let (runtime, path) = path();
    runtime.state.lock().busy.insert("1".to_owned());
    let patient = path.submit(inbound("1", "m1"), || ());
    assert!(tokio::time::timeout(Duration::from_secs(3600), patient).await.is_err(), "nobody else waits");
    path.set_crowded(true);
    assert_eq!(given_up(&path, "1", "m1").await, 0, "its channel has waited for long enough");
    runtime.state.lock().busy.clear();
    assert_eq!(path.submit(inbound("1", "m2"), || ()).await, Outcome::Taken);
    runtime.state.lock().busy.insert("1".to_owned());
    let is_patient = |secs: u64| (10..20).contains(&secs);
    assert!(is_patient(given_up(&path, "1", "m3").await));
    assert_eq!(given_up(&path, "1", "m4").await, 0, "it waited behind the one before it");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(is_patient(given_up(&path, "1", "m5").await), "an hour later it has its own time");
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_takes_nothing_is_given_up_only_while_others_are_heard() {
    let (runtime, path) = path();
    path.set_crowded(true);
    runtime.refuse("m1", vec![Refusal::Unavailable("stopping"); 1000]);
    let patient = path.submit(inbound("1", "m1"), || ());
    assert!(tokio::time::timeout(Duration::from_secs(600), patient).await.is_err(), "nobody is heard");
    assert_eq!(path.submit(inbound("2", "m2"), || ()).await, Outcome::Taken);
    assert_eq!(given_up(&path, "1", "m1").await, 0);
}

#[tokio::test]
async fn a_button_runs_its_command_once_and_says_what_becomes_of_the_question() {
    let (runtime, path) = path();
    runtime.asks("abc234", &["net/7"]);
    let admitted = |id: &str| match path.judge(&Sender { id: id.to_owned(), ..ann() }, true, &private(id)) {
        Access::Admitted(admitted) => Ok(admitted),
        other => panic!("{other:?}"),
    };
    ["net/7", "net/8"].iter().for_each(|user| runtime.pair(user));
    let press = |id: &str, data: &'static str, admitted| {
        path.press(ButtonPress { id: id.into(), data: Some(data), admitted })
    };
    let refused = |words: &str| PressOutcome::Refused(words.to_owned());
    assert_eq!(press("p1", "forget:abc234", admitted("7")).await, refused("I do not know this button."));
    assert_eq!(press("p1", "approve:abc234", Err("No.".to_owned())).await, refused("No."));
    assert!(runtime.state.lock().calls.is_empty());
    assert_eq!(press("p1", "approve:abc234", admitted("8")).await, PressOutcome::Denied(MAY_NOT.to_owned()));
    let decided = press("p2", "deny:abc234", admitted("7")).await;
    let PressOutcome::Decided { outcome, .. } = decided else { panic!("{decided:?}") };
    assert!(outcome.starts_with("— no, Ann, "), "{outcome}");
    assert_eq!(press("p2", "deny:abc234", admitted("7")).await, PressOutcome::Repeated);
    let late = press("p3", "approve:abc234", admitted("7")).await;
    assert_eq!(late, PressOutcome::Stale(NOTHING_WAITS.to_owned()));
    assert_eq!(runtime.state.lock().decided, [("abc234".into(), false)]);
}
