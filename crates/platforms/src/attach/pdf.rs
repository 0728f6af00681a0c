//! The text of PDFs, page by page. What is unpacked is bounded while the file is opened and for each page.

use lopdf::{Document, LoadOptions};

use super::document::{Draft, NoText};

/// Most bytes to which a stream of the file's own tables may unpack.
const STREAM_MAX: usize = 1 << 20;

/// Most bytes to which the content of a page, or a table of a font, may unpack. Content takes a hundred times as much once it is
/// parsed.
const PAGE_MAX: usize = 256 << 10;

/// Stands for every text in a font that does not say which characters it shows.
const UNKNOWN_FONT: &str = "?Identity-H Unimplemented?";

/// Adds the text of the pages. The result says which of them, unless it is all.
///
/// # Errors
/// It cannot be opened.
pub(super) fn read(bytes: &[u8], draft: &mut Draft) -> Result<Option<String>, NoText> {
    let options = LoadOptions { max_decompressed_size: Some(STREAM_MAX), ..LoadOptions::default() };
    let document = Document::load_mem_with_options(bytes, options).map_err(|error| match error {
        lopdf::Error::InvalidPassword | lopdf::Error::Decryption(_) => NoText::Encrypted,
        _ => NoText::Broken,
    })?;
    if document.is_encrypted() {
        return Err(NoText::Encrypted);
    }
    let pages = document.get_pages();
    let (mut n_read, mut n_bad) = (0, 0);
    for number in pages.keys() {
        if draft.is_over() {
            break;
        }
        let mut is_bad = false;
        for piece in document.extract_text_chunks_with_limit(&[*number], PAGE_MAX) {
            match piece {
                Ok(piece) if !piece.contains(UNKNOWN_FONT) => draft.push(&piece),
                Ok(_) | Err(_) => is_bad = true,
            }
        }
        draft.push("\n");
        n_read += 1;
        n_bad += usize::from(is_bad);
    }
    let n = pages.len();
    let mut notes = Vec::new();
    if n_read < n || draft.is_over() {
        notes.push(format!("text of pages 1 to {n_read} of {n}"));
    }
    if n_bad > 0 {
        notes.push(format!("{n_bad} of {n} pages incomplete or unreadable"));
    }
    Ok((!notes.is_empty()).then(|| notes.join(", ")))
}
