//! Head and tail of a long text around a note, which says what is left out and how to read on.

use crate::ids::ArtifactId;

/// The tool by which a model reads on in an artifact.
pub const READ_TOOL: &str = "artifact_read";

/// Most bytes of a note. A result that is no larger is never replaced by one.
pub const NOTE_BYTES: usize = 400;

/// The first line of the notice within a shrunk result.
pub const SHRUNK_NOTICE: &str = "[truncated: output exceeded context limit]";

/// The first line of the notice within a message that is larger than the window allows.
pub const MESSAGE_NOTICE: &str = "[truncated: message exceeded context limit]";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edges {
    /// Bytes of the head.
    pub head: usize,
    /// Where the tail begins, in bytes.
    pub tail: usize,
}

/// Where the full text of a shortened result or message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullTextAt<'a> {
    Artifact(&'a ArtifactId),
    /// Nowhere: it could not be stored.
    Lost,
    /// In the history, since it is a message; also in this artifact, if the model can read it there.
    Message(Option<&'a ArtifactId>),
}

/// Head and tail of a message within `bytes`, around a note that says how to read on. A message that is no longer is returned
/// as it is.
pub fn message_edges(text: &str, bytes: usize, artifact: Option<&ArtifactId>) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    with_edges(text, edges(text, bytes), FullTextAt::Message(artifact))
}

/// Lines of a text; a line break at its end begins no further line.
pub fn count_lines(text: &str) -> u64 {
    let breaks = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
    breaks + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Head and tail of equal size that leave room for a note within `max_bytes`.
pub fn edges(text: &str, max_bytes: usize) -> Edges {
    let side = max_bytes.saturating_sub(NOTE_BYTES) / 2;
    let head = head(text, side);
    let from = text.ceil_char_boundary(text.len().saturating_sub(side));
    let is_line_start = text[..from].ends_with('\n');
    let next_line = text[from..].find('\n').map(|idx| from + idx + 1);
    let tail = match next_line.filter(|line| text.len() - line > side / 2) {
        Some(line) if !is_line_start => line,
        _ => from,
    };
    Edges { head, tail: tail.max(head) }
}

/// Bytes of the longest head within `side` that ends with a line. If that would lose half, it ends within a line.
pub fn head(text: &str, side: usize) -> usize {
    let end = text.floor_char_boundary(side);
    let line = text[..end].rfind('\n').map(|idx| idx + 1);
    line.filter(|line| *line > end / 2).unwrap_or(end)
}

pub fn with_edges(text: &str, edges: Edges, whereabouts: FullTextAt<'_>) -> String {
    let (head, tail) = (&text[..edges.head], &text[edges.tail..]);
    let break_after_head = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{break_after_head}{}\n{tail}", note(text, Some(edges), whereabouts))
}

pub fn note(text: &str, edges: Option<Edges>, whereabouts: FullTextAt<'_>) -> String {
    let size = match count_lines(text) {
        1 => format!("{} bytes, 1 line", text.len()),
        lines => format!("{} bytes, {lines} lines", text.len()),
    };
    let left_out = match edges {
        None => "Nothing of it is shown here".to_owned(),
        Some(edges) => left_out(text, edges),
    };
    let read_on = |id: &ArtifactId| {
        let (line, offset) = edges.map_or((1, 0), |edges| place(text, edges.head));
        let offset = if offset > 0 { format!(" and offset = {offset}") } else { String::new() };
        format!("To read on, call {READ_TOOL} with id = \"{id}\", from = {line}{offset}.")
    };
    match whereabouts {
        FullTextAt::Artifact(id) => format!(
            "{SHRUNK_NOTICE}\nThe whole result ({size}) is artifact {id}. {left_out}. {}",
            read_on(id)
        ),
        FullTextAt::Message(Some(id)) => format!(
            "{MESSAGE_NOTICE}\nThe whole message ({size}) is artifact {id}. {left_out}. {}",
            read_on(id)
        ),
        FullTextAt::Message(None) => format!(
            "{MESSAGE_NOTICE}\nThe whole message ({size}) is kept, but cannot be read here. {left_out}. Say so where \
             it matters."
        ),
        FullTextAt::Lost => format!(
            "{SHRUNK_NOTICE}\nThe whole result ({size}) could not be stored, and what is not shown is \
             lost. {left_out}. Call the tool again for a smaller part of it."
        ),
    }
}

fn left_out(text: &str, edges: Edges) -> String {
    let ((first, first_offset), (after, after_offset)) = (place(text, edges.head), place(text, edges.tail));
    if first_offset > 0 || after_offset > 0 {
        return format!(
            "Left out here: {} bytes, from line {first} (byte {first_offset} of it) to line {}",
            edges.tail - edges.head,
            if after_offset > 0 { after } else { after - 1 },
        );
    }
    format!("Left out here: lines {first} to {}", after - 1)
}

/// The line, from 1, and the byte within it, from 0, at which a position is.
pub fn place(text: &str, position: usize) -> (u64, usize) {
    let before = &text[..position];
    let line_start = before.rfind('\n').map_or(0, |idx| idx + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() as u64 + 1;
    (line, position - line_start)
}
