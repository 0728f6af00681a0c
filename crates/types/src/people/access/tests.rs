//! Who is heard where, as a table of cases.

use rstest::rstest;

use super::*;

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn closed() -> AccessPolicy {
    AccessPolicy {
        agent: "main".into(),
        direct: DirectPolicy::default(),
        users: set(&[]),
        servers: set(&[]),
        chats: set(&[]),
        members: set(&[]),
        respond: Respond::default(),
        bots: false,
        places: Vec::new(),
    }
}

fn approach(place: ChatPlace<'static>) -> AccessRequest<'static> {
    AccessRequest {
        user: "7",
        standing: PairingStatus::Stranger,
        standing_of_group: PairingStatus::Stranger,
        myself: false,
        bot: false,
        calls_me: false,
        place,
    }
}

const DIRECT: ChatPlace<'static> = ChatPlace::Direct;

/// A channel of a server, as on Discord.
fn channel() -> ChatPlace<'static> {
    ChatPlace::Group { server: Some("S"), chat: "C", thread: None }
}

/// A thread of a server, as on Discord.
fn thread() -> ChatPlace<'static> {
    ChatPlace::Group { server: Some("S"), chat: "C", thread: Some("T") }
}

/// A topic of a group, as on Telegram.
fn topic() -> ChatPlace<'static> {
    ChatPlace::Group { server: None, chat: "G", thread: Some("T") }
}

fn rule(server: &str, chat: &str, thread: &str) -> PlaceRule {
    let named = |id: &str| (!id.is_empty()).then(|| id.to_owned());
    PlaceRule { server: named(server), chat: named(chat), thread: named(thread), ..PlaceRule::default() }
}

fn answered(agent: &str) -> AccessVerdict {
    AccessVerdict::Serve { agent: agent.into(), addressed: true }
}

fn kept() -> AccessVerdict {
    AccessVerdict::Serve { agent: "main".into(), addressed: false }
}

fn is_ignored(verdict: &AccessVerdict) -> bool {
    matches!(verdict, AccessVerdict::Ignore(_))
}

#[rstest]
#[case(DIRECT, AccessVerdict::Pair)]
#[case(channel(), AccessVerdict::Ignore("place not on a list"))]
#[case(thread(), AccessVerdict::Ignore("place not on a list"))]
#[case(topic(), AccessVerdict::Ignore("place not on a list"))]
fn empty_lists_serve_nobody(#[case] place: ChatPlace<'static>, #[case] verdict: AccessVerdict) {
    let policy = AccessPolicy { direct: DirectPolicy::Pairing, ..closed() };
    assert_eq!(policy.judge(&approach(place)), verdict);
}

#[rstest]
#[case::called(&[], "7", topic(), DirectPolicy::Pairing, PairingStatus::Stranger, AccessVerdict::Pair)]
#[case::waiting(&[], "7", topic(), DirectPolicy::Pairing, PairingStatus::Waiting, AccessVerdict::Pair)]
#[case::beside_a_list(&["H"], "7", topic(), DirectPolicy::Pairing, PairingStatus::Stranger, AccessVerdict::Pair)]
#[case::let_in(&["H"], "7", topic(), DirectPolicy::Pairing, PairingStatus::Paired, answered("main"))]
#[case::no_more(&[], "7", topic(), DirectPolicy::Allowlist, PairingStatus::Paired, AccessVerdict::Ignore(UNLISTED))]
#[case::no_codes(&[], "7", topic(), DirectPolicy::Open, PairingStatus::Stranger, AccessVerdict::Ignore(UNLISTED))]
#[case::no_member(&[], "8", topic(), DirectPolicy::Pairing, PairingStatus::Stranger, AccessVerdict::Ignore(UNLISTED))]
#[case::server(&[], "7", channel(), DirectPolicy::Pairing, PairingStatus::Stranger, AccessVerdict::Pair)]
#[case::let_in_server(&[], "7", thread(), DirectPolicy::Pairing, PairingStatus::Paired, answered("main"))]
#[case::server_beside_a_list(
    &["H"], "7", channel(), DirectPolicy::Pairing, PairingStatus::Stranger, AccessVerdict::Ignore(UNLISTED)
)]
fn a_group_on_no_list_is_let_in_by_a_code(
    #[case] chats: &[&str],
    #[case] user: &'static str,
    #[case] place: ChatPlace<'static>,
    #[case] direct: DirectPolicy,
    #[case] standing_of_group: PairingStatus,
    #[case] verdict: AccessVerdict,
) {
    let policy = AccessPolicy { direct, chats: set(chats), members: set(&["7"]), ..closed() };
    let called = AccessRequest { user, standing_of_group, calls_me: true, ..approach(place) };
    assert_eq!(policy.judge(&called), verdict);
    let by_a_bot = policy.judge(&AccessRequest { bot: true, ..called });
    assert_ne!(by_a_bot, AccessVerdict::Pair, "bots read no codes to operators");
}

