//! The adapter for bridges: programs beside the daemon that connect further networks.
//!
//! - `wire` is what both sides say, `routes` the HTTP calls, with the token of each bridge;
//! - `take` takes messages in, through the same path as the other networks;
//! - `hub` is the event stream on which deliveries leave, and what is acknowledged; `render` how texts are shown.
//!
//! A delivery that a bridge was handed and has not acknowledged when its connection ends is looked for: it is handed over
//! again by the same id, as a repeat, and the bridge says what it knows of it.

mod hub;
mod render;
mod routes;
mod take;
pub mod wire;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::ports::{
    Adapter, AdapterFailure, AdapterPorts, FilePart, LinkState, PairingStore, Platform, PlatformStatus,
    PlatformTraits, SendError, SendPart,
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use self::hub::{Hub, NoAck};
use self::render::Shape;
use self::take::Intake;
use self::wire::{Ack, Delivery, EditOut, FILE_MAX, FileOut, Hello, Markup, PROTOCOL, TypingOut, Unit};
use crate::checkup::Checked;
use crate::fence::Fence;
use crate::link::Link;
use crate::markup::name::{display, one_line};
use crate::settings::{ChatSettings, LiveChat};

const TYPING_EVERY: Duration = Duration::from_secs(5);

/// Most characters of a reason that a bridge gives.
const REASON_MAX: usize = 300;

/// Shortest token, in characters: it is all that tells a bridge from others.
const TOKEN_MIN: usize = 16;

/// Most large bodies that are read at once; further ones wait.
const BODIES_MAX: usize = 8;

/// The adapter's settings.
#[derive(Clone)]
pub struct BridgeSettings {
    /// The bridge's name, which is its platform.
    pub platform: &'static str,
    /// What the bridge shows with each call.
    pub token: SecretString,
    /// Whether anything may be sent at the moment.
    pub fence: Fence,
    /// The file that keeps what the bridge said of its network until it says so again; `None`: it is not kept.
    pub kept: Option<PathBuf>,
    /// Access rules and display settings.
    pub chat: ChatSettings,
}

/// An error in the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error(
        "the token of the bridge `{0}` is shorter than {TOKEN_MIN} characters, or has white space in it; make one with: openssl rand -hex 32"
    )]
    Token(&'static str),
}

/// Checks a bridge's token.
///
/// # Errors
/// It is too short, or has white space in it.
pub fn check_token(platform: &'static str, token: &SecretString) -> Result<(), BadSettings> {
    let token = token.expose_secret();
    let is_good = token.len() >= TOKEN_MIN && token.bytes().all(|b| b.is_ascii_graphic());
    if is_good { Ok(()) } else { Err(BadSettings::Token(platform)) }
}

/// Checks a bridge for `cairn doctor`, without the bridge.
pub fn checkup(platform: &'static str, token: &SecretString) -> Vec<Checked> {
    vec![match check_token(platform, token) {
        Ok(()) => Checked::fine("the token is there; `cairn status` tells whether the bridge is connected"),
        Err(bad) => {
            Checked::bad(bad.to_string(), "write a longer one into the file, and give it to the bridge")
        }
    }]
}

/// What a bridge said of its network.
struct Said {
    hello: Hello,
    /// Said since the start.
    is_fresh: bool,
}

/// One bridge.
pub struct Bridge {
    settings: BridgeSettings,
    chat: LiveChat,
    pairing_store: Arc<dyn PairingStore>,
    link: Arc<Link>,
    hub: Arc<Hub>,
    said: RwLock<Said>,
    /// Set while messages are taken in.
    intake: Mutex<Option<Arc<Intake>>>,
    /// Leave to read a large body, which takes memory.
    bodies: Semaphore,
    /// Names events that are not deliveries of the outbox, apart from those of earlier starts.
    started_at: Timestamp,
    n_events: AtomicU64,
}

impl Bridge {
    /// Checks the settings. Nothing is served yet.
    ///
    /// # Errors
    /// The token is too weak.
    pub fn new(settings: BridgeSettings, pairing_store: Arc<dyn PairingStore>) -> Result<Self, BadSettings> {
        check_token(settings.platform, &settings.token)?;
        let clock = pairing_store.clock();
        let link = Arc::new(Link::new(settings.platform, clock.clone()));
        let hello = settings.kept.as_deref().and_then(kept).unwrap_or_else(unsaid);
        Ok(Self {
            chat: LiveChat::new(settings.chat.clone()),
            hub: Arc::new(Hub::new(Arc::clone(&link))),
            said: RwLock::new(Said { hello, is_fresh: false }),
            intake: Mutex::default(),
            bodies: Semaphore::new(BODIES_MAX),
            started_at: clock.now(),
            n_events: AtomicU64::new(0),
            settings,
            pairing_store,
            link,
        })
    }

    /// The settings that can be replaced while the adapter runs.
    pub fn chat(&self) -> LiveChat {
        self.chat.clone()
    }

