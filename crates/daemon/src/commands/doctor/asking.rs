//! Asks a model in the same way as a turn does, with the same functions: a streamed question with the configured
//! prompt, tools, limit and fields; then the result of a tool call; then a later message, after a stopped turn. No tool
//! is called and nothing is stored.

use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::conversation::{Conversation, FoldError};
use cairn_core::window::{AssembleError, Tail, assemble, entry_tokens, pending_tokens};
use cairn_types::event::{Event, MessageEvent, Record, TurnEnd, TurnEvent, TurnOutcome};
use cairn_types::ids::ChannelId;
use cairn_types::message::{Author, Entry, Part, Pending, Role, ToolCall, fingerprint};
use cairn_types::model::{ChatRequest, ModelError, ModelEvent, Usage};
use cairn_types::ports::{ChatModel, Clock as _};
use cairn_types::provider_state::ProviderState;
use cairn_types::tool::defs::ToolDefs;
use futures::StreamExt as _;
use jiff::tz::TimeZone;
use serde_json::json;
use tokio::time::{Instant, timeout};

use cairn_config::clock::SystemClock;

/// The tool that the model is asked to call, if the agent has it. It needs no arguments.
const TIME: &str = "time";

/// The steps of the check, which every conversation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Question,
    Result,
    Later,
}

/// Why a step got no answer.
#[derive(Debug)]
pub(super) enum Stopped {
    Late,
    Error(ModelError),
    /// The prompt and the tools leave no room for a message.
    NoRoom(AssembleError),
    Fold(FoldError),
}

/// The result of asking a model.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) n_tools: usize,
    /// The time until the answer to the question was complete.
    pub(super) took: Duration,
    /// The server refused the tools. As in a turn, later requests were made without them.
    pub(super) no_tools: Option<ModelError>,
    /// The failed step, and why.
    pub(super) stopped: Option<(Step, Stopped)>,
    /// The question was refused with tools and answered without.
    pub(super) answers_without_tools: bool,
    /// What the model said to a greeting.
    pub(super) said: String,
}

impl Asked {
    fn nothing(n_tools: usize) -> Self {
        Self {
            n_tools,
            took: Duration::ZERO,
            no_tools: None,
            stopped: None,
            answers_without_tools: false,
            said: String::new(),
        }
    }
}

/// Asks one short question, without tools.
pub(super) async fn greet(
    client: &dyn ChatModel,
    channel: ChannelId,
    mut settings: AgentSettings,
    limit: Duration,
) -> Asked {
    settings.tools = ToolDefs::default();
    let mut talk = Talk { client, settings, conversation: Conversation::new(channel), limit };
    let (begun, mut asked) = (Instant::now(), Asked::nothing(0));
    let answer = match talk.hear("This is a test by `cairn init`. Say hello in a few words.") {
        Ok(()) => talk.request().await,
        Err(stopped) => Err(stopped),
    };
    asked.took = begun.elapsed();
    match answer {
        Ok(said) => asked.said = said.text,
        Err(stopped) => asked.stopped = Some((Step::Question, stopped)),
    }
    asked
}

/// Asks step by step until one fails. `limit`: longest wait per step.
pub(super) async fn ask(
    client: &dyn ChatModel,
    channel: ChannelId,
    settings: AgentSettings,
    limit: Duration,
) -> Asked {
    let n_tools = settings.tools.len();
    let mut talk = Talk { client, settings, conversation: Conversation::new(channel), limit };
    let mut asked = Asked::nothing(n_tools);
    let mut step = Step::Question;
    if let Err(stopped) = talk.steps(&mut step, &mut asked).await {
        asked.answers_without_tools = step == Step::Question && talk.answers_without_tools(&stopped).await;
        asked.stopped = Some((step, stopped));
    }
    asked
}

struct Talk<'a> {
    client: &'a dyn ChatModel,
    settings: AgentSettings,
    conversation: Conversation,
    limit: Duration,
}

/// A model's answer.
#[derive(Default)]
struct Said {
    text: String,
    calls: Vec<ToolCall>,
    state: Option<Box<ProviderState>>,
}

