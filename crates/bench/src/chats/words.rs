//! Messages that can be told from one another wherever they turn up, and the answers to them.

use serde_json::Value;

use cairn_testkit::model::text_of;

/// Is in every message of a person, and nowhere else.
pub(crate) const SAID: &str = "wombat";

/// Is in every answer of the model, and nowhere else.
pub(crate) const ANSWERED: &str = "quokka";

/// Is in the name of every person, and nowhere else.
pub(crate) const NAMED: &str = "wallaby";

pub(crate) fn token(n: usize) -> String {
    format!("zq{n:06}")
}

/// A message. Long enough that a conversation of some dozen fills a small window.
pub(crate) fn message(n: usize) -> String {
    let token = token(n);
    format!(
        "{token} The {SAID} of day {n} dug a burrow beside the river, forty paces from the old mill, and stayed \
         there until the rain was over; what do you make of that, and where should we look for it next?"
    )
}

/// The messages that a text names, in its order.
pub(crate) fn tokens(text: &str) -> Vec<usize> {
    let numbers = text.split("zq").skip(1).filter_map(|rest| rest.get(..6));
    numbers.filter_map(|digits| digits.parse().ok()).collect()
}

/// The messages that a request wants answered: those behind the last answer.
pub(crate) fn asked(request: &Value) -> Vec<usize> {
    let messages = request.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let role = |message: &&Value| message.get("role").and_then(Value::as_str) == Some("user");
    let texts: Vec<String> = messages.iter().rev().take_while(role).map(text_of).collect();
    let words = |text: &String| {
        let context = if text.starts_with("<context>") { Some(0) } else { text.rfind("\n<context>") };
        tokens(&text[..context.unwrap_or(text.len())])
    };
    texts.iter().rev().flat_map(words).collect()
}

pub(crate) fn answer(asked: &[usize]) -> String {
    let tokens: Vec<String> = asked.iter().map(|n| token(*n)).collect();
    format!(
        "{}: the {ANSWERED} knows. **Look** near the `mill`, it says, before the river is up.",
        tokens.join(" ")
    )
}
