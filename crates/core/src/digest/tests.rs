//! Tests of digests.

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::testing::author;
use cairn_types::ids::Seq;
use cairn_types::message::Part;
use cairn_types::tokens::estimate;

fn entry(seq: u64, role: Role, name: &str, at: &str, text: &str) -> Arc<Entry> {
    let mut entry = crate::testing::entry(role, text);
    (entry.seq, entry.at) = (Seq(seq), at.parse().unwrap());
    entry.author = entry.author.map(|_| author("local/u", name));
    Arc::new(entry)
}

fn conversation() -> Vec<Arc<Entry>> {
    let monday = "2026-11-02T09:00:00Z";
    let tuesday = "2026-11-03T18:30:00Z";
    vec![
        entry(1, Role::User, "Anna", monday, "Hi there! How are you today?"),
        entry(2, Role::Assistant, "", monday, "Hello, I am fine, thanks. How are you?"),
        entry(3, Role::User, "Anna", monday, "Good. I booked the ferry to Ithaca for 14 May. Yes."),
        entry(4, Role::Tool, "", monday, "ferry zanzibar timetable 99 rows"),
        entry(5, Role::Assistant, "", monday, "Nice. Is there anything else?"),
        entry(6, Role::User, "Ben", tuesday, "Our landlord Mr. Popov raised the rent to 1,240 euros."),
        entry(7, Role::User, "Anna", tuesday, "Oh no. That is a lot. I see."),
        entry(8, Role::User, "Ben", tuesday, "Yes it is."),
    ]
}

#[test]
fn what_is_rare_and_dated_is_kept_with_its_author_and_day() {
    let lines = digest(&conversation(), 60);
    let kept: Vec<u64> = lines.iter().map(|line| line.seq.0).collect();
    let text = render(&lines);
    assert!(kept.is_sorted(), "{kept:?}");
    assert!(text.contains("[2026-11-02] Anna: Good. I booked the ferry to Ithaca for 14 May."), "{text}");
    assert!(
        text.contains("[2026-11-03] Ben: Our landlord Mr. Popov raised the rent to 1,240 euros."),
        "{text}"
    );
    assert!(!text.contains("Yes it is"), "{text}");
}

#[test]
fn of_a_long_text_the_telling_sentences_are_kept() {
    let filler = "It is what it is, and so it goes on and on for all of us here. ".repeat(6);
    let text = format!("{filler}The vault code of the Lisbon branch is 4711. {filler}");
    let text = render(&digest(&[entry(1, Role::User, "Anna", "2026-11-02T09:00:00Z", &text)], 40));
    assert!(text.contains("The vault code of the Lisbon branch is 4711."), "{text}");
}

#[test]
fn the_date_stands_only_where_the_day_changes() {
    let text = render(&digest(&conversation(), 1000));
    assert_eq!(text.matches("[2026-11-02] ").count(), 1, "{text}");
    assert_eq!(text.matches("[2026-11-03] ").count(), 1, "{text}");
}

#[test]
fn tool_results_and_quotations_are_left_out() {
    let mut entries = conversation();
    let mut echo = Entry::clone(&entries[1]);
    echo.parts = vec![Part::text("Found: xylophone.")];
    echo.quotes = true;
    entries.push(Arc::new(echo));
    let text = render(&digest(&entries, 1000));
    assert!(!text.contains("zanzibar") && !text.contains("xylophone"), "{text}");
}

#[test]
fn what_was_said_twice_is_kept_once() {
    let at = "2026-11-02T09:00:00Z";
    let said = "The password of the boathouse is walrus seventeen.";
    let entries: Vec<_> = (1..=6)
        .map(|seq| {
            entry(
                seq,
                Role::User,
                "Anna",
                at,
                if seq < 6 { said } else { "Cedric repairs the mast on Sunday." },
            )
        })
        .collect();
    let text = render(&digest(&entries, 45));
    assert!(text.contains("Cedric") && text.contains("walrus"), "{text}");
    assert_eq!(text.matches("walrus").count(), 1, "{text}");
}

