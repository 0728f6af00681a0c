//! The text of office documents: ZIP archives of XML, as Office Open XML (ECMA-376) and OpenDocument have them. Few of the files
//! in an archive are read, and what they unpack to is bounded. Nesting takes no stack, and entities are not followed.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};

use super::document::{Draft, NoText};
use super::zip::Archive;

/// Most bytes to which all files that are read may unpack.
const UNPACKED_MAX: usize = 16 << 20;

/// Elements after which the clock is looked at again.
const CLOCK_EVERY: usize = 256;

/// Elements whose text is another form of what stands beside them, was deleted, or is a remark.
const LEFT_OUT: [&str; 4] = ["Fallback", "tracked-changes", "annotation", "rPh"];

/// Most blanks for one element that stands for blanks, and most empty cells between two of a row.
const BLANKS_MAX: usize = 64;

/// Adds the text of a document, a presentation or a table. The result says what of it, unless it is all.
///
/// # Errors
/// It is none of these.
pub(super) fn read(bytes: &[u8], draft: &mut Draft) -> Result<Option<String>, NoText> {
    let archive = Archive::open(bytes).ok_or(NoText::Broken)?;
    let mut office = Office { archive, left: UNPACKED_MAX, is_cut: false };
    let (slides, sheets) = (office.numbered("ppt/slides/slide"), office.numbered("xl/worksheets/sheet"));
    if office.has("word/document.xml") {
        office.walk("word/document.xml", draft, &mut Runs::default());
    } else if office.has("content.xml") {
        office.walk("content.xml", draft, &mut Paragraphs::default());
    } else if !slides.is_empty() {
        for (number, name) in slides {
            draft.push(&format!("\n[slide {number}]\n"));
            office.walk(&name, draft, &mut Runs::default());
        }
    } else if !sheets.is_empty() {
        let mut shared = Shared::default();
        if office.has("xl/sharedStrings.xml") {
            office.walk("xl/sharedStrings.xml", draft, &mut shared);
        }
        for (number, name) in sheets {
            draft.push(&format!("\n[sheet {number}]\n"));
            office.walk(&name, draft, &mut Cells::of(&shared.0));
        }
    } else {
        return Err(NoText::Broken);
    }
    Ok((office.is_cut || draft.is_over()).then(|| "beginning only".to_owned()))
}

struct Office<'a> {
    archive: Archive<'a>,
    /// Bytes that may still be unpacked.
    left: usize,
    /// Something could not be read to its end.
    is_cut: bool,
}

impl Office<'_> {
    fn has(&self, name: &str) -> bool {
        self.archive.names().any(|known| known == name)
    }

    /// The files with such a name and a number, in the order of their numbers.
    fn numbered(&self, start: &str) -> Vec<(u32, String)> {
        let number = |name: &str| name.strip_prefix(start)?.strip_suffix(".xml")?.parse().ok();
        let mut found: Vec<(u32, String)> =
            self.archive.names().filter_map(|name| Some((number(name)?, name.to_owned()))).collect();
        found.sort_unstable();
        found
    }

    /// Reads a file of the archive.
    fn walk(&mut self, name: &str, draft: &mut Draft, script: &mut dyn Script) {
        if draft.is_over() {
            return;
        }
        let (xml, is_all) = self.archive.file(name, self.left).unwrap_or_default();
        self.left -= xml.len();
        self.is_cut |= !walk(&xml, draft, script) || !is_all;
    }
}

/// What the elements of a file mean.
trait Script {
    fn start(&mut self, name: &str, element: &BytesStart<'_>, draft: &mut Draft);
    fn end(&mut self, name: &str, draft: &mut Draft);
    fn text(&mut self, text: &str, draft: &mut Draft);
}

/// Goes through the elements of a file. False: it was not read to its end.
fn walk(xml: &[u8], draft: &mut Draft, script: &mut dyn Script) -> bool {
    // The reader stops at the first byte that is not UTF-8.
    let xml = String::from_utf8_lossy(xml);
    let mut reader = Reader::from_str(&xml);
    reader.config_mut().check_end_names = false;
    let mut left_out = 0_usize;
    for n in 1_usize.. {
        if n.is_multiple_of(CLOCK_EVERY) && draft.is_over() {
            return false;
        }
        let Ok(event) = reader.read_event() else { return false };
        match event {
            Event::Start(element) => {
                let name = element.local_name();
                if left_out > 0 || LEFT_OUT.contains(&name.as_ref()) {
                    left_out += 1;
                } else {
                    script.start(name.as_ref(), &element, draft);
                }
            }
            Event::Empty(element) if left_out == 0 => {
                let name = element.local_name();
                script.start(name.as_ref(), &element, draft);
                script.end(name.as_ref(), draft);
            }
            Event::End(_) if left_out > 0 => left_out -= 1,
            Event::End(element) => script.end(element.local_name().as_ref(), draft),
            Event::Text(text) if left_out == 0 => script.text(&text, draft),
            Event::CData(text) if left_out == 0 => script.text(&text, draft),
            Event::GeneralRef(named) if left_out == 0 => {
                let mut place = [0; 4];
                let known = match named.resolve_char_ref() {
                    Ok(Some(c)) => Some(&*c.encode_utf8(&mut place)),
                    _ => resolve_predefined_entity(&named),
                };
                script.text(known.unwrap_or(" "), draft);
            }
            Event::Eof => return left_out == 0,
            _ => {}
        }
    }
    false
}

/// An attribute's value by its local name.
fn attribute(element: &BytesStart<'_>, wanted: &str) -> Option<String> {
    let mut all = element.attributes();
    // Each would be compared with all before it.
    let mut all = all.with_checks(false).flatten();
    let found = all.find(|attribute| attribute.key.local_name().as_ref() == wanted)?;
    Some(found.value.into_owned())
}

/// Text documents and slides of Office Open XML: paragraphs `p` of runs `r`, whose text is in `t`.
#[derive(Default)]
struct Runs {
    in_run: bool,
    in_text: bool,
}

impl Script for Runs {
    fn start(&mut self, name: &str, _element: &BytesStart<'_>, draft: &mut Draft) {
        match name {
            "r" => self.in_run = true,
            "t" => self.in_text = true,
            "br" | "cr" => draft.push("\n"),
            // Outside of runs it sets where tabs stop.
            "tab" if self.in_run => draft.push("\t"),
            _ => {}
        }
    }

