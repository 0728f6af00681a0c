//! The models: whether the server answers, accepts the key, reports the window and answers a message.

use std::time::Duration;

use cairn_core::agent::{ASSUMED_WINDOW, AgentSettings};
use cairn_llm::{Anthropic, BadModel, Look, OpenAi, Timeouts};
use cairn_types::ids::ChannelId;
use cairn_types::model::{ModelError, RefusalCause};
use cairn_types::ports::{ChatModel, Clock as _, ServerWindow};
use cairn_types::tool::defs::ToolDef;
use futures::future::join_all;
use jiff::SignedDuration;

use crate::commands::doctor::Examination;
use crate::commands::doctor::asking::{Asked, Step, Stopped, ask};
use crate::commands::doctor::report::Finding;
use cairn_api::records::ToolRecord;
use cairn_api::text::{counted, grouped};
use cairn_config::clock::SystemClock;
use cairn_config::{AgentConfig, Config, Loaded, ModelConfig, Provider, names_variable, without_secrets};
use cairn_server::parts::models::{openai, options};

/// Asks all models concurrently.
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
    let agent = agent_of(&loaded.config, model);
    let channel = agent.and_then(|agent| ChannelId::local(&agent.id, "doctor").ok());
    let (Some(agent), Some(channel)) = (agent, channel) else {
        return (vec![Finding::skipped(&check, "not asked: no agent is configured")], None);
    };
    let tools = tools_of(agent, x.tools.as_deref());
    let settings = |window| loaded.config.settings(agent, &model.id, window, tools);
    let found = match Found::ask(loaded, model, channel, settings, x.limit).await {
        Ok(found) => found,
        Err(error) => {
            return (vec![Finding::failed(&check, error.to_string(), "correct it in [[models]]")], None);
        }
    };
    let offset = found.offset.map(|offset| (model.id.clone(), offset));
    (judged(loaded, model, &found, &check), offset)
}

/// The first agent that uses the model; for an unused model, the first agent.
fn agent_of<'c>(config: &'c Config, model: &ModelConfig) -> Option<&'c AgentConfig> {
    let asks = |agent: &&AgentConfig| {
        let summarises = agent.compaction.model.as_deref() == Some(model.id.as_str());
        summarises || agent.chain().contains(&model.id.as_str())
    };
    config.agents.iter().find(asks).or_else(|| config.agents.first())
}

/// The agent's tools; only the built-in ones if the others are unknown.
fn tools_of(agent: &AgentConfig, known: Option<&[ToolRecord]>) -> Vec<ToolDef> {
    let Some(known) = known else { return cairn_core::builtin_tools::builtin_tools() };
    let of_agent = known.iter().filter(|tool| tool.agent == agent.id.as_str());
    let def = |tool: &ToolRecord| ToolDef {
        name: tool.tool.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
    };
    of_agent.map(def).collect()
}

