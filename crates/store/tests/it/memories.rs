//! Memories: saved once, sighted often, forgotten for good, read through their scopes alone.

use std::fs;

use super::common::{at, chatting, memory, open, opened, remove_derived, scope};
use cairn_core::store_port::Store as _;
use cairn_store::Store;
use cairn_types::event::{Event, MemoryEvent, NewRecord, TurnEnd, TurnEvent, TurnOutcome};
use cairn_types::ids::{AgentId, MemoryId};
use cairn_types::memory::{Memory, MemorySave, Reach, Replaces, Scope, Source, TYPED_BY_MEMBER, mint_id};
use cairn_types::message::Author;
use cairn_types::model::Usage;
use cairn_types::ports::{MemoryFilter, MemoryTrail, Query};

async fn journal(store: &Store, events: Vec<Event>) {
    let records = events.into_iter().map(|event| NewRecord { channel: None, at: at(5), event }).collect();
    store.append(records).await.unwrap();
}

async fn save(store: &Store, saves: Vec<MemorySave>) {
    journal(store, saves.into_iter().map(|save| Event::Memory(MemoryEvent::Saved(save))).collect()).await;
}

async fn all(store: &Store) -> Vec<Memory> {
    let filter = MemoryFilter { limit: 100, ..MemoryFilter::default() };
    store.memories(&AgentId::from("main"), &[Reach::Scope(scope())], filter).await.unwrap()
}

async fn recalled(store: &Store, scopes: &[Scope], question: &str) -> Vec<String> {
    let reach: Vec<Reach> = scopes.iter().cloned().map(Reach::Scope).collect();
    within(store, &reach, question).await
}

async fn within(store: &Store, reach: &[Reach], question: &str) -> Vec<String> {
    let found = store.recall(&AgentId::from("main"), reach, question, 3).await.unwrap();
    found.memories.into_iter().map(|memory| memory.text).collect()
}

#[tokio::test]
async fn the_same_thing_again_is_a_sighting_and_the_same_sighting_counts_once() {
    let (_dir, store) = opened();
    save(
        &store,
        vec![memory("Ana likes tea", "a"), memory("ana likes TEA!", "b"), memory("Ana likes tea", "b")],
    )
    .await;
    let found = all(&store).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].sightings, 2);
    store.close().await;
}

#[tokio::test]
async fn what_another_takes_the_place_of_is_past_and_holds_again_when_it_is_said_again() {
    let (dir, store) = opened();
    save(&store, vec![memory("The stand-up is at 9:30", "a"), memory("The stand-up is in the hut", "b")])
        .await;
    let old = all(&store).await[0].id.clone();
    let replaces = Replaces { ids: vec![old.clone(), "m-unknown".into()], from: Some(at(86_400)) };
    save(&store, vec![MemorySave { replaces, ..memory("The stand-up is at 10:00", "c") }]).await;
    let new = all(&store).await[2].id.clone();
    let past = store.memory(&old).await.unwrap().unwrap();
    assert_eq!((past.superseded_by, past.until), (Some(new.clone()), Some(at(86_400))));
    let recalled = |store: &Store| {
        let store = store.clone();
        async move {
            let reach = [Reach::Scope(scope())];
            let recall =
                store.recall(&"main".into(), &reach, "When is the stand-up at 9:30 or 10:00?", 6).await;
            recall.unwrap().memories.into_iter().map(|memory| memory.text).collect::<Vec<_>>()
        }
    };
    assert_eq!(recalled(&store).await.last().unwrap(), "The stand-up is at 9:30", "behind what holds");
    let elsewhere = Scope::Chat { platform: "local".to_owned(), chat: "other".to_owned() };
    let replaces = Replaces { ids: vec![new.clone()], from: None };
    save(&store, vec![MemorySave { replaces, scope: elsewhere, ..memory("There is no stand-up", "d") }])
        .await;
    assert_eq!(store.memory(&new).await.unwrap().unwrap().until, None, "another chat changes nothing here");
    let replaces = Replaces { ids: vec![new.clone()], from: None };
    save(&store, vec![MemorySave { replaces, ..memory("The stand-up is at 9:30", "e") }]).await;
    store.close().await;
    fs::remove_dir_all(dir.path().join("views")).unwrap();
    let store = open(dir.path());
    let (first, second) =
        (store.memory(&old).await.unwrap().unwrap(), store.memory(&new).await.unwrap().unwrap());
    assert_eq!((first.superseded_by, first.until), (None, None), "it holds again, by a replay, too");
    assert_eq!(second.superseded_by, Some(old));
    store.close().await;
}

