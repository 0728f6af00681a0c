//! One block of text that may be a tool call, while it streams: whether it can still be one, where it ends, and whether it
//! counts as a call.

use super::TOLD_CALL;
use super::marks::{self, Begins, TOOLS_CLOSE, opens_call};
use super::parse::{self, Written};
use cairn_types::tool::defs::ToolDefs;
use cairn_types::tool::{NAME_MAX, is_name};

/// What a block is written in.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// A mark that only calls have, with the mark that closes it.
    Marked(&'static str),
    /// A call that harmony's head names.
    Named(String),
    /// Our own telling of past calls: `[called NAME {…}]`.
    Told,
    /// JSON, or a list of Python's calls.
    Bare,
    /// A code fence.
    Fenced,
}

/// Where a block begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The answer begins with it.
    First,
    /// It begins a line.
    OwnLine,
    /// Words stand before it in its line.
    Inline,
}

/// What stands behind a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// It is not there yet.
    Unknown,
    /// The line ends; nothing else is there yet.
    LineEnd,
    /// Other words, on a line of their own, or a further block.
    Words,
    /// Other words on the same line.
    SameLine,
    /// The end of the answer.
    Nothing,
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Wait,
    /// It is no call: so many bytes are text like any other.
    Text(usize),
    /// A code fence with other code: so many bytes open it.
    Fence(usize),
    /// Calls, in so many bytes.
    Calls(usize, Vec<Written>),
}

/// Names of what a call in JSON begins with.
const KEYS: [&str; 11] = [
    "name",
    "arguments",
    "parameters",
    "args",
    "function",
    "tool",
    "tool_name",
    "tool_call_id",
    "type",
    "id",
    "recipient_name",
];

/// Those of them that have the tool's name.
const NAME_KEYS: [&str; 4] = ["name", "tool_name", "tool", "recipient_name"];

/// Languages of fences that models put calls into.
const LANGUAGES: [&str; 10] = [
    "",
    "json",
    "tool_code",
    "tool_call",
    "tool_calls",
    "tool",
    "function_call",
    "xml",
    "python",
    "plaintext",
];

/// What may stand before a call's name in code.
const CODE_LEADS: [&str; 3] = ["print(", "default_api.", ""];

/// A block that begins where the text does that it is asked about.
#[derive(Debug)]
pub(super) struct Block {
    form: Form,
    place: Place,
    /// Bytes of what opens it.
    head: usize,
    is_plausible: bool,
    brackets: Brackets,
    /// What was searched for its end.
    searched: usize,
    /// Where the last of its objects ends, if it has those.
    object_end: Option<usize>,
    /// Where its body ends, and it.
    end: Option<(usize, usize)>,
    found: Vec<Written>,
    /// What was looked at behind its end, and whether the line ended there.
    looked: usize,
    crossed: bool,
}

impl Block {
    fn new(form: Form, place: Place, head: usize) -> Self {
        Self {
            form,
            place,
            head,
            is_plausible: false,
            brackets: Brackets::default(),
            searched: head,
            object_end: None,
            end: None,
            found: Vec::new(),
            looked: 0,
            crossed: false,
        }
    }

    pub(super) fn named(name: String) -> Self {
        Self { is_plausible: true, ..Self::new(Form::Named(name), Place::First, 0) }
    }

    /// The block whose opening mark a text begins with.
    pub(super) fn opens(text: &str, place: Place) -> Begins<Self> {
        let marked = match opens_call(text) {
            Begins::Whole(n, close) => Begins::Whole(n, Self::new(Form::Marked(close), place, n)),
            Begins::Perhaps => Begins::Perhaps,
            Begins::No => Begins::No,
        };
        match place {
            Place::Inline => marked,
            Place::First | Place::OwnLine => {
                marked.or(|| marks::begins(text, TOLD_CALL).map(|()| Self::new(Form::Told, place, 0)))
            }
        }
    }

    /// One that begins with a bracket and no mark.
    pub(super) fn bare(text: &str, place: Place) -> Option<Self> {
        let is_bare = place != Place::Inline && text.starts_with(['{', '[']);
        is_bare.then(|| Self::new(Form::Bare, place, 0))
    }