/// A warning if the configured key cannot be read.
pub(super) fn missing_key(loaded: &Loaded, model: &ModelConfig, check: &str) -> Option<Finding> {
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

/// The client of a model behind a server.
pub(super) enum Client {
    Openai(OpenAi),
    Anthropic(Anthropic),
}

impl Client {
    /// `limit`: longest wait for an answer.
    ///
    /// # Errors
    /// The model's address or key cannot be used.
    pub(super) fn of(loaded: &Loaded, model: &ModelConfig, limit: Duration) -> Result<Self, BadModel> {
        let mut options = options(loaded, model);
        options.timeouts =
            Timeouts { connect: limit.min(Timeouts::default().connect), first: limit, idle: limit };
        Ok(match model.provider {
            Provider::Anthropic => Self::Anthropic(Anthropic::new(options)?),
            Provider::Openai | Provider::Offline => Self::Openai(openai(model, options)?),
        })
    }

    pub(super) fn port(&self) -> &dyn ChatModel {
        match self {
            Self::Openai(client) => client,
            Self::Anthropic(client) => client,
        }
    }

    async fn look(&self) -> Look {
        match self {
            Self::Openai(client) => client.look().await,
            Self::Anthropic(client) => client.look().await,
        }
    }

    /// A look at the server, with the names of its models.
    pub(super) async fn models(&self) -> (Look, Vec<String>) {
        match self {
            Self::Openai(client) => client.models().await,
            Self::Anthropic(client) => client.models().await,
        }
    }

    pub(super) async fn window(&self) -> ServerWindow {
        self.port().discover_window().await.unwrap_or(ServerWindow::Unlisted)
    }

    /// The largest window that the model can be loaded with, where the server tells it.
    pub(super) async fn trained_window(&self) -> Option<u64> {
        match self {
            Self::Openai(client) => client.trained_window().await,
            Self::Anthropic(_) => None,
        }
    }
}

pub(super) struct Found {
    pub(super) look: Look,
    pub(super) window: ServerWindow,
    pub(super) offset: Option<SignedDuration>,
    pub(super) asked: Asked,
    pub(super) limit: Duration,
}

impl Found {
    async fn ask(
        loaded: &Loaded,
        model: &ModelConfig,
        channel: ChannelId,
        settings: impl FnOnce(Option<u64>) -> AgentSettings,
        limit: Duration,
    ) -> Result<Self, BadModel> {
        let client = Client::of(loaded, model, limit)?;
        let look = client.look().await;
        let now = SystemClock.now();
        let offset = look.date.map(|date| date.duration_since(now));
        let listed = async || match look.answered {
            true => client.window().await,
            false => ServerWindow::Unlisted,
        };
        let before = listed().await;
        let asked = ask(client.port(), channel, settings(before.tokens()), limit).await;
        // Some servers load the model at the first request, and know its window only then.
        let window = listed().await;
        Ok(Self { look, window, offset, asked, limit })
    }
}

fn judged(loaded: &Loaded, model: &ModelConfig, found: &Found, check: &str) -> Vec<Finding> {
    let asked = &found.asked;
    if let Some((Step::Question, stopped)) = &asked.stopped {
        return vec![unanswered(model, found, stopped, check)];
    }
    let key = if loaded.api_key(&model.id).is_some() { "takes the key and " } else { "" };
    let (name, took) = (&model.model, asked.took.as_secs_f64());
    let mut findings = Vec::new();
    match &asked.stopped {
        Some((step, stopped)) => findings.push(broken_off(model, found, *step, stopped, check)),
        None => {
            let tools = match (asked.n_tools, &asked.no_tools) {
                (0, _) | (_, Some(_)) => String::new(),
                (n, None) => format!(" with {}", counted(n as u64, "tool", "tools")),
            };
            let answers = format!(
                "{name} {key}answers a question{tools} ({took:.1} s), the result of a call, and a later message"
            );
            match window(loaded, model, found.window.tokens()) {
                Ok(window) => findings.push(Finding::ok(check, format!("{answers}; {window}"))),
                Err((wrong, remedy)) => {
                    findings.extend([Finding::ok(check, answers), Finding::warning(check, wrong, remedy)]);
                }
            }
        }
    }
    findings.extend(unlisted(model, found, check));
    findings.extend(asked.no_tools.as_ref().map(|error| without_tools(error, check)));
    findings
}

const OTHER_TEMPLATE: &str =
    "give the server a chat template that accepts it (llama.cpp: --jinja --chat-template-file)";

fn off() -> String {
    format!("set `tools = false` for the model, so that calls are sent as text; or {OTHER_TEMPLATE}")
}

/// The finding for a model that answers, but only without tools.
fn without_tools(error: &ModelError, check: &str) -> Finding {
    match error {
        ModelError::NoTools(said) if said.contains("lternate") => {
            let found = format!("the model's chat template refuses tool results: {said}");
            Finding::warning(check, found, off())
        }
        error => Finding::warning(
            check,
            error.to_string(),
            "set `tools = false` for the model, or start its server with tools (llama.cpp: --jinja; vLLM: \
             --enable-auto-tool-choice)",
        ),
    }
}

/// The finding for a model that answers a question, but not a later step.
fn broken_off(model: &ModelConfig, found: &Found, step: Step, stopped: &Stopped, check: &str) -> Finding {
    let what = match step {
        Step::Question => "a question",
        Step::Result => "a conversation with the result of a tool call",
        Step::Later => "a later message of a conversation with tool results",
    };
    let error = match stopped {
        Stopped::Error(error) => error,
        Stopped::Late => &ModelError::Timeout(found.limit),
        Stopped::NoRoom(_) | Stopped::Fold(_) => return not_made(stopped, check),
    };
    match error {
        ModelError::NoTools(_) => without_tools(error, check),
        ModelError::RateLimited { .. }
        | ModelError::Timeout(_)
        | ModelError::Transport(_)
        | ModelError::Broken(_) => Finding::warning(
            check,
            format!("it answers a question, but {what} could not be tried: {error}"),
            "try again later, or wait longer with --timeout 120",
        ),
        _ => Finding::failed(
            check,
            format!("it answers a question, but refuses {what}, which every chat has: {error}"),
            remedy_of(error)
                .map_or_else(|| if model.tools { off() } else { OTHER_TEMPLATE.to_owned() }, str::to_owned),
        ),
    }
}

/// The remedy for an error that does not depend on the server's address or chat template.
fn remedy_of(error: &ModelError) -> Option<&'static str> {
    match error {
        ModelError::CutOff(_) => Some(
            "raise `max_output_tokens` of the model, or lower its `reasoning_effort`: every answer may end so",
        ),
        ModelError::ContextOverflow { .. } => {
            Some("set `context_window` to the server's window, or start the server with a larger one")
        }
        ModelError::Declined | ModelError::Filtered => {
            Some("use another model, or change the agent's prompt: it refuses a plain question")
        }
        ModelError::Protocol(_) | ModelError::Failed(_) => {
            Some("check the server's log; another version of the server may help")
        }
        // A chat template that cannot render a message causes such errors, too.
        ModelError::Overloaded { .. }
        | ModelError::NoTools(_)
        | ModelError::RateLimited { .. }
        | ModelError::Auth(_)
        | ModelError::BadRequest { .. }
        | ModelError::Timeout(_)
        | ModelError::Transport(_)
        | ModelError::Broken(_) => None,
    }
}

