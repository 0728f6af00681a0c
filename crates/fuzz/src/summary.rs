//! What models answer when they summarise: sections, memories as JSON in prose.

use cairn_core::compaction::identifiers::extract;
use cairn_core::compaction::sections::{Sections, carried_on};
use cairn_core::compaction::{SummaryFault, SummarySource, mend, parse_memory, review, split_memories};

use crate::lossy;

/// The list of memories is cut off and read; the sections render as they were read.
pub fn summary(data: &[u8]) {
    let text = lossy(data);
    let (words, memories) = split_memories(&text);
    assert!(text.starts_with(&words), "a summary that was not said");
    for memory in &memories {
        let n_chars = memory.text.chars().count();
        assert!((1..=2_000).contains(&n_chars) && memory.text.trim() == memory.text, "{:?}", memory.text);
        assert!((0.0..=1.0).contains(&memory.importance), "{}", memory.importance);
    }
    // Line ends of either kind are one.
    let rendered = Sections::parse(&words.replace('\r', "")).render();
    assert_eq!(Sections::parse(&rendered).render(), rendered, "read again it is another summary");
    let (before, after) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let carried = carried_on(Some(before), after);
    assert!(carried.len() <= 4 * text.len() + 1_000, "{} bytes of {}", carried.len(), text.len());
    mended(before, after);
    if let Ok(arguments) = serde_json::from_str(&text)
        && let Err(why) = parse_memory(&arguments)
    {
        assert!(!why.is_empty() && why.len() <= text.len() + 200);
    }
}

/// What is mended invents nothing; identifiers are words of the text.
fn mended(source: &str, text: &str) {
    for (_, identifier) in extract(text) {
        assert!(text.contains(identifier), "{identifier} is not in {text:?}");
    }
    let source = SummarySource::of_summaries(&[], [source]);
    if let Ok(mended) = mend(text, &source) {
        let faults = review(&mended, &source);
        let invents = faults.iter().any(|fault| matches!(fault, SummaryFault::Invented(_)));
        assert!(!invents, "mended, it still invents: {faults:?} in {mended:?}, of {text:?}");
    }
}
