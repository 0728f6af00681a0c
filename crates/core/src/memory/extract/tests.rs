//! Tests of memories by rule.

use jiff::Timestamp;
use rstest::rstest;

use super::*;
use crate::ids::{Generation, Seq, TurnId};
use crate::memory::MemoryKind;
use crate::message::{Author, Part};

fn entry(role: Role, text: &str) -> Arc<Entry> {
    Arc::new(Entry {
        seq: Seq(1),
        turn: TurnId::new("t1"),
        generation: Generation::default(),
        at: "2026-11-02T09:00:00Z".parse::<Timestamp>().unwrap(),
        role,
        author: Some(Author { id: "local/7".to_owned(), name: "Anna".to_owned() }),
        message: None,
        parts: vec![Part::text(text)],
        reasoning: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        artifact: None,
        provenance: crate::provenance::Provenance::default(),
        quotes: false,
        tokens: 0,
    })
}

fn texts(said: &str) -> Vec<String> {
    extract(&[entry(Role::User, said)]).into_iter().map(|memory| memory.text).collect()
}

#[rstest]
#[case("My name is Anna Schmidt and I live in Graz.", &["Anna's name is Anna Schmidt", "Anna lives in Graz"])]
#[case("hi bot, my name is anna", &["Anna's name is anna"])]
#[case("Call me Annie, please.", &["Anna wants to be called Annie"])]
#[case("I'm a software engineer from Graz, by the way.", &["Anna is a software engineer from Graz"])]
#[case("I work as a nurse but I want to become a pilot.", &["Anna works as a nurse", "Anna wants to become a pilot"])]
#[case("I work at Northwind in Leeds.", &["Anna works at Northwind in Leeds"])]
#[case("I prefer dark mode in my editor.", &["Anna prefers dark mode in their editor"])]
#[case("I like green tea but I hate coffee", &["Anna likes green tea", "Anna hates coffee"])]
#[case("I don’t eat meat.", &["Anna does not eat meat"])]
#[case("I'm allergic to peanuts and cashews!", &["Anna is allergic to peanuts and cashews"])]
#[case("Btw I'm vegan.", &["Anna is vegan"])]
#[case("My favourite ice cream is pistachio.", &["Anna's favourite ice cream is pistachio"])]
#[case("My dog is called Bruno.", &["Anna's dog is called Bruno"])]
#[case("My sister's name is Clara.", &["Anna's sister's name is Clara"])]
#[case("We decided to use Postgres for the archive.", &["it was decided to use Postgres for the archive"])]
#[case("Ok, let's go with plan B.", &["it was decided to go with plan B"])]
#[case("Please remember that the spare key is under the blue pot.", &["Anna asked to remember that the spare key is under the blue pot"])]
#[case("Remember that I live in Graz.", &["Anna lives in Graz"])]
#[case("Don't forget to water the ficus.", &["Anna asked not to forget to water the ficus"])]
#[case("I need to file my taxes by 31 May.", &["Anna has to file their taxes by 31 May"])]
#[case("I'm flying to Oslo next week.", &["Anna is flying to Oslo next week (said on 2026-11-02)"])]
#[case("We visited Lisbon in June.", &["Anna and others visited Lisbon in June"])]
#[case("My birthday is on 3 March.", &["Anna's birthday is on 3 March"])]
#[case("My goal is to run a marathon.", &["Anna's goal is to run a marathon"])]
#[case("My phone number is 555-0134.", &["Anna's phone number is 555-0134"])]
#[case("Ich heiße Anna und ich wohne in München.", &["Anna's name is Anna", "Anna lives in München"])]
#[case("Bonjour, je m'appelle Anne.", &["Anna's name is Anne"])]
#[case("Hola, me llamo Ana y vivo en Sevilla.", &["Anna's name is Ana", "Anna lives in Sevilla"])]
fn statements_become_memories(#[case] said: &str, #[case] expected: &[&str]) {
    assert_eq!(texts(said), expected, "{said}");
}

#[rstest]
#[case::a_question("Do I prefer tea?")]
#[case::a_question_without_a_mark("what if I like tea")]
#[case::a_condition("If my name is on the list, I like that list.")]
#[case::a_late_condition("Imagine this: I live in Paris")]
#[case::another("She said: \"my name is Olga\"")]
#[case::quoted("\"My name is Olga\" is a song.")]
#[case::a_citation("> I live in Rome")]
#[case::code("```\nI like this = 1\nmy name is x\n```")]
#[case::vague("I like it. I love that idea! I hate when that happens. I like your style.")]
#[case::a_state("I'm a bit tired. I'm a little late.")]
#[case::an_action("I need to go. I have to admit you are right.")]
#[case::a_wish("I would like some tea. I wish I lived in Rome.")]
#[case::in_the_middle("Most people think I like tea")]
#[case::a_negated_name("My name is not important.")]
#[case::encouragement("Remember, you can do it! Don't forget that your work matters.")]
#[case::to_be("I am in a hurry")]
fn what_is_no_statement_is_left_alone(#[case] said: &str) {
    assert_eq!(texts(said), Vec::<String>::new(), "{said}");
}

#[test]
fn the_author_is_the_subject_save_of_decisions() {
    let found = extract(&[entry(Role::User, "I prefer tea. We agreed on Tuesday.")]);
    let kinds: Vec<_> = found.iter().map(|memory| (memory.kind, memory.subject.as_deref())).collect();
    assert_eq!(kinds, [(MemoryKind::Preference, Some("Anna")), (MemoryKind::Decision, None)]);
}

#[test]
fn only_people_are_listened_to() {
    assert_eq!(extract(&[entry(Role::Assistant, "I prefer tea."), entry(Role::Tool, "I prefer tea.")]), []);
}

#[test]
fn the_same_statement_is_found_once() {
    let entries = [entry(Role::User, "I prefer tea."), entry(Role::User, "I prefer TEA!")];
    assert_eq!(extract(&entries).len(), 1);
}

#[test]
fn entries_and_calls_yield_a_bounded_number() {
    let many: String = (0..50).map(|n| format!("I like dish number {n}. ")).collect();
    assert_eq!(texts(&many).len(), ENTRY_MAX);
    let entries: Vec<_> = (0..100).map(|n| entry(Role::User, &format!("I like dish number {n}."))).collect();
    assert_eq!(extract(&entries).len(), CALL_MAX);
}

#[test]
fn a_giant_text_is_read_in_one_pass() {
    assert_eq!(texts(&"i like ".repeat(100_000)), Vec::<String>::new());
    assert_eq!(texts(&"x".repeat(1_000_000)), Vec::<String>::new());
}
