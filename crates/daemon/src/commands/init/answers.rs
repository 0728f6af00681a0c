//! The answers that `init` needs, from flags or questions.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::commands::doctor::Mark;
use crate::commands::init::InitArgs;
use crate::commands::init::ask::{Ask, Secret, SecretQuestion, beside};
use crate::commands::init::choice::Choice;
use crate::commands::init::look::{self, GREETING_LIMIT, Look};
use cairn_api::text::{counted, cut, grouped, one_line};
use cairn_cli::failure::Failure;
use cairn_config::{
    ANTHROPIC_URL, NetworkKind, OPENAI_URL, Provider, base_url_trouble, is_id_of_one, window_of,
};
use cairn_types::ports::ServerWindow;

/// The name of the file for a typed model key.
pub(super) const MODEL_KEY: &str = "model.key";

/// Of bridges nothing is asked: they are set up by hand.
pub(super) fn token_file(kind: NetworkKind) -> &'static str {
    match kind {
        NetworkKind::Discord => "discord.token",
        NetworkKind::Telegram => "telegram.token",
        NetworkKind::Bridge => "bridge.token",
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
    /// `None`: the network's own.
    pub(super) api_url: Option<String>,
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
    pub(super) async fn gather(args: &InitArgs, file: &Path, ask: &mut Ask) -> Result<Self, Failure> {
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
        let model = model(args, file, ask).await?;
        let mut bots = Vec::new();
        for (kind, wanted, token) in tokens {
            bots.extend(bot(args, file, &wanted, kind, token, ask).await?);
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

    /// All secrets, with the names of their files if they were typed.
    pub(super) fn secrets(&self) -> Vec<(&'static str, &Secret)> {
        let model = self.model.as_ref().map(|model| (MODEL_KEY, &model.key));
        let bots = self.bots.iter().map(|bot| (token_file(bot.kind), &bot.token));
        model.into_iter().chain(bots).collect()
    }
}

async fn model(args: &InitArgs, file: &Path, ask: &mut Ask) -> Result<Option<Model>, Failure> {
    // Any flag about a model server implies a model.
    let implied = model_flags(args).first().map(|_flag| Choice::Openai);
    let choice = match args.provider.or(implied) {
        Some(choice) => choice,
        None => {
            if ask.is_asking() {
                ask.remark(&format!("Where is the model?\n{}", Choice::menu().trim_end()))?;
            }
            ask.fitting("Which one?", "offline", Choice::of)?
        }
    };
    if choice == Choice::Offline {
        return Ok(None);
    }
    let dir = file.parent().unwrap_or(Path::new("/"));
    let mut model = Model {
        provider: choice.provider(),
        base_url: address(args, choice, ask)?,
        name: args.model.clone().unwrap_or_default(),
        key: match (&args.key_env, &args.key_file) {
            (Some(variable), _) => Secret::Variable(variable.trim_start_matches('$').to_owned()),
            (None, Some(file)) => Secret::File(beside(file, dir)),
            // An open server is asked without one first.
            (None, None) if choice.is_open() => Secret::None,
            (None, None) => key(dir, ask)?,
        },
        window: args.context_window,
    };
    let names = match ask.looks() {
        true => listed(args, file, &mut model, ask).await?,
        false => None,
    };
    if model.name.is_empty() {
        model.name = name(names.as_deref().unwrap_or_default(), ask)?;
    }
    if names.is_some() && ask.agrees("Send it one test message?", true)? {
        let most = GREETING_LIMIT.as_secs();
        ask.remark(&format!("asking {}, for at most {most} s ...", shown(&model.name)))?;
        if let Some(look) = Look::at(file, &model) {
            ask.findings(&look.greeting().await)?;
        }
    }
    if model.window.is_none() {
        model.window = window(file, &model, names.is_some(), ask).await?;
    }
    Ok(Some(model))
}

/// The server's address; `None`: the one that the provider has without it.
fn address(args: &InitArgs, choice: Choice, ask: &mut Ask) -> Result<Option<String>, Failure> {
    let provider = choice.provider();
    let url = match &args.base_url {
        Some(url) => url.clone(),
        None if choice.moves() => ask.fitting("The address of its server:", choice.address(), |url| {
            base_url_trouble(url, provider).map_or_else(|| Ok(url.to_owned()), Err)
        })?,
        None => choice.address().to_owned(),
    };
    let own = if provider == Provider::Anthropic { ANTHROPIC_URL } else { OPENAI_URL };
    Ok(Some(url).filter(|url| url != own))
}

fn key(dir: &Path, ask: &mut Ask) -> Result<Secret, Failure> {
    let wanted = SecretQuestion { what: "key", dir, name: MODEL_KEY, needed: None };
    wanted.ask("Its key: $VARIABLE, a file, or - to type it (empty: no key):", ask)
}

/// The names of the server's models, as far as it lists them. `None`: it cannot be asked, which is said. A key that it
/// refuses is asked for again.
async fn listed(
    args: &InitArgs,
    file: &Path,
    model: &mut Model,
    ask: &mut Ask,
) -> Result<Option<Vec<String>>, Failure> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    let by_flag = args.key_env.is_some() || args.key_file.is_some();
    loop {
        let Some(look) = Look::at(file, model) else { return Ok(None) };
        if let Some(problem) = look.key_problem() {
            ask.findings(&[problem])?;
            return Ok(None);
        }
        let address = look.model().base_url.clone();
        let (seen, names) = match look.models().await {
            Ok(found) => found,
            Err(why) => {
                ask.remark(&why)?;
                return Ok(None);
            }
        };
        if !seen.answered {
            ask.remark(&format!(
                "nothing answers at {address}: is the server running? The configuration is written anyway"
            ))?;
            return Ok(None);
        }
        if !seen.refuses_key {
            return Ok(Some(names));
        }
        let has_key = !matches!(model.key, Secret::None);
        let why = if has_key { "refuses this key" } else { "asks for a key" };
        ask.remark(&format!("the server at {address} {why}"))?;
        if by_flag || (has_key && !ask.agrees("Give another key?", false)?) {
            return Ok(None);
        }
        match key(dir, ask)? {
            Secret::None => return Ok(None),
            key => model.key = key,
        }
    }
}

/// Most models that are shown at once.
const SHOWN_MAX: usize = 20;

/// Longest name that is shown, in columns.
const NAME_MAX: usize = 100;

fn shown(name: &str) -> String {
    cut(&one_line(name), NAME_MAX)
}

/// Asks for the model, by its number in the server's list or by its name. A part of a name shows those that have it.
fn name(names: &[String], ask: &mut Ask) -> Result<String, Failure> {
    if names.is_empty() {
        return ask.fitting("The model's name on that server:", "", |name| match name {
            "" => Err("a model is required: give its name (--model)".to_owned()),
            name => Ok(name.to_owned()),
        });
    }
    let mut fitting: Vec<&String> = names.iter().collect();
    let mut before = String::new();
    loop {
        show(&fitting, ask)?;
        // The only model is taken by an empty answer: it is shown in the question.
        let default = if let [only] = names { only } else { "" };
        let answer = ask.line("The model, by number or name:", default)?;
        let number = answer.parse::<usize>().ok().and_then(|n| fitting.get(n.checked_sub(1)?));
        if let Some(name) = names.iter().find(|name| **name == answer).or(number.copied()) {
            return Ok(name.clone());
        }
        let part = answer.to_lowercase();
        let found: Vec<_> = names.iter().filter(|name| name.to_lowercase().contains(&part)).collect();
        match found.is_empty() {
            _ if part.is_empty() => ask.remark("a model is required: give its number or name")?,
            false => fitting = found,
            true if before == answer => return Ok(answer),
            true => ask.remark("the server does not list it; enter the same name again to use it anyway")?,
        }
        before = answer;
    }
}

fn show(names: &[&String], ask: &mut Ask) -> Result<(), Failure> {
    ask.remark(&format!("The server has {}:", counted(names.len() as u64, "model", "models")))?;
    for (n, name) in names.iter().take(SHOWN_MAX).enumerate() {
        ask.remark(&format!("{:>3}  {}", n + 1, shown(name)))?;
    }
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => Ok(()),
        more => ask.remark(&format!("     and {more} more: type a part of a name to see those that have it")),
    }
}