/// The finding for a request that cannot be made.
fn not_made(stopped: &Stopped, check: &str) -> Finding {
    match stopped {
        Stopped::NoRoom(error) => {
            Finding::failed(check, error.to_string(), "raise `context_window`, or shorten the agent's prompt")
        }
        Stopped::Fold(error) => Finding::failed(check, error.to_string(), "please report this"),
        Stopped::Late | Stopped::Error(_) => Finding::skipped(check, "not asked"),
    }
}

/// A warning if the model answers, but the server does not list it.
pub(super) fn unlisted(model: &ModelConfig, found: &Found, check: &str) -> Option<Finding> {
    (found.look.listed == Some(false)).then(|| {
        Finding::warning(
            check,
            format!(
                "the server lists its models, and `{}` is not among them: a different model may answer",
                model.model
            ),
            "write `model` as in the server's list; if the name is an alias, ignore this",
        )
    })
}

fn late(model: &ModelConfig, found: &Found, check: &str) -> Finding {
    let secs = found.limit.as_secs();
    if found.look.answered {
        return Finding::warning(
            check,
            format!("the server at {} is reachable, but gave no answer within {secs} s", model.base_url),
            "loading a model takes time: try again, or wait longer with --timeout 120",
        );
    }
    Finding::failed(
        check,
        format!("nothing answers at {} within {secs} s", model.base_url),
        "check that the server runs, the network is up, and `base_url` is correct",
    )
}

