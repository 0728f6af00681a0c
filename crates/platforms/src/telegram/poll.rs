//! The polling loop, the handling of failed calls, and the registration of commands.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::command::COMMANDS;
use cairn_types::ports::{AdapterFailure, AdapterPorts, LinkState};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use teloxide::payloads::{GetMe, GetMyCommands, GetUpdates, SetMyCommands};
use teloxide::requests::Payload;
use teloxide::types::{AllowedUpdate, BotCommand};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::api::CallError;
use super::handler::{Done, InboundHandler, Job};
use super::notice::NOTICES_MAX;
use super::offset_tracker::{OffsetTracker, WINDOW};
use super::wire::{self, MenuEntry, UnreadableUpdate, Update, User};
use super::{Telegram, backfill, webhook};
use crate::chat_queues::{ChatQueues, Tasks};
use crate::inbound::InboundPath;
use crate::pause::Pauses;

/// A poll that is this much late counts as failed.
const MARGIN: Duration = Duration::from_secs(10);

/// Longest time for a call that is not held open.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// First and longest pause between polls while updates are in progress, which Telegram returns again at once.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The kinds of updates that are requested.
pub(super) const ALLOWED_UPDATES: [AllowedUpdate; 5] = [
    AllowedUpdate::Message,
    AllowedUpdate::EditedMessage,
    AllowedUpdate::MyChatMember,
    AllowedUpdate::CallbackQuery,
    AllowedUpdate::MessageReaction,
];

/// Runs the adapter: connects and takes in updates until a lasting failure.
pub(super) async fn run(telegram: Arc<Telegram>, ports: AdapterPorts) -> AdapterFailure {
    let mut troubles = Troubles::default();
    let me = match connect(&telegram, &mut troubles).await {
        Ok(me) => Arc::new(me),
        Err(failure) => return failure,
    };
    if let Err(failure) = webhook::clear(&telegram, &mut troubles).await {
        return failure;
    }
    let started = telegram.now();
    let path =
        InboundPath::new(telegram.platform(), telegram.chat.clone(), ports, telegram.pairing_store.clone());
    let (tasks, _stop) = Tasks::new();
    let handler = InboundHandler {
        telegram: telegram.clone(),
        path: Arc::new(path),
        notices: Arc::new(Semaphore::new(NOTICES_MAX)),
        me,
        chat_queues: Arc::new(ChatQueues::default()),
        tasks,
    };
    let (done_sender, done) = mpsc::channel(WINDOW);
    let mut poller = Poller {
        telegram: &telegram,
        handler,
        started,
        offset_tracker: OffsetTracker::default(),
        done_sender,
        done,
        troubles,
        wait: FIRST_WAIT,
        unnumbered: false,
    };
    let registering = telegram.clone();
    poller.handler.tasks.spawn(async move { registering.register_commands().await });
    let Some(webhook) = &telegram.webhook else { return poller.poll().await };
    match poller.drain().await {
        Ok(()) => poller.serve(webhook).await,
        Err(failure) => failure,
    }
}

/// Repeats a call until it is answered, or fails for good.
pub(super) async fn ask<P>(
    telegram: &Telegram,
    payload: &P,
    troubles: &mut Troubles,
) -> Result<Value, AdapterFailure>
where
    P: Payload + Serialize + Sync,
{
    loop {
        let error = match telegram.api.call(payload, CALL_TIMEOUT).await {
            Ok(answer) => {
                troubles.over();
                return Ok(answer);
            }
            Err(error) => error,
        };
        troubles.wait(&error, telegram).await?;
    }
}

