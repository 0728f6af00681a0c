//! Servers that read whole requests, and servers that do not.

use std::collections::BTreeSet;

use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::conversation::Conversation;
use crate::testing::entry;
use cairn_types::event::{Event, ModelNews, Record, TurnEvent};
use cairn_types::ids::{AgentId, ChannelId, Generation};
use cairn_types::message::{Part, Role};
use cairn_types::trace::CallTrace;

/// One conversation with one model: what its reports were taken for.
#[derive(Default)]
struct Talk {
    watch: UsageWatch,
    correction: Correction,
    frame: String,
}

impl Talk {
    fn ask(&mut self, estimated: u64, input_tokens: u64, cached_tokens: u64) -> Reading {
        let frame = TextId::of(&self.frame);
        let ours = Usage { input_tokens: self.correction.apply(estimated), ..Usage::default() };
        let usage = Usage { input_tokens, cached_tokens, ..Usage::default() };
        let reading =
            self.watch.read(&Report { frame: Some(&frame), estimated, ours, answer_max: 500, usage });
        let reported = match reading {
            Reading::Whole(usage) => usage.input_tokens,
            Reading::Untrue | Reading::Cut => input_tokens,
        };
        if matches!(reading, Reading::Whole(_)) {
            self.correction.observe(estimated, reported);
        }
        let is_believed = matches!(reading, Reading::Whole(_));
        self.watch.take((Some(&frame), 0), (estimated, reported), is_believed, self.correction);
        reading
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Our estimate, and the server's report.
    Ask(u64, u64),
    /// Our estimate, the report, and the reported tokens that came from the cache.
    Cached(u64, u64, u64),
    /// A compaction, `/new` or `/undo`.
    Changed,
    /// Another prompt, other tools, another window.
    Reframed,
}
use Step::{Ask, Cached, Changed, Reframed};

#[rstest]
#[case::it_counts_as_we_do(&[Ask(1_000, 1_000), Ask(2_000, 2_000), Ask(9_000, 9_000)], "WWW", Some(9_000))]
#[case::another_tokenizer(&[Ask(1_000, 1_600), Ask(2_000, 3_100), Ask(9_000, 14_000)], "WWW", Some(14_000))]
#[case::text_that_we_count_too_high(&[Ask(4_000, 4_000), Ask(6_000, 5_100), Ask(8_000, 6_100)], "WWW", Some(4_000))]
#[case::a_smaller_request(&[Ask(9_000, 9_000), Ask(4_000, 4_000), Ask(5_000, 5_000)], "WWW", Some(5_000))]
#[case::a_little_falls_within_the_error(&[Ask(5_000, 5_000), Ask(5_400, 4_900)], "WW", Some(5_000))]
#[case::other_text_after_a_compaction(&[Ask(9_000, 13_000), Changed, Ask(11_000, 10_000)], "WW", Some(10_000))]
#[case::other_tools(&[Ask(9_000, 13_000), Reframed, Ask(11_000, 10_000)], "WW", Some(10_000))]
#[case::half_of_the_window_is_kept(
    &[Ask(1_000, 1_000), Ask(3_185, 3_185), Ask(4_100, 2_050), Ask(24_002, 2_050)], "WWCC", Some(3_185)
)]
#[case::the_oldest_messages_are_dropped(
    &[Ask(3_600, 3_600), Ask(4_000, 3_990), Ask(4_300, 3_900), Ask(4_600, 4_010), Ask(5_200, 3_950)],
    "WWWWC", Some(3_990)
)]
#[case::the_window_is_filled_a_little_more_each_time(
    &[Ask(3_600, 3_600), Ask(4_200, 3_900), Ask(4_800, 3_950), Ask(5_400, 3_990), Ask(6_000, 3_980)],
    "WWWWC", Some(3_600)
)]
#[case::one_message_is_larger_than_the_window(
    &[Ask(3_000, 3_000), Ask(12_000, 4_050), Ask(14_000, 3_900)], "WUC", Some(3_000)
)]
#[case::the_first_request_is_cut(&[Ask(5_000, 2_050), Ask(5_300, 2_050), Ask(5_700, 2_050)], "UUC", None)]
#[case::a_cut_window_is_found_after_a_compaction_too(
    &[Ask(3_000, 3_000), Changed, Ask(5_000, 2_050), Ask(5_900, 2_050)], "WUC", None
)]
#[case::as_much_was_added_as_is_kept(
    &[Ask(3_000, 3_000), Ask(4_800, 2_050), Ask(6_600, 2_050), Ask(7_600, 2_050)], "WUUC", Some(3_000)
)]
#[case::cached_tokens_are_not_counted(
    &[Cached(1_000, 1_000, 0), Cached(1_600, 40, 1_560), Cached(2_200, 620, 1_580), Cached(4_000, 1_900, 2_100)],
    "WWWW", Some(4_000)
)]
#[case::cached_tokens_are_not_even_told(
    &[Ask(1_000, 1_000), Ask(1_600, 600), Ask(2_200, 620), Ask(2_800, 560), Ask(4_000, 1_200)],
    "WUUUU", Some(1_000)
)]
#[case::cached_tokens_are_part_of_the_request(
    &[Cached(1_000, 1_000, 0), Cached(2_000, 2_000, 960), Cached(4_000, 4_000, 1_984)], "WWW", Some(4_000)
)]
#[case::nothing_is_counted(&[Ask(1_000, 1), Ask(5_000, 1), Ask(9_000, 1)], "UUU", None)]
fn reports_are_read(#[case] steps: &[Step], #[case] readings: &str, #[case] believed: Option<u64>) {
    let mut talk = Talk::default();
    let mut found = String::new();
    for step in steps {
        let reading = match *step {
            Ask(estimated, reported) => talk.ask(estimated, reported, 0),
            Cached(estimated, reported, cached) => talk.ask(estimated, reported, cached),
            Changed => {
                talk.watch.restart();
                continue;
            }
            Reframed => {
                talk.frame.push('x');
                continue;
            }
        };
        found.push(match reading {
            Reading::Whole(_) => 'W',
            Reading::Untrue => 'U',
            Reading::Cut => 'C',
        });
    }
    assert_eq!((found.as_str(), talk.watch.believed()), (readings, believed));
}

