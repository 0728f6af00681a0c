//! What goes out, in the bytes of a transport, made as they are needed: the largest message is never in memory.

use serde_json::{Value, json};

/// Size of the pieces of what is large.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone)]
pub(super) enum Frame {
    Message(Value),
    /// A result with so many bytes of text.
    Huge {
        id: Value,
        bytes: u64,
    },
    Raw(String),
    Half(Value),
    /// The beginning of an answer, and no end.
    Endless {
        id: Value,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Line,
    Event,
    Body,
}

impl Form {
    fn head(self) -> &'static str {
        match self {
            Self::Line | Self::Body => "",
            Self::Event => "event: message\ndata: ",
        }
    }

    fn tail(self) -> &'static str {
        match self {
            Self::Line => "\n",
            Self::Event => "\n\n",
            Self::Body => "",
        }
    }
}

const HOLE: &str = "@HOLE@";

/// Its bytes, in pieces.
pub(super) fn pieces(frame: Frame, form: Form) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
    let framed = |text: &str| format!("{}{text}{}", form.head(), form.tail()).into_bytes();
    match frame {
        Frame::Message(message) => Box::new(std::iter::once(framed(&message.to_string()))),
        Frame::Raw(text) => Box::new(std::iter::once(framed(&text))),
        Frame::Half(message) => {
            let text = message.to_string();
            let half = text.floor_char_boundary(text.len() / 2);
            Box::new(std::iter::once(format!("{}{}", form.head(), &text[..half]).into_bytes()))
        }
        Frame::Huge { id, bytes } => {
            let (head, tail) = around_hole(id, form);
            let n_whole = bytes / PIECE_BYTES as u64;
            let rest = (bytes % PIECE_BYTES as u64) as usize;
            let whole = (0..n_whole).map(|_| vec![b'x'; PIECE_BYTES]);
            Box::new(std::iter::once(head).chain(whole).chain([vec![b'x'; rest], tail]))
        }
        Frame::Endless { id } => {
            let (head, _) = around_hole(id, form);
            Box::new(std::iter::once(head).chain(std::iter::repeat_with(|| vec![b'x'; PIECE_BYTES])))
        }
    }
}

/// An answer with a text, up to that text and from there on.
fn around_hole(id: Value, form: Form) -> (Vec<u8>, Vec<u8>) {
    let message = json!({
        "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": HOLE }] },
    });
    let text = message.to_string();
    let (head, tail) = text.split_once(HOLE).unwrap_or((&text, ""));
    (format!("{}{head}", form.head()).into_bytes(), format!("{tail}{}", form.tail()).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_message_is_whole_and_has_its_size() {
        let all: Vec<u8> =
            pieces(Frame::Huge { id: json!(3), bytes: 200_000 }, Form::Line).flatten().collect();
        let message: Value = serde_json::from_slice(&all).unwrap();
        assert_eq!(message["result"]["content"][0]["text"].as_str().map(str::len), Some(200_000));
        assert_eq!((all.last(), &message["id"]), (Some(&b'\n'), &json!(3)));
    }

    #[test]
    fn an_endless_message_has_no_end() {
        let mut endless = pieces(Frame::Endless { id: json!(3) }, Form::Event);
        assert!(endless.next().unwrap().starts_with(b"event: message\ndata: {"));
        assert!(endless.take(1_000).all(|piece| piece.iter().all(|byte| *byte == b'x')));
    }
}