    /// The fence that a text begins with, once its first line is there.
    pub(super) fn fence(text: &str, place: Place, end: bool) -> Begins<Self> {
        let info = &text[3..];
        match info.split_once('\n') {
            Some((info, _)) if LANGUAGES.contains(&info.trim().to_ascii_lowercase().as_str()) => {
                let head = 3 + info.len() + 1;
                Begins::Whole(head, Self::new(Form::Fenced, place, head))
            }
            None if !end && LANGUAGES.iter().any(|language| language.starts_with(info.trim())) => {
                Begins::Perhaps
            }
            Some(_) | None => Begins::No,
        }
    }

    /// What is known of it. `text` begins with it; `end`: no more comes.
    pub(super) fn judge(&mut self, text: &str, end: bool, tools: &ToolDefs) -> Verdict {
        if !self.is_plausible {
            match self.may_be_call(&text[self.head..], tools) {
                Some(true) => self.is_plausible = true,
                None if !end => return Verdict::Wait,
                Some(false) | None => return self.no_call(),
            }
        }
        if self.end.is_none() {
            self.end = self.find_end(text, end);
            let Some((body_end, block_end)) = self.end else { return Verdict::Wait };
            let (block, body) = (&text[..block_end], &text[self.head..body_end]);
            self.looked = block_end;
            self.found = match &self.form {
                Form::Named(name) => vec![parse::call_of(name, body)],
                Form::Told => told(block),
                Form::Marked(_) | Form::Bare | Form::Fenced => parse::calls(block, body, tools),
            };
        }
        let (_, block_end) = self.end.unwrap_or_default();
        let behind = self.behind(text, end);
        let is_sound = !self.found.is_empty() && self.found.iter().all(|call| call.is_sound(tools));
        match self.counts(is_sound, behind) {
            None => Verdict::Wait,
            Some(false) => Verdict::Text(block_end),
            Some(true) if self.found.is_empty() => {
                Verdict::Calls(block_end, vec![Written::malformed(&text[..block_end])])
            }
            Some(true) => Verdict::Calls(block_end, std::mem::take(&mut self.found)),
        }
    }

    /// Whether it counts as a call; none: that depends on what is still to come. `is_sound`: all of it can be run.
    fn counts(&self, is_sound: bool, behind: Behind) -> Option<bool> {
        let is_marked = match self.form {
            // Other lists are between such tags, too.
            Form::Marked(close) => close != TOOLS_CLOSE,
            Form::Told | Form::Named(_) => true,
            Form::Bare | Form::Fenced => false,
        };
        let is_call = !self.found.is_empty();
        match (self.place, behind) {
            _ if matches!(self.form, Form::Named(_)) => Some(true),
            // Who answers with the mark of a call, and a tool's name in it, means a call.
            (Place::First, _) if is_marked && is_call => Some(true),
            // On lines of its own the same, where there is such a tool.
            (Place::OwnLine, Behind::LineEnd | Behind::Words | Behind::Nothing) if is_marked && is_sound => {
                Some(true)
            }
            (_, Behind::Nothing) if is_sound => Some(true),
            (Place::First | Place::OwnLine, Behind::Nothing) => Some(is_marked),
            (_, Behind::Unknown | Behind::LineEnd) => {
                let may_be = is_sound || (is_marked && self.place != Place::Inline);
                if may_be { None } else { Some(false) }
            }
            _ => Some(false),
        }
    }

    fn no_call(&self) -> Verdict {
        match self.form {
            Form::Fenced => Verdict::Fence(self.head),
            _ => Verdict::Text(self.head.max(1)),
        }
    }

    /// Whether what follows its opening mark may be a call; none: too little of it is there.
    fn may_be_call(&self, body: &str, tools: &ToolDefs) -> Option<bool> {
        let inner = body.trim_start();
        let first = inner.chars().next()?;
        match (&self.form, first) {
            (Form::Named(_), _) => Some(true),
            (Form::Told, _) => may_be_told(inner),
            (Form::Marked(_), '{' | '[' | '<') => Some(true),
            (Form::Marked(_), _) => may_be_name(inner),
            (Form::Bare | Form::Fenced, '{') => may_be_object(inner, tools),
            (Form::Bare | Form::Fenced, '[') => {
                let inner = inner[1..].trim_start();
                match inner.chars().next()? {
                    '{' => may_be_object(inner, tools),
                    _ => may_be_function(inner, tools),
                }
            }
            (Form::Fenced, '<') => match opens_call(inner) {
                Begins::Whole(..) => Some(true),
                Begins::Perhaps => None,
                Begins::No => Some(false),
            },
            (Form::Fenced, _) => CODE_LEADS
                .iter()
                .map(|lead| match marks::begins(inner, lead) {
                    Begins::Whole(n, ()) => may_be_function(&inner[n..], tools),
                    Begins::Perhaps => None,
                    Begins::No => Some(false),
                })
                .reduce(|one, other| if one == Some(false) { other } else { one })?,
            (Form::Bare, _) => Some(false),
        }
    }

