//! The scanner: one pass over a text that cuts it where a tokenizer does and counts the units.
//!
//! The cuts are those of o200k: a word takes the space or the one mark before it along, a capital after a small
//! letter begins a new word, digits go in threes, punctuation takes the line breaks behind it along.

use super::script::{Class, class_of, is_common, is_not_russian, is_traditional, letter_number, odd_end};
use super::units::{Counts, Unit};

/// Strings at least this long are looked at for being code (base64, hashes, ids).
const CHAIN_MIN: u32 = 10;

/// The longest runs of one mark, of blanks and of line breaks that are one token.
const RULE: u32 = 64;
const MANY_BLANKS: u32 = 100;
const MANY_LINES: u32 = 16;

pub fn count(text: &str) -> Counts {
    let mut scan = Scan::default();
    for c in text.chars() {
        scan.take(c);
    }
    scan.finish()
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Run {
    #[default]
    Start,
    Word,
    Digits,
    Punct,
    White,
    Signs,
}

#[derive(Debug, Clone, Copy, Default)]
struct Word {
    ascii: u32,
    after_lower: bool,
    marked: bool,
    accents: u32,
    others: u32,
    han: u32,
    traditional: u32,
    kana: bool,
    odd: u32,
    /// The letter before, 0 to 25.
    letter: Option<u8>,
}

/// The current string without gaps: letters, digits and what base64 adds to them. The counts of its words are kept, to be
/// subtracted if it turns out to be code.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    len: u32,
    switches: u32,
    last: Option<Class>,
    letters: u32,
    counted: [u32; TAKEN_BACK.len()],
}

/// The units of words, which are subtracted again for code.
const TAKEN_BACK: [Unit; 4] = [Unit::Word, Unit::WordOver4, Unit::Marked, Unit::OddPair];

#[derive(Debug)]
struct Scan {
    counts: Counts,
    run: Run,
    word: Word,
    chain: Chain,
    /// Characters of the run: digits, marks, or white space up to its last line break.
    len: u32,
    /// White space after the last line break.
    blanks: u32,
    /// The run of punctuation had a space before it.
    spaced: bool,
    /// The run of white space began with a line break right after punctuation.
    after_punct: bool,
    last: char,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            counts: Counts::NONE,
            run: Run::Start,
            word: Word::default(),
            chain: Chain::default(),
            len: 0,
            blanks: 0,
            spaced: false,
            after_punct: false,
            last: '\0',
        }
    }
}

impl Scan {
    fn take(&mut self, c: char) {
        let class = class_of(c);
        match class {
            Class::Lower | Class::Upper | Class::Letter(_) => self.letter(c, class),
            Class::Digit => self.digit(),
            Class::Blank | Class::Line => self.white(class),
            Class::Punct => self.punct(c),
            Class::Sign(unit) => {
                self.end_run(Run::Signs);
                self.counts.add(unit, 1);
            }
        }
        self.link(c, class);
        self.last = c;
    }

    fn finish(mut self) -> Counts {
        self.end_run(Run::Start);
        self.end_chain();
        self.counts
    }

    fn letter(&mut self, c: char, class: Class) {
        if self.run != Run::Word {
            let marked = self.run == Run::Punct && self.len == 1 && !self.spaced;
            self.end_run(Run::Word);
            self.word = Word { marked, ..Word::default() };
        } else if class == Class::Upper && self.word.after_lower {
            self.end_word();
            self.word = Word::default();
        }
        let word = &mut self.word;
        word.after_lower = class == Class::Lower;
        match class {
            Class::Letter(Unit::Accent) => {
                word.accents += 1;
                self.counts.add(Unit::Accent, 1);
            }
            Class::Letter(Unit::Han) => {
                word.others += 1;
                word.han += 1;
                word.traditional += u32::from(is_traditional(c));
            }
            Class::Letter(unit) => {
                word.others += 1;
                if unit == Unit::Cyrillic && is_not_russian(c) {
                    self.counts.add(Unit::NotRussian, 1);
                }
                word.kana |= matches!(unit, Unit::Hiragana | Unit::Katakana);
                self.counts.add(unit, 1);
            }
            _ => {
                word.ascii += 1;
                let letter = letter_number(c);
                word.odd += u32::from(word.letter.is_some_and(|before| !is_common(before, letter)));
                word.letter = Some(letter);
            }
        }
    }

