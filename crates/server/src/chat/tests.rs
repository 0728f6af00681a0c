//! Chat commands over a real store and real actors, with the offline model.

use std::cell::Cell;
use std::path::Path;

use cairn_actors::RuntimeDeps;
use cairn_core::store_port::Store as _;
use cairn_store::StoreOptions;
use cairn_tools::schema::Schemas;
use cairn_types::event::{Event, MemoryEvent};
use cairn_types::ids::ChannelId;
use cairn_types::memory::{MemoryKind, MemorySave, Reach, Replaces, Scope, Source};
use cairn_types::message::{Author, Inbound, Part};
use cairn_types::ports::{Answer, Progress, Toolset};
use cairn_types::tool::mcp::pins::Pins;
use futures::StreamExt;

use super::*;
use crate::parts::agents::AgentRegistry;
use crate::parts::models::search_in;
use crate::parts::people::DaemonPairings;
use crate::parts::tools::ToolRegistry;
use cairn_config::clock::SystemClock;
use cairn_config::{Config, FixedEnvironment, Live};

const GROUP: &str = "main/telegram/-100";

const OTHER: &str = "main/telegram/-200";

/// Ann's private chat with the bot.
const PRIVATE: &str = "main/telegram/7";

const BOBS: &str = "main/telegram/8";

struct Fixture {
    _dir: tempfile::TempDir,
    store: Store,
    chat_commands: Runner,
    n: Cell<u64>,
}

fn ann() -> Author {
    Author { id: "telegram/7".to_owned(), name: "Ann".to_owned() }
}

fn bob() -> Author {
    Author { id: "telegram/8".to_owned(), name: "Bob".to_owned() }
}

async fn fixture(config: &str) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, config).unwrap();
    let loaded = Config::load(Some(Path::new(&file)), &FixedEnvironment::new("/")).unwrap();
    let loaded = Arc::new(loaded);
    let store = Store::open(StoreOptions::new(dir.path().join("state"))).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let tool_registry =
        ToolRegistry::new(&loaded, dir.path(), Pins::default(), Vec::new(), Arc::clone(&clock));
    let tools = Arc::new(tool_registry.unwrap());
    let agent_registry = AgentRegistry::new(Live::new(Arc::clone(&loaded)), search_in(&store), tools);
    let limits = &loaded.config.limits;
    let deps = RuntimeDeps {
        store: Arc::new(store.clone()),
        tools: Arc::clone(agent_registry.tools()) as Arc<dyn Toolset>,
        arguments: Arc::new(Schemas::default()),
        clock: Arc::clone(&clock),
        agents: agent_registry.runtimes().await.unwrap(),
        platforms: Vec::new(),
        speaker: None,
        limits: limits.runtime(),
        talk: limits.talk(),
        prices: loaded.config.prices(),
        usage_day: store.usage_day().await.unwrap(),
        clean_stop: true,
    };
    let runtime = Runtime::start(deps).await.unwrap();
    let people = DaemonPairings::load(Arc::new(store.clone()), Arc::clone(&clock)).await.unwrap();
    let people = Arc::new(people);
    let chat_commands = Runner::new(RunnerDeps {
        store: store.clone(),
        runtime,
        people,
        config: Live::new(loaded),
        started_at: clock.now(),
        clock,
    });
    Fixture { _dir: dir, store, chat_commands, n: Cell::new(0) }
}

impl Fixture {
    fn next(&self) -> u64 {
        self.n.set(self.n.get() + 1);
        self.n.get()
    }

    /// Somebody says something to the bot; returns when it is answered.
    async fn say(&self, channel: &str, author: Author, text: &str) {
        let inbound = Inbound {
            channel: channel.parse().unwrap(),
            message: self.next().to_string().into(),
            author,
            at: self.chat_commands.deps.clock.now(),
            parts: vec![Part::text(text)],
            addressed: true,
            direct: [PRIVATE, BOBS].contains(&channel),
            chat_name: None,
            language: None,
            reply_to: None,
            provenance: cairn_types::message::Provenance::default(),
            spoken: false,
            recordings: Vec::new(),
            gather: cairn_types::message::Gather::default(),
        };
        let mut admission = self.chat_commands.deps.runtime.submit(inbound).await.unwrap();
        while let Some(progress) = admission.progress.next().await {
            if let Progress::Ended(answer) = progress {
                assert!(matches!(answer, Answer::Reply(_)), "{answer:?}");
                break;
            }
        }
        // What `export` reads comes from the views.
        self.store.settle().await.unwrap();
    }

