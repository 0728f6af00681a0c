//! The runtime over fakes of all ports, with tokio's clock paused.

pub(crate) mod model;
pub(crate) mod net;
pub(crate) mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use crate::{AgentRuntime, EngineMaker, ModelCandidate, Runtime, RuntimeDeps, RuntimeEvent, all_tools};
use cairn_core::agent::{AgentSettings, RuntimeLimits, WindowSize, WindowSource};
use cairn_core::builtin_tools::builtin_tools;
use cairn_core::conversation::Conversation;
use cairn_core::limits::TalkLimits;
use cairn_core::settings::CompactionSettings;
use cairn_types::event::{CompactionEvent, DeliveryEvent, Event, RunEnd, TurnEvent};
use cairn_types::ids::{AgentId, ChannelId, MessageId, Seq};
use cairn_types::message::{Author, Inbound, Part};
use cairn_types::model::{ModelError, RefusalCause};
use cairn_types::ports::{Admission, Answer, Clock, Intake as _, Progress, Refusal, Tool};
use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::broadcast;
use tokio::time::Instant;

use model::{FakeModel, Kind, words};
use net::{Act, FakeNet};
use store::MemStore;

/// A clock that goes with tokio's, is as many seconds off as it was set, and panics once when its bomb is lit.
struct TokioClock(Instant, Arc<AtomicBool>, Arc<AtomicI64>);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        assert!(!self.1.swap(false, Ordering::SeqCst), "planned");
        let base = Timestamp::from_second(1_767_225_600).unwrap();
        let off = SignedDuration::from_secs(self.2.load(Ordering::SeqCst));
        base + SignedDuration::try_from(self.0.elapsed()).unwrap() + off
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<MemStore>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) model: Arc<FakeModel>,
    /// Further models of the chain, with the settings on them.
    pub(crate) others: Vec<(AgentSettings, Arc<FakeModel>)>,
    /// A model of its own for runs, with its window and its reserve.
    pub(crate) compactor: Option<(Arc<FakeModel>, u64, u64)>,
    pub(crate) net: Arc<FakeNet>,
    pub(crate) settings: AgentSettings,
    pub(crate) limits: RuntimeLimits,
    pub(crate) talk: TalkLimits,
    pub(crate) clean_stop: bool,
    /// A context engine of the test's own.
    pub(crate) engine: Option<EngineMaker>,
    /// Lit: whoever reads the clock next panics.
    pub(crate) bomb: Arc<AtomicBool>,
    /// Seconds by which the clock is off: setting it is a jump.
    pub(crate) off: Arc<AtomicI64>,
}

pub(crate) const WINDOW: u64 = 3_000;

impl World {
    pub(crate) fn new() -> Self {
        let settings = AgentSettings {
            id: AgentId::from("main"),
            system_prompt: "You are a helpful friend.".to_owned(),
            compactor_prompt: "Summarise the transcript.".to_owned(),
            window: WindowSize {
                window_tokens: WINDOW,
                output_reserve_tokens: 500,
                source: WindowSource::Agent,
            },
            growth: None,
            compaction: CompactionSettings::default(),
            pruning: cairn_core::settings::PruningSettings::default(),
            result_guard: cairn_core::settings::ResultGuardSettings::default(),
            window_guard: cairn_core::settings::WindowGuard::default(),
            engine: cairn_core::engine::STANDARD.to_owned(),
            cache_ttl_secs: 300,
            model: "fake".to_owned(),
            tools: Default::default(),
            recall_limit: 0,
            quote_tokens: 0,
            memory: cairn_core::settings::MemorySettings::default(),
            trust: cairn_core::trust::TrustSettings::default(),
            mid_turn_messages: true,
            max_rounds: 8,
            timezone: "UTC".to_owned(),
            languages: cairn_types::texts::Languages::default(),
        };
        Self {
            store: MemStore::new(),
            tools: Default::default(),
            model: FakeModel::new(),
            others: Vec::new(),
            compactor: None,
            net: FakeNet::new(),
            settings,
            limits: RuntimeLimits::default(),
            talk: TalkLimits::default(),
            clean_stop: true,
            engine: None,
            bomb: Arc::default(),
            off: Arc::default(),
        }
    }

    pub(crate) fn with_tools(mut self) -> Self {
        self.settings.tools = builtin_tools().into();
        self.settings.window.window_tokens += 900;
        self
    }

    /// Offers the built-in tools and these.
    pub(crate) fn with_more_tools(mut self, tools: Vec<Arc<dyn Tool>>) -> Self {
        self = self.with_tools();
        self.settings.tools = all_tools(&tools).unwrap().into();
        self.tools = tools;
        self
    }

    /// One more model at the end of the chain, with the settings of the first but for what `change` says.
    pub(crate) fn followed_by(mut self, id: &str, change: impl FnOnce(&mut AgentSettings)) -> Self {
        let mut settings = AgentSettings { model: id.to_owned(), ..self.settings.clone() };
        change(&mut settings);
        self.others.push((settings, FakeModel::named(id)));
        self
    }

