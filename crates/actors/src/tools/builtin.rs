//! The built-in tools. They reach this channel and the memories that may be read in it, nothing else.

use std::sync::Arc;

use cairn_core::artifact::{PAGE_FRAME_BYTES, named, page, readable};
use cairn_core::builtin_tools::{
    CAPTION_MAX, HISTORY_SEARCH, MEMORY_FORGET, MEMORY_SAVE, PAGES_MAX, REMIND, REMINDER_CANCEL, REMINDERS,
    SEND_FILE, TIME,
};
use cairn_core::compaction::parse_memory;
use cairn_core::conversation::Conversation;
use cairn_core::excerpt;
use cairn_core::memory::{NotLearnt, asker_of, may_forget};
use cairn_core::reminder::{self, NewReminder, PERIOD_MIN, When};
use cairn_core::result_guard::ResultRoom;
use cairn_core::settings::ResultGuardSettings;
use cairn_core::trust::{memory_provenance, window_provenance};
use cairn_core::window::{escape_name, memory_dates, memory_words, short_time};
use cairn_types::event::{ArtifactEvent, Event, MemoryEvent, ReminderEvent};
use cairn_types::ids::{MemoryId, MessageId, ReminderId, Seq};
use cairn_types::memory::{DraftMemory, Memory, MemorySave, Reach, Scope, Source, credit, likely_sources};
use cairn_types::message::{Entry, Provenance, Role, ToolCall};
use cairn_types::people::said::SaidFilter;
use cairn_types::ports::{Hit, HitKind, LineRange, MemoryFilter, Query};
use cairn_types::reminder::Reminder;
use cairn_types::text::edges::READ_TOOL;
use cairn_types::texts::{Key, Saying};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::files;
use crate::handle::ChannelHandle;
use crate::ports::Ports;
use crate::saving::Saving;
use crate::tasks::off_thread;

/// Most memories that `memory_search` returns.
const MEMORIES_MAX: usize = 10;

/// Hits on a page of `history_search`.
const HITS: usize = 20;

/// Longest excerpt of a hit, in characters. Twenty of them take some 1,500 tokens.
const HIT_MAX_CHARS: usize = 300;

/// Most entries that one `history_read` returns.
const READ_MAX: usize = 50;

/// A page of `history_read` ends with the entry that exceeds this size.
const PAGE_BYTES: usize = 200_000;

/// An index that lacks more records than this is being rebuilt, not just a little behind.
const UNINDEXED_MAX: u64 = 1_000;

/// Why a save is refused that would learn from what is private.
const PRIVATE: &str =
    "not saved: this chat, or the person who wrote this, is private (/private), so nothing is learnt";

/// Why a save is refused that would bring back what a person had forgotten.
const FORGOTTEN: &str = "not saved: somebody asked to forget this. To keep it again, the person whom you answer can use \
    /remember with the text";

/// Added to search results while the index is being rebuilt.
const INCOMPLETE: &str = "\n(incomplete: the search index is being made; search again later)";

pub(super) struct Output {
    pub(super) text: String,
    pub(super) provenance: Provenance,
    pub(super) events: Vec<Event>,
}

impl Output {
    fn own(text: String) -> Self {
        Self { text, provenance: Provenance::default(), events: Vec::new() }
    }
}

pub(super) struct Builtin {
    pub(super) ports: Arc<Ports>,
    pub(super) handle: Arc<ChannelHandle>,
    reach: Vec<Reach>,
}

impl Builtin {
    pub(super) fn new(ports: Arc<Ports>, handle: Arc<ChannelHandle>) -> Self {
        let share = handle.settings().memory.share;
        let reach =
            handle.read(|conversation| Reach::of(&handle.id, conversation.direct_with.as_deref(), share));
        Self { reach, ports, handle }
    }

