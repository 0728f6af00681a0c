//! Context engines in the runtime: one without runs gets none, and each is told when its channel wakes and sleeps.

use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::Decision;
use cairn_core::conversation::Conversation;
use cairn_core::engine::{ContextEngine, EngineInfo, MakeRoom, SLIDING, Sliding};
use cairn_core::store_port::Store as _;
use cairn_core::window::{AssembleError, Assembled, Tail};
use cairn_types::event::{CompactionEvent, Event, Record, RunOutcome};
use cairn_types::ports::Query;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::common::model::Kind;
use super::common::*;
use crate::{Compaction, RuntimeError};

fn is_slide(event: &Event) -> bool {
    matches!(event, Event::Compaction(CompactionEvent::WindowSlid { .. }))
}

fn sliding() -> World {
    let mut world = World::new();
    world.settings.engine = SLIDING.to_owned();
    world
}

#[tokio::test(start_paused = true)]
async fn the_window_slides_without_any_run_and_every_word_is_found() {
    let world = sliding();
    let mut live = world.start().await;
    for n in 0..60 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
        settle().await;
    }
    assert!(world.store.count(is_slide) >= 2);
    live.notice(|notice| (notice.name() == "window_slid").then_some(())).await;
    assert_eq!(world.store.count(is_run_started) + world.store.count(is_emergency), 0);
    assert_eq!(world.model.requests(Kind::Run).len(), 0, "a model was called for it");
    let conversation = world.conversation();
    check_coverage(&conversation);
    assert_eq!(conversation.stack.items().len(), 1);
    assert_eq!(world.store.history(&local()).len(), 120);
    let query = Query { channel: Some(local()), text: "number 3:".to_owned(), limit: 10, ..Query::default() };
    assert!(!world.store.search(query).await.unwrap().is_empty(), "what has left is not found");
}

#[tokio::test(start_paused = true)]
async fn compacting_makes_room_at_once_and_tells_how_much() {
    let world = sliding();
    let live = world.start().await;
    for n in 0..10 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    let Ok(Compaction::Made(made)) = live.runtime.compact(&local(), None, false).await else {
        panic!("no room was made");
    };
    assert!(made.messages > 0 && made.tokens_after < made.tokens_before, "{made:?}");
    let again = live.runtime.compact(&local(), None, false).await;
    assert!(matches!(again, Ok(Compaction::Nothing(_))), "only the last turn is left");
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn an_instruction_without_end_is_refused() {
    let (_world, live) = started().await;
    live.ask("a", "hello").await;
    let long = "x".repeat(1_000_000);
    let refused = live.runtime.compact(&local(), Some(long), false).await.err();
    assert_eq!(
        refused,
        Some(RuntimeError::Instruction(cairn_core::settings::InstructionTooLong { chars: 1_000_000 }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_another_engine_left_ends_as_cancelled() {
    let mut world = World::new();
    world.settings.compaction.timeout_secs = 1_000_000;
    let live = world.start().await;
    let _gate = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    world.model.until(1, Kind::Run).await;
    let mut later = world.killed();
    later.settings.engine = SLIDING.to_owned();
    let live = later.start().await;
    later.store.until(1, is_run_ended).await;
    live.ask("on", "and on").await;
    settle().await;
    let conversation = later.conversation();
    assert_eq!(conversation.outcomes.back().unwrap().outcome, RunOutcome::Cancelled);
    assert_eq!(later.model.requests(Kind::Run).len(), 0);
    assert!(!conversation.is_unfinished());
    check_coverage(&conversation);
}

/// Sliding, with a diary of what it is told and asked.
struct Diary(Arc<Mutex<Vec<&'static str>>>);

impl Diary {
    fn write(&self, what: &'static str) {
        let mut lines = self.0.lock();
        if lines.last() != Some(&what) {
            lines.push(what);
        }
    }
}

impl ContextEngine for Diary {
    fn info(&self) -> EngineInfo {
        Sliding.info()
    }

    fn bootstrap(&self, _conversation: &Conversation) {
        self.write("bootstrap");
    }

    fn ingest(&self, conversation: &Conversation, record: &Record) {
        assert!(conversation.last_n >= record.n, "told before it was folded in");
        self.write("ingest");
    }

    fn assemble(
        &self,
        conversation: &Conversation,
        agent: &AgentSettings,
        tail: &Tail,
    ) -> Result<Assembled, AssembleError> {
        Sliding.assemble(conversation, agent, tail)
    }

    fn compact(
        &self,
        c: &Conversation,
        agent: &AgentSettings,
        cause: MakeRoom,
        now: Timestamp,
    ) -> Vec<Event> {
        Sliding.compact(c, agent, cause, now)
    }

    fn after_turn(&self, _conversation: &Conversation, _agent: &AgentSettings, _now: Timestamp) -> Decision {
        assert_ne!(self.0.lock().last(), Some(&"dispose"), "asked after its end");
        Decision::Idle
    }

    fn reset(&self, conversation: &Conversation) {
        assert!(conversation.live.is_empty());
        self.write("reset");
    }

    fn dispose(&self) {
        self.write("dispose");
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_is_told_of_waking_of_new_conversations_and_of_its_end() {
    let mut world = World::new();
    let diary = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&diary);
    world.engine = Some(Arc::new(move || Arc::new(Diary(Arc::clone(&lines)))));
    let live = world.start().await;
    live.ask("a", "hello").await;
    live.runtime.new_generation(&local()).await.unwrap();
    live.ask("b", "hello again").await;
    tokio::time::sleep(world.limits.idle_after * 2).await;
    assert!(live.runtime.awake().is_empty());
    let told = ["bootstrap", "ingest", "reset", "ingest", "dispose"];
    assert_eq!(*diary.lock(), told);
    live.ask("c", "are you there?").await;
    live.runtime.shutdown(std::time::Duration::from_secs(1)).await;
    assert_eq!(diary.lock()[told.len()..], ["bootstrap", "ingest", "dispose"]);
}
