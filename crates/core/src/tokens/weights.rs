//! The weights of the units, in thousandths of a token of o200k.
//!
//! `measure fit` (testkit) prints such a table: least relative error over texts written for it in some thirty
//! languages, source code, JSON, base64 and file listings.

use super::units::{UNITS, Unit};

/// What each unit weighs.
pub(super) const MILLI_TOKENS: [i32; UNITS] = by_unit(&[
    (Unit::Word, 900),
    (Unit::WordOver4, 80),
    (Unit::WordOver8, 80),
    (Unit::Bare, 150),
    (Unit::Marked, 200),
    (Unit::Capital, 150),
    (Unit::Clump, 200),
    (Unit::CodeWord, 900),
    (Unit::CodeLetter, 150),
    (Unit::AccentWord, 900),
    (Unit::AccentAscii, 150),
    (Unit::Accent, 400),
    (Unit::Digits, 1000),
    (Unit::Punct, 1000),
    (Unit::PunctMore, 300),
    (Unit::PunctSame, 50),
    (Unit::Space, 1000),
    (Unit::Indent, 1000),
    (Unit::Lines, 1000),
    (Unit::PunctLines, 300),
    (Unit::White, 10),
    (Unit::Control, 1000),
    (Unit::OtherWord, 500),
    (Unit::Greek, 420),
    (Unit::Cyrillic, 340),
    (Unit::Armenian, 310),
    (Unit::Hebrew, 460),
    (Unit::Arabic, 390),
    (Unit::Indic, 390),
    (Unit::Thai, 430),
    (Unit::Lao, 1660),
    (Unit::Georgian, 390),
    (Unit::Ethiopic, 2020),
    (Unit::Khmer, 640),
    (Unit::Hiragana, 750),
    (Unit::Katakana, 800),
    (Unit::Han, 750),
    (Unit::Kanji, 950),
    (Unit::Hangul, 750),
    (Unit::WidePunct, 800),
    (Unit::Typographic, 900),
    (Unit::Symbol, 1200),
    (Unit::Emoji, 1840),
    (Unit::Joiner, 1000),
    (Unit::Astral, 2500),
    (Unit::Other, 1500),
]);

/// Puts the weights in the order of the units.
const fn by_unit(table: &[(Unit, i32); UNITS]) -> [i32; UNITS] {
    let mut weights = [0; UNITS];
    let mut row = 0;
    while row < UNITS {
        weights[table[row].0 as usize] = table[row].1;
        row += 1;
    }
    weights
}