    pub(crate) async fn start(&self) -> Live {
        let candidate = |settings: &AgentSettings, model: &Arc<FakeModel>| ModelCandidate {
            settings: Arc::new(settings.clone()),
            model: Arc::clone(model) as Arc<dyn cairn_types::ports::ChatModel>,
        };
        let others = self.others.iter().map(|(settings, model)| candidate(settings, model));
        let compactor = self.compactor.as_ref().map(|(model, window_tokens, output_reserve_tokens)| {
            let (window_tokens, output_reserve_tokens) = (*window_tokens, *output_reserve_tokens);
            let window = WindowSize { window_tokens, output_reserve_tokens, source: WindowSource::Model };
            let id = cairn_types::ports::ChatModel::info(model.as_ref()).id.clone();
            candidate(&AgentSettings { window, model: id, ..self.settings.clone() }, model)
        });
        let mut agent = AgentRuntime::new(candidate(&self.settings, &self.model))
            .followed_by(others)
            .summarised_by(compactor);
        if let Some(maker) = &self.engine {
            agent = agent.with_engine(Arc::clone(maker));
        }
        let deps = RuntimeDeps {
            store: Arc::clone(&self.store) as _,
            tools: Arc::new(self.tools.clone()),
            arguments: Arc::new(AnyArguments),
            clock: Arc::new(TokioClock(Instant::now(), Arc::clone(&self.bomb), Arc::clone(&self.off))),
            agents: vec![agent],
            platforms: vec![Arc::clone(&self.net) as _],
            speaker: None,
            limits: self.limits.clone(),
            talk: self.talk.clone(),
            prices: std::collections::BTreeMap::new(),
            usage_day: cairn_core::registry::UsageDay::default(),
            clean_stop: self.clean_stop,
        };
        let runtime = Runtime::start(deps).await.unwrap();
        Live { notices: runtime.notices(), runtime }
    }

    /// The daemon is killed now; the next start finds the journal as it is.
    pub(crate) fn killed(&self) -> Self {
        self.over(self.store.after_kill())
    }

    pub(crate) fn over(&self, store: Arc<MemStore>) -> Self {
        Self {
            store,
            tools: self.tools.clone(),
            model: FakeModel::new(),
            others: self.others.clone(),
            compactor: self.compactor.as_ref().map(|(model, window, reserve)| {
                let id = cairn_types::ports::ChatModel::info(model.as_ref()).id.clone();
                (FakeModel::named(&id), *window, *reserve)
            }),
            net: Arc::clone(&self.net),
            settings: self.settings.clone(),
            limits: self.limits.clone(),
            talk: self.talk.clone(),
            clean_stop: false,
            engine: self.engine.clone(),
            bomb: Arc::default(),
            off: Arc::clone(&self.off),
        }
    }

    pub(crate) fn conversation(&self) -> Conversation {
        self.store.conversation(&local()).unwrap()
    }
}

/// A world as [`World::new`] makes it, and a runtime in it.
pub(crate) async fn started() -> (World, Live) {
    let world = World::new();
    let live = world.start().await;
    (world, live)
}

pub(crate) struct Live {
    pub(crate) runtime: Runtime,
    notices: broadcast::Receiver<RuntimeEvent>,
}

impl Live {
    pub(crate) async fn submit(&self, inbound: Inbound) -> Result<Admission, Refusal> {
        self.runtime.submit(inbound).await
    }

    /// Says something in the local channel; the answer is awaited by whoever wants it.
    pub(crate) async fn say(&self, id: &str, text: &str) -> Admission {
        self.submit(message(&local(), id, text)).await.unwrap()
    }

    /// Says something and waits for the reply.
    pub(crate) async fn ask(&self, id: &str, text: &str) -> String {
        reply(self.say(id, text).await).await
    }

    /// As [`Live::say`], in the chat of the group.
    pub(crate) async fn say_in_group(&self, id: &str, text: &str) -> Admission {
        self.submit(message(&group(), id, text)).await.unwrap()
    }

    /// As [`Live::ask`], in the chat of the group.
    pub(crate) async fn ask_in_group(&self, id: &str, text: &str) -> String {
        reply(self.say_in_group(id, text).await).await
    }

    /// Chatters until a run has started, and returns how many messages that took.
    pub(crate) async fn fill_until_run(&self, world: &World) -> usize {
        let before = world.store.count(is_run_started);
        for n in 0..200 {
            self.ask(&format!("fill-{before}-{n}"), &chatter(n)).await;
            settle().await;
            if world.store.count(is_run_started) > before {
                return n + 1;
            }
        }
        panic!("no run after 200 messages");
    }

    pub(crate) async fn notice<T>(&mut self, pick: impl Fn(&RuntimeEvent) -> Option<T>) -> T {
        loop {
            if let Some(found) = pick(&self.notices.recv().await.unwrap()) {
                return found;
            }
        }
    }

    pub(crate) async fn snapshot(&self) -> Arc<Conversation> {
        self.runtime.conversation(&local()).await.unwrap().unwrap().0
    }
}

