//! The model call under way in a turn: its output and usage so far.

use std::collections::BTreeSet;

use cairn_core::agent::WindowSize;
use cairn_core::notice;
use cairn_core::usage_watch::{Reading, Report, UsageWatch, filled_window};
use cairn_types::event::{Event, TurnEvent};
use cairn_types::message::{Entry, Part, Provenance, Role, ToolCall};
use cairn_types::model::{Finish, ModelError, Usage};
use cairn_types::provider_state::ProviderState;
use cairn_types::texts::Texts;
use cairn_types::tokens::estimate;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::budgets::Reservation;
use crate::messages::draft_entry;
use crate::telemetry;
use crate::traces::TraceBuilder;

/// A model call with its output and usage so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) tool_calls: Vec<ToolCall>,
    /// State that the provider wants back with the next request.
    pub(super) state: Option<Box<ProviderState>>,
    pub(super) quotes: bool,
    pub(super) finish: Finish,
    /// It was cut within a tool call, which is not made.
    pub(super) lost_call: bool,
    /// The model, by its id in the configuration.
    pub(crate) model: String,
    /// Whose text the output may contain, beside the model's own.
    pub(super) provenance: Provenance,
    /// Usage as the provider reported it.
    pub(super) usage: Option<Usage>,
    /// The provider has sent everything.
    pub(super) is_whole: bool,
    /// Its usage is journalled.
    pub(super) is_settled: bool,
    /// It costs nothing: the embedded model made it.
    pub(super) is_free: bool,
    /// The server did no work for it.
    pub(super) is_refused: bool,
    /// The server has read only part of the request, and had no room for an answer.
    pub(super) is_filled: bool,
    /// What is known of how it was made.
    pub(super) trace: TraceBuilder,
    /// How often it was sent; each time after the first, something was left out.
    pub(super) n_sent: u32,
    /// Tokens of the request: estimated, and corrected.
    pub(super) estimated: u64,
    pub(super) tokens: u64,
    pub(super) answer_max: u64,
    /// The model's assumed window, and the largest request that it answered within that.
    pub(super) window: Option<WindowSize>,
    pub(super) taken: u64,
    /// The model's window as configured; 0: not configured.
    pub(super) set_window: u64,
    /// What earlier usage reports say about the server.
    pub(super) watch: UsageWatch,
    pub(super) caused_by: BTreeSet<String>,
}

impl Call {
    /// Notes the first output.
    pub(super) fn said(&mut self) -> &mut Self {
        self.trace.note_output();
        self
    }

    /// The usage event: as the provider reported it, else our estimate of request and output. `None`: there is nothing new
    /// to journal.
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
        // For an answer that was cut short, a report may cover only its beginning.
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

    /// How far the provider's report is believed; `None`: there is no report.
    fn read(&self) -> Option<Reading> {
        let usage = self.usage?;
        if self.is_filled {
            return Some(Reading::Cut);
        }
        let frame = self.trace.frame.as_ref().filter(|_| self.is_whole);
        let (estimated, ours, answer_max) = (self.estimated, self.ours(), self.answer_max);
        Some(self.watch.read(&Report { frame, estimated, ours, answer_max, usage }))
    }

    /// The request's tokens as the provider counts them, if it read only part of it.
    pub(super) fn cut(&self) -> Option<u64> {
        matches!(self.read(), Some(Reading::Cut)).then(|| self.usage.unwrap_or_default().input_tokens)
    }

    /// The usage event at the end of a turn. It is also there for a call that the server refused, as the last try.
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

    /// The window of a server that had no room for an answer, if that explains an empty answer.
    pub(super) fn filled(&self) -> Option<u64> {
        let usage = self.usage.filter(|_| self.reasoning.is_empty())?;
        filled_window(usage, self.estimated, self.taken, self.window?)
    }

    /// Our own estimate of the usage so far.
    fn ours(&self) -> Usage {
        if self.is_free {
            return Usage::default();
        }
        let said = [self.text.as_str(), self.reasoning.as_str()].map(estimate);
        let called = self.tool_calls.iter().map(|call| estimate(&call.arguments.to_string()));
        let output_tokens = said.into_iter().chain(called).map(u64::from).sum();
        Usage { input_tokens: self.tokens, output_tokens, ..Usage::default() }
    }

    /// Whether the call cost nothing: the server refused it, or was never reached.
    pub(super) fn came_to_nothing(&self, error: &ModelError) -> bool {
        let said = [&self.text, &self.reasoning].iter().any(|words| !words.is_empty());
        let came = said || !self.tool_calls.is_empty() || self.usage.is_some();
        !came && !error.may_have_cost()
    }

    /// The partial text as an entry, followed by `mark`. Its tool calls are left out. `None`: there is no text.
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

    /// The output as the turn's answer, with a note if the model did not finish it itself. Also returns what the note adds
    /// to the text that was shown.
    pub(super) fn into_answer(self, now: Timestamp, texts: &Texts) -> (Entry, Option<String>) {
        let note = notice::of_finish(self.finish, &self.text, self.lost_call, texts);
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

/// The call under way in a turn, or the last one that failed. The channel's actor reads it, since it may end the turn at
/// any time.
#[derive(Default)]
pub(crate) struct CallUnderWay {
    call: Mutex<Option<Call>>,
    /// Its likely price. Held until its usage is counted.
    reservation: Mutex<Option<Reservation>>,
}

impl CallUnderWay {
    pub(super) fn begin(&self, call: Call) {
        *self.call.lock() = Some(call);
    }

    /// Sets the reserved price of the next call; `None`: the call has ended and is counted.
    pub(super) fn reserve(&self, reservation: Option<Reservation>) {
        let _released = std::mem::replace(&mut *self.reservation.lock(), reservation);
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.reservation.lock().is_some()
    }

    pub(super) fn note<T>(&self, change: impl FnOnce(&mut Call) -> T) -> Option<T> {
        self.call.lock().as_mut().map(change)
    }

    /// Notes which events of the turn are journalled: the call's usage, or its entry.
    pub(crate) fn journalled(&self, events: &[Event]) {
        let has = |is: fn(&TurnEvent) -> bool| {
            events.iter().any(|event| matches!(event, Event::Turn(event) if is(event)))
        };
        if has(|event| matches!(event, TurnEvent::UsageReported { .. })) {
            self.note(|call| call.is_settled = true);
            self.reserve(None);
        }
        if has(|event| matches!(event, TurnEvent::EntryAdded { entry } if entry.role == Role::Assistant)) {
            self.take();
        }
    }

    pub(crate) fn take(&self) -> Option<Call> {
        self.call.lock().take()
    }
}
