//! What a model's text holds beside its answer: reasoning between tags, tool calls written as text, our own message header,
//! marks of a chat template. A server without a parser for its model passes all of it on as text.
//!
//! [`AnswerText`] takes it apart while it streams. Text is held back only while it may still be the beginning of such a thing,
//! so that nobody sees a piece of one in a draft; however a stream is cut, the pieces are the same. What merely mentions a mark,
//! in code or in a sentence, is text like any other (`docs/design/models.md`).

mod block;
mod header;
mod literal;
mod marks;
mod parse;

use serde_json::Value;

use self::block::{Block, Place, Verdict};
use self::marks::{Begins, Message};
use self::parse::Written;
use cairn_types::tool::defs::ToolDefs;

/// How a past call begins that is told in words: its name and its arguments follow, then a bracket.
pub const TOLD_CALL: &str = "[called ";

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Text(String),
    Reasoning(String),
    /// All text before this was reasoning, whose opening tag the model did not write.
    TextWasReasoning,
    /// A tool call that was written as text.
    Call {
        /// One that no tool has, where none can be read.
        name: String,
        /// A string where they cannot be read, as in [`cairn_types::message::ToolCall`].
        arguments: Value,
        /// It is of a tool that was offered, with arguments in an object.
        is_sound: bool,
    },
}

/// Takes the text of one answer apart.
#[derive(Debug)]
pub struct AnswerText {
    tools: ToolDefs,
    /// Answers of this model begin amid reasoning, with no tag before it; false once a tag came.
    amid: bool,
    /// Whether it began so, once that is known.
    began_amid: Option<bool>,
    state: State,
    /// What came last, and from where on it is undecided.
    held: String,
    at: usize,
    /// Bytes behind `at` that need no second look.
    looked: usize,
    /// Whitespace that is not passed on before words follow.
    blank: String,
    line: Line,
    /// People read some of it.
    spoke: bool,
    /// A call was found: what is written behind it did not wait for its result, and nobody reads it.
    called: bool,
    reasoned: bool,
    /// It is written in messages of harmony.
    is_harmony: bool,
    /// A tag that opens reasoning stands in the text.
    has_opening: bool,
    /// Closes the frame around the answer.
    frame: Option<&'static str>,
    /// Another of its messages has words already.
    gap: bool,
    out: Vec<Piece>,
}

#[derive(Debug)]
enum State {
    /// At the beginning of what people read. `cleared`: something was taken away before it.
    Start {
        cleared: bool,
    },
    Reasoning(Reasoning),
    Words,
    Block(Block),
}

#[derive(Debug)]
struct Reasoning {
    close: Close,
    opening: String,
    /// All of it, for where it does not close.
    body: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Close {
    Mark(&'static str),
    /// Its opening tag was not written: any closing tag.
    Any,
    /// The end of a message of harmony.
    Message,
}

/// The line under way.
#[derive(Debug, Default, Clone, Copy)]
struct Line {
    /// It has more than whitespace.
    has_words: bool,
    /// Code has begun in it.
    in_code: bool,
    /// A code fence is open.
    in_fence: bool,
    last: Option<char>,
}

impl Line {
    fn read(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\n' => (self.has_words, self.in_code) = (false, false),
                '`' => self.in_code = !self.in_code,
                _ => {}
            }
            self.has_words |= !c.is_whitespace();
            self.last = Some(c);
        }
    }

    /// Whether a closing tag between here and there closes what stands before it: one that is mentioned stands in a sentence.
    fn closes(self, next: Option<char>) -> bool {
        let Some(last) = self.last.filter(|_| self.has_words) else { return true };
        let is_led = last.is_whitespace() || matches!(last, '(' | '“' | '„' | '«' | '‘' | '/' | '`');
        let goes_on = match next {
            None | Some('\n' | '\r') => true,
            Some(c) if c.is_whitespace() => !last.is_alphanumeric(),
            Some(c) => !matches!(
                c,
                '.' | ','
                    | ';'
                    | ':'
                    | '?'
                    | '!'
                    | ')'
                    | ']'
                    | '"'
                    | '\''
                    | '`'
                    | '”'
                    | '“'
                    | '»'
                    | '’'
                    | '/'
                    | '。'
                    | '，'
            ),
        };
        !is_led && goes_on
    }
}

