//! Every text, JSON value and id of an event, in one place.
//!
//! Erasure and retention change events through [`Event::visit_mut`], so neither can forget a field: all structs are
//! destructured in full, and a new field does not compile until it is decided here whether a visitor gets it.
//!
//! Visitors do not get numbers, times, names of models, tools and commands, emoji of reactions, call ids of providers, codes and hashes, image
//! bytes, an operator's approval of a tool server (which is compared byte by byte), or texts stored under their hash.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    ApprovalEvent, ArtifactEvent, Checkpoint, CompactionEvent, DeliveryEvent, Event, MaintenanceEvent,
    MemoryEvent, MessageEvent, ModelNews, PrunedResult, Receipt, RegistryEvent, ReminderEvent, Run, RunEnd,
    RunRequest, SentFile, TurnEnd, TurnEvent, TurnOutcome,
};
use crate::ids::{ChannelId, MemoryId, MessageId, OutboxId};
use crate::memory::{DraftMemory, MemorySave, Replaces, Scope, Source};
use crate::message::{
    Artifact, Author, Entry, FileNote, Part, Pending, Provenance, ToolCall, entry_tokens, fingerprint,
    pending_tokens,
};
use crate::model::ChatMessage;
use crate::people::access::{AccessPolicy, PlaceRule};
use crate::provider_state::{ProviderItem, ProviderState};
use crate::reminder::Reminder;
use crate::summary::{DigestLine, Marker, Summary, marker_tokens, summary_tokens};
use crate::tokens::estimate;
use crate::tool::ToolUse;
use crate::tool::approval::Approval;
use crate::trace::{CallTrace, RunCall};

/// What kind of text a visitor gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Said in a conversation, by people, models, tools or the daemon.
    Said,
    /// Written by a compaction.
    Made,
    /// Why something failed, was refused or was decided.
    Reason,
    /// Text or subject of a memory.
    Memory,
}

/// Changes events. Every method returns whether it changed its argument. The default methods change nothing; those for lists
/// and optional texts visit each text in them.
pub trait Visit {
    /// Whether tokens and fingerprints are recomputed for the changed text. If not, they stay those of the original text.
    const MEASURES: bool = true;

    fn words(&mut self, words: &mut String, kind: Kind) -> bool;

    /// Arguments of a tool call.
    fn json(&mut self, value: &mut Value) -> bool;

    fn option(&mut self, words: &mut Option<String>, kind: Kind) -> bool {
        words.as_mut().is_some_and(|words| self.words(words, kind))
    }

    /// The content of a message.
    fn parts(&mut self, parts: &mut Vec<Part>) -> bool {
        visit_parts(self, parts)
    }

    /// Reasoning and other JSON that only a provider reads.
    fn state(&mut self, state: &mut Option<Box<ProviderState>>) -> bool {
        let Some(ProviderState { format: _, model: _, items, prefix: _ }) = state.as_deref_mut() else {
            return false;
        };
        each(items, |item| match item {
            ProviderItem::Opaque { value } => self.json(value),
            ProviderItem::Text { bytes: _, fields } | ProviderItem::Call { fields } => {
                each(fields.values_mut(), |value| self.json(value))
            }
        })
    }

    /// The exchange with the model of a compaction before its last answer.
    fn talk(&mut self, talk: &mut Vec<ChatMessage>) -> bool {
        each(talk, |message| match message {
            ChatMessage::User { parts } => self.parts(parts),
            ChatMessage::Assistant { text, tool_calls, provider_state } => {
                self.words(text, Kind::Said) | calls(self, tool_calls) | self.state(provider_state)
            }
            ChatMessage::Tool { call_id: _, text, images } => {
                self.words(text, Kind::Said) | self.parts(images)
            }
            ChatMessage::Context { text } => self.words(text, Kind::Said),
        })
    }

    fn digest(&mut self, lines: &mut Vec<DigestLine>) -> bool {
        each(lines, |DigestLine { seq: _, text }| self.words(text, Kind::Made))
    }