    /// Calls a built-in tool. `room`: the space in the window for its result.
    pub(super) async fn call(
        &self,
        call: &ToolCall,
        model: &str,
        ordinal: usize,
        room: &ResultRoom,
    ) -> Result<Output, String> {
        let settings = self.handle.settings();
        let arguments = &call.arguments;
        match call.name.as_str() {
            MEMORY_SAVE => {
                let draft = parse_memory(arguments)?;
                let said = self.handle.read(of_open_turn);
                self.check_privacy(&draft, &said).await?;
                let saving = Saving::new(&self.ports, &self.handle, &said);
                saving.check(&draft).await?;
                let told = saving.told(&draft).await;
                let save = self.memory_save(draft, &said, model, ordinal)?;
                if self.ports.store.is_forgotten(&save).await.map_err(|error| error.to_string())? {
                    return Err(FORGOTTEN.to_owned());
                }
                Ok(Output { events: vec![Event::Memory(MemoryEvent::Saved(save))], ..Output::own(told) })
            }
            MEMORY_FORGET => self.memory_forget(arguments).await,
            "memory_search" => self.memory_search(arguments).await,
            HISTORY_SEARCH => self.history_search(arguments).await,
            "history_read" => self.history_read(arguments).await,
            REMIND => self.remind(arguments, ordinal).await,
            REMINDERS => Ok(self.reminders(&settings.timezone)),
            REMINDER_CANCEL => self.reminder_cancel(arguments),
            TIME => time(arguments, self.ports.now(), &settings.timezone).map(Output::own),
            SEND_FILE => self.send_file(arguments, ordinal).await,
            READ_TOOL => self.artifact_read(arguments, &settings.result_guard, room).await,
            name => Err(format!("`{name}` cannot be called any more; it is there no longer")),
        }
    }

    /// `said`: the open turn's entries.
    fn memory_save(
        &self,
        mut draft: DraftMemory,
        said: &[Arc<Entry>],
        model: &str,
        ordinal: usize,
    ) -> Result<MemorySave, String> {
        self.handle.read(|conversation| {
            let live: Vec<_> = conversation.live.iter().cloned().collect();
            credit(std::slice::from_mut(&mut draft), &live);
            // What is saved in a turn was most likely said in it.
            let source = likely_sources(&draft.text, said, 1).pop();
            draft.said_at = source.map(|found| found.entry.at).or(draft.said_at);
            let open = conversation.open_turn.as_ref().ok_or("the turn has ended")?;
            let last = Seq(conversation.next_seq.0 - 1);
            Ok(MemorySave {
                agent: self.handle.id.agent(),
                scope: Scope::learnt_in(&self.handle.id, conversation.direct_with.as_deref()),
                kind: draft.kind,
                text: draft.text,
                subject: draft.subject,
                importance: draft.importance,
                source: Source {
                    channel: Some(self.handle.id.clone()),
                    from_seq: Some(open.first_seq),
                    to_seq: Some(last),
                    summary: None,
                    model: model.to_owned(),
                    by: draft.by,
                    said_at: draft.said_at,
                    told_by: draft.told_by,
                },
                // Unique in the channel: the number of the calling entry, and the call's position in it.
                sighting: format!("{}/{last}/{ordinal}", self.handle.id),
                explicit: false,
                replaces: draft.replaces,
            })
        })
    }

    /// Whether it may be learnt.
    async fn check_privacy(&self, draft: &DraftMemory, said: &[Arc<Entry>]) -> Result<(), String> {
        let registry = self.ports.store.registry().await.map_err(|error| error.to_string())?;
        let live: Vec<_> = self.handle.read(|conversation| conversation.live.iter().cloned().collect());
        let not_learnt = NotLearnt::of(&registry, &self.handle.id, &live);
        let is_private = said.iter().any(|entry| not_learnt.has_turn(&entry.turn));
        if is_private || not_learnt.covers(&draft.text, &live) {
            metrics::counter!("cairn_memories_refused_total").increment(1);
            return Err(PRIVATE.to_owned());
        }
        Ok(())
    }

