//! Bodies of `multipart/form-data` (RFC 7578): fields and files.

use std::fmt::Write as _;

/// Most bytes of a body that is put together on the runtime's threads.
const AT_ONCE: usize = 256 << 10;

/// A body under construction.
pub(crate) struct Multipart {
    boundary: String,
    pieces: Vec<Box<dyn AsRef<[u8]> + Send>>,
}

impl Multipart {
    pub(crate) fn new() -> Self {
        Self { boundary: format!("cairn{:032x}", fastrand::u128(..)), pieces: Vec::new() }
    }

    fn head(&mut self, disposition: &str, content_type: Option<&str>) {
        let mut head = format!("--{}\r\nContent-Disposition: form-data; {disposition}\r\n", self.boundary);
        if let Some(content_type) = content_type {
            // Writing to a string does not fail.
            let _ = write!(head, "Content-Type: {content_type}\r\n");
        }
        head.push_str("\r\n");
        self.pieces.push(Box::new(head));
    }

    fn content(&mut self, content: impl AsRef<[u8]> + Send + 'static) {
        self.pieces.push(Box::new(content));
        self.pieces.push(Box::new("\r\n"));
    }

    /// Adds a field; `name` is ours.
    pub(crate) fn field(&mut self, name: &str, content_type: Option<&str>, value: &str) {
        self.head(&format!("name=\"{name}\""), content_type);
        self.content(value.to_owned());
    }

    /// Adds a file. Of its name and type only what cannot end a header is kept.
    pub(crate) fn file(
        &mut self,
        name: &str,
        file_name: &str,
        media_type: &str,
        data: impl AsRef<[u8]> + Send + 'static,
    ) {
        let plain = |c: &char| !c.is_control() && !['"', '\\'].contains(c);
        let file_name: String = file_name.chars().filter(plain).collect();
        let is_type = media_type.contains('/')
            && media_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+/".contains(&byte));
        let media_type = if is_type { media_type } else { "application/octet-stream" };
        self.head(&format!("name=\"{name}\"; filename=\"{file_name}\""), Some(media_type));
        self.content(data);
    }

    /// The header `Content-Type`, and the body. A large one is put together on a blocking thread.
    pub(crate) async fn finish(self) -> (String, Vec<u8>) {
        let Self { boundary, mut pieces } = self;
        pieces.push(Box::new(format!("--{boundary}--\r\n")));
        let total: usize = pieces.iter().map(|piece| piece.as_ref().as_ref().len()).sum();
        let join = move || {
            let mut body = Vec::with_capacity(total);
            pieces.iter().for_each(|piece| body.extend_from_slice(piece.as_ref().as_ref()));
            body
        };
        let body = if total <= AT_ONCE {
            join()
        } else {
            // It does not panic; where the runtime ends before, nobody sends the request.
            tokio::task::spawn_blocking(join).await.unwrap_or_default()
        };
        (format!("multipart/form-data; boundary={boundary}"), body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_or_a_type_ends_no_header() {
        let mut form = Multipart::new();
        form.field("chat_id", None, "7");
        form.file("photo", "a\"\r\nb.png", "image/png\r\nX-Evil: 1", b"\x00\xff");
        let (content_type, body) = form.finish().await;
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=").expect("names it");
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"chat_id\"\r\n\r\n7\r\n--{boundary}\r\n\
             Content-Disposition: form-data; name=\"photo\"; filename=\"ab.png\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        let expected =
            [expected.as_bytes(), b"\x00\xff\r\n", format!("--{boundary}--\r\n").as_bytes()].concat();
        assert_eq!(body, expected);
    }
}