    fn identifiers(&mut self, identifiers: &mut Vec<String>) -> bool {
        each(identifiers, |identifier| self.words(identifier, Kind::Made))
    }

    /// Memories that a run has found and not saved yet.
    fn drafts(&mut self, drafts: &mut Vec<DraftMemory>) -> bool {
        each(
            drafts,
            |DraftMemory { kind: _, text, subject, importance: _, by, said_at: _, told_by, replaces }| {
                self.words(text, Kind::Memory)
                    | self.option(subject, Kind::Memory)
                    | each([by, told_by], |by| each(by, |by| self.author(by)))
                    | each(&mut replaces.ids, |id| self.memory(id))
            },
        )
    }

    /// `PLATFORM/USER`.
    fn person(&mut self, _person: &mut String) -> bool {
        false
    }

    /// The id of a person or a chat, without its platform.
    fn bare(&mut self, _platform: &str, _id: &mut String) -> bool {
        false
    }

    fn author(&mut self, _author: &mut Author) -> bool {
        false
    }

    fn message(&mut self, _message: &mut MessageId) -> bool {
        false
    }

    fn channel(&mut self, _channel: &mut ChannelId) -> bool {
        false
    }

    /// The id starts with the channel of its event.
    fn delivery(&mut self, _id: &mut OutboxId) -> bool {
        false
    }

    fn memory(&mut self, _id: &mut MemoryId) -> bool {
        false
    }

    /// The key of a memory's sighting. It starts with the channel `of` its source, if that has one, and may end with a
    /// message's id.
    fn sighting(&mut self, _sighting: &mut String, _of: Option<&ChannelId>) -> bool {
        false
    }
}

impl Event {
    /// Hands every text and id to a visitor. Returns whether anything was changed.
    ///
    /// An edit does not name its author, so the caller must compute its fingerprint and tokens.
    pub fn visit_mut(&mut self, v: &mut impl Visit) -> bool {
        match self {
            Self::Message(event) => message(v, event),
            Self::Turn(event) => turn(v, event),
            Self::Compaction(event) => compaction(v, event),
            Self::Artifact(event) => artifact(v, event),
            Self::Memory(event) => memory(v, event),
            Self::Delivery(event) => delivery(v, event),
            Self::Approval(event) => approval(v, event),
            Self::Reminder(event) => reminder(v, event),
            Self::Registry(event) => registry(v, event),
            Self::Maintenance(event) => maintenance(v, event),
        }
    }
}

/// Hands the text of each part to a visitor, as [`Visit::parts`] does by default.
pub fn visit_parts<V: Visit + ?Sized>(v: &mut V, parts: &mut [Part]) -> bool {
    each(parts, |part| match part {
        Part::Text { text } => v.words(text, Kind::Said),
        Part::Image { name, media_type: _, data: _ } => v.option(name, Kind::Said),
        Part::File { name, media_type: _, text } => v.words(name, Kind::Said) | v.option(text, Kind::Said),
    })
}

/// Visits all items. Returns whether any was changed.
fn each<T>(items: impl IntoIterator<Item = T>, mut visit: impl FnMut(T) -> bool) -> bool {
    items.into_iter().fold(false, |changed, item| changed | visit(item))
}

fn set(items: &mut BTreeSet<String>, visit: impl FnMut(&mut String) -> bool) -> bool {
    let mut list: Vec<String> = std::mem::take(items).into_iter().collect();
    let changed = each(&mut list, visit);
    items.extend(list);
    changed
}

fn calls<V: Visit + ?Sized>(v: &mut V, calls: &mut [ToolCall]) -> bool {
    each(calls, |ToolCall { id: _, name: _, arguments }| v.json(arguments))
}

fn provenance<V: Visit>(v: &mut V, provenance: &mut Provenance) -> bool {
    let Provenance { people, strangers: _, tools: _ } = provenance;
    set(people, |person| v.person(person))
}

