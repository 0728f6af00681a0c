//! What an erasure leaves to others: their names, what they say, and memories of theirs.

use super::*;
use cairn_types::event::{RegistryEvent, ReminderEvent};
use cairn_types::memory::{Fingerprint, TYPED, mint_id};
use cairn_types::people::access::{AccessPolicy, DirectPolicy, PlaceRule, Respond};
use cairn_types::reminder::Reminder;

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
        Event::Memory(MemoryEvent::Saved(save)) => std::slice::from_ref(save),
        Event::Compaction(CompactionEvent::RunEnded(end)) => &end.memories,
        _ => &[],
    });
    saves.map(|save| save.text.as_str()).collect()
}

/// The names of all authors but the erased one.
fn names(left: &[Record]) -> BTreeSet<&str> {
    let authors = left.iter().filter_map(|record| match &record.event {
        Event::Message(MessageEvent::Accepted(pending)) => Some(&pending.author),
        Event::Turn(TurnEvent::EntryAdded { entry }) => entry.author.as_ref(),
        Event::Registry(RegistryEvent::PairingRequested { user, .. }) => Some(user),
        Event::Message(MessageEvent::CommandTaken { caller, .. }) => Some(caller),
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
    book.add(None, Event::Memory(MemoryEvent::Saved(operators)));
    book.add(None, Event::Memory(MemoryEvent::Saved(hers)));
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
        save.source.model = cairn_types::memory::TYPED_BY_MEMBER.to_owned();
        Event::Memory(MemoryEvent::Saved(save))
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

/// Who else is there, and what they are called when Caroline is erased.
#[rstest]
#[case::another_name("Melanie Brown", "Melanie Brown")]
#[case::name_that_contains_hers("Caroline's sister", "erased-1's sister")]
#[case::the_same_name("Caroline", "Caroline")]
fn what_others_are_called_stays_without_her_name(#[case] name: &str, #[case] after: &str) {
    let (left, _) = talk("Ask Melanie Brown", ("local/quokka_88", name), "hello").erase(CAROLINE);
    assert_eq!(names(&left), BTreeSet::from([after]));
}

#[test]
fn words_that_she_said_first_stay_in_what_others_say() {
    let mut book = talk("My axolotl is called Zorblax", (MELANIE, "Melanie"), "hello");
    let answer = book.entry(ROOM, Role::Assistant, "Zorblax, the axolotl");
    book.add(Some(ROOM), Event::Turn(TurnEvent::EntryAdded { entry: answer }));
    let (left, _) = book.erase(CAROLINE);
    let all = text(&left);
    assert!(all.contains("Zorblax, the axolotl") && !all.contains("is called"), "{all}");
}

#[test]
fn pairings_and_commands_of_others_name_them() {
    let mut book = talk("I saw Oleander, Wisteria and zinnia-7001", ("local/ben", "Ben"), "hello");
    let user = |name: &str, id: &str| Author { id: id.to_owned(), name: name.to_owned() };
    let asked = |user| {
        Event::Registry(RegistryEvent::PairingRequested {
            user,
            chat: "9".to_owned(),
            code: "123456".to_owned(),
        })
    };
    book.add(None, asked(user("Oleander", "telegram/9")));
    book.add(
        None,
        Event::Registry(RegistryEvent::PairingApproved { user: "telegram/zinnia-7001".to_owned() }),
    );
    let caller = user("Wisteria", "local/w");
    book.add(
        Some(ROOM),
        Event::Message(MessageEvent::CommandTaken {
            message: "zinnia-7001".into(),
            command: "status".to_owned(),
            caller,
        }),
    );
    let answer = book.entry(ROOM, Role::Assistant, "Oleander met Wisteria");
    book.add(Some(ROOM), Event::Turn(TurnEvent::EntryAdded { entry: answer }));
    let (left, _) = book.erase(CAROLINE);
    assert_eq!(names(&left), BTreeSet::from(["Ben", "Oleander", "Wisteria"]));
    let all = text(&left);
    assert!(all.contains("Oleander met Wisteria"), "{all}");
    assert!(all.contains("\"message\":\"zinnia-7001\""), "an id of another's is no sign of hers: {all}");
}

#[test]
fn rules_that_name_her_name_nobody_and_let_in_nobody_else() {
    let mut book = talk("hello", (MELANIE, "Melanie"), "hello");
    let only_her = || BTreeSet::from(["caroline".to_owned()]);
    let place = PlaceRule { chat: Some("9".to_owned()), members: Some(only_her()), ..PlaceRule::default() };
    let access = AccessPolicy {
        agent: "main".into(),
        direct: DirectPolicy::Pairing,
        users: only_her(),
        servers: BTreeSet::new(),
        chats: BTreeSet::from(["caroline".to_owned()]),
        members: only_her(),
        respond: Respond::Mention,
        bots: false,
        places: vec![place],
    };
    for platform in ["local", "telegram"] {
        let (platform, access) = (platform.to_owned(), access.clone());
        book.add(None, Event::Registry(RegistryEvent::AccessSet { platform, access }));
    }
    let (left, _) = book.erase(CAROLINE);
    let rules = left.iter().filter_map(|record| match &record.event {
        Event::Registry(RegistryEvent::AccessSet { access, .. }) => Some(access),
        _ => None,
    });
    let [hers, others] = rules.collect::<Vec<_>>()[..] else { panic!("both stay: {left:?}") };
    let alias = BTreeSet::from(["erased-1".to_owned()]);
    assert_eq!((&hers.users, &hers.members, &hers.places[0].members), (&alias, &alias, &Some(alias.clone())));
    assert_eq!(*others, access, "ids of another network are another's");
}

/// A memory, and what is left of it.
#[rstest]
#[case::in_anothers_scope(memory("user:local/melanie", None, "Met Caroline", None), Some("Met erased-1"))]
#[case::about_another(memory("agent", Some("Melanie"), "Met Caroline", None), Some("Met erased-1"))]
#[case::about_an_id(memory("agent", Some(MELANIE), "Met caroline", None), Some("Met erased-1"))]
#[case::with_her_id(
    memory("user:local/melanie", None, "Is a friend of local/caroline", None),
    Some("Is a friend of erased-1")
)]
#[case::about_things(
    memory("agent", Some("parrots"), "Caroline feeds them", None),
    Some("erased-1 feeds them")
)]
#[case::without_her(typed("agent", None, "Zorblax is a brand of tea"), Some("Zorblax is a brand of tea"))]
#[case::about_her_without_subject(typed("agent", None, "The owner is caroline"), None)]
#[case::with_her_subject(typed("agent", Some("Caroline"), "Likes Zorblax"), None)]
#[case::anothers_with_her_subject(typed("user:local/melanie", Some("caroline"), "Likes tea"), None)]
#[case::her_scope(typed("user:local/caroline", Some("Melanie"), "Melanie likes tea"), None)]
fn memories_of_others_lose_her_name_and_stay(#[case] save: MemorySave, #[case] left_of_it: Option<&str>) {
    let mut book = talk("Zorblax ate it, Melanie", (MELANIE, "Melanie"), "hello");
    let changed = left_of_it.is_some_and(|left| left != save.text);
    book.add(None, Event::Memory(MemoryEvent::Saved(save)));
    let (left, eraser) = book.erase(CAROLINE);
    assert_eq!(memories(&left), Vec::from_iter(left_of_it));
    let figures = eraser.figures();
    assert_eq!(
        (figures.memories, figures.memories_cleaned),
        (u64::from(left_of_it.is_none()), u64::from(changed))
    );
    assert!(!text(&left).to_lowercase().contains("caroline"));
}

