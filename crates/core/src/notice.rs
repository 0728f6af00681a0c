//! Notes to a chat. One is behind an answer that the model did not finish, and part of it. The others are beside answers: a
//! message is larger than the window, a requested compaction is done, messages were lost from view, a run failed for good, the
//! model's server cuts requests, nobody knows whether a message arrived. Pure: the channel journals these as notes that the
//! outbox owes.
//!
//! The first two of the others belong to an answer and always come, as does the last one. The rest come only if something was
//! lost, and never with `compaction.notices = false`: the next two at most once an hour in a chat, the last of them once.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use cairn_types::event::{CompactionEvent, DeliveryEvent, Event, Receipt, Run, RunEnd, RunOutcome};
use cairn_types::ids::{ChannelId, LOCAL_PLATFORM, MessageId, OutboxId, RunId, Seq, TurnId};
use cairn_types::message::{Entry, Finish};
use cairn_types::ports::OutboxItem;
use cairn_types::summary::MADE_BY_DIGEST;
pub use cairn_types::text::escape::grouped;
use cairn_types::texts::{Key, Texts};

/// How long a run over messages dropped by an emergency may take before the chat is told.
const SOON: SignedDuration = SignedDuration::from_secs(60);

/// Least time between two notices in one chat.
const APART: SignedDuration = SignedDuration::from_hours(1);

/// Characters of a summary that a report in a chat quotes.
const QUOTE_CHARS: usize = 600;

/// Whether to tell the chat about messages lost from view.
#[derive(Debug, Clone, PartialEq)]
pub enum Due {
    Nothing,
    /// Not before that time, if they are still lost by then.
    At(Timestamp),
    Now(Box<Event>),
}

