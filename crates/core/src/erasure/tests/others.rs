//! What an erasure leaves to others: their names, what they say, and memories of theirs.

use super::*;
use crate::memory::{Fingerprint, TYPED, mint_id};

const ROOM: &str = "main/local/c";
const CAROLINE: &str = "local/caroline";
const MELANIE: &str = "local/melanie";

/// Caroline says something to somebody, who answers.
fn talk(said: &str, (id, name): (&str, &str), answer: &str) -> Book {
    let mut book = Book::new();
    book.turn(ROOM, (CAROLINE, "caroline"), said, "ok");
    book.turn(ROOM, (id, name), answer, "ok");
    book
}

fn memory(scope: &str, subject: Option<&str>, text: &str, range: Option<(u64, u64)>) -> MemorySave {
    MemorySave { sighting: format!("{ROOM}/s1/0"), ..super::memory(scope, subject, text, range) }
}

fn typed(scope: &str, subject: Option<&str>, text: &str) -> MemorySave {
    let mut save = memory(scope, subject, text, None);
    TYPED.clone_into(&mut save.source.model);
    save
}

fn id_of(save: &MemorySave) -> MemoryId {
    mint_id(&Fingerprint::of(&save.agent, &save.scope, &save.text))
}

/// The texts of the memories that are left.
fn memories(left: &[Record]) -> Vec<&str> {
    let saves = left.iter().flat_map(|record| match &record.event {
        Event::MemorySaved(save) => std::slice::from_ref(save),
        Event::RunEnded(end) => &end.memories,
        _ => &[],
    });
    saves.map(|save| save.text.as_str()).collect()
}

/// The names of all authors but the erased one.
fn names(left: &[Record]) -> BTreeSet<&str> {
    let authors = left.iter().filter_map(|record| match &record.event {
        Event::Accepted(pending) => Some(&pending.author),
        Event::EntryAdded { entry } => entry.author.as_ref(),
        Event::PairingRequested { user, .. } => Some(user),
        Event::CommandTaken { caller, .. } => Some(caller),
        _ => None,
    });
    authors.filter(|author| !author.id.contains("erased")).map(|author| author.name.as_str()).collect()
}

#[test]
fn people_need_not_say_their_own_name_to_keep_it_and_their_memories() {
    let mut book = talk(
        "Hey Melanie, good to see you.",
        (MELANIE, "Melanie"),
        "Hi Caroline, I went camping with the kids.",
    );
    let operators = typed("agent", Some("Melanie"), "Melanie loves camping.");
    let hers = typed("user:local/melanie", None, "Melanie runs.");
    book.add(None, Event::MemorySaved(operators));
    book.add(None, Event::MemorySaved(hers));
    let (left, eraser) = book.erase(CAROLINE);
    assert_eq!(names(&left), BTreeSet::from(["Melanie"]));
    assert_eq!(memories(&left), ["Melanie loves camping.", "Melanie runs."]);
    let all = text(&left);
    assert!(all.contains("Hi erased-1, I went camping with the kids."), "{all}");
    assert!(!all.to_lowercase().contains("caroline") && !all.contains("good to see"), "{all}");
    let figures = eraser.figures();
    assert_eq!((figures.memories, figures.memories_cleaned), (0, 0));
}

#[test]
fn a_persons_word_goes_with_them_and_that_of_others_stays_theirs() {
    let mut book = talk("Hello there", (MELANIE, "Melanie"), "Hi, I went camping.");
    let said = |id: &str, name: &str, subject: Option<&str>, text: &str| {
        let mut save = memory("chat:local/c", subject, text, None);
        save.source.by = Some(Author { id: id.to_owned(), name: name.to_owned() });
        save.source.model = crate::memory::TYPED_BY_MEMBER.to_owned();
        Event::MemorySaved(save)
    };
    book.add(None, said(CAROLINE, "caroline", None, "The shed is green."));
    book.add(None, said(CAROLINE, "caroline", Some(MELANIE), "Melanie camps."));
    book.add(None, said(MELANIE, "Melanie", Some(MELANIE), "I camp."));
    book.add(None, said(MELANIE, "Melanie", Some(CAROLINE), "She swims."));
    let (left, eraser) = book.erase(CAROLINE);
    assert_eq!(memories(&left), ["I camp."]);
    assert!(text(&left).contains(MELANIE) && !text(&left).to_lowercase().contains("caroline"));
    assert_eq!(eraser.figures().memories, 3);
}

