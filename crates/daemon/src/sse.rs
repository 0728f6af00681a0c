//! Server-sent events as a client reads them: from chunks of bytes to events.

use std::collections::VecDeque;

use futures::{Stream, StreamExt, stream};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEvent {
    /// Its name; `message` when it has none.
    pub name: String,
    pub data: String,
}

/// Takes bytes in, in any pieces, and gives events out.
#[derive(Debug, Default)]
struct Decoder {
    line: Vec<u8>,
    name: Option<String>,
    data: Vec<String>,
}

impl Decoder {
    fn push(&mut self, bytes: &[u8], out: &mut VecDeque<ServerEvent>) {
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.line(String::from_utf8_lossy(&line).trim_end_matches('\r'), out);
            } else {
                self.line.push(byte);
            }
        }
    }

    fn line(&mut self, line: &str, out: &mut VecDeque<ServerEvent>) {
        if line.is_empty() {
            let name = self.name.take();
            if !self.data.is_empty() {
                let data = std::mem::take(&mut self.data).join("\n");
                out.push_back(ServerEvent { name: name.unwrap_or_else(|| "message".to_owned()), data });
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = Some(value.to_owned()),
            "data" => self.data.push(value.to_owned()),
            _ => {}
        }
    }
}

/// The events of a body. Ends with the body; an event that is cut off by its end is dropped.
pub fn events<C, B, E>(chunks: C) -> impl Stream<Item = Result<ServerEvent, E>>
where
    C: Stream<Item = Result<B, E>> + Unpin,
    B: AsRef<[u8]>,
{
    let state = (chunks, Decoder::default(), VecDeque::new());
    stream::unfold(state, |(mut chunks, mut decoder, mut ready)| async move {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((Ok(event), (chunks, decoder, ready)));
            }
            match chunks.next().await? {
                Ok(chunk) => decoder.push(chunk.as_ref(), &mut ready),
                Err(error) => return Some((Err(error), (chunks, decoder, ready))),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str =
        ": hello\n\nevent: delta\ndata: {\"text\":\"é\"}\n\nevent: reply\r\ndata: a\r\ndata: b\r\n\r\n";

    #[test]
    fn every_split_of_the_bytes_gives_the_same_events() {
        let expected = vec![
            ServerEvent { name: "delta".into(), data: "{\"text\":\"é\"}".into() },
            ServerEvent { name: "reply".into(), data: "a\nb".into() },
        ];
        for split in 0..=BODY.len() {
            let mut out = VecDeque::new();
            let mut decoder = Decoder::default();
            decoder.push(&BODY.as_bytes()[..split], &mut out);
            decoder.push(&BODY.as_bytes()[split..], &mut out);
            assert_eq!(Vec::from(out), expected, "split at {split}");
        }
    }
}