    fn call(&self, channel: &str, caller: Author, words: &str) -> CommandCall {
        let (name, argument) = words.split_once(' ').unwrap_or((words, ""));
        CommandCall {
            channel: channel.parse::<ChannelId>().unwrap(),
            message: self.next().to_string().into(),
            caller,
            direct: [PRIVATE, BOBS].contains(&channel),
            at: self.chat_commands.deps.clock.now(),
            command: Command::parse(name, argument).unwrap(),
            language: None,
        }
    }

    async fn run(&self, channel: &str, caller: Author, words: &str) -> CommandAnswer {
        self.chat_commands.run(self.call(channel, caller, words)).await.unwrap()
    }

    async fn words(&self, channel: &str, caller: Author, words: &str) -> String {
        self.run(channel, caller, words).await.words
    }
}

#[tokio::test]
async fn a_command_runs_once() {
    let fixture = fixture("").await;
    let call = fixture.call(PRIVATE, ann(), "remember the shed is green");
    assert!(fixture.chat_commands.run(call.clone()).await.is_some());
    assert_eq!(fixture.chat_commands.run(call).await, None, "the platform delivered it twice");
}

#[tokio::test]
async fn where_nothing_was_said_no_command_is_an_error() {
    let fixture = fixture("").await;
    for spec in cairn_types::command::COMMANDS {
        let words = fixture.words(PRIVATE, ann(), &format!("{} harbour", spec.name)).await;
        assert!(!words.is_empty() && !words.contains("failed"), "{}: {words}", spec.name);
    }
}

#[tokio::test]
async fn a_missing_argument_is_told() {
    let fixture = fixture("").await;
    let answer = fixture.run(GROUP, ann(), "remember").await;
    assert!(answer.words.contains("/remember TEXT"), "{answer:?}");
}

#[tokio::test]
async fn who_may_not_is_told_so_politely_and_privately_and_nothing_happens() {
    let fixture = fixture("[commands]\noperators = [\"telegram/8\"]\nstatus = \"nobody\"\n").await;
    fixture.say(GROUP, ann(), "hello").await;
    let answer = fixture.run(GROUP, ann(), "new").await;
    assert!(answer.private && answer.words.contains("private chats"), "{answer:?}");
    let channel = GROUP.parse().unwrap();
    let generation = async || {
        fixture.chat_commands.deps.runtime.conversation(&channel).await.unwrap().unwrap().0.generation.0
    };
    let before = generation().await;
    assert!(fixture.words(GROUP, bob(), "new").await.contains("new conversation"));
    assert_eq!(generation().await, before + 1, "the operator may");
    assert!(fixture.words(PRIVATE, bob(), "status").await.contains("switched off"));
    let help = fixture.words(GROUP, ann(), "help").await;
    assert!(help.contains("`/context`") && !help.contains("/new") && !help.contains("/status"), "{help}");
    assert!(fixture.words(PRIVATE, ann(), "help").await.contains("`/new`"));
}

#[tokio::test]
async fn the_window_is_drawn_for_a_narrow_screen() {
    let fixture = fixture("").await;
    fixture.say(GROUP, ann(), "the harbour office closes at noon").await;
    let answer = fixture.run(GROUP, ann(), "context").await;
    assert!(!answer.private);
    let drawing = answer.words.split("```").nth(1).unwrap();
    assert!(drawing.contains("live") && drawing.lines().nth(1).unwrap().starts_with('['), "{drawing}");
    let widest = drawing.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 32, "{drawing}");
    assert!(answer.words.contains("tier **calm**") && answer.words.contains("- summaries: none yet"));
}

#[tokio::test]
async fn the_status_tells_of_this_conversation_alone() {
    let fixture = fixture("").await;
    fixture.say(OTHER, bob(), "a secret of another chat").await;
    fixture.say(GROUP, ann(), "hello").await;
    let words = fixture.words(GROUP, ann(), "status").await;
    assert!(words.contains("**main**") && words.contains("`offline`"), "{words}");
    assert!(words.contains("2 messages in this conversation"), "{words}");
    assert!(!words.contains("-200") && !words.contains("spent"), "{words}");
}