    async fn memory_forget(&self, arguments: &Value) -> Result<Output, String> {
        let id = MemoryId::from(text_argument(arguments, "id")?);
        let said = self.handle.read(of_open_turn);
        let trust = &self.handle.settings().trust;
        let asker = asker_of(said.iter().map(AsRef::as_ref), trust)?;
        let found = self.ports.store.memory(&id).await.map_err(|error| error.to_string())?;
        let is_here = |memory: &Memory| {
            memory.agent == self.handle.id.agent() && self.reach.iter().any(|reach| reach.holds(memory))
        };
        let memory = found.filter(is_here).ok_or_else(|| format!("there is no memory `{id}` here"))?;
        may_forget(&memory, asker.as_deref())?;
        tracing::info!(channel = %self.handle.id, memory = %id, operator = asker.is_none(),
            "the model forgot a memory at a person's request");
        let forgotten = Event::Memory(MemoryEvent::Forgotten { id, wished: true });
        Ok(Output { events: vec![forgotten], ..Output::own(format!("forgotten: {}", memory_words(&memory))) })
    }

    /// The person for whom the turn works: the author of the newest message that it answers.
    fn asker(conversation: &Conversation) -> Result<&Entry, String> {
        let open = conversation.open_turn.as_ref().ok_or("the turn has ended")?;
        let asked =
            |entry: &&Arc<Entry>| entry.message.as_ref() == open.asked.last() && entry.author.is_some();
        let entry = conversation.live.iter().rev().find(asked).ok_or("nobody asked for it")?;
        Ok(entry)
    }

