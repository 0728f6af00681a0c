//! Texts that are hard to read: one short unit, repeated. Whatever reads text from outside takes as long per byte for a
//! long one as for a short one.

use std::fmt;

/// What strangers can have repeated, each under a name.
pub const UNITS: [(&str, &str); 84] = [
    ("words", "word and word. "),
    ("one word", "a"),
    ("spaces", " "),
    ("tabs", "\t"),
    ("line feeds", "\n"),
    ("carriage returns", "\r\n"),
    ("short lines", "a\n"),
    ("paragraphs", "a\n\n"),
    ("spaced lines", "  a  \n"),
    ("deep indentation", "                a\n"),
    ("fences", "```\n"),
    ("fences of tildes", "~~~\n"),
    ("fences with code", "```rust\nlet a = b;\n```\n"),
    ("fences of four", "````\n```\n"),
    ("fences in a quote", "> ```\n"),
    ("fences in a list", "- ```\n"),
    ("fences on one line", "``` "),
    ("backticks", "`"),
    ("inline code", "`a` "),
    ("unequal backticks", "`` ` "),
    ("headings", "# a\n"),
    ("empty headings", "#\n"),
    ("underlined headings", "a\n=\n"),
    ("rules", "---\n"),
    ("rules of stars", "* * *\n"),
    ("list marks", "- "),
    ("list items", "- a\n"),
    ("empty items", "-\n"),
    ("numbered items", "1. a\n"),
    ("nested items", "- a\n  - b\n    - c\n"),
    ("quote marks", "> "),
    ("quotes", "> a\n"),
    ("nested quotes", "> > > a\n"),
    ("quotes in items", "- > a\n"),
    ("open brackets", "["),
    ("closed brackets", "]"),
    ("empty links", "[]()"),
    ("links", "[a](http://b.example) "),
    ("half links", "[a]("),
    ("open links", "[a](b"),
    ("links by name", "[a][b] "),
    ("definitions", "[a]: b\n"),
    ("open pictures", "!["),
    ("pictures", "![a](b)"),
    ("pictures in pictures", "![a ![b](c) "),
    ("autolinks", "<http://a.example> "),
    ("addresses", "http://a.example/b?c=d&e "),
    ("one long address", "http://a.example/"),
    ("stars", "*"),
    ("double stars", "**a"),
    ("emphasis", "*a* "),
    ("open emphasis", "*a "),
    ("mixed emphasis", "*_a"),
    ("code in emphasis", "*a `b` "),
    ("underscores", "_"),
    ("words joined by underscores", "a_b_"),
    ("tildes", "~"),
    ("strikes", "~~a~~ "),
    ("open strikes", "~~a "),
    ("pipes", "|"),
    ("table rows", "| a | b |\n"),
    ("tables", "|a|b|\n|-|-|\n|c|d|\n\n"),
    ("wide tables", "|a|b|c|d|e|f|g|h|\n|-|-|-|-|-|-|-|-|\n|\n|\n|\n|\n|\n|\n|\n|\n\n"),
    ("tags", "<b>"),
    ("closed tags", "</b>"),
    ("open angles", "<"),
    ("open slashes", "</"),
    ("comments", "<!-- "),
    ("blocks of html", "<div>\n\n"),
    ("instructions", "<?"),
    ("entities", "&amp;"),
    ("open entities", "&a"),
    ("backslashes", "\\"),
    ("escapes", "\\`"),
    ("mentions", "@here "),
    ("half addresses", "a@"),
    ("numbered mentions", "<@1>"),
    ("commands", "/a"),
    ("schemes", "a:/"),
    ("emoji", "🦊"),
    ("families", "👩\u{200d}👩\u{200d}👧"),
    ("combining marks", "e\u{301}\u{302}"),
    ("one letter with many marks", "\u{301}"),
    ("sentences in brackets", "(a.) b. "),
];

/// Units that are in a text of this many bytes, give or take a unit.
pub fn text(unit: &str, bytes: usize) -> String {
    unit.repeat((bytes / unit.len()).max(1))
}

/// A unit to be measured at one length: what a bench names it by.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub unit: &'static str,
    /// Length of the text.
    pub kib: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:3} KiB", self.name, self.kib)
    }
}

impl Case {
    pub fn text(self) -> String {
        text(self.unit, self.kib * 1024)
    }
}

/// Each of [`UNITS`] and of `more` at 1, 16 and 256 KiB.
pub fn cases(more: &'static [(&'static str, &'static str)]) -> impl Iterator<Item = Case> {
    let units = UNITS.iter().chain(more);
    units.flat_map(|(name, unit)| [1, 16, 256].map(|kib| Case { name, unit, kib }))
}
