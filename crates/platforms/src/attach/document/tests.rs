//! What is read of documents, and what of hostile ones.

use cairn_testkit::documents::{
    archive, docx, pdf, pdf_bomb, pdf_circular, pdf_encrypted, pdf_of_unknown_font,
};
use rstest::rstest;

use super::*;
use crate::attach::{AttachLimits, Attachment};

fn whole(text: &str) -> Result<DocumentText, NoText> {
    Ok(DocumentText { text: text.to_owned(), part: None })
}

#[test]
fn the_pages_of_a_pdf_are_read_in_their_order() {
    let read = read_document(&pdf(&["Invoice 4711\ndue on May 3rd", "Total: 12 EUR"]));
    assert_eq!(read, whole("Invoice 4711\ndue on May 3rd\n\nTotal: 12 EUR"));
}

#[rstest]
#[case::encrypted(pdf_encrypted("secret"), NoText::Encrypted)]
#[case::circular(pdf_circular(), NoText::Blank)]
#[case::blank(pdf(&["", " "]), NoText::Blank)]
#[case::unknown_font(pdf_of_unknown_font(), NoText::Blank)]
#[case::no_pdf(b"MZ this is none".to_vec(), NoText::Broken)]
#[case::nothing(Vec::new(), NoText::Broken)]
#[case::another_archive(archive(&[("a.txt", "hello")]), NoText::Broken)]
#[case::broken_archive(b"PK\x03\x04 and no more".to_vec(), NoText::Broken)]
fn a_document_without_text_says_why(#[case] bytes: Vec<u8>, #[case] why: NoText) {
    assert_eq!(read_document(&bytes), Err(why));
}

#[test]
fn a_page_that_unpacks_to_too_much_is_left_out() {
    let read = read_document(&pdf_bomb("Invoice 4711", 64 << 20)).expect("has a page");
    assert_eq!(read.text, "Invoice 4711");
    assert_eq!(read.part.as_deref(), Some("1 of 2 pages incomplete or unreadable"));
}

#[test]
fn a_cell_of_very_many_attributes_costs_no_more_than_its_length() {
    // Compared with each other they would take minutes.
    let attributes: String = (0..300_000).map(|n| format!(" a{n}=\"\"")).collect();
    let sheet = format!("<sheetData><row><c{attributes} t=\"str\"><v>12 EUR</v></c></row></sheetData>");
    let read = read_document(&archive(&[("xl/worksheets/sheet1.xml", &sheet)])).expect("has text");
    assert_eq!(read.text, "[sheet 1]\n12 EUR");
}

#[test]
fn a_pdf_cut_anywhere_neither_panics_nor_hangs() {
    let bytes = pdf(&["Invoice 4711", "Total: 12 EUR"]);
    for end in 0..bytes.len() {
        let _read = read_document(&bytes[..end]);
    }
}

#[test]
fn a_long_pdf_says_which_pages_were_read() {
    let page = "word ".repeat(2_000);
    let pages = vec![page.as_str(); 80];
    let read = read_document(&pdf(&pages)).expect("has text");
    assert!(read.text.len() <= TEXT_MAX && read.text.len() > TEXT_MAX / 2, "{}", read.text.len());
    assert_eq!(read.part.as_deref(), Some("text of pages 1 to 53 of 80"));
}

#[test]
fn paragraphs_of_a_text_document_are_lines() {
    let read =
        read_document(&docx(&["Dear Ann,", "1 &lt; 2 &amp; &#233;&unknown;", "</w:t><w:tab/><w:t>end"]));
    assert_eq!(read, whole("Dear Ann,\n1 < 2 & é\n\tend"));
    let twice = "x</w:t></w:r><mc:Fallback><w:r><w:t>twice</w:t></w:r></mc:Fallback><w:r><w:t>y";
    assert_eq!(read_document(&docx(&[twice])), whole("xy"));
    let odt = "<o><t:h>Title</t:h><t:tracked-changes><t:p>gone</t:p></t:tracked-changes>\n\
               <t:p>a<t:s t:c=\"2\"/>b<t:span>c</t:span><t:line-break/>d</t:p></o>";
    assert_eq!(read_document(&archive(&[("content.xml", odt)])), whole("Title\na  bc\nd"));
}

#[test]
fn slides_and_sheets_have_numbers() {
    let slide = |text: &str| format!("<p><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p>");
    let (ten, two) = (slide("the last"), slide("the second"));
    let slides = archive(&[("ppt/slides/slide10.xml", &ten), ("ppt/slides/slide2.xml", &two)]);
    assert_eq!(read_document(&slides), whole("[slide 2]\nthe second\n\n[slide 10]\nthe last"));
    let strings =
        "<sst><si><t>name</t></si><si><r><t>A</t></r><r><t>nn</t></r><rPh><t>no</t></rPh></si></sst>";
    let sheet = "<w><row><c r=\"A1\" t=\"s\"><v>0</v></c><c r=\"C1\"><v>7.5</v></c></row>\
                 <row><c r=\"A2\" t=\"s\"><v>1</v></c><c r=\"B2\" t=\"inlineStr\"><is><t>in</t></is></c>\
                 <c r=\"C2\" t=\"s\"><v>99</v></c></row></w>";
    let book = archive(&[("xl/sharedStrings.xml", strings), ("xl/worksheets/sheet1.xml", sheet)]);
    assert_eq!(read_document(&book), whole("[sheet 1]\nname\t\t7.5\nAnn\tin"));
}

#[test]
fn an_archive_unpacks_to_no_more_than_its_room() {
    let long = format!("start{}", " ".repeat(64 << 20));
    let read = read_document(&docx(&[&long])).expect("has its beginning");
    assert_eq!((read.text.as_str(), read.part.as_deref()), ("start", Some("beginning only")));
    let cell = "<row><c t=\"s\"><v>0</v></c></row>".repeat(10_000);
    let strings = format!("<sst><si><t>{}</t></si></sst>", "b".repeat(1 << 20));
    let book = archive(&[("xl/sharedStrings.xml", &strings), ("xl/worksheets/sheet1.xml", &cell)]);
    let read = read_document(&book).expect("has its beginning");
    assert!(read.text.len() <= TEXT_MAX && read.part.is_some(), "{}", read.text.len());
}

#[test]
fn depth_takes_no_stack() {
    let deep = format!("{}deep{}", "<w:x>".repeat(500_000), "</w:x>".repeat(500_000));
    assert_eq!(read_document(&docx(&[&deep])), whole("deep"));
}

#[tokio::test]
async fn the_reason_stands_behind_the_name() {
    let file = |name| Attachment { name, media_type: None, size: None };
    let shown = |part: Part| match part {
        Part::File { name, text, .. } => (name, text),
        part => panic!("{part:?}"),
    };
    let read = shown(file("a.pdf").read("net", &AttachLimits::default(), Ok(pdf(&["hello"]))).await);
    assert_eq!(read, ("a.pdf".to_owned(), Some("hello".to_owned())));
    let (name, text) =
        shown(file("a.pdf").read("net", &AttachLimits::default(), Ok(pdf_encrypted("hello"))).await);
    assert!(name.ends_with("bytes, encrypted, no text could be read from it)") && text.is_none(), "{name}");
    let (name, text) = shown(file("a.odt").read("net", &AttachLimits::default(), Ok(b"junk".to_vec())).await);
    assert_eq!((name.as_str(), text), ("a.odt (4 bytes, no text could be read from it)", None));
    let (name, _) = shown(file("a.pdf").read("net", &AttachLimits::default(), Err(Unread::TooLarge)).await);
    assert_eq!(name, "a.pdf (too large to be read)");
}