/// Asks for the bot's identity until there is an answer.
async fn connect(telegram: &Telegram, troubles: &mut Troubles) -> Result<User, AdapterFailure> {
    telegram.link.set(LinkState::Connecting, None);
    loop {
        let asked = Instant::now();
        let error = match telegram.api.call(&GetMe::new(), CALL_TIMEOUT).await {
            Ok(me) => match serde_json::from_value::<User>(me) {
                Ok(me) => {
                    telegram.link.latency(asked.elapsed());
                    greet(telegram, &me);
                    troubles.over();
                    return Ok(me);
                }
                Err(_) => {
                    CallError::Garbled { status: 200, what: "an answer to getMe without a bot".to_owned() }
                }
            },
            Err(error) => error,
        };
        troubles.wait(&error, telegram).await?;
    }
}

fn greet(telegram: &Telegram, me: &User) {
    let name = me.username.as_deref().map_or_else(|| me.first_name.clone(), |name| format!("@{name}"));
    telegram.link.set_name(name);
    telegram.link.set(LinkState::Connected, None);
    tracing::info!(
        bot = me.id,
        hears_all = me.can_read_all_group_messages,
        "connected to Telegram; without `hears_all` the bot gets only messages that are addressed to it in groups \
         (BotFather: /setprivacy)"
    );
}

/// Takes in updates, from polls or the webhook.
pub(super) struct Poller<'a> {
    pub(super) telegram: &'a Telegram,
    pub(super) handler: InboundHandler,
    started: Timestamp,
    pub(super) offset_tracker: OffsetTracker,
    /// Receives the ids of updates that are done.
    pub(super) done: mpsc::Receiver<i64>,
    done_sender: mpsc::Sender<i64>,
    pub(super) troubles: Troubles,
    wait: Duration,
    /// An update without a number was logged; it is delivered again and again.
    unnumbered: bool,
}

