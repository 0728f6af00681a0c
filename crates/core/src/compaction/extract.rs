//! Summaries without a model: the digest of a whole run, or of what its chunks have left.

use std::sync::Arc;

use super::SummaryDraft;
use super::identifiers::{self, Mask};
use super::sections::{added_to, digest_by_sections};
use crate::agent::AgentSettings;
use crate::digest::{self, digest, gist, read_tokens, render};
use crate::settings::IdentifierPolicy;
use crate::summary::StackSizes;
use cairn_types::event::{Checkpoint, Run, RunWork};
use cairn_types::ids::{ChannelId, Seq};
use cairn_types::memory::{DraftMemory, credit};
use cairn_types::message::Entry;
use cairn_types::summary::{MADE_BY_DIGEST, Summary};
use cairn_types::text::escape::cut_middle;

/// Share of a summary's room that the list of identifiers may take beside it.
const IDENTIFIER_SHARE: f64 = 0.2;

/// Share of a source that the list may take: a short source is not doubled by its own names.
const IDENTIFIER_SOURCE_SHARE: f64 = 0.1;

/// One part in so many of what the stack has free, or of the source where that is less, may go to the list of a new summary.
const IDENTIFIER_FREE_PART: u64 = 4;

/// Tokens of a summary's head in the window, roughly.
pub(crate) const HEAD_TOKENS: u64 = 36;

/// Tokens that a message which was left out gets in the summary, at most: a share of the summary's room.
const LEFT_OUT_SHARE: f64 = 0.25;

/// The channel's placeholders, if its agent wants them.
pub fn mask_for(channel: &ChannelId, agent: &AgentSettings) -> Option<Mask> {
    (agent.compaction.identifiers == IdentifierPolicy::Anonymize).then(|| Mask::new(channel))
}

/// A draft without identifiers, when placeholders stand for them: in its text and in its memories.
pub fn masked(draft: SummaryDraft, mask: Option<&Mask>) -> SummaryDraft {
    let Some(mask) = mask else { return draft };
    let memories = draft.memories.into_iter().map(|memory| DraftMemory {
        text: mask.apply(&memory.text),
        subject: memory.subject.map(|subject| mask.apply(&subject)),
        ..memory
    });
    SummaryDraft {
        text: mask.apply(&draft.text),
        memories: memories.collect(),
        identifiers: Vec::new(),
        ..draft
    }
}

/// The identifiers that stand beside a summary of these entries, or of a merge of these summaries; `text`: the summary,
/// which need not have them twice.
pub fn identifiers_beside(
    agent: &AgentSettings,
    sizes: &StackSizes,
    entries: &[Arc<Entry>],
    sources: &[Summary],
    text: &str,
) -> Vec<String> {
    if agent.compaction.identifiers != IdentifierPolicy::Preserve {
        return Vec::new();
    }
    let (source, most) = if sources.is_empty() {
        let source = entry_tokens(entries);
        (source, sizes.summary(source))
    } else {
        let source = summary_tokens(sources);
        (source, sizes.merge(source, merged_level(sources)))
    };
    let budget = (most as f64 * IDENTIFIER_SHARE).min(source as f64 * IDENTIFIER_SOURCE_SHARE) as u32;
    if sources.is_empty() {
        // What is free in the stack is theirs, too.
        let free = sizes.soft.saturating_sub(sizes.taken + most).min(source) / IDENTIFIER_FREE_PART;
        identifiers::of_entries(entries, text, budget.max(free as u32))
    } else {
        identifiers::of_summaries(sources, text, budget)
    }
}

/// Most tokens of a summary's text, when the whole summary takes `summary_tokens` in the window: the rest is for its head
/// and its list of identifiers.
pub fn text_limit(agent: &AgentSettings, summary_tokens: u64) -> u64 {
    let list = match agent.compaction.identifiers {
        IdentifierPolicy::Preserve => (summary_tokens as f64 * IDENTIFIER_SHARE) as u64,
        IdentifierPolicy::Anonymize | IdentifierPolicy::Off => 0,
    };
    summary_tokens.saturating_sub(list + HEAD_TOKENS).max(summary_tokens / 3)
}

/// The same of a digest: it quotes what the list would repeat, and takes the list's room.
fn digest_limit(agent: &AgentSettings, summary_tokens: u64) -> u64 {
    verbatim_limit(text_limit(agent, summary_tokens))
}

/// Most tokens of a text of quotations where a text of its author's own words may have so many.
pub fn verbatim_limit(text_tokens: u64) -> u64 {
    (text_tokens as f64 * (1.0 + IDENTIFIER_SHARE)) as u64
}

/// Estimated tokens of entries as the window has them.
pub fn entry_tokens(entries: &[Arc<Entry>]) -> u64 {
    entries.iter().map(|entry| u64::from(entry.tokens)).sum()
}

/// Estimated tokens of summaries as the window has them.
pub fn summary_tokens(sources: &[Summary]) -> u64 {
    sources.iter().map(|summary| u64::from(summary.tokens)).sum()
}

/// The level of a merge of these.
pub fn merged_level(sources: &[Summary]) -> u32 {
    let highest = sources.iter().map(|source| source.level).max().unwrap_or(0);
    // One alone is cut, not merged.
    highest + u32::from(sources.len() > 1)
}