/// The finding for a question without an answer.
pub(super) fn unanswered(model: &ModelConfig, found: &Found, stopped: &Stopped, check: &str) -> Finding {
    let error = match stopped {
        Stopped::Error(error) => error,
        Stopped::Late => return late(model, found, check),
        Stopped::NoRoom(_) | Stopped::Fold(_) => return not_made(stopped, check),
    };
    let (words, at) = (error.to_string(), &model.base_url);
    if words.to_lowercase().contains("system role") {
        return Finding::failed(
            check,
            format!("the model's chat template does not accept a system message: {words}"),
            "give the server a chat template that accepts one",
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
            "check that the server runs, the network is up, and `base_url` is correct",
        ),
        ModelError::Timeout(_) => late(model, found, check),
        ModelError::RateLimited { .. } | ModelError::Overloaded { .. } => {
            Finding::warning(check, words, "try again later; if it persists, see the provider's status page")
        }
        ModelError::BadRequest { message: said, .. } if found.asked.answers_without_tools => Finding::failed(
            check,
            format!(
                "it answers a question, but refuses one with the agent's {}, which every message has: {said}",
                counted(found.asked.n_tools as u64, "tool", "tools")
            ),
            "change the part that the server names, or set `tools = false` for the model",
        ),
        ModelError::BadRequest { message: said, .. } if found.look.listed == Some(false) => Finding::failed(
            check,
            format!("the server does not know the model `{}`: {said}", model.model),
            "write `model` as in the server's list of models",
        ),
        ModelError::BadRequest { cause, .. } if *cause != RefusalCause::Address => {
            Finding::failed(check, words, cause.hint())
        }
        ModelError::BadRequest { .. } => Finding::failed(
            check,
            words,
            "check `model`, `provider` and `base_url`, which usually ends in /v1",
        ),
        ModelError::CutOff(_)
        | ModelError::Declined
        | ModelError::Filtered
        | ModelError::ContextOverflow { .. }
        | ModelError::NoTools(_)
        | ModelError::Failed(_)
        | ModelError::Protocol(_) => {
            Finding::failed(check, words, remedy_of(error).unwrap_or("set `tools = false` for the model"))
        }
    }
}

/// The window as text, or what is wrong with it and the remedy.
fn window(loaded: &Loaded, model: &ModelConfig, listed: Option<u64>) -> Result<String, (String, String)> {
    let config = &loaded.config;
    let users = || config.agents.iter().filter(|agent| agent.chain().contains(&model.id.as_str()));
    let of_agents = users().filter_map(|agent| agent.context_window).max();
    let set = model.context_window.or(of_agents);
    let small = users().map(|agent| agent.window_guard.warn_tokens).max().unwrap_or_default();
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
        (None, Some(listed)) if listed < small => Err((
            format!(
                "window {} as the server lists it: too small for long conversations with tools",
                grouped(listed)
            ),
            "start the server with a larger one (Ollama: OLLAMA_CONTEXT_LENGTH=32768, or num_ctx in a Modelfile; \
             llama.cpp: -c 32768; LM Studio: context length of the loaded model)"
                .to_owned(),
        )),
        (None, Some(listed)) => Ok(format!("window {} as the server lists it", grouped(listed))),
        (None, None) if config.assumes_window(model) => Err((
            format!(
                "its server reports no window: it starts with {} tokens and grows as the server accepts more",
                grouped(ASSUMED_WINDOW)
            ),
            "set `context_window` of the model to the window of its server".to_owned(),
        )),
        (None, None) => Err((
            format!(
                "its server reports no window: the {} tokens of [defaults] are used",
                grouped(config.default_window())
            ),
            "set `context_window` of the model to the value in its documentation".to_owned(),
        )),
    }
}
