//! Drafts: the text of an answer so far, in one message that is edited as more comes.
//!
//! The first send has its own intent and receipt, so that the final text always replaces that message. A draft shows no
//! more than fits into one message; once that is full, the rest of the answer is not read.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::conversation::OpenTurn;
use cairn_types::event::{DeliveryEvent, Event};
use cairn_types::ids::{MessageId, OutboxId};
use cairn_types::ports::{Platform, SendError, SendPart};
use jiff::Timestamp;
use tokio::time::Instant;

use super::DraftStop;
use crate::handle::ChannelHandle;
use crate::messages::TurnLink;
use crate::pace::Pace;
use crate::ports::Ports;

/// Longest that one request may take before its fate counts as unknown.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// After this many edits, edits come half as often. Both networks limit edits, and a long answer must not use up what its end
/// needs: with the default interval a minute has at most twenty edits.
const BRISK_EDITS: u32 = 10;

const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Pause between the attempts to learn the fate of a draft, after its turn has ended.
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Once an answer is this many times as long as its first message, more text no longer changes that message.
const FULL: usize = 2;

pub(super) struct Drafter {
    ports: Arc<Ports>,
    handle: Arc<ChannelHandle>,
    turn: TurnLink,
    platform: Arc<dyn Platform>,
    every: Duration,
    id: OutboxId,
    open: OpenTurn,
    intended: bool,
    message: Option<MessageId>,
    /// Since when a message may exist that is not confirmed.
    unsure: Option<Timestamp>,
    shown: String,
    /// The message is full; the value is the number of restarts of the answer at that time.
    full_since: Option<u64>,
    pace: Pace,
    n_edits: u32,
}

enum Next {
    At(Instant),
    Never,
}

impl Drafter {
    /// A drafter for the open turn, which continues an earlier draft after a restart. `None`: the platform shows no drafts.
    pub(super) fn new(
        ports: &Arc<Ports>,
        handle: &Arc<ChannelHandle>,
        turn: &TurnLink,
        open: &OpenTurn,
        platform: Arc<dyn Platform>,
    ) -> Option<Self> {
        let every = platform.traits().draft_every?;
        let draft = open.draft.clone();
        Some(Self {
            ports: Arc::clone(ports),
            handle: Arc::clone(handle),
            turn: turn.clone(),
            platform,
            every,
            id: OutboxId::from(format!("{}:{}:draft", handle.id, open.id)),
            open: open.clone(),
            intended: draft.is_some(),
            message: draft.as_ref().and_then(|draft| draft.message.clone()),
            unsure: draft.and_then(|draft| draft.attempted_at.filter(|_| draft.message.is_none())),
            shown: String::new(),
            full_since: None,
            pace: Pace::up_to(PAUSE_MAX),
            n_edits: 0,
        })
    }

    /// Shows drafts until it is stopped. Returns events that are not journalled yet.
    pub(super) async fn run(mut self, stop: DraftStop) -> Vec<Event> {
        let mut changes = self.handle.subscribers.changes();
        let mut due = None;
        let mut is_behind = self.part().await.is_some();
        loop {
            if !is_behind {
                tokio::select! {
                    biased;
                    () = stop.soon.cancelled() => break,
                    changed = changes.changed() => if changed.is_err() { break },
                }
                is_behind = self.full_since != Some(*changes.borrow());
                continue;
            }
            // The first text waits, too: a quick answer needs no draft.
            let at = *due.get_or_insert_with(|| Instant::now() + self.every);
            tokio::select! {
                biased;
                () = stop.soon.cancelled() => break,
                () = tokio::time::sleep_until(at) => {}
            }
            let restarts = *changes.borrow_and_update();
            let Some((words, is_full)) = self.part().await else {
                is_behind = false;
                due = due.filter(|_| !self.shown.is_empty());
                continue;
            };
            if words != self.shown {
                let (next, events) = self.show(words.clone(), &stop).await;
                if stop.soon.is_cancelled() || !events.is_empty() {
                    return self.last(&stop, events).await;
                }
                match next {
                    Next::At(at) => due = Some(at),
                    Next::Never => break,
                }
            }
            is_behind = words != self.shown;
            self.full_since = (is_full && !is_behind).then_some(restarts);
        }
        stop.soon.cancelled().await;
        self.last(&stop, Vec::new()).await
    }

    /// The text to show now, as much as fits one message, and whether more text no longer changes it. `None`: there is no
    /// text yet.
    async fn part(&self) -> Option<(String, bool)> {
        let words = self.handle.shown_so_far();
        let n_bytes = words.len();
        let part = self.ports.split(&self.platform, words, Platform::first_part).await?;
        let is_full = n_bytes > part.len() * FULL;
        Some((part, is_full))
    }

    /// Sends or edits the draft.
    async fn show(&mut self, words: String, stop: &DraftStop) -> (Next, Vec<Event>) {
        match self.message.clone() {
            Some(message) => (self.edit(message, words).await, Vec::new()),
            // No draft overtakes a pending delivery.
            None if self.handle.read(|conversation| !conversation.owed.is_empty()) => {
                (Next::At(Instant::now() + self.every), Vec::new())
            }
            None => self.first(words, stop).await,
        }
    }