/// Whether to tell the chat that an emergency dropped messages and no summary followed: once for each emergency.
pub fn due(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Due {
    let Some(lost) = conversation.lost.filter(|lost| !lost.told && is_told(conversation, agent)) else {
        return Due::Nothing;
    };
    let soon = later(lost.at, SOON);
    let at = conversation.noticed_at.map_or(soon, |noticed| soon.max(later(noticed, APART)));
    // Further away only after the clock was set back.
    if at > now && at.duration_since(now) <= APART {
        return Due::At(at);
    }
    let texts = agent.texts(conversation);
    Due::Now(Box::new(note(conversation, conversation.lost_id(lost.to_seq), texts.say(Key::Lost))))
}

/// Adds to these events the notes that the ends of runs among them make due.
pub fn with_notes(
    conversation: &Conversation,
    agent: &AgentSettings,
    events: Vec<Event>,
    now: Timestamp,
) -> Vec<Event> {
    let mut out = Vec::with_capacity(events.len() + 1);
    for event in events {
        let note = match &event {
            Event::Compaction(CompactionEvent::RunEnded(end)) => {
                let begun = out.iter().find_map(|event| match event {
                    Event::Compaction(CompactionEvent::RunStarted { run }) if run.id == end.run => Some(run),
                    _ => None,
                });
                let run = begun.or(conversation.run.as_ref()).filter(|run| run.id == end.run);
                run.and_then(|run| of_end(conversation, agent, run, end, now))
            }
            _ => None,
        };
        out.push(event);
        out.extend(note);
    }
    out
}

/// The note that a run's end makes due.
fn of_end(
    conversation: &Conversation,
    agent: &AgentSettings,
    run: &Run,
    end: &RunEnd,
    now: Timestamp,
) -> Option<Event> {
    if conversation.channel.platform() == LOCAL_PLATFORM {
        return None;
    }
    let texts = agent.texts(conversation);
    if run.tell {
        return Some(note(conversation, report_id(&conversation.channel, &run.id), report(end, texts)));
    }
    if run.trigger.is_deferrable() {
        return None;
    }
    let words = match (end.outcome, &end.summary) {
        (RunOutcome::Committed, Some(summary)) if summary.made_by == MADE_BY_DIGEST => Key::Digested,
        (RunOutcome::Failed, _) => Key::NotSummarised,
        _ => return None,
    };
    // After the clock was set back nobody knows how long ago the last one was.
    let is_recent = |noticed: Timestamp| noticed <= now && now.duration_since(noticed) < APART;
    if !is_told(conversation, agent) || conversation.noticed_at.is_some_and(is_recent) {
        return None;
    }
    let id = OutboxId::from(format!("{}run:{}", conversation.notice_prefix(), run.id));
    Some(note(conversation, id, texts.say(words)))
}

/// One line for the authors of these messages, if the model sees only part of them. `cut`: the request was cut further to
/// fit. `None`: the model sees all of them.
pub fn long_messages(
    conversation: &Conversation,
    agent: &AgentSettings,
    messages: &[MessageId],
    cut: bool,
) -> Option<String> {
    let is_one = |entry: &&Arc<Entry>| entry.message.as_ref().is_some_and(|id| messages.contains(id));
    let sent = conversation.live.iter().filter(is_one).filter_map(|entry| {
        let pruned = conversation.pruned.get(&entry.seq)?;
        Some((u64::from(entry.tokens), pruned))
    });
    let (mut n, mut whole, mut shown, mut reads) = (0, 0, 0, true);
    for (tokens, pruned) in sent {
        n += 1;
        whole += tokens;
        shown += u64::from(pruned.tokens);
        reads &= pruned.artifact.is_some();
    }
    let texts = agent.texts(conversation);
    if n == 0 {
        return cut.then(|| texts.say(Key::LongCut));
    }
    let key = match (n, reads && !cut) {
        (1, true) => Key::LongMessageReadable,
        (1, false) => Key::LongMessage,
        (_, true) => Key::LongMessagesReadable,
        (_, false) => Key::LongMessages,
    };
    let correction = conversation.correction(&agent.model);
    let (whole, shown) = (grouped(correction.apply(whole)), grouped(correction.apply(shown)));
    Some(texts.say(key.with("whole", whole).with("shown", shown)))
}

/// The note, once per chat, that the model's server reads only part of large requests, and what the operator can do about
/// it.
pub fn note_of_cut(conversation: &Conversation, agent: &AgentSettings) -> Option<Event> {
    let is_known = conversation.learnt.get(&agent.model).is_some_and(|learnt| learnt.cut);
    let id = OutboxId::from(format!("{}:cut:{}", conversation.channel, conversation.next_seq));
    (!is_known && is_told(conversation, agent))
        .then(|| note(conversation, id, agent.texts(conversation).say(Key::ServerCuts)))
}

/// Adds to a delivery's events the note that its message may be missing, if its fate is unknown. One note is enough for all
/// messages before it: none is added while one is owed.
pub fn with_unsure(
    conversation: &Conversation,
    agent: &AgentSettings,
    mut events: Vec<Event>,
    now: Timestamp,
) -> Vec<Event> {
    let prefix = unsure_prefix(&conversation.channel);
    let unknown = events.iter().find_map(|event| match event {
        Event::Delivery(DeliveryEvent::Settled { id, receipt: Receipt::Unknown { .. } }) => Some(id),
        _ => None,
    });
    let is_told = || conversation.owed.iter().any(|owed| owed.as_str().starts_with(&prefix));
    if let Some(unknown) = unknown.filter(|_| !is_told()) {
        let of_channel = unknown.as_str().strip_prefix(conversation.channel.as_str()).unwrap_or_default();
        // An operator may retry the delivery, and its fate may be unknown again.
        let id = OutboxId::from(format!("{prefix}{}{of_channel}", now.as_millisecond()));
        events.push(note(conversation, id, agent.texts(conversation).say(Key::Unsure)));
    }
    events
}

/// Whether a delivery may be sent again although it may be there: it is the note of [`with_unsure`], and two of them mislead
/// nobody.
pub fn may_be_doubled(item: &OutboxItem) -> bool {
    item.id.as_str().starts_with(&unsure_prefix(&item.channel))
}

fn unsure_prefix(channel: &ChannelId) -> String {
    format!("{channel}:unsure:")
}

/// The note behind an answer that the model did not finish itself; `None`: it did. It becomes part of the answer, so that
/// the model later sees what people saw and understands "go on". `lost_call`: the answer was cut within a tool call. A code
/// block that the text leaves open is closed first.
pub fn of_finish(finish: Finish, text: &str, lost_call: bool, texts: &Texts) -> Option<String> {
    let key = if lost_call { Key::CutOffCall } else { Key::CutOff };
    let cut = |why: Key| texts.say(key.with("why", why));
    let note = match finish {
        Finish::Stop | Finish::ToolCalls => return None,
        Finish::Length => cut(Key::CutByLength),
        Finish::ContextWindow => cut(Key::CutByWindow),
        Finish::Pause => cut(Key::CutByPause),
        Finish::Refusal => texts.say(Key::CutDeclined),
        Finish::ContentFilter => texts.say(Key::CutFiltered),
    };
    let closing = open_fence(text).map(|fence| format!("{fence}\n")).unwrap_or_default();
    Some(if text.is_empty() { note } else { format!("{closing}\n{note}") })
}

/// The fence that closes the code block which a Markdown text leaves open.
fn open_fence(text: &str) -> Option<&str> {
    let mut open: Option<&str> = None;
    for line in text.lines().map(str::trim) {
        let Some(mark) = line.chars().next().filter(|c| matches!(c, '`' | '~')) else { continue };
        let (fence, rest) = line.split_at(line.len() - line.trim_start_matches(mark).len());
        open = match open {
            None if fence.len() >= 3 && !rest.contains('`') => Some(fence),
            Some(opened) if fence.starts_with(opened) && rest.is_empty() => None,
            open => open,
        };
    }
    open
}

/// The note about long messages to the chat of the open turn; `None`: nothing to say, or it was said.
pub fn note_of_long_messages(conversation: &Conversation, agent: &AgentSettings, cut: bool) -> Option<Event> {
    let open = conversation.open_turn.as_ref()?;
    let id = OutboxId::from(format!("{}:{}:long", conversation.channel, open.id));
    if conversation.channel.platform() == LOCAL_PLATFORM || open.notes.contains(&id) {
        return None;
    }
    let words = long_messages(conversation, agent, &open.messages, cut)?;
    let mut note = note(conversation, id, words);
    if let Event::Delivery(DeliveryEvent::Intended { reply_to, .. }) = &mut note {
        reply_to.clone_from(&open.reply_to);
    }
    Some(note)
}

/// The note that a model answers without something that its server refuses; `None`: nobody is told, or everybody was.
pub fn note_of_withheld(
    conversation: &Conversation,
    agent: &AgentSettings,
    withheld: Withheld,
) -> Option<Event> {
    let open = conversation.open_turn.as_ref()?;
    let id = OutboxId::from(format!("{}:{}:withheld", conversation.channel, open.id));
    if conversation.channel.platform() == LOCAL_PLATFORM || open.notes.contains(&id) {
        return None;
    }
    Some(note(conversation, id, agent.texts(conversation).say(withheld.told())))
}

/// What was left out of an answer's request, since a server refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// Part of the history.
    Part,
    /// Everything but the message that it answers.
    All,
}

