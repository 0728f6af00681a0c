//! Limits as they are reached and as room comes back.

use rstest::rstest;

use super::*;

fn at(secs: i64) -> Timestamp {
    // 2026-01-05T10:00:00Z.
    Timestamp::from_second(1_767_607_200 + secs).expect("is a time")
}

fn channel(name: &str) -> ChannelId {
    format!("main/discord/{name}").parse().expect("is a channel")
}

fn usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage { input_tokens: input, output_tokens: output, cached_tokens: cached, cache_write_tokens: 0 }
}

fn meter(limits: TalkLimits) -> Meter {
    let price = Price { input: 2.0, cached_input: 0.5, cache_write: None, output: 10.0 };
    Meter::new(limits, BTreeMap::from([("m".to_owned(), price)]), UsageDay::default())
}

fn by_messages(user: u64, channel: u64) -> Meter {
    meter(TalkLimits {
        user_messages_per_hour: user,
        channel_messages_per_hour: channel,
        ..TalkLimits::default()
    })
}

#[test]
fn without_limits_nothing_is_refused_and_nothing_is_kept() {
    let mut meter = meter(TalkLimits::default());
    for n in 0..1000 {
        meter.admit(&channel("1"), "discord/7", at(n)).expect("no limit");
        meter.spent(&channel("1"), &["discord/7".to_owned()], "m", usage(1_000_000, 0, 1_000_000), at(n));
    }
    assert!(meter.users.is_empty() && meter.channels.is_empty());
}

#[rstest]
// (limit of a person, of a channel, who and where with whether they are let in)
#[case::a_person_everywhere(2, 0, &[("a", "1", true), ("a", "2", true), ("a", "3", false), ("b", "3", true)])]
#[case::a_channel_from_everybody(0, 2, &[("a", "1", true), ("b", "1", true), ("c", "1", false), ("c", "2", true)])]
#[case::what_is_refused_does_not_count(1, 2, &[("a", "1", true), ("a", "1", false), ("a", "1", false), ("b", "1", true)])]
fn messages_are_counted(#[case] user: u64, #[case] by_channel: u64, #[case] said: &[(&str, &str, bool)]) {
    let mut meter = by_messages(user, by_channel);
    for (n, (who, place, in_)) in said.iter().enumerate() {
        let verdict = meter.admit(&channel(place), who, at(n as i64));
        assert_eq!(verdict.is_ok(), *in_, "message {n}: {verdict:?}");
    }
}

#[test]
fn the_hour_slides_and_the_wait_that_was_named_is_enough() {
    let mut meter = by_messages(2, 0);
    let place = channel("1");
    for secs in [0, 1800] {
        meter.admit(&place, "a", at(secs)).expect("has room");
    }
    let limited = meter.admit(&place, "a", at(1830)).expect_err("two are in the hour");
    assert_eq!(limited.retry_after_secs, 3660 - 1830);
    assert!(limited.words.to_string().contains("in 31 minutes"), "{}", limited.words);
    meter.admit(&place, "a", at(3599)).expect_err("still in the hour of the first");
    meter.admit(&place, "a", at(1830 + limited.retry_after_secs as i64)).expect("the first has left");
    meter.admit(&place, "a", at(3661)).expect_err("the second has not");
}

#[test]
fn a_refusal_is_told_once_until_the_next_message_is_let_in() {
    let mut meter = by_messages(1, 0);
    let place = channel("1");
    let mut tell = |secs| meter.admit(&place, "a", at(secs)).map_err(|limited| limited.tell);
    assert_eq!(tell(0), Ok(()));
    assert_eq!([tell(1), tell(2), tell(3000)], [Err(true), Err(false), Err(false)]);
    assert_eq!(tell(3660), Ok(()));
    assert_eq!([tell(3661), tell(3662)], [Err(true), Err(false)]);
}

#[test]
fn each_channel_is_told_for_itself() {
    let mut meter = by_messages(0, 1);
    for place in ["1", "2"] {
        meter.admit(&channel(place), "a", at(0)).expect("has room");
    }
    for place in ["1", "2"] {
        let tells = [(); 2].map(|()| meter.admit(&channel(place), "b", at(1)).expect_err("is full").tell);
        assert_eq!(tells, [true, false], "{place}");
    }
}

