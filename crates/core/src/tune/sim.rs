//! The replay: the runtime's own decisions over entries that have a size and no words.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};

use super::billing::{Billing, Block, PrefixCache};
use super::retention::SpokenTokens;
use super::script::{ConversationSizes, Runs, ScriptTurn, TuneStep};
use crate::agent::AgentSettings;
use crate::compaction::{Decision, SummaryDraft, commit};
use crate::conversation::Conversation;
use crate::digest;
use crate::engine::{ContextEngine, MakeRoom, by_name};
use crate::summary::StackSizes;
use crate::window::{leaves_room, measure, system_tokens};
use cairn_types::event::{
    CompactionEvent, Event, MemoryEvent, MessageEvent, Record, Run, RunWork, TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ChannelId, Generation, MessageId, Seq};
use cairn_types::message::{Author, Entry, Part, Pending, Role, ToolCall};
use cairn_types::model::Usage;
use cairn_types::summary::{DigestLine, Marker, StackItem};
use cairn_types::tier::Tier;
use cairn_types::tokens::estimate;
use cairn_types::tool::defs::ToolDefs;

/// Tokens of a result in a run's transcript, at most: tool mechanics are cut short there.
const RESULT_IN_TRANSCRIPT: u64 = 110;

/// Tokens of a recalled memory, and of the clock that stands before them.
const RECALLED_TOKENS: usize = 30;
const CLOCK_TOKENS: usize = 48;

/// Tokens of a line of a digest.
const DIGEST_LINE: u64 = 30;

/// Looks at what is due that a turn has at most: no settings may make a replay endless.
const LOOKS_MAX: u32 = 64;

/// Why a conversation cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    #[error("system prompt and tools take {frame} of {usable} usable tokens: no room for a conversation")]
    NoRoom { frame: u64, usable: u64 },
    /// There is no such context engine.
    #[error("there is no context engine `{0}`")]
    NoEngine(String),
    /// The decisions contradict the fold: a fault of the program.
    #[error("the replay does not fit itself, please report it: {0}")]
    Unfit(String),
}

/// What became of a replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TuneOutcome {
    pub turns: usize,
    /// Requests for replies.
    pub requests: usize,
    /// Tokens of the largest of them.
    pub max_tokens: u64,
    pub compactions: usize,
    pub merges: usize,
    pub emergencies: usize,
    pub prunings: usize,
    /// Tokens of all replies' requests, as they fit, and of the answers.
    pub replies: Usage,
    /// Tokens of it all, runs included, that a plain price would have bought.
    pub billed: f64,
    pub billed_runs: f64,
    /// Mean over the turns of what the window retains, 0 to 1.
    pub retention: f64,
    /// Highest level that a summary reached: times that a text was rewritten, less one.
    pub highest_level: Option<u32>,
    /// Tokens of all requests for replies.
    pub tokens: u64,
}

impl TuneOutcome {
    /// Mean tokens of a request.
    pub fn mean_tokens(&self) -> f64 {
        self.tokens as f64 / self.requests.max(1) as f64
    }

    /// Share of the replies' requests that came from the cache, 0 to 1.
    pub fn cached_share(&self) -> f64 {
        self.replies.cached_tokens as f64 / self.replies.input_tokens.max(1) as f64
    }

    /// Billed-equivalent tokens of a turn, runs included.
    pub fn billed_per_turn(&self) -> f64 {
        self.billed / self.turns.max(1) as f64
    }
}

/// Few characters weigh more, so that little is scanned.
const HEAVY: &str = "\u{1f642}";

/// As many bytes for a token as most results of tools.
const PLAIN: &str = "abc ";

static HEAVY_TOKENS: LazyLock<f64> = LazyLock::new(|| tokens_of(HEAVY));
static PLAIN_TOKENS: LazyLock<f64> = LazyLock::new(|| tokens_of(PLAIN));

fn tokens_of(unit: &str) -> f64 {
    f64::from(estimate(&unit.repeat(1_000))) / 1_000.0
}

/// A text of about so many tokens, as short as can be.
fn short_text(tokens: u64) -> String {
    HEAVY.repeat((tokens as f64 / *HEAVY_TOKENS).floor().max(1.0) as usize)
}

