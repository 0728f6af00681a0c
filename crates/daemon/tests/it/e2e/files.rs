//! The process that reads documents.

use cairn_testkit::documents::{docx, pdf, pdf_of_many_objects};
use serde_json::json;

use crate::home;

#[test]
fn a_document_is_read_and_one_that_needs_too_much_memory_ends_its_reader_alone() {
    let home = home();
    for document in [pdf(&["Invoice 4711"]), docx(&["Invoice 4711"])] {
        let read = home.cairn_with(&["read-document"], &document).ended(0);
        assert_eq!(read.json(), json!({ "Ok": { "text": "Invoice 4711", "part": null } }));
    }
    let hostile = pdf_of_many_objects();
    assert!(hostile.len() < 10_000, "{}", hostile.len());
    let run = home.cairn_with(&["read-document"], &hostile);
    assert!(run.code != 0 && run.stdout.is_empty(), "{run:?}");
}
