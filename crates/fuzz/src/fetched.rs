//! What is fetched: pages, and files that people attach.

use cairn_platforms::attach::{AttachLimits, Attachment, Kind};
use cairn_tools::fetch::fuzzing;
use cairn_types::message::{Part, text_of};

/// Longest target of a link in the words of a page.
const LINK_MAX: usize = 3_000;

/// A page becomes words, no more than it can hold.
pub fn page(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    let types = [
        "text/html",
        "text/html; charset=shift_jis",
        "text/plain",
        "application/json",
        "text/html; charset=utf-16le",
    ];
    let kind = types.get(usize::from(kind % 8)).copied();
    for cut in [false, true] {
        let Some(words) = fuzzing::page(kind, bytes, cut) else { continue };
        let links = bytes.iter().filter(|byte| **byte == b'<').count();
        assert!(
            words.len() <= 16 * bytes.len() + links * LINK_MAX,
            "{} bytes of {}",
            words.len(),
            bytes.len()
        );
        assert!(!words.contains('\0'), "a NUL in words");
    }
}

/// A file whose name and type are the first two lines: what is told of it is one line, its text is what was sent.
pub fn attachment(data: &[u8]) {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    let (name, media_type, bytes) = (crate::lossy(next()), crate::lossy(next()), next());
    let file = Attachment {
        name: &name,
        media_type: (!media_type.is_empty()).then_some(media_type.as_str()),
        size: Some(bytes.len() as u64),
    };
    let fetched = match file.wanted(&AttachLimits::default()) {
        Ok(most) => {
            assert!(bytes.len() <= most);
            Ok(bytes.to_vec())
        }
        Err(unread) => Err(unread),
    };
    let part = file.part(fetched);
    let shown = text_of(std::slice::from_ref(&part));
    match &part {
        Part::File { name, media_type, text } => {
            for told in [Some(name), media_type.as_ref()].into_iter().flatten() {
                assert!(told.chars().count() <= 120 && !told.chars().any(char::is_control), "{told:?}");
            }
            if let Some(text) = text {
                assert_eq!(file.kind(), Kind::Text);
                assert!(std::str::from_utf8(bytes).is_ok_and(|sent| sent.ends_with(text.as_str())));
            }
        }
        Part::Image { media_type, .. } => assert!(media_type.starts_with("image/")),
        Part::Text { .. } => panic!("a file became words: {shown:?}"),
    }
}