/// A text of about so many tokens, with as many bytes as a tool's result of that size.
fn result_text(tokens: u32) -> String {
    PLAIN.repeat((f64::from(tokens) / *PLAIN_TOKENS).round().max(1.0) as usize)
}

/// Tokens of system prompt and tools.
pub(super) fn frame_tokens(agent: &AgentSettings) -> u64 {
    system_tokens(agent) + agent.tools.tokens()
}

/// Replays a conversation's sizes under those settings, with runs that go as `runs` says.
///
/// # Errors
/// The settings cannot work at all.
pub fn simulate(
    script: &ConversationSizes,
    agent: &AgentSettings,
    billing: &Billing,
    runs: &Runs,
) -> Result<TuneOutcome, SimError> {
    let frame = frame_tokens(agent);
    let usable = agent.window.usable_tokens();
    if !leaves_room(frame, usable) {
        return Err(SimError::NoRoom { frame, usable });
    }
    let mut sim = Sim::new(agent, billing, *runs)?;
    for turn in script.turns() {
        sim.turn(turn)?;
    }
    sim.outcome.turns = script.turns().len();
    sim.outcome.retention /= sim.outcome.turns.max(1) as f64;
    Ok(sim.outcome)
}

struct Sim<'a> {
    agent: AgentSettings,
    billing: &'a Billing,
    runs: Runs,
    engine: std::sync::Arc<dyn ContextEngine>,
    conversation: Conversation,
    cache: PrefixCache,
    spoken: SpokenTokens,
    now: Timestamp,
    /// When the run under way will be done.
    done_at: Option<Timestamp>,
    look_at: Option<Timestamp>,
    n_calls: u64,
    /// The last block of the request before this one that lasts.
    asked: u64,
    outcome: TuneOutcome,
}

impl<'a> Sim<'a> {
    fn new(agent: &AgentSettings, billing: &'a Billing, runs: Runs) -> Result<Self, SimError> {
        let engine = by_name(&agent.engine).ok_or_else(|| SimError::NoEngine(agent.engine.clone()))?;
        let unfit = |error: &dyn std::fmt::Display| SimError::Unfit(error.to_string());
        let channel = ChannelId::local(&agent.id, "tune").map_err(|error| unfit(&error))?;
        // Weighed at every look: the same size in few characters.
        let frame = short_text(frame_tokens(agent));
        let agent = AgentSettings {
            system_prompt: frame,
            tools: ToolDefs::default(),
            cache_ttl_secs: billing.ttl_secs,
            ..agent.clone()
        };
        let mut sim = Self {
            engine,
            billing,
            runs,
            conversation: Conversation::new(channel),
            cache: PrefixCache::new(billing),
            spoken: SpokenTokens::from(Seq(1)),
            now: Timestamp::MIN,
            done_at: None,
            look_at: None,
            n_calls: 0,
            asked: 0,
            outcome: TuneOutcome::default(),
            agent,
        };
        sim.engine.bootstrap(&sim.conversation);
        let tokens =
            (CLOCK_TOKENS + RECALLED_TOKENS * sim.agent.recall_limit) as u32 + sim.agent.quote_tokens;
        sim.journal(Event::Memory(MemoryEvent::Recalled {
            ids: Vec::new(),
            tokens,
            scores: Vec::new(),
            near: Vec::new(),
            quotes: Vec::new(),
        }))?;
        Ok(sim)
    }

    fn journal(&mut self, event: Event) -> Result<(), SimError> {
        let record = Record { n: self.conversation.last_n + 1, at: self.now, channel: None, event };
        self.conversation.apply(&record).map_err(|error| SimError::Unfit(error.to_string()))?;
        self.engine.ingest(&self.conversation, &record);
        Ok(())
    }

    fn turn(&mut self, turn: &ScriptTurn) -> Result<(), SimError> {
        self.pass_until(turn.at)?;
        if turn.generation != self.conversation.generation.0 {
            self.new_generation(turn.generation)?;
        }
        self.begin(turn)?;
        for step in &turn.steps {
            match step {
                TuneStep::Message { .. } => {}
                TuneStep::Call { tokens, results } => {
                    self.ask(*tokens)?;
                    self.call(*tokens, results)?;
                }
                TuneStep::Answer { tokens } => {
                    self.ask(*tokens)?;
                    let entry = self.entry(Role::Assistant, *tokens);
                    self.add(entry)?;
                }
            }
        }
        self.end()?;
        self.look()?;
        self.outcome.retention += self.spoken.retention(&self.conversation);
        Ok(())
    }