impl Poller<'_> {
    /// Polls until a lasting failure.
    async fn poll(mut self) -> AdapterFailure {
        loop {
            if let Err(failure) = self.round(false).await {
                return failure;
            }
        }
    }

    /// Polls until fewer than [`WINDOW`] updates are left, so that missed messages are taken in and answered together.
    async fn drain(&mut self) -> Result<(), AdapterFailure> {
        while self.round(true).await?.is_none_or(|size| size >= WINDOW) {}
        Ok(())
    }

    /// One poll, and the pause after it. Returns the number of updates; `None`: it failed and is to be repeated.
    async fn round(&mut self, at_once: bool) -> Result<Option<usize>, AdapterFailure> {
        let batch = match self.ask(at_once).await {
            Ok(batch) => batch,
            Err(error) => match self.troubles.met(&error, self.telegram) {
                Next::Again(pause) => {
                    self.pass(pause, false).await;
                    return Ok(None);
                }
                Next::Fail(failure) => return Err(failure),
            },
        };
        self.troubles.over();
        self.telegram.link.set(LinkState::Connected, None);
        self.offset_tracker.confirmed();
        let size = batch.len();
        let news = self.enqueue(batch).await;
        self.wait = if news { FIRST_WAIT } else { (self.wait * 2).min(LONGEST_WAIT) };
        // All updates that Telegram returns at once are in progress, or done after one that waits.
        self.handler.path.set_crowded(size >= WINDOW && !news);
        // An update without a number cannot be confirmed; it is returned with every poll until another one follows.
        let stuck = size > 0 && self.offset_tracker.offset().is_none();
        match (stuck, size) {
            (true, _) => self.pass(LONGEST_WAIT, false).await,
            (false, 0) => self.pass(Duration::ZERO, true).await,
            (false, _) => self.pass(self.wait, true).await,
        }
        Ok(Some(size))
    }

    /// One poll. Meanwhile finished updates are recorded.
    async fn ask(&mut self, at_once: bool) -> Result<Vec<Box<RawValue>>, CallError> {
        // While updates are in progress Telegram answers at once anyway; after a failure a quick answer shows that it
        // is over.
        let at_once = at_once || self.offset_tracker.under_way() > 0 || self.troubles.any();
        let hold = if at_once { Duration::ZERO } else { self.telegram.poll_timeout };
        let mut payload = GetUpdates::new();
        // A negative offset has another meaning.
        payload.offset =
            self.offset_tracker.offset().and_then(|offset| i32::try_from(offset).ok()).filter(|n| *n > 0);
        payload.limit = u8::try_from(WINDOW).ok();
        payload.timeout = u32::try_from(hold.as_secs()).ok();
        payload.allowed_updates = Some(ALLOWED_UPDATES.to_vec());
        let asked = Instant::now();
        let call = self.telegram.api.call_unread(&payload, hold + MARGIN);
        tokio::pin!(call);
        let answer = loop {
            tokio::select! {
                answer = &mut call => break answer?,
                Some(update) = self.done.recv() => self.offset_tracker.finish(update),
            }
        };
        if at_once {
            self.telegram.link.latency(asked.elapsed());
        }
        serde_json::from_str(answer.get()).map_err(|_| CallError::Garbled {
            status: 200,
            what: "an answer to getUpdates without a list".to_owned(),
        })
    }

    /// Waits, and records finished updates. `done`: stops early when no update is in progress.
    async fn pass(&mut self, pause: Duration, done: bool) {
        let until = Instant::now() + pause;
        while !(done && self.offset_tracker.under_way() == 0) {
            tokio::select! {
                () = tokio::time::sleep_until(until) => break,
                Some(update) = self.done.recv() => self.offset_tracker.finish(update),
            }
        }
        self.telegram.link.set_queue(self.offset_tracker.under_way() as u64);
    }

    /// Queues the new updates. Returns whether there were any.
    pub(super) async fn enqueue(&mut self, batch: Vec<Box<RawValue>>) -> bool {
        let (mut news, mut fresh) = (false, Vec::new());
        for update in batch {
            let (id, read) = wire::parse(&update);
            if let Some(id) = id
                && !self.offset_tracker.is_new(id)
            {
                self.offset_tracker.take(id);
                continue;
            }
            let update = match (id, read) {
                (Some(id), Ok(update)) => (id, update),
                (Some(id), Err(error)) => {
                    unread(Some(id), &error);
                    self.offset_tracker.take(id);
                    self.offset_tracker.finish(id);
                    continue;
                }
                (None, read) => {
                    let error =
                        read.err().unwrap_or(UnreadableUpdate { kind: "none", why: "it has no number" });
                    if !std::mem::replace(&mut self.unnumbered, true) {
                        unread(None, &error);
                    }
                    continue;
                }
            };
            // Before later messages of the chat, which need the new id.
            if !self.follow(&update.1).await {
                break;
            }
            news = true;
            self.offset_tracker.take(update.0);
            fresh.push(update);
        }
        if news {
            self.telegram.link.inbound();
        }
        let reader = backfill::Reader {
            telegram: self.telegram,
            me: &self.handler.me,
            path: &self.handler.path,
            started: self.started,
        };
        let dues = reader.dues(&self.offset_tracker, &fresh).await;
        for ((id, update), due) in fresh.into_iter().zip(dues) {
            if let Some(message) = backfill::message_key(&update) {
                self.offset_tracker.brings(id, message);
            }
            let done = Done { update: id, poller: self.done_sender.clone() };
            self.handler.push(Job { update, due, done });
        }
        news
    }

    /// Records that a chat has moved. Returns false if that failed; then later updates must wait.
    async fn follow(&self, update: &Update) -> bool {
        let Update::Message(message) = update else { return true };
        let chat = message.chat.id;
        let moves = [
            message.migrate_to_chat_id.map(|to| (chat, to)),
            message.migrate_from_chat_id.map(|from| (from, chat)),
        ];
        for (from, to) in moves.into_iter().flatten() {
            tracing::info!(from, to, "a Telegram chat has a new id; its conversation continues");
            let noted = self.telegram.pairing_store.migrate(
                self.telegram.platform().to_owned(),
                from.to_string(),
                to.to_string(),
            );
            if let Err(error) = noted.await {
                tracing::error!(from, to, %error, "the new id of a chat could not be saved; trying again");
                tokio::time::sleep(LONGEST_WAIT).await;
                return false;
            }
            self.telegram.works(from);
        }
        true
    }
}

