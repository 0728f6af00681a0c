//! Checks of `[defaults]` and `[[agents]]`; their prompts are rendered.

use cairn_core::agent::WindowSize;
use cairn_core::engine;
use cairn_core::limits::Price;

use super::{Check, IdRule, below, key_path, known_names};
use crate::prompts::{PromptContext, PromptKind, render, render_own};
use crate::schema::nearest;
use crate::source::Seg;
use crate::types::{AgentConfig, Config, ModelConfig, OFFLINE, WINDOW};

const IDS: IdRule =
    IdRule { table: "agents", one: "an agent", many: "agents", example: "main", longest: 64, signs: "._-" };

/// Checks the agents and `[defaults]`, and renders their prompts.
pub(crate) fn check_agents(check: &mut Check<'_, '_>, config: &mut Config) {
    let Config { defaults, agents, models, .. } = config;
    check_settings(check, &key_path!["defaults"], defaults);
    for idx in 0..agents.len() {
        let at = key_path!["agents", idx];
        let ids: Vec<&str> = agents[..=idx].iter().map(|agent| agent.id.as_str()).collect();
        check.id(&IDS, &ids);
        let agent = &mut agents[idx];
        check_settings(check, &at, agent);
        check_stack(check, agent);
        check_models(check, &at, agent, models);
        check_compaction_model(check, &at, agent, models);
        let window = defaults.context_window.unwrap_or(WINDOW);
        check_reserve(check, &at, agent, window, models);
        warn_of_windows(check, agent, window, models);
        if agent.prompt.is_some() && agent.prompt_text.is_some() {
            let message = format!("agent `{}` has both prompt and prompt_text", agent.id);
            check.wrong(&check.set_at(&at, &["prompt_text"]), message, "keep one of the two");
        }
        agent.system_prompt = prompt(check, &at, PromptKind::Agent, agent);
        agent.compaction_prompt = prompt(check, &at, PromptKind::Compactor, agent);
    }
}

/// Checks what `[defaults]` and an agent may both set.
fn check_settings(check: &mut Check<'_, '_>, at: &[Seg], agent: &AgentConfig) {
    check.contradiction(at, "compaction", agent.compaction.validate());
    check.contradiction(at, "window_guard", agent.window_guard.validate());
    check.contradiction(at, "pruning", agent.pruning.validate());
    // An unset call_timeout_secs is just limited by timeout_secs.
    let (call, all) = (agent.compaction.call_timeout_secs, agent.compaction.timeout_secs);
    let path = check.set_at(at, &["compaction", "call_timeout_secs"]);
    if call > all && check.source.sets(&path) {
        let message = format!("`call_timeout_secs` = {call} is above timeout_secs = {all}");
        let hint = "one call is a part of all calls of an attempt: lower it, or raise timeout_secs";
        check.wrong(&path, message, hint);
    }
    let names = engine::names();
    if !names.contains(&&*agent.engine) {
        let hint = match nearest(&agent.engine, &names) {
            Some(near) => format!("did you mean `{near}`? there are: {}", names.join(", ")),
            None => format!("there are: {}", names.join(", ")),
        };
        let message = format!("`engine` = \"{}\" is no context engine", agent.engine);
        check.wrong(&check.set_at(at, &["engine"]), message, &hint);
    }
    if jiff::tz::TimeZone::get(&agent.timezone).is_err() {
        let message = format!("`timezone` = \"{}\" is not a known time zone", agent.timezone);
        let hint = "write an IANA name, such as \"Europe/Berlin\" or \"UTC\"";
        check.wrong(&check.set_at(at, &["timezone"]), message, hint);
    }
}

/// Warns if the stack alone may keep the window above a threshold, so that one run follows another.
fn check_stack(check: &mut Check<'_, '_>, agent: &AgentConfig) {
    let compaction = &agent.compaction;
    if compaction.stack_tokens == 0 && compaction.stack_share >= compaction.background_threshold {
        check.warn(format!(
            "agent `{}`: `stack_share` = {} is not below background_threshold = {}: summaries alone can keep the window \
             above the threshold; lower stack_share or set stack_tokens",
            agent.id, compaction.stack_share, compaction.background_threshold
        ));
    }
}

fn check_models(check: &mut Check<'_, '_>, at: &[Seg], agent: &AgentConfig, models: &[ModelConfig]) {
    let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    let list = check.set_at(at, &["models"]);
    for (idx, id) in agent.models.iter().enumerate().filter(|(_, id)| !ids.contains(&id.as_str())) {
        let message = format!("agent `{}` names the model `{id}`, which is not in [[models]]", agent.id);
        let path: Vec<Seg> = list.iter().cloned().chain([Seg::Index(idx)]).collect();
        check.wrong(&path, message, &known_names(id, &ids, "models"));
    }
    if agent.models.is_empty() && models.iter().any(|model| model.id != OFFLINE) {
        check.warn(format!(
            "agent `{}` names no model, so it answers offline; set its `models`, such as models = [\"{}\"]",
            agent.id, models[0].id
        ));
    }
}