impl AnswerText {
    /// `tools`: those that were offered. `amid`: earlier answers began amid reasoning.
    pub fn new(tools: ToolDefs, amid: bool) -> Self {
        Self {
            tools,
            amid,
            began_amid: None,
            state: State::Start { cleared: false },
            held: String::new(),
            at: 0,
            looked: 0,
            blank: String::new(),
            line: Line::default(),
            spoke: false,
            called: false,
            reasoned: false,
            is_harmony: false,
            has_opening: false,
            frame: None,
            gap: false,
            out: Vec::new(),
        }
    }

    /// Whether it began amid reasoning, with no tag before it; none: that is not known.
    pub fn began_amid(&self) -> Option<bool> {
        self.began_amid
    }

    /// Takes in more of it.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        self.run(false);
        std::mem::take(&mut self.out)
    }

    /// The end of the answer. `cut_off`: at the limit of its tokens.
    pub fn end(&mut self, cut_off: bool) -> Vec<Piece> {
        self.run(true);
        if let State::Reasoning(reasoning) = std::mem::replace(&mut self.state, State::Words) {
            self.unclosed(reasoning, cut_off);
        }
        let blank = std::mem::take(&mut self.blank);
        if !blank.is_empty() && !self.called {
            self.out.push(Piece::Text(blank));
        }
        std::mem::take(&mut self.out)
    }

    fn run(&mut self, end: bool) {
        loop {
            let goes_on = match std::mem::replace(&mut self.state, State::Words) {
                State::Start { cleared } => self.start(cleared, end),
                State::Reasoning(reasoning) => self.reason(reasoning, end),
                State::Words => self.words(end),
                State::Block(block) => self.block(block, end),
            };
            if !goes_on {
                break;
            }
        }
        self.held.drain(..self.at);
        self.at = 0;
    }

    fn rest(&self) -> &str {
        &self.held[self.at..]
    }

    /// Goes on behind so many bytes.
    fn pass(&mut self, n: usize) {
        self.at += n;
        self.looked = 0;
    }

    /// Goes on in a state, or waits in it for more.
    fn set(&mut self, state: State, goes_on: bool) -> bool {
        self.state = state;
        goes_on
    }

    fn start(&mut self, cleared: bool, end: bool) -> bool {
        let n = self.rest().len() - self.rest().trim_start().len();
        let blank = self.held[self.at..self.at + n].to_owned();
        self.pass(n);
        if !cleared {
            self.blank.push_str(&blank);
        }
        if self.rest().is_empty() {
            return self.set(State::Start { cleared }, false);
        }
        match self.opening(end) {
            Begins::Perhaps if !end => self.set(State::Start { cleared }, false),
            Begins::Whole(n, opening) => {
                let mark = self.rest()[..n].to_owned();
                self.pass(n);
                self.blank.clear();
                self.opened(opening, mark)
            }
            Begins::Perhaps | Begins::No if self.amid => {
                self.line = Line::default();
                self.set(State::Reasoning(Reasoning::new(Close::Any, String::new())), true)
            }
            Begins::Perhaps | Begins::No => self.set(State::Words, true),
        }
    }

    /// What stands at the beginning and is not for people.
    fn opening(&self, end: bool) -> Begins<Opening> {
        let text = self.rest();
        let found = marks::opens_reasoning(text).map(Opening::Reasoning);
        let found = found.or(|| marks::closes_reasoning(text).map(|()| Opening::Close));
        let found = found.or(|| marks::opens_message(text).map(Opening::Message));
        let found = found.or(|| marks::is_before(text).map(|()| Opening::Before));
        let found = match self.reasoned {
            true => found.or(|| marks::opens_frame(text).map(Opening::Frame)),
            false => found,
        };
        match found {
            // A header needs something behind it, be it the end.
            Begins::Perhaps if end => marks::is_before(&format!("{text}\n")).map(|()| Opening::Before),
            found => found,
        }
    }

    fn opened(&mut self, opening: Opening, mark: String) -> bool {
        let start = State::Start { cleared: true };
        match opening {
            Opening::Before => self.set(start, true),
            Opening::Frame(close) => {
                self.frame = Some(close);
                self.set(start, true)
            }
            Opening::Close => {
                (self.amid, self.reasoned) = (false, true);
                self.set(start, true)
            }
            Opening::Reasoning(close) => {
                self.amid = false;
                self.set(State::Reasoning(Reasoning::new(Close::Mark(close), mark)), true)
            }
            Opening::Message(message) => {
                (self.amid, self.is_harmony) = (false, true);
                let state = match message {
                    Message::Reasoning => State::Reasoning(Reasoning::new(Close::Message, String::new())),
                    Message::Words => start,
                    Message::Call(name) => State::Block(Block::named(name)),
                };
                self.set(state, true)
            }
        }
    }

    fn reason(&mut self, mut reasoning: Reasoning, end: bool) -> bool {
        loop {
            let rest = &self.held[self.at + self.looked..];
            let Some(n) = rest.find(reasoning.close.first()) else {
                let n = self.rest().len();
                self.think(&mut reasoning, n);
                return self.set(State::Reasoning(reasoning), false);
            };
            let n = self.looked + n;
            self.think(&mut reasoning, n);
            match self.closing(&reasoning, end) {
                Some(Some(n)) => {
                    self.pass(n);
                    self.began_amid = self.began_amid.or(Some(reasoning.close == Close::Any));
                    (self.amid, self.reasoned) = (false, true);
                    self.line = Line::default();
                    return self.set(State::Start { cleared: true }, true);
                }
                Some(None) => self.looked = self.rest().chars().next().map_or(0, char::len_utf8),
                None => return self.set(State::Reasoning(reasoning), false),
            }
        }
    }

    /// Passes so many bytes on as reasoning.
    fn think(&mut self, reasoning: &mut Reasoning, n: usize) {
        if n > 0 {
            let text = self.rest()[..n].to_owned();
            self.line.read(&text);
            reasoning.body.push_str(&text);
            self.pass(n);
            self.out.push(Piece::Reasoning(text));
        }
    }

    /// How long the mark is that closes reasoning here. None: it is not all there; none in it: there is no such mark.
    fn closing(&self, reasoning: &Reasoning, end: bool) -> Option<Option<usize>> {
        let rest = self.rest();
        let found = match reasoning.close {
            Close::Mark(mark) => marks::begins(rest, mark),
            Close::Message => marks::ends_message(rest).map(|_| ()),
            Close::Any => marks::closes_reasoning(rest),
        };
        match (found, reasoning.close) {
            (Begins::Whole(n, ()), Close::Mark(_)) => Some(Some(n)),
            (Begins::Whole(n, ()), Close::Message) => {
                Some(Some(if matches!(marks::ends_message(rest), Begins::Whole(_, true)) { n } else { 0 }))
            }
            (Begins::Whole(n, ()), Close::Any) => match rest[n..].chars().next() {
                None if !end => None,
                next => Some((!self.line.in_code && self.line.closes(next)).then_some(n)),
            },
            (Begins::Perhaps, _) if !end => None,
            (Begins::Perhaps | Begins::No, _) => Some(None),
        }
    }

    /// Reasoning that does not close. Calls at its end count: some models do not close it before them. Cut off, it is what
    /// the model spent its tokens on. Else the tag meant nothing, or was forgotten, and the answer is in there.
    fn unclosed(&mut self, reasoning: Reasoning, cut_off: bool) {
        let Reasoning { close, opening, body } = reasoning;
        let mut inner = Self::new(self.tools.clone(), false);
        (inner.state, inner.spoke) = (State::Words, true);
        let mut pieces = inner.push(&body);
        pieces.extend(inner.end(cut_off));
        let is_sound = |piece: &Piece| matches!(piece, Piece::Call { is_sound: true, .. });
        if pieces.iter().any(is_sound) {
            self.called = true;
            self.out.extend(pieces.into_iter().filter(is_sound));
        } else if !cut_off {
            // A tag that stands in a sentence is part of it.
            if matches!(close, Close::Mark(_)) && !body.starts_with('\n') {
                self.out.push(Piece::Text(opening));
            }
            self.out.extend(pieces);
            self.began_amid = self.began_amid.or((close == Close::Any).then_some(false));
        }
    }

    fn words(&mut self, end: bool) -> bool {
        let mut from = self.at;
        loop {
            let Some(n) = self.rest().find(TRIGGERS) else {
                self.at = self.held.len();
                self.said(from);
                return false;
            };
            self.at += n;
            self.said(from);
            from = self.at;
            match self.look(end) {
                Look::Pass(n) => self.at += n,
                Look::Wait => return self.set(State::Words, false),
                Look::Drop(n) => {
                    self.pass(n);
                    from = self.at;
                }
                Look::Go(state) => return self.set(state, true),
            }
        }
    }

    /// Passes on what stands between there and here.
    fn said(&mut self, from: usize) {
        if from < self.at {
            let text = self.held[from..self.at].to_owned();
            self.looked = 0;
            self.say(&text);
        }
    }

    fn say(&mut self, text: &str) {
        self.line.read(text);
        if self.called {
            return self.out.push(Piece::Reasoning(text.to_owned()));
        }
        let words = text.trim_end();
        if words.is_empty() {
            return self.blank.push_str(text);
        }
        self.spoke = true;
        if std::mem::take(&mut self.gap) {
            "\n\n".clone_into(&mut self.blank);
        }
        let mut out = std::mem::take(&mut self.blank);
        out.push_str(words);
        text[words.len()..].clone_into(&mut self.blank);
        self.out.push(Piece::Text(out));
    }

    /// Looks at what begins here.
    fn look(&mut self, end: bool) -> Look {
        let rest = &self.held[self.at..];
        let Some(first) = rest.chars().next() else { return Look::Wait };
        let place = match (self.line.has_words, self.spoke) {
            (false, false) => Place::First,
            (false, true) => Place::OwnLine,
            (true, _) => Place::Inline,
        };
        let pass = Look::Pass(first.len_utf8());
        if first == '`' {
            return if self.line.has_words { pass } else { self.look_at_fence(place, end) };
        }
        if self.line.in_fence || self.line.in_code {
            return pass;
        }
        let (block, closing) = (Block::opens(rest, place), marks::closes_reasoning(rest));
        let (ending, opening) = (self.ending(rest), marks::opens_reasoning(rest));
        match (block, closing, ending, opening) {
            (Begins::Whole(_, block), ..) => Look::Go(State::Block(block)),
            (_, Begins::Whole(n, ()), ..) => self.look_at_closing(n, end),
            (_, _, Begins::Whole(n, is_message), _) => self.look_at_ending(n, is_message, end),
            (_, _, _, Begins::Whole(n, _)) => {
                self.has_opening = true;
                Look::Pass(n)
            }
            (block, closing, ending, opening)
                if !end
                    && (block.is_perhaps()
                        || closing.is_perhaps()
                        || ending.is_perhaps()
                        || opening.is_perhaps()) =>
            {
                Look::Wait
            }
            _ => Block::bare(rest, place).map_or(pass, |block| Look::Go(State::Block(block))),
        }
    }

    fn look_at_fence(&mut self, place: Place, end: bool) -> Look {
        let rest = &self.held[self.at..];
        match marks::begins(rest, "```") {
            Begins::Whole(n, ()) if self.line.in_fence => {
                self.line.in_fence = false;
                Look::Pass(n)
            }
            Begins::Whole(n, ()) => match Block::fence(rest, place, end) {
                Begins::Whole(_, block) => Look::Go(State::Block(block)),
                Begins::Perhaps => Look::Wait,
                Begins::No => {
                    self.line.in_fence = true;
                    Look::Pass(n)
                }
            },
            Begins::Perhaps if !end => Look::Wait,
            Begins::Perhaps | Begins::No => Look::Pass(1),
        }
    }

    /// The end of a message, of a frame or of a turn, true of a message's.
    fn ending(&self, text: &str) -> Begins<bool> {
        let message = if self.is_harmony { marks::ends_message(text).map(|_| true) } else { Begins::No };
        let left = message.or(|| match self.called {
            true => marks::is_left_over(text).map(|()| false),
            false => marks::ends_turn(text).map(|()| false),
        });
        left.or(|| self.frame.map_or(Begins::No, |close| marks::begins(text, close).map(|()| false)))
    }

    fn look_at_closing(&mut self, n: usize, end: bool) -> Look {
        if self.has_opening || self.called {
            return Look::Pass(n);
        }
        if self.rest().len() == n && !end {
            return Look::Wait;
        }
        if !self.line.closes(self.held[self.at + n..].chars().next()) {
            return Look::Pass(n);
        }
        match self.has_words_behind(n) {
            false if !end => Look::Wait,
            // Nothing follows it, so the answer stands before it.
            false => Look::Drop(n),
            true => {
                self.pass(n);
                self.out.push(Piece::TextWasReasoning);
                self.blank.clear();
                self.line = Line::default();
                self.began_amid = Some(true);
                (self.spoke, self.reasoned) = (false, true);
                Look::Go(State::Start { cleared: true })
            }
        }
    }

    fn look_at_ending(&mut self, n: usize, is_message: bool, end: bool) -> Look {
        if is_message {
            let belongs = matches!(marks::ends_message(self.rest()), Begins::Whole(_, true));
            match marks::opens_message(self.rest()) {
                _ if belongs => self.pass(n),
                Begins::Whole(..) => {}
                Begins::Perhaps if !end => return Look::Wait,
                Begins::Perhaps | Begins::No => return Look::Pass(n),
            }
            self.gap = self.spoke;
            return Look::Go(State::Start { cleared: true });
        }
        if self.called {
            return Look::Drop(n);
        }
        if self.line.last == Some(' ') {
            return Look::Pass(n);
        }
        match self.has_words_behind(n) {
            true => Look::Pass(n),
            false if !end => Look::Wait,
            false => Look::Drop(n),
        }
    }

    /// Whether words stand behind so many bytes.
    fn has_words_behind(&mut self, n: usize) -> bool {
        let from = n.max(self.looked);
        let behind = self.rest()[from..].trim_start();
        let has_words = !behind.is_empty();
        self.looked = self.rest().len() - behind.len();
        has_words
    }

    fn block(&mut self, mut block: Block, end: bool) -> bool {
        match block.judge(&self.held[self.at..], end, &self.tools) {
            Verdict::Wait => self.set(State::Block(block), false),
            Verdict::Text(n) => {
                let from = self.at;
                self.at += n;
                self.said(from);
                self.set(State::Words, true)
            }
            Verdict::Fence(n) => {
                let from = self.at;
                self.at += n;
                self.said(from);
                (self.line.in_fence, self.line.in_code) = (true, false);
                self.set(State::Words, true)
            }
            Verdict::Calls(n, calls) => {
                self.pass(n);
                self.called = true;
                self.blank.clear();
                self.line = Line::default();
                calls.into_iter().for_each(|call| self.call(call));
                let next = if self.is_harmony { State::Start { cleared: true } } else { State::Words };
                self.set(next, true)
            }
        }
    }

    fn call(&mut self, call: Written) {
        let is_sound = call.is_sound(&self.tools);
        let (name, arguments) = call.into_parts();
        self.out.push(Piece::Call { name, arguments, is_sound });
    }
}

/// What stands at the beginning of an answer.
enum Opening {
    /// Reasoning, with what closes it.
    Reasoning(&'static str),
    /// The end of reasoning whose beginning is not there.
    Close,
    Message(Message),
    Before,
    Frame(&'static str),
}

/// What becomes of what begins here.
enum Look {
    /// So many bytes are text.
    Pass(usize),
    Wait,
    /// So many bytes are left out.
    Drop(usize),
    Go(State),
}

/// What something may begin with that is looked at.
const TRIGGERS: [char; 5] = ['<', '[', '{', '`', '◁'];

impl Reasoning {
    fn new(close: Close, opening: String) -> Self {
        Self { close, opening, body: String::new() }
    }
}

impl Close {
    /// What its mark begins with.
    fn first(self) -> &'static [char] {
        match self {
            Self::Mark(mark) if mark.starts_with('a') => &['a', 'A'],
            Self::Mark(_) | Self::Any | Self::Message => &['<', '[', '◁'],
        }
    }
}

#[cfg(test)]
mod tests;
