//! What is asked, and what the answers are.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use super::super::failure::Failure;
use super::InitArgs;
use super::ask::Ask;
use crate::config::{Environment as _, ProcessEnvironment, Provider};

/// Names of files for secrets that are typed.
pub(super) const MODEL_KEY: &str = "model.key";
pub(super) const DISCORD_TOKEN: &str = "discord.token";
pub(super) const TELEGRAM_TOKEN: &str = "telegram.token";

/// Where a secret is.
pub(super) enum Secret {
    /// There is none.
    None,
    /// In a variable.
    Variable(String),
    /// In a file, absolute or by its bare name beside the configuration.
    File(PathBuf),
    /// It was typed, and is to be written to a file of its own.
    Typed(SecretString),
}

/// A model behind a server.
pub(super) struct Model {
    pub(super) provider: Provider,
    /// None: the provider's own server.
    pub(super) base_url: Option<String>,
    pub(super) name: String,
    pub(super) key: Secret,
    pub(super) window: Option<u64>,
}

/// A bot on a chat network.
pub(super) struct Bot {
    pub(super) token: Secret,
    /// Servers; on Discord alone.
    pub(super) servers: Vec<String>,
}

/// All answers.
pub(super) struct Answers {
    /// None: offline.
    pub(super) model: Option<Model>,
    pub(super) discord: Option<Bot>,
    pub(super) telegram: Option<Bot>,
    /// `PLATFORM/ID` each.
    pub(super) owners: Vec<String>,
}

impl Answers {
    /// Takes what flags say, and asks for the rest. `file`: the configuration.
    pub(super) fn gather(args: &InitArgs, file: &Path, ask: &mut Ask) -> Result<Self, Failure> {
        let dir = file.parent().unwrap_or(Path::new("/"));
        let model = model(args, dir, ask)?;
        let discord = discord(args, dir, ask)?;
        let telegram = bot(
            "A bot on Telegram? The file with its token, - to type the token, nothing for none:",
            args.telegram_token_file.as_deref(),
            (dir, TELEGRAM_TOKEN),
            ask,
        )?;
        let telegram = telegram.map(|token| Bot { token, servers: Vec::new() });
        let owners = if !args.owners.is_empty() {
            let owners = args.owners.iter().map(|owner| person(owner));
            owners.collect::<Result<_, _>>().map_err(|why| Failure::usage(why, "see cairn init --help"))?
        } else if discord.is_some() || telegram.is_some() {
            let question =
                "Who are you there? discord/ID, telegram/ID; nothing: the bot tells you a code later:";
            ask.fitting(question, "", people)?
        } else {
            Vec::new()
        };
        Ok(Self { model, discord, telegram, owners })
    }

    /// The secrets that were typed, with the names of their files.
    pub(super) fn typed(&self) -> Vec<(&'static str, &SecretString)> {
        let mut out = Vec::new();
        for (name, secret) in self.secrets() {
            if let Secret::Typed(secret) = secret {
                out.push((name, secret));
            }
        }
        out
    }

    /// The files of all secrets, absolute. `file`: the configuration.
    pub(super) fn secret_files(&self, file: &Path) -> Vec<PathBuf> {
        let dir = file.parent().unwrap_or(Path::new("/"));
        let files = self.secrets().into_iter().filter_map(|(name, secret)| secret.file(name));
        files.map(|file| dir.join(file)).collect()
    }

    fn secrets(&self) -> Vec<(&'static str, &Secret)> {
        let model = self.model.as_ref().map(|model| (MODEL_KEY, &model.key));
        let discord = self.discord.as_ref().map(|bot| (DISCORD_TOKEN, &bot.token));
        let telegram = self.telegram.as_ref().map(|bot| (TELEGRAM_TOKEN, &bot.token));
        model.into_iter().chain(discord).chain(telegram).collect()
    }
}

