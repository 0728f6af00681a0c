//! The loop that asks Telegram for updates.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::ports::{AdapterFailure, AdapterPorts, Intake, LinkState};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use teloxide::payloads::{GetMe, GetUpdates};
use teloxide::types::AllowedUpdate;
use tokio::time::Instant;

use super::api::CallError;
use super::chat_queues::{ChatQueues, Hold, Job, Release};
use super::missed;
use super::notice::Notices;
use super::offset_tracker::{OffsetTracker, WINDOW};
use super::sent::Place;
use super::trouble::{Next, Troubles};
use super::visit::{Host, Work};
use super::wire::{self, Message, Unread, Update, User};
use super::words::{self, Given};
use super::{NAME, Telegram};

/// A poll that is not answered so long after it should be is dead, as the connection is.
const MARGIN: Duration = Duration::from_secs(10);

/// How long a call that answers at once may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Pauses between polls while updates are under way, which Telegram gives again at once.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// While others cannot be heard, an update waits at most so long for room in its channel.
const PATIENCE: Duration = Duration::from_secs(10);

/// And so long for a channel that takes nothing, though others do.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// Commands that pass messages which wait for room: they may be what makes the room.
const URGENT: [&str; 3] = ["stop", "approve", "deny"];

/// The lane of a chat's presses, which wait for nothing that is said there. No topic has this number.
const PRESSES: i64 = i64::MIN;

/// Connects and takes in what comes, until it fails for good.
pub(super) async fn run(telegram: Arc<Telegram>, ports: AdapterPorts) -> AdapterFailure {
    let started = telegram.now();
    let mut troubles = Troubles::default();
    let me = match connect(&telegram, &mut troubles).await {
        Ok(me) => Arc::new(me),
        Err(failure) => return failure,
    };
    let (notices, queue) = Notices::queue();
    let intake = ports.intake.clone();
    let host = Host { telegram: telegram.clone(), ports, notices, me: me.clone() };
    let start = move |work: Work, hold: Arc<Hold>, release: Release| -> BoxFuture<'static, ()> {
        Box::pin(host.clone().visit(work, hold, release))
    };
    let poller = Poller {
        telegram: &telegram,
        me,
        intake,
        started,
        offset_tracker: OffsetTracker::default(),
        chat_queues: ChatQueues::new(start),
        troubles,
        wait: FIRST_WAIT,
        unnumbered: false,
    };
    let aside = async {
        telegram.register_commands().await;
        telegram.say_notices(queue).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        failure = poller.poll() => failure,
        () = aside => AdapterFailure {
            reason: "the telegram adapter came to an end".to_owned(),
            hint: "it is started again".to_owned(),
            lasting: false,
        },
    }
}

/// Asks who the bot is, until there is an answer.
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
        match troubles.met(&error, telegram) {
            Next::Again(pause) => tokio::time::sleep(pause).await,
            Next::Fail(failure) => return Err(failure),
        }
    }
}

fn greet(telegram: &Telegram, me: &User) {
    let name = me.username.as_deref().map_or_else(|| me.first_name.clone(), |name| format!("@{name}"));
    telegram.link.set_name(name);
    telegram.link.set(LinkState::Connected, None);
    tracing::info!(
        bot = me.id,
        hears_all = me.can_read_all_group_messages,
        "connected to telegram; without `hears_all` the bot gets only what is addressed to it in groups (BotFather: \
         /setprivacy)"
    );
}

struct Poller<'a, F> {
    telegram: &'a Telegram,
    me: Arc<User>,
    intake: Arc<dyn Intake>,
    started: Timestamp,
    offset_tracker: OffsetTracker,
    chat_queues: ChatQueues<Work, F>,
    troubles: Troubles,
    wait: Duration,
    /// An update without a number was seen; it comes again and again, and is told once.
    unnumbered: bool,
}

