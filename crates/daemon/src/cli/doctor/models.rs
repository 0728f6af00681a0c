//! The models: does the server answer, does it accept the key, how large is the window, and does it take a conversation with
//! the result of a tool.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::ids::{AgentId, ChannelId};
use cairn_core::message::{Part, ToolCall};
use cairn_core::model::{
    Attempt, ChatMessage, ChatRequest, ModelError, ModelEvent, Purpose, RefusalCause, ToolDef,
};
use cairn_core::ports::{ChatModel, Clock as _};
use cairn_llm::{Anthropic, BadModel, Look, OpenAi, Timeouts};
use futures::StreamExt as _;
use futures::future::join_all;
use jiff::SignedDuration;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::Examination;
use super::report::Finding;
use crate::clock::SystemClock;
use crate::config::{Loaded, ModelConfig, Provider, names_variable, without_secrets};
use crate::models::options;
use crate::text::grouped;

/// Asks all models at the same time.
pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Some(loaded) = &x.loaded else { return Vec::new() };
    let config = &loaded.config;
    let used = |model: &&ModelConfig| {
        model.provider != Provider::Offline
            || config.agents.iter().any(|agent| agent.chain().contains(&model.id.as_str()))
    };
    let asked = config.models.iter().filter(used).map(|model| one(loaded, model, x));
    let (mut findings, mut clocks) = (Vec::new(), Vec::new());
    for (found, offset) in join_all(asked).await {
        findings.extend(found);
        clocks.extend(offset);
    }
    x.clocks = clocks;
    findings
}

async fn one(
    loaded: &Loaded,
    model: &ModelConfig,
    x: &Examination,
) -> (Vec<Finding>, Option<(String, SignedDuration)>) {
    let check = format!("model {}", model.id);
    if model.provider == Provider::Offline {
        return (vec![Finding::ok(&check, "embedded: needs no server and no key")], None);
    }
    if let Some(missing) = missing_key(loaded, model, &check) {
        return (vec![missing], None);
    }
    if x.offline {
        return (vec![Finding::skipped(&check, "not checked (--offline)")], None);
    }
    let asked = match Responses::ask(loaded, model, x.limit).await {
        Ok(asked) => asked,
        Err(error) => {
            return (vec![Finding::failed(&check, error.to_string(), "correct it in [[models]]")], None);
        }
    };
    let offset = asked.offset.map(|offset| (model.id.clone(), offset));
    (judged(loaded, model, &asked, &check), offset)
}

/// A key that is named and could not be read.
fn missing_key(loaded: &Loaded, model: &ModelConfig, check: &str) -> Option<Finding> {
    let named = model.api_key_env.is_some() || model.api_key_file.is_some();
    if !named || loaded.api_key(&model.id).is_some() {
        return None;
    }
    let prefix = format!("model `{}`: ", model.id);
    let said = loaded.warnings.iter().find_map(|warning| warning.strip_prefix(&prefix));
    let why = said.and_then(|said| said.strip_suffix("; no key is sent")).unwrap_or("its key cannot be read");
    let why = why.split("; ").next().unwrap_or(why).to_owned();
    if why.contains("ermission denied") {
        return Some(Finding::warning(check, why, "the key is readable for root only: sudo cairn doctor"));
    }
    let remedy = match (&model.api_key_file, &model.api_key_env) {
        (Some(file), _) if file.is_dir() => "name the file in it with `api_key_file`".to_owned(),
        (Some(file), _) => {
            format!("put the key into {}, mode 600", without_secrets(&file.display().to_string()))
        }
        (None, Some(name)) if !names_variable(name) => {
            "name a variable with `api_key_env`, or a file with `api_key_file`".to_owned()
        }
        (None, Some(name)) => format!("set ${name}, or name a file with `api_key_file`"),
        (None, None) => String::new(),
    };
    Some(Finding::failed(check, why, remedy))
}

struct Responses {
    look: Look,
    window: Option<u64>,
    offset: Option<SignedDuration>,
    /// How long the call took; none: no answer in time.
    called: Option<Result<Duration, ModelError>>,
    /// What came of a conversation with the result of a tool, where the call got an answer; none: no answer in time.
    talked: Option<Result<(), ModelError>>,
    limit: Duration,
}

impl Responses {
    async fn ask(loaded: &Loaded, model: &ModelConfig, limit: Duration) -> Result<Self, BadModel> {
        let mut options = options(loaded, model);
        options.timeouts =
            Timeouts { connect: limit.min(Timeouts::default().connect), first: limit, idle: limit };
        let (client, look): (Arc<dyn ChatModel>, Look) = if model.provider == Provider::Anthropic {
            let client = Anthropic::new(options)?;
            let look = client.look().await;
            (Arc::new(client), look)
        } else {
            let client = OpenAi::new(options)?;
            let look = client.look().await;
            (Arc::new(client), look)
        };
        let now = SystemClock.now();
        let offset = look.date.map(|date| date.duration_since(now));
        let window = if look.answered { client.discover_window().await.unwrap_or_default() } else { None };
        let began = Instant::now();
        let called = timeout(limit, call(client.as_ref(), vec![user("Say yes.")])).await.ok();
        let called = called.map(|result| result.map(|()| began.elapsed()));
        let talked = match &called {
            Some(Ok(_)) => timeout(limit, call(client.as_ref(), conversation())).await.ok(),
            Some(Err(_)) | None => None,
        };
        Ok(Self { look, window, offset, called, talked, limit })
    }
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::User { parts: vec![Part::text(text)] }
}

