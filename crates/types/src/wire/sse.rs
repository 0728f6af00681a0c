//! Server-sent events out of pieces of bytes, wherever the network cuts them, within bounds.
//!
//! The grammar is that of the HTML standard: an event ends with a blank line, and one that the stream's end cuts off is
//! dropped. On request, errors that are not events of the standard are read, too ([`SseBounds::plain_errors`]). Of the
//! libraries, eventsource-stream takes a CRLF that is cut in two for a blank line, panics on a byte order mark and has no
//! bound; sse-stream needs an HTTP body.

use std::collections::VecDeque;

use futures::{Stream, StreamExt as _, stream};

/// An event with at least one field. The standard ignores an event without data; here the reader decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// Empty when it has none.
    pub name: String,
    pub data: String,
    pub id: Option<String>,
    /// Milliseconds until the next connection.
    pub retry: Option<u64>,
}

/// Most bytes of one event, comments and names of fields included, and of the whole stream.
#[derive(Debug, Clone, Copy)]
pub struct SseBounds {
    pub event: usize,
    pub stream: usize,
    /// Also read as events what the standard ignores and some servers report errors by: a field `error`, and lines of bare
    /// JSON.
    pub plain_errors: bool,
}

/// Why a stream of events was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseFault<E> {
    EventTooLarge,
    StreamTooLarge,
    NotUtf8,
    Broken(E),
}

/// The events of a stream of bytes. A fault is the last item.
pub fn events<S, B, E>(
    chunks: S,
    bounds: SseBounds,
) -> impl Stream<Item = Result<ServerEvent, SseFault<E>>> + Send
where
    S: Stream<Item = Result<B, E>> + Send + Unpin,
    B: AsRef<[u8]> + Send,
    E: Send,
{
    let state = (Some((chunks, Decoder::new(bounds))), VecDeque::new());
    stream::unfold(state, |(mut open, mut ready)| async move {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((event, (open, ready)));
            }
            let (chunks, decoder) = open.as_mut()?;
            let decoded = match chunks.next().await? {
                Ok(chunk) => decoder.push(chunk.as_ref(), |event| ready.push_back(Ok(event))),
                Err(error) => Err(SseFault::Broken(error)),
            };
            if let Err(fault) = decoded {
                ready.push_back(Err(fault));
                open = None;
            }
        }
    })
}

struct Decoder {
    bounds: SseBounds,
    /// Bytes of a line that has not ended.
    line: Vec<u8>,
    after_cr: bool,
    /// The first line has ended.
    begun: bool,
    event_bytes: usize,
    stream_bytes: usize,
    /// The event as far as it was read.
    event: Option<ServerEvent>,
    /// The event is bare JSON, which ends at the next field or blank line.
    is_bare: bool,
}

impl Decoder {
    fn new(bounds: SseBounds) -> Self {
        let (line, event) = (Vec::new(), None);
        Self {
            bounds,
            line,
            after_cr: false,
            begun: false,
            event_bytes: 0,
            stream_bytes: 0,
            event,
            is_bare: false,
        }
    }

    fn push<E>(&mut self, bytes: &[u8], mut out: impl FnMut(ServerEvent)) -> Result<(), SseFault<E>> {
        for &byte in bytes {
            self.stream_bytes += 1;
            if self.stream_bytes > self.bounds.stream {
                return Err(SseFault::StreamTooLarge);
            }
            let ends_crlf = std::mem::replace(&mut self.after_cr, byte == b'\r') && byte == b'\n';
            match byte {
                _ if ends_crlf => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    let line = std::str::from_utf8(&line).map_err(|_invalid| SseFault::NotUtf8)?;
                    self.end_line(line).into_iter().for_each(&mut out);
                }
                _ => {
                    self.event_bytes += 1;
                    if self.event_bytes > self.bounds.event {
                        return Err(SseFault::EventTooLarge);
                    }
                    self.line.push(byte);
                }
            }
        }
        Ok(())
    }

    /// Reads a line. Returns the event that it ends, which a blank line mostly does.
    fn end_line(&mut self, line: &str) -> Option<ServerEvent> {
        let line = if std::mem::replace(&mut self.begun, true) {
            line
        } else {
            line.strip_prefix('\u{feff}').unwrap_or(line)
        };
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if !is_field(field, self.bounds) {
            return self.bare(line);
        }
        let ended = if self.is_bare { self.end_event() } else { None };
        let event = self.event.get_or_insert_default();
        match field {
            "event" => value.clone_into(&mut event.name),
            "data" => event.data.extend([value, "\n"]),
            "error" => {
                field.clone_into(&mut event.name);
                event.data.extend([value, "\n"]);
            }
            "id" => event.id = Some(value.to_owned()),
            _ => event.retry = value.parse().ok(),
        }
        ended
    }

    /// Reads a line that is not a field: bare JSON, or ignored.
    fn bare(&mut self, line: &str) -> Option<ServerEvent> {
        let begins = self.bounds.plain_errors && line.starts_with('{');
        if !self.is_bare && !begins {
            return None;
        }
        let ended = if self.is_bare { None } else { self.end_event() };
        self.is_bare = true;
        self.event.get_or_insert_default().data.extend([line, "\n"]);
        ended
    }

    fn end_event(&mut self) -> Option<ServerEvent> {
        self.event_bytes = 0;
        self.is_bare = false;
        let mut event = self.event.take()?;
        event.data.pop();
        Some(event)
    }
}