fn unread(id: Option<i64>, unread: &UnreadableUpdate) {
    let UnreadableUpdate { kind, why } = *unread;
    metrics::counter!("cairn_telegram_updates_total", "outcome" => "unread").increment(1);
    tracing::warn!(update = id, kind, why, "an update from Telegram cannot be read; it is skipped");
}

const FIRST_FAILURE_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Conflicts that last this long do not come from an old connection of ours, nor from a daemon that is being replaced.
const CONFLICT_LASTS: Duration = Duration::from_secs(5);

/// Conflicts this far apart have nothing to do with each other.
const CONFLICT_WINDOW: Duration = Duration::from_secs(60);

/// So many refusals of the bot in a row are believed; fewer may be a fault of Telegram or a proxy.
const REFUSALS: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    Again(Duration),
    Fail(AdapterFailure),
}

pub(super) struct Troubles {
    pauses: Pauses,
    any: bool,
    /// Refusals of the bot since the last answer.
    refusals: u32,
    /// The first and the last of the conflicts.
    conflicts: Option<(Instant, Instant)>,
}

impl Default for Troubles {
    fn default() -> Self {
        let pauses = Pauses::new(FIRST_FAILURE_PAUSE, LONGEST_FAILURE_PAUSE);
        Self { pauses, any: false, refusals: 0, conflicts: None }
    }
}

impl Troubles {
    pub(super) fn over(&mut self) {
        if std::mem::take(&mut self.any) {
            tracing::info!("Telegram answers again");
        }
        self.pauses.reset();
        self.refusals = 0;
    }

    fn any(&self) -> bool {
        self.any
    }

    /// Records a failed call and decides what to do next.
    fn met(&mut self, error: &CallError, telegram: &Telegram) -> Next {
        metrics::counter!("cairn_telegram_poll_failures_total", "kind" => kind(error)).increment(1);
        let named = to_be_fixed(error);
        if let Some(failure) = named.clone().filter(|_| self.lasts(error, Instant::now())) {
            return Next::Fail(failure);
        }
        let pause = match error {
            CallError::Api { retry_after: Some(wait), .. } => *wait,
            _ => self.pauses.next(),
        };
        let (reason, hint) = (error.to_string(), passing_hint(error).to_owned());
        let hint = named.map_or(hint, |named| format!("if it stays so: {}", named.hint));
        let failure = AdapterFailure { reason, hint, lasting: false };
        if std::mem::replace(&mut self.any, true) {
            tracing::debug!(%error, ?pause, "telegram still fails");
        } else {
            tracing::warn!(%error, ?pause, hint = failure.hint, "cannot get updates from Telegram; trying again");
        }
        telegram.link.set(LinkState::Reconnecting, Some(&failure));
        Next::Again(pause)
    }