/// What every conversation of a daemon may contain: a turn with a call and its result, one that was stopped behind a
/// result, and one that waits for the answer to a result. The ids are as the strictest templates want them.
fn conversation() -> Vec<ChatMessage> {
    let round = |id: &str| {
        let call = ToolCall { id: id.to_owned(), name: CLOCK.to_owned(), arguments: json!({}) };
        let result = "noon".to_owned();
        [
            ChatMessage::assistant("", vec![call]),
            ChatMessage::Tool { call_id: id.to_owned(), text: result, images: Vec::new() },
        ]
    };
    let mut messages = vec![user("What time is it?")];
    messages.extend(round("doctor001"));
    messages.push(ChatMessage::assistant("It is noon.", Vec::new()));
    messages.push(user("And now?"));
    messages.extend(round("doctor002"));
    messages.push(user("I did not hear you."));
    messages.push(user("And now?"));
    messages.extend(round("doctor003"));
    messages.push(ChatMessage::Context { text: "Answer in one word.".to_owned() });
    messages
}

const CLOCK: &str = "clock";

/// A call of one token. The first sign of an answer is enough.
async fn call(client: &dyn ChatModel, messages: Vec<ChatMessage>) -> Result<(), ModelError> {
    let agent = AgentId::new("doctor");
    let channel =
        ChannelId::local(&agent, "doctor").map_err(|error| ModelError::refused(error.to_string()))?;
    let has_calls = messages.iter().any(|message| matches!(message, ChatMessage::Tool { .. }));
    let clock = ToolDef {
        name: CLOCK.to_owned(),
        description: "Tells the time.".to_owned(),
        parameters: json!({ "type": "object", "properties": {} }),
    };
    let request = ChatRequest {
        channel,
        purpose: Purpose::Reply { question: String::new() },
        system: vec!["Answer in one word.".to_owned()],
        messages,
        turn_from: 0,
        tools: has_calls.then_some(clock).into_iter().collect(),
        last_call: false,
        max_output_tokens: 1,
        attempt: Attempt::default(),
    };
    let mut answer = client.stream(request);
    let is_told = |event: &Result<ModelEvent, ModelError>| matches!(event, Ok(ModelEvent::Sent(_)));
    let mut told = answer.by_ref().skip_while(move |event| std::future::ready(is_told(event)));
    match told.next().await {
        Some(Ok(
            ModelEvent::Sent(_)
            | ModelEvent::Text(_)
            | ModelEvent::Reasoning(_)
            | ModelEvent::ToolCall(_)
            | ModelEvent::State(_)
            | ModelEvent::Usage(_)
            | ModelEvent::Done { .. },
        )) => Ok(()),
        // Models that reason have no room for it in one token, and say so: they answer, and accepted the key.
        Some(Err(ModelError::BadRequest { message: said, .. })) if is_about_tokens(&said) => Ok(()),
        Some(Err(error)) => Err(error),
        None => Err(ModelError::Protocol("an answer without a word".to_owned())),
    }
}

fn is_about_tokens(said: &str) -> bool {
    let said = said.to_lowercase();
    ["max_tokens", "max_completion_tokens", "output limit"].iter().any(|words| said.contains(words))
}

fn judged(loaded: &Loaded, model: &ModelConfig, asked: &Responses, check: &str) -> Vec<Finding> {
    match &asked.called {
        None => vec![late(model, asked, check)],
        Some(Err(error)) => vec![failed(model, asked, error, check)],
        Some(Ok(took)) => {
            let key = if loaded.api_key(&model.id).is_some() { "takes the key and " } else { "" };
            let name = &model.model;
            let answers = format!("{name} {key}answers ({:.1} s)", took.as_secs_f64());
            let mut found = match window(loaded, model, asked.window) {
                Ok(window) => vec![Finding::ok(check, format!("{answers}; {window}"))],
                Err((found, remedy)) => {
                    vec![Finding::ok(check, answers), Finding::warning(check, found, remedy)]
                }
            };
            found.extend(unlisted(model, asked, check));
            found.extend(conversing(model, asked, check));
            found
        }
    }
}

