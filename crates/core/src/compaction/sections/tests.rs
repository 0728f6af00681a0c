//! Sections: read in whatever form a model writes them, and merged one by one.

use jiff::Timestamp;
use rstest::rstest;

use super::*;
use cairn_types::ids::Seq;

fn summary(n: u64, text: &str) -> Summary {
    Summary {
        id: format!("s{n}").into(),
        level: 0,
        from_seq: Seq(n),
        to_seq: Seq(n),
        from_at: Timestamp::UNIX_EPOCH,
        to_at: Timestamp::UNIX_EPOCH,
        messages: 1,
        tokens: estimate(text),
        made_by: "fake".to_owned(),
        text: text.to_owned(),
        identifiers: Vec::new(),
        provisional: false,
    }
}

#[rstest]
#[case::as_asked("## Goal\n- a\n\n## Next steps\n- b", "## Goal\n- a\n\n## Next steps\n- b")]
#[case::other_order("## Next steps\n- b\n## Goal\n- a", "## Goal\n- a\n\n## Next steps\n- b")]
#[case::other_marks("**Goals:**\n- a\n# NEXT STEPS:\n- b", "## Goal\n- a\n\n## Next steps\n- b")]
#[case::ampersand("### Constraints & Preferences\n- a", "## Constraints and preferences\n- a")]
#[case::twice("## Goal\n- a\n## Goal\n- b", "## Goal\n- a\n- b")]
#[case::empty_ones(
    "## Goal\nNone\n\n## Progress\n### Done\n- a\n\n## Mood and relationships\n(none)",
    "## Progress\n### Done\n- a"
)]
#[case::preface("Ann was here.\n## Goal\n- a", "## Goal\n- a\n\n## Critical context\nAnn was here.")]
#[case::plain("Ann was here.", "## Critical context\nAnn was here.")]
#[case::unknown_heading("## Goal\n- a\n## Budget\n- b", "## Goal\n- a\n## Budget\n- b")]
fn sections_are_read_in_many_forms(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(Sections::parse(text).render(), expected);
    assert_eq!(Sections::parse(expected).render(), expected, "it reads what it writes");
}

#[test]
fn sections_that_one_source_alone_has_are_copied() {
    let sources = [
        summary(1, "## Goal\n- build a shed\n\n## Key decisions\n- of wood, for it is cheap"),
        summary(2, "## Goal\n- build two sheds\n\n## Mood and relationships\n- Ann is glad"),
    ];
    let plan = plan_merge(&sources, 1_000);
    assert_eq!(
        plan.copied.render(),
        "## Key decisions\n- of wood, for it is cheap\n\n## Mood and relationships\n- Ann is glad"
    );
    let asked: Vec<&str> = plan.asked.iter().map(|source| source.text.as_str()).collect();
    assert_eq!(asked, ["## Goal\n- build a shed", "## Goal\n- build two sheds"]);
    let whole = join(&plan.copied, "## Goal\n- build two sheds, not one");
    assert!(
        whole.starts_with("## Goal\n- build two sheds, not one\n\n## Key decisions\n- of wood"),
        "{whole}"
    );
}

#[test]
fn copies_take_half_of_the_room_at_most() {
    let long = "- and they talked about the shed for a long time. ".repeat(20);
    let sources = [summary(1, &format!("## Goal\n{long}")), summary(2, "## Next steps\n- paint it")];
    let plan = plan_merge(&sources, 200);
    assert_eq!(plan.copied.render(), "## Next steps\n- paint it");
    assert_eq!(plan.asked.len(), 1);
}

#[test]
fn plain_sources_are_merged_as_they_are() {
    let sources = [summary(1, "Ann: hello\nBob: hi"), summary(2, "Ann: bye")];
    let plan = plan_merge(&sources, 100);
    assert!(plan.copied.is_empty());
    assert_eq!(plan.asked, sources);
    assert_eq!(join(&plan.copied, "Ann greets."), "Ann greets.");
    assert!(!digest_by_sections(&[&sources[0].text, &sources[1].text], 50).contains('#'));
}

