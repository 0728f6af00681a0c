//! What requests of a bot must be like, beyond what the server refuses anyway.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The request's number, as in [`super::Call::n`].
    pub n: usize,
    /// The method, as the bot wrote it.
    pub method: String,
    pub rule: Rule,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The method exists, its parameters are there and are what they must be.
    Shape,
    /// A text has 1 to 4,096 UTF-16 units.
    Length,
    /// Entities lie within the text, at the bounds of characters, and nest as they may; at most 100.
    Entities,
    /// Words are formatted by entities, never by `parse_mode`.
    ParseMode,
    LinkPreview,
    /// Nobody but the bot itself is mentioned: neither by an entity, nor by a link to a person, nor by `@name` in
    /// words where the server would make a mention of it.
    Mention,
    /// Nothing is sent to a chat before its `retry_after` is over.
    RetryAfter,
    /// Only messages of the bot are edited.
    Foreign,
    /// Keyboards are inline, their buttons have words and carry 1 to 64 bytes each; at most 100 of them.
    Keyboard,
    /// Only presses that there were are answered, in 200 characters at most.
    Callback,
    /// A reaction of a bot is one emoji of a fixed list, or none.
    Reaction,
    /// Names of commands have 1 to 32 characters of `a-z0-9_`, descriptions 1 to 256; at most 100.
    Commands,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} ({}) breaks the rule {:?}: {}", self.n, self.method, self.rule, self.text)
    }
}