fn model(args: &InitArgs, dir: &Path, ask: &mut Ask) -> Result<Option<Model>, Failure> {
    // Whoever names a server or its model means one.
    let implied = (args.base_url.is_some() || args.model.is_some()).then_some(Provider::Openai);
    let provider = match args.provider.map(Provider::from).or(implied) {
        Some(provider) => provider,
        None => ask.fitting(
            "Who answers? openai (any compatible server), anthropic, or offline (no key, no network):",
            "offline",
            |answer| match answer {
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
                format!("Its server's address, such as http://127.0.0.1:8080/v1; nothing: {own} own:");
            Some(ask.line(&question, "")?).filter(|url| !url.is_empty())
        }
    };
    let name = match &args.model {
        Some(name) => name.clone(),
        None => ask.fitting("The model, by the server's name for it:", "", |name| match name {
            "" => Err("a model is needed: write its name (--model)".to_owned()),
            name => Ok(name.to_owned()),
        })?,
    };
    let key = match (&args.key_env, &args.key_file) {
        (Some(variable), _) => Secret::Variable(variable.trim_start_matches('$').to_owned()),
        (None, Some(file)) => Secret::File(beside(file, dir)),
        (None, None) => secret(
            "Its key? $VARIABLE, a file, - to type it; nothing: no key is sent:",
            (dir, MODEL_KEY),
            ask,
        )?,
    };
    let window = match args.context_window {
        Some(window) => Some(window),
        None => ask.fitting("Its window in tokens; nothing: what the server lists:", "", |text| {
            if text.is_empty() {
                return Ok(None);
            }
            let digits = text.replace([',', '_', ' '], "");
            digits.parse().map(Some).map_err(|_| "write a number, such as 32000".to_owned())
        })?,
    };
    Ok(Some(Model { provider, base_url, name, key, window }))
}

fn discord(args: &InitArgs, dir: &Path, ask: &mut Ask) -> Result<Option<Bot>, Failure> {
    let token = bot(
        "A bot on Discord? The file with its token, - to type the token, nothing for none:",
        args.discord_token_file.as_deref(),
        (dir, DISCORD_TOKEN),
        ask,
    )?;
    let Some(token) = token else { return Ok(None) };
    let servers = if args.discord_servers.is_empty() {
        ask.fitting("Which servers is it to serve, by their ids? nothing: private chats alone:", "", ids)?
    } else {
        let ids = args.discord_servers.iter().map(|text| ids(text)).collect::<Result<Vec<_>, _>>();
        ids.map_err(|why| Failure::usage(why, "see cairn init --help"))?.concat()
    };
    Ok(Some(Bot { token, servers }))
}

/// The token of a bot, if there is to be one.
fn bot(
    question: &str,
    flag: Option<&Path>,
    (dir, name): (&Path, &'static str),
    ask: &mut Ask,
) -> Result<Option<Secret>, Failure> {
    if let Some(file) = flag {
        return Ok(Some(Secret::File(beside(file, dir))));
    }
    Ok(match secret(question, (dir, name), ask)? {
        Secret::None => None,
        found => Some(found),
    })
}

/// A secret, by what says where it is.
fn secret(question: &str, (dir, name): (&Path, &str), ask: &mut Ask) -> Result<Secret, Failure> {
    if !ask.is_asking() {
        return Ok(Secret::None);
    }
    let answer = ask.line(question, "")?;
    if answer.is_empty() {
        return Ok(Secret::None);
    }
    if let Some(variable) = answer.strip_prefix('$') {
        return Ok(Secret::Variable(variable.to_owned()));
    }
    if answer != "-" {
        return Ok(Secret::File(beside(Path::new(&answer), dir)));
    }
    let typed = ask.secret(&format!("  Type or paste it (it is not shown, and goes into {name}):"))?;
    if typed.expose_secret().is_empty() { Ok(Secret::None) } else { Ok(Secret::Typed(typed)) }
}

/// A file as the configuration names it: by its bare name where it lies beside, so that a credential of systemd of that
/// name is found, too.
fn beside(file: &Path, dir: &Path) -> PathBuf {
    let whole = ProcessEnvironment.current_dir().map_or_else(|| file.to_owned(), |cwd| cwd.join(file));
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) if parent == dir => name.into(),
        _ => whole,
    }
}

/// Ids, parted by commas or blanks.
fn ids(text: &str) -> Result<Vec<String>, String> {
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    parts
        .map(|part| match part.parse::<u64>() {
            Ok(_) => Ok(part.to_owned()),
            Err(_) => {
                Err(format!("`{part}` is no id: developer mode, right-click on the server, copy the id"))
            }
        })
        .collect()
}

/// People, parted by commas or blanks.
fn people(text: &str) -> Result<Vec<String>, String> {
    text.split([',', ' ']).filter(|part| !part.is_empty()).map(person).collect()
}

fn person(text: &str) -> Result<String, String> {
    let known = ["discord/", "telegram/"].iter().any(|platform| {
        text.strip_prefix(platform).is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
    });
    if known {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` names nobody: write discord/ID or telegram/ID"))
    }
}
