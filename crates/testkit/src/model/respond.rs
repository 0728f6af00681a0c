//! Takes a request in: records it, checks it, finds its answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_types::model::Usage;
use serde_json::{Value, json};

use super::check::{Rule, Violation, check, check_breakpoints, check_roles};
use super::measure::{Cache, Input};
use super::{
    Answer, Kind, Provider, Seen, Shared, State, Streaming, Wire, Wording, anthropic, responses, wire,
};

/// A request on its way: counted as abandoned unless it ends.
pub(super) struct Flight {
    shared: Arc<Shared>,
    kind: Kind,
    ended: bool,
}

impl Flight {
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

pub(super) struct Taken {
    pub(super) seen: Seen,
    pub(super) flight: Flight,
    pub(super) input: Input,
    /// The answer; a refusal is not held at a gate.
    pub(super) answer: Result<Answer, Answer>,
}

pub(super) struct Arrived {
    pub(super) wire: Wire,
    pub(super) body: Value,
    /// The body as it arrived.
    pub(super) sent: Arc<str>,
    pub(super) authorization: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
    /// It names the version of its format.
    pub(super) versioned: bool,
}

/// Records and checks a request, and chooses its answer.
pub(super) fn take(shared: &Arc<Shared>, arrived: Arrived) -> Taken {
    let builder = &shared.builder;
    let Arrived { wire, body, sent, authorization, headers, versioned } = arrived;
    let (body, raw) = match wire {
        Wire::OpenAi => (body, None),
        Wire::Responses => (responses::canonical(&body), Some(body)),
        Wire::Anthropic => (anthropic::canonical(&body), Some(body)),
    };
    let kind = (builder.classify)(&body);
    let (seen, input, refusal) = shared.update(|state| {
        let seen = Seen { n: state.n_seen(), kind, wire, body, raw, sent, authorization, headers };
        if builder.recorded {
            state.seen.push(seen.clone());
        }
        state.tallies[kind as usize].arrived += 1;
        let counts = kind == Kind::Reply;
        let blocks = match &seen.raw {
            Some(raw) if wire == Wire::Anthropic => anthropic::cached_blocks(builder.count, raw),
            Some(_) | None => builder.count.blocks(&seen.body),
        };
        let cache = state.caches[wire as usize].get_or_insert_with(|| Cache::new(&builder.billing(wire)));
        let input = cache.take(&blocks, counts);
        let input = match builder.ollama {
            Some(ollama) => ollama.read(builder.count, &seen.body, input),
            None => input,
        };
        let refusal = lack(builder, &seen);
        let refusal = refusal.or_else(|| refuse(builder, state, &seen, input, versioned));
        (seen, input, refusal)
    });
    let flight = Flight { shared: shared.clone(), kind, ended: false };
    let answer = match refusal {
        Some(refusal) => Err(refusal),
        None => {
            let mut answer = choose(shared, &seen);
            if let Some(provider) = builder.provider {
                let sent = seen.raw.as_ref().unwrap_or(&seen.body);
                shared.update(|state| provider.give(sent, seen.n, &mut answer, &mut state.given));
            }
            Ok(answer)
        }
    };
    if let Ok(answer) = &answer {
        note(shared, kind, input, answer);
    }
    Taken { seen, flight, input, answer }
}

/// Refuses what the server is not able to do; no fault of the request.
fn lack(builder: &super::Builder, seen: &Seen) -> Option<Answer> {
    if let Some(status) = builder.no_responses.filter(|_| seen.wire == Wire::Responses) {
        return Some(Answer::raw(status, "application/json", json!({"detail": "Not Found"}).to_string()));
    }
    let has_tools = !wire::tool_names(&seen.body).is_empty();
    if let Some(wording) = builder.no_tools.filter(|_| has_tools) {
        return Some(wording.no_tools());
    }
    if builder.refuses.as_ref().is_some_and(|refuses| refuses(seen.raw.as_ref().unwrap_or(&seen.body))) {
        return Some(Answer::error(400, "Bad Request"));
    }
    let streams = seen.body.get("stream").and_then(Value::as_bool) == Some(true);
    (streams && builder.streaming == Streaming::Refused).then(|| {
        let message = "Unsupported value: 'stream' does not support true with this model. Only the default (false) \
                       value is supported.";
        let error = json!({"message": message, "type": "invalid_request_error", "param": "stream"});
        Answer::raw(400, "application/json", json!({"error": error}).to_string())
    })
}

fn refuse(
    builder: &super::Builder,
    state: &mut State,
    seen: &Seen,
    input: Input,
    versioned: bool,
) -> Option<Answer> {
    let wanted = ["max_tokens", "max_completion_tokens"].iter().find_map(|key| seen.body.get(key)?.as_u64());
    let wanted = wanted.unwrap_or(0);
    let sent = seen.raw.as_ref().unwrap_or(&seen.body);
    let of_provider = builder.provider.map_or(Ok(()), |provider| provider.check(sent, &state.given));
    let found = of_provider.and_then(|()| match builder.strict {
        true => check_all(builder, state, seen, input.tokens, (wanted, versioned)),
        false => roles(seen),
    });
    let (rule, text) = found.err()?;
    let refusal = match (rule, builder.window, seen.wire) {
        (Rule::Window, Some(window), wire) => {
            let own = match wire {
                Wire::OpenAi | Wire::Responses => Wording::OpenAi,
                Wire::Anthropic if input.tokens > window => Wording::Anthropic,
                Wire::Anthropic => Wording::AnthropicSum,
            };
            builder.wording.unwrap_or(own).overflow(window, input.tokens, wanted)
        }
        (Rule::Provider, _, Wire::OpenAi) if builder.provider == Some(Provider::Gemini3) => {
            let error = json!([{"error": {"code": 400, "message": &text, "status": "INVALID_ARGUMENT"}}]);
            Answer::raw(400, "application/json", error.to_string())
        }
        (_, _, Wire::OpenAi | Wire::Responses) => {
            let error = json!({"message": &text, "type": "invalid_request_error", "code": "invalid_request"});
            Answer::raw(400, "application/json", json!({"error": error}).to_string())
        }
        (_, _, Wire::Anthropic) => Answer::anthropic_error(400, "invalid_request_error", &text),
    };
    state.violations.push(Violation { n: seen.n, rule, text });
    Some(refusal)
}

/// No template takes what does not take turns, however lenient the server is.
fn roles(seen: &Seen) -> Result<(), (Rule, String)> {
    match &seen.raw {
        Some(raw) if seen.wire == Wire::Anthropic => anthropic::check_roles(raw),
        Some(_) | None => check_roles(&seen.body),
    }
}

fn check_all(
    builder: &super::Builder,
    state: &mut State,
    seen: &Seen,
    tokens: u64,
    (wanted, versioned): (u64, bool),
) -> Result<(), (Rule, String)> {
    match (&seen.raw, seen.wire) {
        (Some(raw), Wire::Anthropic) => anthropic::check(raw, seen.kind, versioned)?,
        (Some(raw), Wire::Responses) => {
            responses::check(raw)?;
            check_breakpoints(&seen.body, seen.kind, builder.breakpoints)?;
        }
        (Some(_), Wire::OpenAi) | (None, _) => {
            check_breakpoints(&seen.body, seen.kind, builder.breakpoints)?;
        }
    }
    check(&seen.body)?;
    roles(seen)?;
    match builder.window {
        Some(window) if tokens + wanted > window => {
            Err((Rule::Window, format!("{tokens} tokens and {wanted} of the answer, {window} fit")))
        }
        _ if builder.stable_prefix && seen.kind == Kind::Reply => {
            state.conversations.take(&seen.body).map_err(|text| (Rule::Prefix, text))
        }
        _ => Ok(()),
    }
}

fn note(shared: &Arc<Shared>, kind: Kind, input: Input, answer: &Answer) {
    let output_tokens = answer.tokens(shared.builder.count);
    shared.update(|state| {
        let used = &mut state.used[kind as usize];
        used.requests += 1;
        used.most_input = used.most_input.max(input.tokens);
        used.usage += Usage {
            input_tokens: input.tokens,
            output_tokens,
            cached_tokens: input.cached,
            cache_write_tokens: input.written,
        };
    });
}

fn choose(shared: &Arc<Shared>, seen: &Seen) -> Answer {
    let scripted = shared.state.lock().scripts[seen.kind as usize].pop_front();
    let made_up = || shared.builder.respond.as_ref().and_then(|respond| respond(seen));
    let fault = || shared.builder.fault.clone().filter(|_| seen.kind == Kind::Reply);
    scripted.or_else(made_up).or_else(fault).unwrap_or_else(|| usual(shared, seen))
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
            // A summary has words of its source.
            let asked = wire::messages(&seen.body).iter().find(|message| wire::role(message) == "user");
            let request = asked.map(wire::text_of).unwrap_or_default();
            let first = request.split_once("] ").map_or("", |(_, said)| said);
            let first: Vec<&str> = first.split_whitespace().take(8).collect();
            Answer::text(format!(
                "## Critical context\n- fake summary {n}: people talked, and nothing was left open.\n- First: {}",
                first.join(" ")
            ))
        }
    }
}
