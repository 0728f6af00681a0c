//! Documents for tests: small PDFs by hand (ISO 32000-1, 7.5), archives of XML, and hostile ones of both.

use std::io::Write as _;

use flate2::write::{DeflateEncoder, ZlibEncoder};
use flate2::{Compression, Crc};

/// A PDF from its objects, the first of which is the catalogue. `trailer`: more keys of it.
pub fn pdf_of(objects: &[Vec<u8>], trailer: &str) -> Vec<u8> {
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        offsets.push(out.len());
        out.extend_from_slice(format!("{} 0 obj\n", n + 1).as_bytes());
        out.extend_from_slice(object);
        out.extend_from_slice(b"\nendobj\n");
    }
    let (xref, size) = (out.len(), objects.len() + 1);
    out.extend_from_slice(format!("xref\n0 {size}\n0000000000 65535 f \n").as_bytes());
    for offset in offsets {
        out.extend_from_slice(format!("{offset:010} 00000 n \n").as_bytes());
    }
    let end = format!("trailer\n<</Size {size}/Root 1 0 R{trailer}>>\nstartxref\n{xref}\n%%EOF\n");
    out.extend_from_slice(end.as_bytes());
    out
}

/// A stream, packed.
pub fn pdf_stream(content: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::best());
    packer.write_all(content).expect("memory takes it");
    let packed = packer.finish().expect("memory takes it");
    let head = format!("<</Filter/FlateDecode/Length {}>>\nstream\n", packed.len());
    [head.as_bytes(), &packed, b"\nendstream"].concat()
}

/// The objects of a PDF with pages of such contents, as operators; their font is `/F1`. `font`: its keys.
pub fn pdf_pages(contents: &[Vec<u8>], font: &str) -> Vec<Vec<u8>> {
    let kids: Vec<String> = (0..contents.len()).map(|n| format!("{} 0 R", 4 + 2 * n)).collect();
    let mut objects = vec![
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        format!("<</Type/Pages/Kids[{}]/Count {}>>", kids.join(" "), kids.len()).into_bytes(),
        format!("<</Type/Font{font}>>").into_bytes(),
    ];
    for (n, content) in contents.iter().enumerate() {
        let resources = "/Resources<</Font<</F1 3 0 R>>>>";
        let page = format!("<</Type/Page/Parent 2 0 R{resources}/Contents {} 0 R>>", 5 + 2 * n);
        objects.extend([page.into_bytes(), pdf_stream(content)]);
    }
    objects
}

const HELVETICA: &str = "/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding";

fn shown(text: &str) -> Vec<u8> {
    let lines: Vec<String> = text.lines().map(|line| format!("({line}) Tj T*")).collect();
    format!("BT /F1 12 Tf 14 TL {} ET", lines.join(" ")).into_bytes()
}

/// A PDF that shows these texts, one on each page. Without brackets and backslashes in them.
pub fn pdf(pages: &[&str]) -> Vec<u8> {
    let contents: Vec<Vec<u8>> = pages.iter().map(|text| shown(text)).collect();
    pdf_of(&pdf_pages(&contents, HELVETICA), "")
}

/// A PDF whose second of two pages unpacks to so many bytes.
pub fn pdf_bomb(text: &str, bytes: usize) -> Vec<u8> {
    pdf_of(&pdf_pages(&[shown(text), b"q Q ".repeat(bytes / 4)], HELVETICA), "")
}

/// A PDF with a stream of objects, each of which is the same large array: a small file that fills 2 GB once it is parsed.
pub fn pdf_of_many_objects() -> Vec<u8> {
    const OBJECTS: usize = 64;
    let index: String = (0..OBJECTS).map(|n| format!("{} 0 ", 10 + n)).collect();
    let content = format!("{index}[{}]", "0 ".repeat(250_000));
    let mut stream = pdf_stream(content.as_bytes());
    let keys = format!("<</Type/ObjStm/N {OBJECTS}/First {}", index.len());
    stream.splice(..2, keys.into_bytes());
    let mut objects = pdf_pages(&[shown("Invoice 4711")], HELVETICA);
    objects.push(stream);
    pdf_of(&objects, "")
}

/// A PDF that nobody can read without its password.
pub fn pdf_encrypted(text: &str) -> Vec<u8> {
    let mut objects = pdf_pages(&[shown(text)], HELVETICA);
    let secret = "00".repeat(32);
    objects.push(format!("<</Filter/Standard/V 1/R 2/O<{secret}>/U<{secret}>/P -4>>").into_bytes());
    let trailer = format!("/Encrypt {} 0 R/ID[<00><00>]", objects.len());
    pdf_of(&objects, &trailer)
}

/// A PDF whose pages are among themselves.
pub fn pdf_circular() -> Vec<u8> {
    let pages = b"<</Type/Pages/Kids[2 0 R 2 0 R 3 0 R]/Count 9>>".to_vec();
    let more = b"<</Type/Pages/Kids[2 0 R 3 0 R]/Parent 3 0 R/Count 9>>".to_vec();
    pdf_of(&[b"<</Type/Catalog/Pages 2 0 R>>".to_vec(), pages, more], "")
}

/// A PDF in a font of numbers that says nothing of its characters.
pub fn pdf_of_unknown_font() -> Vec<u8> {
    let content = b"BT /F1 12 Tf <0001000200030004> Tj ET".to_vec();
    pdf_of(&pdf_pages(&[content], "/Subtype/Type0/BaseFont/Own/Encoding/Identity-H"), "")
}

/// A ZIP archive of files (APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16).
///
/// # Panics
/// A file is too large for the form.
pub fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let (mut out, mut central) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
        packer.write_all(content.as_bytes()).expect("memory takes it");
        let packed = packer.finish().expect("memory takes it");
        let mut crc = Crc::new();
        crc.update(content.as_bytes());
        let size = |n: usize| u32::try_from(n).expect("is not too large").to_le_bytes();
        // Version 2.0, no flags, deflated, no time; checksum, sizes, the length of the name, nothing extra.
        let mut head = [20, 0, 0, 0, 8, 0, 0, 0, 0, 0].to_vec();
        head.extend([crc.sum().to_le_bytes(), size(packed.len()), size(content.len())].concat());
        head.extend([name.len() as u8, 0, 0, 0]);
        central.extend_from_slice(b"PK\x01\x02\x14\0");
        central.extend_from_slice(&head);
        central.extend_from_slice(&[0; 10]);
        central.extend_from_slice(&size(out.len()));
        central.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"PK\x03\x04");
        out.extend_from_slice(&head);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&packed);
    }
    let (at, n) = (out.len() as u32, files.len() as u8);
    out.extend_from_slice(&central);
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&[n, 0, n, 0]);
    out.extend([(central.len() as u32).to_le_bytes(), at.to_le_bytes()].concat());
    out.extend_from_slice(&[0, 0]);
    out
}

/// A text document of Office Open XML with these paragraphs, as XML.
pub fn docx(paragraphs: &[&str]) -> Vec<u8> {
    let body: String =
        paragraphs.iter().map(|text| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")).collect();
    let xml =
        format!("<?xml version=\"1.0\"?><w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>");
    archive(&[("[Content_Types].xml", "<Types/>"), ("word/document.xml", &xml)])
}