#[tokio::test]
async fn a_forgotten_memory_stays_forgotten_until_a_person_asks_for_it() {
    let (dir, store) = opened();
    save(&store, vec![memory("Ana likes tea", "a")]).await;
    let id = all(&store).await[0].id.clone();
    journal(&store, vec![Event::Memory(MemoryEvent::Forgotten { id: id.clone(), wished: false })]).await;
    save(&store, vec![memory("Ana likes tea", "later")]).await;
    assert!(all(&store).await.is_empty());
    assert_eq!(store.memory(&id).await.unwrap(), None);
    store.close().await;
    fs::remove_dir_all(dir.path().join("views")).unwrap();
    let store = open(dir.path());
    assert!(all(&store).await.is_empty(), "nor does a replay bring it back");
    save(&store, vec![MemorySave { explicit: true, ..memory("Ana likes tea", "asked") }]).await;
    assert_eq!(all(&store).await[0].id, id);
    store.close().await;
}

#[tokio::test]
async fn what_a_person_wished_forgotten_does_not_come_back_in_other_words() {
    let (dir, store) = opened();
    let said = |text: &str, key: &str| MemorySave { subject: Some("Ana".to_owned()), ..memory(text, key) };
    save(&store, vec![said("Ana lives at 12 Mill Lane", "a"), said("Ana's home is in Mill Lane 12", "b")])
        .await;
    let id = all(&store).await[0].id.clone();
    journal(&store, vec![Event::Memory(MemoryEvent::Forgotten { id, wished: true })]).await;
    let again = said("Ana's address is 12 Mill Lane", "c");
    assert!(store.is_forgotten(&again).await.unwrap());
    let next = said("Ana lives at 14 Mill Lane", "d");
    assert!(!store.is_forgotten(&next).await.unwrap());
    save(&store, vec![again.clone(), next, said("Ana's home is in Mill Lane 12", "e")]).await;
    let texts = async |store: &Store| -> Vec<String> {
        all(store).await.into_iter().map(|memory| memory.text).collect()
    };
    let kept = ["Ana's home is in Mill Lane 12", "Ana lives at 14 Mill Lane"];
    assert_eq!(texts(&store).await, kept, "what stood beside it stays");
    store.close().await;
    fs::remove_dir_all(dir.path().join("views")).unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store).await, kept, "by a replay, too");
    save(&store, vec![MemorySave { explicit: true, ..again }]).await;
    let again = said("Ana's address, as she said, is 12 Mill Lane", "f");
    assert!(!store.is_forgotten(&again).await.unwrap(), "a person's wish lifts it");
    assert_eq!(all(&store).await.len(), 3);
    store.close().await;
}

#[tokio::test]
async fn an_edited_memory_is_known_by_its_first_and_its_new_words() {
    let (_dir, store) = opened();
    save(&store, vec![memory("Ana likes tea", "a")]).await;
    let id = all(&store).await[0].id.clone();
    let edit = |text: &str| {
        Event::Memory(MemoryEvent::Edited {
            id: id.clone(),
            text: Some(text.to_owned()),
            kind: None,
            importance: None,
        })
    };
    journal(&store, vec![edit("Ana likes coffee"), edit("Ana likes cocoa")]).await;
    save(&store, vec![memory("Ana likes tea", "b"), memory("Ana likes cocoa", "c")]).await;
    let found = all(&store).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].text.as_str(), found[0].sightings), ("Ana likes cocoa", 3));
    assert_eq!(store.memory(&id).await.unwrap(), Some(found[0].clone()));
    store.close().await;
}