    /// Lets time go by: a run that is done meanwhile is committed, and what comes due then begins.
    fn pass_until(&mut self, at: Timestamp) -> Result<(), SimError> {
        for _ in 0..LOOKS_MAX {
            let next = [self.done_at, self.look_at].into_iter().flatten().min().filter(|next| *next < at);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            if self.done_at.is_some_and(|done| done <= self.now) {
                self.commit()?;
            }
            self.look()?;
        }
        self.now = self.now.max(at);
        Ok(())
    }

    fn new_generation(&mut self, generation: u32) -> Result<(), SimError> {
        (self.done_at, self.look_at) = (None, None);
        self.spoken = SpokenTokens::from(self.conversation.next_seq);
        let tokens = self.conversation.recalled_tokens;
        if self.conversation.next_seq > Seq(1) {
            self.engine.reset(&self.conversation);
        }
        self.journal(Event::Turn(TurnEvent::SessionStarted { generation: Generation(generation) }))?;
        self.journal(Event::Memory(MemoryEvent::Recalled {
            ids: Vec::new(),
            tokens,
            scores: Vec::new(),
            near: Vec::new(),
            quotes: Vec::new(),
        }))
    }

    fn begin(&mut self, turn: &ScriptTurn) -> Result<(), SimError> {
        let id = self.conversation.next_turn();
        let first_seq = self.conversation.next_seq;
        let mut messages = Vec::new();
        for step in &turn.steps {
            let TuneStep::Message { tokens } = step else { continue };
            let message = MessageId::from(format!("m{}", self.conversation.accepted + 1));
            messages.push(message.clone());
            self.spoken.push(*tokens);
            self.journal(Event::Message(MessageEvent::Accepted(Pending {
                message,
                turn: id.clone(),
                at: self.now,
                author: Author { id: "local/tune".to_owned(), name: "tune".to_owned() },
                parts: Vec::new(),
                addressed: true,
                direct: false,
                chat_name: None,
                language: None,
                provenance: cairn_types::message::Provenance::default(),
                spoken: false,
                reminder: None,
                fingerprint: String::new(),
                tokens: *tokens,
            })))?;
        }
        self.journal(Event::Turn(TurnEvent::Started { turn: id, messages, first_seq }))
    }

    fn end(&mut self) -> Result<(), SimError> {
        let Some(open) = self.conversation.open_turn.as_ref() else { return Ok(()) };
        let reply = Seq(self.conversation.next_seq.0.saturating_sub(1));
        let (turn, outcome) = (open.id.clone(), TurnOutcome::Answered { reply });
        let (model, usage, recalled) = (None, Usage::default(), Vec::new());
        self.journal(Event::Turn(TurnEvent::Ended(TurnEnd { turn, outcome, model, usage, recalled })))
    }

    /// A model call: room is made, the request is billed.
    fn ask(&mut self, output_tokens: u32) -> Result<(), SimError> {
        let mut gauge = measure(&self.conversation, &self.agent);
        if gauge.tier == Tier::Emergency && self.make_room()? {
            gauge = measure(&self.conversation, &self.agent);
        }
        let request = self.request();
        let mut usage = self.cache.take(&request, self.now);
        usage.output_tokens = u64::from(output_tokens);
        self.outcome.replies += usage;
        self.outcome.billed += self.billing.billed(usage);
        // Whatever is larger is cut to fit.
        let tokens = gauge.tokens.min(self.agent.window.usable_tokens());
        self.outcome.requests += 1;
        self.outcome.tokens += tokens;
        self.outcome.max_tokens = self.outcome.max_tokens.max(tokens);
        let model = self.agent.model.clone();
        self.journal(Event::Turn(TurnEvent::UsageReported {
            model,
            estimated: usage.input_tokens,
            usage,
            disbelieved: None,
            is_estimate: false,
            set_window: None,
            caused_by: BTreeSet::new(),
            trace: None,
        }))
    }