#[rstest]
#[case::nothing(0)]
#[case::too_little(5)]
#[case::little(25)]
#[case::more(70)]
fn the_budget_is_kept(#[case] budget: u32) {
    let text = render(&digest(&conversation(), budget));
    assert!(estimate(&text) <= budget, "{text}");
}

#[test]
fn a_giant_sentence_is_cut_to_the_budget() {
    let giant = "word ".repeat(50_000) + &"x".repeat(100_000);
    let lines = digest(&[entry(1, Role::User, "Anna", "2026-11-02T09:00:00Z", &giant)], 300);
    let tokens = estimate(&render(&lines));
    assert!(tokens <= 300 && tokens > 0, "{tokens}");
}

#[test]
fn merged_digests_keep_the_day_of_every_line() {
    let sources = [
        "[2026-11-02] Anna: Oh well.\nAnna: I booked the ferry to Ithaca for 14 May.",
        "[2026-11-03] Ben: Oh yes.\nBen: Mr. Popov raised the rent to 1,240 euros.",
    ];
    let text = digest_texts(&sources, 60);
    assert!(text.contains("[2026-11-02] Anna: I booked the ferry to Ithaca for 14 May."), "{text}");
    assert!(text.contains("[2026-11-03] Ben: Mr. Popov raised the rent"), "{text}");
    assert!(estimate(&text) <= 60);
}

#[test]
fn summaries_in_prose_are_merged_by_sentences() {
    let prose =
        "Anna plans a trip. She booked the ferry to Ithaca for 14 May.\n\n- Open: who feeds the cat Mimi?";
    let text = digest_texts(&[prose], 1000);
    assert!(text.contains("ferry to Ithaca") && text.contains("cat Mimi"), "{text}");
}

/// What a digest of these keeps, each said by another person in turn, at a third of their size.
fn kept(said: &[&str]) -> String {
    let names = ["Anna", "Ben"];
    let entries: Vec<_> = said
        .iter()
        .zip(1..)
        .map(|(text, seq)| entry(seq, Role::User, names[seq as usize % 2], "2026-11-02T09:00:00Z", text))
        .collect();
    let size: u32 = said.iter().map(|text| estimate(text)).sum();
    render(&digest(&entries, size / 3 + 16))
}

const CHATTER: [&str; 5] = [
    "Honestly the bus was so very crowded and slow again this morning.",
    "That gloomy weather makes everybody around here a little sleepy.",
    "We laughed about the strange pigeons behind the bakery window.",
    "My umbrella turned inside out while I waited for the tram.",
    "Such a lovely evening it was, with lanterns along the river.",
];

#[rstest]
#[case::a_decision("We decided to sell the old boat.", "sell the old boat")]
#[case::a_decision_in_german("Wir haben beschlossen, das alte Boot zu verkaufen.", "das alte Boot")]
#[case::a_promise("I promised to paint the fence.", "paint the fence")]
#[case::a_number("The deposit was 1350 euros.", "1350")]
#[case::a_name("The midwife is called Ilse Vogt.", "Ilse Vogt")]
#[case::a_date_in_french("On part le 18 août.", "18 août")]
fn what_binds_and_what_has_a_value_comes_before_small_talk(#[case] said: &str, #[case] expected: &str) {
    let mut talk = CHATTER.to_vec();
    talk.insert(2, said);
    let text = kept(&talk);
    assert!(text.contains(expected), "{text}");
}

#[rstest]
#[case("The alarm code is 3317.", "The alarm code is now 9046.")]
#[case("The alarm code is 3317.", "Correction: the alarm code is 9046.")]
#[case("Der Alarmcode ist 3317.", "Korrektur: Der Alarmcode ist jetzt 9046.")]
fn what_was_put_right_is_left_out(#[case] before: &str, #[case] after: &str) {
    let text = kept(&[before, CHATTER[0], after]);
    assert!(text.contains("9046") && !text.contains("3317"), "{text}");
    // What changes nothing takes nothing out.
    let text = kept(&["The alarm code is 3317.", "The vault code is 9046."]);
    assert!(text.contains("3317") || text.contains("9046"), "{text}");
}

