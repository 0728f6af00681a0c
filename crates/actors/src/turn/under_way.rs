//! The call of a model that is under way in a turn: what it has said and used so far.

use std::collections::BTreeSet;

use cairn_core::agent::WindowSize;
use cairn_core::notice;
use cairn_core::usage_watch::{Reading, Report, UsageWatch, filled_window};
use cairn_types::event::{Event, TurnEvent};
use cairn_types::message::{Entry, Part, Provenance, Role, ToolCall};
use cairn_types::model::{Finish, ModelError, Usage};
use cairn_types::provider_state::ProviderState;
use cairn_types::tokens::estimate;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::messages::draft_entry;
use crate::telemetry;
use crate::traces::TraceBuilder;

/// A call of a model: what it has said and taken so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) tool_calls: Vec<ToolCall>,
    /// What its provider wants back with it.
    pub(super) state: Option<Box<ProviderState>>,
    pub(super) quotes: bool,
    pub(super) finish: Finish,
    /// It was cut within a tool call, which is not made.
    pub(super) lost_call: bool,
    /// The model, by its id in the configuration.
    pub(crate) model: String,
    /// Whose text its words may hold beside its own.
    pub(super) provenance: Provenance,
    /// What the provider said of what it took.
    pub(super) usage: Option<Usage>,
    /// The provider has said all.
    pub(super) is_whole: bool,
    /// What it took is journalled.
    pub(super) is_settled: bool,
    /// It takes nothing of anybody's: it is the embedded model's.
    pub(super) is_free: bool,
    /// The server has not worked for it.
    pub(super) is_refused: bool,
    /// The server has read only part of the request, and had no room for an answer.
    pub(super) is_filled: bool,
    /// What is known of how it was made.
    pub(super) trace: TraceBuilder,
    /// How often it was sent: each time after the first, something was left out.
    pub(super) n_sent: u32,
    /// Tokens of the request: estimated, and corrected.
    pub(super) estimated: u64,
    pub(super) tokens: u64,
    pub(super) answer_max: u64,
    /// The model's window as it is believed to be, and the largest request that was answered within it.
    pub(super) window: Option<WindowSize>,
    pub(super) taken: u64,
    /// What the configuration sets as the model's window; 0: nothing.
    pub(super) set_window: u64,
    /// What earlier reports say of the server.
    pub(super) watch: UsageWatch,
    pub(super) caused_by: BTreeSet<String>,
}

impl Call {
    /// It says something now.
    pub(super) fn said(&mut self) -> &mut Self {
        self.trace.note_output();
        self
    }

    /// What it took, for the journal: what the provider reported, else our estimate of the request and of what came. None:
    /// nothing that is not journalled yet.
    pub(crate) fn took(&self) -> Option<Event> {
        if self.is_settled || self.is_refused {
            return None;
        }
        let ours = self.ours();
        let believed = match self.read() {
            Some(Reading::Whole(usage)) => Some(usage),
            Some(Reading::Untrue | Reading::Cut) => {
                let is_known = self.watch.is_doubted();
                self.usage
                    .iter()
                    .for_each(|usage| telemetry::disbelieved(&self.model, *usage, ours, is_known));
                None
            }
            None => None,
        };
        // What was said of an answer that was cut short counts its first words at most.
        let output_tokens = |usage: Usage| match self.is_whole {
            true => usage.output_tokens,
            false => usage.output_tokens.max(ours.output_tokens),
        };
        let usage = believed.map_or(ours, |usage| Usage { output_tokens: output_tokens(usage), ..usage });
        let trace = self.trace.build(usage, self.is_whole);
        if self.is_free && trace.is_none() {
            return None;
        }
        Some(Event::Turn(TurnEvent::UsageReported {
            model: self.model.clone(),
            estimated: self.estimated,
            usage,
            disbelieved: self.usage.filter(|_| believed.is_none()),
            is_estimate: self.usage.is_none() || !self.is_whole,
            set_window: Some(self.set_window),
            caused_by: self.caused_by.clone(),
            trace,
        }))
    }

    /// What the provider's report is worth; none: it has not reported.
    fn read(&self) -> Option<Reading> {
        let usage = self.usage?;
        if self.is_filled {
            return Some(Reading::Cut);
        }
        let frame = self.trace.frame.as_ref().filter(|_| self.is_whole);
        let (estimated, ours, answer_max) = (self.estimated, self.ours(), self.answer_max);
        Some(self.watch.read(&Report { frame, estimated, ours, answer_max, usage }))
    }

    /// Tokens of the request as the provider counts them, where it has read only part of it.
    pub(super) fn cut(&self) -> Option<u64> {
        matches!(self.read(), Some(Reading::Cut)).then(|| self.usage.unwrap_or_default().input_tokens)
    }

