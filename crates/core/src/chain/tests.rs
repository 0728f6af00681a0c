//! Cool-downs, the order of a chain and the window guard, by tables.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

use super::*;
use crate::agent::{WindowSize, WindowSource};
use crate::conversation::AnsweredBy;
use crate::settings::WindowGuard;
use crate::testing::agent;
use cairn_types::ids::ChannelId;
use cairn_types::model::ModelError;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + secs).unwrap()
}

fn limited(secs: Option<u64>) -> ModelError {
    ModelError::RateLimited { message: "slow down".to_owned(), retry_after: secs.map(Duration::from_secs) }
}

fn overloaded(secs: Option<u64>) -> ModelError {
    ModelError::Overloaded { message: "busy".to_owned(), retry_after: secs.map(Duration::from_secs) }
}

#[rstest]
#[case::asked_for(limited(Some(7)), [Some(7), Some(7), Some(7)])]
#[case::asked_for_too_much(limited(Some(1_000_000)), [Some(3600), Some(3600), Some(3600)])]
#[case::limited(limited(None), [Some(60), Some(120), Some(240)])]
#[case::overloaded(overloaded(None), [Some(30), Some(60), Some(120)])]
#[case::overloaded_and_asked_for(overloaded(Some(45)), [Some(45), Some(60), Some(120)])]
#[case::timeout(ModelError::Timeout(Duration::from_secs(1)), [Some(30), Some(60), Some(120)])]
#[case::outage(ModelError::Transport("refused".to_owned()), [Some(30), Some(60), Some(120)])]
#[case::protocol(ModelError::Protocol("empty".to_owned()), [Some(30), Some(60), Some(120)])]
#[case::auth(ModelError::Auth("no key".to_owned()), [Some(1800), Some(1800), Some(1800)])]
#[case::overflow(ModelError::ContextOverflow { message: String::new(), limit: None }, [None, None, None])]
#[case::no_tools(ModelError::NoTools(String::new()), [None, None, None])]
#[case::bad_request(ModelError::refused(""), [None, None, None])]
fn each_error_has_its_cool_down(#[case] error: ModelError, #[case] pauses: [Option<u64>; 3]) {
    let cool_downs = CoolDowns::default();
    for (n, secs) in (1..).zip(pauses) {
        assert_eq!(cool_downs.after(&error, n), secs.map(Duration::from_secs), "failure {n}");
    }
    assert_eq!(cools(&error), pauses[0].is_some());
}

#[test]
fn cool_downs_grow_to_five_minutes_and_an_answer_ends_them() {
    let (cool_downs, mut health, mut now) = (CoolDowns::default(), Health::default(), at(0));
    for secs in [30, 60, 120, 240, 300, 300, 300] {
        health.failed(&overloaded(None), now, &cool_downs);
        let until = health.cooling_until(now).unwrap();
        assert_eq!(until.duration_since(now), SignedDuration::from_secs(secs));
        assert!(health.cooling_until(until - SignedDuration::from_millis(1)).is_some());
        assert_eq!(health.cooling_until(until), None, "over");
        now = until;
    }
    for _ in 0..1_000 {
        now += SignedDuration::from_hours(2);
        health.failed(&limited(None), now, &cool_downs);
    }
    assert_eq!(health.trouble.as_ref().unwrap().code, "rate_limited");
    health.answered();
    assert_eq!(health, Health::default());
    health.failed(&overloaded(None), now, &cool_downs);
    assert_eq!(health.cooling_until(now), Some(now + SignedDuration::from_secs(30)));
}

#[test]
fn what_many_conversations_find_out_at_once_counts_once() {
    let (cool_downs, mut health) = (CoolDowns::default(), Health::default());
    for n in 0..20 {
        health.failed(&overloaded(None), at(n), &cool_downs);
    }
    assert_eq!(health.failures, 1);
    assert_eq!(health.cooling_until(at(19)), Some(at(49)));
}

#[test]
fn a_time_that_the_server_asked_for_is_not_cut_short_by_another_failure() {
    let (cool_downs, mut health) = (CoolDowns::default(), Health::default());
    health.failed(&limited(Some(600)), at(0), &cool_downs);
    health.failed(&overloaded(None), at(1), &cool_downs);
    assert_eq!(health.cooling_until(at(2)), Some(at(600)));
}

#[test]
fn a_request_that_is_wrong_says_nothing_about_the_model() {
    let (cool_downs, mut health) = (CoolDowns::default(), Health::default());
    health.failed(&ModelError::refused("what?"), at(0), &cool_downs);
    assert_eq!((health.cooling_until(at(0)), health.failures), (None, 0));
    assert_eq!(health.trouble.unwrap().code, "bad_request");
}

#[test]
fn a_clock_that_is_set_back_does_not_prolong_a_cool_down() {
    let (cool_downs, mut health) = (CoolDowns::default(), Health::default());
    health.failed(&overloaded(None), at(1_000_000), &cool_downs);
    assert_eq!(health.cooling_until(at(0)), None);
}

#[rstest]
#[case::at_once(0, true)]
#[case::within_a_day(86_399, true)]
#[case::after_a_day(86_400, false)]
#[case::a_clock_that_is_set_back(-1, false)]
fn a_model_that_refused_tools_is_offered_them_again_after_a_day(#[case] secs: i64, #[case] without: bool) {
    let mut health = Health::default();
    assert!(!health.takes_no_tools(at(0)));
    health.refused_tools(at(0));
    health.failed(&overloaded(None), at(0), &CoolDowns::default());
    health.answered();
    assert_eq!(health.takes_no_tools(at(secs)), without);
}