    /// Its text may be anybody's whose text the window holds: so the reminder can do no more when it fires than this turn can.
    async fn remind(&self, arguments: &Value, ordinal: usize) -> Result<Output, String> {
        let (now, zone_name) = (self.ports.now(), self.handle.settings().timezone.clone());
        let zone = reminder::zone(&zone_name);
        let given = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::trim);
        let phrase = match (given("at"), given("after"), given("every")) {
            (Some(at), None, None) => at.to_owned(),
            (None, Some(after), None) => format!("in {}", after.strip_prefix("in ").unwrap_or(after)),
            (None, None, Some(every)) => format!("every {}", every.strip_prefix("every ").unwrap_or(every)),
            _ => return Err("give one of `at`, `after` and `every`".to_owned()),
        };
        let (when, rest) = reminder::read(&phrase, now, &zone)?;
        if !rest.is_empty() {
            return Err(format!("`{phrase}` is no time: {}", Saying::from(Key::ReminderHow)));
        }
        let text = text_argument(arguments, "text")?;
        let mut recalled = Vec::new();
        for id in self.handle.read(|conversation| conversation.recalled.clone()) {
            recalled.extend(self.ports.store.memory(&id).await.map_err(|error| error.to_string())?);
        }
        self.handle.read(|conversation| {
            let asker = Self::asker(conversation)?;
            let is_again = asker.message.as_ref().is_some_and(MessageId::is_reminder);
            if let (true, When::Once(at)) = (is_again, &when)
                && at.duration_since(now).as_mins() < PERIOD_MIN as i64
            {
                return Err(format!(
                    "a reminder may set the next one in {PERIOD_MIN} minutes at the earliest"
                ));
            }
            // Unique in the channel, as those of memories.
            let id = format!("{}-{}", conversation.next_seq.0 - 1, ordinal + 1);
            let new = NewReminder {
                id: Some(id.as_str().into()),
                by: asker.author.clone().ok_or("nobody asked for it")?,
                text,
                when,
                zone: zone_name,
                provenance: window_provenance(conversation, &recalled),
            };
            let set = reminder::set(conversation, new, now)?;
            let text = format!("reminder {id} is set for {}", reminder::local_time(set.due, &zone));
            Ok(Output { events: vec![Event::Reminder(ReminderEvent::Set(set))], ..Output::own(text) })
        })
    }

    fn reminders(&self, zone: &str) -> Output {
        let zone = reminder::zone(zone);
        self.handle.read(|conversation| {
            let mut provenance = Provenance::default();
            let line = |set: &Reminder| {
                provenance.join(&Provenance::of_person(&set.by.id));
                provenance.join(&set.provenance);
                let every = set.rule.as_ref().map_or_else(String::new, |rule| format!(", every {rule}"));
                let (by, due) = (escape_name(&set.by.name), reminder::local_time(set.due, &zone));
                format!("[{} | {due}{every} | {by}] {}", set.id, set.text)
            };
            let lines: Vec<String> = conversation.reminders.values().map(line).collect();
            let text = if lines.is_empty() { "no reminder is set here".to_owned() } else { lines.join("\n") };
            Output { text, provenance, events: Vec::new() }
        })
    }

    fn reminder_cancel(&self, arguments: &Value) -> Result<Output, String> {
        let id = text_argument(arguments, "id")?;
        self.handle.read(|conversation| {
            let by = Self::asker(conversation)?.author.as_ref().map(|author| author.id.clone());
            let known = conversation.reminders.get(&ReminderId::from(id.as_str()));
            if known.is_none_or(|known| Some(&known.by.id) != by.as_ref()) {
                return Err(format!("the person whom you answer has no reminder `{id}` here"));
            }
            let cancelled = ReminderEvent::Cancelled { id: id.into(), by };
            Ok(Output { events: vec![Event::Reminder(cancelled)], ..Output::own("cancelled".to_owned()) })
        })
    }

    async fn memory_search(&self, arguments: &Value) -> Result<Output, String> {
        let query = text_argument(arguments, "query")?;
        let filter = MemoryFilter { query: Some(query), limit: MEMORIES_MAX, ..MemoryFilter::default() };
        let agent = &self.handle.id.agent();
        let found = self.ports.store.memories(agent, &self.reach, filter).await;
        let found = found.map_err(|error| error.to_string())?;
        let mut provenance = Provenance::default();
        self.handle.read(|conversation| {
            found.iter().for_each(|memory| provenance.join(&memory_provenance(memory, conversation)));
        });
        let now = self.ports.now().to_zoned_datetime(reminder::zone(&self.handle.settings().timezone));
        let lines: Vec<String> = found
            .iter()
            .map(|memory| {
                let (id, kind, at) = (&memory.id, memory.kind.name(), memory_dates(memory, &now));
                format!("[{id} | {kind} | {at}] {}", memory_words(memory))
            })
            .collect();
        if lines.is_empty() {
            return Ok(Output::own("nothing is remembered about that".to_owned()));
        }
        Ok(Output { text: lines.join("\n"), provenance, events: Vec::new() })
    }

    async fn history_search(&self, arguments: &Value) -> Result<Output, String> {
        let page = match arguments.get("page").filter(|page| !page.is_null()) {
            None => 1,
            Some(page) => {
                let page = page.as_u64().filter(|page| (1..=PAGES_MAX).contains(page));
                page.ok_or_else(|| format!("`page` is a number from 1 to {PAGES_MAX}"))?
            }
        };
        let before = (page as usize - 1) * HITS;
        let query = Query {
            channel: Some(self.handle.id.clone()),
            text: text_argument(arguments, "query")?,
            said: said_argument(arguments, &self.handle.settings().timezone)?,
            // One more tells whether there is another page.
            limit: before + HITS + 1,
            ..Query::default()
        };
        let hits = self.ports.store.search(query).await.map_err(|error| error.to_string())?;
        let hits: Vec<Hit> =
            hits.into_iter().filter(|hit| hit.kind != HitKind::Memory).skip(before).collect();
        let is_incomplete = self.ports.store.unindexed() > UNINDEXED_MAX;
        let note = if is_incomplete { INCOMPLETE } else { "" };
        if hits.is_empty() {
            return Ok(Output::own(format!("nothing found{note}")));
        }
        let has_more = hits.len() > HITS;
        // The texts may be long.
        let lines = off_thread(move || hits.iter().take(HITS).map(hit_line).collect());
        let mut lines: Vec<String> = lines.await.map_err(|panic| panic.to_string())?;
        if has_more && page < PAGES_MAX {
            lines.push(format!("[there are more: ask for page {}]", page + 1));
        }
        // A summary quotes anybody.
        let provenance = self.handle.read(|conversation| conversation.heard.clone());
        Ok(Output { text: lines.join("\n") + note, provenance, events: Vec::new() })
    }

    /// Reads entries word for word. If they are too large for the window, the result guard shortens them.
    async fn history_read(&self, arguments: &Value) -> Result<Output, String> {
        let number = |name: &str| {
            let value = arguments.get(name).and_then(Value::as_u64);
            value.ok_or_else(|| format!("`{name}` is missing or not a message number"))
        };
        let (from, to) = (Seq(number("from")?), Seq(number("to")?));
        if from > to {
            return Err(format!("`from` = {from} is after `to` = {to}"));
        }
        let entries = self.ports.store.entries(&self.handle.id, from, to, READ_MAX).await;
        let entries = entries.map_err(|error| error.to_string())?;
        let mut page: Vec<String> = Vec::new();
        let mut bytes = 0;
        for entry in &entries {
            let line = line(entry);
            bytes += line.len();
            page.push(line);
            if bytes > PAGE_BYTES {
                break;
            }
        }
        let Some(last) = page.len().checked_sub(1).and_then(|idx| entries.get(idx)) else {
            return Ok(Output::own("no messages with these numbers".to_owned()));
        };
        let newest = self.handle.read(|conversation| Seq(conversation.next_seq.0.saturating_sub(1)));
        if last.seq < to.min(newest) {
            page.push(format!("[there are more: call history_read from {} on]", last.seq.next()));
        }
        // The model's own text may repeat anybody's.
        let provenance = self.handle.read(|conversation| conversation.heard.clone());
        Ok(Output { text: page.join("\n"), provenance, events: Vec::new() })
    }

    async fn artifact_read(
        &self,
        arguments: &Value,
        settings: &ResultGuardSettings,
        room: &ResultRoom,
    ) -> Result<Output, String> {
        let id = text_argument(arguments, "id")?;
        let number = |name: &str, least: u64, default: u64| match arguments.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value
                .as_u64()
                .filter(|n| *n >= least)
                .ok_or_else(|| format!("`{name}` is not a whole number from {least} on")),
        };
        let (from, count) = (number("from", 1, 1)?, number("count", 1, u64::MAX)?);
        let offset = number("offset", 0, 0)?;
        let found = self.ports.store.artifact(&self.handle.id, &named(&id)).await;
        let found = found.map_err(|error| error.to_string())?;
        let newest = self.handle.read(|conversation| conversation.newest_artifact);
        let artifact = readable(found, newest, &id, from).map_err(|error| error.to_string())?;
        if let Some(file) = &artifact.file {
            return Err(format!(
                "artifact {} is a file ({}) that cannot be read as text",
                artifact.id, file.media_type
            ));
        }
        let max_bytes = settings.max_bytes.saturating_sub(PAGE_FRAME_BYTES).max(PAGE_FRAME_BYTES);
        let range = LineRange { from, offset, count, max_bytes };
        let found = self.ports.store.artifact_lines(&self.handle.id, &artifact, range).await;
        let Some(found) = found.map_err(|error| error.to_string())? else {
            tracing::error!(channel = %self.handle.id, artifact = %artifact.id,
                "an artifact's file is missing or damaged; its content is lost; `cairn store verify` lists such \
                 artifacts");
            return Err(cairn_core::artifact::lost(&artifact).to_string());
        };
        let used = Event::Artifact(ArtifactEvent::Used { id: artifact.id.clone() });
        let text = page(&artifact, from, &found, room);
        let provenance = match artifact.message {
            Some(seq) => self.handle.read(|conversation| {
                let said = conversation.live.iter().find(|entry| entry.seq == seq);
                said.map_or_else(Provenance::of_strangers, |entry| Provenance::of_entry(entry))
            }),
            // The provenance of the tool result or message that the artifact holds.
            None => Provenance::of_tools(),
        };
        Ok(Output { text, provenance, events: vec![used] })
    }
}

