//! Exact token counts, for models whose tokenizer is known. Its tables take some 50 MB: they are loaded with the first
//! count, never for an estimate.

use std::str::FromStr;

use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton};

/// Longest piece that is handed over at once, in bytes: on longer runs of one character the pattern search gives up
/// with a panic, and the merging of pairs takes more than linear time.
const PIECE_BYTES: usize = 64 << 10;

/// A known tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Of GPT-4o and later.
    O200k,
    /// Of GPT-4 and GPT-3.5.
    Cl100k,
}

/// A name that is no tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tokenizer; the tokenizers are `o200k` and `cl100k`")]
pub struct UnknownEncoding(pub String);

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(name: &str) -> Result<Self, UnknownEncoding> {
        match name {
            "o200k" => Ok(Self::O200k),
            "cl100k" => Ok(Self::Cl100k),
            _ => Err(UnknownEncoding(name.chars().take(80).collect())),
        }
    }
}

/// Counts tokens exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokenizer {
    encoding: Encoding,
}

impl Tokenizer {
    /// A counter; loads nothing yet.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }

    /// Tokens of a text, special tokens counted as the words they are. Exact up to 64 KiB; in longer texts each seam
    /// that falls into a run without any gap may add one or two.
    pub fn count(&self, text: &str) -> u64 {
        let table = self.table();
        pieces(text).map(|piece| table.encode_ordinary(piece).len() as u64).sum()
    }

    fn table(&self) -> &'static CoreBPE {
        match self.encoding {
            Encoding::O200k => o200k_base_singleton(),
            Encoding::Cl100k => cl100k_base_singleton(),
        }
    }
}

/// Cuts a text into pieces at places where the tokenizer cuts words anyway, so far as there are any: between a letter
/// and a space before a letter, or between a line break and a letter.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(seam(rest));
        rest = after;
        Some(piece)
    })
}

fn seam(text: &str) -> usize {
    if text.len() <= PIECE_BYTES {
        return text.len();
    }
    let mut end = PIECE_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut chars = text[..end].char_indices().rev();
    let (mut after, mut at) = match chars.next() {
        Some((idx, c)) => (c, (idx, c)),
        None => return text.len(),
    };
    for (idx, c) in chars {
        let (cut, here) = at;
        if (here == ' ' && after.is_alphabetic() && c.is_alphabetic()) || (c == '\n' && here.is_alphabetic())
        {
            return cut;
        }
        (after, at) = (here, (idx, c));
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seams_do_not_change_the_count_of_prose() {
        let sentence = "It's 3.5 km to Łódź, isn't it?\nThe café -- closed -- opens at 10:30 (maybe)\r\n  #tag\t{\"a\": 1}\n\n";
        let text = sentence.repeat(3 * PIECE_BYTES / sentence.len());
        for encoding in [Encoding::O200k, Encoding::Cl100k] {
            let tokenizer = Tokenizer::new(encoding);
            let whole = tokenizer.table().encode_ordinary(&text).len() as u64;
            assert_eq!(tokenizer.count(&text), whole, "{encoding:?}");
            assert!(pieces(&text).count() > 2);
        }
    }

    #[test]
    fn runs_of_a_million_signs_are_counted() {
        for (unit, most) in
            [(" ", 10_000), ("a", 130_000), ("-", 16_000), ("\n", 63_000), ("\u{1F980}", 3_000_000)]
        {
            let text = unit.repeat(1_000_000);
            let n_tokens = Tokenizer::new(Encoding::O200k).count(&text);
            assert!((1_000..=most).contains(&n_tokens), "{unit:?}: {n_tokens}");
        }
    }

    #[test]
    fn names_are_read() {
        assert_eq!("o200k".parse(), Ok(Encoding::O200k));
        assert_eq!("gpt2".parse::<Encoding>(), Err(UnknownEncoding("gpt2".to_owned())));
    }
}
