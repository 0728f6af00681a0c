//! A turn: recall, assemble, ask the model, run its tool calls, until it answers. It is a cancellable task that changes
//! nothing itself; its events go to the channel's actor.

mod call;
mod calls;
mod chain;
mod outage;
mod simpler;
mod state;
mod suspicion;
mod tries;
mod under_way;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::memory::{SPARE, without_namesakes};
use cairn_core::silence::{is_silence, without_silence};
use cairn_core::window::{
    Found, QUOTES_MAX, Quoted, Tail, asking, choose, left_window, question, tail_tokens,
};
use cairn_types::event::{Event, MemoryEvent, TurnEvent};
use cairn_types::ids::{MemoryId, Seq};
use cairn_types::memory::{Memory, Reach};
use cairn_types::ports::{HitKind, Query, Recall, StoreError, TurnFailure};
use cairn_types::tool::{any_can_be_run, bound_calls};
use jiff::tz::TimeZone;
use parking_lot::Mutex;

use crate::failure;
use crate::messages::{TurnAnswer, TurnResult};
use crate::shared::Shared;
use crate::tasks::off_thread;
use crate::tools::Toolbox;
use outage::OutageWait;
use state::{Budget, Turn};

pub(crate) use call::overflow;
pub(crate) use outage::note_id;
pub(crate) use state::TurnArgs;
pub(crate) use suspicion::is_unexplained;
pub(crate) use under_way::{Call, CallUnderWay};

/// Longest that an answer waits for memories.
const RECALL_LIMIT: Duration = Duration::from_secs(5);

/// Hits among which entries that left the window are looked for: the best may still stand in it.
const QUOTE_HITS: usize = 30;

/// Consecutive answers that call only tools that do not exist, until the model may only answer in text.
const MISSES_MAX: u32 = 3;

/// Runs the open turn until it has an answer.
pub(crate) async fn run(args: TurnArgs) -> TurnResult {
    let limit = args.shared.live.limits().turn_timeout;
    let (budget, show) = (Arc::new(Budget::new(limit)), args.show.clone());
    let agent = args.handle.agent();
    let turn = Turn {
        settings: args
            .with_client_tools(args.handle.read(|conversation| agent.serving_settings(conversation))),
        agent,
        outage_wait: OutageWait::of(&args.handle, args.show.is_some(), &args.shared.live.limits()),
        budget: Arc::clone(&budget),
        approvals: Mutex::default(),
        slot: None,
        has_begun: false,
        waited: Duration::ZERO,
        tried: Vec::new(),
        cut: false,
        args,
    };
    let answer = tokio::select! {
        biased;
        answer = turn.run() => answer,
        () = budget.is_over() => {
            tracing::warn!(?limit, "a turn took too long and was ended");
            Err(budget.failure())
        }
    };
    let drafts = match show {
        Some(show) => show.finish().await,
        None => Vec::new(),
    };
    TurnResult { answer, drafts }
}

impl Turn {
    async fn run(mut self) -> Result<TurnAnswer, TurnFailure> {
        self.choose().await?;
        // Recalling memories is work, too, so the slot is taken before it.
        self.take_slot().await;
        let (recalled, quotes) = self.recall().await?;
        let zone = TimeZone::get(&self.settings.timezone).unwrap_or_else(|error| {
            tracing::warn!(%error, "the agent's time zone is unknown; dates are shown in UTC");
            TimeZone::UTC
        });
        let Shared { ports, live, lifecycle, .. } = self.args.shared.clone();
        let (handle, client) = (Arc::clone(&self.args.handle), self.args.client.clone());
        let tools = Toolbox::new(ports, live, lifecycle.tasks.clone(), handle, client);
        let mut rounds = self.settings.max_rounds.max(1);
        let (mut round, mut misses) = (0, 0);
        while round < rounds {
            round += 1;
            let last_call = round == rounds;
            let (now, zone, quotes) = (self.args.shared.ports.now(), zone.clone(), self.still(&quotes));
            let tail = Tail { now, zone, recalled: recalled.clone(), quotes, last_call };
            let mut call = self.call(tail).await?;
            let (took, model) = (call.took(), call.model.clone());
            if round == rounds && !call.text.trim().is_empty() {
                // It was told that no more tools are called, and has written text.
                call.tool_calls.clear();
            }
            if call.tool_calls.is_empty() {
                let (silent, now) = (self.strip_silence(&mut call), self.args.shared.ports.now());
                let (entry, added) = if silent {
                    (call.into_entry(now), None)
                } else {
                    call.into_answer(now, &self.args.handle.texts())
                };
                if let Some(added) = added {
                    self.args.handle.subscribers.delta(&added);
                }
                return Ok(TurnAnswer { entry, took, model, cut: self.cut, silent });
            }
            let (n_calls, left_out) = (call.tool_calls.len(), bound_calls(&mut call.tool_calls));
            tracing::debug!(channel = %self.args.handle.id, round, n_calls, "tools");
            if left_out > 0 {
                tracing::warn!(channel = %self.args.handle.id, model, n_calls, left_out,
                    "an answer has too many tool calls; the excess ones are not run, and the model is told");
            }
            let calls = call.tool_calls.clone();
            misses = if any_can_be_run(&calls, &self.settings.tools) { 0 } else { misses + 1 };
            if misses == MISSES_MAX {
                rounds = rounds.min(round + 1);
            }
            let entry = call.into_entry(self.args.shared.ports.now());
            let mut events = vec![Event::Turn(TurnEvent::EntryAdded { entry })];
            events.extend(took);
            self.step(events).await?;
            if round == rounds {
                self.refuse(calls).await?;
                break;
            }
            self.args.handle.subscribers.paragraph();
            let times = Arc::clone(&self.args.times);
            times.of_others(self.use_tools(&tools, &model, calls, &recalled)).await?;
            self.join().await?;
        }
        Err(match misses > MISSES_MAX {
            true => failure::no_such_calls(misses),
            false => failure::too_many_rounds(self.settings.max_rounds),
        })
    }

