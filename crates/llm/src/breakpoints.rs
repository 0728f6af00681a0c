//! Where a request has breakpoints for the provider's prompt cache, whatever the wire format.
//!
//! A request reads what an earlier one has written: the beginning of the request before it, up to what is volatile. So one
//! breakpoint stands where that request had its last, and one where this request has its last. What is left of
//! [`MAX_BREAKPOINTS`] is for the system prompt and the summaries.

use cairn_core::tune::MAX_BREAKPOINTS;
use cairn_types::ids::TextId;
use cairn_types::model::{ChatRequest, Purpose};
use serde_json::{Value, json};

/// What a block of the conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// What people say.
    Person,
    /// A result of a tool.
    Result,
    /// What the model says, its calls too.
    Model,
    /// It is not there, or another, in the next turn. It is never read again from there on.
    Volatile,
}

/// The blocks of the conversation behind which a breakpoint stands, most important first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Breakpoints {
    /// The last block before the volatile tail.
    last: usize,
    /// Where the request before this one had its last.
    asked: Option<usize>,
    /// People's words before that, where it is a result. What the rounds of a turn have written may be bound to the turn, and
    /// not be there in the next one: what was written for its first request is.
    said: Option<usize>,
}

impl Breakpoints {
    /// `on_model`: a breakpoint may stand behind words or calls of the model, too. That is also where it stands when a result
    /// that holds the volatile tail is one block. None: nothing lasts.
    pub(crate) fn of(places: &[Place], on_model: bool) -> Option<Self> {
        let may_stand = |place: &Place| match place {
            Place::Person | Place::Result => true,
            Place::Model => on_model,
            Place::Volatile => false,
        };
        let last = places.iter().rposition(may_stand)?;
        let answer = places[..=last].iter().rposition(|place| *place == Place::Model).unwrap_or(0);
        let before = &places[..answer];
        let is_said = |place: &Place| matches!(place, Place::Person | Place::Result);
        let Some(asked) = before.iter().rposition(is_said) else {
            return Some(Self { last, asked: None, said: None });
        };
        if before[asked] == Place::Person {
            return Some(Self { last, asked: Some(asked), said: None });
        }
        // The request before this one ended with that result. Where the tail was in it, the breakpoint stood before it.
        let held_tail = on_model && !before.contains(&Place::Volatile);
        let said = before.iter().rposition(|place| *place == Place::Person);
        Some(Self { last, asked: Some(asked - usize::from(held_tail && asked > 0)), said })
    }