#[test]
fn questions_are_kept_only_while_they_are_open() {
    let entries = |said: &[(&str, &str)]| -> Vec<Arc<Entry>> {
        let entry = |((name, text), seq): (&(&str, &str), u64)| {
            entry(seq, Role::User, name, "2026-11-02T09:00:00Z", text)
        };
        said.iter().zip(1..).map(entry).collect()
    };
    let answered = [("Anna", "Who waters the ficus?"), ("Ben", "My neighbour waters the ficus on Fridays.")];
    let text = render(&digest(&entries(&answered), 1000));
    assert!(text.contains("neighbour") && !text.contains("Who waters"), "{text}");
    // A yes is no answer without its question, nor is what the same person goes on with.
    for open in [("Ben", "Yes."), ("Anna", "I cannot do it myself this week, ficus or not.")] {
        let text = render(&digest(&entries(&[answered[0], open]), 1000));
        assert!(text.contains("Who waters the ficus?"), "{text}");
    }
    // What a question tells is more than the question.
    let told =
        [("Anna", "Is Mr Popov there on 14 May?"), ("Ben", "He is there, as far as everybody here knows.")];
    assert!(render(&digest(&entries(&told), 1000)).contains("14 May"));
}

#[rstest]
#[case::questions("a? ".repeat(100_000))]
#[case::corrections("Correction: x is now 1. ".repeat(20_000))]
#[case::clauses("we decided, ".repeat(50_000))]
#[case::one_word("7".repeat(1_000_000))]
#[case::numbers((0..100_000).map(|n| format!("it is now {n}. ")).collect::<String>())]
#[case::lines("i promise 1\n".repeat(50_000))]
fn texts_made_to_cost_much_are_read_in_linear_time(#[case] text: String) {
    // A rule that was quadratic in any of these would take minutes.
    let entries: Vec<_> =
        (1..4).map(|seq| entry(seq, Role::User, "Eve", "2026-11-02T09:00:00Z", &text)).collect();
    assert!(estimate(&render(&digest(&entries, 300))) <= 300);
    assert!(estimate(&digest_texts(&[&text], 300)) <= 300);
}

proptest! {
    #[test]
    fn any_text_stays_within_any_budget(texts in prop::collection::vec(any::<String>(), 0..8), budget in 0u32..200) {
        let entries: Vec<_> = texts
            .iter()
            .zip(1..)
            .map(|(text, seq)| entry(seq, Role::User, "Zoë\n 🦊", "2026-11-02T09:00:00Z", text))
            .collect();
        let lines = digest(&entries, budget);
        prop_assert!(estimate(&render(&lines)) <= budget);
        prop_assert!(lines.iter().all(|line| !line.text.contains('\n')));
    }
}

#[test]
fn where_no_line_fits_the_newest_words_of_a_person_are_left() {
    let long = "a solo trip to Spain and what was learned the hard way there ".repeat(20);
    let said = |seq, name, text: &str| entry(seq, Role::User, name, "2026-11-02T09:00:00Z", text);
    let reply = entry(3, Role::Assistant, "", "2026-11-02T09:00:00Z", "Yes.");
    let entries = [said(1, "Anna", "hi"), said(2, "Ben", &long), reply];
    let DigestLine { seq, text: gist } = gist(&entries, 24).unwrap();
    // Who deletes that message takes the line along.
    assert_eq!(seq.0, 2);
    assert!(gist.starts_with("Ben: a solo trip") && gist.contains("[...truncated...]"), "{gist}");
    assert!(estimate(&gist) <= 24, "{gist}");
    let short = super::gist(&[said(1, "Anna", "hello there, Ben")], 24).unwrap().text;
    assert_eq!(short, "Anna: hello there, Ben");
    assert_eq!(super::gist(&[said(1, "Anna", "...")], 24), None);
}