    /// Where its body ends, and where it does with what closes it. At the end of the answer it ends in any case.
    fn find_end(&mut self, text: &str, end: bool) -> Option<(usize, usize)> {
        let found = match &self.form {
            Form::Marked(close) => self.find_mark(text, close),
            Form::Named(_) => self.find_message_end(text),
            Form::Fenced => self.find_fence(text, end),
            Form::Told | Form::Bare => self.find_brackets_end(text, end).map(|at| (at, at)),
        };
        if found.is_none() && !matches!(self.form, Form::Told | Form::Bare) {
            // A mark may have begun.
            self.searched = text.floor_char_boundary(text.len().saturating_sub(CLOSE_MAX)).max(self.head);
        }
        found.or_else(|| end.then(|| (without_end_mark(text), text.len())))
    }

    fn find_mark(&self, text: &str, close: &str) -> Option<(usize, usize)> {
        let (at, end) = marks::find(&text[self.searched..], close)?;
        Some((self.searched + at, self.searched + end))
    }

    fn find_message_end(&self, text: &str) -> Option<(usize, usize)> {
        let from = &text[self.searched..];
        from.match_indices('<').find_map(|(at, _)| match marks::ends_message(&from[at..]) {
            Begins::Whole(n, true) => Some((self.searched + at, self.searched + at + n)),
            Begins::Whole(_, false) => Some((self.searched + at, self.searched + at)),
            Begins::Perhaps | Begins::No => None,
        })
    }

    /// A line of its own that closes a fence.
    fn find_fence(&self, text: &str, end: bool) -> Option<(usize, usize)> {
        let start = text.floor_char_boundary(self.searched.saturating_sub(1));
        let from = &text[start..];
        from.match_indices("\n```").find_map(|(at, mark)| {
            let behind = &from[at + mark.len()..];
            let blank = behind.trim_start_matches([' ', '`', '\r']);
            let closes = blank.starts_with('\n') || (blank.is_empty() && end);
            closes.then(|| (start + at, text.len() - blank.len()))
        })
    }

    /// Where the brackets close; of several objects, one behind the other, the last one's.
    fn find_brackets_end(&mut self, text: &str, end: bool) -> Option<usize> {
        loop {
            let Some(at) = self.object_end else {
                let Some(n) = self.brackets.close(&text[self.searched..]) else {
                    self.searched = text.len();
                    return None;
                };
                self.searched += n;
                self.object_end = Some(self.searched);
                continue;
            };
            let between = |c: char| c.is_whitespace() || c == ';' || c == ',';
            let behind = text[self.searched..].trim_start_matches(between);
            self.searched = text.len() - behind.len();
            let may_be_more = self.form == Form::Bare && text.starts_with('{');
            if !may_be_more || (behind.is_empty() && end) || !(behind.is_empty() || behind.starts_with('{')) {
                return Some(at);
            }
            if behind.is_empty() {
                return None;
            }
            self.object_end = None;
        }
    }

    /// What stands behind it.
    fn behind(&mut self, text: &str, end: bool) -> Behind {
        loop {
            let rest = &text[self.looked..];
            let Some(c) = rest.chars().next() else {
                return match (end, self.crossed) {
                    (true, _) => Behind::Nothing,
                    (false, true) => Behind::LineEnd,
                    (false, false) => Behind::Unknown,
                };
            };
            if c.is_whitespace() {
                self.crossed |= c == '\n';
                self.looked += c.len_utf8();
                continue;
            }
            match marks::is_left_over(rest) {
                Begins::Whole(n, ()) => {
                    self.looked += n;
                    continue;
                }
                Begins::Perhaps if !end => {
                    return if self.crossed { Behind::LineEnd } else { Behind::Unknown };
                }
                Begins::Perhaps | Begins::No => {}
            }
            return match opens_call(rest) {
                _ if self.crossed => Behind::Words,
                Begins::Whole(..) => Behind::Words,
                Begins::Perhaps if !end => Behind::Unknown,
                Begins::Perhaps | Begins::No => Behind::SameLine,
            };
        }
    }
}

