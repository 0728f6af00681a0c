//! Values as models write them where they write no JSON: Python's literals and calls, keys without quotes, the string marks of
//! Gemma.

use serde_json::{Map, Value};

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 32;

/// Longest name of a function or key, in bytes.
const WORD_MAX: usize = 128;

/// What strings stand between.
const QUOTES: [&str; 6] = ["\"\"\"", "'''", "\"", "'", "<|\"|>", "<escape>"];

/// Reads a text from its front.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// Passes over whitespace, and over that mark if it comes next.
    pub(super) fn eat(&mut self, mark: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// `NAME(KEY=VALUE, …)`.
    pub(super) fn call(&mut self) -> Option<(&'a str, Map<String, Value>)> {
        let name = self.word()?;
        if !self.eat("(") {
            return None;
        }
        Some((name, self.fields(")", 0)?))
    }

    pub(super) fn value(&mut self) -> Option<Value> {
        self.nested(0)
    }

    fn nested(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        if self.eat("{") {
            return self.fields("}", depth + 1).map(Value::Object);
        }
        if self.eat("[") {
            return self.list(depth + 1).map(Value::Array);
        }
        if let Some(text) = self.string() {
            return text.map(Value::String);
        }
        match self.word()? {
            "True" | "true" => Some(true.into()),
            "False" | "false" => Some(false.into()),
            "None" | "null" => Some(Value::Null),
            word => serde_json::from_str(word).ok().filter(Value::is_number),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        while !self.eat("]") {
            values.push(self.nested(depth)?);
            if !self.eat(",") {
                return self.eat("]").then_some(values);
            }
        }
        Some(values)
    }

    /// What stands between brackets that are open, by name.
    fn fields(&mut self, close: &str, depth: usize) -> Option<Map<String, Value>> {
        let mut fields = Map::new();
        while !self.eat(close) {
            let key = match self.string() {
                Some(key) => key?,
                None => self.word()?.to_owned(),
            };
            if !self.eat(":") && !self.eat("=") {
                return None;
            }
            fields.insert(key, self.nested(depth)?);
            if !self.eat(",") {
                return self.eat(close).then_some(fields);
            }
        }
        Some(fields)
    }

    /// A name, a number, or a word such as `True`.
    fn word(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '-');
        let end = self.rest.find(|c| !is_of_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (1..=WORD_MAX).contains(&word.len()).then_some(word)
    }

    /// None: there is no string; none in it: it does not end.
    fn string(&mut self) -> Option<Option<String>> {
        self.rest = self.rest.trim_start();
        let quote = QUOTES.into_iter().find(|quote| self.rest.starts_with(quote))?;
        let text = &self.rest[quote.len()..];
        if !matches!(quote, "\"" | "'") {
            return Some(text.split_once(quote).map(|(text, rest)| {
                self.rest = rest;
                text.to_owned()
            }));
        }
        let (mut out, mut chars) = (String::new(), text.chars());
        loop {
            let Some(c) = chars.next() else { return Some(None) };
            if quote.starts_with(c) {
                self.rest = chars.as_str();
                return Some(Some(out));
            }
            if c != '\\' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('u') => {
                    match chars.as_str().get(..4).and_then(|hex| u32::from_str_radix(hex, 16).ok()) {
                        Some(code) => {
                            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                            chars = chars.as_str()[4..].chars();
                        }
                        None => out.push_str("\\u"),
                    }
                }
                Some(c @ ('"' | '\'' | '\\' | '/')) => out.push(c),
                Some(c) => out.extend(['\\', c]),
                None => return Some(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::python("{'a': True, 'b': [1, -2.5, None,], }", Some(json!({"a": true, "b": [1, -2.5, null]})))]
    #[case::bare_keys("{a: 1, b = \"x\"}", Some(json!({"a": 1, "b": "x"})))]
    #[case::gemma("{q:<|\"|>a \"b\", {c}<|\"|>,n:42}", Some(json!({"q": "a \"b\", {c}", "n": 42})))]
    #[case::escapes(r#"["it's\n", 'say \'hi\' \u00e9']"#, Some(json!(["it's\n", "say 'hi' é"])))]
    #[case::over_lines("{'a': \"\"\"one\ntwo\"\"\"}", Some(json!({"a": "one\ntwo"})))]
    #[case::no_end("{'a': 'b", None)]
    #[case::no_value("{'a': }", None)]
    #[case::a_word("[maybe]", None)]
    fn values_are_read(#[case] text: &str, #[case] expected: Option<Value>) {
        assert_eq!(Reader::new(text).value(), expected);
    }

    #[test]
    fn nesting_is_bounded() {
        assert_eq!(Reader::new(&"[".repeat(100_000)).value(), None);
    }

    #[test]
    fn calls_are_read() {
        let mut reader = Reader::new("find(query=\"gate\", limit=3) and so on");
        let (name, fields) = reader.call().unwrap();
        assert_eq!((name, Value::Object(fields)), ("find", json!({"query": "gate", "limit": 3})));
        assert_eq!(reader.rest, " and so on");
        assert_eq!(Reader::new("find gate").call(), None);
        assert_eq!(Reader::new("find(\"gate\")").call(), None);
    }
}