/// What Caroline said, who else is there, a text of theirs, and what is left of it. Their name stays in any case.
#[rstest]
#[case::name_of_several_words("Ask Melanie Brown", "Melanie Brown", "by Melanie", "by Melanie")]
#[case::short_name("I saw Bo there", "Bo", "Bo was here", "Bo was here")]
#[case::three_letters("I saw Zoë there", "Zoë", "Zoë was here", "Zoë was here")]
#[case::name_that_is_a_common_word("I saw Hope there", "Hope", "Hope was here", "Hope was here")]
#[case::id("I wrote to quokka_88", "Ben", "by quokka_88", "by quokka_88")]
#[case::names_that_contain_hers("hello", "Caroline's sister", "by me", "by me")]
fn what_others_are_called_is_nobodys_own(
    #[case] said: &str,
    #[case] name: &str,
    #[case] before: &str,
    #[case] after: &str,
) {
    let mut book = talk(said, ("local/quokka_88", name), "hello");
    let answer = book.entry(ROOM, Role::Assistant, before);
    book.add(Some(ROOM), Event::EntryAdded { entry: answer });
    let (left, _) = book.erase(CAROLINE);
    let name = name.replace("Caroline", "erased-1");
    assert_eq!(names(&left), BTreeSet::from([name.as_str()]));
    let last = left.iter().rev().find_map(|record| match &record.event {
        Event::EntryAdded { entry } => Some(entry.text()),
        _ => None,
    });
    assert_eq!(last.as_deref(), Some(after));
}

/// What Caroline said, and a word that nobody else did: of one who never wrote, or what she alone calls another.
#[rstest]
#[case::of_nobody_here("I met Thaddeus today", "Thaddeus")]
#[case::nickname("Hey Mellie, hello", "Mellie")]
fn a_name_that_only_they_say_is_theirs_alone(#[case] said: &str, #[case] name: &str) {
    let mut book = talk(said, (MELANIE, "Melanie"), "hello");
    let answer = book.entry(ROOM, Role::Assistant, &format!("so {name} was here"));
    book.add(Some(ROOM), Event::EntryAdded { entry: answer });
    let text_of_memory = format!("Melanie met {name} by the sea");
    book.add(None, Event::MemorySaved(memory("user:local/melanie", Some("Melanie"), &text_of_memory, None)));
    let (left, eraser) = book.erase(CAROLINE);
    let all = text(&left);
    assert!(!all.contains(name) && all.contains("so [erased] was here"), "{all}");
    assert_eq!(memories(&left), ["Melanie met [erased] by the sea"]);
    assert_eq!(names(&left), BTreeSet::from(["Melanie"]));
    assert_eq!((eraser.figures().memories, eraser.figures().memories_cleaned), (0, 1));
}

#[test]
fn pairings_and_commands_of_others_name_them() {
    let mut book = talk("I saw Oleander, Wisteria and zinnia-7001", ("local/ben", "Ben"), "hello");
    let user = |name: &str, id: &str| Author { id: id.to_owned(), name: name.to_owned() };
    let asked = |user| Event::PairingRequested { user, chat: "9".to_owned(), code: "123456".to_owned() };
    book.add(None, asked(user("Oleander", "telegram/9")));
    book.add(None, Event::PairingApproved { user: "telegram/zinnia-7001".to_owned() });
    let caller = user("Wisteria", "local/w");
    book.add(
        Some(ROOM),
        Event::CommandTaken { message: "zinnia-7001".into(), command: "status".to_owned(), caller },
    );
    let answer = book.entry(ROOM, Role::Assistant, "Oleander met Wisteria");
    book.add(Some(ROOM), Event::EntryAdded { entry: answer });
    let (left, _) = book.erase(CAROLINE);
    assert_eq!(names(&left), BTreeSet::from(["Ben", "Oleander", "Wisteria"]));
    let all = text(&left);
    assert!(all.contains("Oleander met Wisteria"), "{all}");
    assert!(all.contains("\"message\":\"zinnia-7001\""), "an id of another's is no sign of hers: {all}");
}

