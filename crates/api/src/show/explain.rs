//! Past turns and compaction runs, with the model calls that they made.

use cairn_core::spend::amount;
use cairn_types::event::RunOutcome;
use cairn_types::ids::SummaryId;
use cairn_types::model::{ModelError, Usage};
use cairn_types::trace::{CUT_SHORT, FailedTry};

use super::{
    Block, Cell, Column, Show, Span, Target, bad, entries, link, named_channel, or_dash, section, time, words,
};
use crate::records::{
    CallOf, CallRecord, Explanation, QuoteRecord, RecalledRecord, RunExplanation, SaidRecord, StageRecord,
    StandsRecord, ToolCallRecord, cut_words,
};
use crate::text::{counted, grouped, percent, seconds};

impl Show for Explanation {
    fn show(&self) -> Vec<Block> {
        let mut facts = vec![
            ("turn", words(&self.turn)),
            ("channel", named_channel(&self.channel, self.chat_name.as_deref())),
            ("outcome", outcome(self)),
            ("started", time(self.started_at)),
            ("ended", self.ended_at.map_or_else(|| words("-"), time)),
        ];
        facts.extend(taken(self.usage, self.cost, &self.currency));
        facts.extend(self.delivered_at.map(|at| ("delivered", time(at))));
        facts.extend(self.entries.map(|(from, to)| ("seen in full", entries(&self.channel, from, to))));
        facts.extend(self.missing.iter().map(|missing| ("not known", words(missing))));
        let mut blocks = vec![Block::Facts(facts)];
        blocks.push(Block::Head("Question"));
        blocks.extend(self.question.iter().flat_map(said));
        blocks.push(Block::Head("Answer"));
        match &self.answer {
            Some(answer) => blocks.extend(said(answer)),
            None => blocks.push(Block::Note(words("none"))),
        }
        let of = CallOf::Turn(self.turn.clone());
        let number =
            |call: &CallRecord| link(Target::Prompt(self.channel.clone(), of.clone(), call.call), call.call);
        blocks.extend(calls("Model calls", "Model calls, in order", (&self.calls, &self.currency), number));
        let run = |call: &CallRecord| match call.trace.as_ref().and_then(|trace| trace.work.as_ref()) {
            Some(work) => link(Target::Run(self.channel.clone(), work.run.clone()), &work.run),
            None => words(call.call),
        };
        let beside = "Model calls of compactions at the same time";
        blocks.extend(calls(
            "Compaction calls at the same time",
            beside,
            (&self.beside, &self.currency),
            run,
        ));
        blocks.extend(recalled("Recalled memories", &self.recalled));
        blocks.extend(recalled("Nearly recalled", &self.near));
        blocks.extend(quotes(self));
        blocks.extend(stands(self));
        blocks.extend(tools(&self.tools));
        blocks.extend(times(&self.times));
        blocks
    }
}

impl Show for RunExplanation {
    fn show(&self) -> Vec<Block> {
        let summary = |id| link(Target::Summary(self.channel.clone(), SummaryId::clone(id)), id);
        let after = self.tokens_after.map_or_else(|| "?".to_owned(), grouped);
        let mut outcome = words(self.outcome.map_or("under way", RunOutcome::name));
        outcome.extend(self.reason.iter().map(|reason| Span::Bad(format!(": {reason}"))));
        let mut works_on = entries(&self.channel, self.from_seq, self.to_seq);
        works_on.extend(words(format!(", {}", counted(self.messages, "message", "messages"))));
        let mut facts = vec![
            ("run", words(&self.run)),
            ("channel", named_channel(&self.channel, self.chat_name.as_deref())),
            ("outcome", outcome),
            ("started by", words(self.trigger.name())),
            ("started", time(self.started_at)),
            ("ended", self.ended_at.map_or_else(|| words("-"), time)),
            ("works on", works_on),
            ("window", words(format!("{} → {after} tokens", grouped(self.tokens_before)))),
        ];
        facts.extend(taken(self.usage, self.cost, &self.currency));
        facts.push(("memories", words(grouped(self.memories))));
        if !self.sources.is_empty() {
            let ids: Vec<Cell> = self.sources.iter().map(summary).collect();
            facts.push(("merges", ids.join(&words(", ")[..])));
        }
        facts.extend(self.summary.iter().map(|id| ("summary", summary(id))));
        facts.extend(self.instruction.iter().map(|wish| ("instruction", words(wish))));
        if self.chunks > 0 {
            facts.push(("finished chunks", words(grouped(self.chunks))));
        }
        facts.extend(self.missing.iter().map(|missing| ("not known", words(missing))));
        let mut blocks = vec![Block::Facts(facts)];
        let of = CallOf::Run(self.run.clone());
        let number =
            |call: &CallRecord| link(Target::Prompt(self.channel.clone(), of.clone(), call.call), call.call);
        blocks.extend(calls("Model calls", "Model calls, in order", (&self.calls, &self.currency), number));
        let columns = [Column::narrow("attempt").right(), Column::narrow("at"), Column::narrow("reason")];
        let failed = self.failed.iter().map(|one| [words(one.attempt), time(one.at), words(&one.reason)]);
        blocks.extend(section("Failed attempts", "Failed attempts, oldest first", columns, failed));
        blocks
    }
}

