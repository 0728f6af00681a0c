//! Takes messages, edits and deletions of a bridge into the runtime, and answers people outside of conversations.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cairn_types::command::{Command, CommandAnswer};
use cairn_types::ids::{AgentId, ChannelId, MessageId};
use cairn_types::message::{Amendment, Change, Inbound, Part, Provenance};
use cairn_types::ports::AdapterPorts;
use cairn_types::texts::{Key, Saying};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

use super::hub::NoAck;
use super::routes::NoCall;
use super::wire::{Ack, Deleted, Delivery, File, Person, ReplyTo, Said, Taken};
use super::{Bridge, shown};
use crate::attach::{Attachment, Content};
use crate::chat_queues::Tasks;
use crate::inbound::{Access, Admitted, ChatAddress, InboundPath, Outcome, Sender};
use crate::markup::name::{display, one_line};
use crate::markup::split_aside;

/// Longest time for a call to be answered; then the bridge repeats it.
const HOLD: Duration = Duration::from_secs(25);

/// How often it is checked whether a command that takes long is durable, or a recording is transcribed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Most calls at once; further ones are put off.
const CALLS_MAX: usize = 64;

/// Most notices on their way, as on the other networks.
const NOTICES_MAX: usize = 64;

/// How long sending a notice is tried, and the pause in between.
const NOTICE_LIMIT: Duration = Duration::from_secs(120);
const NOTICE_PAUSE: Duration = Duration::from_secs(2);

/// Most characters of a quoted message.
const QUOTE_MAX: usize = 500;

/// What takes a bridge's messages in during one run of its adapter.
#[derive(Clone)]
pub(super) struct Intake {
    /// Weak: the bridge holds this.
    bridge: Weak<Bridge>,
    path: Arc<InboundPath>,
    tasks: Tasks,
    calls: Arc<Semaphore>,
    notices: Arc<Semaphore>,
    /// Messages whose recordings are being transcribed, at most [`CALLS_MAX`].
    heard: Arc<Mutex<HashSet<HeardMessage>>>,
}

type HeardMessage = (ChannelId, MessageId);

/// Removes a message from those that are being transcribed.
struct Hearing {
    heard: Arc<Mutex<HashSet<HeardMessage>>>,
    message: HeardMessage,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.heard.lock().remove(&self.message);
    }
}

/// Where a notice goes.
#[derive(Clone)]
struct Notice {
    chat: String,
    thread: Option<String>,
    reply_to: Option<String>,
    words: String,
}

fn address(said: &Said) -> ChatAddress {
    ChatAddress {
        server: None,
        chat: said.chat.clone(),
        thread: said.thread.clone(),
        title: said.title.clone(),
        direct: said.direct,
    }
}