    fn end(&mut self, name: &str, draft: &mut Draft) {
        match name {
            "r" => self.in_run = false,
            "t" => self.in_text = false,
            "p" => draft.push("\n"),
            _ => {}
        }
    }

    fn text(&mut self, text: &str, draft: &mut Draft) {
        if self.in_text {
            draft.push(text);
        }
    }
}

/// OpenDocument: paragraphs `p` and headings `h`.
#[derive(Default)]
struct Paragraphs {
    depth: usize,
}

impl Script for Paragraphs {
    fn start(&mut self, name: &str, element: &BytesStart<'_>, draft: &mut Draft) {
        match name {
            "p" | "h" => self.depth += 1,
            "tab" => draft.push("\t"),
            "line-break" => draft.push("\n"),
            "s" => {
                let n = attribute(element, "c").and_then(|n| n.parse().ok()).unwrap_or(1_usize);
                draft.push(&" ".repeat(n.min(BLANKS_MAX)));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str, draft: &mut Draft) {
        if matches!(name, "p" | "h") {
            self.depth = self.depth.saturating_sub(1);
            draft.push("\n");
        }
    }

    fn text(&mut self, text: &str, draft: &mut Draft) {
        if self.depth > 0 {
            draft.push(text);
        }
    }
}

/// The texts that the cells of a workbook share.
#[derive(Default)]
struct Shared(Vec<String>);

impl Script for Shared {
    fn start(&mut self, name: &str, _element: &BytesStart<'_>, _draft: &mut Draft) {
        if name == "si" {
            self.0.push(String::new());
        }
    }

    fn end(&mut self, _name: &str, _draft: &mut Draft) {}

    fn text(&mut self, text: &str, _draft: &mut Draft) {
        if let Some(last) = self.0.last_mut() {
            last.push_str(text);
        }
    }
}

/// The cells of a sheet: rows are lines, cells are parted by tabs.
struct Cells<'a> {
    shared: &'a [String],
    /// The column of the next cell, from 0.
    column: usize,
    is_shared: bool,
    in_value: bool,
    value: String,
}

impl<'a> Cells<'a> {
    fn of(shared: &'a [String]) -> Self {
        Self { shared, column: 0, is_shared: false, in_value: false, value: String::new() }
    }
}

/// The column in a reference such as `AB12`, from 0.
fn column(reference: &str) -> Option<usize> {
    let letters = reference.bytes().take_while(u8::is_ascii_uppercase).take(3);
    letters.fold(0, |sum, letter| sum * 26 + usize::from(letter - b'A') + 1).checked_sub(1)
}

impl Script for Cells<'_> {
    fn start(&mut self, name: &str, element: &BytesStart<'_>, draft: &mut Draft) {
        match name {
            "row" => self.column = 0,
            "c" => {
                self.is_shared = attribute(element, "t").as_deref() == Some("s");
                let at = attribute(element, "r").and_then(|reference| column(&reference));
                let ahead = at.unwrap_or(self.column).saturating_sub(self.column);
                draft.push(&"\t".repeat(ahead.min(BLANKS_MAX)));
                self.column += ahead;
            }
            "v" | "t" => self.in_value = true,
            _ => {}
        }
    }

    fn end(&mut self, name: &str, draft: &mut Draft) {
        match name {
            "v" | "t" => self.in_value = false,
            "c" => {
                let value = std::mem::take(&mut self.value);
                let shared = || self.shared.get(value.trim().parse::<usize>().ok()?);
                let shown = if self.is_shared { shared().map_or("", String::as_str) } else { &value };
                draft.push(shown);
                draft.push("\t");
                self.column += 1;
            }
            "row" => draft.push("\n"),
            _ => {}
        }
    }

    fn text(&mut self, text: &str, _draft: &mut Draft) {
        if self.in_value {
            self.value.push_str(text);
        }
    }
}