    /// Whether the answer says nothing, as it may in a group. One that says something loses the token.
    fn strip_silence(&self, call: &mut Call) -> bool {
        if !self.args.handle.may_be_silent() {
            return false;
        }
        let silent = is_silence(&call.text);
        if let (false, Cow::Owned(words)) = (silent, without_silence(&call.text)) {
            tracing::debug!(channel = %self.args.handle.id, "an answer is posted without the token of silence in it");
            call.text = words;
        }
        silent
    }

    /// Recalls memories that fit the question and quotes entries that do, and journals that.
    async fn recall(&self) -> Result<(Vec<Memory>, Vec<Quoted>), TurnFailure> {
        let handle = &self.args.handle;
        let question = handle.read(question);
        let share = self.settings.memory.share;
        let reach =
            handle.read(|conversation| Reach::of(&handle.id, conversation.direct_with.as_deref(), share));
        let limit = self.settings.recall_limit;
        let recalling =
            self.args.shared.ports.store.recall(&self.settings.id, &reach, &question, limit + SPARE);
        let found = tokio::time::timeout(RECALL_LIMIT, async {
            tokio::join!(recalling, self.found_before(&question))
        });
        let (recall, found) = match found.await {
            Ok(found) => found,
            Err(_) => {
                tracing::warn!(channel = %handle.id, limit = ?RECALL_LIMIT, "memories could not be recalled in time");
                (Ok(Recall::default()), Ok(Vec::new()))
            }
        };
        // An answer without memories or old words is better than none.
        let recall = recall.unwrap_or_else(|error| {
            tracing::warn!(channel = %handle.id, %error, "memories could not be recalled");
            Recall::default()
        });
        let Recall { memories: recalled, scores, near } =
            without_namesakes(recall, limit, &handle.read(asking), &question);
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(channel = %handle.id, %error, "earlier messages cannot be searched; none are quoted");
            Vec::new()
        });
        // The entries may be long.
        let most = self.settings.quote_tokens;
        let quotes = off_thread(move || choose(&found, most)).await;
        let quotes = quotes.map_err(|panic| failure::panicked(&panic.to_string()))?;
        let ids: Vec<MemoryId> = recalled.iter().map(|memory| memory.id.clone()).collect();
        let had_none =
            handle.read(|conversation| conversation.recalled.is_empty() && conversation.quotes.is_empty());
        if ids.is_empty() && quotes.is_empty() && had_none {
            return Ok((recalled, quotes));
        }
        let (now, zone) = (self.args.shared.ports.now(), TimeZone::UTC);
        let places = quotes.iter().map(|quoted| quoted.quote.clone()).collect();
        let tail = Tail { now, zone, recalled, quotes, last_call: false };
        let event = MemoryEvent::Recalled { ids, tokens: tail_tokens(&tail), scores, near, quotes: places };
        self.step(vec![Event::Memory(event)]).await?;
        Ok((tail.recalled, tail.quotes))
    }

    /// The entries that fit the question best and have left the window, best first.
    async fn found_before(&self, question: &str) -> Result<Vec<Found>, StoreError> {
        let handle = &self.args.handle;
        let left = handle.read(left_window).filter(|_| self.settings.quote_tokens > 0);
        let Some((first, last)) = left else { return Ok(Vec::new()) };
        let deleted = handle.read(|conversation| conversation.deleted.clone());
        let store = &self.args.shared.ports.store;
        let query = Query {
            channel: Some(handle.id.clone()),
            text: question.to_owned(),
            kind: Some(HitKind::Entry),
            limit: QUOTE_HITS,
            ..Query::default()
        };
        let mut found = Vec::new();
        for hit in store.search(query).await? {
            // Some of them are not quoted.
            if found.len() == 2 * QUOTES_MAX {
                break;
            }
            let is_there = |seq: &Seq| (first..=last).contains(seq) && !deleted.contains(seq);
            let Some(seq) = hit.seq.filter(is_there) else { continue };
            let entries = store.entries(&handle.id, seq, seq, 1).await?;
            found.extend(entries.into_iter().map(|entry| Found {
                entry,
                marks: hit.marks.clone(),
                score: hit.score,
            }));
        }
        Ok(found)
    }

    /// What is quoted, without messages that were deleted since it was chosen.
    fn still(&self, quotes: &[Quoted]) -> Vec<Quoted> {
        self.args.handle.read(|conversation| {
            let stands =
                |quoted: &&Quoted| conversation.quotes.iter().any(|quote| quote.seq == quoted.quote.seq);
            quotes.iter().filter(stands).cloned().collect()
        })
    }
}