#[rstest]
#[case::pairing_stranger(DirectPolicy::Pairing, "7", PairingStatus::Stranger, AccessVerdict::Pair)]
#[case::pairing_waiting(DirectPolicy::Pairing, "7", PairingStatus::Waiting, AccessVerdict::Pair)]
#[case::pairing_paired(DirectPolicy::Pairing, "7", PairingStatus::Paired, answered("main"))]
#[case::pairing_revoked(
    DirectPolicy::Pairing,
    "7",
    PairingStatus::Revoked,
    AccessVerdict::Ignore("its pairing was revoked")
)]
#[case::banned(DirectPolicy::Open, "7", PairingStatus::Banned, AccessVerdict::Ignore("banned"))]
#[case::listed_and_banned(DirectPolicy::Pairing, "1", PairingStatus::Banned, AccessVerdict::Ignore("banned"))]
#[case::pairing_listed(DirectPolicy::Pairing, "1", PairingStatus::Stranger, answered("main"))]
#[case::list_stranger(
    DirectPolicy::Allowlist,
    "7",
    PairingStatus::Stranger,
    AccessVerdict::Ignore("not on the list of users")
)]
#[case::list_paired_before(
    DirectPolicy::Allowlist,
    "7",
    PairingStatus::Paired,
    AccessVerdict::Ignore("not on the list of users")
)]
#[case::list_listed(DirectPolicy::Allowlist, "1", PairingStatus::Stranger, answered("main"))]
#[case::open(DirectPolicy::Open, "7", PairingStatus::Stranger, answered("main"))]
#[case::off_listed(
    DirectPolicy::Off,
    "1",
    PairingStatus::Paired,
    AccessVerdict::Ignore("private chats are off")
)]
fn private_chats(
    #[case] direct: DirectPolicy,
    #[case] user: &'static str,
    #[case] standing: PairingStatus,
    #[case] verdict: AccessVerdict,
) {
    // Lists of groups open no private chat.
    let policy =
        AccessPolicy { direct, users: set(&["1"]), members: set(&["7"]), chats: set(&["7"]), ..closed() };
    assert_eq!(policy.judge(&AccessRequest { user, standing, ..approach(DIRECT) }), verdict);
}

#[rstest]
#[case(DIRECT)]
#[case(channel())]
fn its_own_messages_are_never_heard(#[case] place: ChatPlace<'static>) {
    let policy = AccessPolicy {
        direct: DirectPolicy::Open,
        users: set(&["7"]),
        chats: set(&["C"]),
        bots: true,
        respond: Respond::All,
        ..closed()
    };
    assert_eq!(policy.judge(&approach(place)), answered("main"));
    let own = AccessRequest { myself: true, bot: true, calls_me: true, ..approach(place) };
    assert_eq!(policy.judge(&own), AccessVerdict::Ignore("own message"));
}

#[test]
fn a_banned_member_is_heard_in_no_group() {
    let policy = AccessPolicy { chats: set(&["C"]), members: set(&["7"]), respond: Respond::All, ..closed() };
    let banned = AccessRequest { standing: PairingStatus::Banned, calls_me: true, ..approach(channel()) };
    assert_eq!(policy.judge(&banned), AccessVerdict::Ignore("banned"));
}

#[rstest]
#[case::deaf_to_bots(false, channel(), AccessVerdict::Ignore("message of a bot"))]
#[case::deaf_to_bots_in_private(false, DIRECT, AccessVerdict::Ignore("message of a bot"))]
#[case::hears_bots(true, channel(), kept())]
#[case::but_pairs_none(true, DIRECT, AccessVerdict::Ignore("bots are not paired"))]
fn other_bots(#[case] bots: bool, #[case] place: ChatPlace<'static>, #[case] verdict: AccessVerdict) {
    let policy = AccessPolicy { bots, chats: set(&["C"]), ..closed() };
    assert_eq!(policy.judge(&AccessRequest { bot: true, ..approach(place) }), verdict);
}