    fn digit(&mut self) {
        if self.run != Run::Digits {
            let spaced = self.run == Run::White && self.blanks > 0;
            self.end_run(Run::Digits);
            if spaced {
                self.counts.add(Unit::Space, 1);
            }
        }
        if self.len.is_multiple_of(3) {
            self.counts.add(Unit::Digits, 1);
        }
        self.len += 1;
    }

    fn white(&mut self, class: Class) {
        if self.run != Run::White {
            let after_punct = self.run == Run::Punct && class == Class::Line;
            self.end_run(Run::White);
            self.after_punct = after_punct;
        }
        if class == Class::Line {
            self.len += self.blanks + 1;
            self.blanks = 0;
        } else {
            self.blanks += 1;
        }
    }

    fn punct(&mut self, c: char) {
        if self.run == Run::Punct {
            if c != self.last {
                self.counts.add(Unit::PunctMore, 1);
            } else if self.len.is_multiple_of(RULE) {
                self.counts.add(Unit::PunctSame, 1);
            }
        } else {
            let spaced = self.run == Run::White && self.blanks > 0;
            self.end_run(Run::Punct);
            self.spaced = spaced;
        }
        self.len += 1;
    }

    /// Ends the run under way, if the next one is another, and counts what it was.
    fn end_run(&mut self, next: Run) {
        match self.run {
            Run::Word => self.end_word(),
            Run::White => self.end_white(next),
            // A single mark before a word belongs to the word.
            Run::Punct if next == Run::Word && self.len == 1 && !self.spaced => {}
            Run::Punct => self.counts.add(Unit::Punct, 1),
            Run::Start | Run::Digits | Run::Signs => {}
        }
        self.run = next;
        self.len = 0;
        self.blanks = 0;
    }

    fn end_white(&mut self, next: Run) {
        if self.len > 0 {
            let unit = if self.after_punct { Unit::PunctLines } else { Unit::Lines };
            self.counts.add(unit, 1);
            self.counts.add(Unit::White, self.len / MANY_LINES);
        }
        // The last blank goes with what follows; before a digit it stands alone.
        let alone = if next == Run::Start { self.blanks } else { self.blanks.saturating_sub(1) };
        if alone > 0 {
            self.counts.add(Unit::Indent, 1);
            self.counts.add(Unit::White, alone / MANY_BLANKS);
        }
    }

    fn end_word(&mut self) {
        let word = self.word;
        if word.han > 0 && word.kana {
            self.counts.add(Unit::Kanji, word.han);
        } else if word.han > 0 {
            self.counts.add(Unit::Han, word.han);
            self.counts.add(Unit::Traditional, word.traditional);
        }
        if word.others > 0 {
            self.counts.add(Unit::OtherWord, 1);
            self.counts.add(Unit::AccentAscii, word.ascii);
        } else if word.accents > 0 {
            self.counts.add(Unit::AccentWord, 1);
            self.counts.add(Unit::AccentAscii, word.ascii);
        } else {
            let numbers = [
                1,
                word.ascii.saturating_sub(4),
                u32::from(word.marked),
                word.odd + word.letter.map_or(0, odd_end),
            ];
            for (slot, (unit, n)) in TAKEN_BACK.into_iter().zip(numbers).enumerate() {
                self.counts.add(unit, n);
                self.chain.counted[slot] += n;
            }
            self.chain.letters += word.ascii;
        }
    }

    /// Lengthens the chain, or ends it.
    fn link(&mut self, c: char, class: Class) {
        let joins = match class {
            Class::Lower | Class::Upper | Class::Digit => true,
            Class::Punct => matches!(c, '+' | '/' | '=' | '-' | '_'),
            Class::Blank | Class::Line | Class::Letter(_) | Class::Sign(_) => false,
        };
        if !joins {
            self.end_chain();
            return;
        }
        let chain = &mut self.chain;
        chain.len += 1;
        let switched = matches!(
            (chain.last, class),
            (Some(Class::Lower), Class::Upper)
                | (Some(Class::Digit), Class::Lower | Class::Upper)
                | (Some(Class::Lower | Class::Upper), Class::Digit)
        );
        chain.switches += u32::from(switched);
        chain.last = Some(class);
    }

    fn end_chain(&mut self) {
        let chain = std::mem::take(&mut self.chain);
        if chain.len < CHAIN_MIN || chain.switches * 4 < chain.len {
            return;
        }
        for (unit, n) in TAKEN_BACK.into_iter().zip(chain.counted) {
            self.counts.sub(unit, n);
        }
        self.counts.add(Unit::CodeWord, chain.counted[0]);
        self.counts.add(Unit::CodeLetter, chain.letters);
    }
}