/// The draft that needs no model: the digest of the run's source. What chunks have finished is kept, memories included, with
/// the digest of the rest beneath. Other memories come with the run that makes it again.
pub fn digest_draft(
    channel: &ChannelId,
    agent: &AgentSettings,
    sizes: &StackSizes,
    run: &Run,
    entries: &[Arc<Entry>],
    sources: &[Summary],
) -> SummaryDraft {
    let draft = if matches!(run.work, RunWork::Merge { .. }) {
        merge_draft(agent, sizes, sources)
    } else {
        entries_draft(agent, sizes, run.checkpoint.as_ref(), entries)
    };
    masked(draft, mask_for(channel, agent).as_ref())
}

/// A merge without a model, from the text of its sources.
pub(super) fn merge_draft(agent: &AgentSettings, sizes: &StackSizes, sources: &[Summary]) -> SummaryDraft {
    let tokens = summary_tokens(sources);
    let limit = digest_limit(agent, sizes.merge(tokens, merged_level(sources))).min(tokens / 2);
    let texts: Vec<&str> = sources.iter().map(|source| source.text.as_str()).collect();
    let mut text = digest_by_sections(&texts, limit as u32);
    if text.trim().is_empty() {
        // Not one line of them is short enough to be taken whole.
        let texts: Vec<String> = texts.iter().map(|text| cut_middle(text, 0.4)).collect();
        text = texts.join("\n");
    }
    SummaryDraft {
        identifiers: identifiers_beside(agent, sizes, &[], sources, &text),
        text,
        made_by: MADE_BY_DIGEST.to_owned(),
        ..SummaryDraft::default()
    }
}

fn entries_draft(
    agent: &AgentSettings,
    sizes: &StackSizes,
    done: Option<&Checkpoint>,
    entries: &[Arc<Entry>],
) -> SummaryDraft {
    let rest = match done {
        Some(done) => &entries[entries.partition_point(|entry| entry.seq <= done.to_seq)..],
        None => entries,
    };
    let budget = digest_budget(agent, sizes, read_tokens(rest));
    let text = render(&digest(rest, budget));
    let text = match (text.is_empty(), done) {
        (true, None) => gist(rest, budget)
            .map(|line| line.text)
            .unwrap_or_else(|| format!("{} messages without words worth keeping.", entries.len())),
        (_, done) => added_to(done.map(|done| done.text.as_str()), &text),
    };
    let text = with_left_out(sizes, &text, entries, done.map_or(&[], |done| &done.left_out));
    let mut memories = done.map(|done| done.memories.clone()).unwrap_or_default();
    credit(&mut memories, entries);
    let dates = entries.first().zip(entries.last()).map(|(first, last)| (first.at, last.at));
    let identifiers = identifiers_beside(agent, sizes, entries, &[], &text);
    SummaryDraft {
        text,
        made_by: MADE_BY_DIGEST.to_owned(),
        memories,
        dates,
        identifiers,
        ..SummaryDraft::default()
    }
}

fn digest_budget(agent: &AgentSettings, sizes: &StackSizes, source_tokens: u64) -> u32 {
    let most = digest_limit(agent, sizes.summary(source_tokens));
    digest::budget(source_tokens, most).max(digest::FLOOR) as u32
}

/// Adds to the summary digests of the messages that its model did not see because of their size.
pub fn with_left_out(sizes: &StackSizes, text: &str, entries: &[Arc<Entry>], left_out: &[Seq]) -> String {
    let mut text = text.to_owned();
    for entry in entries.iter().filter(|entry| left_out.contains(&entry.seq)) {
        let room = sizes.summary(u64::from(entry.tokens)) as f64 * LEFT_OUT_SHARE;
        let lines = digest(std::slice::from_ref(entry), (room as u32).max(digest::FLOOR as u32));
        let mut quoted = render(&lines);
        if quoted.is_empty() {
            let words = entry.text();
            let head: String = words.chars().take(200).collect();
            quoted = cut_middle(&head, 0.9);
        }
        let line = format!("- Of message {}, too long to be read whole: {quoted}", entry.seq);
        text = added_to(Some(&text), &line);
    }
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing;
    use cairn_types::message::Role;
    use cairn_types::tokens::{Correction, estimate};

    /// Twenty turns: a question, a call's result of so many words, an answer.
    fn turns(result_words: usize) -> Vec<Arc<Entry>> {
        let mut entries = Vec::new();
        for n in 0..20 {
            let question = format!("Anna asks for offer {n} of the harbour in Lisbon before noon.");
            let answer = format!("Offer {n} stands at {} euros until Friday.", 1_000 + n);
            entries.push(testing::entry(Role::User, &question));
            if result_words > 0 {
                entries.push(testing::entry(Role::Tool, &"row ".repeat(result_words)));
            }
            entries.push(testing::entry(Role::Assistant, &answer));
        }
        entries.into_iter().map(Arc::new).collect()
    }

    #[rstest]
    #[case::none(0)]
    #[case::small(50)]
    #[case::large(20_000)]
    fn results_buy_a_digest_no_room_for_words_that_it_would_otherwise_leave_out(#[case] result_words: usize) {
        let agent = testing::agent(128_000, 8_000);
        let sizes = StackSizes::of(&agent, &Correction::default(), 0);
        let draft = entries_draft(&agent, &sizes, None, &turns(result_words));
        let words = entry_tokens(&turns(0));
        let share = f64::from(estimate(&draft.text)) / words as f64;
        assert!((0.1..=0.2).contains(&share), "{share} of {words}: {}", draft.text);
    }
}