fn outcome(turn: &Explanation) -> Cell {
    let mut cell = words(turn.outcome.replace('_', " "));
    cell.extend(turn.failure.iter().map(|failure| Span::Bad(format!(": {failure}"))));
    if turn.undone {
        cell.extend(words(", undone since"));
    }
    if turn.interruptions > 0 {
        let times = counted(turn.interruptions.into(), "time", "times");
        cell.extend(words(format!(", interrupted {times} by a stop of the daemon")));
    }
    cell
}

fn taken(usage: Usage, cost: Option<f64>, currency: &str) -> [(&'static str, Cell); 3] {
    let (sent, cached) = (grouped(usage.input_tokens), grouped(usage.cached_tokens));
    [
        ("tokens sent", words(format!("{sent}, {cached} from the cache"))),
        ("answer tokens", words(grouped(usage.output_tokens))),
        ("cost", or_dash(cost.map(|cost| amount(cost, currency)))),
    ]
}

fn said(said: &SaidRecord) -> [Block; 2] {
    let who = said.author.as_ref().map(|author| format!("{} ({})", author.name, author.id));
    let mut head = words(format!("{} · {} · ", said.seq, who.as_deref().unwrap_or("the model")));
    head.extend(time(said.at));
    head.extend(cut_words(said.finish).map(|why| Span::Bad(format!(" · {why}"))));
    [Block::Note(head), Block::Text(said.text.clone())]
}

fn calls(
    head: &'static str,
    caption: &'static str,
    (calls, currency): (&[CallRecord], &str),
    number: impl Fn(&CallRecord) -> Cell,
) -> Vec<Block> {
    let columns = [
        Column::narrow("call"),
        Column::narrow("model"),
        Column::narrow("sent").right(),
        Column::wide("cached").right(),
        Column::wide("answer").right(),
        Column::wide("first word").right(),
        Column::narrow("whole").right(),
        Column::wide("cost").right(),
        Column::narrow("outcome"),
    ];
    let row = |call: &CallRecord| {
        let trace = call.trace.as_ref();
        let about = if call.is_estimate { "≈" } else { "" };
        [
            number(call),
            words(&call.model),
            words(format!("{about}{}", grouped(call.usage.input_tokens))),
            words(percent(call.cached_share)),
            words(grouped(call.usage.output_tokens)),
            or_dash(trace.and_then(|trace| trace.first_ms).map(seconds)),
            or_dash(trace.map(|trace| seconds(trace.total_ms))),
            or_dash(trace.and_then(|trace| trace.cost).map(|cost| amount(cost, currency))),
            call_outcome(call),
        ]
    };
    section(head, caption, columns, calls.iter().map(row))
}

/// How a call ended, and what is notable about it.
fn call_outcome(call: &CallRecord) -> Cell {
    let trace = call.trace.as_ref();
    let is_begun = call.usage.output_tokens > 0 || trace.is_some_and(|trace| trace.first_ms.is_some());
    let mut cell = match (trace.and_then(|trace| trace.failure.as_deref()), cut_words(call.finish)) {
        (None, None) => words("answered"),
        (None, Some(why)) => bad(why),
        (Some(CUT_SHORT), _) if is_begun => bad("cut short"),
        (Some(CUT_SHORT), _) => bad("stopped before its first word"),
        (Some(code), _) if is_begun => bad(format!("cut short: {code}")),
        (Some(code), _) if ModelError::REFUSALS.contains(&code) => bad(format!("refused: {code}")),
        (Some(code), _) => bad(format!("failed: {code}")),
    };
    let mut notes: Vec<String> = call.why.clone().into_iter().collect();
    let tried = |tried: &FailedTry| format!("before: {} {} × {}", tried.model, tried.error, tried.n);
    notes.extend(call.tried.iter().map(tried));
    if let Some(work) = trace.and_then(|trace| trace.work.as_ref()) {
        notes.push(
            work.entries.map_or_else(|| "a merge".to_owned(), |(from, to)| format!("entries {from} to {to}")),
        );
        notes.extend((work.round > 1).then(|| format!("round {} of the talk", work.round)));
    }
    if let Some(wire) = call.frame.as_ref().map(|frame| &frame.wire) {
        notes.push(format!("asked as {} ({})", wire.model, wire.format.name()));
        notes
            .extend((!wire.remedies.is_empty()).then(|| {
                format!("asked differently, since its server refuses {}", wire.remedies.join(", "))
            }));
    }
    notes.extend((call.estimated > 0).then(|| format!("estimated at {} tokens", grouped(call.estimated))));
    notes.extend((call.tools > 0).then(|| counted(call.tools as u64, "tool call", "tool calls")));
    notes.extend(trace.is_some_and(|trace| trace.last_call).then(|| "told to call no more tools".to_owned()));
    cell.extend(notes.into_iter().map(|note| Span::Words(format!("; {note}"))));
    cell
}

fn recalled(head: &'static str, memories: &[RecalledRecord]) -> Vec<Block> {
    let columns = [
        Column::wide("memory"),
        Column::narrow("score").right(),
        Column::wide("matched words"),
        Column::narrow("text"),
    ];
    let row = |memory: &RecalledRecord| {
        let text = match &memory.text {
            Some(text) if memory.changed => format!("{text} (says something else now)"),
            Some(text) => text.clone(),
            None => "forgotten since".to_owned(),
        };
        [
            link(Target::Memory(memory.id.clone()), &memory.id),
            or_dash(memory.score.map(|score| format!("{score:.2}"))),
            or_dash((!memory.words.is_empty()).then(|| memory.words.join(", "))),
            words(text),
        ]
    };
    section(head, head, columns, memories.iter().map(row))
}

fn quotes(turn: &Explanation) -> Vec<Block> {
    let columns = [
        Column::narrow("entry").right(),
        Column::narrow("score").right(),
        Column::wide("said"),
        Column::wide("by"),
        Column::narrow("text"),
    ];
    let row = |quote: &QuoteRecord| {
        let by = match (&quote.at, &quote.author) {
            (Some(_), Some(author)) => words(&author.name),
            (Some(_), None) => words("assistant"),
            (None, _) => words("-"),
        };
        [
            entries(&turn.channel, quote.seq, quote.seq),
            words(format!("{:.2}", quote.score)),
            quote.at.map_or_else(|| words("-"), time),
            by,
            words(quote.text.as_deref().unwrap_or("not there any more")),
        ]
    };
    section("Earlier words", "Earlier words that were quoted", columns, turn.quotes.iter().map(row))
}

fn stands(turn: &Explanation) -> Vec<Block> {
    let columns = [
        Column::narrow("summary"),
        Column::wide("level").right(),
        Column::narrow("entries"),
        Column::wide("tokens").right(),
        Column::wide("by"),
        Column::narrow("first line"),
    ];
    let row = |one: &StandsRecord| {
        let mut id = match &one.id {
            Some(id) => link(Target::Summary(turn.channel.clone(), id.clone()), id),
            None => words("marker"),
        };
        if one.provisional {
            id.extend(words(" (provisional)"));
        }
        [
            id,
            words(one.level),
            words(format!("{} to {}", one.from_seq, one.to_seq)),
            words(grouped(one.tokens.into())),
            or_dash(one.made_by.as_deref()),
            words(&one.line),
        ]
    };
    let caption = "What the model saw instead of older entries, oldest first";
    section("Summaries it saw", caption, columns, turn.stands.iter().map(row))
}

fn tools(tools: &[ToolCallRecord]) -> Vec<Block> {
    let columns = [
        Column::narrow("tool"),
        Column::narrow("outcome"),
        Column::narrow("took").right(),
        Column::wide("bytes").right(),
        Column::narrow("arguments"),
    ];
    let row = |call: &ToolCallRecord| {
        let mut arguments = vec![Span::Code(call.arguments.to_string())];
        arguments.extend(call.error.iter().map(|error| Span::Bad(format!(" {error}"))));
        [
            words(&call.tool),
            words(&call.outcome),
            words(seconds(call.duration_ms)),
            words(grouped(call.bytes)),
            arguments,
        ]
    };
    section("Tool calls", "Tool calls, in order", columns, tools.iter().map(row))
}

fn times(times: &[StageRecord]) -> Vec<Block> {
    let columns = [Column::narrow("took").right(), Column::narrow("part")];
    let row = |stage: &StageRecord| [words(seconds(stage.ms)), words(&stage.part)];
    section("Time", "How long each part took", columns, times.iter().map(row))
}
