//! Texts as runs of words, each by its key: what somebody said is found again whatever its case, marks and gaps.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use crate::words::{is_filler, is_gapless, is_word};

/// Words of the chats of everybody: no one is known by them, and their loss would leave holes in what others said.
const COMMON: &str = "\
able above accept access across action actually address admin after afternoon again against agree ahead almost alone along \
already alright although always amount anonymous another answer answers anybody anymore anyone anything anyway apple area \
around asked asking assistant available awesome basic beautiful because become before begin behind believe below best better \
between bigger birthday black blue book both bottom bought bread break breakfast bring brother brought brown build building \
business call called calls cannot care case cause certain change changed changes check child children choose city class clean \
clear close coffee cold come comes coming common company computer continue cool correct cost couple course create cream \
current daily data date daughter days decide decided deep definitely delete details different dinner dish doctor does dollar \
door double doubt down draft dream drink drive during each early easier easy eight either email empty ending enjoy enough \
error evening event events ever every everybody everyone everything exactly example except expect explain extra face fact \
family fast father favorite favourite feel feeling felt file files fill final finally find fine finish first five floor \
follow food forget form forward found four free fresh friday friend friends from front full funny future game garden general \
getting girl give given gives glad going gone good great green ground group guess guest guys half hand happen happened happy \
hard have heard hear heart heavy hello help here high hold holiday home hope hotel hour hours house however hundred husband \
idea ideas image important include inside instead interesting into issue items itself january job join just keep kind kitchen \
knew know known language large last late later laugh learn least leave left less letter level life light like line list \
listen little live living local long longer look looked looking looks lose lost love loved lovely lunch machine made mail \
main make makes making many march market matter maybe mean means meant meet meeting member message messages might mind minute \
minutes miss model moment monday money month months more morning most mother move movie much music must myself name named \
near need needed needs never news next nice night nine nobody none normal note notes nothing notice number office often \
okay once only open option orange order other others ours outside over paper parents part party past people perfect perhaps \
person phone photo picture piece place plan plans play please point possible post present pretty price probably problem \
problems project question questions quick quickly quiet quite rain rather read reading ready real really reason received red \
remember reply report rest result right road room round run said same saturday save says school second seconds see seem \
seems seen send sent september series serious seven several share shop short should show shows side simple since sister \
sitting small snow some somebody someone something sometimes soon sorry sound sounds speak special spend spring start started \
state station stay step still stop store story street strong stuff such sugar suggest summer sunday support suppose sure \
system table take taken takes talk talking tell test text thank thanks that their them then there these they thing things \
think third this those though thought thousand three through thursday time times tired today together told tomorrow tonight \
took total towards town train travel tree tried trip true trust truth trying tuesday turn twelve twice type under understand \
until update upon used useful user usual usually version very visit voice wait waiting walk wall want wanted wants warm watch \
water wednesday week weekend weeks welcome went were what whatever when where whether which while white whole whose wife \
will window winter wish with within without woman wonder word words work worked working works world worry worse would write \
writing written wrong year years yellow yesterday young yours yourself";

#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'a> {
    /// Its first byte.
    pub(super) start: usize,
    pub(super) text: &'a str,
    /// The same for all spellings that differ only in case.
    pub(super) key: u64,
}

impl Word<'_> {
    /// The byte after it.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) fn digits(&self) -> usize {
        self.text.bytes().filter(u8::is_ascii_digit).count()
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.digits() > 0 && self.text.chars().any(char::is_alphabetic)
    }

    /// It is of a script without gaps: one character.
    pub(super) fn is_gapless(&self) -> bool {
        self.text.chars().next().is_some_and(is_gapless)
    }

    /// It tells topics apart: no stop word, no pronoun.
    pub(super) fn has_content(&self) -> bool {
        !is_filler(&self.text.to_lowercase())
    }

    pub(super) fn is_common(&self) -> bool {
        is_common(&self.text.to_lowercase())
    }
}

/// Everybody uses that word, in lower case, or a form of it.
pub(super) fn is_common(lower: &str) -> bool {
    let listed = |word: &str| COMMON.split_ascii_whitespace().any(|common| common == word);
    let stems = ["s", "es", "d", "ed", "ing", "ly", "er"];
    is_filler(lower)
        || listed(lower)
        || stems.iter().filter_map(|end| lower.strip_suffix(end)).any(|stem| {
            stem.len() > 2 && (listed(stem) || listed(&format!("{stem}e")) || listed(undoubled(stem)))
        })
}

/// `plann` as in planning → `plan`.
fn undoubled(stem: &str) -> &str {
    let mut ends = stem.chars().rev();
    let (last, before) = (ends.next(), ends.next());
    match last {
        Some(last) if Some(last) == before => &stem[..stem.len() - last.len_utf8()],
        _ => stem,
    }
}

/// The words of a text, in order: runs of letters and digits; of scripts without gaps each character.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        let alone = is_gapless(c);
        if !is_word(c) || alone {
            found.extend(start.take().map(|start| word(text, start, at)));
        }
        if alone {
            found.push(word(text, at, at + c.len_utf8()));
        } else if is_word(c) {
            start.get_or_insert(at);
        }
    }
    found.extend(start.map(|start| word(text, start, text.len())));
    found
}

fn word(text: &str, start: usize, end: usize) -> Word<'_> {
    let text = &text[start..end];
    let mut hasher = DefaultHasher::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        c.hash(&mut hasher);
    }
    Word { start, text, key: hasher.finish() }
}

pub(super) fn run_key(words: &[Word<'_>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.iter().for_each(|word| word.key.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("Anna's cat: Zorblax-17!", &["Anna", "s", "cat", "Zorblax", "17"])]
    #[case("snake_case a@b.org", &["snake", "case", "a", "b", "org"])]
    #[case("买milk吧", &["买", "milk", "吧"])]
    #[case("  … ", &[])]
    fn texts_fall_into_words(#[case] text: &str, #[case] expected: &[&str]) {
        let found: Vec<&str> = words(text).iter().map(|word| word.text).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn case_makes_no_other_word() {
        assert_eq!(words("ÉTÉ")[0].key, words("été")[0].key);
        assert_ne!(words("tea")[0].key, words("teas")[0].key);
    }

    #[rstest]
    #[case("weather", false)]
    #[case("meetings", true)]
    #[case("making", true)]
    #[case("planning", true)]
    #[case("the", true)]
    #[case("zorblax", false)]
    fn forms_of_common_words_are_common(#[case] word: &str, #[case] common: bool) {
        assert_eq!(is_common(word), common);
    }
}
