//! Checks beyond keys and their ranges: unknown names, and values that contradict each other.

mod agents;
mod languages;
mod models;
mod network;
mod openai_api;
mod schedules;
mod services;
mod store;
mod tools;

use std::path::PathBuf;

use cairn_core::settings::BadSetting;

use super::env::Environment;
use super::error::Problem;
use super::schema::nearest;
use super::secrets::key_file;
use super::secrets::{looks_secret, names_variable};
use super::source::{Seg, Source};
use super::types::{AdminConfig, Limits, Log};
use super::url;

pub(super) use agents::{check_agents, check_prices};
pub(super) use languages::check_languages;
pub(super) use models::{check_models, trimmed, url_trouble};
pub(super) use network::{bot_path, check_bots, check_operators, check_webhooks};
pub(super) use openai_api::check_openai_api;
pub(super) use schedules::check_schedules;
pub(super) use services::check_services;
pub(super) use store::check_store;
pub(super) use tools::{check_fetch, check_search, check_servers, check_tools};

pub(super) struct Check<'s, 't> {
    pub(super) source: &'s Source<'t>,
    /// Problems, in the order in which they were found.
    pub(super) problems: Vec<Problem>,
    /// What works but is probably not meant.
    pub(super) warnings: Vec<String>,
}

impl<'s, 't> Check<'s, 't> {
    pub(super) fn new(source: &'s Source<'t>) -> Self {
        Self { source, problems: Vec::new(), warnings: Vec::new() }
    }

    /// Notes a problem with the value of a key, or with the table that lacks it. A problem in `[defaults]` shows up in every
    /// agent, and is noted once.
    fn wrong(&mut self, path: &[Seg], message: impl Into<String>, hint: &str) {
        let place = self.source.value_place(path).or_else(|| self.source.key_place(path));
        self.note(Problem::new(message).at(place).hint(hint));
    }

