//! How a pruned result reads: what is left of it, and a notice that says what is gone and where the whole of it is.

use cairn_types::event::{PruneForm, PrunedResult};
use cairn_types::message::{Entry, Part, Role, text_of};
use cairn_types::text::edges::{SHRUNK_NOTICE, message_edges};
use cairn_types::text::escape::{escape_name, grouped};

/// How the notice in the place of a cleared result begins.
pub const CLEARED_NOTICE: &str = "[compacted: tool output removed to free context]";

/// How the notice in the place of a middle that was cut out begins.
pub const CUT_NOTICE: &str = "[...truncated...]";

/// The entry as it is sent. Its call, its number and its artifact stay.
pub fn as_sent(entry: &Entry, pruned: &PrunedResult) -> Entry {
    if let (Role::User, PruneForm::Shrunk { bytes }) = (entry.role, pruned.form) {
        return message(entry, pruned, bytes);
    }
    let text = text_of(&entry.parts);
    let mut sent = match pruned.form {
        PruneForm::Shrunk { bytes } => shrunk(entry, pruned, &text, bytes),
        PruneForm::Edges { chars } => edges(entry, pruned, &text, chars),
        PruneForm::Cleared => cleared(entry, pruned),
    };
    if pruned.form != PruneForm::Cleared && has_pictures(entry) {
        sent.push_str(&format!("\n{SHRUNK_NOTICE} its pictures are left out"));
    }
    Entry {
        parts: vec![Part::text(sent)],
        reasoning: None,
        provider_state: None,
        tool_calls: Vec::new(),
        tokens: pruned.tokens,
        ..entry.clone()
    }
}

/// A message with head and tail of its words. Its pictures stay.
fn message(entry: &Entry, pruned: &PrunedResult, bytes: usize) -> Entry {
    let mut sent = entry.clone();
    sent.parts.retain(|part| matches!(part, Part::Image { .. }));
    let words = message_edges(&words(entry), bytes, pruned.artifact.as_ref());
    sent.parts.insert(0, Part::text(words));
    sent.tokens = pruned.tokens;
    sent
}

/// All words of a message: pictures have none.
pub(super) fn words(entry: &Entry) -> String {
    let words: Vec<Part> =
        entry.parts.iter().filter(|part| !matches!(part, Part::Image { .. })).cloned().collect();
    text_of(&words)
}

/// Pictures of a result are sent with the whole of it, or not at all.
pub(super) fn has_pictures(entry: &Entry) -> bool {
    entry.parts.iter().any(|part| matches!(part, Part::Image { .. }))
}

/// Where the whole of a result can be read, for the model.
pub(crate) fn reference(entry: &Entry) -> String {
    match &entry.artifact {
        Some(id) => format!("all of it is artifact {id}: read it with artifact_read"),
        None => format!("all of it is message {}: read it with history_read", entry.seq),
    }
}

/// The notice for a result whose middle was cut out for one request.
pub(crate) fn cut_notice(entry: &Entry) -> String {
    format!("\n{CUT_NOTICE} {}\n", reference(entry))
}

fn whole(entry: &Entry, pruned: &PrunedResult) -> String {
    format!("{}, {} bytes; {}", escape_name(&pruned.tool), grouped(pruned.whole_bytes), reference(entry))
}

fn shrunk(entry: &Entry, pruned: &PrunedResult, text: &str, bytes: usize) -> String {
    let notice = format!("\n{SHRUNK_NOTICE} {}\n", whole(entry, pruned));
    if text.len() <= bytes {
        return text.to_owned();
    }
    let side = bytes.saturating_sub(notice.len()) / 2;
    let head = text.floor_char_boundary(side);
    let tail = text.ceil_char_boundary(text.len() - side);
    format!("{}{notice}{}", &text[..head], &text[tail..])
}

fn edges(entry: &Entry, pruned: &PrunedResult, text: &str, chars: usize) -> String {
    let n_chars = text.chars().count();
    if n_chars <= chars * 2 {
        return text.to_owned();
    }
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(idx, _)| idx);
    let (head, tail) = (at(chars), at(n_chars - chars));
    format!("{}\n{CUT_NOTICE} {}\n{}", &text[..head], whole(entry, pruned), &text[tail..])
}

fn cleared(entry: &Entry, pruned: &PrunedResult) -> String {
    format!("{CLEARED_NOTICE} {}", whole(entry, pruned))
}
