//! One delivery, part by part: journal the attempt, send, journal the receipt.
//!
//! Between an attempt and its receipt it is unknown whether the part was sent. It is sent again while the platform guards
//! against duplicates. After that the platform is asked whether the part is there. One that cannot tell leaves the delivery
//! unknown: it is not sent again, and the chat is told.

use std::sync::Arc;

use cairn_core::notice;
use cairn_types::event::{DeliveryEvent, Event, Receipt, SentFile};
use cairn_types::ids::{ApprovalId, MessageId};
use cairn_types::message::Entry;
use cairn_types::ports::{FilePart, OutboxItem, Platform, SendError, SendPart};
use jiff::Timestamp;
use tokio::time::Instant;

use super::OutboxArgs;
use crate::failure::RuntimeError;
use crate::messages::{Create, PendingDelivery, Request};
use crate::pace::{Pace, Paced};
use crate::telemetry;
use crate::typing::Typing;

/// Longest text that is tried as a caption, in bytes; one that fits no platform's is not rendered for it.
const CAPTION_BYTES: usize = 4 * 1024;

/// How the task of a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It is settled, or cannot be sent.
    Over,
    /// The runtime stops: the rest stays pending.
    Parked,
}

#[derive(Clone)]
struct DeliveryPart {
    part: u32,
    words: String,
    /// The approval that the last part of a note asks for.
    approval: Option<ApprovalId>,
    files: Vec<FilePart>,
}

/// A file of a part, with its bytes where no artifact has them.
type PartFile = (SentFile, Option<Arc<[u8]>>);

enum Fate {
    There(MessageId),
    Dead(String),
    Unknown(String),
}

/// Waiting for a rate limit is not a failure.
fn log_unsent(part: u32, error: &SendError) {
    if matches!(error, SendError::Later { after: Some(_), .. }) {
        return tracing::debug!(part, ?error, "a part has to wait");
    }
    tracing::warn!(part, error = error.code(), "a part was not sent");
    tracing::debug!(part, ?error, "what its network said");
}

pub(super) async fn deliver(args: OutboxArgs, pending: PendingDelivery) -> Stopped {
    let PendingDelivery { item, reply, typing } = pending;
    let Some(platform) = args.ports.platform(&item.channel) else { return Stopped::Over };
    let words = match &item.note {
        Some(note) => Some(note.clone()),
        None => match find_reply(&args, &item, reply).await {
            Ok(reply) => reply.map(|reply| reply.text()),
            Err(left) => return left,
        },
    };
    let pace = Pace::up_to(args.live.limits().delivery_retry_max);
    let mut delivery = Delivery { args, platform, item, typing, pace };
    let done = match delivery.catch_up().await {
        Ok(()) => delivery.run(words).await,
        Err(left) => Err(left),
    };
    done.err().unwrap_or(Stopped::Over)
}

async fn find_reply(
    args: &OutboxArgs,
    item: &OutboxItem,
    reply: Option<Arc<Entry>>,
) -> Result<Option<Arc<Entry>>, Stopped> {
    if reply.is_some() {
        return Ok(reply);
    }
    let mut pace = Pace::up_to(args.live.limits().delivery_retry_max);
    loop {
        match args.ports.store.entries(&item.channel, item.seq, item.seq, 1).await {
            Ok(mut entries) => return Ok(entries.pop()),
            Err(error) => {
                tracing::error!(channel = %item.channel, %error,
                    "cannot read a reply that waits for delivery; trying again");
                if pace.wait(&args.lifecycle, None).await == Paced::Stopping {
                    return Err(Stopped::Parked);
                }
            }
        }
    }
}

struct Delivery {
    args: OutboxArgs,
    platform: Arc<dyn Platform>,
    item: OutboxItem,
    typing: Option<Arc<Typing>>,
    pace: Pace,
}

impl Delivery {
    /// An attempt that is open may belong to a previous outbox whose receipt is still being journalled. The channel answers
    /// after that receipt, so the delivery is read again then.
    async fn catch_up(&mut self) -> Result<(), Stopped> {
        if self.item.attempted_at.is_none() {
            return Ok(());
        }
        self.note(Vec::new()).await?;
        loop {
            match self.args.ports.store.delivery_of(&self.item.channel, &self.item.id).await {
                Ok(now) => {
                    self.item = now.ok_or(Stopped::Over)?;
                    return Ok(());
                }
                Err(error) => {
                    tracing::error!(%error, "cannot read the progress of a delivery; trying again");
                    self.pause(None).await?;
                }
            }
        }
    }