#[tokio::test]
async fn who_may_take_a_memory_back_is_told() {
    let operators = "operators = [\"telegram/8\"]\n";
    for (keys, channel, caller, expected) in [
        ("", PRIVATE, ann(), "`/forget "),
        ("", GROUP, ann(), "My operator can undo this with `cairn memory forget "),
        (operators, GROUP, ann(), "Operators can undo this with `/forget "),
        (operators, GROUP, bob(), "). `/forget "),
        ("forget = \"everyone\"\n", GROUP, ann(), "). `/forget "),
        ("forget = \"nobody\"\noperators = [\"telegram/8\"]\n", PRIVATE, bob(), "`cairn memory forget "),
    ] {
        let fixture = fixture(&format!("[commands]\n{keys}")).await;
        let words = fixture.words(channel, caller, "remember the shed is green").await;
        assert!(words.contains(expected), "{keys} {channel}: {words}");
    }
}

#[tokio::test]
async fn a_chat_is_made_private_by_operators_or_in_private_and_a_person_by_themselves() {
    let chat = fixture("").await;
    chat.say(GROUP, bob(), "hello").await;
    let denied = chat.words(GROUP, bob(), "private on").await;
    assert!(denied.contains("only operators") && denied.contains("/private me on"), "{denied}");
    assert!(chat.words(GROUP, bob(), "private").await.contains("Nothing is private"));
    assert!(chat.words(GROUP, bob(), "private me on").await.contains("in any chat"));
    assert!(chat.words(GROUP, bob(), "status").await.contains("nothing is learnt from you"));
    assert!(!chat.words(GROUP, ann(), "status").await.contains("nothing is learnt"));
    assert!(chat.words(BOBS, bob(), "private on").await.contains("This chat is now private"));
    let both = chat.words(BOBS, bob(), "private").await;
    assert!(both.contains("this chat is private since") && both.contains("you are private since"), "{both}");
    assert!(chat.words(BOBS, bob(), "private off").await.contains("no longer private"));
    let registry = chat.store.registry().await.unwrap();
    assert!(registry.private_people["telegram/8"].since().is_some(), "it is journalled");
    assert!(registry.private_chats["telegram/8"].since().is_none());
    assert!(chat.words(BOBS, bob(), "private perhaps").await.contains("write it like this"));
}

#[tokio::test]
async fn a_memory_is_shown_in_its_place_alone_and_privately() {
    let fixture = fixture("").await;
    fixture.words(GROUP, ann(), "remember the *shed* is green").await;
    fixture.words(PRIVATE, ann(), "remember I am allergic to nuts").await;
    let here = fixture.run(GROUP, bob(), "memory").await;
    assert!(here.private, "others need not see it");
    assert!(here.words.contains("the \\*shed\\* is green"), "as data, not as markup: {}", here.words);
    assert!(!here.words.contains("nuts"), "what is private is not shown in a group: {}", here.words);
    assert!(fixture.words(OTHER, ann(), "memory").await.contains("Nothing is remembered here yet"));
    let mine = fixture.words(PRIVATE, ann(), "memory").await;
    assert!(
        mine.contains("nuts") && mine.contains("shed"),
        "what she said in the group is hers, too: {mine}"
    );
    let found = fixture.words(GROUP, ann(), "memory green shed").await;
    assert!(found.contains("Best matches") && found.contains("green"), "{found}");
}