impl<F, Fut> Poller<'_, F>
where
    F: FnMut(Work, Arc<Hold>, Release) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    async fn poll(mut self) -> AdapterFailure {
        loop {
            let pause = match self.ask().await {
                Ok(batch) => {
                    self.troubles.over();
                    self.telegram.link.set(LinkState::Connected, None);
                    self.offset_tracker.confirmed();
                    let size = batch.len();
                    let news = self.take_in(batch).await;
                    self.wait = if news { FIRST_WAIT } else { (self.wait * 2).min(LONGEST_WAIT) };
                    if size >= WINDOW && !news {
                        self.make_way();
                    }
                    self.chat_queues.let_urgent_pass();
                    // What has no number cannot be confirmed: it comes with every poll until something follows it.
                    let stuck = size > 0 && self.offset_tracker.offset().is_none();
                    if stuck {
                        self.pass(LONGEST_WAIT, false).await;
                        continue;
                    }
                    if size > 0 { self.wait } else { Duration::ZERO }
                }
                Err(error) => match self.troubles.met(&error, self.telegram) {
                    Next::Again(pause) => {
                        self.pass(pause, false).await;
                        continue;
                    }
                    Next::Fail(failure) => return failure,
                },
            };
            self.pass(pause, true).await;
        }
    }

    /// One poll. Updates under way go on meanwhile.
    async fn ask(&mut self) -> Result<Vec<Value>, CallError> {
        // While something is under way Telegram has something to give at once, and after a failure it is to be known
        // soon whether it is over.
        let at_once = self.offset_tracker.under_way() > 0 || self.troubles.any();
        let hold = if at_once { Duration::ZERO } else { self.telegram.poll_timeout };
        let mut payload = GetUpdates::new();
        // A negative one would mean another thing.
        payload.offset =
            self.offset_tracker.offset().and_then(|offset| i32::try_from(offset).ok()).filter(|n| *n > 0);
        payload.limit = u8::try_from(WINDOW).ok();
        payload.timeout = u32::try_from(hold.as_secs()).ok();
        payload.allowed_updates = Some(vec![
            AllowedUpdate::Message,
            AllowedUpdate::EditedMessage,
            AllowedUpdate::MyChatMember,
            AllowedUpdate::CallbackQuery,
        ]);
        let asked = Instant::now();
        let call = self.telegram.api.call(&payload, hold + MARGIN);
        tokio::pin!(call);
        let answer = loop {
            tokio::select! {
                answer = &mut call => break answer?,
                done = self.chat_queues.step() => done.into_iter().for_each(|update| self.offset_tracker.finish(update)),
            }
        };
        if at_once {
            self.telegram.link.latency(asked.elapsed());
        }
        match answer {
            Value::Array(batch) => Ok(batch),
            _ => Err(CallError::Garbled {
                status: 200,
                what: "an answer to getUpdates without a list".to_owned(),
            }),
        }
    }

    /// Waits, while updates under way go on. `done`: no longer than until all of them are done.
    async fn pass(&mut self, pause: Duration, done: bool) {
        let until = Instant::now() + pause;
        while !(done && self.offset_tracker.under_way() == 0) {
            tokio::select! {
                () = tokio::time::sleep_until(until) => break,
                done = self.chat_queues.step() => done.into_iter().for_each(|update| self.offset_tracker.finish(update)),
            }
        }
        self.telegram.link.set_queue(self.offset_tracker.under_way() as u64);
    }

    /// Puts what is new into its lanes. Gives whether anything was.
    async fn take_in(&mut self, batch: Vec<Value>) -> bool {
        let (mut news, mut fresh) = (false, Vec::new());
        for value in batch {
            let (id, read) = wire::read(value);
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
                    let error = read.err().unwrap_or(Unread { kind: "none", why: "it has no number" });
                    if !std::mem::replace(&mut self.unnumbered, true) {
                        unread(None, &error);
                    }
                    continue;
                }
            };
            // Later messages of the chat must find it moved.
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
        let reader = missed::Reader {
            telegram: self.telegram,
            me: &self.me,
            intake: self.intake.as_ref(),
            started: self.started,
        };
        let dues = reader.dues(&self.offset_tracker, &fresh).await;
        for ((update, says), due) in fresh.into_iter().zip(dues) {
            if let Some((said, _)) = missed::said(&says) {
                self.offset_tracker.brings(update, said);
            }
            let (place, urgent) = (place_of(&says), self.is_urgent(&says));
            self.chat_queues.push(place, Job { update, urgent, work: Work { update: says, due } });
        }
        news
    }

    /// Notes that a chat moved. False: that could not be noted, so nothing after it may be taken in yet.
    async fn follow(&self, update: &Update) -> bool {
        let Update::Message(message) = update else { return true };
        let chat = message.chat.id;
        let moves = [
            message.migrate_to_chat_id.map(|to| (chat, to)),
            message.migrate_from_chat_id.map(|from| (from, chat)),
        ];
        for (from, to) in moves.into_iter().flatten() {
            tracing::info!(from, to, "a telegram chat has another id now; its conversation goes on");
            let noted =
                self.telegram.pairing_store.migrate(NAME.to_owned(), from.to_string(), to.to_string());
            if let Err(error) = noted.await {
                tracing::error!(from, to, %error, "that a chat moved could not be kept; it is tried again");
                tokio::time::sleep(LONGEST_WAIT).await;
                return false;
            }
            self.telegram.works(from);
        }
        true
    }

    fn is_urgent(&self, update: &Update) -> bool {
        let Update::Message(message) = update else { return false };
        let Given::Mine { name, .. } = words::command(message, &self.me) else { return false };
        URGENT.iter().any(|urgent| name.eq_ignore_ascii_case(urgent))
    }

    /// All that Telegram gives at once is under way or done behind an update that waits to be taken in: nobody else could
    /// be heard. It waits no longer.
    fn make_way(&mut self) {
        if let Some(oldest) = self.offset_tracker.oldest() {
            self.chat_queues.give_up(oldest, PATIENCE, LONG_PATIENCE);
        }
    }
}

/// The lane of an update: its chat and topic.
pub(super) fn place_of(update: &Update) -> Place {
    let of = |message: &Message| (message.chat.id, message.topic());
    match update {
        Update::Message(message) | Update::Edited(message) => of(message),
        Update::Membership(change) => (change.chat.id, None),
        Update::Pressed(press) => {
            (press.message.as_ref().map_or(press.from.id, |message| message.chat.id), Some(PRESSES))
        }
    }
}

fn unread(id: Option<i64>, unread: &Unread) {
    let Unread { kind, why } = *unread;
    metrics::counter!("cairn_telegram_updates_total", "outcome" => "unread").increment(1);
    tracing::warn!(update = id, kind, why, "an update of telegram cannot be read; it is passed over");
}
