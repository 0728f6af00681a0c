//! `[defaults]` and `[[agents]]`: laid over each other, checked, prompts rendered.

use std::path::{Path, PathBuf};

use cairn_core::ids::AgentId;
use cairn_core::tier::CompactionSettings;

use super::check::{Check, is_name, key_path};
use super::file::AgentKeys;
use super::guards;
use super::keys::nearest;
use super::models::{WINDOW_MAX, WINDOW_MIN};
use super::prompts::{PromptContext, PromptKind, render};
use super::source::Seg;
use super::types::{AgentConfig, Defaults, ModelConfig, OFFLINE};

/// Fills in `[defaults]`.
pub(super) fn defaults(check: &mut Check<'_, '_>, keys: &AgentKeys) -> Defaults {
    let at = key_path!["defaults"];
    if keys.id.is_some() {
        check.wrong(
            &key_path!["defaults", "id"],
            "unknown key `id` in [defaults]",
            "`id` belongs in [[agents]]",
        );
    }
    let base = Defaults::default();
    let compaction = keys.compaction.over(&base.compaction);
    check_compaction(check, &at, &compaction);
    let pruning = keys.pruning.over(&base.pruning);
    check_common(check, &at, keys);
    let dir = check.source.dir();
    let defaults = Defaults {
        models: keys.models.clone().unwrap_or(base.models),
        prompt: keys.prompt.as_ref().map(|file| beside(dir, file)),
        compactor_prompt: keys.compactor_prompt.as_ref().map(|file| beside(dir, file)),
        timezone: keys.timezone.clone().unwrap_or(base.timezone),
        context_window: keys.context_window.unwrap_or(base.context_window),
        recall_limit: keys.recall_limit.unwrap_or(base.recall_limit),
        max_rounds: keys.max_rounds.unwrap_or(base.max_rounds),
        tools: keys.tools.clone().unwrap_or(base.tools),
        memory: keys.memory.over(&base.memory),
        trust: keys.trust.over(&base.trust),
        engine: keys.engine.clone().unwrap_or(base.engine),
        compaction,
        window_guard: keys.window_guard.over(&base.window_guard),
        pruning,
        result_guard: keys.result_guard.over(&base.result_guard),
    };
    guards::check_defaults(check, keys, &defaults);
    defaults
}

/// Fills in the agents; one named `main` where the file has none.
pub(super) fn resolve(
    check: &mut Check<'_, '_>,
    agents: &[AgentKeys],
    defaults: &Defaults,
    models: &[ModelConfig],
) -> Vec<AgentConfig> {
    let main = [AgentKeys { id: Some("main".to_owned()), ..AgentKeys::default() }];
    let agents = if agents.is_empty() { &main[..] } else { agents };
    let mut out: Vec<AgentConfig> = Vec::with_capacity(agents.len());
    for (idx, keys) in agents.iter().enumerate() {
        let at = key_path!["agents", idx];
        check_id(check, keys, idx, &out);
        check_common(check, &at, keys);
        let mut agent = lay_over(check.source.dir(), keys, defaults);
        if keys.compaction.over(&defaults.compaction) != defaults.compaction {
            check_compaction(check, &at, &agent.compaction);
            guards::check_call_timeout(check, &below(&at, "compaction"), &agent.compaction);
        }
        check_stack(check, &agent);
        guards::check(check, &at, keys, &agent, (defaults, models));
        check_models(check, &at, keys, &agent, models);
        check_reserve(check, &at, &agent, defaults, models);
        agent.system_prompt = prompt(check, &at, PromptKind::Agent, agent.prompt.as_deref(), &agent);
        agent.compaction_prompt =
            prompt(check, &at, PromptKind::Compactor, agent.compactor_prompt.as_deref(), &agent);
        out.push(agent);
    }
    out
}

fn lay_over(dir: &Path, keys: &AgentKeys, defaults: &Defaults) -> AgentConfig {
    let file = |own: &Option<PathBuf>, base: &Option<PathBuf>| match own {
        Some(own) => Some(beside(dir, own)),
        None => base.clone(),
    };
    AgentConfig {
        id: AgentId::new(keys.id.clone().unwrap_or_default()),
        models: keys.models.clone().unwrap_or_else(|| defaults.models.clone()),
        prompt: file(&keys.prompt, &defaults.prompt),
        compactor_prompt: file(&keys.compactor_prompt, &defaults.compactor_prompt),
        timezone: keys.timezone.clone().unwrap_or_else(|| defaults.timezone.clone()),
        context_window: keys.context_window,
        recall_limit: keys.recall_limit.unwrap_or(defaults.recall_limit),
        max_rounds: keys.max_rounds.unwrap_or(defaults.max_rounds),
        tools: keys.tools.clone().unwrap_or_else(|| defaults.tools.clone()),
        memory: keys.memory.over(&defaults.memory),
        trust: keys.trust.over(&defaults.trust),
        engine: keys.engine.clone().unwrap_or_else(|| defaults.engine.clone()),
        compaction: keys.compaction.over(&defaults.compaction),
        window_guard: keys.window_guard.over(&defaults.window_guard),
        pruning: keys.pruning.over(&defaults.pruning),
        result_guard: keys.result_guard.over(&defaults.result_guard),
        system_prompt: String::new(),
        compaction_prompt: String::new(),
    }
}