#[test]
fn reports_of_requests_that_were_cut_unnoticed_do_not_count_once_it_is_noticed() {
    let mut talk = Talk::default();
    for (estimated, reported) in [(3_600, 3_600), (4_000, 4_000), (4_400, 3_900), (5_000, 3_950)] {
        talk.ask(estimated, reported, 0);
    }
    assert!(talk.correction.apply(4_000) < 4_000, "the third was within the error");
    let correction = talk.watch.correction().unwrap();
    assert!(correction.apply(4_000) >= 4_000, "{correction:?}");
}

/// A piece of a conversation: our estimate, and how many tokens of the server's one of ours is.
fn piece(most: u64) -> impl Strategy<Value = (u64, f64)> {
    (20..most, 0.85..1.15_f64)
}

fn tokens(pieces: &[(u64, f64)], scale: f64) -> (u64, u64) {
    let real: f64 = pieces.iter().map(|(estimated, share)| *estimated as f64 * share * scale).sum();
    (pieces.iter().map(|(estimated, _)| estimated).sum(), real as u64)
}

proptest! {
    /// Whatever its tokenizer, and however the conversation changes.
    #[test]
    fn a_server_that_reads_all_is_never_taken_for_one_that_cuts(
        scale in 0.6..2.5_f64,
        talk in proptest::collection::vec((piece(3_000), piece(400), 0..8_u8), 1..60),
    ) {
        let mut seen = Talk::default();
        let mut window = vec![(1_500, 1.0)];
        for (message, tail, change) in talk {
            if change == 0 && window.len() > 4 {
                window.drain(1..window.len() / 2);
                window.insert(1, (300, 1.0));
                seen.watch.restart();
            }
            window.push(message);
            let (estimated, real) = tokens(&[window.as_slice(), &[tail]].concat(), scale);
            let reading = seen.ask(estimated, real, 0);
            prop_assert!(matches!(reading, Reading::Whole(_)), "{reading:?} of {real} for {estimated}");
        }
    }

    /// In whichever way it cuts, before requests are twice as large as its window, and without harm to the estimate.
    #[test]
    fn a_server_that_cuts_is_noticed(
        scale in 0.7..1.6_f64,
        context in 4_000..40_000_u64,
        halves in any::<bool>(),
        messages in proptest::collection::vec(piece(700), 400),
    ) {
        let mut seen = Talk::default();
        let mut window = vec![(1_500, 1.0)];
        for message in messages {
            window.push(message);
            let (estimated, real) = tokens(&window, scale);
            // Prompt and newest message always stay.
            let mut kept = window.clone();
            while !halves && kept.len() > 2 && tokens(&kept, scale).1 > context {
                kept.remove(1);
            }
            let kept = tokens(&kept, scale).1;
            let reported = if kept <= context { kept } else { context / 2 + 2 };
            if seen.ask(estimated, reported, 0) == Reading::Cut {
                prop_assert!(real > context);
                let believed = seen.watch.believed().unwrap();
                prop_assert!(believed <= context && believed * 2 > context, "{believed} of {context}");
                let corrected = seen.watch.correction().unwrap().apply(estimated);
                prop_assert!(corrected as f64 > real as f64 * 0.9, "{corrected} for {real}");
                return Ok(());
            }
            prop_assert!(real < context * 2, "{real} tokens, {context} are read");
        }
    }
}