/// It answers a question, and not a conversation with the result of a tool.
fn conversing(model: &ModelConfig, asked: &Responses, check: &str) -> Option<Finding> {
    const OTHER: &str =
        "give the server a chat template that takes it (llama.cpp: --jinja --chat-template-file)";
    let off = format!("set `tools = false` for the model, so that calls are sent as text; or {OTHER}");
    let error = match &asked.talked {
        Some(Ok(())) => return None,
        Some(Err(error)) => error,
        None => &ModelError::Timeout(asked.limit),
    };
    Some(match error {
        ModelError::NoTools(said) if said.contains("lternate") => Finding::warning(
            check,
            format!("the model's chat template refuses the results of tools: {said}"),
            off,
        ),
        ModelError::NoTools(said) => Finding::warning(
            check,
            format!("the model takes no tools: {said}"),
            "set `tools = false` for the model, or start its server with tools (llama.cpp: --jinja; vLLM: \
             --enable-auto-tool-choice)",
        ),
        ModelError::RateLimited { .. }
        | ModelError::Timeout(_)
        | ModelError::Transport(_)
        | ModelError::Broken(_) => Finding::warning(
            check,
            format!(
                "it answers a question, but a conversation with a tool result could not be tried: {error}"
            ),
            "try again later, or wait longer with --timeout 120",
        ),
        _ => Finding::failed(
            check,
            format!(
                "it answers a question, but refuses a conversation with tool results, which every chat \
                 has: {error}"
            ),
            if model.tools { off } else { OTHER.to_owned() },
        ),
    })
}

/// It answers, and by the server's list it should not.
fn unlisted(model: &ModelConfig, asked: &Responses, check: &str) -> Option<Finding> {
    (asked.look.listed == Some(false)).then(|| {
        Finding::warning(
            check,
            format!(
                "the server lists its models, and `{}` is not among them: another model may answer",
                model.model
            ),
            "write `model` as the server's list does; if the name is an alias, everything is fine",
        )
    })
}

fn late(model: &ModelConfig, asked: &Responses, check: &str) -> Finding {
    let secs = asked.limit.as_secs();
    if asked.look.answered {
        return Finding::warning(
            check,
            format!("the server at {} is reachable, but gave no answer within {secs} s", model.base_url),
            "loading a model takes time: try again, or wait longer with --timeout 120",
        );
    }
    Finding::failed(
        check,
        format!("nothing answers at {} within {secs} s", model.base_url),
        "is the server running, the network up, and `base_url` right?",
    )
}

fn failed(model: &ModelConfig, asked: &Responses, error: &ModelError, check: &str) -> Finding {
    let found = error.to_string();
    let at = &model.base_url;
    if found.to_lowercase().contains("system role") {
        return Finding::failed(
            check,
            format!("the model's chat template takes no system message: {found}"),
            "give the server a chat template that takes one",
        );
    }
    match error {
        ModelError::Auth(said) => {
            let remedy = match (&model.api_key_env, &model.api_key_file) {
                (Some(name), _) => format!("correct the key in ${name}"),
                (None, Some(file)) => format!("correct the key in {}", file.display()),
                (None, None) => {
                    "the server requires a key: name one with `api_key_env` or `api_key_file`".to_owned()
                }
            };
            Finding::failed(check, format!("the server refuses the key: {said}"), remedy)
        }
        ModelError::Transport(why) | ModelError::Broken(why) => Finding::failed(
            check,
            format!("the server at {at} cannot be reached: {why}"),
            "is the server running, the network up, and `base_url` right?",
        ),
        ModelError::Timeout(_) => late(model, asked, check),
        ModelError::RateLimited { .. } | ModelError::Overloaded { .. } => Finding::warning(
            check,
            found,
            "try again later; if it stays like this, see the provider's status page",
        ),
        ModelError::BadRequest { message: said, .. } if asked.look.listed == Some(false) => Finding::failed(
            check,
            format!("the server does not know the model `{}`: {said}", model.model),
            "write `model` as the server's list of models does",
        ),
        ModelError::BadRequest { cause, .. } if *cause != RefusalCause::Address => {
            Finding::failed(check, found, cause.hint())
        }
        ModelError::BadRequest { .. }
        | ModelError::CutOff(_)
        | ModelError::ContextOverflow { .. }
        | ModelError::NoTools(_)
        | ModelError::Protocol(_) => Finding::failed(
            check,
            found,
            "check `model`, `provider` and `base_url`, which usually ends in /v1",
        ),
    }
}

/// The window in words, or what is wrong with it and what to do.
fn window(loaded: &Loaded, model: &ModelConfig, listed: Option<u64>) -> Result<String, (String, String)> {
    let config = &loaded.config;
    let of_agents = config.agents.iter().filter(|agent| agent.chain().contains(&model.id.as_str()));
    let of_agents = of_agents.filter_map(|agent| agent.context_window).max();
    let set = model.context_window.or(of_agents);
    match (set, listed) {
        (Some(set), Some(listed)) if set > listed => Err((
            format!(
                "context_window = {}, but the server lists {} tokens: long conversations would be refused",
                grouped(set),
                grouped(listed)
            ),
            format!("set context_window = {listed}, or start the server with a larger one"),
        )),
        (Some(set), Some(listed)) => {
            Ok(format!("window {} as configured; the server lists {}", grouped(set), grouped(listed)))
        }
        (Some(set), None) => Ok(format!("window {} as configured", grouped(set))),
        (None, Some(listed)) => Ok(format!("window {} as the server lists it", grouped(listed))),
        (None, None) => Err((
            format!(
                "its server lists no window: the {} tokens of [defaults] are used",
                grouped(config.default_window())
            ),
            "set `context_window` of the model to what its documentation says".to_owned(),
        )),
    }
}