impl Builtin {
    /// Has an artifact of this channel sent to its chat.
    async fn send_file(&self, arguments: &Value, ordinal: usize) -> Result<Output, String> {
        let id = text_argument(arguments, "id")?;
        let text = |name: &str| text_argument(arguments, name).unwrap_or_default();
        let caption = text("caption");
        if caption.chars().count() > CAPTION_MAX {
            return Err(format!("`caption` is longer than {CAPTION_MAX} characters"));
        }
        let found = self.ports.store.artifact(&self.handle.id, &named(&id)).await;
        let newest = self.handle.read(|conversation| conversation.newest_artifact);
        let found = found.map_err(|error| error.to_string())?;
        let artifact = readable(found, newest, &id, 1).map_err(|error| error.to_string())?;
        files::check(&self.ports, &self.handle.id, artifact.bytes)
            .map_err(|why| format!("it is not sent: {why}"))?;
        let mut file = files::as_sent(&artifact);
        file.name = files::clean_name(&text("name")).unwrap_or(file.name);
        file.alt =
            Some(text("alt")).filter(|alt| !alt.is_empty()).map(|alt| alt.chars().take(ALT_MAX).collect());
        let told = format!("sent to the chat: {} ({})", file.name, files::size(file.bytes));
        // Unique in the turn: the calls of a round differ by their ordinals, the rounds by the entries before them.
        let next = self.handle.read(|conversation| conversation.next_seq);
        let delivery = files::intent(&self.handle, &format!("{next}-{ordinal}"), caption, vec![file]);
        let delivery = delivery.ok_or("the turn has ended")?;
        let used = Event::Artifact(ArtifactEvent::Used { id: artifact.id });
        Ok(Output { events: vec![used, delivery], ..Output::own(told) })
    }
}

