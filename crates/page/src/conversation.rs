//! The conversation of a channel: what people and the model said, page by page. Tool calls are folded, and a divider takes the
//! place of messages that are summarised.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use cairn_core::conversation::{Conversation, EntryPlace};
use cairn_core::spend::amount;
use cairn_types::ids::{ChannelId, Seq, SummaryId};
use cairn_types::message::Role;
use cairn_types::tokens::Correction;
use maud::{Markup, html};
use serde::Deserialize;

use crate::downloads;
use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{Tab, channel_path, entry_path, summary_path, tabs, turn_path};
use crate::pieces::{command, currency, is_poll, json, live_secs, said, text, time};
use crate::talk::{self, is_local};
use crate::tools::waiting;
use crate::visitor::Visitor;
use cairn_api::records::{
    ApprovalRecord, EndRecord, EntryRecord, Stretch, coverage, cut_words, pending_records,
};
use cairn_api::text::{counted, cut, grouped, one_line, plain};
use cairn_server::api::{Channel, Params, Shared, history, tools};

/// Entries on a page.
const ENTRIES: u64 = 50;

/// Entries that are shown before one that is looked up.
const BEFORE: u64 = 10;

/// Dividers that are shown before the entries of a page without being folded.
const DIVIDERS: usize = 2;

/// Bytes, and lines, of a message beyond which it may scroll by itself.
const LONG: usize = 600;
const LONG_LINES: usize = 20;

/// Characters of a tool's result; its turn has all of it.
const RESULT: usize = 4_000;

/// Columns of the names of tools on a fold.
const NAMES: usize = 80;

#[derive(Default, Deserialize)]
pub(super) struct ConversationQuery {
    /// The entries before this one.
    before: Option<u64>,
    /// The entries from this one on.
    from: Option<u64>,
    /// The entries around this one.
    at: Option<u64>,
    /// A script asks for what came after this entry.
    after: Option<u64>,
    /// The name under which the visitor talks.
    name: Option<String>,
}

/// `GET /channels/{channel}`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path(name): Path<String>,
    headers: HeaderMap,
    Query(query): Query<ConversationQuery>,
) -> Result<Markup, PageError> {
    let channel = admin.resolve(&name)?;
    let (conversation, awake) = match admin.conversation(&channel).await {
        // It begins with its first message.
        Err(error) if error.status == StatusCode::NOT_FOUND && query.name.is_some() && is_local(&channel) => {
            return Ok(talk::empty(&channel, query.name.as_deref(), visitor));
        }
        found => found?,
    };
    let approvals = tools::approvals(State(Arc::clone(&admin))).await.0;
    let approvals: Vec<_> = approvals.into_iter().filter(|one| one.channel == channel).collect();
    let talk = ConversationView {
        awake,
        channel: &channel,
        conversation: &conversation,
        at: query.at,
        visitor,
        approvals,
        currency: currency(&admin),
    };
    if let Some(after) = query.after.filter(|_| is_poll(&headers, NEWER)) {
        return talk.newer(&admin, after).await;
    }
    let body = html! {
        (tabs(&channel, Tab::Conversation))
        (find(&channel))
        (talk.page(&admin, &query).await?)
    };
    let (title, command) = (channel.to_string(), command(&["history", channel.as_str()]));
    Ok(layout(&Frame { title: &title, section: Section::Channels, visitor, command }, &body))
}

/// The part of the page that asks for what is newer.
const NEWER: &str = "newer";

