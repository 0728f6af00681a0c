//! The answers that `init` needs, from flags or questions.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::commands::init::ask::{Ask, Secret, SecretQuestion, beside};
use crate::commands::init::{InitArgs, ProviderArg};
use cairn_cli::failure::Failure;
use cairn_config::{NetworkKind, Provider, base_url_trouble, is_id_of_one, window_trouble};

/// The name of the file for a typed model key.
pub(super) const MODEL_KEY: &str = "model.key";

pub(super) fn token_file(kind: NetworkKind) -> &'static str {
    match kind {
        NetworkKind::Discord => "discord.token",
        NetworkKind::Telegram => "telegram.token",
    }
}

pub(super) struct Model {
    pub(super) provider: Provider,
    /// `None`: the provider's own server.
    pub(super) base_url: Option<String>,
    pub(super) name: String,
    pub(super) key: Secret,
    pub(super) window: Option<u64>,
}

pub(super) struct Bot {
    pub(super) kind: NetworkKind,
    pub(super) token: Secret,
    /// Server ids; for Discord only.
    pub(super) servers: Vec<String>,
}

pub(super) struct Answers {
    /// `None`: the offline model.
    pub(super) model: Option<Model>,
    pub(super) bots: Vec<Bot>,
    /// People as `PLATFORM/ID`.
    pub(super) owners: Vec<String>,
}

impl Answers {
    /// Takes the answers from flags and asks for the rest. `file`: the configuration to write.
    pub(super) fn gather(args: &InitArgs, file: &Path, ask: &mut Ask) -> Result<Self, Failure> {
        check_flags(args)?;
        let dir = file.parent().unwrap_or(Path::new("/"));
        // Wrong flags are reported before the first question.
        let mut tokens = Vec::new();
        for kind in NetworkKind::ALL {
            let wanted = bot_wanted(args, dir, kind);
            let (file, flag) = token_flag(args, kind);
            let token = file.as_deref().map(|file| wanted.named(file, flag)).transpose()?;
            tokens.push((kind, wanted, token));
        }
        let model = model(args, dir, ask)?;
        let mut bots = Vec::new();
        for (kind, wanted, token) in tokens {
            let token = match token {
                Some(token) => token,
                None => ask_for_token(kind, &wanted, ask)?,
            };
            if !matches!(token, Secret::None) {
                let serves_servers = kind == NetworkKind::Discord;
                let servers = if serves_servers { servers(args, ask)? } else { Vec::new() };
                bots.push(Bot { kind, token, servers });
            }
        }
        let owners = if args.owners.is_empty() && !bots.is_empty() {
            let question =
                "Your id there: discord/ID or telegram/ID (empty: the bot gives you a code later):";
            ask.fitting(question, "", |text| people(text, &bots))?
        } else {
            args.owners.clone()
        };
        Ok(Self { model, bots, owners })
    }

    /// The typed secrets, with the names of their files.
    pub(super) fn typed(&self) -> Vec<(&'static str, &SecretString)> {
        let mut out = Vec::new();
        for (name, secret) in self.secrets() {
            if let Secret::Typed(secret) = secret {
                out.push((name, secret));
            }
        }
        out
    }

    /// The absolute paths of all secret files. `file`: the configuration to write.
    pub(super) fn secret_files(&self, file: &Path) -> Vec<PathBuf> {
        let dir = file.parent().unwrap_or(Path::new("/"));
        let files = self.secrets().into_iter().filter_map(|(name, secret)| secret.file(name));
        files.map(|file| dir.join(file)).collect()
    }

    fn secrets(&self) -> Vec<(&'static str, &Secret)> {
        let model = self.model.as_ref().map(|model| (MODEL_KEY, &model.key));
        let bots = self.bots.iter().map(|bot| (token_file(bot.kind), &bot.token));
        model.into_iter().chain(bots).collect()
    }
}

fn model(args: &InitArgs, dir: &Path, ask: &mut Ask) -> Result<Option<Model>, Failure> {
    // Any flag about a model server implies a model.
    let implied = model_flags(args).first().map(|_flag| Provider::Openai);
    let provider = match args.provider.map(Provider::from).or(implied) {
        Some(provider) => provider,
        None => ask.fitting(
            "Which kind of model: openai (any compatible server), anthropic, or offline (no key, no network)?",
            "offline",
            |answer| match answer.to_lowercase().as_str() {
                "openai" => Ok(Provider::Openai),
                "anthropic" => Ok(Provider::Anthropic),
                "offline" => Ok(Provider::Offline),
                _ => Err("write openai, anthropic or offline".to_owned()),
            },
        )?,
    };
    if provider == Provider::Offline {
        return Ok(None);
    }
    let base_url = match &args.base_url {
        Some(url) => Some(url.clone()),
        None => {
            let own = if provider == Provider::Openai { "OpenAI's" } else { "Anthropic's" };
            let question =
                format!("The address of its server, such as http://127.0.0.1:8080/v1 (empty: {own}):");
            ask.fitting(&question, "", |url| match url {
                "" => Ok(None),
                url => base_url_trouble(url, provider).map_or_else(|| Ok(Some(url.to_owned())), Err),
            })?
        }
    };
    let name = match &args.model {
        Some(name) => name.clone(),
        None => ask.fitting("The model's name on that server:", "", |name| match name {
            "" => Err("a model is needed: give its name (--model)".to_owned()),
            name => Ok(name.to_owned()),
        })?,
    };
    let key = match (&args.key_env, &args.key_file) {
        (Some(variable), _) => Secret::Variable(variable.trim_start_matches('$').to_owned()),
        (None, Some(file)) => Secret::File(beside(file, dir)),
        (None, None) => {
            let wanted = SecretQuestion { what: "key", dir, name: MODEL_KEY, needed: None };
            wanted.ask("Its key: $VARIABLE, a file, or - to type it (empty: no key):", ask)?
        }
    };
    let window = match args.context_window {
        Some(window) => Some(window),
        None => ask.fitting("Its window in tokens (empty: what the server lists):", "", window)?,
    };
    Ok(Some(Model { provider, base_url, name, key, window }))
}