/// Longest description of a file, in characters, as Discord takes it ("Attachment Object" in its documentation).
const ALT_MAX: usize = 1_024;

/// The entries of the open turn.
fn of_open_turn(conversation: &Conversation) -> Vec<Arc<Entry>> {
    let Some(open) = &conversation.open_turn else { return Vec::new() };
    conversation.live.iter().filter(|entry| entry.turn == open.id).cloned().collect()
}

fn line(entry: &Entry) -> String {
    let who = match entry.role {
        Role::User => entry.author.as_ref().map_or_else(String::new, |author| escape_name(&author.name)),
        Role::Assistant => "assistant".to_owned(),
        Role::Tool => "tool".to_owned(),
    };
    format!("[#{} | {} | {who}] {}", entry.seq, short_time(entry.at), entry.text())
}

fn hit_line(hit: &Hit) -> String {
    let number = hit.seq.map_or_else(String::new, |seq| format!("#{seq}"));
    let number = match hit.kind {
        HitKind::Summary => format!("summary, from {number} on"),
        HitKind::Entry | HitKind::Memory => number,
    };
    let who = match (&hit.author, hit.kind) {
        (Some(author), _) => format!(" | {}", escape_name(&author.name)),
        (None, HitKind::Entry) => " | assistant".to_owned(),
        (None, _) => String::new(),
    };
    let words = excerpt::around(&hit.text, &hit.marks, HIT_MAX_CHARS);
    format!("[{number} | {}{who}] {words}", short_time(hit.at))
}