    async fn run(mut self, words: Option<String>) -> Result<(), Stopped> {
        let Some(words) = words else {
            let reason = "the reply is not in the history".to_owned();
            return self.settle(Vec::new(), Receipt::Dead { reason }).await;
        };
        let mut parts = self.parts(words.clone(), true).await;
        if self.item.sent.len() > parts.len() {
            // It was begun when its code was sent as messages.
            parts = self.parts(words, false).await;
        }
        if self.item.sent.len() > parts.len() {
            let reason = "the settings of its network changed while it was being sent, so the rest of it cannot be determined".to_owned();
            return self.settle(Vec::new(), Receipt::Dead { reason }).await;
        }
        // A receipt is journalled together with the next attempt, or with the end.
        let mut carried = Vec::new();
        for idx in self.item.sent.len()..parts.len() {
            let is_last = idx + 1 == parts.len();
            if let Some(typing) = self.typing.take_if(|_| is_last) {
                typing.end().await;
            }
            let part = idx as u32;
            let (words, files) = parts[idx].clone();
            let approval = self.item.approval.clone().filter(|_| is_last);
            let Some(files) = self.load(files).await? else {
                let reason = "a file of it has expired, or is lost".to_owned();
                return self.settle(carried, Receipt::Dead { reason }).await;
            };
            let piece = DeliveryPart { part, words, approval, files };
            match self.part(piece, std::mem::take(&mut carried)).await? {
                Fate::There(message) => {
                    let id = self.item.id.clone();
                    carried.push(Event::Delivery(DeliveryEvent::Sent { id, part, message: message.clone() }));
                    self.item.sent.push(message);
                    if let Some(typing) = &self.typing {
                        typing.again();
                    }
                }
                Fate::Dead(reason) => return self.settle(carried, Receipt::Dead { reason }).await,
                Fate::Unknown(reason) => {
                    return self.settle(carried, Receipt::Unknown { part, reason }).await;
                }
            }
        }
        let messages = self.item.sent.clone();
        self.settle(carried, Receipt::Delivered { messages }).await
    }

    /// The parts of the delivery: those of its text, then the bundles of its files. A short text is the caption of the first
    /// bundle. Long code of an answer is among the files, with its bytes. `code`: such code is sent as files.
    async fn parts(&self, words: String, code: bool) -> Vec<(String, Vec<PartFile>)> {
        let (words, code) = match code && self.item.note.is_none() {
            true => self.args.ports.split(&self.platform, words, <dyn Platform>::take_out_code).await,
            false => (words, Vec::new()),
        };
        let mut files: Vec<PartFile> =
            code.into_iter().map(|FilePart { file, data }| (file, Some(data))).collect();
        files.extend(self.item.files.iter().map(|file| (file.clone(), None)));
        let is_blank = words.trim().is_empty();
        let fits = !files.is_empty()
            && self.item.edits.is_none()
            && words.len() <= CAPTION_BYTES
            && self.platform.is_caption(&words);
        let mut caption = String::new();
        let mut parts = Vec::new();
        if fits || (is_blank && !files.is_empty()) {
            caption = words;
        } else {
            let words = self.args.ports.split(&self.platform, words, Platform::split).await;
            parts.extend(words.into_iter().map(|words| (words, Vec::new())));
        }
        let described: Vec<SentFile> = files.iter().map(|(file, _)| file.clone()).collect();
        let bundles = self.platform.bundles(&described);
        let mut left = files.into_iter();
        for n in bundles {
            parts.push((std::mem::take(&mut caption), left.by_ref().take(n).collect()));
        }
        parts
    }

    /// Reads files that are to be sent; `None`: one of them is gone.
    async fn load(&mut self, files: Vec<PartFile>) -> Result<Option<Vec<FilePart>>, Stopped> {
        let mut loaded = Vec::with_capacity(files.len());
        for (file, data) in files {
            if let Some(data) = data {
                loaded.push(FilePart { file, data });
                continue;
            }
            let data = loop {
                let (store, channel) = (&self.args.ports.store, &self.item.channel);
                let found = match store.artifact(channel, &file.artifact).await {
                    Ok(Some(artifact)) if artifact.expired_at.is_none() => {
                        store.artifact_bytes(channel, &artifact).await
                    }
                    other => other.map(|_| None),
                };
                match found {
                    Ok(data) => break data,
                    Err(error) => {
                        tracing::error!(%error, "cannot read a file that waits for delivery; trying again");
                        self.pause(None).await?;
                    }
                }
            };
            let Some(data) = data else { return Ok(None) };
            loaded.push(FilePart { file, data });
        }
        Ok(Some(loaded))
    }