/// Asks for the window. An empty answer leaves it to the server, and the question shows what that is. `answers`: the
/// server can be asked.
async fn window(file: &Path, model: &Model, answers: bool, ask: &mut Ask) -> Result<Option<u64>, Failure> {
    let Some(look) = Look::at(file, model).filter(|_| ask.is_asking()) else { return Ok(None) };
    let told = if answers { look.window().await } else { None };
    let (fallback, grows) = look.window_without();
    let fallback = match grows {
        true => format!("{}, then more as the server accepts more", grouped(fallback)),
        false => grouped(fallback),
    };
    let tokens = told.as_ref().and_then(|told| told.window.tokens());
    let default = match (&told, tokens) {
        (_, Some(tokens)) => format!("{}, as the server reports", grouped(tokens)),
        (Some(told), None) if told.window == ServerWindow::Unlisted => {
            format!("the server reports none: {fallback}")
        }
        (Some(_) | None, None) => format!("as the server reports when the bot runs, else {fallback}"),
    };
    if let Some(trained) = told.and_then(|told| told.trained).filter(|most| tokens.is_none_or(|n| n < *most))
    {
        let trained = grouped(trained);
        ask.remark(&format!(
            "the model takes {trained} tokens at most; its server decides how many it gives \
             (Ollama: OLLAMA_CONTEXT_LENGTH=32768; LM Studio: the context length of the loaded model)"
        ))?;
    }
    let question = format!("Its window in tokens, such as 16k (empty: {default}):");
    ask.fitting(&question, "", |text| if text.is_empty() { Ok(None) } else { window_of(text).map(Some) })
}