    /// What is journalled of the call at the end of its turn: what a server refused is journalled too, as the last that was tried.
    pub(crate) fn ended(&self) -> Option<Event> {
        let refused = || {
            let trace = self.trace.build(Usage::default(), false)?;
            Some(Event::Turn(TurnEvent::UsageReported {
                model: self.model.clone(),
                estimated: self.estimated,
                usage: Usage::default(),
                disbelieved: None,
                is_estimate: true,
                set_window: None,
                caused_by: self.caused_by.clone(),
                trace: Some(trace),
            }))
        };
        if self.is_refused && !self.is_settled { refused() } else { self.took() }
    }

    /// The window of a server that had no room for an answer, where that is why it said nothing.
    pub(super) fn filled(&self) -> Option<u64> {
        let usage = self.usage.filter(|_| self.reasoning.is_empty())?;
        filled_window(usage, self.estimated, self.taken, self.window?)
    }

    /// Our own estimate of what it took so far.
    fn ours(&self) -> Usage {
        if self.is_free {
            return Usage::default();
        }
        let said = [self.text.as_str(), self.reasoning.as_str()].map(estimate);
        let called = self.tool_calls.iter().map(|call| estimate(&call.arguments.to_string()));
        let output_tokens = said.into_iter().chain(called).map(u64::from).sum();
        Usage { input_tokens: self.tokens, output_tokens, ..Usage::default() }
    }

    /// Nothing came of it: a server that refuses a request, or was never reached, has not worked for it.
    pub(super) fn came_to_nothing(&self, error: &ModelError) -> bool {
        let said = [&self.text, &self.reasoning].iter().any(|words| !words.is_empty());
        let came = said || !self.tool_calls.is_empty() || self.usage.is_some();
        !came && !error.may_have_cost()
    }

    /// Its words as an entry, where it was cut short after some: `mark` says so behind them. Calls of tools that it was
    /// about to make are not in it.
    pub(crate) fn cut_short(self, mark: &str, now: Timestamp) -> Option<Entry> {
        if self.text.trim().is_empty() {
            return None;
        }
        let mut entry = self.into_entry(now);
        entry.tool_calls.clear();
        entry.provider_state = None;
        entry.parts.push(Part::text(mark));
        Some(entry)
    }

    /// What was said as the turn's answer, with a note behind it where the model did not end it itself; and what the note
    /// adds to the words that were shown.
    pub(super) fn into_answer(self, now: Timestamp) -> (Entry, Option<String>) {
        let note = notice::of_finish(self.finish, &self.text, self.lost_call);
        let mut entry = self.into_entry(now);
        let added = note.map(|note| {
            let added = if entry.parts.is_empty() { note.clone() } else { format!("\n{note}") };
            entry.parts.push(Part::text(note));
            added
        });
        (entry, added)
    }

    /// What was said, as an entry.
    pub(super) fn into_entry(self, now: Timestamp) -> Entry {
        let mut entry = draft_entry(Role::Assistant, now);
        if !self.text.is_empty() {
            entry.parts.push(Part::text(self.text));
        }
        let state = self.state.filter(|_| !self.tool_calls.is_empty());
        let is_kept = state.as_ref().is_some_and(|state| state.has_reasoning());
        entry.reasoning = Some(self.reasoning).filter(|reasoning| !reasoning.is_empty() && !is_kept);
        entry.provider_state = state;
        entry.tool_calls = self.tool_calls;
        entry.quotes = self.quotes;
        entry.finish = Some(self.finish).filter(|finish| !finish.is_whole());
        entry.provenance = self.provenance;
        entry
    }
}

/// The call that is under way in a turn, or failed last, for the channel's actor: it may end the turn at any moment.
#[derive(Debug, Default)]
pub(crate) struct CallUnderWay(Mutex<Option<Call>>);

impl CallUnderWay {
    pub(super) fn begin(&self, call: Call) {
        *self.0.lock() = Some(call);
    }

    pub(super) fn note<T>(&self, change: impl FnOnce(&mut Call) -> T) -> Option<T> {
        self.0.lock().as_mut().map(change)
    }

    /// These events of its turn are journalled, and with them perhaps what it took, or all of it.
    pub(crate) fn journalled(&self, events: &[Event]) {
        let has = |is: fn(&TurnEvent) -> bool| {
            events.iter().any(|event| matches!(event, Event::Turn(event) if is(event)))
        };
        if has(|event| matches!(event, TurnEvent::UsageReported { .. })) {
            self.note(|call| call.is_settled = true);
        }
        if has(|event| matches!(event, TurnEvent::EntryAdded { entry } if entry.role == Role::Assistant)) {
            self.take();
        }
    }

    pub(crate) fn take(&self) -> Option<Call> {
        self.0.lock().take()
    }
}