    /// Sends a part until its fate is known, or can no longer become known.
    async fn part(&mut self, piece: DeliveryPart, mut carried: Vec<Event>) -> Result<Fate, Stopped> {
        let (id, part) = (self.item.id.clone(), piece.part);
        // Since when a message may exist that is not confirmed.
        let mut unsure = self.item.attempted_at.take();
        let mut attempted = unsure;
        // An edit cannot offer buttons, so a request for approval is a message of its own.
        let mut edits = self.item.edits.clone().filter(|_| part == 0 && piece.approval.is_none());
        let mut why = "the connection broke while it was sent".to_owned();
        let put_off = |reason| Event::Delivery(DeliveryEvent::PutOff { id: id.clone(), part, reason });
        loop {
            let began = match attempted {
                Some(at) => at,
                None => {
                    self.check_time(&mut carried).await?;
                    carried.push(Event::Delivery(DeliveryEvent::Attempted { id: id.clone(), part }));
                    self.note(std::mem::take(&mut carried)).await?;
                    *attempted.insert(self.args.ports.now())
                }
            };
            if let Some(since) = unsure.filter(|since| edits.is_none() && !self.may_repeat(*since)) {
                match self.look_up(&piece, since).await? {
                    Ok(Some(message)) => return Ok(Fate::There(message)),
                    Ok(None) => {
                        (unsure, attempted) = (None, None);
                        self.note(vec![put_off(why.clone())]).await?;
                        self.pause(None).await?;
                        continue;
                    }
                    Err(_) => return Ok(Fate::Unknown(why)),
                }
            }
            let error = match self.request(&piece, edits.as_ref()).await {
                Ok(message) => return Ok(Fate::There(message)),
                Err(error) => error,
            };
            log_unsent(part, &error);
            match (error, edits.is_some()) {
                (SendError::Refused(reason), true) => {
                    // The message is gone: the part is sent as a new one.
                    edits = None;
                    if unsure.is_none() {
                        attempted = None;
                        carried.push(put_off(reason));
                    }
                    continue;
                }
                (SendError::Refused(reason), false) => return self.refused(&piece, unsure, reason).await,
                (SendError::Later { after, reason }, _) => {
                    if unsure.is_none() {
                        attempted = None;
                        self.note(vec![put_off(reason)]).await?;
                    }
                    self.pause(after).await?;
                }
                // An edit can be repeated.
                (SendError::Unknown(_), true) => self.pause(None).await?,
                (SendError::Unknown(reason), false) => {
                    why = reason;
                    if self.may_repeat(*unsure.get_or_insert(began)) {
                        self.pause(None).await?;
                    }
                }
            }
            metrics::counter!("cairn_delivery_retries_total", "platform" => self.platform.name())
                .increment(1);
        }
    }

    /// The fate of a part that its network refuses. `unsure`: since when an earlier attempt may have sent it.
    async fn refused(
        &mut self,
        piece: &DeliveryPart,
        unsure: Option<Timestamp>,
        reason: String,
    ) -> Result<Fate, Stopped> {
        let Some(since) = unsure else { return Ok(Fate::Dead(reason)) };
        Ok(match self.look_up(piece, since).await? {
            Ok(Some(message)) => Fate::There(message),
            Ok(None) => Fate::Dead(reason),
            Err(_) => Fate::Unknown(reason),
        })
    }

    async fn request(&self, piece: &DeliveryPart, edits: Option<&MessageId>) -> Result<MessageId, SendError> {
        match edits {
            Some(message) => {
                let (channel, words) = (self.item.channel.clone(), piece.words.clone());
                self.platform.edit(channel, message.clone(), words).await?;
                Ok(message.clone())
            }
            None => self.platform.send(self.send_part(piece)).await,
        }
    }

    fn send_part(&self, piece: &DeliveryPart) -> SendPart {
        let DeliveryPart { part, words, approval, files } = piece.clone();
        let (delivery, channel) = (self.item.id.clone(), self.item.channel.clone());
        let reply_to = self.item.reply_to.clone().filter(|_| part == 0);
        SendPart { delivery, part, channel, reply_to, words, approval, files }
    }