#[rstest]
#[case::alone(&["a"], 99, true)]
#[case::alone_at_the_limit(&["a"], 100, false)]
#[case::shared_by_two(&["a", "b"], 199, false)]
#[case::shared_by_two_and_below(&["a", "b"], 198, true)]
#[case::one_who_is_named_twice(&["a", "a"], 100, false)]
#[case::nobody(&[], 1000, true)]
fn tokens_count_for_those_who_caused_them(#[case] users: &[&str], #[case] tokens: u64, #[case] in_: bool) {
    let mut meter = meter(TalkLimits { user_tokens_per_hour: 100, ..TalkLimits::default() });
    let users: Vec<String> = users.iter().map(|user| (*user).to_owned()).collect();
    meter.spent(&channel("1"), &users, "m", usage(tokens - 9, 0, 9), at(0));
    assert_eq!(meter.admit(&channel("2"), "a", at(1)).is_ok(), in_);
    assert!(meter.admit(&channel("2"), "a", at(3660)).is_ok(), "an hour later");
}

#[test]
fn tokens_of_a_channel_count_whoever_caused_them() {
    let mut meter = meter(TalkLimits { channel_tokens_per_hour: 100, ..TalkLimits::default() });
    meter.spent(&channel("1"), &[], "m", usage(100, 0, 0), at(0));
    let limited = meter.admit(&channel("1"), "a", at(0)).expect_err("is used up");
    assert_eq!((limited.retry_after_secs, limited.tell), (3660, true));
    meter.admit(&channel("2"), "a", at(0)).expect("is another channel");
}

#[rstest]
#[case::request(usage(1_000_000, 0, 0), 2.0)]
#[case::from_the_cache(usage(1_000_000, 1_000_000, 0), 0.5)]
#[case::answer(usage(0, 0, 500_000), 5.0)]
#[case::more_cached_than_asked(usage(1_000_000, 9_000_000, 0), 0.5)]
fn money_is_counted(#[case] usage: Usage, #[case] money: f64) {
    let mut meter = meter(TalkLimits::default());
    meter.spent(&channel("1"), &[], "m", usage, at(0));
    meter.spent(&channel("1"), &[], "free", usage, at(0));
    assert!((meter.spent_today(at(1)) - money).abs() < 1e-9, "{}", meter.spent_today(at(1)));
}

#[test]
fn a_cached_token_without_a_price_costs_as_any_other() {
    let price = Price { input: 3.0, ..Price::default() };
    assert!((price.of(usage(1_000_000, 1_000_000, 0)) - 3.0).abs() < 1e-9);
}

#[test]
fn the_cap_holds_for_all_until_midnight_and_is_told_once_in_each_channel() {
    let mut meter = meter(TalkLimits { spend_per_day: 2.0, ..TalkLimits::default() });
    meter.spent(&channel("1"), &[], "m", usage(999_999, 0, 0), at(0));
    meter.admit(&channel("1"), "a", at(0)).expect("a little is left");
    meter.spent(&channel("1"), &[], "m", usage(1, 0, 0), at(0));
    for place in ["1", "2"] {
        let limited = meter.admit(&channel(place), "a", at(0)).expect_err("the day is spent");
        assert_eq!((limited.retry_after_secs, limited.tell), (14 * 3600, true));
        assert!(
            limited.words.to_string().contains("midnight") && limited.words.to_string().contains("14 hours"),
            "{}",
            limited.words
        );
        assert!(!meter.admit(&channel(place), "b", at(9)).expect_err("the day is spent").tell);
    }
    meter.admit_spend(at(14 * 3600 - 1)).expect_err("the day is spent");
    meter.admit_spend(at(14 * 3600)).expect("a new day");
    assert!(meter.spent_today(at(14 * 3600)).abs() < 1e-9);
}

#[rstest]
#[case::today(0, false)]
#[case::yesterday(-86_400, true)]
fn after_a_restart_the_day_goes_on(#[case] used_at: i64, #[case] in_: bool) {
    let day = UsageDay {
        day: Some(day_of(at(used_at))),
        models: BTreeMap::from([("m".to_owned(), usage(1_000_000, 0, 0))]),
    };
    let prices = BTreeMap::from([("m".to_owned(), Price { input: 2.0, ..Price::default() })]);
    let mut meter = Meter::new(TalkLimits { spend_per_day: 1.0, ..TalkLimits::default() }, prices, day);
    assert_eq!(meter.spent_today(at(0)) > 0.0, !in_);
    assert_eq!(meter.admit(&channel("1"), "a", at(0)).is_ok(), in_);
}