#[test]
fn a_namesake_keeps_the_memories_of_their_own_scope() {
    let mut book = talk("hello", ("local/other", "caroline"), "hello");
    book.add(
        None,
        Event::Memory(MemoryEvent::Saved(memory("user:local/other", Some("caroline"), "Likes tea", None))),
    );
    book.add(None, Event::Memory(MemoryEvent::Saved(memory("agent", Some("caroline"), "Likes cake", None))));
    let (left, _) = book.erase(CAROLINE);
    assert_eq!(memories(&left), ["Likes tea"]);
}

#[test]
fn an_edit_of_a_memory_of_others_loses_her_name() {
    let mut book = talk("hello", (MELANIE, "Melanie"), "hello");
    let save = typed("agent", Some("Melanie"), "Melanie runs");
    let id = id_of(&save);
    book.add(None, Event::Memory(MemoryEvent::Saved(save)));
    let text = Some("Melanie met Caroline".to_owned());
    book.add(None, Event::Memory(MemoryEvent::Edited { id, text, kind: None, importance: None }));
    let (left, eraser) = book.erase(CAROLINE);
    let edit = left.iter().find_map(|record| match &record.event {
        Event::Memory(MemoryEvent::Edited { text, .. }) => text.as_deref(),
        _ => None,
    });
    assert_eq!(edit, Some("Melanie met erased-1"));
    assert_eq!((eraser.figures().memories, eraser.figures().memories_cleaned), (0, 1));
}

