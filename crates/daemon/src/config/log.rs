//! `[log]`: what is wrong with its level.

use super::check::{Check, key_path};
use super::keys::nearest;
use super::types::Log;

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// The crates that speak in the log.
const MODULES: [&str; 6] =
    ["cairn_actors", "cairn_daemon", "cairn_llm", "cairn_platforms", "cairn_store", "cairn_tools"];

/// Checks the level; warns of modules that never speak.
pub(super) fn check(check: &mut Check<'_, '_>, log: &Log) {
    let parts: Vec<_> = log.level.split(',').map(str::trim).collect();
    // A bare word that is no level would pass as the name of a module, and a misspelt level with it.
    let is_level = |part: &str| LEVELS.contains(&part.to_ascii_lowercase().as_str());
    let unknown = parts.iter().find_map(|part| {
        let level = match part.rsplit_once('=') {
            Some((_, level)) => level.trim(),
            None if part.contains('[') => return None,
            None => part,
        };
        (!is_level(level)).then_some(level)
    });
    if unknown.is_some() || tracing_subscriber::EnvFilter::try_new(&log.level).is_err() {
        let message = format!("`level` = \"{}\" is not a level of the log", log.level);
        let hint = match unknown.and_then(|part| nearest(part, &LEVELS)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                "write error, warn, info, debug or trace, or by module: \"info,cairn_store=debug\"".to_owned()
            }
        };
        check.wrong(&key_path!["log", "level"], message, &hint);
        return;
    }
    for part in parts {
        let Some(module) = part.split(['=', '[']).next().filter(|name| !is_level(name)) else { continue };
        if let Some(warning) = warning_of(module.trim()) {
            check.warnings.push(warning);
        }
    }
}

/// What to say of a module that never speaks.
fn warning_of(module: &str) -> Option<String> {
    let first = module.split("::").next().unwrap_or_default();
    // A directive holds for all targets that begin with it.
    if MODULES.iter().any(|known| known.starts_with(module) || *known == first) {
        return None;
    }
    let why = match nearest(first, &MODULES) {
        Some(near) if first.starts_with("cairn") => format!("there is none; did you mean `{near}`?"),
        _ if first.starts_with("cairn") => format!("there is none; there are {}", MODULES.join(", ")),
        _ => "only cairn's own modules are logged, since libraries log what they carry".to_owned(),
    };
    Some(format!("[log]: `level` names the module `{module}`: {why}"))
}