#[tokio::test]
async fn what_people_said_of_themselves_is_shown_as_far_as_it_is_shared() {
    for (config, everywhere, mine) in [
        ("[defaults.memory]\nshare = \"chat\"\n", false, false),
        ("", false, true),
        ("[defaults.memory]\nshare = \"person\"\n", false, true),
        ("[defaults.memory]\nshare = \"agent\"\n", true, true),
    ] {
        let fixture = fixture(config).await;
        fixture.say(GROUP, ann(), "hello").await;
        let told = fixture.words(GROUP, ann(), "remember I am allergic to nuts").await;
        assert_eq!(told.contains("for you in private"), mine && !everywhere, "{config}: {told}");
        fixture.words(GROUP, bob(), "remember Ann hates olives").await;
        fixture.words(PRIVATE, ann(), "remember I play chess").await;
        let shows = async |channel, who, word| {
            let answer = fixture.words(channel, who, "memory").await;
            answer.contains(word)
        };
        assert!(shows(GROUP, bob(), "nuts").await && shows(GROUP, bob(), "olives").await, "{config}");
        assert_eq!(shows(PRIVATE, ann(), "nuts").await, mine, "{config}");
        assert!(shows(PRIVATE, ann(), "chess").await, "{config}");
        for (channel, who, word) in [
            (PRIVATE, ann(), "olives"),
            (OTHER, ann(), "nuts"),
            (OTHER, ann(), "chess"),
            (GROUP, ann(), "chess"),
            (BOBS, bob(), "nuts"),
            (BOBS, bob(), "chess"),
            (BOBS, bob(), "olives"),
        ] {
            assert_eq!(shows(channel, who, word).await, everywhere, "{config}: {word} in {channel}");
        }
        let gone = fixture.words(BOBS, bob(), "forget nuts").await;
        assert!(gone.contains("No memory here"), "others' words are not his to forget: {gone}");
    }
}

#[tokio::test]
async fn what_is_remembered_in_a_group_says_whose_word_it_is_and_about_whom() {
    let fixture = fixture("[commands]\noperators = [\"telegram/9\"]\n").await;
    let carol = Author { id: "telegram/9".to_owned(), name: "Carol".to_owned() };
    fixture.say(GROUP, ann(), "hello").await;
    for (who, text) in [
        (ann(), "I like tea"),
        (bob(), "Ann likes coffee"),
        (bob(), "Dora likes milk"),
        (carol, "Ann likes cocoa"),
    ] {
        fixture.words(GROUP, who, &format!("remember {text}")).await;
    }
    let place = [Reach::Scope(Scope::learnt_in(&GROUP.parse().unwrap(), None))];
    let found = fixture.chat_commands.memories_in(&"main".into(), &place).await.unwrap();
    let rows: Vec<_> = found
        .iter()
        .map(|memory| {
            let by = memory.source.by.as_ref().unwrap().name.as_str();
            (memory.text.as_str(), by, memory.source.model.as_str(), memory.subject.as_deref())
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("I like tea", "Ann", "member", Some("telegram/7")),
            ("Ann likes coffee", "Bob", "member", Some("telegram/7")),
            ("Dora likes milk", "Bob", "member", Some("telegram/8")),
            ("Ann likes cocoa", "Carol", "operator", Some("telegram/7")),
        ]
    );
    let listed = fixture.words(GROUP, ann(), "memory coffee").await;
    assert!(listed.contains("said by Bob"), "{listed}");
    // What she said and what is said of her is hers to have forgotten, not what Bob said of somebody else.
    assert!(fixture.words(PRIVATE, ann(), "forgetme yes").await.contains("1 memory forgotten"));
    assert!(fixture.words(GROUP, ann(), "forgetme yes").await.contains("2 memories forgotten"));
    assert!(fixture.words(GROUP, ann(), "memory").await.contains("milk"));
}

#[tokio::test]
async fn a_memory_is_forgotten_by_words_that_only_it_has_or_by_its_id() {
    let fixture = fixture("").await;
    for text in ["the shed is green", "the boat is green", "the boat is new"] {
        fixture.words(PRIVATE, ann(), &format!("remember {text}")).await;
    }
    fixture.words(GROUP, bob(), "remember the gate is green").await;
    let several = fixture.words(PRIVATE, ann(), "forget green").await;
    assert!(several.contains("2 memories have these words") && !several.contains("gate"), "{several}");
    assert!(fixture.words(PRIVATE, ann(), "forget gate").await.contains("No memory here"));
    assert!(
        fixture.words(PRIVATE, ann(), "forget SHED green").await.contains("Forgotten: the shed is green")
    );
    let listed = fixture.words(PRIVATE, ann(), "memory new").await;
    let id = listed.split('`').find(|word| word.starts_with('m') && word.len() > 8).unwrap().to_owned();
    assert!(fixture.words(PRIVATE, ann(), &format!("forget {id}")).await.contains("Forgotten"));
    let left = fixture.words(PRIVATE, ann(), "memory").await;
    assert!(left.contains("1 memory here"), "{left}");
}