    fn note(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Checks how a key is named, and finds its file. `of`: whose it is; `at`: its table.
    fn key(
        &mut self,
        of: &str,
        at: &[Seg],
        variable: Option<&str>,
        file: &mut Option<PathBuf>,
        env: &dyn Environment,
    ) {
        let key = |name: &'static str| at.iter().cloned().chain([Seg::from(name)]).collect::<Vec<Seg>>();
        if variable.is_some() && file.is_some() {
            let message = format!("{of} has both api_key_env and api_key_file");
            self.wrong(&key("api_key_file"), message, "keep one of the two");
        }
        if let Some(variable) = variable {
            self.variable(&key("api_key_env"), "api_key_env", variable);
        }
        *file = file.take().map(|file| key_file(&file, self.source.dir(), env));
    }

    /// Notes a key that should name a variable and does not: mostly it holds the secret itself.
    fn variable(&mut self, path: &[Seg], key: &str, name: &str) {
        if names_variable(name) {
            return;
        }
        let message = if looks_secret(name) {
            format!("`{key}` holds the secret itself")
        } else {
            format!("`{key}` is not the name of a variable")
        };
        self.wrong(path, message, SECRETS_APART);
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Checks the last of the ids of a list of tables.
    fn id(&mut self, rule: &IdRule, ids: &[&str]) {
        let IdRule { table, one, many, example, longest, signs } = *rule;
        let Some((id, before)) = ids.split_last() else { return };
        let at = key_path![table, before.len()];
        let number = ids.len();
        let fits = |b: u8| b.is_ascii_alphanumeric() || signs.as_bytes().contains(&b);
        let (message, hint) = if id.is_empty() {
            (format!("number {number} of [[{table}]] has no `id`"), format!("add one: id = \"{example}\""))
        } else if id.len() > longest || !id.bytes().all(fits) {
            let signs: String = signs.chars().flat_map(|sign| [' ', sign]).collect();
            let hint = format!("write 1 to {longest} of the characters A-Z a-z 0-9{signs}");
            (format!("`id` = \"{id}\" is no name of {one}"), hint)
        } else if let Some(first) = before.iter().position(|other| other == id) {
            let message = format!("two {many} have the id `{id}` (numbers {} and {number})", first + 1);
            (message, "give each its own id".to_owned())
        } else {
            return;
        };
        self.wrong(&below(&at, "id"), message, &hint);
    }

    /// The path where a key of an agent is set: in `[defaults]` if only they set it, else in the agent's table `at`.
    fn set_at(&self, at: &[Seg], keys: &[&str]) -> Vec<Seg> {
        let path = |table: &[Seg]| keys.iter().fold(table.to_vec(), |table, key| below(&table, key));
        let paths = [path(at), path(&key_path!["defaults"])];
        let set = paths.iter().find(|path| self.source.sets(path));
        set.unwrap_or(&paths[0]).clone()
    }

    /// Notes contradicting settings of an agent's table, at the nearest place that sets one of them.
    fn contradiction(&mut self, at: &[Seg], table: &str, result: Result<(), BadSetting>) {
        let Err(bad) = result else { return };
        let others = bad.reason.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let keys: Vec<&str> = [bad.key].into_iter().chain(others.filter(|word| word.contains('_'))).collect();
        let tables = [below(at, table), below(&key_path!["defaults"], table)];
        let mut paths = tables.iter().flat_map(|table| keys.iter().map(|key| below(table, key)));
        let set = paths.find(|path| self.source.sets(path));
        let message = format!("`{}` = {} {}", bad.key, bad.value, bad.reason);
        let hint = if bad.key.ends_with("_threshold") {
            "thresholds are shares of the window and rise: background_threshold < aggressive_threshold < \
             emergency_threshold, by default 0.80, 0.85, 0.95"
                .to_owned()
        } else {
            format!("config/config.toml shows the keys of [{table}] with their defaults")
        };
        let place = set.and_then(|path| self.source.value_place(&path));
        let place = place.or_else(|| self.source.key_place(&below(at, table)));
        // A value that is out of its range contradicts others as well, and is already noted.
        if place.is_none() || self.problems.iter().all(|problem| problem.place != place) {
            self.note(Problem::new(message).at(place).hint(hint));
        }
    }
}

/// The hint for a secret in the file.
const SECRETS_APART: &str = "put the secret into a variable or a file of its own, and have this key name it; if this file \
                             was shared, get a new secret";

/// The hint for an unknown name.
fn known_names(written: &str, known: &[&str], table: &str) -> String {
    match nearest(written, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("add it to [[{table}]]; there are: {}", known.join(", ")),
    }
}

/// How ids of a list of tables are written, and what messages call the table.
struct IdRule {
    table: &'static str,
    one: &'static str,
    many: &'static str,
    example: &'static str,
    longest: usize,
    /// Characters allowed in an id besides `A-Z a-z 0-9`.
    signs: &'static str,
}

pub(super) fn below(table: &[Seg], key: &str) -> Vec<Seg> {
    table.iter().cloned().chain([Seg::from(key)]).collect()
}

/// A path of keys and indices into the file.
macro_rules! key_path {
    ($($seg:expr),* $(,)?) => {
        [$($crate::source::Seg::from($seg)),*]
    };
}
pub(super) use key_path;

pub(super) fn check_limits(check: &mut Check<'_, '_>, limits: &Limits) {
    let most = limits.model_cool_down_max_secs;
    for (key, pause) in [
        ("model_cool_down_secs", limits.model_cool_down_secs),
        ("model_limited_secs", limits.model_limited_secs),
    ] {
        let at = key_path!["limits", key];
        let is_set = |key| check.source.sets(&key_path!["limits", key]);
        if pause > most && (is_set(key) || is_set("model_cool_down_max_secs")) {
            let message = format!("`{key}` = {pause} is above model_cool_down_max_secs = {most}");
            let hint = "it is the pause after the first failure, and grows: lower it, or raise the other";
            check.wrong(&at, message, hint);
        }
    }
}

/// Checks the address and its names; warns if other machines than this one can reach it.
pub(super) fn check_admin(check: &mut Check<'_, '_>, admin: &AdminConfig) {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if let Some(idx) = admin.hosts.iter().position(|host| host.is_empty() || !host.chars().all(fits)) {
        check.wrong(
            &key_path!["admin", "hosts", idx],
            format!("\"{}\" is not a name of a machine", admin.hosts[idx]),
            "write it without scheme and port, such as \"bot.example.net\"",
        );
    }
    if let Some(origin) = &admin.proxy
        && !is_origin(origin)
    {
        let message = format!("`proxy` = \"{}\" is not the address of a site with TLS", url::shown(origin));
        check.wrong(
            &key_path!["admin", "proxy"],
            message,
            "write it as browsers show it, without a path: \"https://cairn.example.net\"; of a container, the port that is \
             published at the loopback address: \"http://127.0.0.1:9464\"",
        );
    }
    let Some(listen) = &admin.listen else { return };
    match admin.address() {
        None => check.wrong(
            &key_path!["admin", "listen"],
            format!("`listen` = \"{listen}\" is not an address with a port"),
            "write numbers, such as \"127.0.0.1:9464\" or \"[::1]:9464\"",
        ),
        Some(address) if admin.page && address.port() == 0 => check.wrong(
            &key_path!["admin", "listen"],
            "the page needs a port that stays".to_owned(),
            "write one, such as \"127.0.0.1:9464\"",
        ),
        Some(address) if admin.page && admin.proxy.is_none() && !address.ip().is_loopback() => check.wrong(
            &key_path!["admin", "listen"],
            format!("`listen` = \"{listen}\" would show the page to other machines without TLS"),
            "listen at \"127.0.0.1:9464\" and reach it through `ssh -L 9464:127.0.0.1:9464 HOST`, or serve it by a reverse \
             proxy with TLS and name that in `proxy`",
        ),
        Some(address) if !address.ip().is_loopback() => check.warn(format!(
            "[admin]: `listen` = \"{listen}\" can be reached from other machines, without a password: let a firewall \
             see to it that only your Prometheus does"
        )),
        Some(_) => {}
    }
}

/// `https://HOST` or `https://HOST:PORT`, in lower case, as browsers send it.
/// The origin of a site with TLS; or of a port that a container publishes at this machine's loopback address.
fn is_origin(origin: &str) -> bool {
    let published = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
    if let Some(port) = published.iter().find_map(|begin| origin.strip_prefix(begin)) {
        return port.parse::<u16>().is_ok_and(|number| number > 0 && number.to_string() == port);
    }
    let host = origin.strip_prefix("https://").unwrap_or_default();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:[]".contains(c);
    !host.is_empty() && host.chars().all(fits) && !host.ends_with(":443")
}

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// The crates that write to the log.
const MODULES: [&str; 8] = [
    "cairn_actors",
    "cairn_cli",
    "cairn_daemon",
    "cairn_llm",
    "cairn_platforms",
    "cairn_server",
    "cairn_store",
    "cairn_tools",
];

/// Checks the level; warns of modules that write nothing.
pub(super) fn check_log(check: &mut Check<'_, '_>, log: &Log) {
    let parts: Vec<_> = log.level.split(',').map(str::trim).collect();
    // A bare word that is no level would pass as a module's name, and so would a misspelt level.
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
            check.warn(warning);
        }
    }
}

/// The warning for a module that writes nothing; `None` for one that does.
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