/// The words to look for in this channel.
fn find(channel: &ChannelId) -> Markup {
    html! {
        form.filter method="get" action="/search" role="search" {
            input type="hidden" name="channel" value=(channel);
            p { label for="q" { "Search this channel" } input #q name="q" type="search"; }
            p { button { "Search" } }
            p { a href={ (channel_path(channel)) "#" (NEWER) } { "To the newest message" } }
        }
    }
}

/// How a part of a conversation is kept.
#[derive(Debug, Clone, PartialEq)]
enum Kept {
    /// Word by word, in the window.
    Whole,
    Summary(SummaryId),
    /// It left the window, and no summary has it yet.
    Marker,
    /// Of earlier sessions.
    Archived,
}

/// Consecutive entries that are kept in the same way. No page goes beyond one.
#[derive(Debug, Clone, PartialEq)]
struct Chapter {
    from: u64,
    to: u64,
    kept: Kept,
}

/// Turns that were undone stay among those beside which they were said.
fn chapters(stretches: Vec<Stretch>, first_seq: Seq) -> Vec<Chapter> {
    let mut chapters: Vec<Chapter> = Vec::new();
    for Stretch { from_seq, to_seq, place } in stretches {
        let before = chapters.last().map(|last| &last.kept).filter(|kept| **kept != Kept::Archived);
        let kept = match place {
            EntryPlace::Live | EntryPlace::Sealed => Kept::Whole,
            EntryPlace::Summary(id) => Kept::Summary(id),
            EntryPlace::Marker => Kept::Marker,
            EntryPlace::Archived if from_seq < first_seq => Kept::Archived,
            EntryPlace::Archived => before.cloned().unwrap_or(Kept::Whole),
        };
        match chapters.last_mut() {
            Some(last) if last.kept == kept => last.to = to_seq.0,
            _ => chapters.push(Chapter { from: from_seq.0, to: to_seq.0, kept }),
        }
    }
    chapters
}

/// What a page shows: entries of one chapter.
#[derive(Debug, PartialEq)]
struct Wanted {
    chapter: usize,
    from: u64,
    to: u64,
    /// Where not all fit, those at the end.
    newest: bool,
}

/// `None`: what is asked for is not there, or what was said last is summarised already.
fn wanted(chapters: &[Chapter], query: &ConversationQuery) -> Option<Wanted> {
    let of = |seq: u64| chapters.iter().position(|chapter| (chapter.from..=chapter.to).contains(&seq));
    let forward = |seq: u64, before: u64| {
        let chapter = of(seq)?;
        let from = seq.saturating_sub(before).max(chapters[chapter].from);
        Some(Wanted { chapter, from, to: chapters[chapter].to.min(from + ENTRIES - 1), newest: false })
    };
    if let Some(seq) = query.at {
        return forward(seq, BEFORE);
    }
    if let Some(seq) = query.from.or(query.after.map(|after| after.saturating_add(1))) {
        return forward(seq, 0);
    }
    let to = match query.before {
        Some(before) => before.saturating_sub(1),
        None => chapters.last().filter(|last| last.kept == Kept::Whole)?.to,
    };
    let chapter = of(to)?;
    let from = (to + 1).saturating_sub(ENTRIES).max(chapters[chapter].from);
    Some(Wanted { chapter, from, to, newest: true })
}

/// A conversation on its way to a page.
struct ConversationView<'a> {
    awake: bool,
    channel: &'a ChannelId,
    conversation: &'a Conversation,
    /// The entry that is looked up.
    at: Option<u64>,
    visitor: Visitor,
    approvals: Vec<ApprovalRecord>,
    currency: String,
}