#[test]
fn what_is_over_is_forgotten() {
    let mut meter = by_messages(5, 5);
    for n in 0..10_000 {
        meter.admit(&channel(&n.to_string()), &n.to_string(), at(n)).expect("each is new");
    }
    assert!(meter.users.len() <= 3720 && meter.channels.len() <= 3720, "{}", meter.users.len());
    for n in 0..10_000 {
        meter.spent(&channel("1"), &["a".to_owned()], "m", usage(1, 0, 0), at(10_000 + n));
    }
    assert!(meter.users["a"].buckets.len() <= 61);
    meter.sweep(at(30_000));
    assert!(meter.users.is_empty() && meter.channels.is_empty());
}

#[test]
fn a_clock_that_was_hours_ahead_locks_nobody_out() {
    let mut meter = by_messages(1, 0);
    meter.admit(&channel("1"), "a", at(36_000)).expect("has room");
    meter.admit(&channel("1"), "a", at(0)).expect("the clock was wrong");
    assert!(meter.admit(&channel("1"), "a", at(1)).expect_err("is counted").retry_after_secs <= 3660);
}

#[rstest]
#[case(1, "in a minute")]
#[case(60, "in a minute")]
#[case(61, "in 2 minutes")]
#[case(54 * 60, "in 54 minutes")]
#[case(54 * 60 + 1, "in about an hour")]
#[case(61 * 60, "in about an hour")]
#[case(65 * 60, "in about an hour")]
#[case(65 * 60 + 1, "in about an hour and a half")]
#[case(95 * 60, "in about an hour and a half")]
#[case(96 * 60, "in about 2 hours")]
#[case(125 * 60, "in about 2 hours")]
#[case(126 * 60, "in about 3 hours")]
#[case(12 * 3600, "in about 12 hours")]
#[case(23 * 3600, "in about 23 hours")]
#[case(24 * 3600, "in about a day")]
fn a_wait_is_told_as_people_say_it(#[case] secs: u64, #[case] words: &str) {
    assert_eq!(in_words(secs).to_string(), words);
}

#[test]
fn calls_in_flight_hold_back_those_that_the_days_money_may_not_pay() {
    let mut meter = meter(TalkLimits { spend_per_day: 1.0, ..TalkLimits::default() });
    // 0.2 for the request, 0.01 for the answer.
    let price = meter.likely_price("m", 100_000, 4_000);
    assert!((price - 0.21).abs() < 1e-9, "{price}");
    assert!(meter.likely_price("free", 100_000, 4_000).abs() < 1e-9);
    let began = (0..60).filter(|_| meter.try_reserve(price, at(0)).expect("nothing is spent")).count();
    assert_eq!(began, 4, "a fifth one might not be paid");
    for _ in 0..began {
        meter.spent(&channel("1"), &[], "m", usage(100_000, 0, 0), at(1));
        meter.release(price);
    }
    assert!((meter.spent_today(at(1)) - 0.8).abs() < 1e-9);
    assert_eq!(meter.try_reserve(price, at(2)), Ok(true), "the only one in flight is let through");
    assert_eq!(meter.try_reserve(price, at(2)), Ok(false));
    meter.spent(&channel("1"), &[], "m", usage(100_000, 0, 0), at(3));
    meter.release(price);
    meter.try_reserve(price, at(3)).expect_err("all is spent");
    assert_eq!(meter.try_reserve(price, at(24 * 3600)), Ok(true), "the next day");
}

#[test]
fn without_a_cap_nothing_waits_for_calls_in_flight() {
    let mut meter = meter(TalkLimits::default());
    assert!((0..60).all(|_| meter.try_reserve(1e6, at(0)) == Ok(true)));
}

#[test]
fn commands_and_messages_share_the_hour_and_the_spent_day_stops_no_command() {
    let mut meter =
        meter(TalkLimits { user_messages_per_hour: 2, spend_per_day: 1.0, ..TalkLimits::default() });
    meter.admit(&channel("1"), "a", at(0)).expect("has room");
    meter.spent(&channel("1"), &[], "m", usage(500_000, 0, 0), at(0));
    meter.admit_command(&channel("1"), "a", at(1)).expect("costs nothing");
    let limited = meter.admit_command(&channel("1"), "a", at(2)).expect_err("two are in the hour");
    assert!(limited.words.to_string().contains("many messages"), "{}", limited.words);
}