#[rstest]
#[case::the_window_is_larger_than_the_servers(4_096, 0, 3_900, 3_800, (16_000, WindowSource::Model), Some(4_096))]
#[case::the_estimate_is_higher(4_096, 0, 8_000, 3_800, (16_000, WindowSource::Model), Some(4_096))]
#[case::it_was_learnt_and_is_filled(4_096, 0, 4_000, 3_800, (4_096, WindowSource::Learnt), Some(4_096))]
#[case::it_was_learnt_and_is_not_filled(2_800, 0, 2_800, 2_000, (4_096, WindowSource::Learnt), None)]
#[case::something_was_said(4_096, 1, 3_900, 3_800, (16_000, WindowSource::Model), None)]
#[case::more_was_answered_before(3_000, 0, 3_000, 8_000, (16_000, WindowSource::Model), None)]
#[case::far_too_few_are_reported(50, 0, 3_900, 0, (16_000, WindowSource::Model), None)]
#[case::nothing_is_reported(0, 0, 0, 0, (16_000, WindowSource::Model), None)]
fn an_answer_without_a_token_is_told_from_one_that_was_all_thought(
    #[case] input_tokens: u64,
    #[case] output_tokens: u64,
    #[case] estimated: u64,
    #[case] taken: u64,
    #[case] (window_tokens, source): (u64, WindowSource),
    #[case] expected: Option<u64>,
) {
    let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
    let window = WindowSize { window_tokens, output_reserve_tokens: 512, source };
    assert_eq!(filled_window(usage, estimated, taken, window), expected);
}

/// The records of a conversation, folded as they come.
struct Journal {
    conversation: Conversation,
}

impl Journal {
    fn new() -> Self {
        let channel = ChannelId::local(&AgentId::new("main"), "c").unwrap();
        Self { conversation: Conversation::new(channel) }
    }

    fn add(&mut self, event: Event) {
        let (n, channel) = (self.conversation.last_n + 1, Some(self.conversation.channel.clone()));
        let record = Record { n, at: "2026-02-02T02:40:00Z".parse().unwrap(), channel, event };
        self.conversation.apply(&record).unwrap();
    }

    fn report(&mut self, estimated: u64, tokens: u64, set_window: Option<u64>, is_believed: bool) {
        let usage = |input_tokens| Usage { input_tokens, ..Usage::default() };
        let trace = CallTrace {
            at_n: self.conversation.last_n,
            asked_at: Timestamp::UNIX_EPOCH,
            frame: TextId::of("frame"),
            body: None,
            last_call: false,
            first_ms: None,
            total_ms: 1,
            waited_ms: 0,
            cost: None,
            failure: None,
            tried: Vec::new(),
            work: None,
        };
        self.add(Event::Turn(TurnEvent::UsageReported {
            model: "fake".to_owned(),
            estimated,
            usage: usage(if is_believed { tokens } else { estimated }),
            disbelieved: (!is_believed).then(|| usage(tokens)),
            is_estimate: false,
            set_window,
            caused_by: BTreeSet::new(),
            trace: Some(Box::new(trace)),
        }));
    }