/// When and by whom something was said, as a call asks for it.
fn said_argument(arguments: &Value, zone: &str) -> Result<SaidFilter, String> {
    let text = |name: &str| {
        let text = arguments.get(name).and_then(Value::as_str).map(str::trim);
        text.filter(|text| !text.is_empty())
    };
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let (since, until) = (day(text("from"), &zone, false), day(text("until"), &zone, true));
    let wrong =
        |name| format!("`{name}` is neither a day, such as 2026-03-01, nor a time, such as 2026-03-01T18:00");
    Ok(SaidFilter {
        since: since.map_err(|_| wrong("from"))?,
        until: until.map_err(|_| wrong("until"))?,
        user: text("by").map(str::to_owned),
    })
}

/// A moment, or the beginning or the last moment of a day.
fn day(text: Option<&str>, zone: &TimeZone, at_end: bool) -> Result<Option<Timestamp>, jiff::Error> {
    let Some(text) = text else { return Ok(None) };
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Some(at));
    }
    if text.len() > "2026-03-01".len() {
        return Ok(Some(text.parse::<DateTime>()?.to_zoned_datetime(zone.clone())?.timestamp()));
    }
    let date = text.parse::<Date>()?;
    let at = if at_end { date.to_datetime(Time::MAX) } else { date.to_datetime(Time::MIN) };
    Ok(Some(at.to_zoned_datetime(zone.clone())?.timestamp()))
}

fn text_argument(arguments: &Value, name: &str) -> Result<String, String> {
    let text = arguments.get(name).and_then(Value::as_str).map(str::trim);
    let text = text.filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("`{name}` is missing or empty"))
}

/// The time in the requested time zone, else in the agent's.
fn time(arguments: &Value, now: Timestamp, own_zone: &str) -> Result<String, String> {
    let wanted = arguments.get("zone").and_then(Value::as_str).filter(|zone| !zone.trim().is_empty());
    let name = wanted.unwrap_or(own_zone).trim();
    let zone = TimeZone::get(name)
        .map_err(|_| format!("`{name}` is no time zone; write an IANA name, such as Europe/Berlin or UTC"))?;
    Ok(format!("{} ({name})", now.to_zoned_datetime(zone).strftime("%A, %Y-%m-%d %H:%M:%S, UTC%:z")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_day_counts_whole_in_the_agents_zone_and_a_time_as_it_is() {
        let said = |arguments| said_argument(&arguments, "Europe/Berlin");
        let found = said(json!({ "from": "2026-03-01", "until": "2026-03-01", "by": " Ann " })).unwrap();
        assert_eq!(found.since, Some("2026-02-28T23:00:00Z".parse().unwrap()));
        assert_eq!(found.until, Some("2026-03-01T22:59:59.999999999Z".parse().unwrap()));
        assert_eq!(found.user.as_deref(), Some("Ann"));
        let found = said(json!({ "from": "2026-03-01T18:00", "until": "2026-03-01T18:00:00Z" })).unwrap();
        assert_eq!(found.since, Some("2026-03-01T17:00:00Z".parse().unwrap()));
        assert_eq!(found.until, Some("2026-03-01T18:00:00Z".parse().unwrap()));
        assert_eq!(said(json!({ "from": "" })).unwrap(), SaidFilter::default());
        assert!(said(json!({ "until": "last week" })).unwrap_err().contains("such as 2026-03-01"));
    }

    #[test]
    fn the_time_is_told_in_any_zone() {
        let now: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
        assert_eq!(time(&json!({}), now, "UTC").unwrap(), "Wednesday, 2026-07-01 12:00:00, UTC+00:00 (UTC)");
        let berlin = time(&json!({ "zone": "Europe/Berlin" }), now, "UTC").unwrap();
        assert_eq!(berlin, "Wednesday, 2026-07-01 14:00:00, UTC+02:00 (Europe/Berlin)");
        assert!(time(&json!({ "zone": "Middle/Earth" }), now, "UTC").unwrap_err().contains("IANA"));
    }
}