/// Asks for a bot, and checks its token. `token`: that of a flag.
async fn bot(
    args: &InitArgs,
    file: &Path,
    wanted: &SecretQuestion<'_>,
    kind: NetworkKind,
    token: Option<Secret>,
    ask: &mut Ask,
) -> Result<Option<Bot>, Failure> {
    let by_flag = token.is_some();
    let token = match token {
        Some(token) => token,
        None => ask_for_token(kind, wanted, ask)?,
    };
    if matches!(token, Secret::None) {
        return Ok(None);
    }
    let api_url = match kind {
        NetworkKind::Discord => args.discord_api_url.clone(),
        NetworkKind::Telegram => args.telegram_api_url.clone(),
        NetworkKind::Bridge => None,
    };
    let mut bot = Bot { kind, token, api_url, servers: Vec::new() };
    // One that is created later cannot be checked now.
    while ask.looks() && wanted.check(&bot.token).is_ok() {
        ask.remark(&format!("asking {} about the bot ...", network_name(kind)))?;
        let findings = look::bot(file, &bot).await;
        ask.findings(&findings)?;
        // A token that is of no use ends the check with its first finding.
        let is_good = findings.iter().any(|finding| finding.state == Mark::Ok);
        if is_good || by_flag || !ask.agrees("Give another token?", false)? {
            break;
        }
        match ask_for_token(kind, wanted, ask)? {
            Secret::None => return Ok(None),
            token => bot.token = token,
        }
    }
    if kind == NetworkKind::Discord {
        bot.servers = servers(args, ask)?;
    }
    Ok(Some(bot))
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
    let needed =
        bot_flag(args, kind).map(|flag| format!("{flag} needs a bot there: give its token, or omit {flag}"));
    SecretQuestion { what: "token", dir, name: token_file(kind), needed }
}

/// The token file given by a flag, and the flag's name.
fn token_flag(args: &InitArgs, kind: NetworkKind) -> (&Option<PathBuf>, &'static str) {
    match kind {
        NetworkKind::Discord => (&args.discord_token_file, "--discord-token-file"),
        NetworkKind::Telegram => (&args.telegram_token_file, "--telegram-token-file"),
        NetworkKind::Bridge => (&None, "no flag"),
    }
}

fn network_name(kind: NetworkKind) -> &'static str {
    match kind {
        NetworkKind::Discord => "Discord",
        NetworkKind::Telegram => "Telegram",
        NetworkKind::Bridge => "a bridge",
    }
}

fn ask_for_token(kind: NetworkKind, wanted: &SecretQuestion<'_>, ask: &mut Ask) -> Result<Secret, Failure> {
    let network = network_name(kind);
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
            Err(format!("`{part}` is not an id: enable developer mode, right-click the server, copy its id"))
        })
        .collect()
}

/// Parses people, separated by commas or spaces. Each must be on a network with a bot.
fn people(text: &str, bots: &[Bot]) -> Result<Vec<String>, String> {
    let one = |text: &str| {
        let there = person(text)?;
        if bots.iter().all(|bot| bot.kind != there) {
            return Err(format!("there is no bot on {} that `{text}` could write to", there.name()));
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
    let provider = args.provider.map_or(Provider::Openai, Choice::provider);
    if let Some(why) = args.base_url.as_ref().and_then(|url| base_url_trouble(url, provider)) {
        return Err(wrong("--base-url", &why));
    }
    for owner in &args.owners {
        person(owner).map_err(|why| wrong("--owner", &why))?;
    }
    if let (Some(Choice::Offline), Some(flag)) = (args.provider, model_flags(args).first()) {
        return Err(Failure::usage(
            format!("{flag} is for a model behind a server, and --provider offline has none"),
            "choose another provider, or omit that option",
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
                format!("give the file with the bot's token ({token} FILE), or omit {flag}"),
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
