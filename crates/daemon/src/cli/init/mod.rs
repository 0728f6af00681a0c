//! `cairn init`: a few questions, and a first config file. `ask` puts the questions, `answers` says what is asked,
//! `text` writes the file.

mod answers;
mod ask;
mod text;

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::failure::Failure;
use super::{Global, out};
use crate::config::{Config, Environment as _, ProcessEnvironment, Provider, config_file};
use answers::{Answers, Secret};
use ask::Ask;

/// Where the unit of systemd may be.
const UNITS: [&str; 3] = [
    "/etc/systemd/system/cairn.service",
    "/usr/lib/systemd/system/cairn.service",
    "/lib/systemd/system/cairn.service",
];

/// The service's configuration.
const SERVICE_CONFIG: &str = "/etc/cairn/config.toml";

/// Arguments of `init`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn init
  cairn init --yes
  cairn init --provider openai --base-url http://127.0.0.1:8080/v1 --model my-model --yes
  cairn init --provider anthropic --model claude-sonnet-4-5 --key-file anthropic.key --yes
  cairn init --telegram-token-file telegram.token --owner telegram/123456789 --yes

What no flag says is asked; with --yes nothing is, and the default holds. Keys and tokens are never written into the config
file: it names the variable or the file that holds them. One that you type is not shown, and goes into a file of its own
that only you may read. The file is checked before it takes its place.")]
pub(crate) struct InitArgs {
    /// Who answers [default: offline, the embedded model]
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<ProviderArg>,
    /// The model server's address, up to and with the version
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The name by which the server knows the model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The model's window in tokens [default: what its server lists]
    #[arg(long, value_name = "TOKENS")]
    context_window: Option<u64>,
    /// The environment variable that holds the model's key
    #[arg(long, value_name = "VARIABLE", conflicts_with = "key_file")]
    key_env: Option<String>,
    /// The file that holds the model's key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The file that holds the token of a bot on Discord
    #[arg(long, value_name = "FILE")]
    discord_token_file: Option<PathBuf>,
    /// A Discord server to serve, by its id
    #[arg(long = "discord-server", value_name = "ID")]
    discord_servers: Vec<String>,
    /// The file that holds the token of a bot on Telegram
    #[arg(long, value_name = "FILE")]
    telegram_token_file: Option<PathBuf>,
    /// You: discord/ID or telegram/ID, who may write privately and use every command
    #[arg(long = "owner", value_name = "PERSON")]
    owners: Vec<String>,
    /// Ask nothing
    #[arg(long, short)]
    yes: bool,
    /// Take the place of a file that is there; the old one is kept as FILE.old
    #[arg(long)]
    force: bool,
}

/// `--provider`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProviderArg {
    /// Any server of chat completions: OpenAI, OpenRouter, Ollama, llama.cpp, vLLM
    Openai,
    /// Anthropic's messages
    Anthropic,
    /// The embedded model: no network, no key
    Offline,
}

impl From<ProviderArg> for Provider {
    fn from(provider: ProviderArg) -> Self {
        match provider {
            ProviderArg::Openai => Self::Openai,
            ProviderArg::Anthropic => Self::Anthropic,
            ProviderArg::Offline => Self::Offline,
        }
    }
}

/// `cairn init`.
pub(crate) fn init(global: Global, args: InitArgs) -> Result<(), Failure> {
    let mut ask = Ask::new(args.yes);
    let file = place(&global, &mut ask)?;
    let replaced = check_place(&file, args.force)?;
    let answers = Answers::gather(&args, &file, &mut ask)?;
    let text = text::text(&answers);
    if !args.yes {
        out::note(&format!("\n{text}"));
        if !ask.agrees(&format!("Write this to {}?", file.display()))? {
            return Err(Failure::failed("nothing was written", "run it again to answer otherwise"));
        }
    }
    let secrets = write_all(&file, &text, &answers, replaced)?;
    let warnings = Config::load(Some(&file), &ProcessEnvironment)?.warnings;
    if global.json {
        let secrets: Vec<_> = secrets.iter().map(|file| file.display().to_string()).collect();
        return out::json(
            &json!({ "file": file.display().to_string(), "secrets": secrets, "warnings": warnings }),
        );
    }
    for warning in warnings {
        out::note(&format!("warning: {warning}"));
    }
    out::raw(last_words(&file, &secrets, &answers).as_bytes())
}

/// The file to write: the one that is named; of the service, for root where its unit is installed; else the user's.
fn place(global: &Global, ask: &mut Ask) -> Result<PathBuf, Failure> {
    let env = ProcessEnvironment;
    let absolute = |path: PathBuf| match env.current_dir() {
        Some(dir) => dir.join(path).components().collect(),
        None => path,
    };
    if let Some(file) = &global.config {
        return Ok(absolute(file.clone()));
    }
    if let Some(file) = env.var("CAIRN_CONFIG") {
        return Ok(absolute(file.into()));
    }
    let is_service =
        rustix::process::geteuid().is_root() && UNITS.iter().any(|unit| Path::new(unit).exists());
    let usual = if is_service { Some(PathBuf::from(SERVICE_CONFIG)) } else { users_file(&env) };
    let usual = usual.ok_or_else(|| {
        Failure::usage(
            "there is no folder for the configuration: $HOME is not set",
            "name a file by --config",
        )
    })?;
    let named = ask.line("Where is the configuration to be?", &usual.display().to_string())?;
    Ok(absolute(named.into()))
}

