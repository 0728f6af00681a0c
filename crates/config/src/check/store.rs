//! Checks of `[store]`, and of `[retention]` with a database.

use super::{Check, SECRETS_APART, key_path};
use crate::env::Environment;
use crate::secrets::{key_file, looks_secret};
use crate::types::Config;
use crate::url;

const NAME_MAX: usize = 64;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

const EXAMPLE: &str = "write it as url = \"postgres://ACCOUNT@HOST/DATABASE\"; add ?sslmode=verify-full where others share \
                       the network";

pub(crate) fn check_store(check: &mut Check<'_, '_>, config: &mut Config, env: &dyn Environment) {
    let (store, retention) = (&mut config.store, &config.retention);
    for (key, limit) in
        [("journal_days", retention.journal_days.into()), ("journal_mib", retention.journal_mib)]
    {
        if limit > 0 && store.url.is_some() {
            let message = format!("`{key}` of [retention] is for a journal in the state folder alone");
            check.wrong(
                &key_path!["retention", key],
                message,
                "leave it out: words in a database do not expire",
            );
        }
    }
    if let Some(trouble) = store.url.as_deref().and_then(url_trouble) {
        check.wrong(&key_path!["store", "url"], format!("`url` of [store] {}", trouble.0), trouble.1);
    }
    for (key, is_set) in [
        ("password_env", store.password_env.is_some()),
        ("password_file", store.password_file.is_some()),
        ("node", store.node.is_some()),
    ] {
        if is_set && store.url.is_none() {
            let message = format!("`{key}` of [store] is of use with a database alone");
            check.wrong(&key_path!["store", key], message, "add `url`, or leave it out");
        }
    }
    if store.password_env.is_some() && store.password_file.is_some() {
        let message = "[store] has both password_env and password_file".to_owned();
        check.wrong(&key_path!["store", "password_file"], message, "keep one of the two");
    }
    if let Some(variable) = &store.password_env {
        check.variable(&key_path!["store", "password_env"], "password_env", variable);
    }
    if store.password_file.as_ref().is_some_and(|file| looks_secret(&file.to_string_lossy())) {
        let message = "`password_file` holds the password itself".to_owned();
        check.wrong(&key_path!["store", "password_file"], message, SECRETS_APART);
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let is_name = |name: &String| (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(fits);
    if let Some(name) = store.node.as_ref().filter(|name| !is_name(name)) {
        check.wrong(
            &key_path!["store", "node"],
            format!("`node` = \"{name}\" is no name of a machine"),
            &format!("write 1 to {NAME_MAX} of the characters A-Z a-z 0-9 - . _"),
        );
    }
    store.password_file = store.password_file.take().map(|file| key_file(&file, check.source.dir(), env));
}

/// What is wrong with the address of a database, and a hint.
fn url_trouble(url: &str) -> Option<(String, &'static str)> {
    let Some(rest) = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
        return Some((format!("= \"{}\" must begin with postgres://", url::shown(url)), EXAMPLE));
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let (account, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if account.contains(':') || rest.contains("password=") {
        return Some((
            "has a password in it".to_owned(),
            "name the variable or the file that holds it: password_env",
        ));
    }
    if host.is_empty() && !rest.contains("host=") {
        return Some(("names no server".to_owned(), EXAMPLE));
    }
    let is_odd = rest.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#');
    is_odd.then(|| ("has white space or `#` in it".to_owned(), EXAMPLE))
}