    /// Without that of people's words before the turn's rounds, as requests of earlier versions had them.
    pub(crate) fn without_said(self) -> Self {
        Self { said: None, ..self }
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = usize> {
        [Some(self.last), self.asked, self.said].into_iter().flatten()
    }
}

/// How many breakpoints are left for the system prompt and the summaries.
pub(crate) fn left_for_system(talk: Option<&Breakpoints>) -> usize {
    MAX_BREAKPOINTS - talk.map_or(0, |talk| talk.blocks().count())
}

/// A message of the system has the prompt, the line before the stack, and then the stack.
const BEFORE_STACK: usize = 2;

/// Adds breakpoints to a body of OpenAI's (<https://developers.openai.com/api/docs/guides/prompt-caching>), whose `list` has the
/// conversation. `text`: what a part with words is called there. `volatile`: the parts that are never read again, as the numbers of item
/// and part.
///
/// The server would put one behind the newest message by itself, the volatile tail in it: that would be written, at a price, and
/// never be read. So it is asked for none of its own. A beginning is found only where a request has a breakpoint again. A request that
/// is no reply is never read again: it has none.
pub(crate) fn add(
    body: &mut Value,
    list: &str,
    text: &str,
    request: &ChatRequest,
    volatile: &[(usize, usize)],
) {
    body["prompt_cache_options"] = json!({"mode": "explicit"});
    let Some(items) = body[list].as_array_mut() else { return };
    if !matches!(request.purpose, Purpose::Reply { .. }) {
        return;
    }
    let mut system = Vec::new();
    let mut parts = Vec::new();
    let mut places = Vec::new();
    for (idx, item) in items.iter_mut().enumerate() {
        let Some((place, key)) = parted(item) else {
            places.push(Place::Model);
            parts.push((idx, "", 0));
            continue;
        };
        if let Value::String(words) = &item[key] {
            item[key] = json!([{"type": text, "text": words}]);
        }
        for part in 0..item[key].as_array().map_or(0, Vec::len) {
            let at = (idx, key, part);
            match place {
                Some(_) if volatile.contains(&(idx, part)) => places.push(Place::Volatile),
                Some(place) => places.push(place),
                None => {
                    system.push(at);
                    continue;
                }
            }
            parts.push(at);
        }
    }
    let found = Breakpoints::of(&places, false);
    let mut marked: Vec<_> = found.iter().flat_map(Breakpoints::blocks).map(|at| parts[at]).collect();
    // Behind the stack; then behind what it was before its last item, or behind the prompt where it has only one.
    let n_items = system.len().saturating_sub(BEFORE_STACK);
    let before = if n_items > 1 { system.len() - 2 } else { 0 };
    let of_system = system.last().into_iter().chain(system.get(before));
    marked.extend(of_system.take(left_for_system(found.as_ref())));
    for (item, key, part) in marked {
        items[item][key][part]["prompt_cache_breakpoint"] = json!({"mode": "explicit"});
    }
    // One for each channel: nobody finds out by what the cache holds what others have said. No name is in it.
    body["prompt_cache_key"] = TextId::of(&request.channel.to_string()).as_str().into();
}

/// Where an item of OpenAI's formats has parts behind which a breakpoint may stand, and what they are; `Some(None)`: of the system.
/// None: it is of the model.
fn parted(item: &Value) -> Option<(Option<Place>, &'static str)> {
    match (item["role"].as_str(), item["type"].as_str()) {
        (Some("system" | "developer"), _) => Some((None, "content")),
        (Some("user"), _) => Some((Some(Place::Person), "content")),
        (Some("tool"), _) => Some((Some(Place::Result), "content")),
        (_, Some("function_call_output")) => Some((Some(Place::Result), "output")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::message::Part;
    use cairn_types::model::ChatMessage;
    use cairn_types::wire::format::{Wire, WireFormat};
    use rstest::rstest;

    use super::Place::{Model, Person, Result, Volatile};
    use super::*;
    use crate::options::ServerOptions;
    use crate::remedy::Remedy;
    use crate::testing::{assistant, calls, context, image, request, result, user};
    use crate::wires;

    const MARK: &str = "prompt_cache_breakpoint";

    #[rstest]
    #[case::nothing(&[], &[], &[])]
    #[case::only_the_tail(&[Volatile], &[], &[])]
    #[case::a_first_message(&[Person, Volatile], &[0], &[0])]
    #[case::a_second_turn(&[Person, Model, Person, Volatile], &[2, 0], &[2, 0])]
    #[case::two_people(&[Person, Person, Model, Person, Person, Volatile], &[4, 1], &[4, 1])]
    #[case::the_tail_behind_a_result(&[Person, Model, Result, Volatile], &[2, 0], &[2, 0])]
    #[case::the_tail_in_a_result(&[Person, Model, Volatile], &[0], &[1, 0])]
    #[case::a_second_round(
        &[Person, Model, Result, Model, Result, Volatile], &[4, 2, 0], &[4, 1, 0]
    )]
    #[case::the_tail_has_its_place_in_the_turn(
        &[Person, Volatile, Model, Model, Result, Model, Result], &[6, 4, 0], &[6, 4, 0]
    )]
    #[case::its_first_round(&[Person, Volatile, Model, Result], &[3, 0], &[3, 0])]
    #[case::after_rounds(
        &[Person, Model, Result, Model, Result, Model, Person, Volatile], &[6, 4, 0], &[6, 3, 0]
    )]
    #[case::the_model_first(&[Model, Person, Volatile], &[1], &[1])]
    #[case::the_model_last(&[Person, Model, Volatile], &[0], &[1, 0])]
    fn the_last_block_and_where_the_request_before_ended(
        #[case] places: &[Place],
        #[case] on_people: &[usize],
        #[case] on_all: &[usize],
    ) {
        let blocks = |on_model| {
            let found = Breakpoints::of(places, on_model);
            found.iter().flat_map(Breakpoints::blocks).collect::<Vec<usize>>()
        };
        assert_eq!(blocks(false), on_people, "behind people and results");
        assert_eq!(blocks(true), on_all, "behind all");
    }

    fn wire(breakpoints: bool) -> Wire {
        let options = ServerOptions {
            images: true,
            cache_breakpoints: Some(breakpoints),
            ..ServerOptions::new("m", "http://127.0.0.1:1/v1", "gpt-5.6-luna")
        };
        options.wire(WireFormat::Openai, "max_completion_tokens")
    }

    fn body(request: &ChatRequest) -> Value {
        serde_json::from_str(&wires::body(&wire(true), request).text()).unwrap()
    }

    /// Each message's role and its parts in short; `*` behind a part with a breakpoint.
    fn shape(body: &Value) -> Vec<String> {
        let part = |part: &Value| {
            let words = part["text"].as_str().unwrap_or("picture").replace('\n', "_");
            words + if part.get(MARK).is_some() { "*" } else { "" }
        };
        let one = |message: &Value| {
            let parts: Vec<String> = message["content"].as_array().into_iter().flatten().map(part).collect();
            let words = message["content"].as_str().unwrap_or_default();
            format!("{}: {words}{}", message["role"].as_str().unwrap(), parts.join(" "))
        };
        body["messages"].as_array().unwrap().iter().map(one).collect()
    }

    #[rstest]
    #[case::a_first_message(vec![user("a"), context("t")], &["user: a* __t"])]
    #[case::neighbours_stay_apart(vec![user("a"), user("b"), context("t")], &["user: a __b* __t"])]
    #[case::a_second_turn(
        vec![user("a"), assistant("b"), user("c"), context("t")],
        &["user: a*", "assistant: b", "user: c* __t"]
    )]
    #[case::the_tail_behind_a_result(
        vec![user("a"), calls("", &["1", "2"]), result("1", "x"), result("2", "y"), context("t")],
        &["user: a*", "assistant: ", "tool: x", "tool: y* __t"]
    )]
    #[case::the_tail_has_its_place_in_the_turn(
        vec![user("a"), context("t"), calls("", &["1"]), result("1", "x"), calls("", &["2"]), result("2", "y")],
        &["user: a* __t", "assistant: ", "tool: x*", "assistant: ", "tool: y*"]
    )]
    #[case::after_a_round(
        vec![user("a"), calls("", &["1"]), result("1", "x"), assistant("b"), user("c"), context("t")],
        &["user: a*", "assistant: ", "tool: x*", "assistant: b", "user: c* __t"]
    )]
    fn breakpoints_stand_before_the_tail_and_where_the_request_before_had_its_last(
        #[case] talk: Vec<ChatMessage>,
        #[case] expected: &[&str],
    ) {
        let sent = shape(&body(&request(talk)));
        assert_eq!(sent[1..], *expected);
        let n_marks = expected.iter().map(|message| message.matches('*').count()).sum::<usize>();
        let system = if n_marks > 2 { "system: prompt __summaries*" } else { "system: prompt* __summaries*" };
        assert_eq!(sent[0], system, "four at most, and one behind the summaries in any case");
    }

    #[rstest]
    #[case(&["prompt"], "prompt*")]
    #[case(&["prompt", "guide", "one"], "prompt* __guide __one*")]
    #[case(&["prompt", "guide", "one", "two"], "prompt __guide __one* __two*")]
    fn what_was_written_before_another_summary_came_is_found(
        #[case] system: &[&str],
        #[case] expected: &str,
    ) {
        let system = system.iter().map(|&block| block.to_owned()).collect();
        let sent = body(&ChatRequest { system, ..request(vec![user("a"), context("t")]) });
        assert_eq!(shape(&sent)[0], format!("system: {expected}"));
    }

    #[test]
    fn pictures_have_breakpoints_too() {
        let seen = ChatMessage::User { parts: vec![image("image/png")] };
        assert_eq!(shape(&body(&request(vec![seen, context("t")])))[1], "user: picture* __t");
    }

    #[test]
    fn the_frame_of_a_request() {
        let sent = body(&request(vec![user("hi"), context("t")]));
        assert_eq!(sent["prompt_cache_options"], json!({"mode": "explicit"}));
        assert_eq!(
            sent["messages"][1]["content"][0],
            json!({"type": "text", "text": "hi", MARK: {"mode": "explicit"}})
        );
        let key = sent["prompt_cache_key"].as_str().unwrap();
        assert!(key.len() == 32 && key.chars().all(|c| c.is_ascii_hexdigit()), "{key}");
        // A run is never read again: none is written, not even by the server itself.
        let purpose = Purpose::Merge { sources: Vec::new().into(), target_tokens: 1 };
        let sent = body(&ChatRequest { purpose, ..request(vec![user("hi")]) });
        assert_eq!(
            (sent.to_string().contains(MARK), &sent["prompt_cache_options"]),
            (false, &json!({"mode": "explicit"}))
        );
        assert!(sent.get("prompt_cache_key").is_none());
    }

    #[test]
    fn a_server_that_refuses_breakpoints_gets_what_others_get() {
        let seen = ChatMessage::User { parts: vec![Part::text("see"), image("image/png")] };
        let talk = vec![seen, calls("b", &["1"]), result("1", "x"), user("c"), user("d"), context("t")];
        let request = request(talk);
        let refused = |wire: Wire| {
            let remedies = vec![Remedy::NoBreakpoints.name().to_owned()];
            wires::body(&Wire { remedies, ..wire }, &request).text()
        };
        assert_eq!(refused(wire(true)), wires::body(&wire(false), &request).text());
        let claude = Wire { format: WireFormat::Anthropic, ..wire(true) };
        assert!(wires::body(&claude, &request).text().contains("cache_control"));
        assert!(!refused(claude).contains("cache_control"));
    }
}
