//! Builds the text and its entities, and keeps the text inert.

use teloxide::types::{MessageEntity, MessageEntityKind};

use super::{MOST_ENTITIES, Rendered};
use crate::markup::{JOINER, steers};

/// An open entity and its start, in UTF-16 units.
struct Open {
    kind: MessageEntityKind,
    from: usize,
    /// How many of its kind are open: bold within bold is bold.
    depth: usize,
}

/// The word at the end of the text, as far as it could be a web address.
#[derive(Clone, Copy, Default)]
struct Word {
    /// Where it begins, in bytes.
    start: usize,
    /// Whether it is a web address; known behind its first `://`.
    address: Option<bool>,
}

#[derive(Default)]
pub(super) struct Writer {
    text: String,
    utf16: usize,
    /// Of `utf16`, what is no white space at the end.
    visible: usize,
    word: Word,
    /// Most units that are wanted, and how many bytes of the text that was written last are within them.
    limit: Option<usize>,
    over: Option<usize>,
    /// One of each kind, outer ones first.
    open: Vec<Open>,
    done: Vec<MessageEntity>,
    /// Line breaks to write before the next text.
    gap: usize,
    /// The last text was a list item's mark, which is followed by the item's text without a break.
    held: bool,
    in_code: bool,
    /// The message has no entities, so code must be made inert, too.
    bare: bool,
}

impl Writer {
    /// A writer for text without entities.
    pub(super) fn bare() -> Self {
        Self { bare: true, ..Self::default() }
    }

    /// A writer that writes no more once the text has more than so many UTF-16 units.
    pub(super) fn up_to(limit: usize) -> Self {
        Self { limit: Some(limit), ..Self::default() }
    }

    /// How many bytes of the text that was written last are within the limit; `None` as long as all is.
    pub(super) fn over(&self) -> Option<usize> {
        self.over
    }

    pub(super) fn is_blank(&self) -> bool {
        self.visible == 0
    }