    async fn edit(&mut self, message: MessageId, words: String) -> Next {
        let request = self.platform.edit(self.handle.id.clone(), message, words.clone());
        let result = tokio::time::timeout(REQUEST_LIMIT, request).await;
        match result.unwrap_or_else(|_| Err(SendError::Unknown("no answer in time".to_owned()))) {
            Ok(()) => {
                self.shown = words;
                self.n_edits += 1;
                let slower = if self.n_edits < BRISK_EDITS { 1 } else { 2 };
                Next::At(Instant::now() + self.every * slower)
            }
            Err(SendError::Refused(reason)) => {
                tracing::debug!(channel = %self.handle.id, reason, "no more drafts are shown");
                Next::Never
            }
            Err(SendError::Later { after, .. }) => self.later(after),
            Err(SendError::Unknown(_)) => self.later(None),
        }
    }

    fn later(&mut self, asked: Option<Duration>) -> Next {
        Next::At(Instant::now() + asked.unwrap_or_else(|| self.pace.next()).max(self.every))
    }

    /// Sends the draft for the first time, or repeats an unconfirmed send.
    async fn first(&mut self, words: String, stop: &DraftStop) -> (Next, Vec<Event>) {
        let since = match self.unsure {
            Some(since) if self.may_repeat(since) => since,
            Some(_) => return (Next::Never, Vec::new()),
            None => {
                if !self.journal(self.attempt(), stop).await {
                    return (Next::Never, Vec::new());
                }
                self.intended = true;
                self.ports.now()
            }
        };
        let was_sure = self.unsure.is_none();
        if stop.soon.is_cancelled() && was_sure {
            return (Next::Never, vec![self.put_off("its turn has ended")]);
        }
        let (next, event) = match self.send(words.clone()).await {
            Ok(message) => {
                self.unsure = None;
                self.message = Some(message.clone());
                self.shown = words;
                let sent = Event::Delivery(DeliveryEvent::Sent { id: self.id.clone(), part: 0, message });
                (Next::At(Instant::now() + self.every), Some(sent))
            }
            Err(SendError::Unknown(_)) => {
                tracing::warn!(channel = %self.handle.id, "it is unknown whether a draft was sent");
                self.unsure = Some(since);
                let next = if self.may_repeat(since) { self.later(None) } else { Next::Never };
                (next, None)
            }
            Err(SendError::Later { after, reason }) => {
                (self.later(after), was_sure.then(|| self.put_off(&reason)))
            }
            Err(SendError::Refused(reason)) => {
                tracing::debug!(channel = %self.handle.id, reason, "no drafts are shown");
                (Next::Never, was_sure.then(|| self.put_off(&reason)))
            }
        };
        let Some(event) = event else { return (next, Vec::new()) };
        if self.journal(vec![event.clone()], stop).await {
            return (next, Vec::new());
        }
        (Next::Never, vec![event])
    }

    fn attempt(&self) -> Vec<Event> {
        let intent = Event::Delivery(DeliveryEvent::Intended {
            id: self.id.clone(),
            turn: self.open.id.clone(),
            seq: self.open.first_seq,
            note: None,
            approval: None,
            reply_to: self.open.reply_to.clone(),
            edits: None,
            draft: true,
            files: Vec::new(),
        });
        let attempt = Event::Delivery(DeliveryEvent::Attempted { id: self.id.clone(), part: 0 });
        (!self.intended).then_some(intent).into_iter().chain([attempt]).collect()
    }

    fn put_off(&self, reason: &str) -> Event {
        Event::Delivery(DeliveryEvent::PutOff { id: self.id.clone(), part: 0, reason: reason.to_owned() })
    }

    async fn send(&self, words: String) -> Result<MessageId, SendError> {
        let part = SendPart {
            delivery: self.id.clone(),
            part: 0,
            channel: self.handle.id.clone(),
            reply_to: self.open.reply_to.clone(),
            words,
            approval: None,
            files: Vec::new(),
        };
        match tokio::time::timeout(REQUEST_LIMIT, self.platform.send(part)).await {
            Ok(result) => result,
            Err(_) => Err(SendError::Unknown("no answer in time".to_owned())),
        }
    }

    /// False: it is not journalled, and never will be.
    async fn journal(&self, events: Vec<Event>, stop: &DraftStop) -> bool {
        tokio::select! {
            // An answer that came before the stop counts.
            biased;
            done = self.turn.step(events) => done.is_ok(),
            () = stop.now.cancelled() => false,
        }
    }

    /// Whether the platform still guards against a duplicate of what was first sent at that time.
    fn may_repeat(&self, since: Timestamp) -> bool {
        self.platform.traits().may_repeat(since, self.ports.now())
    }

    /// Finds out the fate of an unconfirmed draft after the turn has ended, if possible.
    async fn last(mut self, stop: &DraftStop, mut events: Vec<Event>) -> Vec<Event> {
        while let Some(since) = self.unsure.filter(|since| self.may_repeat(*since)) {
            if stop.now.is_cancelled() {
                break;
            }
            let words = self.part().await.map_or_else(|| "…".to_owned(), |(words, _)| words);
            match self.send(words).await {
                Ok(message) => {
                    self.unsure = None;
                    events.push(Event::Delivery(DeliveryEvent::Sent {
                        id: self.id.clone(),
                        part: 0,
                        message,
                    }));
                }
                Err(SendError::Refused(_)) => break,
                Err(SendError::Later { .. } | SendError::Unknown(_)) => {
                    tracing::debug!(channel = %self.handle.id, %since, "the fate of a draft is not known yet");
                    tokio::time::sleep(LAST_PAUSE).await;
                }
            }
        }
        events
    }
}