fn message<V: Visit>(v: &mut V, event: &mut MessageEvent) -> bool {
    match event {
        MessageEvent::Accepted(pending) => accepted(v, pending),
        MessageEvent::Edited { message, parts, addressed: _, fingerprint: _, tokens: _ } => {
            v.message(message) | v.parts(parts)
        }
        MessageEvent::Deleted { message, seqs: _ } | MessageEvent::Refused { message } => v.message(message),
        MessageEvent::CommandTaken { message, command: _, caller } => v.message(message) | v.author(caller),
        MessageEvent::Reacted { message, seq: _, by, emoji: _, removed: _ } => {
            v.message(message) | v.author(by)
        }
        MessageEvent::SystemSet { author, text, tokens } => {
            let (by, said) = (v.author(author), v.words(text, Kind::Said));
            if V::MEASURES && said {
                *tokens = estimate(text);
            }
            by | said
        }
    }
}

fn accepted<V: Visit>(v: &mut V, pending: &mut Pending) -> bool {
    let Pending {
        message,
        turn: _,
        at: _,
        author,
        parts,
        addressed: _,
        direct: _,
        chat_name,
        language: _,
        provenance: of,
        spoken: _,
        reminder: _,
        fingerprint: hash,
        tokens: _,
    } = pending;
    let ids = v.message(message) | provenance(v, of);
    let by = v.author(author);
    let named = v.option(chat_name, Kind::Said);
    let said = v.parts(parts);
    if V::MEASURES && said {
        *hash = fingerprint(author, parts);
    }
    if V::MEASURES && (said || by) {
        pending.tokens = pending_tokens(pending);
    }
    ids | by | named | said
}

fn turn<V: Visit>(v: &mut V, event: &mut TurnEvent) -> bool {
    match event {
        TurnEvent::Started { turn: _, messages, first_seq: _ }
        | TurnEvent::Joined { turn: _, messages, first_seq: _ }
        | TurnEvent::Reopened { turn: _, messages } => each(messages, |message| v.message(message)),
        TurnEvent::EntryAdded { entry } => added(v, entry),
        TurnEvent::UsageReported {
            model: _,
            estimated: _,
            usage: _,
            disbelieved: _,
            is_estimate: _,
            set_window: _,
            caused_by,
            trace: of,
        } => set(caused_by, |person| v.person(person)) | trace(v, of),
        TurnEvent::ToolUsed(ToolUse {
            turn: _,
            call: _,
            tool: _,
            effect: _,
            caused_by,
            arguments,
            outcome: _,
            error,
            duration_ms: _,
            bytes: _,
            approval: _,
            allowed_by: _,
        }) => {
            let by = set(caused_by, |person| v.person(person));
            // The error is the tool's own text, as in its result.
            by | v.json(arguments) | v.option(error, Kind::Said)
        }
        TurnEvent::ModelChosen { model: _, reason } => v.words(reason, Kind::Reason),
        TurnEvent::Ended(TurnEnd { turn: _, outcome, model: _, usage: _, recalled }) => {
            let ended = match outcome {
                TurnOutcome::Failed { code: _, message } => v.words(message, Kind::Reason),
                TurnOutcome::Answered { reply: _ }
                | TurnOutcome::Unanswered
                | TurnOutcome::Silent
                | TurnOutcome::Stopped
                | TurnOutcome::DeadLettered => false,
            };
            ended | each(recalled, |id| v.memory(id))
        }
        TurnEvent::ModelLearnt(ModelNews {
            model: _,
            window_tokens: _,
            window_of: _,
            no_tools: _,
            bounds: _,
            cut: _,
            forgets: _,
        })
        | TurnEvent::HistoryWithheld { model: _, range: _ }
        | TurnEvent::Interrupted { turn: _ }
        | TurnEvent::Undone { turn: _, from_seq: _, to_seq: _ }
        | TurnEvent::SessionStarted { generation: _ } => false,
    }
}

