//! Turns the first person into the third: what Anna says of herself is to stand for itself later.

use crate::words::raw_words;

/// Words of the first person and what stands for them. Nobody's gender is guessed: it is always "they".
const THIRD: [(&str, &str); 12] = [
    ("i", "they"),
    ("i'm", "they are"),
    ("i've", "they have"),
    ("i'll", "they will"),
    ("i'd", "they would"),
    ("im", "they are"),
    ("am", "are"),
    ("my", "their"),
    ("mine", "theirs"),
    ("me", "them"),
    ("myself", "themselves"),
    ("ive", "they have"),
];

/// The text with its first person turned into the third.
pub(super) fn third(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut after_i = false;
    for raw in raw_words(text) {
        let lower = raw.to_lowercase().replace('’', "'");
        let was = (after_i && lower == "was").then_some("were");
        let other = THIRD.iter().find(|(first, _)| *first == lower).map(|(_, other)| *other);
        after_i = lower == "i";
        if let Some(other) = was.or(other) {
            let start = raw.as_ptr() as usize - text.as_ptr() as usize;
            out.push_str(&text[copied..start]);
            out.push_str(other);
            copied = start + raw.len();
        }
    }
    out.push_str(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::third;

    #[test]
    fn only_the_first_person_is_turned() {
        assert_eq!(third("I’m sure my dog likes me, I am"), "they are sure their dog likes them, they are");
        assert_eq!(third("the mine in Bochum"), "the theirs in Bochum");
        assert_eq!(third("our home was where I was"), "our home was where they were");
    }
}
