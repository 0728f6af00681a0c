//! Tool calls that arrive in pieces. By the format each piece has the index of its call, and the first one an id and a name.
//! Servers and gateways leave the index out, number all calls 0, or count on where they should not; what a piece belongs to is
//! then told by what it has, and by whether the arguments of a call are whole.

use serde_json::{Map, Value};

use cairn_types::message::ToolCall;
use cairn_types::model::{Finish, ModelError};

use crate::answer::arguments_of;
use crate::json::Joined;

/// A tool call that is still arriving.
#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    joined: Joined,
    nesting: Nesting,
    /// Fields that we do not know, such as `extra_content` with a signature; they go back with the call.
    fields: Map<String, Value>,
}

impl PartialCall {
    /// Whether a piece with a name and these arguments goes on with this call.
    fn takes(&self, index: Option<u64>, id: Option<&str>, name: &str, arguments: &str) -> bool {
        let is_open = !self.arguments.is_empty() && !self.nesting.is_whole();
        match id {
            _ if self.name.is_empty() => true,
            Some(id) if self.id == id => true,
            // Its id changes from piece to piece.
            Some(_) if !self.id.is_empty() => is_open && self.name == name,
            _ if self.name == name => is_open || arguments.is_empty() || self.arguments.is_empty(),
            // The name itself comes in pieces.
            _ => index.is_some() && self.arguments.is_empty(),
        }
    }

    fn add(&mut self, id: Option<&str>, name: &str, arguments: &str, has_halves: bool) {
        if self.id.is_empty() {
            self.id = id.unwrap_or_default().to_owned();
        }
        if self.name != name {
            self.name.push_str(name);
        }
        // Some tell the whole call once more at its end.
        if self.nesting.is_whole() && self.arguments == arguments {
            return;
        }
        let arguments = self.joined.next(arguments, has_halves);
        self.nesting.take(&arguments);
        self.arguments.push_str(&arguments);
    }
}

/// A call with its fields that go back with it.
pub(super) type WholeCall = (ToolCall, Map<String, Value>);

#[derive(Default)]
pub(super) struct PartialCalls(Vec<PartialCall>);

impl PartialCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the arguments of a call have begun and not ended.
    pub(super) fn are_open(&self) -> bool {
        self.0.iter().any(|call| !call.arguments.is_empty() && !call.nesting.is_whole())
    }

    /// Takes in the pieces of one chunk. `has_halves`: as of the chunk.
    pub(super) fn take(&mut self, pieces: &[Value], has_halves: bool) {
        for (position, piece) in pieces.iter().enumerate() {
            // In a chunk with several pieces, their order is that of the calls.
            self.take_piece((pieces.len() > 1).then_some(position), piece, has_halves);
        }
    }

    fn take_piece(&mut self, position: Option<usize>, piece: &Value, has_halves: bool) {
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().filter(|id| !id.is_empty());
        let name = piece["function"]["name"].as_str().unwrap_or_default();
        let whole;
        let arguments = match &piece["function"]["arguments"] {
            Value::String(text) => text.as_str(),
            Value::Null => "",
            other => {
                whole = other.to_string();
                &whole
            }
        };
        let found = if name.is_empty() {
            self.of_tail(index, id, position)
        } else {
            self.of_head(index, id, position).filter(|idx| self.0[*idx].takes(index, id, name, arguments))
        };
        let idx = match found {
            Some(idx) => idx,
            None if id.is_none() && name.is_empty() && arguments.is_empty() => return,
            None => {
                self.0.push(PartialCall { index, ..PartialCall::default() });
                self.0.len() - 1
            }
        };
        self.0[idx].add(id, name, arguments, has_halves);
        let known = |key: &str| matches!(key, "index" | "id" | "type" | "function");
        let unknown =
            piece.as_object().into_iter().flatten().filter(|(key, value)| !known(key) && !value.is_null());
        self.0[idx].fields.extend(unknown.map(|(key, value)| (key.clone(), value.clone())));
    }

    /// The call that a piece with a name may go on with.
    fn of_head(&self, index: Option<u64>, id: Option<&str>, position: Option<usize>) -> Option<usize> {
        match (index, id, position) {
            (Some(_), _, _) => self.0.iter().rposition(|call| call.index == index || call.name.is_empty()),
            (None, Some(id), _) => self.0.iter().rposition(|call| call.id == id || call.name.is_empty()),
            (None, None, Some(place)) => Some(place).filter(|place| *place < self.0.len()),
            (None, None, None) => self.0.len().checked_sub(1),
        }
    }

    /// The call that a piece without a name goes on with: by id, by index, by its place; else the newest. A call whose arguments are
    /// whole takes no more where the newest one still waits for some.
    fn of_tail(&self, index: Option<u64>, id: Option<&str>, position: Option<usize>) -> Option<usize> {
        let newest = self.0.len().checked_sub(1)?;
        let of_id = id.and_then(|id| self.0.iter().rposition(|call| call.id == id));
        let of_index = index.and_then(|_| self.0.iter().rposition(|call| call.index == index));
        let of_place = position.filter(|place| index.is_none() && *place <= newest);
        let found = of_id.or(of_index).or(of_place).unwrap_or(newest);
        let is_done = self.0[found].nesting.is_whole() && !self.0[newest].nesting.is_whole();
        Some(if is_done { newest } else { found })
    }

    /// The calls. Those without an id, and those with one that was used before, get one with `n_messages` in it.
    ///
    /// # Errors
    /// One has no name.
    pub(super) fn end(self, n_messages: usize, finish: Finish) -> Result<Vec<WholeCall>, ModelError> {
        let mut calls: Vec<WholeCall> = Vec::with_capacity(self.0.len());
        for (idx, mut call) in self.0.into_iter().enumerate() {
            if call.name.is_empty() {
                return Err(ModelError::Protocol("a tool call has no name".to_owned()));
            }
            let mut id = call.id;
            let mut n = idx;
            // A server may use such ids itself.
            while id.is_empty() || calls.iter().any(|(other, _)| other.id == id) {
                id = format!("call_{n_messages}_{n}");
                n += 1;
            }
            call.arguments.extend(call.joined.end());
            let arguments = arguments_of(call.arguments, finish);
            calls.push((ToolCall { id, name: call.name, arguments }, call.fields));
        }
        Ok(calls)
    }
}

/// How deep a text of JSON is in objects and lists, as far as it has come.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl Nesting {
    fn take(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.begun |= !byte.is_ascii_whitespace();
        }
    }

    /// Something came, and what was opened in it is closed.
    fn is_whole(&self) -> bool {
        self.begun && self.depth == 0 && !self.in_string
    }
}
