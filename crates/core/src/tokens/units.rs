//! What a text is made of, as a tokenizer sees it: words, groups of digits, runs of punctuation and white space,
//! letters by script. Tokens never cross these units, so that a weighted sum of them follows the token count.

pub const UNITS: usize = Unit::Other as usize + 1;

/// A countable trait of a text. A weight in tokens belongs to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Unit {
    /// A word of ASCII letters; a capital inside one begins the next, as in `camelCase`.
    Word,
    WordOver4,
    /// A word with one punctuation mark right before it, as in `.name`.
    Marked,
    /// Two letters in a row, or a last letter, that are unusual in English words.
    OddPair,
    /// A word in a string of mixed case and digits, such as base64.
    CodeWord,
    CodeLetter,
    /// A word with letters beyond ASCII.
    AccentWord,
    AccentAscii,
    /// Accented and other Latin letters.
    Accent,
    Digits,
    Punct,
    PunctMore,
    /// Every 64 marks of a rule, where each repeats the one before.
    PunctSame,
    /// A space of its own: before a digit.
    Space,
    /// A run of spaces or tabs before something.
    Indent,
    /// Line breaks, with the white space before them.
    Lines,
    /// Line breaks right after punctuation, mostly one token with it.
    PunctLines,
    /// Every 100 blanks or 16 line breaks of a long run.
    White,
    /// Control characters.
    Control,
    /// A word of a script beyond Latin.
    OtherWord,
    Greek,
    Cyrillic,
    /// Those that Russian does without, on top: words of its neighbours are rarer in vocabularies.
    NotRussian,
    Armenian,
    Hebrew,
    Arabic,
    /// Letters and signs of the Indian scripts.
    Indic,
    Thai,
    Lao,
    Georgian,
    Ethiopic,
    Khmer,
    Hiragana,
    Katakana,
    /// Han characters among themselves, as in Chinese.
    Han,
    /// Frequent Han characters of the traditional form, on top.
    Traditional,
    /// Han characters in a run with kana, as in Japanese.
    Kanji,
    Hangul,
    /// Chinese and Japanese punctuation and full-width forms.
    WidePunct,
    /// General punctuation: dashes, curly quotes, ellipsis.
    Typographic,
    /// Arrows, box drawing, mathematical and other symbols.
    Symbol,
    Emoji,
    /// Joiners, variation selectors, skin tones.
    Joiner,
    /// Han beyond the basic plane, ancient scripts, and the like.
    Astral,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts(pub [u32; UNITS]);

impl Counts {
    pub(super) const NONE: Self = Self([0; UNITS]);

    pub(super) fn sub(&mut self, unit: Unit, n: u32) {
        let slot = &mut self.0[unit as usize];
        *slot = slot.saturating_sub(n);
    }

    pub(super) fn add(&mut self, unit: Unit, n: u32) {
        let slot = &mut self.0[unit as usize];
        *slot = slot.saturating_add(n);
    }

    pub(super) fn weigh(&self, weights: &[i32; UNITS]) -> u64 {
        let sum: i64 = self.0.iter().zip(weights).map(|(n, weight)| i64::from(*n) * i64::from(*weight)).sum();
        u64::try_from(sum).unwrap_or(0)
    }
}