    fn make_room(&mut self) -> Result<bool, SimError> {
        let events = self.engine.compact(&self.conversation, &self.agent, MakeRoom::Tier, self.now);
        if events.is_empty() {
            return Ok(false);
        }
        for event in events {
            self.happen(event)?;
        }
        Ok(true)
    }

    /// Applies an event of the engine's and notes what it did.
    fn happen(&mut self, event: Event) -> Result<(), SimError> {
        match event {
            Event::Compaction(CompactionEvent::EmergencyApplied {
                marker,
                messages,
                tokens_before,
                tokens_after,
            }) => {
                let marker = self.digested(&marker);
                self.journal(Event::Compaction(CompactionEvent::EmergencyApplied {
                    marker,
                    messages,
                    tokens_before,
                    tokens_after,
                }))?;
                self.outcome.emergencies += 1;
            }
            Event::Compaction(CompactionEvent::WindowSlid { .. }) => {
                self.journal(event)?;
                self.outcome.compactions += 1;
            }
            Event::Compaction(CompactionEvent::ResultsPruned { .. }) => {
                self.journal(event)?;
                self.outcome.prunings += 1;
            }
            event => self.journal(event)?,
        }
        Ok(())
    }

    /// The marker with a digest as large as one of words would be.
    fn digested(&self, marker: &Marker) -> Marker {
        let source = self.spoken.tokens(marker.from_seq, marker.to_seq);
        let correction = self.conversation.correction(&self.agent.model);
        let most = digest::most_tokens(self.agent.window.usable_tokens(), &correction);
        let n_lines = (digest::budget(source, most) / DIGEST_LINE).max(1);
        let line = DigestLine { seq: marker.to_seq, text: short_text(DIGEST_LINE) };
        let digest = vec![line; n_lines as usize];
        Marker::new(marker.kind, marker.from_seq, marker.to_seq, digest).counting(marker.messages)
    }

    fn call(&mut self, tokens: u32, results: &[u32]) -> Result<(), SimError> {
        let mut entry = self.entry(Role::Assistant, tokens);
        let first = self.n_calls;
        self.n_calls += results.len() as u64;
        let id = |n: u64| format!("c{n}");
        let arguments = serde_json::Value::Null;
        entry.tool_calls = (first..self.n_calls)
            .map(|n| ToolCall { id: id(n), name: "tool".to_owned(), arguments: arguments.clone() })
            .collect();
        self.add(entry)?;
        for (n, tokens) in (first..).zip(results) {
            let mut entry = self.entry(Role::Tool, *tokens);
            entry.parts = vec![Part::text(result_text(*tokens))];
            entry.tool_call_id = Some(id(n));
            self.add(entry)?;
        }
        Ok(())
    }

    fn entry(&self, role: Role, tokens: u32) -> Entry {
        let conversation = &self.conversation;
        let open = conversation.open_turn.as_ref().map(|open| open.id.clone());
        let turn = open.unwrap_or_else(|| conversation.next_turn());
        let (seq, generation) = (conversation.next_seq, conversation.generation);
        Entry { tokens, ..Entry::new(seq, &turn, generation, self.now, role) }
    }

    fn add(&mut self, entry: Entry) -> Result<(), SimError> {
        self.spoken.push(entry.tokens);
        self.journal(Event::Turn(TurnEvent::EntryAdded { entry }))
    }

    /// The request's blocks, the volatile tail last. Its breakpoints: behind the frame, behind the stack with its last item
    /// and without it, behind the newest entry, and where the request before this one had that.
    fn request(&mut self) -> Vec<Block> {
        let conversation = &self.conversation;
        let block = |key, tokens| Block { key, tokens, mark: false };
        let mut blocks = Vec::with_capacity(conversation.live.len() + 24);
        blocks.push(block(0, frame_tokens(&self.agent)));
        blocks.extend(conversation.stack.items().iter().map(|item| {
            let (from, to) = item.range();
            let kind = match item {
                StackItem::Summary(_) => 1,
                StackItem::Marker(_) => 2,
            };
            block(kind << 60 | to.0 << 24 | (to.0 - from.0) & 0xff_ffff, u64::from(item.tokens()))
        }));
        let n_lead = blocks.len();
        let entries = conversation.live.iter();
        blocks.extend(entries.map(|entry| block(3 << 60 | entry.seq.0, conversation.weight(entry))));
        let asked = blocks.iter().rposition(|block| block.key == self.asked).unwrap_or(0);
        let last = blocks.len() - 1;
        for idx in [0, n_lead.saturating_sub(2), n_lead - 1, asked, last] {
            blocks[idx].mark = true;
        }
        self.asked = blocks[last].key;
        let tail = 4 << 60 | self.outcome.requests as u64;
        blocks.push(block(tail, u64::from(conversation.recalled_tokens)));
        blocks
    }

