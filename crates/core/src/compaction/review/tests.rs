//! What a summary must keep, and how it is mended.

use rstest::rstest;

use super::*;
use crate::ids::{Generation, Seq, TurnId};
use crate::message::{Author, Part, Role};

fn entry(role: Role, text: &str) -> Arc<Entry> {
    Arc::new(Entry {
        seq: Seq(1),
        turn: TurnId::from("t1"),
        generation: Generation::default(),
        at: jiff::Timestamp::UNIX_EPOCH,
        role,
        author: (role == Role::User).then(|| Author { id: "local/ann".to_owned(), name: "Ann".to_owned() }),
        message: None,
        parts: vec![Part::text(text)],
        reasoning: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        artifact: None,
        provenance: crate::provenance::Provenance::default(),
        quotes: false,
        tokens: 1,
    })
}

fn said(texts: &[&str]) -> Vec<Arc<Entry>> {
    texts
        .iter()
        .map(|text| match text.strip_prefix("bot: ") {
            Some(text) => entry(Role::Assistant, text),
            None => entry(Role::User, text),
        })
        .collect()
}

const FLATS: &[&str] = &[
    "We looked at seven flats in Lisbon, and I liked the third one best, near the river, with two balconies.",
    "bot: Shall I book a second visit?",
    "Yes, on Friday at noon. It is 1,450 euros a month, and the landlord wants three rents as a deposit.",
];

const WOHNUNG: &[&str] = &[
    "Wir haben sieben Wohnungen in Lissabon angesehen, die dritte am Fluss gefällt mir am besten.",
    "bot: Soll ich einen zweiten Besuch vereinbaren?",
    "Ja, am Freitag um 12. Sie kostet 1.450 Euro im Monat, Herr Nogueira will drei Mieten Kaution.",
];

const QUARTO: &[&str] = &[
    "我们在里斯本看了七套房子,我最喜欢河边的第三套",
    "bot: 要预约第二次看房吗?",
    "好的,周五中午,月租1450欧元",
];

const KVARTIRA: &[&str] = &[
    "Мы посмотрели семь квартир в Лиссабоне, третья у реки нравится мне больше всех",
    "bot: Записать вас?",
    "Да, в пятницу в полдень, 1450 евро в месяц",
];

#[rstest]
#[case::summary(
    FLATS,
    "## Goal\n- Ann looks for a flat in Lisbon and prefers the third one, by the river.",
    true
)]
#[case::paraphrase(
    FLATS,
    "## Progress\n- Of the apartments visited in Portugal, number three pleased her; another viewing takes place Friday.",
    true
)]
#[case::refusal(FLATS, "I'm sorry, but I can't help with summarising that kind of request.", false)]
#[case::of_nothing(
    FLATS,
    "## Goal\n- Please provide the conversation transcript, then a summary follows.",
    false
)]
#[case::of_the_prompt(
    FLATS,
    "## Constraints and preferences\n- Short plain lines; keep decisions, reasons, exact paths and identifiers.",
    false
)]
#[case::of_another_talk(
    FLATS,
    "## Goal\n- Maria trains her dog Rex for the agility contest; jumps go well, tunnels scare him.",
    false
)]
#[case::noise(FLATS, "lorem ipsum dolor sit amet consectetur adipiscing elit", false)]
#[case::german(WOHNUNG, "## Goal\n- Ann sucht eine Wohnung in Lissabon, am liebsten die dritte.", true)]
#[case::german_in_english(
    WOHNUNG,
    "## Goal\n- Ann wants the third apartment by the river; second visit on Friday, deposit to Mr Nogueira.",
    true
)]
#[case::english_in_german(
    FLATS,
    "## Goal\n- Ann möchte die dritte Wohnung am Fluss, Besichtigung am Freitag, 1450 Euro Miete.",
    true
)]
#[case::german_of_another_talk(
    WOHNUNG,
    "## Goal\n- Maria trainiert ihren Hund Rex, Sprünge klappen, Tunnel machen ihm Angst.",
    false
)]
#[case::chinese(QUARTO, "## Goal\n- Ann想租里斯本河边的第三套房子", true)]
#[case::chinese_of_another_talk(QUARTO, "## Goal\n- 玛丽亚训练她的狗参加敏捷比赛", false)]
#[case::chinese_in_english(
    QUARTO,
    "## Goal\n- She wants to rent the apartment near the water in Portugal.",
    true
)]
#[case::russian(KVARTIRA, "## Goal\n- Ann хочет квартиру в Лиссабоне, третья у реки", true)]
#[case::russian_in_english(KVARTIRA, "## Goal\n- She prefers the third apartment by the river.", true)]
#[case::russian_of_another_talk(
    KVARTIRA,
    "## Goal\n- Мария тренирует собаку, прыжки получаются хорошо",
    false
)]
#[case::too_short_to_tell(FLATS, "## Goal\n- dog training", true)]
#[case::number_alone(FLATS, "Miete 1450, Kaution dreifach, Vertrag unterschrieben", true)]
fn a_summary_that_shares_next_to_no_words_with_its_source_is_told(
    #[case] source: &[&str],
    #[case] text: &str,
    #[case] shares: bool,
) {
    let beside = ["the operator speaks of dogs, sorry, transcript, lorem, Rex"];
    let source = Source::of_entries(&said(source), beside);
    assert_eq!(source.shares_words(text), shares);
    assert!(source.plain(true).shares_words(text), "what is extracted is its source");
}