impl Withheld {
    pub fn told(self) -> Key {
        match self {
            Self::Part => Key::WithheldPart,
            Self::All => Key::WithheldAll,
        }
    }
}

/// The delivery that reports on a run.
pub(crate) fn report_id(channel: &ChannelId, run: &RunId) -> OutboxId {
    OutboxId::from(format!("{channel}:report:{run}"))
}

/// The report on a run that somebody requested in the chat.
pub fn report(end: &RunEnd, texts: &Texts) -> String {
    let run = end.run.as_str();
    let key = match (end.outcome, &end.summary) {
        (RunOutcome::Committed, Some(summary)) => {
            let quote: String = summary.text.trim().chars().take(QUOTE_CHARS).collect();
            let cut = if quote.len() < summary.text.trim().len() { " …" } else { "" };
            let quoted: Vec<String> = quote.lines().map(|line| format!("> {line}")).collect();
            let (before, after) = (grouped(end.tokens_before), grouped(end.tokens_after));
            let done = Key::ReportDone.count(end.messages).with("run", run);
            let done = texts.say(done.with("before", before).with("after", after));
            return format!("{done}\n{}{cut}", quoted.join("\n"));
        }
        (RunOutcome::Committed | RunOutcome::Superseded, _) => Key::ReportNothing,
        (RunOutcome::Cancelled, _) => Key::ReportCancelled,
        (RunOutcome::Rejected, _) => Key::ReportRejected,
        (RunOutcome::Failed, _) => Key::ReportFailed,
    };
    texts.say(key.with("run", run))
}