/// Longest mark that closes a block, in bytes.
const CLOSE_MAX: usize = 64;

/// Where a text ends before what a template writes behind it.
fn without_end_mark(text: &str) -> usize {
    let trimmed = text.trim_end();
    let from = trimmed.floor_char_boundary(trimmed.len().saturating_sub(CLOSE_MAX));
    let at = trimmed[from..].match_indices('<').find_map(|(at, _)| {
        match marks::ends_turn(&trimmed[from + at..]) {
            Begins::Whole(n, ()) if from + at + n == trimmed.len() => Some(from + at),
            _ => None,
        }
    });
    at.unwrap_or(text.len())
}

/// The call in our own telling of one; none where it is none after all.
fn told(block: &str) -> Vec<Written> {
    let inner = block.trim_start_matches(TOLD_CALL);
    let inner = inner.strip_suffix(']').unwrap_or(inner);
    inner.split_once(' ').map(|(name, arguments)| parse::call_of(name, arguments)).into_iter().collect()
}

fn may_be_told(text: &str) -> Option<bool> {
    let text = text.get(TOLD_CALL.len()..)?;
    let Some((name, arguments)) = text.split_once(' ') else {
        return if text.is_empty() || is_name(text) { None } else { Some(false) };
    };
    if !is_name(name) {
        return Some(false);
    }
    arguments.chars().next().map(|c| c == '{')
}

/// A name behind a mark, and what goes on like a call behind it.
fn may_be_name(text: &str) -> Option<bool> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    if end == 0 || end > NAME_MAX * 2 {
        return Some(false);
    }
    let behind = text[end..].trim_start_matches([' ', '\t', '\r']);
    behind
        .chars()
        .next()
        .map(|c| matches!(c, '\n' | '<' | '{' | '(' | '[') || (c == '>' && text[end..].starts_with(c)))
}

/// A JSON object that begins like a call.
fn may_be_object(text: &str, tools: &ToolDefs) -> Option<bool> {
    let text = text[1..].trim_start();
    let quote = text.chars().next()?;
    if !matches!(quote, '"' | '\'') {
        return Some(false);
    }
    let Some((key, behind)) = text[1..].split_once(quote) else {
        return if KEYS.iter().any(|known| known.starts_with(&text[1..])) { None } else { Some(false) };
    };
    if !NAME_KEYS.contains(&key) {
        return Some(KEYS.contains(&key));
    }
    let behind = behind.trim_start();
    if behind.is_empty() {
        return None;
    }
    let Some(value) = behind.strip_prefix(':') else { return Some(false) };
    let value = value.trim_start();
    let quote = value.chars().next()?;
    if !matches!(quote, '"' | '\'') {
        return Some(false);
    }
    let value = value[1..].strip_prefix("functions.").unwrap_or(&value[1..]);
    match value.split_once(quote) {
        Some((name, _)) => Some(tools.iter().any(|tool| tool.name == name)),
        None => {
            let fits = |name: &str| name.starts_with(value) || format!("functions.{name}").starts_with(value);
            if tools.iter().any(|tool| fits(&tool.name)) { None } else { Some(false) }
        }
    }
}

/// `NAME(` of a tool.
fn may_be_function(text: &str, tools: &ToolDefs) -> Option<bool> {
    match text.split_once('(') {
        Some((name, _)) => Some(tools.iter().any(|tool| tool.name == name.trim().trim_end_matches(".call"))),
        None => {
            let fits = |name: &str| name.starts_with(text) || format!("{name}.call").starts_with(text);
            if tools.iter().any(|tool| fits(&tool.name)) { None } else { Some(false) }
        }
    }
}

/// Brackets that are open, strings passed over.
#[derive(Debug, Default)]
struct Brackets {
    depth: usize,
    quote: Option<char>,
    escaped: bool,
}

impl Brackets {
    /// Reads on; where the last one that was open closes.
    fn close(&mut self, text: &str) -> Option<usize> {
        for (at, c) in text.char_indices() {
            if self.escaped {
                self.escaped = false;
            } else if let Some(quote) = self.quote {
                self.escaped = c == '\\';
                self.quote = Some(quote).filter(|quote| *quote != c);
            } else {
                match c {
                    '"' | '\'' => self.quote = Some(c),
                    '{' | '[' | '(' => self.depth += 1,
                    '}' | ']' | ')' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }
}
