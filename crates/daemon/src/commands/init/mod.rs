//! `cairn init`: asks some questions and writes a first config file.

mod answers;
mod ask;
mod choice;
mod look;
mod service;
mod text;

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::commands::init::answers::Answers;
use crate::commands::init::ask::Ask;
use crate::commands::init::choice::Choice;
use crate::commands::init::service::ServiceArg;
use cairn_cli::args::Global;
use cairn_cli::failure::Failure;
use cairn_cli::out;
use cairn_config::{Config, Environment as _, ProcessEnvironment, config_file, window_of};

/// Where the systemd unit may be installed.
const UNITS: [&str; 3] = [
    "/etc/systemd/system/cairn.service",
    "/usr/lib/systemd/system/cairn.service",
    "/lib/systemd/system/cairn.service",
];

/// The service's configuration.
const SERVICE_CONFIG: &str = "/etc/cairn/config.toml";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn init
  cairn init --yes
  cairn init --provider ollama --model qwen3:8b --yes
  cairn init --base-url http://127.0.0.1:8080/v1 --model my-model --yes
  cairn init --provider anthropic --model claude-sonnet-5-5 --key-file a.key
  cairn init --provider openai --model gpt-6-luna --key-env OPENAI_API_KEY
  cairn init --telegram-token-file telegram.token --owner telegram/123456789

It asks for everything that no flag sets, and asks again after a wrong answer.
It lists the server's models, sends one test message if you agree, checks bot
tokens, and prints the links that invite the bots. An unreachable server is
reported, and the configuration is written anyway. With --yes it asks nothing,
contacts nobody and uses the defaults.

Keys and tokens are never written into the config file: it names the variable
or the file that holds them. A key that you type is not shown, and is saved in
a separate file that only you can read. The config file is checked before it
is written.")]
pub(crate) struct InitArgs {
    /// The model's provider [default: offline, the built-in model]
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<Choice>,
    /// The address of the model server, up to and including the version
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The model's name on its server
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The model's window in tokens, such as 32000 or 32k [default: what its server lists]
    #[arg(long, value_name = "TOKENS", value_parser = window_of)]
    context_window: Option<u64>,
    /// The environment variable that holds the model's key
    #[arg(long, value_name = "VARIABLE", conflicts_with = "key_file")]
    key_env: Option<String>,
    /// The file that holds the model's key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The file that holds a Discord bot's token
    #[arg(long, value_name = "FILE")]
    discord_token_file: Option<PathBuf>,
    /// A Discord server to serve, by its id
    #[arg(long = "discord-server", value_name = "ID")]
    discord_servers: Vec<String>,
    /// The address of Discord's API, if it is not Discord's own
    #[arg(long, value_name = "URL")]
    discord_api_url: Option<String>,
    /// The file that holds a Telegram bot's token
    #[arg(long, value_name = "FILE")]
    telegram_token_file: Option<PathBuf>,
    /// The address of the Bot API, if it is not Telegram's own
    #[arg(long, value_name = "URL")]
    telegram_api_url: Option<String>,
    /// You, as discord/ID or telegram/ID: you may write privately and use every command
    #[arg(long = "owner", value_name = "PERSON")]
    owners: Vec<String>,
    /// Set the service up and start it [default: asks, or none with --yes]
    #[arg(long, value_name = "KIND")]
    service: Option<ServiceArg>,
    /// Do not contact model servers or chat networks
    #[arg(long)]
    offline: bool,
    /// Ask no questions
    #[arg(long, short)]
    yes: bool,
    /// Replace an existing file, which is kept as FILE.old, FILE.old-2 and so on
    #[arg(long)]
    force: bool,
}

pub(crate) async fn init(global: Global, args: InitArgs) -> Result<(), Failure> {
    let mut ask = Ask::new(args.yes, args.offline);
    let file = place(&global, &args, &mut ask)?;
    let replaced = check_place(&file, args.force)?;
    service::check(args.service, &file)?;
    let answers = Answers::gather(&args, &file, &mut ask).await?;
    let text = text::text(&answers);
    if !args.yes {
        out::note(&format!("\n{text}"));
        if !ask.agrees(&format!("Write this to {}?", file.display()), true)? {
            return Err(Failure::failed("nothing was written", "run it again to change your answers"));
        }
    }
    let written = write_all(&file, &text, &answers, replaced)?;
    let warnings = warnings(&file)?;
    let service = service::wanted(args.service, &file, &mut ask)?;
    let shown = |file: &PathBuf| file.display().to_string();
    let record = json!({
        "file": shown(&file), "old": written.old.as_ref().map(shown),
        "secrets": written.secrets.iter().map(shown).collect::<Vec<_>>(), "warnings": warnings,
        "service": service.name(),
    });
    if !global.json {
        for warning in warnings {
            out::note(&format!("warning: {warning}"));
        }
        out::text(&what_was_written(&file, &written))?;
    }
    let steps = service::install(service, &file, &answers)?;
    if global.json {
        return out::json(&record);
    }
    out::text(&steps)?;
    out::text(&next_steps(&file, &answers, service))
}

