//! Classes of characters, by script beyond ASCII, and pairs of letters that are common in English: tokens are long there,
//! and short elsewhere.

use super::units::Unit;

/// What a character is, to the scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Lower,
    Upper,
    Digit,
    Blank,
    Line,
    Punct,
    Letter(Unit),
    /// A sign that is neither letter nor ASCII.
    Sign(Unit),
}

/// The class of a character.
pub(super) fn class_of(c: char) -> Class {
    match c {
        'a'..='z' => Class::Lower,
        'A'..='Z' => Class::Upper,
        '0'..='9' => Class::Digit,
        ' ' | '\t' => Class::Blank,
        '\n' | '\r' => Class::Line,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' => Class::Sign(Unit::Control),
        '!'..='~' => Class::Punct,
        _ => beyond_ascii(c),
    }
}

fn beyond_ascii(c: char) -> Class {
    use Class::{Blank, Letter, Sign};
    match u32::from(c) {
        0xa0 | 0x2000..=0x200a | 0x3000 => Blank,
        0xa1..=0xa9 | 0xab..=0xb4 | 0xb6..=0xb9 | 0xbb..=0xbf | 0xd7 | 0xf7 => Sign(Unit::Typographic),
        0xaa..=0x36f | 0x1e00..=0x1eff => Letter(Unit::Accent),
        0x370..=0x3ff | 0x1f00..=0x1fff => Letter(Unit::Greek),
        0x400..=0x52f => Letter(Unit::Cyrillic),
        0x530..=0x58f => Letter(Unit::Armenian),
        0x590..=0x5ff | 0xfb1d..=0xfb4f => Letter(Unit::Hebrew),
        0x600..=0x6ff | 0x750..=0x77f | 0x8a0..=0x8ff | 0xfb50..=0xfdff | 0xfe70..=0xfefc => {
            Letter(Unit::Arabic)
        }
        0x900..=0xdff => Letter(Unit::Indic),
        0xe00..=0xe7f => Letter(Unit::Thai),
        0xe80..=0xfff => Letter(Unit::Lao),
        0x1000..=0x10ff | 0x1c90..=0x1cbf => Letter(Unit::Georgian),
        0x1200..=0x139f => Letter(Unit::Ethiopic),
        0x1780..=0x17ff => Letter(Unit::Khmer),
        0x200b..=0x200f | 0x2060..=0x206f | 0xfe00..=0xfe0f | 0x1f3fb..=0x1f3ff | 0xfeff => {
            Sign(Unit::Joiner)
        }
        0x2010..=0x205f | 0x20a0..=0x20cf => Sign(Unit::Typographic),
        0x2070..=0x209f | 0x20d0..=0x2bff => Sign(Unit::Symbol),
        0x3001..=0x303f | 0xff01..=0xff0f | 0xff1a..=0xff20 | 0xff3b..=0xff40 | 0xff5b..=0xff65 => {
            Sign(Unit::WidePunct)
        }
        0x3040..=0x309f => Letter(Unit::Hiragana),
        0x30a0..=0x30ff | 0x31f0..=0x31ff | 0xff66..=0xff9f => Letter(Unit::Katakana),
        0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff => Letter(Unit::Han),
        0x1100..=0x11ff | 0x3130..=0x318f | 0xac00..=0xd7af => Letter(Unit::Hangul),
        0x1f000..=0x1faff => Sign(Unit::Emoji),
        0x10000.. => Letter(Unit::Astral),
        _ => Letter(Unit::Other),
    }
}

/// Frequent characters that only the traditional form of Chinese has, sorted.
const TRADITIONAL: [char; 72] = [
    '來', '個', '們', '傳', '價', '兩', '動', '問', '單', '國', '學', '實', '寫', '對', '後', '從', '愛',
    '應', '時', '書', '會', '東', '樣', '氣', '沒', '為', '無', '現', '當', '發', '種', '給', '經', '聽',
    '與', '萬', '處', '裡', '見', '記', '話', '該', '語', '說', '請', '讀', '讓', '買', '賣', '車', '這',
    '進', '運', '過', '達', '遠', '選', '還', '邊', '錄', '錢', '長', '開', '間', '關', '難', '電', '頭',
    '類', '體', '麼', '點',
];

/// The Han character is one of the frequent ones of the traditional form.
pub(super) fn is_traditional(c: char) -> bool {
    TRADITIONAL.binary_search(&c).is_ok()
}

/// The Cyrillic letter is none of Russian.
pub(super) fn is_not_russian(c: char) -> bool {
    !('\u{410}'..='\u{451}').contains(&c) && c != '\u{401}' || c == '\u{450}'
}

/// For each letter the letters that often follow it, as bits from `a`, and the 27th bit if it often ends a word.
/// Counted in the English texts of some 375 packages.
const COMMON: [u32; 26] = [
    0x17ebd4e, // a
    0x1164911, // b
    0x41e4d95, // c
    0x4164119, // d
    0x4efb97f, // e
    0x0124931, // f
    0x4166190, // g
    0x41a4111, // h
    0x2aefc7f, // i
    0x0000000, // j
    0x0040110, // k
    0x51c4919, // l
    0x414d913, // m
    0x53c657d, // n
    0x47efd6e, // o
    0x01ec911, // p
    0x0100000, // q
    0x53e7d5d, // r
    0x51cd995, // s
    0x51ec9bd, // t
    0x00eb957, // u
    0x0000111, // v
    0x0026191, // w
    0x0088010, // x
    0x404e000, // y
    0x0000010, // z
];

const END: u8 = 26;

/// The number of an ASCII letter, 0 to 25.
pub(super) fn letter_number(c: char) -> u8 {
    ((u32::from(c) | 0x20) as u8).wrapping_sub(b'a') % 26
}

/// The pair is common in English words.
pub(super) fn is_common(before: u8, after: u8) -> bool {
    COMMON[usize::from(before)] >> after & 1 == 1
}

/// How unusual the last letter of a word is in English: a final i twice.
pub(super) fn odd_end(last: u8) -> u32 {
    u32::from(!is_common(last, END)) + u32::from(last == b'i' - b'a')
}