fn window(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.replace([',', '_', ' '], "");
    let window = digits.parse().map_err(|_| "write a number, such as 32000".to_owned())?;
    window_trouble(window).map_or(Ok(Some(window)), Err)
}

fn servers(args: &InitArgs, ask: &mut Ask) -> Result<Vec<String>, Failure> {
    if args.discord_servers.is_empty() {
        let question = "The ids of the servers it serves (empty: only private chats):";
        return ask.fitting(question, "", ids);
    }
    let servers = args.discord_servers.iter().map(|text| ids(text)).collect::<Result<Vec<_>, _>>();
    servers.map(|ids| ids.concat()).map_err(|why| Failure::usage(why, "see cairn init --help"))
}

/// The question for a bot's token, and the reason if it is required.
fn bot_wanted<'a>(args: &InitArgs, dir: &'a Path, kind: NetworkKind) -> SecretQuestion<'a> {
    let needed = bot_flag(args, kind)
        .map(|flag| format!("{flag} needs a bot there: give its token, or leave {flag} out"));
    SecretQuestion { what: "token", dir, name: token_file(kind), needed }
}

/// The token file given by a flag, and the flag's name.
fn token_flag(args: &InitArgs, kind: NetworkKind) -> (&Option<PathBuf>, &'static str) {
    match kind {
        NetworkKind::Discord => (&args.discord_token_file, "--discord-token-file"),
        NetworkKind::Telegram => (&args.telegram_token_file, "--telegram-token-file"),
    }
}

fn ask_for_token(kind: NetworkKind, wanted: &SecretQuestion<'_>, ask: &mut Ask) -> Result<Secret, Failure> {
    let network = match kind {
        NetworkKind::Discord => "Discord",
        NetworkKind::Telegram => "Telegram",
    };
    let question =
        format!("The token of a bot on {network}: a file, $VARIABLE, or - to type it (empty: no bot):");
    wanted.ask(&question, ask)
}

/// Parses Discord server ids, separated by commas or spaces.
fn ids(text: &str) -> Result<Vec<String>, String> {
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            if is_id_of_one(part, NetworkKind::Discord) {
                return Ok(part.to_owned());
            }
            Err(format!(
                "`{part}` is not an id: switch on developer mode, right-click the server, copy its id"
            ))
        })
        .collect()
}

/// Parses people, separated by commas or spaces. Each must be on a network with a bot.
fn people(text: &str, bots: &[Bot]) -> Result<Vec<String>, String> {
    let one = |text: &str| {
        let there = person(text)?;
        if bots.iter().all(|bot| bot.kind != there) {
            return Err(format!("there is no bot on {}: `{text}` cannot write to it", there.name()));
        }
        Ok(text.to_owned())
    };
    text.split([',', ' ']).filter(|part| !part.is_empty()).map(one).collect()
}

fn person(text: &str) -> Result<NetworkKind, String> {
    let known = NetworkKind::ALL.into_iter().find(|kind| {
        let id = text.strip_prefix(kind.name()).and_then(|rest| rest.strip_prefix('/'));
        id.is_some_and(|id| is_id_of_one(id, *kind))
    });
    known.ok_or_else(|| format!("`{text}` is not a person: write discord/ID or telegram/ID"))
}

/// Checks the flags before the first question: wrong values, contradictions, and flags that need another one.
fn check_flags(args: &InitArgs) -> Result<(), Failure> {
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
    if let (Some(ProviderArg::Offline), Some(flag)) = (args.provider, model_flags(args).first()) {
        return Err(Failure::usage(
            format!("{flag} is for a model behind a server, and --provider offline has none"),
            "give --provider openai or anthropic, or leave that option out",
        ));
    }
    if !args.yes {
        return Ok(());
    }
    for kind in NetworkKind::ALL {
        let (file, token) = token_flag(args, kind);
        if let (None, Some(flag)) = (file, bot_flag(args, kind)) {
            return Err(Failure::usage(
                format!("{flag} needs a bot on {}, and {token} is missing", kind.name()),
                format!("give the file with the bot's token ({token} FILE), or leave {flag} out"),
            ));
        }
    }
    Ok(())
}

/// The given flags that concern a model server.
fn model_flags(args: &InitArgs) -> Vec<&'static str> {
    let flags = [
        (args.base_url.is_some(), "--base-url"),
        (args.model.is_some(), "--model"),
        (args.key_env.is_some(), "--key-env"),
        (args.key_file.is_some(), "--key-file"),
        (args.context_window.is_some(), "--context-window"),
    ];
    flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect()
}

/// A given flag that needs a bot on this network.
fn bot_flag(args: &InitArgs, kind: NetworkKind) -> Option<&'static str> {
    if kind == NetworkKind::Discord && !args.discord_servers.is_empty() {
        return Some("--discord-server");
    }
    args.owners.iter().any(|owner| person(owner) == Ok(kind)).then_some("--owner")
}

fn wrong(flag: &str, why: &str) -> Failure {
    Failure::usage(format!("{flag}: {why}"), "nothing was written; correct the option")
}