fn check_compaction_model(
    check: &mut Check<'_, '_>,
    at: &[Seg],
    agent: &AgentConfig,
    models: &[ModelConfig],
) {
    let Some(id) = &agent.compaction.model else { return };
    let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    if !ids.contains(&id.as_str()) {
        let message =
            format!("agent `{}` summarises with the model `{id}`, which is not in [[models]]", agent.id);
        let path = check.set_at(at, &["compaction", "model"]);
        check.wrong(&path, message, &known_names(id, &ids, "models"));
    }
}

/// Checks for every model of the chain that the answer's reserve leaves room in the window that the file sets for it.
fn check_reserve(
    check: &mut Check<'_, '_>,
    at: &[Seg],
    agent: &AgentConfig,
    default_window: u64,
    models: &[ModelConfig],
) {
    for id in agent.chain() {
        let Some(model) = models.iter().find(|model| model.id == id) else { continue };
        let Some(most) = model.max_output_tokens else { continue };
        if model.context_window.is_some_and(|window| most >= window) {
            continue; // said where the models are checked
        }
        let (path, window) = match (agent.context_window, model.context_window) {
            (Some(window), _) => (below(at, "context_window"), window),
            (None, Some(_)) => continue,
            (None, None) => (key_path!["defaults", "context_window"].to_vec(), default_window),
        };
        if most >= window {
            let message = format!(
                "agent `{}`: `context_window` = {window} has no room beside max_output_tokens = {most} of model `{id}`",
                agent.id
            );
            check.wrong(&path, message, "raise context_window or lower max_output_tokens");
        }
    }
}

/// Warns of small windows that the file itself sets. They are used as they are.
fn warn_of_windows(
    check: &mut Check<'_, '_>,
    agent: &AgentConfig,
    default_window: u64,
    models: &[ModelConfig],
) {
    for id in agent.chain() {
        let Some(model) = models.iter().find(|model| model.id == id) else { continue };
        let (of_agent, of_model) = (agent.context_window, model.context_window);
        if of_agent.or(of_model).is_none() {
            continue;
        }
        let window = WindowSize::resolve(of_agent, of_model, None, default_window, model.max_output_tokens);
        if window.window_tokens < agent.window_guard.warn_tokens {
            check.warn(format!(
                "agent `{}`: the window of `{id}` is small: {} tokens ({}), below window_guard.warn_tokens = {}; summaries \
                 will be frequent and short",
                agent.id,
                window.window_tokens,
                window.source.origin(),
                agent.window_guard.warn_tokens
            ));
        }
    }
}

/// Warns of models without a price: `spend_per_day` does not count them.
pub(crate) fn check_prices(check: &mut Check<'_, '_>, agents: &[AgentConfig], models: &[ModelConfig]) {
    let used = |id: &str| {
        let by = |agent: &AgentConfig| {
            agent.chain().contains(&id) || agent.compaction.model.as_deref() == Some(id)
        };
        id != OFFLINE && agents.iter().any(by)
    };
    let free: Vec<_> = models
        .iter()
        .filter(|model| model.price() == Price::default() && used(&model.id))
        .map(|model| format!("`{}`", model.id))
        .collect();
    if models.iter().all(|model| model.price() == Price::default()) {
        check.warn(
            "`spend_per_day` holds nothing back: no model has a price; set input_price and output_price of each"
                .to_owned(),
        );
    } else if !free.is_empty() {
        check.warn(format!(
            "`spend_per_day` does not count what {} cost: set input_price and output_price of each",
            free.join(", ")
        ));
    }
}

fn prompt(check: &mut Check<'_, '_>, at: &[Seg], kind: PromptKind, agent: &AgentConfig) -> String {
    let context = PromptContext { agent: agent.id.as_str(), timezone: &agent.timezone };
    let (key, rendered) = match (kind, &agent.prompt_text) {
        (PromptKind::Agent, Some(text)) => ("prompt_text", render_own(text, context)),
        (PromptKind::Agent, None) => (kind.key(), render(kind, agent.prompt.as_deref(), context)),
        (PromptKind::Compactor, _) => (kind.key(), render(kind, agent.compactor_prompt.as_deref(), context)),
    };
    match rendered {
        Ok(text) => text,
        Err(mut problem) => {
            let place = check.source.value_place(&check.set_at(at, &[key]));
            problem.place = problem.place.or(place);
            check.note(problem);
            String::new()
        }
    }
}
