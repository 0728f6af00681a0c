//! Answers of model servers.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use cairn_llm::fuzzing::{self, WireFormat};
use cairn_types::message::ToolCall;
use cairn_types::model::{Finish, ModelError, ModelEvent, Usage};
use tokio::runtime::{Builder, Runtime};

use crate::{in_pieces, lossy};

pub fn openai_answer(data: &[u8]) {
    answer(WireFormat::OpenAi, data);
}

pub fn responses_answer(data: &[u8]) {
    answer(WireFormat::Responses, data);
}

pub fn anthropic_answer(data: &[u8]) {
    answer(WireFormat::Anthropic, data);
}

/// Longest message of an error.
const MESSAGE_MAX: usize = 10_000;

/// However a stream is cut, the answer is the same, or fails in the same way; it ends once, and its calls are whole.
fn answer(format: WireFormat, data: &[u8]) {
    let (whole, pieces) = in_pieces(data);
    let pieces: Vec<Vec<u8>> = pieces.into_iter().map(<[u8]>::to_vec).collect();
    let at_once = run(format, vec![whole.to_vec()]);
    let cut = run(format, pieces);
    match (&at_once, &cut) {
        (Ok(one), Ok(other)) => assert_eq!(said(one), said(other), "in pieces"),
        (Err(one), Err(other)) => assert_eq!(one, other, "in pieces"),
        _ => panic!("at once {at_once:?}, in pieces {cut:?}"),
    }
    checked(&at_once, whole);
    let text = lossy(whole);
    checked(&fuzzing::whole(format, &text), text.as_bytes());
    if let (Ok(events), WireFormat::OpenAi | WireFormat::Responses) = (&at_once, format) {
        let calls = said(events).calls;
        let ids: BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), calls.len(), "two calls of one id");
    }
}

/// An answer, whatever its pieces.
#[derive(Debug, Default, PartialEq)]
struct Said {
    text: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    ends: Vec<(Finish, Option<Usage>)>,
}

fn said(events: &[ModelEvent]) -> Said {
    let mut said = Said::default();
    for event in events {
        assert!(said.ends.is_empty(), "something comes after the end");
        match event {
            ModelEvent::Text(text) => said.text.push_str(text),
            ModelEvent::Reasoning(text) => said.reasoning.push_str(text),
            ModelEvent::TextWasReasoning => said.reasoning.push_str(&std::mem::take(&mut said.text)),
            ModelEvent::ToolCall(call) => said.calls.push(call.clone()),
            // Told early by some, and only in part: what counts is the end.
            ModelEvent::Sent(_) | ModelEvent::State(_) | ModelEvent::Usage(_) => {}
            ModelEvent::Done { finish, usage, .. } => said.ends.push((*finish, *usage)),
        }
    }
    said
}

fn checked(answer: &Result<Vec<ModelEvent>, ModelError>, sent: &[u8]) {
    let events = match answer {
        Ok(events) => events,
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && message.len() < MESSAGE_MAX, "{message}");
            assert!(!message.chars().any(char::is_control), "{message:?}");
            return;
        }
    };
    let said = said(events);
    assert_eq!(said.ends.len(), 1, "an answer ends once");
    assert!(said.text.len() + said.reasoning.len() <= 3 * sent.len(), "more is told than was sent");
    for call in &said.calls {
        assert!(!call.name.is_empty() && !call.id.is_empty(), "a call without name or id");
    }
    if let [(Finish::ToolCalls, _)] = said.ends[..] {
        assert!(!said.calls.is_empty(), "calls are announced and there are none");
    }
}

/// Any body of a refusal is an error in few words, without control characters.
pub fn refusal(data: &[u8]) {
    let Some((first, body)) = data.split_first() else { return };
    let statuses = [400, 401, 403, 404, 408, 413, 429, 500, 501, 503, 529, 302];
    let status = statuses[usize::from(*first) % statuses.len()];
    let error = fuzzing::refusal(status, body);
    checked(&Err(error), body);
}

fn run(format: WireFormat, pieces: Vec<Vec<u8>>) -> Result<Vec<ModelEvent>, ModelError> {
    thread_local! {
        static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
    }
    RUNTIME.with(|runtime| {
        let built = || Builder::new_current_thread().enable_time().build().expect("a runtime can be built");
        runtime.get_or_init(built).block_on(fuzzing::streamed(format, pieces))
    })
}