/// Caroline's words are `Zorblax` and `QQ-99812`; a memory, and what is left of it.
#[rstest]
#[case::word_in_anothers_scope(
    memory("user:local/melanie", None, "Feeds Zorblax", None),
    Some("Feeds [erased]")
)]
#[case::word_about_another(memory("agent", Some("Melanie"), "Feeds Zorblax", None), Some("Feeds [erased]"))]
#[case::about_an_id(memory("agent", Some(MELANIE), "Feeds Zorblax", None), Some("Feeds [erased]"))]
#[case::typed_number(typed("agent", None, "Orders begin with QQ-99812"), Some("Orders begin with [erased]"))]
#[case::typed_word(typed("agent", None, "Zorblax is a brand of tea"), Some("Zorblax is a brand of tea"))]
#[case::typed_name(typed("agent", Some("Melanie"), "Met caroline"), Some("Met erased-1"))]
#[case::about_things(memory("agent", Some("parrots"), "Zorblax is blue", None), None)]
#[case::of_nobody(memory("agent", None, "Zorblax is blue", None), None)]
#[case::typed_about_her(typed("agent", None, "The owner is caroline"), None)]
#[case::typed_with_her_subject(typed("agent", Some("Caroline"), "Likes Zorblax"), None)]
#[case::anothers_with_her_id(memory("user:local/melanie", None, "Is a friend of local/caroline", None), None)]
#[case::anothers_with_her_subject(typed("user:local/melanie", Some("caroline"), "Likes tea"), None)]
#[case::anothers_that_begins_with_her(memory("user:local/melanie", None, "Caroline likes tea", None), None)]
#[case::her_scope(typed("user:local/caroline", Some("Melanie"), "Melanie likes tea"), None)]
fn memories_of_others_lose_words_and_stay(#[case] save: MemorySave, #[case] left_of_it: Option<&str>) {
    let mut book = talk("Zorblax ate QQ-99812, Melanie", (MELANIE, "Melanie"), "hello");
    let changed = left_of_it.is_some_and(|left| left != save.text);
    book.add(None, Event::MemorySaved(save));
    let (left, eraser) = book.erase(CAROLINE);
    assert_eq!(memories(&left), Vec::from_iter(left_of_it));
    let figures = eraser.figures();
    assert_eq!(
        (figures.memories, figures.memories_cleaned),
        (u64::from(left_of_it.is_none()), u64::from(changed))
    );
    assert!(!text(&left).contains("99812"));
}

#[test]
fn what_a_run_found_in_their_words_alone_goes_even_of_others() {
    let mut book = talk("Melanie paints lighthouses in Gdynia", (MELANIE, "Melanie"), "I bake gingerbread");
    let found = |text: &str, range| {
        let mut save = memory("chat:local/c", Some("Melanie"), text, Some(range));
        save.source.channel = Some(ROOM.parse().unwrap());
        save
    };
    let hers = found("Melanie paints lighthouses in Gdynia", (1, 4));
    let melanies = found("Melanie bakes gingerbread", (1, 4));
    book.run(ROOM, 1, 4, "they talk", vec![hers, melanies]);
    let (left, _) = book.erase(CAROLINE);
    assert_eq!(memories(&left), ["Melanie bakes gingerbread"]);
}

#[test]
fn a_namesake_keeps_the_memories_of_their_own_scope() {
    let mut book = talk("hello", ("local/other", "caroline"), "hello");
    book.add(None, Event::MemorySaved(memory("user:local/other", Some("caroline"), "Likes tea", None)));
    book.add(None, Event::MemorySaved(memory("agent", Some("caroline"), "Likes cake", None)));
    let (left, _) = book.erase(CAROLINE);
    assert_eq!(memories(&left), ["Likes tea"]);
}

/// A memory of another's, an operator's edit of it, and what is left of the edit; none: the memory is forgotten.
#[rstest]
#[case::words_of_hers("Melanie feeds Zorblax", Some("Melanie feeds Zorblax"))]
#[case::number_of_hers("Melanie ordered QQ-99812", Some("Melanie ordered [erased]"))]
#[case::name_of_hers("Melanie met Caroline", Some("Melanie met erased-1"))]
#[case::id_of_hers("it is about local/caroline", None)]
fn an_edit_of_a_memory_of_others_loses_what_is_theirs(#[case] edit: &str, #[case] left_of_it: Option<&str>) {
    let mut book = talk("Zorblax ate QQ-99812", (MELANIE, "Melanie"), "hello");
    let save = typed("agent", Some("Melanie"), "Melanie runs");
    let id = id_of(&save);
    book.add(None, Event::MemorySaved(save));
    let text = Some(edit.to_owned());
    book.add(None, Event::MemoryEdited { id, text, kind: None, importance: None });
    let (left, eraser) = book.erase(CAROLINE);
    let edits: Vec<&str> = left
        .iter()
        .filter_map(|record| match &record.event {
            Event::MemoryEdited { text, .. } => text.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(edits, Vec::from_iter(left_of_it));
    assert_eq!(eraser.figures().memories, u64::from(left_of_it.is_none()));
}