#[test]
fn sections_are_merged_without_a_model_each_by_itself() {
    let sources = [
        "## Goal\n- Ann wants to build a shed of larch\n\n## Critical context\n- the key is under the pot",
        "Ann: the roses need water on Friday",
    ];
    let text = digest_by_sections(&sources, 200);
    assert!(text.starts_with("## Goal\n") && text.contains("larch"), "{text}");
    let critical = Sections::parse(&text);
    let critical = critical.get(Section::Critical).unwrap();
    assert!(critical.contains("under the pot") && critical.contains("roses"), "{text}");
    assert!(estimate(&text) <= 200);
}

#[test]
fn a_chunk_that_forgets_a_section_does_not_lose_it() {
    let so_far = "## Goal\n- build\n\n## Key decisions\n- of wood\n\n## Next steps\n- buy wood";
    let text = carried_on(Some(so_far), "## Goal\n- build two");
    assert_eq!(text, "## Goal\n- build two\n\n## Key decisions\n- of wood");
    assert_eq!(carried_on(None, "Some words."), "Some words.");
}

#[test]
fn an_extract_goes_beneath_what_is_there() {
    let text = added_to(Some("## Goal\n- build\n\n## Critical context\n- a"), "Ann: hello");
    assert_eq!(text, "## Goal\n- build\n\n## Critical context\n- a\nAnn: hello");
    assert_eq!(added_to(None, "Ann: hello"), "Ann: hello");
}

const LONG: &str = "## Goal
- a flat by the river

## Progress
- saw seven flats on Monday
- saw two flats on Tuesday

## Key decisions
- no ground floor

## Active topics and open commitments
- Anna owes Ben an answer by Friday

## Mood and relationships
- all are tired";

#[rstest::rstest]
#[case::fits(0, &["Monday", "tired"], &[])]
#[case::one_line_of_two(8, &["Goal", "flat by the river", "Progress", "no ground floor", "Friday", "Mood"], &["two flats on Tuesday\n\n"])]
#[case::needed_sections_last(38, &["Goal", "Anna owes Ben"], &["Monday", "Tuesday"])]
fn what_is_too_long_loses_lines_in_all_sections_and_those_that_are_needed_least(
    #[case] over: u64,
    #[case] kept: &[&str],
    #[case] gone: &[&str],
) {
    let budget = u64::from(estimate(LONG)) - over;
    let fitted = fit(LONG, budget);
    assert!(u64::from(estimate(&fitted)) <= budget, "{fitted}");
    assert!(kept.iter().all(|words| fitted.contains(words)), "{fitted}");
    assert!(!gone.iter().any(|words| fitted.contains(words)), "{fitted}");
}

/// Summaries of any number of lines in each section, as long as their author liked.
#[test]
fn a_summary_of_several_times_its_room_keeps_a_line_under_each_heading() {
    for times in [2, 4, 8] {
        let mut text = String::new();
        for section in Section::ALL {
            text.push_str(&format!("## {}\n", section.heading()));
            for line in 0..4 * times {
                text.push_str(&format!("- about this and that, as was said before, {line}\n"));
            }
            text.push_str(&format!("- Ada owes {} euros by 3 March, order ORD-7{times}1\n\n", 100 * times));
        }
        let budget = u64::from(estimate(&text)) / times as u64;
        let fitted = fit(&text, budget);
        assert!(u64::from(estimate(&fitted)) <= budget, "{fitted}");
        for section in Section::ALL {
            let parsed = Sections::parse(&fitted);
            assert!(parsed.get(section).is_some_and(|body| body.contains("ORD-7")), "{section:?}: {fitted}");
        }
        assert!(u64::from(estimate(&fitted)) * 10 > budget * 8, "the room is used: {fitted}");
    }
}

#[rstest::rstest]
#[case::without_headings("one line\nanother line\na third line of it", "a third line of it")]
#[case::a_line_too_long(
    "- Anna owes Ben forty euros. Carla owes him nothing. Nobody knows why that is so.",
    "Anna"
)]
#[case::no_sentences("word word word word word word word word word word word word word word", "word")]
#[case::no_spaces("我们昨天在河边的茶馆见面他说下个月要搬到杭州去住这份合同还需要再检查一遍", "我")]
fn something_is_left_of_any_text(#[case] text: &str, #[case] left: &str) {
    let fitted = fit(text, 9);
    assert!(u64::from(estimate(&fitted)) <= 9 && fitted.contains(left), "{fitted}");
}