/// Warnings about the written file, and about tokens that do not exist yet.
fn warnings(file: &Path) -> Result<Vec<String>, Failure> {
    let loaded = Config::load(Some(file), &ProcessEnvironment)?;
    let tokens = loaded.check_tokens().err().map(|error| error.problems).unwrap_or_default();
    let tokens = tokens.into_iter().map(|problem| problem.message);
    Ok(tokens.chain(loaded.warnings.iter().cloned()).collect())
}

/// The file to write: a named one; the service's, if it is asked for or root has its unit; that of a container;
/// otherwise the user's.
fn place(global: &Global, args: &InitArgs, ask: &mut Ask) -> Result<PathBuf, Failure> {
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
    let is_service = args.service == Some(ServiceArg::System)
        || rustix::process::geteuid().is_root() && UNITS.iter().any(|unit| Path::new(unit).exists());
    let usual = match is_service {
        true => Some(PathBuf::from(SERVICE_CONFIG)),
        false => in_container().or_else(|| users_file(&env)),
    };
    let usual = usual.ok_or_else(|| {
        Failure::usage(
            "there is no folder for the configuration: $HOME is not set",
            "set a file with --config",
        )
    })?;
    let named = ask.line("Where should the configuration be written?", &usual.display().to_string())?;
    Ok(absolute(named.into()))
}

/// The file in the folder that a container names; it is a volume there.
fn in_container() -> Option<PathBuf> {
    ProcessEnvironment.first_dir("CONFIGURATION_DIRECTORY").map(|dir| dir.join("config.toml"))
}

fn users_file(env: &ProcessEnvironment) -> Option<PathBuf> {
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    let xdg = env.var("XDG_CONFIG_HOME").map(PathBuf::from).and_then(absolute);
    let dir = xdg.or_else(|| Some(absolute(env.var("HOME")?.into())?.join(".config")))?;
    Some(dir.join("cairn").join("config.toml"))
}

/// Whether a file exists that may be replaced: with --force, or because it only repeats the defaults. An error if it
/// may not.
fn check_place(file: &Path, force: bool) -> Result<bool, Failure> {
    if file.is_dir() {
        return Err(Failure::usage(
            format!("{} is a folder", file.display()),
            "name the file in it: --config .../config.toml",
        ));
    }
    if let Some(why) = cannot_be_made(file) {
        return Err(why);
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
        format!("{} exists already", file.display()),
        "edit it, choose another file with --config, or add --force (the old one is kept as FILE.old)",
    ))
}

/// The written files.
struct Written {
    /// The files of typed secrets.
    secrets: Vec<PathBuf>,
    /// The copy of the replaced configuration.
    old: Option<PathBuf>,
}

/// Why the file cannot be created; checked before the questions.
fn cannot_be_made(file: &Path) -> Option<Failure> {
    let folder = file.ancestors().skip(1).find(|dir| dir.exists())?;
    if !folder.is_dir() {
        return Some(cannot_write(file, &std::io::Error::other(format!("{} is a file", folder.display()))));
    }
    let needed = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(folder, needed).err().map(|error| cannot_write(file, &error.into()))
}

/// Writes the secrets and the configuration. On an error both are removed.
fn write_all(file: &Path, text: &str, answers: &Answers, replaced: bool) -> Result<Written, Failure> {
    Config::of_text(file, text, &ProcessEnvironment)?;
    let dir = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
    let mut secrets = Vec::new();
    let result = write_secrets(dir, answers, &mut secrets).and_then(|()| write_config(file, text, replaced));
    if result.is_err() {
        for file in &secrets {
            if let Err(error) = std::fs::remove_file(file) {
                out::note(&format!("warning: {} could not be removed: {error}", file.display()));
            }
        }
    }
    result.map(|old| Written { secrets, old })
}

