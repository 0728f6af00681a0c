//! Takes a request in: records it, checks it, finds its answer.

use std::sync::Arc;

use serde_json::{Value, json};

use super::check::{Rule, Violation, check};
use super::measure::Input;
use super::{Answer, Kind, Seen, Shared, State, wire};

/// A request on its way: counted as abandoned unless it ends.
pub(super) struct Flight {
    shared: Arc<Shared>,
    kind: Kind,
    ended: bool,
}

impl Flight {
    /// The answer was sent to its end.
    pub(super) fn end(mut self) {
        self.ended = true;
        self.shared.update(|state| state.tallies[self.kind as usize].answered += 1);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.update(|state| state.tallies[self.kind as usize].abandoned += 1);
        }
    }
}

/// What becomes of a request.
pub(super) struct Taken {
    pub(super) seen: Seen,
    pub(super) flight: Flight,
    pub(super) input: Input,
    /// The answer; a refusal is not held at a gate.
    pub(super) answer: Result<Answer, Answer>,
}

/// Records and checks a request, and chooses its answer.
pub(super) fn take(shared: &Arc<Shared>, body: Value, authorization: Option<String>) -> Taken {
    let builder = &shared.builder;
    let kind = (builder.classify)(&body);
    let (seen, input, refusal) = shared.update(|state| {
        let seen = Seen { n: state.n_seen(), kind, body, authorization };
        if builder.recorded {
            state.seen.push(seen.clone());
        }
        state.tallies[kind as usize].arrived += 1;
        let input = state.cache.take(builder.count, &seen.body, kind == Kind::Reply);
        let refusal = if builder.strict { refuse(builder, state, &seen, input) } else { None };
        (seen, input, refusal)
    });
    let flight = Flight { shared: shared.clone(), kind, ended: false };
    let answer = match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(choose(shared, &seen)),
    };
    Taken { seen, flight, input, answer }
}

fn refuse(builder: &super::Builder, state: &mut State, seen: &Seen, input: Input) -> Option<Answer> {
    let wanted = ["max_tokens", "max_completion_tokens"].iter().find_map(|key| seen.body.get(key)?.as_u64());
    let wanted = wanted.unwrap_or(0);
    let found = check(&seen.body).and_then(|()| match builder.window {
        Some(window) if input.tokens + wanted > window => Err((
            Rule::Window,
            format!(
                "This model's maximum context length is {window} tokens. However, you requested {} tokens ({} in \
                 the messages, {wanted} in the completion)",
                input.tokens + wanted,
                input.tokens
            ),
        )),
        _ if builder.stable_prefix && seen.kind == Kind::Reply => {
            state.conversations.take(&seen.body).map_err(|text| (Rule::Prefix, text))
        }
        _ => Ok(()),
    });
    let (rule, text) = found.err()?;
    let code = if rule == Rule::Window { "context_length_exceeded" } else { "invalid_request" };
    let error = json!({"error": {"message": &text, "type": "invalid_request_error", "code": code}});
    state.violations.push(Violation { n: seen.n, rule, text });
    Some(Answer::raw(400, "application/json", error.to_string()))
}

fn choose(shared: &Arc<Shared>, seen: &Seen) -> Answer {
    let scripted = shared.state.lock().scripts[seen.kind as usize].pop_front();
    let made_up = || shared.builder.respond.as_ref().and_then(|respond| respond(seen));
    scripted.or_else(made_up).unwrap_or_else(|| usual(shared, seen))
}

fn usual(shared: &Arc<Shared>, seen: &Seen) -> Answer {
    match seen.kind {
        Kind::Reply => Answer::text(format!("echo: {}", wire::last_user_text(&seen.body))),
        Kind::Compaction => {
            let first_round = !wire::messages(&seen.body).iter().any(|message| wire::role(message) == "tool");
            let may_save = wire::tool_names(&seen.body).iter().any(|name| name == "memory_save");
            let memories = &shared.builder.memories;
            if let Some((first, rest)) = memories.split_first().filter(|_| first_round && may_save) {
                let start = Answer::call("memory_save", first.clone());
                return rest
                    .iter()
                    .fold(start, |answer, memory| answer.and_call("memory_save", memory.clone()));
            }
            let n = {
                let mut state = shared.state.lock();
                state.n_summaries += 1;
                state.n_summaries
            };
            Answer::text(format!("fake summary {n}: people talked, and nothing was left open."))
        }
    }
}