/// A turn of Melanie's in which a tool reads the history, by that provenance; the artifact holds the whole of its result.
fn lookup(book: &mut Book, provenance: Provenance, artifact: Option<&str>) {
    let message = book.accept(ROOM, MELANIE, "Melanie", "what was said?");
    let turn = format!("t{}", book.turns);
    let first_seq = book.seq(ROOM);
    let started = TurnEvent::Started { turn: turn.as_str().into(), messages: vec![message], first_seq };
    book.add(Some(ROOM), Event::Turn(started));
    if let Some(id) = artifact {
        let artifact = Artifact {
            id: id.into(),
            tool: "history_read".to_owned(),
            message: None,
            sent_in: None,
            bytes: 9,
            lines: 1,
            stored_at: Timestamp::UNIX_EPOCH,
            used_at: Timestamp::UNIX_EPOCH,
            expired_at: None,
            sha256: None,
            lost: false,
            file: None,
        };
        book.add(Some(ROOM), Event::Artifact(ArtifactEvent::Stored { artifact }));
    }
    let mut result = book.entry(ROOM, Role::Tool, "[#1 | 10:00 | caroline] I keep an axolotl");
    (result.provenance, result.artifact) = (provenance, artifact.map(Into::into));
    book.add(Some(ROOM), Event::Turn(TurnEvent::EntryAdded { entry: result }));
    let answer = book.entry(ROOM, Role::Assistant, "It was about pets.");
    let outcome = TurnOutcome::Answered { reply: answer.seq };
    book.add(Some(ROOM), Event::Turn(TurnEvent::EntryAdded { entry: answer }));
    let (turn, usage) = (turn.as_str().into(), Usage::default());
    let end = TurnEnd { turn, outcome, model: None, usage, recalled: Vec::new() };
    book.add(Some(ROOM), Event::Turn(TurnEvent::Ended(end)));
}

#[rstest]
#[case::hers_among_them(Provenance::of_person(CAROLINE), true)]
#[case::nobody_knows_whose(Provenance::of_strangers(), true)]
#[case::of_others(Provenance::of_person(MELANIE), false)]
#[case::of_a_tool(Provenance::of_tools(), false)]
fn results_that_quote_her_go_and_answers_to_others_stay(#[case] of: Provenance, #[case] goes: bool) {
    let mut book = talk("I keep an axolotl", (MELANIE, "Melanie"), "hello");
    lookup(&mut book, of, None);
    let (left, eraser) = book.erase(CAROLINE);
    let all = text(&left);
    assert_eq!((all.contains("axolotl"), all.contains("It was about pets.")), (!goes, true), "{all}");
    assert_eq!(eraser.figures().answers, 1 + u64::from(goes));
}