    /// Asks the platform whether a part is there, until it answers; an error: it cannot tell.
    async fn look_up(
        &mut self,
        piece: &DeliveryPart,
        since: Timestamp,
    ) -> Result<Result<Option<MessageId>, String>, Stopped> {
        loop {
            let after = self.item.sent.last().or(self.item.reply_to.as_ref()).cloned();
            let error = match self.platform.find(self.send_part(piece), after, since).await {
                Ok(found) => {
                    let is_there = found.is_some();
                    tracing::info!(part = piece.part, is_there, "asked the network whether a part arrived");
                    return Ok(Ok(found));
                }
                Err(error) => error,
            };
            tracing::debug!(part = piece.part, ?error, "its network does not say whether a part is there");
            let asked = match error {
                SendError::Refused(reason) => return Ok(Err(reason)),
                SendError::Later { after, .. } => after,
                SendError::Unknown(_) => None,
            };
            self.pause(asked).await?;
        }
    }

    /// Whether a part that was first sent at that time may be sent again: the platform still guards against a duplicate, or
    /// one does no harm.
    fn may_repeat(&self, since: Timestamp) -> bool {
        notice::may_be_doubled(&self.item) || self.platform.traits().may_repeat(since, self.args.ports.now())
    }

    /// Stops before a new attempt if the runtime has no time left for it. Receipts are journalled first.
    async fn check_time(&self, carried: &mut Vec<Event>) -> Result<(), Stopped> {
        let over = self.args.lifecycle.stop_by.borrow().is_some_and(|by| by <= Instant::now());
        if !over {
            return Ok(());
        }
        if !carried.is_empty() {
            self.note(std::mem::take(carried)).await?;
        }
        Err(Stopped::Parked)
    }

    async fn pause(&mut self, asked: Option<std::time::Duration>) -> Result<(), Stopped> {
        match self.pace.wait(&self.args.lifecycle, asked).await {
            Paced::Again => Ok(()),
            Paced::Stopping => Err(Stopped::Parked),
        }
    }

    async fn settle(&self, mut events: Vec<Event>, receipt: Receipt) -> Result<(), Stopped> {
        let delivery = &self.item.id;
        let outcome = match &receipt {
            Receipt::Delivered { messages } => {
                tracing::info!(parts = messages.len(), "delivered");
                "delivered"
            }
            Receipt::Dead { .. } => {
                tracing::error!(
                    "a delivery failed for good; `cairn outbox list` shows the reason; retry or drop it"
                );
                "dead"
            }
            Receipt::Unknown { part, .. } => {
                tracing::error!(
                    part,
                    "it is unknown whether a delivery arrived; look at the chat, then retry or drop it (`cairn \
                     outbox`)"
                );
                "unknown"
            }
        };
        if outcome != "delivered" {
            telemetry::error("delivery", outcome);
        }
        events.push(Event::Delivery(DeliveryEvent::Settled { id: delivery.clone(), receipt }));
        self.note(events).await?;
        metrics::counter!("cairn_deliveries_total", "platform" => self.platform.name(), "outcome" => outcome)
            .increment(1);
        Ok(())
    }

    /// Has the channel journal how the delivery goes; retries until it is durable.
    async fn note(&self, events: Vec<Event>) -> Result<(), Stopped> {
        let (channel, id) = (&self.item.channel, &self.item.id);
        let mut pace = Pace::up_to(self.args.live.limits().delivery_retry_max);
        loop {
            let post = |reply| Request::NoteDelivery { id: id.clone(), events: events.clone(), reply };
            let error = match self.args.directory.ask(channel, Create::No, post).await {
                Ok(Ok(true)) => return Ok(()),
                // Settled or dropped meanwhile.
                Ok(Ok(false)) => return Err(Stopped::Over),
                Ok(Err(RuntimeError::NoSuchChannel(_) | RuntimeError::UnknownAgent(_))) => {
                    return Err(Stopped::Over);
                }
                Ok(Err(RuntimeError::Stopping)) => return Err(Stopped::Parked),
                Ok(Err(error)) | Err(error) => error,
            };
            tracing::warn!(%channel, delivery = %id, %error, "cannot journal a delivery; trying again");
            let asked = matches!(&error, RuntimeError::Store(error) if error.is_transient())
                .then_some(self.args.live.limits().store_retry_pause);
            if pace.wait(&self.args.lifecycle, asked).await == Paced::Stopping {
                return Err(Stopped::Parked);
            }
        }
    }
}