/// Lets everything run that can: under a paused clock this returns only when all tasks wait for something.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

pub(crate) fn local() -> ChannelId {
    "main/local/main".parse().unwrap()
}

pub(crate) fn group() -> ChannelId {
    "main/net/group".parse().unwrap()
}

pub(crate) fn chatter(n: usize) -> String {
    format!(
        "number {n}: the weather by the lake was fine again and we walked for a long while in the evening sun"
    )
}

pub(crate) fn message(channel: &ChannelId, id: &str, text: &str) -> Inbound {
    Inbound {
        channel: channel.clone(),
        message: MessageId::from(id),
        author: Author { id: "local/ann".to_owned(), name: "Ann".to_owned() },
        at: Timestamp::from_second(1_767_225_600).unwrap(),
        parts: vec![Part::text(text)],
        addressed: true,
        direct: false,
        chat_name: None,
        language: None,
        reply_to: None,
        provenance: cairn_types::message::Provenance::default(),
        spoken: false,
        recordings: Vec::new(),
        gather: cairn_types::message::Gather::default(),
    }
}

pub(crate) async fn answer(admission: Admission) -> Answer {
    let end = admission.progress.filter_map(|progress| async move {
        match progress {
            Progress::Ended(answer) => Some(answer),
            Progress::Delta(_)
            | Progress::Restarted
            | Progress::Tool { .. }
            | Progress::ClientCalls { .. }
            | Progress::Approval(_)
            | Progress::Waiting(_) => None,
        }
    });
    let waited = tokio::time::timeout(store::PATIENCE, Box::pin(end).next()).await;
    waited.expect("it is never answered").expect("a stream ends with an answer")
}

#[track_caller]
pub(crate) fn words_of(answer: Answer) -> String {
    match answer {
        Answer::Reply(reply) => reply.reply,
        Answer::Failed(failure) => panic!("the turn failed: {failure:?}"),
    }
}

pub(crate) async fn reply(admission: Admission) -> String {
    words_of(answer(admission).await)
}

pub(crate) async fn failure_code(admission: Admission) -> String {
    match answer(admission).await {
        Answer::Failed(failure) => failure.code,
        Answer::Reply(reply) => panic!("it was answered: {reply:?}"),
    }
}

pub(crate) fn is_run_started(event: &Event) -> bool {
    matches!(event, Event::Compaction(CompactionEvent::RunStarted { .. }))
}

pub(crate) fn is_run_ended(event: &Event) -> bool {
    matches!(event, Event::Compaction(CompactionEvent::RunEnded(_)))
}

pub(crate) fn is_turn_ended(event: &Event) -> bool {
    matches!(event, Event::Turn(TurnEvent::Ended(_)))
}

pub(crate) fn is_settled(event: &Event) -> bool {
    matches!(event, Event::Delivery(DeliveryEvent::Settled { .. }))
}

pub(crate) fn is_sent(act: &Act) -> bool {
    matches!(act, Act::Sent { .. })
}

pub(crate) fn is_edited(act: &Act) -> bool {
    matches!(act, Act::Edited { .. })
}

pub(crate) fn no_such_model() -> ModelError {
    ModelError::BadRequest { message: "HTTP 404: no".to_owned(), cause: RefusalCause::Address }
}

pub(crate) fn overloaded() -> ModelError {
    ModelError::Overloaded { message: "busy".to_owned(), retry_after: None }
}

/// The words of the last request for a reply.
pub(crate) fn last_request(world: &World) -> String {
    words(world.model.requests(Kind::Reply).last().unwrap())
}

/// How the runs so far have ended.
pub(crate) fn ends(world: &World) -> Vec<RunEnd> {
    let ends = world.store.events().into_iter().filter_map(|event| match event {
        Event::Compaction(CompactionEvent::RunEnded(end)) => Some(end),
        _ => None,
    });
    ends.collect()
}

pub(crate) fn is_emergency(event: &Event) -> bool {
    matches!(event, Event::Compaction(CompactionEvent::EmergencyApplied { .. }))
}

/// Every number of the generation is in exactly one place, in order.
#[track_caller]
pub(crate) fn check_coverage(conversation: &Conversation) {
    let mut next = conversation.first_seq;
    for item in conversation.stack.items() {
        let (from, to) = item.range();
        assert_eq!(from, next, "the stack has a gap or an overlap");
        next = Seq(to.0 + 1);
    }
    for entry in &conversation.live {
        assert_eq!(entry.seq, next, "the live history has a gap or an overlap");
        next = Seq(next.0 + 1);
    }
    assert_eq!(next, conversation.next_seq);
}

/// Takes any arguments: what is checked is tested where the checks are.
pub(crate) struct AnyArguments;

impl cairn_types::ports::ArgumentCheck for AnyArguments {
    fn check(
        &self,
        _def: &cairn_types::tool::defs::ToolDef,
        _arguments: &serde_json::Value,
    ) -> Result<(), String> {
        Ok(())
    }
}