impl ConversationView<'_> {
    async fn page(&self, admin: &Shared, query: &ConversationQuery) -> Result<Markup, PageError> {
        let chapters = chapters(coverage(self.conversation), self.conversation.first_seq);
        let last = self.conversation.next_seq.0 - 1;
        let Some(shown) = wanted(&chapters, query) else {
            return Ok(html! {
                @if chapters.is_empty() && self.conversation.pending.is_empty() { p { "There are no messages here." } }
                (self.before(&chapters))
                (self.now(last))
                (talk::form(self.channel, query.name.as_deref(), self.visitor))
            });
        };
        let chapter_from = chapters[shown.chapter].from;
        let mut records = self.records(admin, &shown).await?;
        if shown.newest && shown.from > chapter_from {
            records.drain(..begun_before(&records));
        }
        // Of long texts there are fewer on a page.
        let from = records.first().and_then(|record| record.seq).map_or(shown.from, |seq| seq.0);
        let to = records.last().and_then(|record| record.seq).map_or(shown.to, |seq| seq.0);
        let (before, rest) = chapters.split_at(shown.chapter);
        let (chapter, after) = (&rest[0], &rest[1..]);
        let here = channel_path(self.channel);
        Ok(html! {
            @if from > chapter.from {
                nav.pages aria-label="Older messages" { a rel="prev" href={ (here) "?before=" (from) } { "Older messages" } }
            } @else { (self.before(before)) }
            @if chapter.kept != Kept::Whole { (self.divider(chapter)) }
            (self.transcript(&records))
            @if to < chapter.to {
                nav.pages aria-label="Newer messages" {
                    a rel="next" href={ (here) "?from=" (to + 1) } { "Newer messages" }
                    a href=(here) { "Newest" }
                }
            } @else { @for chapter in after { (self.divider(chapter)) } }
            @if to == last { (self.now(last)) (talk::form(self.channel, query.name.as_deref(), self.visitor)) }
        })
    }

    async fn records(&self, admin: &Shared, wanted: &Wanted) -> Result<Vec<EntryRecord>, PageError> {
        let most = Some(ENTRIES as usize);
        let read = async |from: u64| {
            let params = history::HistoryParams {
                from: Some(from),
                to: Some(wanted.to),
                limit: most.filter(|_| !wanted.newest),
                tail: most.filter(|_| wanted.newest),
                ..Default::default()
            };
            history::history(State(Arc::clone(admin)), Channel(self.channel.clone(), ()), Params(params))
                .await
        };
        let found = read(wanted.from).await?.items;
        match self.at {
            // What comes before it is so long that it does not fit.
            Some(at) if !found.iter().any(|record| record.seq == Some(Seq(at))) => Ok(read(at).await?.items),
            _ => Ok(found),
        }
    }

    /// What came after that entry, and the part that asks again.
    async fn newer(&self, admin: &Shared, after: u64) -> Result<Markup, PageError> {
        let last = self.conversation.next_seq.0 - 1;
        if after >= last {
            return Ok(self.now(last));
        }
        let to = last.min(after + ENTRIES);
        let wanted = Wanted { chapter: 0, from: after + 1, to, newest: false };
        let records = self.records(admin, &wanted).await?;
        let to = records.last().and_then(|record| record.seq).map_or(to, |seq| seq.0);
        Ok(html! { (self.transcript(&records)) (self.now(to)) })
    }

    /// What waits, and whether an answer is under way. Where scripts run, newer entries come in before it.
    fn now(&self, last: u64) -> Markup {
        let ask = format!("{}?after={last}", channel_path(self.channel));
        let pending = pending_records(self.conversation, &Correction::default());
        html! {
            div id=(NEWER) hx-get=(ask) hx-trigger={ "every " (live_secs(self.awake)) "s" } hx-target="this" hx-swap="outerHTML" {
                (self.transcript(&pending))
                @if self.conversation.open_turn.is_some() { p.note { "An answer is being written. " a href=(channel_path(self.channel)) { "Reload" } } }
                @if !self.approvals.is_empty() { (waiting(&self.approvals, self.visitor, &channel_path(self.channel))) }
            }
        }
    }

    fn divider(&self, chapter: &Chapter) -> Markup {
        let Chapter { from, to, kept } = chapter;
        let range = match from == to {
            true => format!("Message {}", grouped(*from)),
            false => format!("Messages {} to {}", grouped(*from), grouped(*to)),
        };
        let how = match kept {
            Kept::Whole => "in the window",
            Kept::Summary(_) => "summarised",
            Kept::Marker => "out of the window, not yet summarised",
            Kept::Archived => "from earlier sessions",
        };
        let here = channel_path(self.channel);
        let show = match kept {
            Kept::Whole => format!("{here}?from={from}"),
            _ => format!("{here}?before={}", to + 1),
        };
        let summary = match kept {
            Kept::Summary(id) => self.conversation.stack.summary(id),
            _ => None,
        };
        html! {
            div.divider {
                @if let Some(summary) = summary {
                    details {
                        summary { (range) ": " (how) }
                        (said(&summary.text))
                        p.note { a href=(summary_path(self.channel, summary.id.as_str())) { "Summary " (text(&summary.id)) " beside its source" } }
                    }
                } @else { p { (range) ": " (how) } }
                a href=(show) { "show" span.unseen { " " (range) } }
            }
        }
    }

    /// What comes before the entries of a page; of many parts the older ones are folded.
    fn before(&self, chapters: &[Chapter]) -> Markup {
        let (older, newer) = chapters.split_at(chapters.len().saturating_sub(DIVIDERS));
        html! {
            @if let [first, .., last] = older {
                details.earlier {
                    summary { "Messages " (grouped(first.from)) " to " (grouped(last.to)) ", in " (older.len()) " parts" }
                    @for chapter in older { (self.divider(chapter)) }
                }
            } @else { @for chapter in older { (self.divider(chapter)) } }
            @for chapter in newer { (self.divider(chapter)) }
        }
    }

    fn transcript(&self, records: &[EntryRecord]) -> Markup {
        html! {
            @if !records.is_empty() {
                div.transcript {
                    @for item in items(records) {
                        @match item {
                            Item::Said(record) => (self.said(record)),
                            Item::Calls(records) => (self.calls(&records)),
                        }
                    }
                }
            }
        }
    }

    fn said(&self, record: &EntryRecord) -> Markup {
        let words = said_words(record);
        let side = if record.role == Role::User { "person" } else { "agent" };
        html! {
            article.entry.(side) id=[record.seq.map(|seq| format!("e{seq}"))] {
                p.head {
                    @match &record.author {
                        Some(author) => b title=(one_line(&author.id)) { (one_line(&author.name)) },
                        None => b { (one_line(self.channel.agent().as_str())) },
                    }
                    " " (time(record.at)) " "
                    @match record.seq {
                        Some(seq) => a href=(entry_path(self.channel, seq)) aria-label={ "Message " (seq) } { (seq) },
                        None => "waiting",
                    }
                    @if let Some(why) = cut_words(record.finish) { " " span.trouble { (why) } }
                }
                // One that scrolls is reached by the keyboard.
                @let long = words.len() > LONG || words.lines().count() > LONG_LINES;
                @if !words.is_empty() { div.said dir="auto" tabindex=[long.then_some("0")] { (plain(&words)) } }
                (downloads::attached(record))
                @if let Some(line) = record.reactions_line() { p.note { "Reactions: " (line) } }
                @if let Some(end) = &record.end { (self.end(record, end)) }
            }
        }
    }

    /// How a turn ended, below its last entry.
    fn end(&self, record: &EntryRecord, end: &EndRecord) -> Markup {
        html! {
            p.end.note {
                a href=(turn_path(self.channel, &record.turn)) { "How this answer was made" }
                @if let Some(model) = &end.model { " · " (text(model)) }
                @let tokens = end.usage.input_tokens + end.usage.output_tokens;
                @if tokens > 0 { ", " (grouped(tokens)) " tokens" }
                @if let Some(cost) = end.cost { ", " (one_line(&amount(cost, &self.currency))) }
                @if let Some(why) = end.why() { " · " span.trouble { (one_line(&why)) } }
            }
        }
    }

    /// Calls of tools in a row with their results, folded.
    fn calls(&self, records: &[&EntryRecord]) -> Markup {
        let calls: Vec<_> = records.iter().flat_map(|record| &record.tool_calls).collect();
        let mut names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let looked_up = self.at.is_some_and(|at| records.iter().any(|record| record.seq == Some(Seq(at))));
        let what = match calls.len() {
            0 => "Tool results".to_owned(),
            n => format!("{}: {}", counted(n as u64, "tool call", "tool calls"), names.join(", ")),
        };
        html! {
            details.calls open[looked_up] {
                summary { (cut(&one_line(&what), NAMES)) }
                @for record in records { (self.call(record, &calls)) }
            }
            (downloads::handed(self.channel, records))
            @if let Some((record, end)) = records.last().and_then(|record| Some((record, record.end.as_ref()?))) { (self.end(record, end)) }
        }
    }

    fn call(&self, record: &EntryRecord, calls: &[&cairn_types::message::ToolCall]) -> Markup {
        let id = record.seq.map(|seq| format!("e{seq}"));
        if record.role != Role::Tool {
            // Words that come with the calls stand above the fold.
            let id = id.filter(|_| record.text().is_empty());
            return html! {
                div.entry id=[id] {
                    @for call in &record.tool_calls { p.head { "calls " code { (one_line(&call.name)) } } (json(&call.arguments)) }
                }
            };
        }
        let made = calls.iter().find(|call| Some(&call.id) == record.tool_call_id.as_ref());
        let result = record.text();
        let cut_at = result.char_indices().nth(RESULT).map(|(at, _)| at);
        html! {
            div.entry id=[id] {
                p.head { "result of " code { (made.map_or_else(|| "a tool".to_owned(), |call| one_line(&call.name))) } " " (time(record.at)) }
                pre.said tabindex="0" { (plain(&result[..cut_at.unwrap_or(result.len())])) }
                @if cut_at.is_some() { p.note { "Cut here. " a href=(turn_path(self.channel, &record.turn)) { "The turn" } " has the full result." } }
                (downloads::whole(self.channel, record))
            }
        }
    }
}

