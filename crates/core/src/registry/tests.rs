//! Pairings, moved chats and the day's use, folded from records.

use std::collections::BTreeSet;

use rstest::rstest;

use super::*;
use cairn_types::message::Author;
use cairn_types::people::access::{DirectPolicy, Respond};

/// A moment, in minutes after the first of January 2026.
fn at(minutes: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

fn record(minutes: i64, event: Event) -> Record {
    Record { n: 1, at: at(minutes), channel: None, event }
}

fn asked(minutes: i64, user: &str, code: &str) -> Record {
    let user = Author { id: format!("telegram/{user}"), name: user.to_owned() };
    record(
        minutes,
        Event::Registry(RegistryEvent::PairingRequested {
            user,
            chat: "7".to_owned(),
            code: code.to_owned(),
        }),
    )
}

fn approved(minutes: i64, user: &str) -> Record {
    record(minutes, Event::Registry(RegistryEvent::PairingApproved { user: format!("telegram/{user}") }))
}

fn moved(from: &str, to: &str) -> Record {
    let (platform, from, to) = ("telegram".to_owned(), from.to_owned(), to.to_owned());
    record(0, Event::Registry(RegistryEvent::ChatMigrated { platform, from, to }))
}

fn folded(records: &[Record]) -> RegistryState {
    let mut state = RegistryState::default();
    records.iter().for_each(|record| state.apply(record));
    state
}

const DAY: i64 = 24 * 60;

#[test]
fn a_stranger_waits_with_a_code_is_let_in_and_sent_away() {
    let mut state = folded(&[asked(0, "ana", "KIWI-42")]);
    assert_eq!(state.standing("telegram/ana", at(1)), PairingStatus::Waiting);
    assert_eq!(state.standing("telegram/ben", at(1)), PairingStatus::Stranger);
    state.apply(&approved(5, "ana"));
    assert_eq!(state.standing("telegram/ana", at(90 * DAY)), PairingStatus::Paired);
    assert_eq!(state.of_code("KIWI-42", at(6)), None, "a code is good for one approval");
    state.apply(&record(
        9,
        Event::Registry(RegistryEvent::PairingRevoked { user: "telegram/ana".to_owned() }),
    ));
    assert_eq!(state.standing("telegram/ana", at(90 * DAY)), PairingStatus::Revoked);
    assert!(!state.tells_code("telegram/ana", at(90 * DAY)), "whoever was sent away is told nothing more");
    state.apply(&approved(91 * DAY, "ana"));
    assert_eq!(state.standing("telegram/ana", at(91 * DAY)), PairingStatus::Paired);
}

#[test]
fn a_ban_holds_until_its_end_or_until_it_is_lifted() {
    let ban = |user: &str, until: Option<i64>| {
        let (user, until) = (format!("telegram/{user}"), until.map(at));
        record(
            0,
            Event::Registry(RegistryEvent::BanSet {
                user,
                reason: None,
                until,
                by: "local/operator".to_owned(),
            }),
        )
    };
    let mut state =
        folded(&[asked(0, "ana", "KIWI-42"), approved(0, "ana"), ban("ana", Some(60)), ban("ben", None)]);
    assert_eq!(state.standing("telegram/ana", at(59)), PairingStatus::Banned);
    assert_eq!(state.standing("telegram/ana", at(60)), PairingStatus::Paired, "what was before holds again");
    assert_eq!(state.standing("telegram/ben", at(900 * DAY)), PairingStatus::Banned);
    state.apply(&record(1, Event::Registry(RegistryEvent::BanLifted { user: "telegram/ben".to_owned() })));
    assert_eq!(state.standing("telegram/ben", at(2)), PairingStatus::Stranger);
}

#[test]
fn what_was_said_before_counts_as_its_author_stood_then() {
    let ban = Event::Registry(RegistryEvent::BanSet {
        user: "telegram/cid".to_owned(),
        reason: None,
        until: None,
        by: "local/operator".to_owned(),
    });
    let lifted = Event::Registry(RegistryEvent::BanLifted { user: "telegram/cid".to_owned() });
    // It is set once more while it holds.
    let bans = [record(100, ban.clone()), record(150, ban), record(200, lifted)];
    let state = folded(&[&[asked(0, "ana", "KIWI-42"), approved(60, "ana")], &bans[..]].concat());
    let then = |user: &str, secs| state.standing_at(&format!("telegram/{user}"), at(secs), at(1000));
    assert_eq!(then("ana", 59), PairingStatus::Waiting);
    assert_eq!(then("ana", 60), PairingStatus::Paired);
    assert_eq!(then("cid", 99), PairingStatus::Stranger);
    assert_eq!(then("cid", 150), PairingStatus::Banned, "though the ban is lifted by now");
    assert_eq!(then("cid", 200), PairingStatus::Stranger);
}

#[test]
fn the_rules_of_a_platform_are_known_for_as_long_as_they_held() {
    let rules = |bots| AccessPolicy {
        agent: "main".into(),
        direct: DirectPolicy::Off,
        users: BTreeSet::new(),
        servers: BTreeSet::new(),
        chats: BTreeSet::new(),
        members: BTreeSet::new(),
        respond: Respond::All,
        bots,
        places: Vec::new(),
    };
    let set = |secs, access: &AccessPolicy| {
        let (platform, access) = ("discord".to_owned(), access.clone());
        record(secs, Event::Registry(RegistryEvent::AccessSet { platform, access }))
    };
    let mut state = folded(&[set(10, &rules(false)), set(20, &rules(true))]);
    assert_eq!(state.access_at("discord", at(9)), Some(&rules(false)), "not those of now");
    assert_eq!(state.access_at("discord", at(19)), Some(&rules(false)));
    assert_eq!(state.access_at("discord", at(20)), Some(&rules(true)));
    assert_eq!(state.access_at("telegram", at(20)), None);
    for n in 0..100 {
        state.apply(&set(30 + n, &rules(n % 2 == 0)));
    }
    assert_eq!(state.access["discord"].len(), ACCESS_KEPT, "they are bounded");
}

#[rstest]
#[case("KIWI-42", Some("telegram/ana"))]
#[case(" kiwi-42\n", Some("telegram/ana"))]
#[case("PEAR-17", Some("telegram/ben"))]
#[case("PLUM-99", None)]
#[case("", None)]
fn a_code_finds_its_person(#[case] code: &str, #[case] person: Option<&str>) {
    let state = folded(&[asked(0, "ana", "KIWI-42"), asked(0, "ben", "PEAR-17")]);
    assert_eq!(state.of_code(code, at(1)).map(|pairing| pairing.user.id.as_str()), person);
}

#[test]
fn a_code_is_void_after_a_day_and_gone_with_the_next_request() {
    let mut state = folded(&[asked(0, "ana", "KIWI-42")]);
    assert!(state.of_code("KIWI-42", at(DAY)).is_some());
    assert_eq!(state.of_code("KIWI-42", at(DAY + 1)), None);
    assert_eq!(state.standing("telegram/ana", at(DAY + 1)), PairingStatus::Stranger);
    state.apply(&asked(DAY + 1, "ben", "PEAR-17"));
    assert_eq!(state.pairings.keys().collect::<Vec<_>>(), ["telegram/ben"]);
    state.apply(&approved(DAY + 2, "ana"));
    assert_eq!(
        state.standing("telegram/ana", at(DAY + 2)),
        PairingStatus::Stranger,
        "there is nobody to approve"
    );
}

#[test]
fn a_stranger_is_told_the_code_again_after_ten_minutes_and_a_friend_never() {
    let mut state = folded(&[asked(0, "ana", "KIWI-42")]);
    assert!(!state.tells_code("telegram/ana", at(9)));
    assert!(state.tells_code("telegram/ana", at(10)));
    state.apply(&asked(10, "ana", "KIWI-43"));
    assert_eq!(state.of_code("KIWI-42", at(11)), None, "the newest code counts");
    assert!(!state.tells_code("telegram/ana", at(19)));
    state.apply(&approved(20, "ana"));
    assert!(!state.tells_code("telegram/ana", at(DAY)));
    state.apply(&asked(21, "ana", "KIWI-44"));
    assert_eq!(state.standing("telegram/ana", at(22)), PairingStatus::Paired, "an approval stands");
}

#[test]
fn a_clock_that_was_a_year_ahead_keeps_nobody_waiting_for_a_year() {
    let year = 365 * DAY;
    let mut state = folded(&[asked(year, "ana", "KIWI-42")]);
    assert_eq!(state.standing("telegram/ana", at(0)), PairingStatus::Stranger);
    assert!(state.tells_code("telegram/ana", at(0)));
    state.apply(&asked(1, "ana", "KIWI-43"));
    assert!(state.of_code("KIWI-43", at(2)).is_some());
    let state = folded(&[asked(60, "ben", "PEAR-17")]);
    assert!(state.of_code("PEAR-17", at(0)).is_some(), "an hour voids no code");
    assert!(state.tells_code("telegram/ben", at(0)));
}

#[test]
fn asking_again_keeps_no_place_among_those_who_wait() {
    let state = folded(&[asked(0, "ana", "KIWI-42"), asked(DAY - 10, "ana", "KIWI-42")]);
    assert_eq!(state.standing("telegram/ana", at(DAY)), PairingStatus::Waiting);
    assert_eq!(state.standing("telegram/ana", at(DAY + 1)), PairingStatus::Stranger);
}

#[test]
fn one_stranger_too_many_takes_the_place_of_whoever_waits_longest() {
    let crowd: Vec<Record> =
        (0..WAITING_MAX as i64).map(|n| asked(n, &format!("u{n}"), &format!("CODE-{n}"))).collect();
    let mut state = folded(&crowd);
    assert!(state.tells_code("telegram/late", at(64)));
    assert_eq!(state.displaced_by("telegram/u3", at(64)), None, "whoever waits already keeps their place");
    assert_eq!(state.displaced_by("telegram/late", at(64)).map(String::as_str), Some("telegram/u0"));
    state.apply(&asked(64, "late", "LATE-1"));
    assert_eq!(state.n_waiting(at(64)), WAITING_MAX);
    assert_eq!(state.standing("telegram/u0", at(64)), PairingStatus::Stranger);
    assert_eq!((state.of_code("CODE-0", at(64)), state.of_code("CODE-1", at(64)).is_some()), (None, true));
    state.apply(&asked(65, "u0", "CODE-A"));
    assert!(state.of_code("CODE-A", at(65)).is_some(), "they may ask again, with another code");
    assert_eq!(state.of_code("CODE-1", at(65)), None);
    state.apply(&approved(66, "u5"));
    assert_eq!(state.displaced_by("telegram/later", at(66)), None, "who is let in waits no longer");
}

#[test]
fn whoever_lost_their_place_is_not_told_again_at_once() {
    let crowd: Vec<Record> =
        (0..=WAITING_MAX).map(|n| asked(0, &format!("u{n:02}"), &format!("CODE-{n}"))).collect();
    let mut state = folded(&crowd);
    assert_eq!(state.standing("telegram/u00", at(0)), PairingStatus::Stranger);
    assert!(!state.tells_code("telegram/u00", at(9)), "however often they write");
    assert!(state.tells_code("telegram/u00", at(10)));
    state.apply(&asked(10, "late", "LATE-1"));
    assert!(!state.pairings.contains_key("telegram/u00"), "nor are they remembered for longer");
}

#[rstest]
#[case(&[], "1", "1", "1")]
#[case(&[("1", "2")], "1", "1", "2")]
#[case(&[("1", "2")], "2", "1", "2")]
#[case(&[("1", "2"), ("2", "3")], "1", "1", "3")]
#[case(&[("1", "2"), ("2", "3")], "2", "1", "3")]
#[case(&[("1", "2"), ("2", "3")], "3", "1", "3")]
#[case(&[("1", "2"), ("1", "2")], "2", "1", "2")]
#[case(&[("1", "2"), ("2", "1")], "1", "1", "1")]
#[case(&[("1", "2"), ("2", "3"), ("3", "2")], "2", "1", "2")]
#[case(&[("1", "2"), ("2", "3"), ("3", "1"), ("1", "4")], "4", "1", "4")]
#[case(&[("1", "1")], "1", "1", "1")]
#[case(&[("1", "2")], "9", "9", "9")]
fn a_chat_that_moves_is_found_by_every_id(
    #[case] moves: &[(&str, &str)],
    #[case] id: &str,
    #[case] home: &str,
    #[case] address: &str,
) {
    let records: Vec<Record> = moves.iter().map(|(from, to)| moved(from, to)).collect();
    let state = folded(&records);
    assert_eq!(
        (state.home_of("telegram", id), state.address_of("telegram", id)),
        (home.into(), address.into())
    );
}

#[test]
fn chats_of_another_platform_stay_where_they_are() {
    let state = folded(&[moved("1", "2")]);
    assert_eq!(state.home_of("discord", "2"), "2");
    assert_eq!(state.address_of("discord", "1"), "1");
}

#[test]
fn a_state_that_moves_in_a_circle_hangs_nobody() {
    let mut state = RegistryState::default();
    state.moved.insert("telegram/1".to_owned(), "2".to_owned());
    state.moved.insert("telegram/2".to_owned(), "1".to_owned());
    assert!(["1", "2"].contains(&state.home_of("telegram", "1").as_str()));
    assert!(["1", "2"].contains(&state.address_of("telegram", "1").as_str()));
}

#[test]
fn usage_is_summed_by_model_and_begins_again_at_midnight() {
    let usage = |n| Usage { input_tokens: n, output_tokens: 1, cached_tokens: 0, cache_write_tokens: 0 };
    let spent = |minutes, model: &str, n| {
        record(
            minutes,
            Event::Compaction(CompactionEvent::UsageSpent {
                model: model.to_owned(),
                usage: usage(n),
                is_estimate: false,
                trace: None,
            }),
        )
    };
    let reported = |minutes, n| {
        let model = "main".to_owned();
        record(
            minutes,
            Event::Turn(TurnEvent::UsageReported {
                model,
                estimated: 1,
                usage: usage(n),
                disbelieved: None,
                is_estimate: false,
                set_window: None,
                caused_by: BTreeSet::new(),
                trace: None,
            }),
        )
    };
    let mut day = UsageDay::default();
    for record in [reported(0, 100), spent(1, "main", 20), spent(DAY - 1, "small", 7)] {
        day.apply(&record);
    }
    assert_eq!(day.day, Some(day_of(at(0))));
    assert_eq!(
        day.models["main"],
        Usage { input_tokens: 120, output_tokens: 2, cached_tokens: 0, cache_write_tokens: 0 }
    );
    assert_eq!(day.models["small"], usage(7));
    day.apply(&record(DAY, Event::Maintenance(MaintenanceEvent::DaemonStopped)));
    assert_eq!(day.models.len(), 2, "a day ends with the first use of the next");
    day.apply(&reported(DAY, 3));
    assert_eq!((day.day, day.models.len()), (Some(day_of(at(DAY))), 1));
    assert_eq!(day.models["main"], usage(3));
}