#[test]
fn what_a_tool_quotes_of_her_in_another_chat_goes_with_what_was_made_of_it() {
    let mut book = talk("I keep an axolotl", (MELANIE, "Melanie"), "hello");
    let other = "main/local/other";
    book.turn(other, (MELANIE, "Melanie"), "what do you know?", "a lot");
    let mut result = book.entry(other, Role::Tool, "caroline keeps an axolotl");
    result.provenance = Provenance::of_person(CAROLINE);
    book.add(Some(other), Event::Turn(TurnEvent::EntryAdded { entry: result }));
    book.run(other, 1, 3, "There is an axolotl.", Vec::new());
    let (left, eraser) = book.erase(CAROLINE);
    let all = text(&left);
    assert!(!all.contains("axolotl") && all.contains("what do you know?"), "{all}");
    assert_eq!(eraser.figures().summaries, 1);
}

#[test]
fn a_whole_result_that_quotes_her_goes_with_every_page_of_it() {
    let mut book = talk("I keep an axolotl", (MELANIE, "Melanie"), "hello");
    lookup(&mut book, Provenance::of_person(CAROLINE), Some("a1"));
    book.add(Some(ROOM), Event::Artifact(ArtifactEvent::Used { id: "a1".into() }));
    lookup(&mut book, Provenance::of_tools(), None);
    let (left, eraser) = book.erase(CAROLINE);
    assert!(!text(&left).contains("axolotl"));
    assert_eq!((eraser.figures().artifacts, eraser.artifacts().count()), (1, 1));
    let after = folded(&left, ROOM);
    assert!(after.artifacts.values().all(|artifact| artifact.expired_at.is_some()), "{:?}", after.artifacts);
}

#[test]
fn their_reminders_go_and_those_of_others_stay_without_their_name() {
    let reminder = |id: &str, by: &str, text: &str| {
        let author = Author { id: by.to_owned(), name: "A Name".to_owned() };
        Event::Reminder(ReminderEvent::Set(Reminder {
            id: id.into(),
            by: author,
            text: text.to_owned(),
            due: Timestamp::from_second(1_000).unwrap(),
            rule: None,
            zone: "UTC".to_owned(),
            set_at: Timestamp::UNIX_EPOCH,
            provenance: Provenance::default(),
        }))
    };
    let mut book = Book::new();
    book.accept(GROUP, ANNA, "Anna Kowalska", "hi");
    book.add(Some(GROUP), reminder("1", ANNA, "buy a quokka"));
    book.add(Some(GROUP), reminder("2", BEN, "call Anna Kowalska"));
    let (left, _) = book.erase(ANNA);
    let json = serde_json::to_string(&left).unwrap();
    assert!(!json.contains("quokka") && !json.contains("Kowalska") && !json.contains(ANNA), "{json}");
    let mut conversation = Conversation::new(GROUP.parse().unwrap());
    for record in left.iter().filter(|record| record.channel.is_some()) {
        conversation.apply(record).unwrap();
    }
    assert_eq!(conversation.reminders.keys().map(ToString::to_string).collect::<Vec<_>>(), ["2"]);
}

#[test]
fn reactions_of_the_person_go_and_those_of_others_stay() {
    let mut book = Book::new();
    book.accept(ROOM, CAROLINE, "Caroline", "hello");
    for (id, name) in [(CAROLINE, "Caroline"), ("local/b", "Ben")] {
        let by = Author { id: id.to_owned(), name: name.to_owned() };
        let (message, seq) = ("901".into(), Seq(2));
        let emoji = format!(":{}:", name.to_lowercase());
        book.add(
            Some(ROOM),
            Event::Message(MessageEvent::Reacted { message, seq, by, emoji, removed: false }),
        );
    }
    let (left, _) = book.erase(CAROLINE);
    let by = left.iter().filter_map(|record| match &record.event {
        Event::Message(MessageEvent::Reacted { by, .. }) => Some(by.name.as_str()),
        _ => None,
    });
    assert_eq!(by.collect::<Vec<_>>(), ["Ben"]);
    assert!(!text(&left).contains("caroline"));
}
