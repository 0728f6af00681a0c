//! What models write into their text beside the answer: reasoning in tags, calls, headers.

use cairn_core::answer_text::{AnswerText, Piece};
use cairn_types::tool::defs::{ToolDef, ToolDefs};
use cairn_types::tool::is_name;
use serde_json::{Value, json};

use crate::lossy;

/// An answer, whatever its pieces.
#[derive(Debug, Default, PartialEq)]
struct Sorted {
    text: String,
    reasoning: String,
    calls: Vec<(String, Value)>,
}

/// However a text is cut, the same comes of it; nothing is made up, and a text without marks is left as it is.
pub fn answer_text(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let (text, width, amid) = (lossy(rest), usize::from(first % 61) + 1, first & 0x80 != 0);
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(width).map(|piece| piece.iter().collect()).collect();
    let whole = sorted(std::slice::from_ref(&text), amid);
    assert_eq!(sorted(&pieces, amid), whole, "in pieces");
    // What turns out to be the answer after all is told as both.
    assert!(whole.text.len() + whole.reasoning.len() <= 2 * text.len(), "more is told than was said");
    for (name, _) in &whole.calls {
        assert!(is_name(name), "a call of {name:?}");
    }
    if !text.contains(['<', '[', '{', '`', '◁']) && !text.to_lowercase().contains("analysis") && !amid {
        assert_eq!(whole.text, text, "a text without marks is changed");
    }
}

fn sorted(pieces: &[String], amid: bool) -> Sorted {
    let find = ToolDef {
        name: "find".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {"query": {"type": "string"}}}),
    };
    let mut answer = AnswerText::new(ToolDefs::from(vec![find]), amid);
    let mut all: Vec<Piece> = pieces.iter().flat_map(|piece| answer.push(piece)).collect();
    all.extend(answer.end(false));
    let mut sorted = Sorted::default();
    for piece in all {
        match piece {
            Piece::Text(text) => sorted.text.push_str(&text),
            Piece::Reasoning(text) => sorted.reasoning.push_str(&text),
            Piece::TextWasReasoning => sorted.reasoning.push_str(&std::mem::take(&mut sorted.text)),
            Piece::Call { name, arguments, .. } => sorted.calls.push((name, arguments)),
        }
    }
    sorted
}