fn added<V: Visit>(v: &mut V, entry: &mut Entry) -> bool {
    let Entry {
        seq: _,
        turn: _,
        generation: _,
        at: _,
        role: _,
        author,
        message,
        parts,
        reasoning,
        provider_state,
        tool_calls,
        tool_call_id: _,
        artifact: _,
        files,
        provenance: of,
        spoken: _,
        quotes: _,
        finish: _,
        tokens: _,
    } = entry;
    let ids = each(message, |message| v.message(message)) | provenance(v, of);
    let by = each(author, |author| v.author(author));
    let named = self::files(v, files);
    let said =
        v.parts(parts) | v.option(reasoning, Kind::Said) | v.state(provider_state) | calls(v, tool_calls);
    if V::MEASURES && (said || by) {
        entry.tokens = entry_tokens(entry);
    }
    ids | by | said | named
}

fn files<V: Visit>(v: &mut V, files: &mut [SentFile]) -> bool {
    each(files, |SentFile { artifact: _, name, media_type: _, bytes: _, alt }| {
        v.words(name, Kind::Said) | v.option(alt, Kind::Said)
    })
}

/// Failures are codes and are not visited.
fn trace<V: Visit>(v: &mut V, trace: &mut Option<Box<CallTrace>>) -> bool {
    each(trace.as_deref_mut(), |trace| {
        let CallTrace {
            at_n: _,
            asked_at: _,
            frame: _,
            body: _,
            last_call: _,
            first_ms: _,
            total_ms: _,
            waited_ms: _,
            cost: _,
            failure: _,
            tried: _,
            work,
        } = trace;
        each(work, |work| {
            let RunCall {
                run: _,
                round: _,
                entries: _,
                target_tokens: _,
                tools_withdrawn: _,
                masked: _,
                added,
            } = work;
            v.talk(added)
        })
    })
}

fn compaction<V: Visit>(v: &mut V, event: &mut CompactionEvent) -> bool {
    match event {
        CompactionEvent::RunStarted { run } => {
            let Run {
                id: _,
                trigger: _,
                tier: _,
                work: _,
                from_seq: _,
                to_seq: _,
                messages: _,
                instruction,
                started_at: _,
                attempt: _,
                retry_at: _,
                tokens_before: _,
                checkpoint: done,
                tell: _,
                failure,
                replaces: _,
                spent: _,
            } = run;
            v.option(instruction, Kind::Said)
                | each(done, |done| checkpoint(v, done))
                | v.option(failure, Kind::Reason)
        }
        CompactionEvent::RunQueued { request: RunRequest { trigger: _, instruction, tell: _ } } => {
            v.option(instruction, Kind::Said)
        }
        CompactionEvent::RunAttemptFailed { run: _, attempt: _, reason, retry_at: _ } => {
            v.words(reason, Kind::Reason)
        }
        CompactionEvent::RunCheckpointed { run: _, checkpoint: done } => checkpoint(v, done),
        CompactionEvent::RunEnded(RunEnd {
            run: _,
            trigger: _,
            outcome: _,
            reason,
            summary: made,
            memories,
            messages: _,
            tokens_before: _,
            tokens_after: _,
            first_kept_seq: _,
            duration_ms: _,
            owes_run: _,
            attempts: _,
            spent: _,
        }) => {
            v.option(reason, Kind::Reason)
                | each(made, |made| summary(v, made))
                | each(memories, |memory| save(v, memory))
        }
        CompactionEvent::EmergencyApplied { marker: of, messages: _, tokens_before: _, tokens_after: _ }
        | CompactionEvent::WindowSlid { marker: of, messages: _, tokens_before: _, tokens_after: _ }
        | CompactionEvent::StackRetired { marker: of } => marker(v, of),
        CompactionEvent::ResultsPruned {
            cause: _,
            results,
            scanned: _,
            tokens_before: _,
            tokens_after: _,
        } => each(results, |result| {
            let PrunedResult { seq: _, form: _, tokens: _, tool: _, whole_bytes: _, artifact: _ } = result;
            false
        }),
        CompactionEvent::UsageSpent { model: _, usage: _, is_estimate: _, trace: of } => trace(v, of),
    }
}

fn checkpoint<V: Visit>(v: &mut V, checkpoint: &mut Checkpoint) -> bool {
    let Checkpoint { chunks: _, to_seq: _, text, made_by: _, memories, left_out: _ } = checkpoint;
    v.words(text, Kind::Made) | v.drafts(memories)
}