#[tokio::test]
async fn what_is_held_about_somebody_is_theirs_to_see_and_to_have_forgotten() {
    let fixture = fixture("").await;
    fixture.say(GROUP, ann(), "hello").await;
    fixture.say(GROUP, bob(), "hello, Ann").await;
    fixture.words(GROUP, ann(), "remember I like tea").await;
    fixture.words(PRIVATE, ann(), "remember I am allergic to nuts").await;
    fixture.words(GROUP, bob(), "remember I like coffee").await;
    let export = fixture.run(GROUP, ann(), "export").await;
    assert!(export.private);
    assert!(export.words.contains("1 message in this conversation"), "{}", export.words);
    assert!(export.words.contains("tea") && export.words.contains("nuts"), "{}", export.words);
    assert!(!export.words.contains("coffee"), "{}", export.words);
    for (place, who, text) in [(PRIVATE, ann(), "water the ficus"), (GROUP, bob(), "fetch the sail")] {
        assert!(fixture.words(place, who, &format!("remind in 2h {text}")).await.contains("is set for"));
    }
    fixture.chat_commands.deps.store.settle().await.unwrap();
    let export = fixture.words(GROUP, ann(), "export").await;
    assert!(
        export.contains("1 reminder") && export.contains("ficus") && !export.contains("sail"),
        "{export}"
    );
    let asked = fixture.run(GROUP, ann(), "forgetme").await;
    assert!(asked.private && asked.words.contains("/forgetme yes") && asked.words.contains("2 memories"));
    assert!(fixture.words(GROUP, ann(), "memory").await.contains("tea"), "not before it is confirmed");
    assert!(
        fixture
            .words(GROUP, ann(), "forgetme yes")
            .await
            .contains("2 memories forgotten, 1 reminder cancelled")
    );
    assert!(fixture.words(PRIVATE, ann(), "reminders").await.contains("No reminder"));
    assert!(fixture.words(GROUP, bob(), "reminders").await.contains("sail"));
    let left = fixture.words(GROUP, ann(), "memory").await;
    assert!(left.contains("coffee") && !left.contains("tea"), "{left}");
    assert!(fixture.words(PRIVATE, ann(), "memory").await.contains("Nothing is remembered"));
}

#[tokio::test]
async fn nobody_gets_at_the_memories_of_another_by_taking_their_name() {
    let fixture = fixture("").await;
    fixture.say(GROUP, bob(), "hello").await;
    let about_bob = MemorySave {
        agent: "main".into(),
        scope: Scope::learnt_in(&GROUP.parse().unwrap(), None),
        kind: MemoryKind::Fact,
        text: "Bob keeps bees.".to_owned(),
        subject: Some("Bob".to_owned()),
        importance: 0.5,
        source: Source {
            channel: None,
            from_seq: None,
            to_seq: None,
            summary: None,
            model: "m".to_owned(),
            by: None,
            said_at: None,
            told_by: None,
        },
        sighting: "s".to_owned(),
        explicit: false,
        replaces: Replaces::default(),
    };
    fixture.chat_commands.journal(vec![Event::Memory(MemoryEvent::Saved(about_bob))]).await.unwrap();
    let taken = Author { name: "Bob".to_owned(), ..ann() };
    assert!(!fixture.words(GROUP, taken, "export").await.contains("bees"));
    assert!(fixture.words(GROUP, bob(), "export").await.contains("bees"));
}

#[tokio::test]
async fn the_last_turn_is_taken_back_and_an_idle_bot_has_nothing_to_stop() {
    let fixture = fixture("").await;
    fixture.say(PRIVATE, ann(), "the harbour office closes at noon").await;
    assert!(fixture.words(PRIVATE, ann(), "stop").await.contains("not answering"));
    assert!(fixture.words(PRIVATE, ann(), "compact").await.contains("nothing to compact"));
    let undone = fixture.words(PRIVATE, ann(), "undo").await;
    assert!(
        undone.contains("taken back") && undone.ends_with("> the harbour office closes at noon"),
        "{undone}"
    );
    assert!(fixture.words(PRIVATE, ann(), "undo").await.contains("I took nothing back"));
}