    fn learn(&mut self, news: ModelNews) {
        self.add(Event::Turn(TurnEvent::ModelLearnt(ModelNews { model: "fake".to_owned(), ..news })));
    }

    fn believed(&self) -> Option<u64> {
        self.conversation.usage_watches.get("fake").and_then(UsageWatch::believed)
    }

    fn ratio(&self) -> f64 {
        self.conversation.correction("fake").ratio
    }
}

#[test]
fn what_a_cut_request_has_taught_is_taken_back() {
    let mut journal = Journal::new();
    journal.report(4_000, 4_000, Some(0), true);
    let ratio = journal.ratio();
    journal.report(4_400, 3_000, Some(0), true);
    assert!(journal.ratio() < ratio, "it was within the error");
    journal.learn(ModelNews {
        window_tokens: Some(5_000),
        window_of: Some(128_000),
        cut: true,
        ..ModelNews::default()
    });
    journal.report(5_000, 3_000, Some(0), false);
    assert_eq!((journal.ratio(), journal.believed()), (ratio, None));
    let learnt = &journal.conversation.learnt["fake"];
    assert!(learnt.cut && learnt.window(128_000) == Some(5_000) && !learnt.inferred, "{learnt:?}");
    // A window that is named later was not cut.
    journal.learn(ModelNews { window_tokens: Some(4_096), window_of: Some(128_000), ..ModelNews::default() });
    assert!(!journal.conversation.learnt["fake"].cut);
}

#[test]
fn what_is_not_growth_ends_the_comparison() {
    let changes: [fn(&mut Journal); 4] = [
        |journal| journal.add(Event::Turn(TurnEvent::SessionStarted { generation: Generation(2) })),
        |journal| journal.learn(ModelNews { cut: true, ..ModelNews::default() }),
        |journal| {
            let mut picture = entry(Role::Assistant, "look");
            let data = "aGk=".into();
            picture.parts.push(Part::Image { name: None, media_type: "image/png".to_owned(), data });
            (picture.seq, picture.generation) =
                (journal.conversation.next_seq, journal.conversation.generation);
            journal.add(Event::Turn(TurnEvent::EntryAdded { entry: picture }));
        },
        |journal| {
            let (model, range) = ("fake".to_owned(), None);
            journal.add(Event::Turn(TurnEvent::HistoryWithheld { model, range }));
        },
    ];
    for change in changes {
        let mut journal = Journal::new();
        journal.report(4_000, 4_000, Some(0), true);
        assert_eq!(journal.believed(), Some(4_000));
        change(&mut journal);
        assert_eq!(journal.believed(), None);
    }
}

#[test]
fn another_window_in_the_configuration_is_noticed_and_forgets() {
    let mut journal = Journal::new();
    assert!(!journal.conversation.measured_otherwise("fake", 4_096), "nothing was measured");
    journal.report(4_000, 2_100, Some(0), true);
    assert!(!journal.conversation.measured_otherwise("fake", 0));
    assert!(journal.conversation.measured_otherwise("fake", 4_096));
    journal.learn(ModelNews { no_tools: Some(true), ..ModelNews::default() });
    journal.learn(ModelNews {
        window_tokens: Some(3_000),
        window_of: Some(128_000),
        cut: true,
        ..ModelNews::default()
    });
    journal.learn(ModelNews { forgets: true, ..ModelNews::default() });
    let conversation = &journal.conversation;
    assert_eq!(
        (conversation.correction("fake"), conversation.bounds.get("fake")),
        (Correction::default(), None)
    );
    let learnt = &conversation.learnt["fake"];
    assert!(learnt.no_tools && !learnt.cut && learnt.window_tokens.is_none(), "{learnt:?}");
    assert!(!conversation.measured_otherwise("fake", 4_096), "it is forgotten once");
}

/// They do not say what the configuration set.
#[test]
fn of_old_journals_a_low_correction_is_forgotten_and_a_high_one_is_not() {
    for (reported, forgotten) in [(2_100, true), (6_000, false)] {
        let mut journal = Journal::new();
        journal.report(4_000, reported, None, true);
        assert_eq!(journal.conversation.measured_otherwise("fake", 4_096), forgotten, "{reported}");
    }
}