impl Talk<'_> {
    async fn steps(&mut self, step: &mut Step, asked: &mut Asked) -> Result<(), Stopped> {
        let tool = self.tool();
        let begun = Instant::now();
        self.hear(&format!(
            "This is a check by `cairn doctor`. Call the tool `{tool}`, then answer with one word."
        ))?;
        let mut said = match self.request().await {
            Err(Stopped::Error(error @ ModelError::NoTools(_))) if !self.settings.tools.is_empty() => {
                asked.no_tools = Some(error);
                self.settings.tools = ToolDefs::default();
                self.request().await?
            }
            said => said?,
        };
        asked.took = begun.elapsed();

        *step = Step::Result;
        if said.calls.is_empty() {
            said.calls.push(scripted(&tool, "doctor001"));
        }
        self.add_calls(said)?;
        let answer = self.request().await?;

        *step = Step::Later;
        let words = if answer.text.trim().is_empty() { "noon" } else { &answer.text };
        self.add(Role::Assistant, |entry| entry.parts = vec![Part::text(words)])?;
        self.end()?;
        self.hear("And now?")?;
        self.add_calls(Said { calls: vec![scripted(&tool, "doctor002")], ..Said::default() })?;
        self.end()?;
        self.hear("I did not hear you. Answer with one word.")?;
        self.request().await.map(drop)
    }

    /// The name of the tool to call: [`TIME`], or else the agent's first tool.
    fn tool(&self) -> String {
        let tools = &self.settings.tools;
        let found = tools.iter().find(|tool| tool.name == TIME).or_else(|| tools.first());
        found.map_or(TIME, |tool| &tool.name).to_owned()
    }

    /// Whether the refused question is answered without tools.
    async fn answers_without_tools(&mut self, stopped: &Stopped) -> bool {
        let refused = matches!(stopped, Stopped::Error(ModelError::BadRequest { .. }));
        if !refused || self.settings.tools.is_empty() {
            return false;
        }
        self.settings.tools = ToolDefs::default();
        self.request().await.is_ok()
    }

    async fn request(&self) -> Result<Said, Stopped> {
        let now = SystemClock.now();
        let tail =
            Tail { now, zone: TimeZone::UTC, recalled: Vec::new(), quotes: Vec::new(), last_call: false };
        let made = assemble(&self.conversation, &self.settings, &tail).map_err(Stopped::NoRoom)?;
        let mut said = Said::default();
        match timeout(self.limit, self.read(made.request, &mut said)).await {
            Ok(Ok(())) => Ok(said),
            Ok(Err(error)) => Err(Stopped::Error(error)),
            // A slow answer has arrived in part, which is enough.
            Err(_) if !said.text.trim().is_empty() => Ok(said),
            Err(_) => Err(Stopped::Late),
        }
    }

    async fn read(&self, request: ChatRequest, said: &mut Said) -> Result<(), ModelError> {
        let answer_max = request.max_output_tokens;
        let mut events = self.client.stream(request);
        while let Some(event) = events.next().await {
            match event? {
                ModelEvent::Text(text) => said.text.push_str(&text),
                ModelEvent::ToolCall(call) => said.calls.push(call),
                ModelEvent::State(state) => said.state = Some(state),
                ModelEvent::Done { finish, .. } => {
                    said.calls.retain(|call| finish.allows(call));
                    return match said.text.trim().is_empty() && said.calls.is_empty() {
                        true => Err(ModelError::of_silence(finish, answer_max)),
                        false => Ok(()),
                    };
                }
                ModelEvent::TextWasReasoning => said.text.clear(),
                ModelEvent::Sent(_) | ModelEvent::Reasoning(_) | ModelEvent::Usage(_) => {}
            }
        }
        Err(ModelError::Protocol("the stream ended before its end".to_owned()))
    }

    /// Adds a message by a person, and starts a turn for it.
    fn hear(&mut self, text: &str) -> Result<(), Stopped> {
        let turn = self.conversation.next_turn();
        let author = Author { id: "local/doctor".to_owned(), name: "cairn doctor".to_owned() };
        let (message, parts) = (turn.as_str().into(), vec![Part::text(text)]);
        let mut pending = Pending {
            message,
            turn: turn.clone(),
            at: SystemClock.now(),
            spoken: false,
            reminder: None,
            fingerprint: fingerprint(&author, &parts),
            author,
            parts,
            addressed: true,
            direct: true,
            chat_name: None,
            language: None,
            provenance: cairn_types::message::Provenance::default(),
            tokens: 0,
        };
        pending.tokens = pending_tokens(&pending);
        let messages = vec![pending.message.clone()];
        self.note(Event::Message(MessageEvent::Accepted(pending)))?;
        let first_seq = self.conversation.next_seq;
        self.note(Event::Turn(TurnEvent::Started { turn, messages, first_seq }))
    }

    /// Adds these calls by the model, and their results.
    fn add_calls(&mut self, said: Said) -> Result<(), Stopped> {
        let ids: Vec<String> = said.calls.iter().map(|call| call.id.clone()).collect();
        self.add(Role::Assistant, |entry| {
            entry.parts.extend((!said.text.is_empty()).then(|| Part::text(said.text)));
            entry.tool_calls = said.calls;
            entry.provider_state = said.state;
        })?;
        ids.into_iter().try_for_each(|id| {
            self.add(Role::Tool, |entry| {
                entry.parts = vec![Part::text("noon")];
                entry.tool_call_id = Some(id);
            })
        })
    }

    fn add(&mut self, role: Role, change: impl FnOnce(&mut Entry)) -> Result<(), Stopped> {
        let (conversation, at) = (&self.conversation, SystemClock.now());
        let Some(open) = &conversation.open_turn else { return Ok(()) };
        let mut entry = Entry::new(conversation.next_seq, &open.id, conversation.generation, at, role);
        change(&mut entry);
        entry.tokens = entry_tokens(&entry);
        self.note(Event::Turn(TurnEvent::EntryAdded { entry }))
    }

    /// Ends the open turn as stopped.
    fn end(&mut self) -> Result<(), Stopped> {
        let Some(open) = &self.conversation.open_turn else { return Ok(()) };
        let end = TurnEnd {
            turn: open.id.clone(),
            outcome: TurnOutcome::Stopped,
            model: None,
            usage: Usage::default(),
            recalled: Vec::new(),
        };
        self.note(Event::Turn(TurnEvent::Ended(end)))
    }

    fn note(&mut self, event: Event) -> Result<(), Stopped> {
        let (n, at) = (self.conversation.last_n + 1, SystemClock.now());
        let record = Record { n, at, channel: Some(self.conversation.channel.clone()), event };
        self.conversation.apply(&record).map_err(Stopped::Fold)
    }
}

/// A call that the model did not make. The strictest servers require this form of id.
fn scripted(tool: &str, id: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: tool.to_owned(), arguments: json!({}) }
}