/// The command at the start of a message: its name and its words.
fn command(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim().strip_prefix('/')?;
    let (name, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let is_name =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    is_name.then_some((name, words.trim()))
}

impl Intake {
    /// Dropping the guard stops what runs.
    pub(super) fn new(bridge: &Arc<Bridge>, ports: AdapterPorts) -> (Self, DropGuard) {
        let (tasks, guard) = Tasks::new();
        let pairing_store = Arc::clone(&bridge.pairing_store);
        let path = InboundPath::new(bridge.platform(), bridge.chat(), ports, pairing_store);
        let intake = Self {
            bridge: Arc::downgrade(bridge),
            path: Arc::new(path),
            tasks,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            notices: Arc::new(Semaphore::new(NOTICES_MAX)),
            heard: Arc::default(),
        };
        (intake, guard)
    }

    /// Does the work of a call, within bounds.
    async fn within(&self, work: impl Future<Output = Result<Taken, NoCall>>) -> Result<Taken, NoCall> {
        let Ok(_permit) = self.calls.try_acquire() else { return Err(NoCall::Busy) };
        self.path.set_crowded(self.calls.available_permits() < CALLS_MAX / 2);
        tokio::time::timeout(HOLD, work).await.unwrap_or(Err(NoCall::Busy))
    }

    pub(super) async fn message(&self, said: Said) -> Result<Taken, NoCall> {
        self.within(self.take(said)).await
    }

    pub(super) async fn edited(&self, said: Said) -> Result<Taken, NoCall> {
        self.within(self.amend(said)).await
    }

    pub(super) async fn deleted(&self, deleted: Deleted) -> Result<Taken, NoCall> {
        let Deleted { id, chat, thread, direct, at } = deleted;
        let address = ChatAddress { server: None, chat, thread, title: None, direct };
        let Some(channel) = self.path.channel_of(&address) else {
            return Ok(Taken::Ignored { reason: "its chat is not served".to_owned() });
        };
        let at = self.said_at(at);
        let amendment = Amendment { channel, message: MessageId::from(id), at, change: Change::Deleted };
        self.within(async { Ok(taken(self.path.amend(amendment).await).0) }).await
    }

    /// A time that the bridge gave, unless it lies ahead.
    fn said_at(&self, at: Option<Timestamp>) -> Timestamp {
        let now = self.path.now();
        at.map_or(now, |at| at.min(now))
    }

    fn sender(&self, author: &Person) -> Sender {
        let me = self.bridge.upgrade().and_then(|bridge| bridge.said.read().hello.me.clone());
        Sender {
            id: author.id.clone(),
            name: display(&author.name),
            bot: author.bot,
            myself: me.as_ref() == Some(&author.id),
        }
    }

    async fn take(&self, said: Said) -> Result<Taken, NoCall> {
        let (sender, at) = (self.sender(&said.author), address(&said));
        let time = self.said_at(said.at);
        let late = self.path.now().duration_since(time) > self.path.chat.get().catch_up.max_age;
        let calls_me = said.addressed || said.direct;
        let given = command(&said.text).filter(|_| calls_me && !said.forwarded && said.files.is_empty());
        let parsed = given.and_then(|(name, words)| Command::parse(name, words));
        let admitted = match self.path.judge(&sender, said.addressed, &at) {
            Access::Admitted(admitted) => admitted,
            Access::Ignored(reason) => return Ok(Taken::Ignored { reason: reason.to_owned() }),
            Access::Stranger => {
                let own = parsed.as_ref().and_then(|command| command.as_ref().ok()).filter(|_| !late);
                match own.and_then(|command| self.path.for_own_data(&sender, &at, command)) {
                    Some(admitted) => admitted,
                    None => {
                        if let Some(words) = self.path.pairing_reply(&sender, &at).await {
                            self.reply(&said, words);
                        }
                        return Ok(Taken::Pairing);
                    }
                }
            }
        };
        if let Some(bridge) = self.bridge.upgrade() {
            bridge.link.inbound();
        }
        match (given, parsed) {
            // A command too old to run must not reach the model as text.
            (Some(_), _) if late => Ok(Taken::Ignored { reason: "the command is too old to run".to_owned() }),
            (Some(_), Some(command)) => self.command(said, admitted, command, time).await,
            (Some(_), None) => {
                self.reply(&said, self.path.texts(&admitted).say(Key::UnknownCommand));
                Ok(Taken::Command)
            }
            (None, _) if self.may_take_long(&said) => self.submit_aside(said, admitted, time, late).await,
            (None, _) => self.submit(said, admitted, time, late).await,
        }
    }

    /// Whether a message has a recording to transcribe.
    fn may_take_long(&self, said: &Said) -> bool {
        self.path.chat.get().transcriber.is_some() && said.files.iter().any(File::is_sound)
    }

    /// Submits a message in a task, so that a transcription that outlasts the call is not lost. A repeat waits for it.
    async fn submit_aside(
        &self,
        said: Said,
        admitted: Admitted,
        at: Timestamp,
        late: bool,
    ) -> Result<Taken, NoCall> {
        let message = (admitted.channel.clone(), MessageId::from(said.id.as_str()));
        let hearing = loop {
            match self.hearing(&message)? {
                Some(hearing) => break hearing,
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        let (intake, (tell, told)) = (self.clone(), oneshot::channel());
        self.tasks.spawn(async move {
            let taken = intake.submit(said, admitted, at, late).await;
            drop(hearing);
            // Whoever waited may have gone.
            let _ = tell.send(taken);
        });
        told.await.unwrap_or(Err(NoCall::NotReady))
    }

    /// `None`: the message is being transcribed already.
    fn hearing(&self, message: &HeardMessage) -> Result<Option<Hearing>, NoCall> {
        let mut heard = self.heard.lock();
        if heard.len() >= CALLS_MAX {
            return Err(NoCall::Busy);
        }
        let is_new = heard.insert(message.clone());
        Ok(is_new.then(|| Hearing { heard: Arc::clone(&self.heard), message: message.clone() }))
    }

    async fn submit(
        &self,
        mut said: Said,
        admitted: Admitted,
        at: Timestamp,
        late: bool,
    ) -> Result<Taken, NoCall> {
        let message = MessageId::from(said.id.as_str());
        let is_deaf = self.path.chat.get().transcriber.is_none();
        let hear = is_deaf || self.path.is_new(&admitted.channel, &message).await;
        let content = self.content(&mut said, &admitted.agent, hear).await;
        let direct = admitted.direct;
        let inbound = Inbound {
            channel: admitted.channel,
            message,
            author: admitted.author,
            at,
            parts: content.parts,
            addressed: admitted.addressed && !late,
            direct,
            language: admitted.language,
            chat_name: said.title.as_deref().map(display).filter(|_| !direct),
            reply_to: said.reply_to.as_ref().map(|reply| MessageId::from(reply.id.as_str())),
            provenance: self.provenance(&said),
            spoken: content.spoken,
            recordings: content.recordings,
            gather: self
                .path
                .chat
                .get()
                .gather(said.reply_to.as_ref().and_then(|reply| reply.text.as_deref())),
        };
        let (taken, reply) = taken(self.path.submit(inbound, || ()).await);
        if let Some(words) = reply {
            self.reply(&said, words);
        }
        Ok(taken)
    }

    async fn amend(&self, mut said: Said) -> Result<Taken, NoCall> {
        let (sender, address) = (self.sender(&said.author), address(&said));
        if (said.addressed || said.direct) && command(&said.text).is_some() {
            return Ok(Taken::Ignored { reason: "an edited command".to_owned() });
        }
        let admitted = match self.path.judge(&sender, said.addressed, &address) {
            Access::Admitted(admitted) => admitted,
            Access::Stranger => return Ok(Taken::Ignored { reason: "its author is unknown".to_owned() }),
            Access::Ignored(reason) => return Ok(Taken::Ignored { reason: reason.to_owned() }),
        };
        let Content { parts, .. } = self.content(&mut said, &admitted.agent, true).await;
        let Admitted { channel, author, addressed, .. } = admitted;
        let (message, at) = (MessageId::from(said.id.as_str()), self.said_at(said.at));
        let change = Change::Edited { author, parts, addressed };
        let (taken, reply) = taken(self.path.amend(Amendment { channel, message, at, change }).await);
        if let Some(words) = reply {
            self.reply(&said, words);
        }
        Ok(taken)
    }

    /// Runs a command. Returns when it is done, or durable; one that takes long goes on.
    async fn command(
        &self,
        said: Said,
        admitted: Admitted,
        command: Result<Command, Saying>,
        at: Timestamp,
    ) -> Result<Taken, NoCall> {
        let id = MessageId::from(said.id.as_str());
        let (path, channel) = (Arc::clone(&self.path), admitted.channel.clone());
        let (tell, mut told) = oneshot::channel();
        let message = id.clone();
        // Why a command was refused is no secret here, unless its answer would be one.
        let is_secret = command.as_ref().is_ok_and(Command::is_private);
        let (direct, replies) = (admitted.direct, self.clone());
        let bot = self.bridge.upgrade().and_then(|bridge| bridge.me());
        let bot = bot.unwrap_or_else(|| self.path.platform().to_owned());
        let aside = self.path.texts(&admitted).say(Key::AskAlone.with("link", bot));
        self.tasks.spawn(async move {
            let answer = path.run(&admitted, message, at, command).await;
            if let Some(CommandAnswer { words, private, .. }) = answer {
                let is_aside = private && is_secret && !direct;
                replies.reply(&said, if is_aside { aside } else { words });
            }
            // Whoever waited may have gone.
            let _ = tell.send(());
        });
        let began = Instant::now();
        loop {
            if tokio::time::timeout(LOOK_EVERY, &mut told).await.is_ok()
                || !self.path.is_new(&channel, &id).await
            {
                return Ok(Taken::Command);
            }
            if began.elapsed() + LOOK_EVERY > HOLD {
                return Err(NoCall::Busy);
            }
        }
    }

    /// Whose words a message has besides its author's.
    fn provenance(&self, said: &Said) -> Provenance {
        let mut provenance = if said.forwarded { Provenance::of_strangers() } else { Provenance::default() };
        let quoted = said.reply_to.as_ref().filter(|reply| reply.text.is_some());
        match quoted.map(|reply| &reply.author) {
            Some(Some(author)) if !self.sender(author).myself => {
                provenance.join(&Provenance::of_person(&self.path.person(&author.id)));
            }
            Some(None) => provenance.strangers = true,
            Some(Some(_)) | None => {}
        }
        provenance
    }

    /// What a message says, and its files, which are taken out of it.
    async fn content(&self, said: &mut Said, agent: &AgentId, hear: bool) -> Content {
        let mut content = Content::default();
        let quote = said.reply_to.as_ref().and_then(quoted);
        let words: Vec<&str> = quote
            .iter()
            .map(String::as_str)
            .chain([said.text.trim()].into_iter().filter(|text| !text.is_empty()))
            .collect();
        if !words.is_empty() {
            content.parts.push(Part::text(words.join("\n")));
        }
        let chat = self.path.chat.get();
        let limits = chat.attach_limits(chat.images.contains(agent));
        for file in std::mem::take(&mut said.files) {
            let File { name, media_type, spoken, data } = file;
            let size = Some(data.len() as u64);
            let attachment = Attachment { name: &name, media_type: media_type.as_deref(), size };
            let transcriber = chat.transcriber.as_deref().filter(|_| hear);
            attachment.take(self.path.platform(), &limits, transcriber, (data, spoken), &mut content).await;
        }
        content
    }

    /// Answers a message outside of its conversation.
    fn reply(&self, said: &Said, words: String) {
        let (chat, thread, id) = (said.chat.clone(), said.thread.clone(), said.id.clone());
        self.say(Notice { chat, thread, reply_to: Some(id), words });
    }

    /// Sends a notice in the background. If too many wait, it is dropped and logged.
    fn say(&self, notice: Notice) {
        let platform = self.path.platform();
        let Ok(permit) = self.notices.clone().try_acquire_owned() else {
            metrics::counter!("cairn_notices_total", "platform" => platform, "outcome" => "dropped")
                .increment(1);
            tracing::warn!(platform, "too many notices wait for the bridge; one was dropped");
            return;
        };
        let bridge = self.bridge.clone();
        self.tasks.spawn(async move {
            let Some(bridge) = bridge.upgrade() else { return };
            let outcome = if bridge.say(notice).await { "sent" } else { "failed" };
            metrics::counter!("cairn_notices_total", "platform" => platform, "outcome" => outcome)
                .increment(1);
            drop(permit);
        });
    }
}

impl Bridge {
    /// Sends a notice part by part. Returns whether all of it was sent.
    async fn say(&self, notice: Notice) -> bool {
        let Notice { chat, thread, mut reply_to, words } = notice;
        let (began, shape) = (Instant::now(), self.shape());
        for part in split_aside(&words, move |words| shape.split(words)).await {
            let (text, html) = shape.render(&part);
            let (chat, thread) = (chat.clone(), thread.clone());
            let (id, reply_to) = (self.event_id(), reply_to.take());
            let mut delivery =
                Delivery { id, repeat: false, chat, thread, reply_to, text, html, files: Vec::new() };
            loop {
                let pause = match self.ask(&delivery).await {
                    Ok(Ack::Sent { .. }) => break,
                    Ok(Ack::Later { retry_after_secs, .. }) => {
                        super::pause(retry_after_secs).unwrap_or(NOTICE_PAUSE)
                    }
                    Err(error) => {
                        delivery.repeat |= matches!(error, NoAck::Broken(_));
                        NOTICE_PAUSE
                    }
                    Ok(Ack::Refused { reason } | Ack::Unknown { reason }) => {
                        tracing::warn!(platform = self.platform(), "a notice could not be delivered");
                        tracing::debug!(
                            platform = self.platform(),
                            reason = shown(&reason),
                            "why it could not be delivered"
                        );
                        return false;
                    }
                };
                if began.elapsed() + pause > NOTICE_LIMIT {
                    tracing::warn!(platform = self.platform(), "a notice could not be delivered in time");
                    return false;
                }
                tokio::time::sleep(pause).await;
            }
        }
        true
    }
}

impl File {
    fn is_sound(&self) -> bool {
        Attachment { name: &self.name, media_type: self.media_type.as_deref(), size: None }.is_sound()
    }
}

/// What a message replies to, quoted.
fn quoted(reply: &ReplyTo) -> Option<String> {
    let text = one_line(reply.text.as_deref()?, QUOTE_MAX);
    let who = reply.author.as_ref().map_or_else(|| "somebody".to_owned(), |author| display(&author.name));
    (!text.is_empty()).then(|| format!("[in reply to {who}: \"{text}\"]"))
}

/// What came of it, and the answer for its author, if any.
fn taken(outcome: Outcome) -> (Taken, Option<String>) {
    match outcome {
        Outcome::Taken => (Taken::Accepted, None),
        Outcome::Refused { why, reply } => (Taken::Refused { reason: why.to_owned() }, reply),
    }
}