fn write_secrets(dir: &Path, answers: &Answers, written: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for (name, secret) in answers.typed() {
        let file = dir.join(name);
        let mut options = std::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(&file).and_then(|mut made| {
            // One that could not be written whole goes with the others.
            written.push(file.clone());
            writeln!(made, "{}", secret.expose_secret())?;
            made.sync_all()
        });
        if let Err(error) = made {
            if error.kind() == std::io::ErrorKind::AlreadyExists {
                let message = format!("{} exists already", file.display());
                return Err(Failure::usage(message, "give its name instead of typing it, or move it away"));
            }
            return Err(cannot_write(&file, &error));
        }
    }
    Ok(())
}

/// Writes a new file, then renames it. Returns the copy of the old one.
fn write_config(file: &Path, text: &str, replaced: bool) -> Result<Option<PathBuf>, Failure> {
    let new = with_ending(file, ".new");
    let write = || {
        let mut made = std::fs::File::create(&new)?;
        made.write_all(text.as_bytes())?;
        made.sync_all()
    };
    let placed = write().and_then(|()| {
        let old = if replaced { Some(keep(file)?) } else { None };
        std::fs::rename(&new, file)?;
        Ok(old)
    });
    if placed.is_err() {
        // The first error is reported even if the file cannot be removed.
        let _left = std::fs::remove_file(&new);
    }
    placed.map_err(|error| cannot_write(file, &error))
}

/// Copies a file to its name with `.old`, or with the next free number. Older copies are kept.
fn keep(file: &Path) -> std::io::Result<PathBuf> {
    let numbered = (2..).map(|n| with_ending(file, &format!(".old-{n}")));
    let mut names = std::iter::once(with_ending(file, ".old")).chain(numbered);
    let free = names.find(|name| std::fs::symlink_metadata(name).is_err());
    let old = free.unwrap_or_else(|| with_ending(file, ".old"));
    std::fs::copy(file, &old)?;
    Ok(old)
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(
        format!("cannot write {}: {error}", file.display()),
        "check the folder's permissions, or choose another file with --config",
    )
}

/// The written files.
fn what_was_written(file: &Path, written: &Written) -> String {
    let old = written.old.as_ref().map(|old| format!("; the old one is {}", old.display()));
    let mut out = format!("wrote {}{}\n", file.display(), old.unwrap_or_default());
    for secret in &written.secrets {
        out.push_str(&format!("wrote {}, readable only by you\n", secret.display()));
    }
    out
}

/// What to do next. `service`: the one that was set up.
fn next_steps(file: &Path, answers: &Answers, service: ServiceArg) -> String {
    let is_found = config_file(None, &ProcessEnvironment).as_deref() == Some(file);
    let flag = if is_found { String::new() } else { format!(" --config {}", file.display()) };
    let mut out = "\nNext:\n".to_owned();
    out.push_str(&format!("  cairn doctor{flag}    checks everything, including the model and the bots\n"));
    match service {
        ServiceArg::System => {
            out.push_str("  journalctl -u cairn -f    shows the log\n");
            out.push_str("  usermod -aG cairn NAME    lets that user use the service's command line\n");
        }
        ServiceArg::User => {
            out.push_str("  journalctl --user -u cairn -f    shows the log\n");
            out.push_str("  loginctl enable-linger    keeps the service running when you are logged out\n");
        }
        ServiceArg::None if in_container().is_some() => {
            out.push_str(
                "  start the container with this volume; a running one reads it with `cairn reload`\n",
            );
        }
        ServiceArg::None if file == Path::new(SERVICE_CONFIG) => {
            let files = answers.secret_files(file);
            if !files.is_empty() {
                out.push_str(
                    "  systemctl edit cairn    passes the secrets to the service; add:\n    [Service]\n",
                );
                files
                    .iter()
                    .for_each(|secret| out.push_str(&format!("    {}\n", service::credential(secret))));
            }
            out.push_str("  systemctl enable --now cairn    starts it, now and with the system\n");
        }
        ServiceArg::None => {
            out.push_str(&format!("  cairn chat{flag}      talks on the terminal\n"));
            out.push_str(&format!("  cairn run{flag}       runs the daemon in the foreground\n"));
        }
    }
    if answers.owners.is_empty() && !answers.bots.is_empty() {
        out.push_str(
            "  Then write to the bot: it gives you a code, and `cairn pair approve CODE` approves you.\n",
        );
    }
    out
}