    /// The HTTP routes of the bridge, below `/v1/bridges/NAME`.
    pub fn routes(self: &Arc<Self>) -> Router {
        routes::router(self)
    }

    fn platform(&self) -> &'static str {
        self.settings.platform
    }

    fn shape(&self) -> Shape {
        Shape::of(&self.said.read().hello)
    }

    /// Takes what the bridge says of its network. It is kept for the next start.
    async fn hello(&self, hello: Hello) {
        let changed = {
            let mut said = self.said.write();
            let changed = said.hello != hello;
            if changed && Shape::of(&said.hello) != Shape::of(&hello) && said.hello != unsaid() {
                tracing::warn!(
                    platform = self.platform(),
                    limit = hello.limit,
                    "the bridge announces another message limit or markup; a long answer that is partly sent may \
                     repeat or miss a part"
                );
            }
            *said = Said { hello: hello.clone(), is_fresh: true };
            changed
        };
        let name = hello.name.as_deref().map(display);
        let software = display(&hello.software);
        self.link.set_name(name.map_or_else(|| software.clone(), |name| format!("{name} ({software})")));
        let Some(path) = self.settings.kept.clone().filter(|_| changed) else { return };
        let written = tokio::task::spawn_blocking(move || keep(&path, &hello)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            tracing::warn!(platform = self.platform(), %error, "the bridge's hello could not be saved");
        }
    }

    /// The chat of a channel, by the id that the network knows.
    fn place(&self, channel: &ChannelId) -> (String, Option<String>) {
        let chat = self.pairing_store.address_of(self.platform(), channel.chat());
        (chat, channel.thread().map(str::to_owned))
    }

    fn delivery(&self, part: &SendPart, repeat: bool) -> Delivery {
        let (chat, thread) = self.place(&part.channel);
        let is_blank = part.words.trim().is_empty() && !part.files.is_empty();
        let (text, html) = if is_blank { (String::new(), None) } else { self.shape().render(&part.words) };
        let file = |FilePart { file, data }: &FilePart| FileOut {
            name: file.name.clone(),
            media_type: file.media_type.clone(),
            data: STANDARD.encode(data),
        };
        Delivery {
            id: delivery_id(part),
            repeat,
            chat,
            thread,
            // The runtime's own ids name no message there.
            reply_to: part.reply_to.as_ref().filter(|id| !id.is_correction()).map(ToString::to_string),
            text,
            html,
            files: part.files.iter().map(file).collect(),
        }
    }

    /// An id for an event that is no delivery of the outbox.
    fn event_id(&self) -> String {
        let n = self.n_events.fetch_add(1, Ordering::Relaxed);
        format!("e{:x}-{n}", self.started_at.as_millisecond())
    }

    /// Hands a message over. The outer error: the bridge did not say what became of it.
    async fn ask(&self, delivery: &Delivery) -> Result<Ack, NoAck> {
        self.settings.fence.check().map_err(NoAck::NotHanded)?;
        let answer = self.hub.ask(&delivery.id, "message", delivery).await;
        self.note(&answer);
        answer
    }

    fn note(&self, answer: &Result<Ack, NoAck>) {
        match answer {
            Ok(Ack::Sent { .. }) => self.link.outbound(),
            Ok(Ack::Refused { .. } | Ack::Later { .. }) => {}
            Ok(Ack::Unknown { .. }) => self.link.unsent("the bridge cannot tell whether one was sent"),
            Err(NoAck::NotHanded(reason) | NoAck::Broken(reason)) => self.link.unsent(reason),
        }
    }
}

/// The id of a part for the bridge: the same whenever the part is sent.
fn delivery_id(part: &SendPart) -> String {
    let digest = Sha256::digest(format!("{}\n{}", part.delivery, part.part));
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// What is assumed of a network before its bridge has ever said anything.
fn unsaid() -> Hello {
    Hello {
        protocol: PROTOCOL,
        software: "unknown".to_owned(),
        me: None,
        name: None,
        limit: 400,
        unit: Unit::Bytes,
        markup: Markup::Plain,
        edits: false,
        file_bytes: 0,
        typing: false,
    }
}

fn kept(path: &Path) -> Option<Hello> {
    let hello: Hello = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    hello.check().is_ok().then_some(hello)
}

fn keep(path: &Path, hello: &Hello) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(&serde_json::to_vec(hello)?)?;
    file.sync_all()?;
    fs::rename(beside, path)
}

/// A reason of a bridge, on one line.
fn shown(reason: &str) -> String {
    one_line(reason, REASON_MAX)
}

/// The pause that a bridge asks for, an hour at most.
fn pause(secs: Option<u64>) -> Option<Duration> {
    secs.map(|secs| Duration::from_secs(secs.min(3_600)))
}