/// Whether there are people in the chat who want to be told.
fn is_told(conversation: &Conversation, agent: &AgentSettings) -> bool {
    agent.compaction.notices && conversation.channel.platform() != LOCAL_PLATFORM
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn note(conversation: &Conversation, id: OutboxId, words: String) -> Event {
    let open = conversation.open_turn.as_ref().map(|open| open.id.clone());
    let newest = || conversation.live.back().map(|entry| entry.turn.clone());
    Event::Delivery(DeliveryEvent::Intended {
        id,
        turn: open.or_else(newest).unwrap_or_else(|| TurnId::from("t0")),
        seq: Seq(conversation.next_seq.0.saturating_sub(1)),
        note: Some(words),
        approval: None,
        reply_to: None,
        edits: None,
        draft: false,
        files: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use cairn_types::message::ToolCall;

    #[rstest]
    #[case(Finish::Stop, None)]
    #[case(Finish::ToolCalls, None)]
    #[case(
        Finish::Length,
        Some("(Cut off here: this answer reached its length limit. Write `go on` for the rest.)")
    )]
    #[case(
        Finish::ContextWindow,
        Some("(Cut off here: my context window is full. Write `go on` for the rest.)")
    )]
    #[case(Finish::Pause, Some("(Cut off here: the model's server paused. Write `go on` for the rest.)"))]
    #[case(Finish::Refusal, Some("(The model declined to say more about this.)"))]
    #[case(Finish::ContentFilter, Some("(Stopped here by the content filter of the model's provider.)"))]
    fn an_answer_that_the_model_did_not_end_says_why(#[case] finish: Finish, #[case] note: Option<&str>) {
        assert_eq!(of_finish(finish, "", false, Texts::english()).as_deref(), note);
        let behind = note.map(|note| format!("\n{note}"));
        assert_eq!(of_finish(finish, "First, peel the", false, Texts::english()), behind);
    }

    #[test]
    fn a_cut_within_a_call_says_that_the_call_was_not_made() {
        let note = of_finish(Finish::Length, "", true, Texts::english()).unwrap();
        assert!(
            note.starts_with("(Cut off here in the middle of a tool call, which was not made: "),
            "{note}"
        );
        assert!(note.contains("go on"), "{note}");
    }

    #[rstest]
    #[case::none("plain `code` and ```three``` in a line", None)]
    #[case::closed("```rust\nlet a = 1;\n```\nand then", None)]
    #[case::open("Here:\n```rust\nlet a = 1;\nlet b", Some("```"))]
    #[case::longer("````md\n```\ninner\n```", Some("````"))]
    #[case::waves("~~~\n```\n", Some("~~~"))]
    #[case::in_a_list("1. so:\n   ```sh\n   ls", Some("```"))]
    #[case::a_second("```\na\n```\n```py\nb", Some("```"))]
    #[case::closed_by_more("```\na\n`````", None)]
    fn a_code_block_that_is_left_open_is_closed_before_the_note(
        #[case] text: &str,
        #[case] fence: Option<&str>,
    ) {
        let note = of_finish(Finish::Length, text, false, Texts::english()).unwrap();
        let closing = fence.map(|fence| format!("{fence}\n")).unwrap_or_default();
        assert!(note.starts_with(&format!("{closing}\n(Cut off")), "{note}");
    }

    #[test]
    fn of_a_cut_answer_only_whole_calls_are_made_and_of_a_refused_one_none() {
        let call = |arguments| ToolCall { id: "c".to_owned(), name: "save".to_owned(), arguments };
        let whole = call(json!({ "text": "a" }));
        let broken = [json!("{\"text\": \"a"), json!(""), json!(1)].map(call);
        for (finish, makes_whole, makes_broken) in [
            (Finish::Stop, true, true),
            (Finish::ToolCalls, true, true),
            (Finish::Length, true, false),
            (Finish::ContextWindow, true, false),
            (Finish::Pause, true, false),
            (Finish::Refusal, false, false),
            (Finish::ContentFilter, false, false),
        ] {
            assert_eq!(finish.allows(&whole), makes_whole, "{finish:?}");
            assert!(broken.iter().all(|call| finish.allows(call) == makes_broken), "{finish:?}");
        }
    }
}