fn summary<V: Visit>(v: &mut V, summary: &mut Summary) -> bool {
    let Summary {
        id: _,
        level: _,
        from_seq: _,
        to_seq: _,
        from_at: _,
        to_at: _,
        messages: _,
        tokens: _,
        made_by: _,
        text,
        identifiers,
        provisional: _,
    } = summary;
    let changed = v.words(text, Kind::Made) | v.identifiers(identifiers);
    if V::MEASURES && changed {
        summary.tokens = summary_tokens(summary);
    }
    changed
}

fn marker<V: Visit>(v: &mut V, marker: &mut Marker) -> bool {
    let Marker { kind: _, from_seq: _, to_seq: _, messages: _, digest, tokens: _ } = marker;
    let changed = v.digest(digest);
    if V::MEASURES && changed {
        marker.tokens = marker_tokens(marker);
    }
    changed
}

fn artifact<V: Visit>(v: &mut V, event: &mut ArtifactEvent) -> bool {
    match event {
        ArtifactEvent::Stored { artifact } => {
            let Artifact {
                id: _,
                tool: _,
                message: _,
                sent_in,
                bytes: _,
                sha256: _,
                lines: _,
                stored_at: _,
                used_at: _,
                expired_at: _,
                lost: _,
                file,
            } = artifact;
            let ids = each(sent_in, |message| v.message(message));
            ids | each(file, |FileNote { name, media_type: _ }| v.words(name, Kind::Said))
        }
        ArtifactEvent::Used { id: _ } | ArtifactEvent::Expired { ids: _, lost: _ } => false,
    }
}

fn memory<V: Visit>(v: &mut V, event: &mut MemoryEvent) -> bool {
    match event {
        MemoryEvent::Saved(memory) => save(v, memory),
        MemoryEvent::Edited { id, text, kind: _, importance: _ } => {
            v.memory(id) | v.option(text, Kind::Memory)
        }
        MemoryEvent::Forgotten { id, wished: _ } => v.memory(id),
        // Of quotes it has places alone.
        MemoryEvent::Recalled { ids, tokens: _, scores: _, near, quotes: _ } => {
            each(ids, |id| v.memory(id)) | each(near, |(id, _)| v.memory(id))
        }
    }
}

fn save<V: Visit>(v: &mut V, save: &mut MemorySave) -> bool {
    let MemorySave {
        agent: _,
        scope,
        kind: _,
        text,
        subject,
        importance: _,
        source: Source { channel, from_seq: _, to_seq: _, summary: _, model: _, by, said_at: _, told_by },
        sighting,
        explicit: _,
        replaces: Replaces { ids, from: _ },
    } = save;
    v.words(text, Kind::Memory)
        | v.option(subject, Kind::Memory)
        | v.sighting(sighting, channel.as_ref())
        | each(channel, |channel| v.channel(channel))
        | each([by, told_by], |by| each(by, |by| v.author(by)))
        | each(ids, |id| v.memory(id))
        | match scope {
            Scope::Agent => false,
            Scope::Chat { platform, chat: id } | Scope::User { platform, user: id } => v.bare(platform, id),
        }
}

fn delivery<V: Visit>(v: &mut V, event: &mut DeliveryEvent) -> bool {
    match event {
        DeliveryEvent::Intended {
            id,
            turn: _,
            seq: _,
            note,
            reply_to,
            edits,
            approval: _,
            draft: _,
            files,
        } => {
            // A delivery without a note is a reply, so a note is changed but never removed.
            v.delivery(id)
                | each(note, |note| v.words(note, Kind::Said))
                | each(reply_to.iter_mut().chain(edits), |message| v.message(message))
                | self::files(v, files)
        }
        DeliveryEvent::PutOff { id, part: _, reason } => v.delivery(id) | v.words(reason, Kind::Reason),
        DeliveryEvent::Sent { id, part: _, message } => v.delivery(id) | v.message(message),
        DeliveryEvent::Settled { id, receipt } => {
            v.delivery(id)
                | match receipt {
                    Receipt::Delivered { messages } => each(messages, |message| v.message(message)),
                    Receipt::Dead { reason } | Receipt::Unknown { part: _, reason } => {
                        v.words(reason, Kind::Reason)
                    }
                }
        }
        DeliveryEvent::Attempted { id, part: _ }
        | DeliveryEvent::Retried { id }
        | DeliveryEvent::Dropped { id } => v.delivery(id),
    }
}