#[tokio::test]
async fn an_instruction_without_end_is_refused_with_the_limit() {
    let fixture = fixture("").await;
    fixture.say(PRIVATE, ann(), "the harbour office closes at noon").await;
    let words = fixture.words(PRIVATE, ann(), &format!("compact {}", "x".repeat(5_000))).await;
    assert!(words.contains("5000 characters, 4000 at most"), "{words}");
}

#[tokio::test]
async fn in_a_group_an_instruction_for_a_compaction_is_for_operators() {
    let fixture = fixture("").await;
    fixture.say(GROUP, ann(), "the harbour office closes at noon").await;
    let words = fixture.words(GROUP, ann(), "compact say that Ben owes me money").await;
    assert!(words.contains("only operators") && words.contains("alone works"), "{words}");
    assert!(fixture.words(GROUP, ann(), "compact").await.contains("nothing to compact"));
}

#[tokio::test]
async fn a_sliding_window_is_made_smaller_at_once() {
    let fixture = fixture("[defaults]\nengine = \"sliding\"\n").await;
    for n in 0..12 {
        fixture
            .say(PRIVATE, ann(), &format!("number {n} {}", "the harbour office closes at noon ".repeat(200)))
            .await;
    }
    let words = fixture.words(PRIVATE, ann(), "compact").await;
    assert!(words.contains("left my window") && words.contains("can be searched"), "{words}");
}

#[tokio::test]
async fn commands_that_read_what_is_stored_count_like_messages_and_run_one_at_a_time() {
    let fixture = fixture("[limits]\nuser_messages_per_hour = 4\n").await;
    fixture.say(GROUP, ann(), "hello").await;
    let (export, memory) =
        futures::join!(fixture.run(GROUP, ann(), "export"), fixture.run(PRIVATE, ann(), "memory"));
    assert!(!export.failed && export.words.contains("1 message in this conversation"), "{export:?}");
    assert!(
        memory.failed && memory.private && memory.words.contains("still working on your last"),
        "{memory:?}"
    );
    for words in ["memory", "forgetme"] {
        assert!(!fixture.run(PRIVATE, ann(), words).await.failed, "{words}");
    }
    for words in ["export", "forgetme", "memory", "memory tea", "remember tea", "forget tea"] {
        let answer = fixture.run(PRIVATE, ann(), words).await;
        assert!(answer.failed && answer.words.contains("many messages within an hour"), "{answer:?}");
    }
    assert!(!fixture.run(GROUP, ann(), "status").await.failed, "it reads nothing of that");
    assert!(!fixture.run(GROUP, bob(), "export").await.failed, "each person counts alone");
}

#[tokio::test]
async fn of_many_memories_the_newest_ten_are_shown() {
    let fixture = fixture("").await;
    for n in 0..12 {
        fixture.words(PRIVATE, ann(), &format!("remember fact {n:02}")).await;
    }
    let words = fixture.words(PRIVATE, ann(), "memory").await;
    let shown: Vec<&str> = words.split("fact ").skip(1).map(|rest| &rest[..2]).collect();
    assert_eq!(shown, ["11", "10", "09", "08", "07", "06", "05", "04", "03", "02"], "{words}");
    assert!(words.contains("newest 10 memories") && words.contains("`/memory QUERY`"), "{words}");
}

#[tokio::test]
async fn what_somebody_may_not_do_is_not_journalled() {
    let config = "[commands]\nstatus = \"nobody\"\n[limits]\nuser_messages_per_hour = 1\n";
    let fixture = fixture(config).await;
    fixture.say(GROUP, ann(), "hello").await;
    let before = fixture.store.last_record();
    for words in [
        "new",
        "undo",
        "forget tea",
        "ban 8",
        "pair",
        "status",
        "compact say so",
        "approve",
        "deny a1",
        "export",
    ] {
        let answer = fixture.run(GROUP, ann(), words).await;
        assert!(answer.failed, "{words}: {answer:?}");
        assert_eq!(fixture.store.last_record(), before, "{words} is journalled");
    }
    assert!(!fixture.run(GROUP, ann(), "help").await.failed);
    assert_eq!(fixture.store.last_record(), before + 1);
}
