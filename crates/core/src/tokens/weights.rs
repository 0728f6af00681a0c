//! The weights of the units, in thousandths of a token of o200k.
//!
//! `measure fit` (testkit) prints such a table: least relative error over texts written for it in some thirty
//! languages, source code, JSON, base64 and file listings.

use super::units::{UNITS, Unit};

/// What each unit weighs, in the order of the units.
const TABLE: [(Unit, i32); UNITS] = [
    (Unit::Word, 575),
    (Unit::WordOver4, 208),
    (Unit::Marked, 98),
    (Unit::OddPair, 414),
    (Unit::CodeWord, 466),
    (Unit::CodeLetter, 490),
    (Unit::AccentWord, 323),
    (Unit::AccentAscii, 396),
    (Unit::Accent, 161),
    (Unit::Digits, 909),
    (Unit::Punct, 1263),
    (Unit::PunctMore, 57),
    (Unit::PunctSame, 1000),
    (Unit::Space, 1522),
    (Unit::Indent, 685),
    (Unit::Lines, 948),
    (Unit::PunctLines, 61),
    (Unit::White, 1000),
    (Unit::Control, 1000),
    (Unit::OtherWord, 146),
    (Unit::Greek, 401),
    (Unit::Cyrillic, 270),
    (Unit::NotRussian, 1299),
    (Unit::Armenian, 310),
    (Unit::Hebrew, 389),
    (Unit::Arabic, 352),
    (Unit::Indic, 328),
    (Unit::Thai, 420),
    (Unit::Lao, 1660),
    (Unit::Georgian, 326),
    (Unit::Ethiopic, 2020),
    (Unit::Khmer, 640),
    (Unit::Hiragana, 617),
    (Unit::Katakana, 772),
    (Unit::Han, 746),
    (Unit::Traditional, 1350),
    (Unit::Kanji, 888),
    (Unit::Hangul, 724),
    (Unit::WidePunct, 834),
    (Unit::Typographic, 1480),
    (Unit::Symbol, 588),
    (Unit::Emoji, 2327),
    (Unit::Joiner, 907),
    (Unit::Astral, 2500),
    (Unit::Other, 1500),
];

pub(super) const MILLI_TOKENS: [i32; UNITS] = by_unit(&TABLE);

/// Each unit with its weight in thousandths of a token, in their order.
pub fn weights() -> [(Unit, i32); UNITS] {
    TABLE
}

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
