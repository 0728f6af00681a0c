//! Checks of `[openai_api]`.

use super::{Check, below, key_path};
use crate::env::Environment;
use crate::secrets::key_file;
use crate::types::{Config, OpenAiApiConfig};

/// Longest name of a key.
const NAME_MAX: usize = 24;

/// Checks the address and the keys, and finds the files of the keys.
pub(crate) fn check_openai_api(
    check: &mut Check<'_, '_>,
    mut api: OpenAiApiConfig,
    config: &Config,
    env: &dyn Environment,
) -> OpenAiApiConfig {
    match (&api.listen, api.address()) {
        (None, _) => {}
        (Some(listen), None) => check.wrong(
            &key_path!["openai_api", "listen"],
            format!("`listen` = \"{listen}\" is not an address with a port"),
            "write numbers, such as \"127.0.0.1:8787\" or \"[::1]:8787\"",
        ),
        (Some(_), Some(address)) if config.admin.address() == Some(address) => check.wrong(
            &key_path!["openai_api", "listen"],
            format!("[openai_api] and [admin] both listen at {address}"),
            "give one of them another port",
        ),
        (Some(listen), Some(address)) if !address.ip().is_loopback() => check.warn(format!(
            "[openai_api]: `listen` = \"{listen}\" can be reached from other machines, without TLS: keys and messages can \
             be read on the way, so put a reverse proxy with TLS in front of it"
        )),
        (Some(_), Some(_)) => {}
    }
    if api.listen.is_some() && api.keys.is_empty() {
        let hint = "add [[openai_api.keys]] with `name`, `key_file` and `agents`";
        check.wrong(
            &key_path!["openai_api", "listen"],
            "[openai_api] has no key, so nobody could use it",
            hint,
        );
    }
    for idx in 0..api.keys.len() {
        check_key(check, &api, idx, config);
        let file = &mut api.keys[idx].key_file;
        *file = file.take().map(|file| key_file(&file, check.source.dir(), env));
    }
    api
}

fn check_key(check: &mut Check<'_, '_>, api: &OpenAiApiConfig, idx: usize, config: &Config) {
    let (at, key, number) = (key_path!["openai_api", "keys", idx], &api.keys[idx], idx + 1);
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let name = &key.name;
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(fits) {
        let message =
            format!("`name` = \"{name}\" is not a valid key name (number {number} of [[openai_api.keys]])");
        let hint = format!("write 1 to {NAME_MAX} of the characters A-Z a-z 0-9 -");
        check.wrong(&below(&at, "name"), message, &hint);
    } else if api.keys[..idx].iter().any(|other| other.name == *name) {
        let message = format!("two keys of [openai_api] have the name `{name}`");
        check.wrong(&below(&at, "name"), message, "give each its own name");
    }
    if key.key_file.is_some() == key.key_env.is_some() {
        let message = format!("the key `{name}` of [openai_api] needs one of `key_file` and `key_env`");
        check.wrong(&below(&at, "key_file"), message, "such as key_file = \"desk.key\"");
    }
    if let Some(variable) = &key.key_env {
        check.variable(&below(&at, "key_env"), "key_env", variable);
    }
    if key.agents.is_empty() {
        let message = format!("the key `{name}` of [openai_api] has no agents");
        check.wrong(&below(&at, "agents"), message, "such as agents = [\"main\"]");
    }
    if let Some(agent) = key.agents.iter().find(|agent| config.agent(agent.as_str()).is_none()) {
        let message =
            format!("the key `{name}` of [openai_api] names the agent `{agent}`, which is not configured");
        check.wrong(&below(&at, "agents"), message, "correct the name, or add the agent to [[agents]]");
    }
}