/// What somebody said, without the files that came with it.
fn said_words(record: &EntryRecord) -> String {
    let texts =
        record.parts.iter().filter(|part| part.kind == "text").filter_map(|part| part.text.as_deref());
    texts.collect::<Vec<_>>().join("\n")
}

/// Entries at the beginning of a page that are of a turn which began before it: the page before has the turn whole, unless the turn
/// fills this page alone.
fn begun_before(records: &[EntryRecord]) -> usize {
    let Some(first) = records.first().filter(|first| first.role != Role::User) else { return 0 };
    let of_it = records.iter().take_while(|record| record.turn == first.turn).count();
    if of_it < records.len() { of_it } else { 0 }
}

/// What stands by itself in a transcript.
enum Item<'r> {
    Said(&'r EntryRecord),
    /// Of one turn, in order: what calls, and the results.
    Calls(Vec<&'r EntryRecord>),
}

fn items(records: &[EntryRecord]) -> Vec<Item<'_>> {
    let mut items: Vec<Item<'_>> = Vec::new();
    for record in records {
        let is_call = record.role == Role::Tool || !record.tool_calls.is_empty();
        let words = !is_call || (record.role != Role::Tool && !record.text().is_empty());
        if words {
            items.push(Item::Said(record));
        }
        if is_call {
            match items.last_mut() {
                Some(Item::Calls(calls)) if calls[0].turn == record.turn => calls.push(record),
                _ => items.push(Item::Calls(vec![record])),
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use cairn_api::records::Scope;
    use rstest::rstest;

    use super::*;

    fn stretch(from: u64, to: u64, place: EntryPlace) -> Stretch {
        Stretch { from_seq: Seq(from), to_seq: Seq(to), place }
    }

    fn told() -> Vec<Chapter> {
        let summary = || EntryPlace::Summary(SummaryId::from("s1".to_owned()));
        let stretches = vec![
            stretch(1, 10, EntryPlace::Archived),
            stretch(11, 100, summary()),
            // A turn of it was undone.
            stretch(101, 102, EntryPlace::Archived),
            stretch(103, 200, summary()),
            stretch(201, 204, EntryPlace::Sealed),
            stretch(205, 320, EntryPlace::Live),
            stretch(321, 322, EntryPlace::Archived),
        ];
        chapters(stretches, Seq(11))
    }

    #[test]
    fn what_is_kept_in_the_same_way_is_a_chapter_with_the_turns_that_were_undone_in_it() {
        let told: Vec<_> = told().iter().map(|chapter| (chapter.from, chapter.to)).collect();
        assert_eq!(told, [(1, 10), (11, 200), (201, 322)]);
    }

    #[rstest]
    #[case::newest(ConversationQuery::default(), Some((2, 273, 322, true)))]
    #[case::older(ConversationQuery { before: Some(273), ..Default::default() }, Some((2, 223, 272, true)))]
    #[case::oldest_whole(ConversationQuery { before: Some(223), ..Default::default() }, Some((2, 201, 222, true)))]
    #[case::of_a_summary(ConversationQuery { before: Some(201), ..Default::default() }, Some((1, 151, 200, true)))]
    #[case::newer(ConversationQuery { from: Some(190), ..Default::default() }, Some((1, 190, 200, false)))]
    #[case::around(ConversationQuery { at: Some(15), ..Default::default() }, Some((1, 11, 60, false)))]
    #[case::before_all(ConversationQuery { before: Some(1), ..Default::default() }, None)]
    #[case::nowhere(ConversationQuery { at: Some(u64::MAX), ..Default::default() }, None)]
    fn a_page_has_entries_of_one_chapter(
        #[case] query: ConversationQuery,
        #[case] shown: Option<(usize, u64, u64, bool)>,
    ) {
        let wanted = wanted(&told(), &query);
        assert_eq!(wanted.map(|page| (page.chapter, page.from, page.to, page.newest)), shown);
    }

    #[test]
    fn reactions_stand_below_the_answer_that_they_are_to_and_are_text() {
        let channel: ChannelId = "main/local/main".parse().unwrap();
        let conversation = Conversation::new(channel.clone());
        let view = ConversationView {
            awake: false,
            channel: &channel,
            conversation: &conversation,
            at: None,
            visitor: Visitor { scope: Scope::Read },
            approvals: Vec::new(),
            currency: String::new(),
        };
        let record: EntryRecord = serde_json::from_value(serde_json::json!({
            "seq": 2, "turn": "t1", "generation": 1, "at": "2026-11-23T07:15:00Z", "role": "assistant",
            "author": null, "message": null, "parts": [{ "type": "text", "text": "Yes." }],
            "tool_calls": [], "tool_call_id": null, "tokens": 9, "place": "live",
            "reactions": [{ "by": { "id": "net/ann", "name": "<b>Ann" }, "emoji": "👍" }],
        }))
        .unwrap();
        let shown = view.said(&record).into_string();
        let (answer, reactions) = (shown.find("Yes."), shown.find("Reactions: 👍 &lt;b&gt;Ann"));
        assert!(answer.is_some() && answer < reactions, "{shown}");
    }
}
