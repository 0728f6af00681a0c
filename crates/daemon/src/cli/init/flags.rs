//! Flags that contradict each other, or lack one: told before anything is asked.

use super::super::failure::Failure;
use super::answers::person;
use super::{InitArgs, ProviderArg};
use crate::config::{NetworkKind, Provider, base_url_trouble, window_trouble};

/// Checks what flags say, as far as they say it.
///
/// # Errors
/// What is wrong, naming the flag.
pub(super) fn check(args: &InitArgs) -> Result<(), Failure> {
    let provider = args.provider.map_or(Provider::Openai, Provider::from);
    if let Some(why) = args.base_url.as_ref().and_then(|url| base_url_trouble(url, provider)) {
        return Err(wrong("--base-url", &why));
    }
    if let Some(why) = args.context_window.and_then(window_trouble) {
        return Err(wrong("--context-window", &why));
    }
    for owner in &args.owners {
        person(owner).map_err(|why| wrong("--owner", &why))?;
    }
    if let (Some(ProviderArg::Offline), Some(flag)) = (args.provider, of_a_model(args).first()) {
        return Err(Failure::usage(
            format!("{flag} is of a model behind a server, and --provider offline has none"),
            "name the server's kind, --provider openai or anthropic, or leave that option out",
        ));
    }
    if !args.yes {
        return Ok(());
    }
    let networks = [
        (NetworkKind::Discord, args.discord_token_file.is_some(), "--discord-token-file"),
        (NetworkKind::Telegram, args.telegram_token_file.is_some(), "--telegram-token-file"),
    ];
    for (kind, has_token, token) in networks {
        if let (false, Some(flag)) = (has_token, of_a_bot(args, kind)) {
            return Err(Failure::usage(
                format!("{flag} speaks of a bot on {}, and {token} is missing", kind.name()),
                format!("name the file with the bot's token, {token} FILE, or leave {flag} out"),
            ));
        }
    }
    Ok(())
}

/// The flags given that are about a model behind a server.
pub(super) fn of_a_model(args: &InitArgs) -> Vec<&'static str> {
    let flags = [
        (args.base_url.is_some(), "--base-url"),
        (args.model.is_some(), "--model"),
        (args.key_env.is_some(), "--key-env"),
        (args.key_file.is_some(), "--key-file"),
        (args.context_window.is_some(), "--context-window"),
    ];
    flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect()
}

/// A flag given that needs a bot there.
pub(super) fn of_a_bot(args: &InitArgs, kind: NetworkKind) -> Option<&'static str> {
    if kind == NetworkKind::Discord && !args.discord_servers.is_empty() {
        return Some("--discord-server");
    }
    args.owners.iter().any(|owner| person(owner) == Ok(kind)).then_some("--owner")
}

fn wrong(flag: &str, why: &str) -> Failure {
    Failure::usage(format!("{flag}: {why}"), "nothing was written; correct the option")
}