fn sent(answer: Result<Ack, NoAck>) -> Result<MessageId, SendError> {
    match answer {
        Ok(Ack::Sent { message }) => Ok(MessageId::from(message)),
        Ok(Ack::Refused { reason }) => Err(SendError::Refused(shown(&reason))),
        Ok(Ack::Later { reason, retry_after_secs }) => {
            Err(SendError::Later { after: pause(retry_after_secs), reason: shown(&reason) })
        }
        Ok(Ack::Unknown { reason }) => Err(SendError::Unknown(shown(&reason))),
        Err(NoAck::NotHanded(reason)) => Err(SendError::Later { after: None, reason }),
        Err(NoAck::Broken(reason)) => Err(SendError::Unknown(reason)),
    }
}

/// What the answer to a repeat says of whether the part is there.
fn found(answer: Result<Ack, NoAck>) -> Result<Option<MessageId>, SendError> {
    match answer {
        Ok(Ack::Sent { message }) => Ok(Some(MessageId::from(message))),
        // The next attempt says so again, and is then known never to have been sent.
        Ok(Ack::Refused { .. }) => Ok(None),
        Ok(Ack::Later { reason, retry_after_secs }) => {
            Err(SendError::Later { after: pause(retry_after_secs), reason: shown(&reason) })
        }
        Ok(Ack::Unknown { reason }) => Err(SendError::Refused(shown(&reason))),
        Err(NoAck::NotHanded(reason) | NoAck::Broken(reason)) => {
            Err(SendError::Later { after: None, reason })
        }
    }
}

impl Bridge {
    /// The bot's own id or name on the network, as the bridge said.
    fn me(&self) -> Option<String> {
        let said = self.said.read();
        said.hello.me.clone().or_else(|| said.hello.name.clone()).map(|me| one_line(&me, 100))
    }
}

impl Platform for Bridge {
    fn name(&self) -> &'static str {
        self.platform()
    }

    fn traits(&self) -> PlatformTraits {
        let draft_every = self.chat.get().draft_every.filter(|_| self.said.read().hello.edits);
        PlatformTraits { typing_every: TYPING_EVERY, repeat_within: None, draft_every, marks: false }
    }

    fn split(&self, words: &str) -> Vec<String> {
        self.shape().split(words)
    }

    fn first_part(&self, words: &str) -> Option<String> {
        self.shape().first(words)
    }

    fn take_out_code(&self, words: &str) -> (String, Vec<FilePart>) {
        self.shape().take_out_code(words, self.chat.get().long_code(self.file_max()))
    }

    fn file_max(&self) -> Option<u64> {
        let bytes = self.said.read().hello.file_bytes;
        (bytes > 0).then_some(bytes.min(FILE_MAX))
    }

    fn send(&self, part: SendPart) -> BoxFuture<'_, Result<MessageId, SendError>> {
        Box::pin(async move { sent(self.ask(&self.delivery(&part, false)).await) })
    }

    fn find(
        &self,
        part: SendPart,
        _after: Option<MessageId>,
        _since: Timestamp,
    ) -> BoxFuture<'_, Result<Option<MessageId>, SendError>> {
        Box::pin(async move { found(self.ask(&self.delivery(&part, true)).await) })
    }

    fn edit(
        &self,
        channel: ChannelId,
        message: MessageId,
        words: String,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            if !self.said.read().hello.edits {
                return Err(SendError::Refused("its network does not edit messages".to_owned()));
            }
            self.settings.fence.check().map_err(|reason| SendError::Later { after: None, reason })?;
            let (chat, thread) = self.place(&channel);
            let (text, html) = self.shape().render(&words);
            let id = self.event_id();
            let edit = EditOut { id: id.clone(), chat, thread, message: message.to_string(), text, html };
            let answer = self.hub.ask(&id, "edit", &edit).await;
            self.note(&answer);
            sent(answer).map(drop)
        })
    }

    fn typing(&self, channel: ChannelId) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            if self.said.read().hello.typing && self.settings.fence.check().is_ok() {
                let (chat, thread) = self.place(&channel);
                self.hub.tell("typing", &TypingOut { chat, thread });
            }
            Ok(())
        })
    }

    fn status(&self) -> PlatformStatus {
        self.link.status()
    }
}

/// Ends the intake of a run.
struct Running<'b>(&'b Bridge);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.intake.lock() = None;
    }
}

impl Adapter for Bridge {
    fn run(self: Arc<Self>, ports: AdapterPorts) -> BoxFuture<'static, AdapterFailure> {
        Box::pin(async move {
            let (intake, _tasks) = Intake::new(&self, ports);
            *self.intake.lock() = Some(Arc::new(intake));
            let _running = Running(&self);
            if self.hub.is_connected() {
                self.link.set(LinkState::Connected, None);
            } else {
                let since = self.started_at.strftime("%Y-%m-%d %H:%M:%S UTC");
                self.hub
                    .show_absent(format!("its bridge has not connected since the daemon started at {since}"));
            }
            std::future::pending().await
        })
    }

    fn set_state(&self, state: LinkState, failure: Option<&AdapterFailure>) {
        self.link.set(state, failure);
        if state == LinkState::Stopped {
            self.hub.stop();
        }
    }
}