    /// Records a failed call and waits until it may be repeated.
    ///
    /// # Errors
    /// The failure is lasting.
    pub(super) async fn wait(
        &mut self,
        error: &CallError,
        telegram: &Telegram,
    ) -> Result<(), AdapterFailure> {
        match self.met(error, telegram) {
            Next::Again(pause) => tokio::time::sleep(pause).await,
            Next::Fail(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Whether a failure that somebody must fix is there to stay.
    fn lasts(&mut self, error: &CallError, now: Instant) -> bool {
        let CallError::Api { code: 409, description, .. } = error else {
            self.refusals += 1;
            return self.refusals >= REFUSALS;
        };
        let recent = self.conflicts.filter(|(_, last)| now - *last <= CONFLICT_WINDOW);
        let first = recent.map_or(now, |(first, _)| first);
        self.conflicts = Some((first, now));
        description.contains("webhook") || now - first >= CONFLICT_LASTS
    }
}

/// The failure of a call after which only a person can help, if it stays so.
fn to_be_fixed(error: &CallError) -> Option<AdapterFailure> {
    let CallError::Api { code, description, .. } = error else { return None };
    let failure =
        |reason: String, hint: &str| Some(AdapterFailure { reason, hint: hint.to_owned(), lasting: true });
    match code {
        401 | 404 => failure(
            format!("Telegram does not know this token ({description})"),
            "copy the token again from @BotFather; if it was revoked, the new one is there",
        ),
        403 => failure(
            format!("Telegram refuses this bot ({description})"),
            "look at the bot in @BotFather: is it still there, and not blocked?",
        ),
        409 if description.contains("webhook") => Some(webhook::of_another()),
        409 => failure(
            "another program asks Telegram for updates with this token (409 Conflict)".to_owned(),
            "stop the other program, or give each a bot of its own; if nobody knows of one, revoke the token in \
             @BotFather",
        ),
        _ => None,
    }
}

fn kind(error: &CallError) -> &'static str {
    match error {
        CallError::Api { code: 429, .. } => "rate_limited",
        CallError::Api { code: 409, .. } => "conflict",
        CallError::Api { .. } => "refused",
        CallError::Connect(_) => "unreachable",
        CallError::Broken(_) => "broken",
        CallError::Garbled { .. } => "garbled",
    }
}

fn passing_hint(error: &CallError) -> &'static str {
    match error {
        CallError::Api { .. } => "nothing: it is tried again",
        CallError::Connect(_) | CallError::Broken(_) => {
            "is the network up, and `api_url` right? it is tried again"
        }
        CallError::Garbled { .. } => "is `api_url` the address of a Bot API server? it is tried again",
    }
}

impl Telegram {
    /// Registers the commands if Telegram has others. If this fails, they still work.
    async fn register_commands(&self) {
        match self.try_register().await {
            Ok(true) => tracing::info!("Telegram accepted the list of commands"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error,
                    "Telegram refused the list of commands; the commands work, but are not suggested");
            }
        }
    }

    async fn try_register(&self) -> Result<bool, CallError> {
        let texts = self.chat.get().own_texts();
        let wanted: Vec<MenuEntry> = COMMANDS
            .iter()
            .map(|spec| MenuEntry { command: spec.name.to_owned(), description: texts.say(spec.description) })
            .collect();
        if let Ok(known) = self.api.call(&GetMyCommands::new(), CALL_TIMEOUT).await
            && serde_json::from_value::<Vec<MenuEntry>>(known).is_ok_and(|known| known == wanted)
        {
            return Ok(false);
        }
        let commands = wanted.into_iter().map(|entry| BotCommand::new(entry.command, entry.description));
        self.api.call(&SetMyCommands::new(commands), CALL_TIMEOUT).await.map(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: i64, description: &str) -> CallError {
        CallError::Api { code, description: description.to_owned(), retry_after: None, migrate_to: None }
    }

    #[test]
    fn a_failure_that_a_person_must_fix_is_believed_when_it_stays() {
        let now = Instant::now();
        let conflict = api(409, "Conflict: terminated by other getUpdates request");
        let lasts = |failures: &[(u64, &CallError)]| -> Vec<bool> {
            let mut troubles = Troubles::default();
            let at = |millis| now + Duration::from_millis(millis);
            failures.iter().map(|(millis, error)| troubles.lasts(error, at(*millis))).collect()
        };
        let unauthorized = api(401, "Unauthorized");
        assert_eq!(
            lasts(&[(0, &unauthorized), (500, &unauthorized), (1500, &unauthorized)]),
            [false, false, true]
        );
        assert_eq!(lasts(&[(0, &conflict), (400, &conflict), (5000, &conflict)]), [false, false, true]);
        assert_eq!(
            lasts(&[(0, &conflict), (61_000, &conflict)]),
            [false, false],
            "they are not of one cause"
        );
        assert_eq!(
            lasts(&[(0, &api(409, "Conflict: can't use getUpdates while webhook is active"))]),
            [true]
        );
    }
}
