//! Checks of an agent's defences of the window: their ranges, what contradicts what, names that nothing bears.

use cairn_core::agent::WindowSize;
use cairn_core::engine;
use cairn_core::limits::Price;
use cairn_core::tier::BadSetting;

use super::agents::below;
use super::check::{Check, key_path};
use super::file::AgentKeys;
use super::keys::nearest;
use super::source::Seg;
use super::types::{AgentConfig, Defaults, ModelConfig, OFFLINE};

/// Checks the tables of an agent that guard its window, and what it names. `at`: its table.
pub(super) fn check(
    check: &mut Check<'_, '_>,
    at: &[Seg],
    keys: &AgentKeys,
    agent: &AgentConfig,
    (defaults, models): (&Defaults, &[ModelConfig]),
) {
    // What stands in [defaults] was checked there.
    if agent.window_guard != defaults.window_guard {
        table(check, at, "window_guard", agent.window_guard.validate());
    }
    if agent.pruning != defaults.pruning {
        table(check, at, "pruning", agent.pruning.validate());
    }
    if agent.result_guard != defaults.result_guard {
        table(check, at, "result_guard", agent.result_guard.validate());
    }
    if let Some(name) = &keys.engine {
        check_engine(check, at, name);
    }
    check_compaction_model(check, at, agent, models);
    warn_of_windows(check, agent, defaults, models);
}

/// Checks the same tables of `[defaults]`.
pub(super) fn check_defaults(check: &mut Check<'_, '_>, keys: &AgentKeys, defaults: &Defaults) {
    let at = key_path!["defaults"];
    table(check, &at, "window_guard", defaults.window_guard.validate());
    table(check, &at, "pruning", defaults.pruning.validate());
    table(check, &at, "result_guard", defaults.result_guard.validate());
    if let Some(name) = &keys.engine {
        check_engine(check, &at, name);
    }
    let compaction = below(&at, "compaction");
    check_call_timeout(check, &compaction, &defaults.compaction);
}

/// A limit of one call that is longer than that of all of them holds nothing; left to its default it just gives way.
pub(super) fn check_call_timeout(
    check: &mut Check<'_, '_>,
    compaction: &[Seg],
    settings: &cairn_core::tier::CompactionSettings,
) {
    let (call, all) = (settings.call_timeout_secs, settings.timeout_secs);
    let at = below(compaction, "call_timeout_secs");
    if call > all && check.source.sets(&at) {
        let message = format!("`call_timeout_secs` = {call} is above timeout_secs = {all}");
        check.wrong(
            &at,
            message,
            "one call is a part of all calls of an attempt: lower it, or raise timeout_secs",
        );
    }
}

/// Notes what is wrong with a setting of a table, at the nearest place that sets it.
fn table(check: &mut Check<'_, '_>, at: &[Seg], name: &str, result: Result<(), BadSetting>) {
    let Err(bad) = result else { return };
    let tables = [at.to_vec(), key_path!["defaults"].to_vec()];
    let partner =
        ["warn_tokens", "soft_ratio", "soft_chars"].into_iter().find(|key| bad.reason.contains(key));
    let keys = [Some(bad.key), partner];
    let found = tables
        .iter()
        .flat_map(|at| keys.iter().flatten().map(|key| below(&below(at, name), key)))
        .find(|path| check.source.sets(path));
    let message = format!("`{}` = {} {}", bad.key, bad.value, bad.reason);
    let hint = format!("config/config.toml shows the keys of [{name}] with their defaults");
    check.wrong(&found.unwrap_or_else(|| below(at, name)), message, &hint);
}

fn check_engine(check: &mut Check<'_, '_>, at: &[Seg], name: &str) {
    let names = engine::names();
    if names.contains(&name) {
        return;
    }
    let hint = match nearest(name, &names) {
        Some(near) => format!("did you mean `{near}`? there are: {}", names.join(", ")),
        None => format!("there are: {}", names.join(", ")),
    };
    check.wrong(&below(at, "engine"), format!("`engine` = \"{name}\" is no context engine"), &hint);
}

fn check_compaction_model(
    check: &mut Check<'_, '_>,
    at: &[Seg],
    agent: &AgentConfig,
    models: &[ModelConfig],
) {
    let Some(id) = &agent.compaction.model else { return };
    let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    if ids.contains(&id.as_str()) {
        return;
    }
    let tables = [at.to_vec(), key_path!["defaults"].to_vec()];
    let path = tables
        .iter()
        .map(|at| below(&below(at, "compaction"), "model"))
        .find(|path| check.source.sets(path))
        .unwrap_or_else(|| at.to_vec());
    let message =
        format!("agent `{}` summarises with the model `{id}`, which is not in [[models]]", agent.id);
    let hint = match nearest(id, &ids) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("add it to [[models]]; there are: {}", ids.join(", ")),
    };
    check.wrong(&path, message, &hint);
}

/// Windows that the file itself makes small: they are used, and may not be meant.
fn warn_of_windows(
    check: &mut Check<'_, '_>,
    agent: &AgentConfig,
    defaults: &Defaults,
    models: &[ModelConfig],
) {
    for id in agent.chain() {
        let Some(model) = models.iter().find(|model| model.id == id) else { continue };
        let set = [agent.context_window, model.context_window];
        if set == [None, None] {
            continue;
        }
        let [of_agent, of_model] = set;
        let window =
            WindowSize::resolve(of_agent, of_model, None, defaults.context_window, model.max_output_tokens);
        if window.window_tokens < agent.window_guard.warn_tokens {
            check.warnings.push(format!(
                "agent `{}`: the window of `{id}` is small: {} tokens ({}), below window_guard.warn_tokens = {}; it is \
                 used as it is",
                agent.id,
                window.window_tokens,
                window.source.origin(),
                agent.window_guard.warn_tokens
            ));
        }
    }
}

/// A cap on money holds back nothing that has no price.
pub(super) fn warn_of_prices(check: &mut Check<'_, '_>, agents: &[AgentConfig], models: &[ModelConfig]) {
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
        check.warnings.push(
            "`spend_per_day` holds nothing back: no model has a price; set input_price and output_price of each"
                .to_owned(),
        );
    } else if !free.is_empty() {
        check.warnings.push(format!(
            "`spend_per_day` does not count what {} cost: set input_price and output_price of each",
            free.join(", ")
        ));
    }
}
