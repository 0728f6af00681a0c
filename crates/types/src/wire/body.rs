//! The body of an answer, read up to a limit.

use std::pin::pin;

use futures::{Stream, StreamExt as _};

/// Why a body could not be read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyError<E> {
    TooLarge,
    Broken(E),
}

/// Reads at most `max` bytes. Returns what came, even if that is not all.
pub async fn read<B: AsRef<[u8]>, E>(
    chunks: impl Stream<Item = Result<B, E>>,
    max: usize,
) -> (Vec<u8>, Option<BodyError<E>>) {
    let mut chunks = pin!(chunks);
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = match &chunk {
            Ok(chunk) => chunk.as_ref(),
            Err(_) => return (body, chunk.err().map(BodyError::Broken)),
        };
        let room = max - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return (body, Some(BodyError::TooLarge));
        }
    }
    (body, None)
}

/// Reads a body of at most `max` bytes.
///
/// # Errors
/// It is larger, or broke off.
pub async fn read_whole<B: AsRef<[u8]>, E>(
    chunks: impl Stream<Item = Result<B, E>>,
    max: usize,
) -> Result<Vec<u8>, BodyError<E>> {
    match read(chunks, max).await {
        (body, None) => Ok(body),
        (_, Some(short)) => Err(short),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::stream;

    use super::*;

    #[test]
    fn a_body_is_read_up_to_its_limit() {
        let read =
            |max: usize| read(stream::iter([Ok::<_, ()>("abc"), Ok("de")]), max).now_or_never().unwrap();
        assert_eq!(read(5), (b"abcde".to_vec(), None));
        assert_eq!(read(4), (b"abcd".to_vec(), Some(BodyError::TooLarge)));
        assert_eq!(read(2), (b"ab".to_vec(), Some(BodyError::TooLarge)));
        // Of a body without end no more is asked for.
        let endless = stream::repeat(Ok::<_, ()>("abc"));
        assert_eq!(read_whole(endless, 7).now_or_never(), Some(Err(BodyError::TooLarge)));
    }

    #[test]
    fn what_came_before_a_break_is_given() {
        let broken = || stream::iter([Ok("abc"), Err("cut"), Ok("d")]);
        assert_eq!(read(broken(), 9).now_or_never(), Some((b"abc".to_vec(), Some(BodyError::Broken("cut")))));
        assert_eq!(read_whole(broken(), 9).now_or_never(), Some(Err(BodyError::Broken("cut"))));
    }
}
