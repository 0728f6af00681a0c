//! Texts as tokens, by the rules of BERT's uncased tokenizer: lowercase without accents, split at spaces and punctuation, and
//! each word cut into the longest pieces that the vocabulary has.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// Characters of a word beyond which it is unknown (`max_input_chars_per_word` of the reference).
const WORD_CHARS: usize = 100;

/// Bytes of a text that are looked at: those of some 256 long words.
const TEXT_BYTES: usize = 16 * 1024;

pub(crate) struct WordPiece {
    pieces: HashMap<String, u32>,
    /// Characters of the longest piece.
    longest: usize,
    start: u32,
    end: u32,
    unknown: u32,
}

impl WordPiece {
    /// The tokenizer of a vocabulary, one piece a line. The name of a piece that it lacks is the error.
    pub(crate) fn new(vocabulary: &str) -> Result<Self, &'static str> {
        let lines = vocabulary.lines().map(str::trim_end).enumerate();
        let pieces: HashMap<String, u32> =
            lines.filter_map(|(idx, piece)| Some((piece.to_owned(), u32::try_from(idx).ok()?))).collect();
        let special = |name| pieces.get(name).copied().ok_or(name);
        let (start, end, unknown) = (special("[CLS]")?, special("[SEP]")?, special("[UNK]")?);
        let longest = pieces.keys().map(|piece| piece.chars().count()).max().unwrap_or_default();
        Ok(Self { pieces, longest, start, end, unknown })
    }

    /// The highest number of a token.
    pub(crate) fn last(&self) -> u32 {
        self.pieces.values().copied().max().unwrap_or_default()
    }

    /// The tokens of a text, at most so many with those of its start and its end.
    pub(crate) fn tokens(&self, text: &str, most: usize) -> Vec<u32> {
        let text = &text[..text.floor_char_boundary(TEXT_BYTES)];
        let most = most.saturating_sub(1);
        let mut tokens = vec![self.start];
        let mut word = Vec::new();
        for c in text.chars().filter(|c| !is_dropped(*c)) {
            let ends_word = c.is_whitespace() || is_ideograph(c) || is_punctuation(c);
            if ends_word {
                self.take(&mut word, &mut tokens);
                if !c.is_whitespace() {
                    word.push(c);
                    self.take(&mut word, &mut tokens);
                }
            } else {
                let plain = std::iter::once(c).nfd().filter(|c| !is_accent(*c));
                for c in plain.flat_map(char::to_lowercase) {
                    word.push(c);
                }
            }
            if tokens.len() >= most {
                break;
            }
        }
        self.take(&mut word, &mut tokens);
        tokens.truncate(most);
        tokens.push(self.end);
        tokens
    }

    /// Takes the pieces of a word: each the longest that is known. A word that cannot be cut so is unknown as a whole.
    fn take(&self, word: &mut Vec<char>, tokens: &mut Vec<u32>) {
        let (before, mut from) = (tokens.len(), 0);
        if word.len() > WORD_CHARS {
            word.clear();
            tokens.push(self.unknown);
        }
        while from < word.len() {
            let longest = word.len().min(from + self.longest);
            let piece = |to: usize| {
                let inside = if from > 0 { "##" } else { "" };
                let piece: String = inside.chars().chain(word[from..to].iter().copied()).collect();
                self.pieces.get(&piece).map(|token| (to, *token))
            };
            let Some((to, token)) = (from + 1..=longest).rev().find_map(piece) else {
                tokens.truncate(before);
                tokens.push(self.unknown);
                break;
            };
            tokens.push(token);
            from = to;
        }
        word.clear();
    }
}

/// Control characters are dropped; those that are spaces are no control characters here.
fn is_dropped(c: char) -> bool {
    let is_space = matches!(c, '\t' | '\n' | '\r');
    c == '\u{fffd}' || !is_space && c.general_category_group() == GeneralCategoryGroup::Other
}

fn is_accent(c: char) -> bool {
    c.general_category() == GeneralCategory::NonspacingMark
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// The ranges of the reference: characters of Chinese writing are words of their own.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x2_0000..=0x2_A6DF | 0x2_A700..=0x2_B73F
        | 0x2_B740..=0x2_B81F | 0x2_B820..=0x2_CEAF | 0xF900..=0xFAFF | 0x2_F800..=0x2_FA1F)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: &str =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\ncafe\n##s\nun\n##aff\n##able\n,\n!\n世\n界\n\u{e4}";

    fn words(text: &str, most: usize) -> Vec<&'static str> {
        let names: Vec<&str> = VOCABULARY.lines().collect();
        let tokens = WordPiece::new(VOCABULARY).unwrap().tokens(text, most);
        tokens.into_iter().map(|token| names[token as usize]).collect()
    }

    /// The rules are those of `BertTokenizer` of the library transformers (`tokenization_bert.py`), whose own tests have
    /// "unaffable" and the ideographs.
    #[test]
    fn texts_are_cut_by_the_rules_of_bert() {
        let long = "a".repeat(WORD_CHARS + 1);
        let cases = [
            ("", "[CLS] [SEP]"),
            ("The CAFÉS", "[CLS] the cafe ##s [SEP]"),
            ("unaffable,the!", "[CLS] un ##aff ##able , the ! [SEP]"),
            ("unaffabl the", "[CLS] [UNK] the [SEP]"),
            ("the世界the", "[CLS] the 世 界 the [SEP]"),
            ("t\u{0}h\u{200b}e\u{fffd}\tthe\r\n\u{a0}the", "[CLS] the the the [SEP]"),
            // A letter with its accent is the letter alone, also where the vocabulary has it with it.
            ("ä", "[CLS] [UNK] [SEP]"),
            (&format!("{long} the"), "[CLS] [UNK] the [SEP]"),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text, 99).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn a_long_text_is_cut_to_so_many_tokens() {
        assert_eq!(words(&"the ".repeat(500), 5), ["[CLS]", "the", "the", "the", "[SEP]"]);
        assert_eq!(words("unaffable", 3), ["[CLS]", "un", "[SEP]"]);
        // Only its beginning is looked at, however long it is.
        assert_eq!(words(&format!("{}the", " ".repeat(TEXT_BYTES)), 9), ["[CLS]", "[SEP]"]);
    }

    #[test]
    fn a_vocabulary_without_the_special_pieces_is_none() {
        assert_eq!(WordPiece::new("the\n[UNK]\n[CLS]").err(), Some("[SEP]"));
    }
}