fn check_id(check: &mut Check<'_, '_>, keys: &AgentKeys, idx: usize, before: &[AgentConfig]) {
    let at = key_path!["agents", idx, "id"];
    match keys.id.as_deref() {
        None => {
            let message = format!("number {} of [[agents]] has no `id`", idx + 1);
            check.wrong(&at, message, "add one: id = \"main\"");
        }
        Some(id) if !is_name(id) => {
            let message = format!("`id` = \"{id}\" is no name of an agent");
            check.wrong(&at, message, "write 1 to 64 of the characters A-Z a-z 0-9 . _ -");
        }
        Some(id) => {
            if let Some(first) = before.iter().position(|agent| agent.id.as_str() == id) {
                let message =
                    format!("two agents have the id `{id}` (numbers {} and {})", first + 1, idx + 1);
                check.wrong(&at, message, "give each its own id");
            }
        }
    }
}

fn check_common(check: &mut Check<'_, '_>, at: &[Seg], keys: &AgentKeys) {
    if let Some(window) = keys.context_window {
        check.within(&below(at, "context_window"), window, WINDOW_MIN, WINDOW_MAX, "tokens");
    }
    if let Some(limit) = keys.recall_limit {
        check.within(&below(at, "recall_limit"), limit as u64, 0, 100, "memories");
    }
    if let Some(rounds) = keys.max_rounds {
        check.within(&below(at, "max_rounds"), u64::from(rounds), 1, 100, "model calls");
    }
    if let Some(zone) = &keys.timezone
        && jiff::tz::TimeZone::get(zone).is_err()
    {
        let message = format!("`timezone` = \"{zone}\" is not a known time zone");
        check.wrong(
            &below(at, "timezone"),
            message,
            "write an IANA name, such as \"Europe/Berlin\" or \"UTC\"",
        );
    }
}

fn check_compaction(check: &mut Check<'_, '_>, at: &[Seg], settings: &CompactionSettings) {
    let Err(bad) = settings.validate() else { return };
    // What contradicts may be set here, in [defaults], or not at all: the place is that of the nearest culprit.
    let culprits: &[&str] = match bad.key {
        "aggressive_threshold" => &["aggressive_threshold", "background_threshold"],
        "emergency_threshold" => &["emergency_threshold", "aggressive_threshold"],
        key => &[key],
    };
    let tables = [at.to_vec(), key_path!["defaults"].to_vec()];
    let found = tables
        .iter()
        .flat_map(|table| culprits.iter().map(|key| below(&below(table, "compaction"), key)))
        .find(|path| check.source.sets(path));
    let hint = "thresholds are shares of the window and rise: background_threshold < aggressive_threshold < \
                emergency_threshold, by default 0.80, 0.85, 0.95";
    let ordered = bad.reason.contains("threshold");
    let hint = if ordered || bad.key.ends_with("_threshold") {
        hint.to_owned()
    } else {
        format!("{} {}", bad.key, bad.reason)
    };
    let message = format!("`{}` = {} {}", bad.key, bad.value, bad.reason);
    check.wrong(&found.unwrap_or_else(|| below(at, "compaction")), message, &hint);
}

/// A stack that alone holds the window above a threshold has runs follow each other without end.
fn check_stack(check: &mut Check<'_, '_>, agent: &AgentConfig) {
    let compaction = &agent.compaction;
    if compaction.stack_tokens == 0 && compaction.stack_share >= compaction.background_threshold {
        check.warnings.push(format!(
            "agent `{}`: `stack_share` = {} is not below background_threshold = {}: summaries alone can keep the window \
             above the threshold; lower stack_share or set stack_tokens",
            agent.id, compaction.stack_share, compaction.background_threshold
        ));
    }
}

fn check_models(
    check: &mut Check<'_, '_>,
    at: &[Seg],
    keys: &AgentKeys,
    agent: &AgentConfig,
    models: &[ModelConfig],
) {
    let table = if keys.models.is_some() { at.to_vec() } else { key_path!["defaults"].to_vec() };
    let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    for (idx, id) in agent.models.iter().enumerate() {
        if !ids.contains(&id.as_str()) {
            let message = format!("agent `{}` names the model `{id}`, which is not in [[models]]", agent.id);
            let hint = match nearest(id, &ids) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("add it to [[models]]; there are: {}", ids.join(", ")),
            };
            let mut path = below(&table, "models");
            path.push(Seg::Index(idx));
            check.wrong(&path, message, &hint);
        }
    }
    if agent.models.is_empty() && models.iter().any(|model| model.id != OFFLINE) {
        check.warnings.push(format!(
            "agent `{}` names no model, so it answers offline; set its `models`, such as models = [\"{}\"]",
            agent.id, models[0].id
        ));
    }
}

/// The answer's reserve must leave room in the window that the file sets for agent and model, whichever of the chain.
fn check_reserve(
    check: &mut Check<'_, '_>,
    at: &[Seg],
    agent: &AgentConfig,
    defaults: &Defaults,
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
            (None, None) => (key_path!["defaults", "context_window"].to_vec(), defaults.context_window),
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

fn prompt(
    check: &mut Check<'_, '_>,
    at: &[Seg],
    kind: PromptKind,
    file: Option<&Path>,
    agent: &AgentConfig,
) -> String {
    let context = PromptContext { agent: agent.id.as_str(), timezone: &agent.timezone };
    match render(kind, file, context) {
        Ok(text) => text,
        Err(mut problem) => {
            let tables = [at.to_vec(), key_path!["defaults"].to_vec()];
            let key =
                tables.iter().map(|table| below(table, kind.key())).find(|path| check.source.sets(path));
            if problem.place.is_none() {
                problem.place = key.and_then(|path| check.source.value_place(&path));
            }
            if !check.problems.contains(&problem) {
                check.problems.push(problem);
            }
            String::new()
        }
    }
}

pub(super) fn below(table: &[Seg], key: &str) -> Vec<Seg> {
    table.iter().cloned().chain([Seg::from(key)]).collect()
}

/// A path of the file, absolute or relative to its folder.
fn beside(dir: &Path, path: &Path) -> PathBuf {
    dir.join(path).components().collect()
}
