//! Bodies of `multipart/form-data` (RFC 7578): fields and files.

use std::fmt::Write as _;

/// A body under construction.
pub(crate) struct Multipart {
    boundary: String,
    body: Vec<u8>,
}

impl Multipart {
    pub(crate) fn new() -> Self {
        Self { boundary: format!("cairn{:032x}", fastrand::u128(..)), body: Vec::new() }
    }

    fn head(&mut self, disposition: &str, content_type: Option<&str>) {
        let mut head = format!("--{}\r\nContent-Disposition: form-data; {disposition}\r\n", self.boundary);
        if let Some(content_type) = content_type {
            // Writing to a string does not fail.
            let _ = write!(head, "Content-Type: {content_type}\r\n");
        }
        head.push_str("\r\n");
        self.body.extend_from_slice(head.as_bytes());
    }

    /// Adds a field; `name` is ours.
    pub(crate) fn field(&mut self, name: &str, content_type: Option<&str>, value: &str) {
        self.head(&format!("name=\"{name}\""), content_type);
        self.body.extend_from_slice(value.as_bytes());
        self.body.extend_from_slice(b"\r\n");
    }

    /// Adds a file. Of its name and type only what cannot end a header is kept.
    pub(crate) fn file(&mut self, name: &str, file_name: &str, media_type: &str, data: &[u8]) {
        let plain = |c: &char| !c.is_control() && !['"', '\\'].contains(c);
        let file_name: String = file_name.chars().filter(plain).collect();
        let is_type = media_type.contains('/')
            && media_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+/".contains(&byte));
        let media_type = if is_type { media_type } else { "application/octet-stream" };
        self.head(&format!("name=\"{name}\"; filename=\"{file_name}\""), Some(media_type));
        self.body.extend_from_slice(data);
        self.body.extend_from_slice(b"\r\n");
    }

    /// The header `Content-Type`, and the body.
    pub(crate) fn finish(mut self) -> (String, Vec<u8>) {
        self.body.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        (format!("multipart/form-data; boundary={}", self.boundary), self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_a_type_ends_no_header() {
        let mut form = Multipart::new();
        form.field("chat_id", None, "7");
        form.file("photo", "a\"\r\nb.png", "image/png\r\nX-Evil: 1", b"\x00\xff");
        let (content_type, body) = form.finish();
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