#[test]
fn a_servers_message_is_kept_as_one_short_line() {
    let (cool_downs, mut health) = (CoolDowns::default(), Health::default());
    let error = ModelError::Transport(format!("line\nline\t{}", "ü".repeat(10_000)));
    health.failed(&error, at(0), &cool_downs);
    let message = health.trouble.unwrap().message;
    assert!(!message.contains(['\n', '\t']) && message.chars().count() == 201, "{message}");
}

fn well() -> ModelStanding {
    ModelStanding { refused: false, cooling_until: None }
}

fn cooling(secs: i64) -> ModelStanding {
    ModelStanding { cooling_until: Some(at(secs)), ..well() }
}

fn refused(standing: ModelStanding) -> ModelStanding {
    ModelStanding { refused: true, ..standing }
}

#[rstest]
#[case::no_chain(&[], None)]
#[case::first(&[well(), well()], Some(Pick::Well(0)))]
#[case::next_while_the_first_cools(&[cooling(9), well(), well()], Some(Pick::Well(1)))]
#[case::passed_over(&[refused(well()), cooling(1), well()], Some(Pick::Well(2)))]
#[case::the_first_back(&[cooling(9), cooling(3), cooling(5)], Some(Pick::Cooling(1)))]
#[case::of_two_the_earlier_in_the_chain(&[cooling(3), cooling(3)], Some(Pick::Cooling(0)))]
#[case::never_one_that_refused(&[refused(cooling(1)), cooling(9)], Some(Pick::Cooling(1)))]
#[case::all_refused(&[refused(well()), refused(cooling(1))], None)]
fn the_next_model(#[case] chain: &[ModelStanding], #[case] expected: Option<Pick>) {
    assert_eq!(pick(chain), expected);
}

const LISTED: WindowSource = WindowSource::Server;

#[rstest]
#[case::large(&[(LISTED, 32_000)], "f")]
#[case::small(&[(LISTED, 31_999)], "w")]
#[case::at_the_limit(&[(LISTED, 16_000), (LISTED, 200_000)], "wf")]
#[case::below_the_limit(&[(LISTED, 15_999), (LISTED, 200_000)], "pf")]
#[case::the_only_one(&[(LISTED, 2_000)], "w")]
#[case::the_last_one(&[(LISTED, 8_000), (LISTED, 4_000)], "pw")]
#[case::set_by_the_agent(&[(WindowSource::Agent, 8_000), (LISTED, 200_000)], "wf")]
#[case::set_by_the_model(&[(WindowSource::Model, 8_000), (LISTED, 200_000)], "wf")]
#[case::of_the_defaults(&[(WindowSource::Defaults, 8_000), (LISTED, 200_000)], "wf")]
#[case::learnt(&[(WindowSource::Learnt, 8_000), (LISTED, 200_000)], "wf")]
#[case::all_but_one(&[(LISTED, 100), (LISTED, 15_999), (WindowSource::Model, 20_000)], "ppw")]
fn the_window_guard(#[case] chain: &[(WindowSource, u64)], #[case] expected: &str) {
    let window = |(source, window_tokens)| WindowSize { window_tokens, output_reserve_tokens: 1, source };
    let chain: Vec<_> = chain.iter().map(|row| ("m", window(*row))).collect();
    let said = guard(&chain, &WindowGuard::default());
    let signs = said.iter().map(|said| match said {
        Guarded::Fine => 'f',
        Guarded::Warned(words) if words.contains("32000") => 'w',
        Guarded::PassedOver(words) if words.contains("16000") => 'p',
        other => panic!("{other:?} names no limit"),
    });
    assert_eq!(signs.collect::<String>(), expected);
}

#[rstest]
#[case::nobody_has_answered(None, 4_000, false)]
#[case::not_for_long(Some(("spare", 19)), 4_000, false)]
#[case::for_long(Some(("spare", 20)), 4_000, true)]
#[case::another_answered_last(Some(("main", 20)), 4_000, false)]
#[case::nothing_has_to_leave_for_a_larger_one(Some(("spare", 20)), 64_000, false)]
fn the_history_keeps_to_the_first_window_until_a_smaller_model_has_answered_for_long(
    #[case] answered: Option<(&str, u32)>,
    #[case] window_tokens: u64,
    #[case] keeps_to_serving: bool,
) {
    let first = agent(16_000, 1_000);
    let mut serving = AgentSettings { model: "spare".to_owned(), ..first.clone() };
    serving.window.window_tokens = window_tokens;
    let mut conversation = Conversation::new(ChannelId::local(&first.id, "c").unwrap());
    conversation.answered_by = answered.map(|(model, turns)| AnsweredBy { model: model.to_owned(), turns });
    assert_eq!(super::keeps_to_serving(&conversation, &first, &serving), keeps_to_serving);
}

#[test]
fn a_first_window_without_room_is_nothing_to_keep_to() {
    let serving = AgentSettings { model: "spare".to_owned(), ..agent(16_000, 1_000) };
    let mut first = agent(1_500, 500);
    first.system_prompt = "apples and pears ".repeat(1_000);
    let conversation = Conversation::new(ChannelId::local(&first.id, "c").unwrap());
    assert!(super::keeps_to_serving(&conversation, &first, &serving));
}