    /// Length of the text in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn since(&self, from: usize) -> &str {
        self.text.get(from..).unwrap_or_default()
    }

    /// Asks for at least `breaks` line breaks before the next text.
    pub(super) fn gap(&mut self, breaks: usize) {
        if !self.held {
            self.gap = self.gap.max(breaks);
        }
    }

    /// Starts a list item on a new line.
    pub(super) fn item(&mut self, mark: &str) {
        self.held = false;
        self.gap(1);
        self.due();
        mark.chars().for_each(|c| self.put(c));
        self.held = true;
    }

    pub(super) fn open(&mut self, kind: MessageEntityKind) {
        match self.open.iter_mut().find(|open| open.kind == kind) {
            Some(open) => open.depth += 1,
            None => self.open.push(Open { kind, from: self.utf16, depth: 1 }),
        }
    }

    /// Closes the innermost open entity of this kind.
    pub(super) fn close(&mut self, kind: &MessageEntityKind) {
        let Some(at) = self.open.iter().position(|open| open.kind == *kind) else { return };
        self.open[at].depth -= 1;
        if self.open[at].depth == 0 {
            let open = self.open.remove(at);
            self.end(open.kind, open.from);
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        for (at, c) in text.char_indices() {
            if self.over.is_some() {
                return;
            }
            self.push(c);
            self.over = self.over.map(|_| at);
        }
    }

    pub(super) fn code(&mut self, code: &str) {
        self.verbatim(MessageEntityKind::Code, code);
    }

    pub(super) fn pre(&mut self, language: Option<String>, code: &str) {
        self.verbatim(MessageEntityKind::Pre { language }, code.trim_end().trim_start_matches('\n'));
    }

    /// Writes code. Code cannot be inside other entities, so open ones end before it and restart after it.
    fn verbatim(&mut self, kind: MessageEntityKind, code: &str) {
        if code.trim().is_empty() {
            self.text(code);
            return;
        }
        self.due();
        if self.text.ends_with(['@', '/', ':']) {
            self.put(JOINER);
        }
        for at in 0..self.open.len() {
            self.end(self.open[at].kind.clone(), self.open[at].from);
        }
        let from = self.utf16;
        self.in_code = true;
        self.text(code);
        self.in_code = false;
        self.end(kind, from);
        for open in &mut self.open {
            open.from = self.utf16;
        }
    }

    fn end(&mut self, kind: MessageEntityKind, from: usize) {
        if from < self.utf16 {
            self.done.push(MessageEntity { kind, offset: from, length: self.utf16 - from });
        }
    }

    /// Writes the pending line breaks, except at the start of the text.
    fn due(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        self.held = false;
        if self.text.is_empty() {
            return;
        }
        let has = self.text.bytes().rev().take(gap).take_while(|byte| *byte == b'\n').count();
        for _ in has..gap {
            self.put('\n');
        }
    }

    fn push(&mut self, c: char) {
        if steers(c) {
            return;
        }
        if !self.in_code {
            if c.is_whitespace() && (self.gap > 0 || self.text.is_empty()) {
                return;
            }
            self.due();
        }
        // Entities beyond the maximum are dropped, so code there is made inert, too. At least `done` entities come
        // before this code.
        if !self.in_code || self.bare || self.done.len() >= MOST_ENTITIES {
            if c == '@' && self.in_address() && !self.after_word(self.text.len()) {
                "%40".chars().for_each(|c| self.put(c));
                return;
            }
            if self.would_be_live(c) {
                self.put(JOINER);
            }
        }
        self.put(c);
    }

    fn put(&mut self, c: char) {
        self.text.push(c);
        self.utf16 += c.len_utf16();
        if !c.is_whitespace() {
            self.visible = self.utf16;
            self.over =
                self.over.or_else(|| self.limit.filter(|limit| self.visible > *limit).map(|_| usize::MAX));
        }
        if c.is_whitespace() || matches!(c, '(' | '<' | '[' | '"' | '\'' | JOINER) {
            self.word = Word { start: self.text.len(), address: None };
        } else if c == '/' && self.word.address.is_none() {
            let scheme = self.text[self.word.start..].strip_suffix("://");
            let is_web = |scheme: &str| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
            self.word.address = scheme.map(is_web);
        }
    }

    /// Whether a mention, a command or a Telegram link would start with this character.
    fn would_be_live(&self, c: char) -> bool {
        let name = c.is_ascii_alphanumeric() || c == '_';
        let before = self.text.len().saturating_sub(1);
        match self.text.as_bytes().last() {
            Some(b'@') if name => !self.after_word(before),
            Some(b'/') if name => {
                let parted = self.text[..before].ends_with(['/', '<']) || self.after_word(before);
                !parted && !self.in_address()
            }
            Some(b':') if c == '/' => {
                let scheme = self.text[..before].rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
                let own = |own: &&str| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(own));
                ["tg", "ton", "tonsite"].iter().any(own)
            }
            _ => false,
        }
    }

    /// Whether a word ends just before this position, as in an e-mail address.
    fn after_word(&self, at: usize) -> bool {
        self.text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Whether the text ends inside a web address.
    fn in_address(&self) -> bool {
        self.word.address == Some(true)
    }

    /// The message, trimmed; its entities are trimmed as well.
    pub(super) fn finish(mut self) -> Rendered {
        while let Some(open) = self.open.pop() {
            self.end(open.kind, open.from);
        }
        let text = self.text.trim_end().to_owned();
        let units: Vec<u16> = text.encode_utf16().collect();
        let is_space = |unit: &&u16| char::from_u32(u32::from(**unit)).is_some_and(char::is_whitespace);
        let mut entities = Vec::new();
        for mut entity in self.done {
            let end = (entity.offset + entity.length).min(units.len());
            let Some(inside) = units.get(entity.offset..end) else { continue };
            let tail = inside.iter().rev().take_while(is_space).count();
            let keeps_head = matches!(entity.kind, MessageEntityKind::Pre { .. });
            let head = if keeps_head { 0 } else { inside.iter().take_while(is_space).count() };
            if head + tail >= inside.len() {
                continue;
            }
            entity.offset += head;
            entity.length = inside.len() - head - tail;
            entities.push(entity);
        }
        entities.sort_by_key(|entity| (entity.offset, std::cmp::Reverse(entity.length)));
        entities.truncate(MOST_ENTITIES);
        Rendered { text, entities }
    }
}