fn approval<V: Visit>(v: &mut V, event: &mut ApprovalEvent) -> bool {
    match event {
        ApprovalEvent::Asked { approval } => {
            let Approval {
                id: _,
                turn: _,
                call: _,
                tool: _,
                arguments,
                caused_by,
                reason,
                asked_at: _,
                expires_at: _,
            } = approval;
            let by = set(caused_by, |person| v.person(person));
            by | v.json(arguments) | v.words(reason, Kind::Reason)
        }
        ApprovalEvent::Settled { id: _, outcome: _, by } => each(by, |by| v.person(by)),
    }
}

fn reminder<V: Visit>(v: &mut V, event: &mut ReminderEvent) -> bool {
    match event {
        ReminderEvent::Set(reminder) => {
            let Reminder { id: _, by, text, due: _, rule: _, zone: _, set_at: _, provenance: of } = reminder;
            v.author(by) | v.words(text, Kind::Said) | provenance(v, of)
        }
        ReminderEvent::Cancelled { id: _, by } => each(by, |by| v.person(by)),
    }
}

fn registry<V: Visit>(v: &mut V, event: &mut RegistryEvent) -> bool {
    match event {
        RegistryEvent::PairingRequested { user, chat, code: _ } => {
            let platform = user.id.split('/').next().unwrap_or_default().to_owned();
            v.author(user) | v.bare(&platform, chat)
        }
        RegistryEvent::PairingApproved { user }
        | RegistryEvent::PairingRevoked { user }
        | RegistryEvent::BanLifted { user } => v.person(user),
        RegistryEvent::PrivacySet { user, chat, on: _ } => {
            let platform = user.split('/').next().unwrap_or_default().to_owned();
            v.person(user) | each(chat, |chat| v.bare(&platform, chat))
        }
        RegistryEvent::BanSet { user, reason, until: _, by } => {
            v.person(user) | v.option(reason, Kind::Reason) | v.person(by)
        }
        RegistryEvent::AccessSet { platform, access } => {
            let AccessPolicy {
                agent: _,
                direct: _,
                users,
                servers: _,
                chats,
                members,
                respond: _,
                bots: _,
                places,
            } = access;
            let rules = each(places, |place| {
                let PlaceRule { server: _, chat, thread: _, agent: _, language: _, respond: _, members } =
                    place;
                each(chat, |chat| v.bare(platform, chat))
                    | each(members, |members| set(members, |id| v.bare(platform, id)))
            });
            rules | each([users, chats, members], |ids| set(ids, |id| v.bare(platform, id)))
        }
        RegistryEvent::ChatMigrated { platform, from, to } => v.bare(platform, from) | v.bare(platform, to),
        RegistryEvent::ServerApproved { pin: _ } | RegistryEvent::ServerRevoked { server: _ } => false,
    }
}

fn maintenance<V: Visit>(v: &mut V, event: &mut MaintenanceEvent) -> bool {
    match event {
        MaintenanceEvent::WordsExpired { channel, entries: _, summaries: _ } => v.channel(channel),
        MaintenanceEvent::DaemonStarted { version: _ }
        | MaintenanceEvent::DaemonStopped
        | MaintenanceEvent::TextKept { id: _, text: _ }
        | MaintenanceEvent::PersonErased { pseudonym: _, figures: _ }
        | MaintenanceEvent::RecordsRemoved { from_n: _, to_n: _, by: _ }
        | MaintenanceEvent::LinesQuarantined { from_n: _, to_n: _, next_seq: _ } => false,
    }
}

#[cfg(test)]
mod tests;