fn is_field(name: &str, bounds: SseBounds) -> bool {
    ["event", "data", "id", "retry"].contains(&name) || (bounds.plain_errors && name == "error")
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const BOUNDS: SseBounds = SseBounds { event: 40, stream: 1_000, plain_errors: false };

    fn read(chunks: &[&[u8]]) -> Vec<Result<ServerEvent, SseFault<()>>> {
        read_within(BOUNDS, chunks)
    }

    fn read_within(bounds: SseBounds, chunks: &[&[u8]]) -> Vec<Result<ServerEvent, SseFault<()>>> {
        let chunks = stream::iter(chunks.iter().map(Ok));
        events(chunks, bounds).collect::<Vec<_>>().now_or_never().unwrap()
    }

    #[test]
    fn every_cut_yields_the_same_events() {
        let text = "\u{feff}: hello\r\ndata: one\r\n\r\ndata: é\u{1F980}\rdata: two\r\revent: x\nid: 7\ndata:three\n\nretry: 5\n\n\
                    data\n\ndata: cut off";
        let event = |name: &str, data: &str| ServerEvent {
            name: name.to_owned(),
            data: data.to_owned(),
            ..ServerEvent::default()
        };
        let expected = [
            Ok(event("", "one")),
            Ok(event("", "é\u{1F980}\ntwo")),
            Ok(ServerEvent { id: Some("7".to_owned()), ..event("x", "three") }),
            Ok(ServerEvent { retry: Some(5), ..event("", "") }),
            Ok(event("", "")),
        ];
        assert_eq!(read(&[text.as_bytes()]), expected);
        for cut in 0..=text.len() {
            let (head, tail) = text.as_bytes().split_at(cut);
            assert_eq!(read(&[head, tail]), expected, "cut at byte {cut}");
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes), expected);
    }

    #[test]
    fn errors_that_are_no_events_of_the_standard_are_told_where_they_are_asked_for() {
        let bounds = SseBounds { event: 60, plain_errors: true, ..BOUNDS };
        let cases: [(&str, &[(&str, &str)]); 7] = [
            ("error: {\"code\":400}\n\ndata: [DONE]\n\n", &[("error", "{\"code\":400}"), ("", "[DONE]")]),
            ("{\"error\":\"x\"}\n\n", &[("", "{\"error\":\"x\"}")]),
            ("{\"error\":\"x\"}\ndata: [DONE]\n\n", &[("", "{\"error\":\"x\"}"), ("", "[DONE]")]),
            ("{\n  \"error\": \"x\"\n}\n\n", &[("", "{\n  \"error\": \"x\"\n}")]),
            ("data: a\n{\"error\":\"x\"}\n\n", &[("", "a"), ("", "{\"error\":\"x\"}")]),
            ("data: a\n\nnothing\n: {\"a\":1}\n[1]\n\n", &[("", "a")]),
            ("data: {\ndata: }\n\n", &[("", "{\n}")]),
        ];
        for (text, expected) in cases {
            let told = |events: Vec<Result<ServerEvent, SseFault<()>>>| -> Vec<(String, String)> {
                events.into_iter().map(|event| event.map(|event| (event.name, event.data)).unwrap()).collect()
            };
            let expected: Vec<_> =
                expected.iter().map(|(name, data)| (name.to_string(), data.to_string())).collect();
            assert_eq!(told(read_within(bounds, &[text.as_bytes()])), expected, "{text}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(told(read_within(bounds, &bytes)), expected, "{text}, byte by byte");
            let plain = told(read(&[text.as_bytes()]));
            assert!(plain.iter().all(|(name, data)| name.is_empty() && !data.contains("error")), "{plain:?}");
        }
        let endless = read_within(bounds, &[b"{\"error\": [\n".as_slice(); 9]);
        assert_eq!(endless, [Err(SseFault::EventTooLarge)]);
    }

    #[test]
    fn a_stream_that_is_not_utf8_ends_with_a_fault() {
        let events = read(&[b"data: a\n\ndata: \xff\xfe\n\ndata: b\n\n"]);
        assert!(matches!(events[..], [Ok(_), Err(SseFault::NotUtf8)]), "{events:?}");
    }

    #[test]
    fn an_event_is_measured_across_chunks_and_lines() {
        let line: &[u8] = b"data: 0123456789\r\n";
        let fine = read(&[line, line, b"\r\n", line, line, b"\n"]);
        assert!(matches!(fine[..], [Ok(_), Ok(_)]), "{fine:?}");
        assert_eq!(read(&[line, line, line, b"\n"]), [Err(SseFault::EventTooLarge)]);
        assert_eq!(read(&[[b'x'; 41].as_slice()]), [Err(SseFault::EventTooLarge)]);
        assert_eq!(read(&[b": a comment\n".as_slice(); 9]), [Err(SseFault::EventTooLarge)]);
    }

    #[test]
    fn a_stream_is_measured() {
        let events = read(&[b"data: 0123456789\n\n".as_slice(); 100]);
        assert_eq!(events.len(), 1_000 / 18 + 1);
        assert_eq!(events.last(), Some(&Err(SseFault::StreamTooLarge)));
    }

    #[test]
    fn a_broken_connection_is_the_last_item() {
        let chunks = stream::iter([Ok("data: a\n\n"), Err("cut"), Ok("data: b\n\n")]);
        let events = events(chunks, BOUNDS).collect::<Vec<_>>().now_or_never().unwrap();
        assert!(matches!(events[..], [Ok(_), Err(SseFault::Broken("cut"))]), "{events:?}");
    }
}
