//! Words as they are measured, cut, extracted and escaped.

use cairn_core::digest::digest_texts;
use cairn_types::ids::{AgentId, ChannelId};
use cairn_types::text::sentences::sentences;
use cairn_types::tokens::estimate;

use crate::lossy;

/// An extract keeps within its budget.
pub fn digest(data: &[u8]) {
    let Some((budget, text)) = data.split_first() else { return };
    let text = lossy(text);
    let budget = u32::from(*budget) * 4;
    let texts: Vec<&str> = text.split('\0').collect();
    let extract = digest_texts(&texts, budget);
    assert!(estimate(&extract) <= budget, "{} tokens of {budget}", estimate(&extract));
    assert!(extract.len() <= 2 * text.len() + 100, "more is said than there was");
}

/// Estimates grow with the text; sentences are the text; names are names.
pub fn words(data: &[u8]) {
    let text = lossy(data);
    let tokens = estimate(&text);
    assert_eq!(tokens == 0, text.is_empty(), "{tokens} tokens of {} bytes", text.len());
    assert!(tokens as usize <= 2 * text.len() + 1, "{tokens} tokens of {} bytes", text.len());
    let half = &text[..text.floor_char_boundary(text.len() / 2)];
    assert!(estimate(half) <= tokens + 8, "{} tokens of a half, {tokens} of all", estimate(half));
    let said: String = sentences(&text).flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
    let all: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert_eq!(said, all, "sentences lose words");
    let agent = AgentId::new("main");
    if let Ok(channel) = ChannelId::resolve(&text, &agent) {
        assert_eq!(channel.as_str().parse::<ChannelId>().as_ref(), Ok(&channel), "a name is another channel");
        assert!(!channel.as_str().chars().any(|c| c.is_whitespace() || c.is_control()));
    }
}