fn faults(text: &str, texts: &[&str]) -> Vec<&'static str> {
    review(text, &Source::of_entries(&said(texts), [])).iter().map(Fault::code).collect()
}

#[rstest]
#[case::sound("## Goal\n- Ann builds src/main.rs for 1,450 euros", &["It is in src/main.rs, 1450 euros"], &[])]
#[case::prose("Ann builds a thing.", &["I build"], &["no_sections"])]
#[case::invented("## Goal\n- see src/lib.rs", &["It is in src/main.rs"], &["invented"])]
#[case::part_of_a_path("## Goal\n- see main.rs", &["It is in src/main.rs"], &[])]
#[case::other_case("## Goal\n- proj-7 is PROJ-7", &["about Proj-7"], &[])]
#[case::number("## Goal\n- 900 euros", &["800 euros"], &["invented"])]
#[case::reckoned("## Goal\n- within 3 days", &["until Friday"], &[])]
#[case::own_error_words("## Progress\n- fixed the build error: a missing file was added", &["it broke"], &[])]
#[case::all("See /etc/passwd.bak.", &["Can you book a table at Luigi's?"], &["no_sections", "invented"])]
fn faults_are_named(#[case] text: &str, #[case] source: &[&str], #[case] expected: &[&str]) {
    assert_eq!(faults(text, source), expected);
}

fn mended(text: &str, texts: &[&str]) -> Result<String, Rejection> {
    let source = Source::of_entries(&said(texts), []);
    mend(text, &source)
}

#[test]
fn prose_goes_under_critical_context() {
    assert_eq!(mended("Ann builds.", &["I build"]).unwrap(), "## Critical context\nAnn builds.");
}

#[test]
fn lines_with_invented_identifiers_go() {
    let text = "## Goal\n- build a shed for the garden tools, with a window to the south\n- see docs/plan.md\n\n## Next steps\n- paint it";
    let expected = "## Goal\n- build a shed for the garden tools, with a window to the south\n\n## Next steps\n- paint it";
    assert_eq!(mended(text, &["a shed"]).unwrap(), expected);
}

#[test]
fn a_summary_that_is_mostly_invented_is_refused() {
    let text = "## Goal\n- see docs/plan.md and docs/more.md and src/a.rs\n- ok";
    let refused = mended(text, &["a shed"]).unwrap_err();
    assert!(refused.to_string().contains("docs/plan.md"), "{refused}");
}

#[test]
fn a_digest_needs_no_headings() {
    let source = Source::of_entries(&said(&["Ann has a cellar"]), []);
    assert!(review("Ann has a cellar.", &source.clone().plain(true)).is_empty());
    assert_eq!(review("Ann has a cellar.", &source), [Fault::NoSections]);
}