#[tokio::test]
async fn only_memories_that_fit_the_question_and_the_scope_are_recalled() {
    let (_dir, store) = opened();
    let secret = Scope::User { platform: "discord".to_owned(), user: "ana".to_owned() };
    save(
        &store,
        vec![
            memory("Ana drinks green tea every morning", "a"),
            memory("The team decided to ship in May", "b"),
            memory("Ben has a blue bike", "c"),
            MemorySave { scope: secret.clone(), ..memory("Ana hides tea in the cellar", "d") },
        ],
    )
    .await;
    let here = [Scope::Agent, scope()];
    assert_eq!(
        recalled(&store, &here, "What tea does Ana drink?").await,
        ["Ana drinks green tea every morning"]
    );
    assert_eq!(recalled(&store, &here, "whose bike is it?").await, ["Ben has a blue bike"]);
    assert!(recalled(&store, &here, "how is the weather?").await.is_empty());
    assert!(recalled(&store, &here, "").await.is_empty());
    assert_eq!(recalled(&store, &[secret], "tea").await, ["Ana hides tea in the cellar"]);
    assert!(recalled(&store, &[], "tea").await.is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_list_is_filtered_and_in_the_order_of_saving() {
    let (_dir, store) = opened();
    let about_ana = MemorySave { subject: Some("local/ana".to_owned()), ..memory("Drinks tea", "b") };
    save(&store, vec![memory("Zebras are striped", "a"), about_ana, memory("Apples are red", "c")]).await;
    let list = |filter: MemoryFilter| {
        let store = store.clone();
        async move {
            let found =
                store.memories(&AgentId::from("main"), &[Reach::Scope(scope())], filter).await.unwrap();
            found.into_iter().map(|memory| memory.text).collect::<Vec<_>>()
        }
    };
    let filter = || MemoryFilter { limit: 10, ..MemoryFilter::default() };
    assert_eq!(list(filter()).await, ["Zebras are striped", "Drinks tea", "Apples are red"]);
    assert_eq!(list(MemoryFilter { limit: 1, ..filter() }).await, ["Zebras are striped"]);
    assert_eq!(
        list(MemoryFilter { subject: Some("local/ana".to_owned()), ..filter() }).await,
        ["Drinks tea"]
    );
    assert_eq!(
        list(MemoryFilter { query: Some("red apple".to_owned()), ..filter() }).await,
        ["Apples are red"]
    );
    store.close().await;
}

#[tokio::test]
async fn a_question_behind_a_long_text_still_finds_its_memory() {
    let (_dir, store) = opened();
    save(&store, vec![memory("Anna likes green tea", "s1"), memory("The word9000 is unimportant", "s2")])
        .await;
    let pasted: String = (0..20_000).map(|n| format!("word{n} ")).collect();
    let question = format!("{pasted}. What does Anna drink, tea?");
    assert_eq!(recalled(&store, &[scope()], &question).await, ["Anna likes green tea"]);
    store.close().await;
}

#[tokio::test]
async fn what_has_just_changed_is_recalled_as_it_is_now() {
    let (_dir, store) = opened();
    for n in 0..5 {
        let (tea, cocoa) = (format!("Ana likes tea number{n}"), format!("Ana likes cocoa number{n}"));
        save(&store, vec![memory(&tea, &format!("s{n}"))]).await;
        let question = format!("number{n}");
        assert_eq!(recalled(&store, &[scope()], &question).await, [tea]);
        let id = all(&store).await[0].id.clone();
        let text = Some(cocoa.clone());
        journal(
            &store,
            vec![Event::Memory(MemoryEvent::Edited { id: id.clone(), text, kind: None, importance: None })],
        )
        .await;
        assert_eq!(recalled(&store, &[scope()], &question).await, [cocoa]);
        assert!(recalled(&store, &[scope()], "tea").await.is_empty());
        journal(&store, vec![Event::Memory(MemoryEvent::Forgotten { id, wished: false })]).await;
        assert!(recalled(&store, &[scope()], &question).await.is_empty());
    }
    store.close().await;
}

#[tokio::test]
async fn without_an_index_memories_are_recalled_in_the_same_order() {
    let (dir, store) = opened();
    let ask = async |store: &Store| {
        let mut found = Vec::new();
        for question in ["Who likes green tea?", "tea", "Ben's bike"] {
            found.push(recalled(store, &[Scope::Agent, scope()], question).await);
        }
        let filter = MemoryFilter { query: Some("likes".to_owned()), limit: 9, ..MemoryFilter::default() };
        let listed = store.memories(&AgentId::from("main"), &[Reach::All], filter).await.unwrap();
        found.push(listed.into_iter().map(|memory| memory.text).collect());
        found
    };
    let important = MemorySave { importance: 1.0, ..memory("Tea is what Cleo likes", "c") };
    let of_all = MemorySave { scope: Scope::Agent, ..memory("Green tea is served at five", "d") };
    save(
        &store,
        vec![memory("Ana likes green tea", "a"), memory("Ben likes his bike", "b"), important, of_all],
    )
    .await;
    let before = ask(&store).await;
    assert_eq!(before[0][0], "Ana likes green tea");
    assert_eq!((before[1][0].as_str(), before[1].len()), ("Tea is what Cleo likes", 3));
    assert_eq!(before[2], ["Ben likes his bike"]);
    assert_eq!(before[3].len(), 3);
    store.close().await;
    fs::remove_dir_all(dir.path().join("index")).unwrap();
    fs::write(dir.path().join("index"), "no folder").unwrap();
    let store = open(dir.path());
    assert_eq!(ask(&store).await, before);
    store.close().await;
}

#[tokio::test]
async fn of_two_that_fit_as_well_the_newer_is_recalled_first_and_its_day_finds_neither() {
    let (_dir, store) = opened();
    save(&store, vec![memory("Ana lives in Lisbon", "a")]).await;
    let later = Event::Memory(MemoryEvent::Saved(memory("Ana lives in Madrid", "b")));
    store.append(vec![NewRecord { channel: None, at: at(86_400), event: later }]).await.unwrap();
    assert_eq!(
        recalled(&store, &[scope()], "Where does Ana live?").await,
        ["Ana lives in Madrid", "Ana lives in Lisbon"]
    );
    let day = at(86_400).strftime("%-d %B %Y").to_string();
    assert!(recalled(&store, &[scope()], &day).await.is_empty());
    store.close().await;
}

fn typed(who: &str, name: &str, subject: &str, text: &str) -> MemorySave {
    let save = memory(text, text);
    let by = Some(Author { id: format!("discord/{who}"), name: name.to_owned() });
    MemorySave {
        scope: Scope::Chat { platform: "discord".to_owned(), chat: "room".to_owned() },
        subject: Some(format!("discord/{subject}")),
        source: Source { model: TYPED_BY_MEMBER.to_owned(), by, ..save.source.clone() },
        explicit: true,
        ..save
    }
}

#[tokio::test]
async fn what_somebody_said_of_themselves_is_read_by_them_wherever_it_was_said() {
    let (dir, store) = opened();
    let own = |who: &str| [Reach::Own(format!("discord/{who}"))];
    save(
        &store,
        vec![
            typed("1", "Ana", "1", "I like tea"),
            typed("2", "Ben", "2", "I like tea"),
            typed("2", "Ben", "1", "Ana likes tea from China"),
            memory("Tea is served at five", "a"),
        ],
    )
    .await;
    let check = async |store: &Store| {
        assert_eq!(within(store, &own("1"), "tea?").await, ["I like tea"]);
        assert_eq!(
            within(store, &own("2"), "tea?").await,
            ["I like tea"],
            "the same of each is two memories"
        );
        assert!(within(store, &own("3"), "tea?").await.is_empty());
        assert_eq!(within(store, &[Reach::All], "tea?").await.len(), 3);
    };
    check(&store).await;
    store.close().await;
    fs::remove_dir_all(dir.path().join("views")).unwrap();
    let store = open(dir.path());
    check(&store).await;
    let filter = MemoryFilter { limit: 9, ..MemoryFilter::default() };
    let of_ana = store.memories(&AgentId::from("main"), &own("1"), filter).await.unwrap();
    journal(&store, vec![Event::Memory(MemoryEvent::Forgotten { id: of_ana[0].id.clone(), wished: false })])
        .await;
    store.settle().await.unwrap();
    assert!(within(&store, &own("1"), "tea?").await.is_empty());
    assert_eq!(within(&store, &own("2"), "tea?").await, ["I like tea"]);
    assert!(store.verify().await.unwrap().ok, "no row is left over");
    store.close().await;
}

#[tokio::test]
async fn ones_own_word_comes_before_what_another_member_says_of_one() {
    let (_dir, store) = opened();
    let group = [Scope::Chat { platform: "discord".to_owned(), chat: "room".to_owned() }];
    save(
        &store,
        vec![
            typed("1", "Ana", "1", "I am allergic to nuts"),
            typed("2", "Ben", "1", "Ana is allergic to nuts, nuts and more nuts"),
        ],
    )
    .await;
    let found = recalled(&store, &group, "What is Ana allergic to, nuts?").await;
    assert_eq!(found, ["I am allergic to nuts", "Ana is allergic to nuts, nuts and more nuts"]);
    store.close().await;
}

#[tokio::test]
async fn what_the_index_does_not_show_yet_is_ranked_as_if_it_did() {
    let (_dir, store) = opened();
    let texts =
        ["Ana likes green tea", "Ben likes his bike", "Cleo likes black tea", "Tea is served at five"];
    save(&store, texts.iter().map(|text| memory(text, text)).collect()).await;
    indexed(&store).await;
    let ids: Vec<_> = all(&store).await.into_iter().map(|memory| memory.id).collect();
    let text = Some("Ben likes green tea, too".to_owned());
    journal(
        &store,
        vec![
            Event::Memory(MemoryEvent::Edited { id: ids[1].clone(), text, kind: None, importance: None }),
            Event::Memory(MemoryEvent::Forgotten { id: ids[2].clone(), wished: false }),
            Event::Memory(MemoryEvent::Saved(memory("Dan has never had tea or coffee", "d"))),
            Event::Memory(MemoryEvent::Saved(memory("Ana likes green tea", "again"))),
        ],
    )
    .await;
    let ask = async || {
        let mut found = Vec::new();
        for question in ["Who likes green tea?", "tea", "What does Ben like?", "Cleo", "coffee"] {
            found.push(recalled(&store, &[Scope::Agent, scope()], question).await);
        }
        found
    };
    let before = ask().await;
    assert_eq!(before[2][0], "Ben likes green tea, too");
    assert_eq!(before[3], Vec::<String>::new());
    assert_eq!(before[4], ["Dan has never had tea or coffee"]);
    indexed(&store).await;
    assert_eq!(ask().await, before);
    store.close().await;
}

/// Words of all frequencies, in places that overlap: which memories are passed over depends on all of that.
#[tokio::test]
async fn of_many_memories_the_index_finds_those_that_a_look_at_each_row_finds() {
    let (dir, store) = opened();
    let mut random = fastrand::Rng::with_seed(14);
    // The word of each number is in one of so many texts.
    let mut text = |n: u64| {
        let words = (1..60).filter(|every| random.u64(..*every) == 0).map(|every| format!("topic{every}"));
        format!("{n} {}", words.collect::<Vec<_>>().join(" "))
    };
    // Each at a time of its own: of those that fit as well and are as old, any may be found.
    let mut saves: Vec<NewRecord> = (0..900)
        .map(|n| {
            let save = memory(&text(n), &format!("save{n}"));
            let importance = [0.0, 0.5, 0.5, 1.0][n as usize % 4];
            let scope = if n % 3 == 0 { Scope::Agent } else { save.scope.clone() };
            let save = MemorySave { importance, scope, ..save };
            NewRecord { channel: None, at: at(n as i64), event: Event::Memory(MemoryEvent::Saved(save)) }
        })
        .collect();
    // Some come when the index has been committed, and some of the others change.
    let late = saves.split_off(800);
    store.append(saves).await.unwrap();
    indexed(&store).await;
    let ids: Vec<_> = all(&store).await.into_iter().map(|memory| memory.id).collect();
    for (n, id) in ids.iter().enumerate().take(40) {
        let id = id.clone();
        let event = match n % 2 {
            0 => MemoryEvent::Forgotten { id, wished: false },
            _ => MemoryEvent::Edited { id, text: Some(text(n as u64)), kind: None, importance: None },
        };
        journal(&store, vec![Event::Memory(event)]).await;
    }
    store.append(late).await.unwrap();
    let questions = [
        &[1, 2, 40][..],
        &[2, 40],
        &[1, 2, 3, 4, 5],
        &[30, 50, 1],
        &[59, 58, 57],
        &[2, 3, 7, 20, 21, 45],
        &[1],
    ];
    let ask = async |store: &Store| {
        let mut found = Vec::new();
        for words in questions {
            let question: Vec<String> = words.iter().map(|word| format!("topic{word}")).collect();
            for reach in [
                vec![Reach::Scope(Scope::Agent), Reach::Scope(scope())],
                vec![Reach::All, Reach::Scope(scope())],
            ] {
                let agent = AgentId::from("main");
                found.push(store.recall(&agent, &reach, &question.join(" "), 3).await.unwrap());
            }
        }
        found
    };
    let before = ask(&store).await;
    assert_eq!(before[..2], before[2..4], "a word that all have tells nothing");
    indexed(&store).await;
    assert_eq!(ask(&store).await, before);
    store.close().await;
    fs::remove_dir_all(dir.path().join("index")).unwrap();
    fs::write(dir.path().join("index"), "no folder").unwrap();
    let store = open(dir.path());
    assert_eq!(ask(&store).await, before);
    assert!(before.iter().all(|found| found.memories.len() == 3 && !found.near.is_empty()));
    store.close().await;
}

/// Waits until the index shows all that was said.
async fn indexed(store: &Store) {
    let query = Query {
        channel: Some("main/local/room".parse().unwrap()),
        text: "tea".to_owned(),
        scopes: vec![scope()],
        limit: 1,
        settled: true,
        ..Query::default()
    };
    assert_eq!(store.found(query, None).await.unwrap().unindexed, 0);
}

/// What is kept of a memory's past: records, by their numbers.
async fn trail(store: &Store, id: &MemoryId) -> (Vec<(u64, u64)>, Vec<u64>) {
    let MemoryTrail { steps, uses } = store.memory_trail(id).await.unwrap();
    let steps = steps.iter().map(|step| (step.record.n, step.left_out)).collect();
    (steps, uses.iter().map(|record| record.n).collect())
}

#[tokio::test]
async fn so_much_of_a_memorys_past_is_kept_and_no_more() {
    let (dir, store, mut chat) = chatting();
    let run = vec![memory("Ana has a bike", "s1/0"), memory("Ana likes green tea", "s1/1")];
    chat.turn("a", "I like green tea", "Noted").await;
    chat.compact(2, "Tea.", run).await;
    let save = memory("Ana likes green tea", "t9/0");
    let id = mint_id(&save.fingerprint());
    let mut made = trail(&store, &id).await;
    assert_eq!((made.0.len(), made.1.len()), (1, 0));
    assert_eq!(store.memory_trail(&id).await.unwrap().steps[0].idx, 1, "the second of its run");
    let edit = |n: u32| MemoryEvent::Edited {
        id: id.clone(),
        text: Some(format!("Ana likes green tea, {n} cups")),
        kind: None,
        importance: None,
    };
    let mut ns = Vec::new();
    for n in 0..40 {
        ns.push(chat.append(vec![Event::Memory(edit(n))]).await[0].n);
    }
    ns.push(chat.append(vec![Event::Memory(MemoryEvent::Saved(save))]).await[0].n);
    let mut ends = Vec::new();
    for n in 0..40 {
        let turn = chat.accept(&format!("u{n}"), "ana", "tea?").await;
        chat.start(&turn, &[&format!("u{n}")]).await;
        let end = TurnEnd {
            turn,
            outcome: TurnOutcome::Unanswered,
            model: None,
            usage: Usage::default(),
            recalled: vec![id.clone(), MemoryId::from("m-forgotten")],
        };
        ends.push(chat.append(vec![Event::Turn(TurnEvent::Ended(end))]).await[0].n);
    }
    let newest = &ns[ns.len() - 15..];
    made.0.extend(newest.iter().map(|n| (*n, 0)));
    made.0[1].1 = 41 - 15;
    made.1 = ends[8..].to_vec();
    assert_eq!(trail(&store, &id).await, made, "the first, the newest, and how many are not kept");
    store.close().await;
    remove_derived(dir.path());
    let store = open(dir.path());
    assert_eq!(trail(&store, &id).await, made, "from the journal alone");
    let forget = NewRecord {
        channel: None,
        at: at(9_999),
        event: Event::Memory(MemoryEvent::Forgotten { id: id.clone(), wished: false }),
    };
    store.append(vec![forget]).await.unwrap();
    assert_eq!(trail(&store, &id).await, (Vec::new(), Vec::new()), "it goes with its memory");
    store.close().await;
}

#[tokio::test]
async fn memories_of_several_agents_are_found_in_one_ranking() {
    let (dir, store) = opened();
    let of = |agent: &str, text: &str| MemorySave { agent: AgentId::from(agent), ..memory(text, text) };
    let mut saves: Vec<MemorySave> =
        (0..5).map(|n| of("main", &format!("The boat number {n} needs paint and a new sail soon"))).collect();
    saves.push(of("helper", "The boat is in the harbour at noon"));
    saves.push(of("stranger", "boat harbour noon"));
    save(&store, saves).await;
    let found = async |store: &Store, agents: &[&str]| -> Vec<String> {
        let filter =
            MemoryFilter { query: Some("boat harbour noon".to_owned()), limit: 2, ..MemoryFilter::default() };
        let agents = agents.iter().copied().map(AgentId::from).collect();
        let found = store.memories_of(agents, &[Reach::All], filter).await.unwrap();
        found.into_iter().map(|memory| memory.text).collect()
    };
    let both = found(&store, &["main", "helper"]).await;
    assert_eq!((both.len(), both[0].as_str()), (2, "The boat is in the harbour at noon"), "{both:?}");
    assert_eq!(found(&store, &["helper", "main"]).await, both, "in whatever order they are named");
    assert!(found(&store, &["main"]).await.iter().all(|text| text.contains("paint")));
    store.close().await;
    remove_derived(dir.path());
    let store = open(dir.path());
    assert_eq!(found(&store, &["main", "helper"]).await, both, "from rows alone, too");
    store.close().await;
}