#[rstest]
#[case::server(&["S"], &[], channel(), true)]
#[case::server_covers_threads(&["S"], &[], thread(), true)]
#[case::another_server(&["X"], &[], channel(), false)]
#[case::chat(&[], &["C"], channel(), true)]
#[case::chat_covers_threads(&[], &["C"], thread(), true)]
#[case::thread_by_itself(&[], &["T"], thread(), true)]
#[case::thread_opens_no_chat(&[], &["T"], channel(), false)]
#[case::topic_of_a_listed_group(&[], &["G"], topic(), true)]
#[case::topic_number_that_is_a_listed_chat(&[], &["T"], topic(), false)]
#[case::a_group_is_no_server(&["G"], &[], topic(), false)]
#[case::a_person_is_no_place(&["7"], &["7"], channel(), false)]
fn lists_of_places(
    #[case] servers: &[&str],
    #[case] chats: &[&str],
    #[case] place: ChatPlace<'static>,
    #[case] served: bool,
) {
    // Who may write privately has no more rights in groups.
    let policy = AccessPolicy { servers: set(servers), chats: set(chats), users: set(&["7"]), ..closed() };
    let verdict = policy.judge(&AccessRequest { standing: PairingStatus::Paired, ..approach(place) });
    assert_eq!(!is_ignored(&verdict), served, "{verdict:?}");
}

#[rstest]
#[case::server(rule("S", "", ""), channel(), true)]
#[case::server_and_chat(rule("S", "C", ""), thread(), true)]
#[case::all_must_fit(rule("X", "C", ""), channel(), false)]
#[case::thread_in_a_server(rule("", "", "T"), thread(), true)]
#[case::thread_number_without_its_chat(rule("", "", "T"), topic(), false)]
#[case::topic_with_its_chat(rule("", "G", "T"), topic(), true)]
#[case::another_topic(rule("", "G", "U"), topic(), false)]
#[case::thread_rule_is_not_for_its_chat(rule("", "C", "T"), channel(), false)]
#[case::a_rule_that_names_nothing(rule("", "", ""), channel(), false)]
fn a_place_that_a_rule_names_is_served(
    #[case] rule: PlaceRule,
    #[case] place: ChatPlace<'static>,
    #[case] served: bool,
) {
    let policy = AccessPolicy { places: vec![rule], ..closed() };
    assert_eq!(!is_ignored(&policy.judge(&approach(place))), served);
}

#[rstest]
#[case::everybody(None, &[], true)]
#[case::listed(None, &["7"], true)]
#[case::not_listed(None, &["8"], false)]
#[case::the_rule_counts(Some(&["7"][..]), &["8"], true)]
#[case::the_rule_counts_against(Some(&["8"][..]), &["7"], false)]
#[case::an_empty_list_of_a_rule_is_nobody(Some(&[][..]), &[], false)]
fn members(#[case] of_rule: Option<&[&str]>, #[case] of_all: &[&str], #[case] heard: bool) {
    let rule = PlaceRule { members: of_rule.map(set), ..rule("", "C", "") };
    let policy = AccessPolicy { members: set(of_all), places: vec![rule], ..closed() };
    assert_eq!(!is_ignored(&policy.judge(&approach(channel()))), heard);
}

#[rstest]
#[case::not_called(Respond::Mention, false, kept())]
#[case::called(Respond::Mention, true, answered("main"))]
#[case::all(Respond::All, false, answered("main"))]
#[case::never(Respond::Never, true, AccessVerdict::Ignore("the bot never answers there"))]
fn when_it_answers(#[case] respond: Respond, #[case] calls_me: bool, #[case] verdict: AccessVerdict) {
    let policy = AccessPolicy { chats: set(&["C"]), respond, ..closed() };
    assert_eq!(policy.judge(&AccessRequest { calls_me, ..approach(channel()) }), verdict);
}

#[test]
fn the_most_specific_rule_that_has_a_key_gives_it() {
    let policy = AccessPolicy {
        respond: Respond::Never,
        places: vec![
            PlaceRule { members: Some(set(&["7"])), agent: Some("wide".into()), ..rule("S", "", "") },
            PlaceRule { respond: Some(Respond::All), ..rule("S", "C", "") },
            PlaceRule { agent: Some("narrow".into()), ..rule("", "", "T") },
            PlaceRule { agent: Some("second".into()), ..rule("", "", "T") },
        ],
        ..closed()
    };
    assert_eq!(policy.judge(&approach(thread())), answered("narrow"));
    assert_eq!(policy.judge(&approach(channel())), answered("wide"));
    // The rule of the channel has no list of its own: that of the server holds there, too.
    assert!(is_ignored(&policy.judge(&AccessRequest { user: "8", ..approach(thread()) })));
}
