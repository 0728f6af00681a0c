//! The text that the next part is cut from: the beginning of what is left.

/// Most indentations that are removed from lines at once.
const OUTDENTS_MAX: usize = 8;

pub(super) struct Window<'a> {
    pub(super) text: String,
    /// The length of the fence line that was added at the start, in bytes.
    pub(super) head: usize,
    /// How long the text is at least, if there is so much.
    size: usize,
    /// What follows the text.
    rest: &'a str,
    is_line_start: bool,
    /// Spaces that are removed from the lines of the rest, each as long as lines have them.
    outdents: Vec<usize>,
}

impl<'a> Window<'a> {
    pub(super) fn new(source: &'a str, size: usize) -> Self {
        Self { text: String::new(), head: 0, size, rest: source, is_line_start: true, outdents: Vec::new() }
    }

    /// Whether nothing follows the text.
    pub(super) fn is_last(&self) -> bool {
        self.rest.is_empty()
    }

    /// Loads what is missing. False if nothing is left but white space.
    pub(super) fn fill(&mut self) -> bool {
        loop {
            let is_new = self.text.is_empty();
            self.load();
            if is_new {
                self.skip_gap(0);
            }
            let is_blank = self.text[self.head..].trim().is_empty();
            if !is_blank || self.is_last() || self.head > 0 {
                return !(is_blank && self.is_last());
            }
            self.text.clear();
        }
    }

    /// Adds whole lines; a line that is longer than a window in pieces.
    fn load(&mut self) {
        while self.text.len() < self.size && !self.rest.is_empty() {
            let most = self.rest.floor_char_boundary(self.size);
            let line = self.rest[..most].find('\n').map_or(most, |at| at + 1);
            let (line, rest) = self.rest.split_at(line);
            let shown = if self.is_line_start { outdented(&mut self.outdents, line) } else { line };
            self.text.push_str(shown);
            self.is_line_start = line.ends_with('\n');
            self.rest = rest;
        }
    }

    /// Goes on at `end`, without blank lines, and without the indentation of the first lines, which belonged to a block
    /// in the part before.
    pub(super) fn skip_gap(&mut self, end: usize) {
        let after = &self.text[end..];
        let gap = after.len() - after.trim_start().len();
        let after = &after[after[..gap].rfind('\n').map_or(0, |at| at + 1)..];
        let mut outdents = vec![after.len() - after.trim_start_matches(' ').len()];
        outdents.retain(|spaces| *spaces > 0);
        let text: String = after.split_inclusive('\n').map(|line| outdented(&mut outdents, line)).collect();
        self.outdents.extend(outdents);
        self.outdents.truncate(OUTDENTS_MAX);
        self.start(text.trim_start().to_owned(), 0);
    }

    /// Goes on at the next text after `end`.
    pub(super) fn skip_space(&mut self, end: usize) {
        self.start(self.text[end..].trim_start().to_owned(), 0);
    }

    /// Goes on at `end`, inside a code block that is reopened by a line. Up to `spaces` spaces are removed from the lines
    /// of the block.
    pub(super) fn reopen(&mut self, line: &str, end: usize, block_end: usize, spaces: usize) {
        let (code, behind) = self.text[end..].split_at(block_end - end);
        let mut text = line.to_owned();
        for line in code.split_inclusive('\n') {
            text.push_str(&line[spaces_of(line, spaces)..]);
        }
        text.push_str(behind);
        self.start(text, line.len());
    }

    fn start(&mut self, text: String, head: usize) {
        (self.text, self.head) = (text, head);
    }
}

/// A line without the indentations that it has. One that it lacks is over, unless the line is blank.
fn outdented<'l>(outdents: &mut Vec<usize>, mut line: &'l str) -> &'l str {
    if !outdents.is_empty() {
        let is_blank = line.trim().is_empty();
        outdents.retain(|spaces| {
            let has = spaces_of(line, *spaces);
            let is_in = is_blank || has == *spaces;
            line = if is_in { &line[has..] } else { line };
            is_in
        });
    }
    line
}

/// How many spaces a line begins with, up to a number.
fn spaces_of(line: &str, most: usize) -> usize {
    line.bytes().take(most).take_while(|byte| *byte == b' ').count()
}
