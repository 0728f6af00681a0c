//! Server-sent events.

use std::convert::Infallible;

use cairn_types::wire::sse::{ServerEvent, SseBounds, SseFault, events};
use futures::{FutureExt as _, StreamExt as _, stream};

use crate::in_pieces;

const BOUNDS: SseBounds = SseBounds { event: 1_000, stream: 10_000, plain_errors: false };

type Item = Result<ServerEvent, SseFault<Infallible>>;

/// However the bytes are cut, the events are the same; they are bounded, and those of a plain reading of the standard.
pub fn sse(data: &[u8]) {
    let (whole, pieces) = in_pieces(data);
    let read = |pieces: &[&[u8]]| -> Vec<Item> {
        let chunks = stream::iter(pieces.iter().map(Ok));
        events(chunks, BOUNDS).collect::<Vec<_>>().now_or_never().expect("nothing is waited for")
    };
    let at_once = read(&[whole]);
    assert_eq!(at_once, read(&pieces), "in pieces");
    let bytes: Vec<&[u8]> = whole.chunks(1).collect();
    assert_eq!(at_once, read(&bytes), "byte by byte");
    let told = at_once.iter().flatten().map(|event| event.name.len() + event.data.len());
    assert!(told.clone().all(|bytes| bytes <= BOUNDS.event), "an event is over its bound");
    assert!(told.sum::<usize>() <= whole.len(), "more is told than was sent");
    let fault = at_once.iter().position(Result::is_err);
    assert!(fault.is_none_or(|at| at + 1 == at_once.len()), "something comes after a fault");
    if let (None, Ok(text)) = (fault, std::str::from_utf8(whole)) {
        let plain: Vec<(String, String)> =
            at_once.into_iter().flatten().map(|event| (event.name, event.data)).collect();
        assert_eq!(plain, by_the_standard(text));
    }
}

/// Names and data of the events, read slowly: the lines of the whole stream, then their fields.
fn by_the_standard(text: &str) -> Vec<(String, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    // What follows the last line's end is none.
    lines.pop();
    let (mut events, mut event) = (Vec::new(), None::<(String, Vec<String>)>);
    for line in lines {
        if line.is_empty() {
            events.extend(event.take().map(|(name, data)| (name, data.join("\n"))));
            continue;
        }
        let (field, value) = line
            .split_once(':')
            .map_or((line, ""), |(field, value)| (field, value.strip_prefix(' ').unwrap_or(value)));
        match field {
            "event" => value.clone_into(&mut event.get_or_insert_default().0),
            "data" => event.get_or_insert_default().1.push(value.to_owned()),
            "id" | "retry" => drop(event.get_or_insert_default()),
            _ => {}
        }
    }
    events
}