fn users_file(env: &ProcessEnvironment) -> Option<PathBuf> {
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    let xdg = env.var("XDG_CONFIG_HOME").map(PathBuf::from).and_then(absolute);
    let dir = xdg.or_else(|| Some(absolute(env.var("HOME")?.into())?.join(".config")))?;
    Some(dir.join("cairn").join("config.toml"))
}

/// Whether a file is in the place, and may give way: by force, or because it says nothing but the defaults.
fn check_place(file: &Path, force: bool) -> Result<bool, Failure> {
    if file.is_dir() {
        return Err(Failure::usage(
            format!("{} is a folder", file.display()),
            "name the file in it: --config .../config.toml",
        ));
    }
    if !file.exists() {
        return Ok(false);
    }
    let says_nothing = || {
        let (here, built_in) =
            (Config::load(Some(file), &ProcessEnvironment), Config::built_in(&ProcessEnvironment));
        matches!((here, built_in), (Ok(here), Ok(built_in)) if here.config == built_in.config)
    };
    if force || says_nothing() {
        return Ok(true);
    }
    Err(Failure::usage(
        format!("{} is there already", file.display()),
        "change it by hand, name another file by --config, or give --force (the old one is kept as .old)",
    ))
}

/// Writes secrets and configuration; on a fault nothing is left of either. The files of the secrets that were typed.
fn write_all(file: &Path, text: &str, answers: &Answers, replaced: bool) -> Result<Vec<PathBuf>, Failure> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
    let mut written = Vec::new();
    let result = write_secrets(dir, answers, &mut written).and_then(|()| write_config(file, text, replaced));
    if result.is_err() {
        for file in &written {
            if let Err(error) = std::fs::remove_file(file) {
                out::note(&format!("warning: {} is left behind: {error}", file.display()));
            }
        }
    }
    result.map(|()| written)
}

fn write_secrets(dir: &Path, answers: &Answers, written: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for (name, secret) in answers.typed() {
        let file = dir.join(name);
        let mut options = std::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(&file).and_then(|mut made| {
            writeln!(made, "{}", secret.expose_secret())?;
            made.sync_all()
        });
        if let Err(error) = made {
            if error.kind() == std::io::ErrorKind::AlreadyExists {
                let message = format!("{} is there already", file.display());
                return Err(Failure::usage(message, "name it instead of typing it, or move it away"));
            }
            return Err(cannot_write(&file, &error));
        }
        written.push(file);
    }
    Ok(())
}

/// Writes beside, checks, then renames: a file that does not pass never takes the place.
fn write_config(file: &Path, text: &str, replaced: bool) -> Result<(), Failure> {
    let new = with_ending(file, ".new");
    let write = || {
        let mut made = std::fs::File::create(&new)?;
        made.write_all(text.as_bytes())?;
        made.sync_all()
    };
    write().map_err(|error| cannot_write(&new, &error))?;
    let checked = Config::load(Some(&new), &ProcessEnvironment).and_then(|loaded| loaded.check_tokens());
    let placed = checked.map_err(Failure::from).and_then(|()| {
        if replaced {
            let old = with_ending(file, ".old");
            std::fs::copy(file, &old).map_err(|error| cannot_write(&old, &error))?;
        }
        std::fs::rename(&new, file).map_err(|error| cannot_write(file, &error))
    });
    if placed.is_err() {
        // It is of no use to anybody; that it stays would not change the fault.
        let _left = std::fs::remove_file(&new);
    }
    placed
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(
        format!("cannot write {}: {error}", file.display()),
        "check the folder's permissions, or name another file by --config",
    )
}

/// What was done, and what comes next.
fn last_words(file: &Path, secrets: &[PathBuf], answers: &Answers) -> String {
    let mut out = format!("wrote {}\n", file.display());
    for secret in secrets {
        out.push_str(&format!("wrote {}, for your eyes only\n", secret.display()));
    }
    let is_found = config_file(None, &ProcessEnvironment).as_deref() == Some(file);
    let flag = if is_found { String::new() } else { format!(" --config {}", file.display()) };
    out.push_str("\nNext:\n");
    out.push_str(&format!("  cairn doctor{flag}    checks all of it, and asks the model and the bots\n"));
    if file == Path::new(SERVICE_CONFIG) {
        let files = answers.secret_files(file);
        if !files.is_empty() {
            out.push_str(
                "  systemctl edit cairn    hands the secrets over to the service; add:\n    [Service]\n",
            );
            for secret in files {
                let name = secret.file_name().unwrap_or_default().to_string_lossy();
                out.push_str(&format!("    LoadCredential={name}:{}\n", secret.display()));
            }
        }
        out.push_str("  systemctl enable --now cairn    starts it, now and with the system\n");
    } else {
        out.push_str(&format!("  cairn chat{flag}      talks on the terminal\n"));
        out.push_str(&format!("  cairn run{flag}       runs the daemon in the foreground\n"));
    }
    let strangers = answers.owners.is_empty() && (answers.discord.is_some() || answers.telegram.is_some());
    if strangers {
        out.push_str(
            "  Then write to the bot: it tells you a code, and `cairn pair approve CODE` lets you in.\n",
        );
    }
    out
}

impl Secret {
    /// The file that it is in, or is going to be in, as it is written in the configuration.
    fn file(&self, name: &'static str) -> Option<PathBuf> {
        match self {
            Self::None | Self::Variable(_) => None,
            Self::File(file) => Some(file.clone()),
            Self::Typed(_) => Some(name.into()),
        }
    }
}