    /// What the compactor does when it looks.
    fn look(&mut self) -> Result<(), SimError> {
        self.look_at = None;
        for _ in 0..LOOKS_MAX {
            if self.conversation.run.is_some() {
                return Ok(());
            }
            match self.engine.after_turn(&self.conversation, &self.agent, self.now) {
                Decision::Idle => return Ok(()),
                Decision::WaitUntil(until) => {
                    self.look_at = Some(until);
                    return Ok(());
                }
                Decision::Apply(events) => events.into_iter().try_for_each(|event| self.happen(event))?,
                Decision::Start(_) if self.engine.info().owns_compaction => return Ok(()),
                Decision::Start(run) => {
                    self.journal(Event::Compaction(CompactionEvent::RunStarted { run: *run }))?;
                    self.done_at =
                        self.now.checked_add(SignedDuration::from_millis(self.runs.run_ms as i64)).ok();
                }
            }
        }
        Ok(())
    }

    /// Ends the run under way with a summary of the size that it is likely to have.
    fn commit(&mut self) -> Result<(), SimError> {
        self.done_at = None;
        let Some(run) = self.conversation.run.clone() else { return Ok(()) };
        let (read, source) = self.source(&run);
        let merge = matches!(run.work, RunWork::Merge { .. });
        let correction = self.conversation.correction(&self.agent.model);
        let sizes = StackSizes::of(&self.agent, &correction, self.conversation.stack.tokens());
        let asked = match run.work {
            RunWork::Merge { level, .. } => sizes.merge(source, level + 1),
            RunWork::Sealed | RunWork::Truncated => sizes.summary(source),
        };
        let tokens = (asked as f64 * self.runs.share(merge)).round() as u64;
        let tokens = tokens.clamp(1, source.max(1));
        let prompt = u64::from(estimate(&self.agent.compactor_prompt));
        let usage = Usage { input_tokens: prompt + read, output_tokens: tokens, ..Usage::default() };
        self.outcome.billed += self.billing.billed(usage);
        self.outcome.billed_runs += self.billing.billed(usage);
        self.journal(Event::Compaction(CompactionEvent::UsageSpent {
            model: self.agent.model.clone(),
            usage,
            is_estimate: false,
            trace: None,
        }))?;
        let draft =
            SummaryDraft { text: short_text(tokens), made_by: "tune".to_owned(), ..SummaryDraft::default() };
        let events = commit(&self.conversation, &self.agent, &run.id, draft, self.now);
        for event in events.into_iter().flatten() {
            self.journal(event)?;
        }
        let level = self.conversation.stack.summaries().map(|summary| summary.level).max();
        self.outcome.highest_level = self.outcome.highest_level.max(level);
        self.outcome.merges += usize::from(merge);
        self.outcome.compactions += usize::from(!merge);
        Ok(())
    }

    /// Tokens that a run reads, and tokens that its summary stands for.
    fn source(&self, run: &Run) -> (u64, u64) {
        match &run.work {
            RunWork::Merge { sources, .. } => {
                let found = sources.iter().filter_map(|id| self.conversation.stack.summary(id));
                let tokens = found.map(|summary| u64::from(summary.tokens)).sum();
                (tokens, tokens)
            }
            RunWork::Truncated => {
                let tokens = self.spoken.tokens(run.from_seq, run.to_seq);
                (tokens, tokens)
            }
            RunWork::Sealed => {
                let sealed = self.conversation.live.iter().take_while(|entry| entry.seq <= run.to_seq);
                sealed.fold((0, 0), |(read, source), entry| {
                    let tokens = u64::from(entry.tokens);
                    let seen =
                        if entry.role == Role::Tool { tokens.min(RESULT_IN_TRANSCRIPT) } else { tokens };
                    (read + seen, source + tokens)
                })
            }
        }
    }
}
