//! The command line: what there is, and which file carries it out.

mod artifact;
mod backup;
mod chat;
mod client;
mod commands;
mod config;
mod connect;
mod context;
mod doctor;
mod draw;
pub mod exit;
mod export;
mod failure;
mod forget_user;
mod global;
mod init;
mod lines;
mod mcp;
mod memory;
mod out;
mod outbox;
mod pair;
mod papers;
mod platforms;
mod reads;
mod reload;
mod replay;
mod run;
mod store;
mod table;
mod tools;
mod tune;
mod values;
mod who;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use failure::Failure;
use global::Global;

use crate::wiring::Tools;

/// A chat bot that never freezes and never forgets: it answers while it compacts.
///
/// Without a configuration there is one agent, `main`, with the embedded model `offline`: no key, no network.
/// Commands ask the running daemon over its socket; when none runs, they open the state folder themselves.
#[derive(Debug, Parser)]
#[command(
    name = "cairn",
    version,
    after_help = "\
Examples:
  cairn init                   write a first configuration, by a few questions
  cairn doctor                 see whether all is well, and what to do if not
  cairn chat                   talk, with the offline model unless configured
  cairn run                    run the daemon in the foreground
  cairn context main           see what is in the window of the channel `main`
  cairn search main 'harbour'  find words in its history and memories
  cairn pair approve K7P2XMQA  let somebody in who wrote to the bot

A channel is a bare local name such as `main`, or a full name:
agent/platform/chat[/thread].

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 the state is in use
by another daemon, 4 no such channel, memory, range, code, person, delivery,
artifact, server, tool or request, 5 damaged store, 6 a part of the daemon
hung and ended it: start it again (systemd does)."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon in the foreground, logs on stderr
    Run(run::RunArgs),
    /// Talk; piped input is one message a line, replies come on stdout in order
    Chat(chat::ChatArgs),
    /// Send a file of messages, one JSON object a line, and report what became of them
    Replay(replay::ReplayArgs),
    /// Show the state of the daemon
    Status(reads::StatusArgs),
    /// List the channels
    Channels(reads::ChannelsArgs),
    /// Show what is in a channel's window, its summaries and runs
    Context(context::ContextArgs),
    /// Show the raw messages of a channel, all generations
    History(reads::HistoryArgs),
    /// Search a channel's history, summaries and memories
    Search(reads::SearchArgs),
    /// Compact a channel now
    Compact(commands::CompactArgs),
    /// Find settings that suit a conversation: its sizes replayed against candidates, without any model
    Tune(tune::TuneArgs),
    /// Archive a channel's conversation and start again
    New(commands::NewArgs),
    /// List, search, show, add, edit and forget memories
    #[command(subcommand)]
    Memory(memory::MemoryCommand),
    /// List and show large results of tools, which are kept outside of the window
    #[command(subcommand)]
    Artifact(artifact::ArtifactCommand),
    /// Look at tool servers, approve and revoke them
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// List tools and their calls; say yes or no to calls that wait for it
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// Say who may talk to the bot privately: list, approve, revoke
    #[command(subcommand)]
    Pair(pair::PairCommand),
    /// Erase a person: their words, memories and chats, wherever they are kept
    ForgetUser(forget_user::ForgetUserArgs),
    /// List, retry and drop what could not be delivered to a chat network
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    /// Have the running daemon read its configuration again, without dropping anything
    Reload(reload::ReloadArgs),
    /// Verify, rebuild, back up or restore the store; retain: take out now what is too old
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Check or show the configuration, or print its schema
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Check everything that Cairn needs: one line each, with the remedy
    Doctor(doctor::DoctorArgs),
    /// Ask a few questions and write a first configuration
    Init(init::InitArgs),
    /// Print a script that completes command lines in a shell
    Completions(papers::CompletionsArgs),
    /// Print the page for `man`, or write one for each command into a folder
    Man(papers::ManArgs),
}

/// Parses the command line, carries the command out and returns its exit code. Errors are on stderr by then.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    main_with(args, Tools::default())
}

/// The same with tools beside the built-in ones, which all agents may call.
pub fn main_with(args: impl IntoIterator<Item = OsString>, tools: Tools) -> ExitCode {
    let mut args = args.into_iter().peekable();
    let own_name = args.next();
    if args.next_if(|first| first == cairn_tools::mcp::LAUNCH).is_some() {
        // Where it returns, there is no server to become.
        eprintln!("cairn: {}", cairn_tools::mcp::become_server(args));
        return ExitCode::from(exit::FAILED);
    }
    let mut cli = match Cli::try_parse_from(own_name.into_iter().chain(args)) {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::DONE };
            // Nobody is left to tell when even this cannot be printed.
            let _closed = error.print();
            return ExitCode::from(code);
        }
    };
    cli.global.tools = tools;
    match block_on(dispatch(cli)) {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(failure) => report(failure),
    }
}

/// Prints a failure and returns its exit code.
fn report(failure: Failure) -> ExitCode {
    match failure {
        Failure::Said { code, message, hint } => {
            out::note(&format!("error: {message}"));
            if !hint.is_empty() {
                out::note(&format!("hint: {hint}"));
            }
            ExitCode::from(code)
        }
        Failure::Silent(code) => ExitCode::from(code),
        Failure::OutputClosed => ExitCode::from(exit::DONE),
    }
}

/// Threads that wait for the disk: more of them would not make it quicker, and each keeps memory of its own.
const BLOCKING_THREADS: usize = 8;

fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().max_blocking_threads(BLOCKING_THREADS).build().map_err(|error| {
        Failure::failed(format!("cannot start the runtime: {error}"), "check `ulimit -u`")
    })?;
    let result = runtime.block_on(work);
    // A line editor that still waits for a key on its own thread must not hold the exit up.
    runtime.shutdown_background();
    result
}

async fn dispatch(cli: Cli) -> Result<(), Failure> {
    let global = cli.global;
    match cli.command {
        Command::Run(args) => Box::pin(run::run(global, args)).await,
        Command::Chat(args) => Box::pin(chat::chat(global, args)).await,
        Command::Replay(args) => Box::pin(replay::replay(global, args)).await,
        Command::Status(args) => Box::pin(reads::status(global, args)).await,
        Command::Channels(args) => Box::pin(reads::channels(global, args)).await,
        Command::Context(args) => Box::pin(context::context(global, args)).await,
        Command::History(args) => Box::pin(reads::history(global, args)).await,
        Command::Search(args) => Box::pin(reads::search(global, args)).await,
        Command::Compact(args) => Box::pin(commands::compact(global, args)).await,
        Command::Tune(args) => Box::pin(tune::tune(global, args)).await,
        Command::New(args) => Box::pin(commands::new(global, args)).await,
        Command::Memory(command) => Box::pin(memory::memory(global, command)).await,
        Command::Artifact(command) => Box::pin(artifact::artifact(global, command)).await,
        Command::Mcp(command) => Box::pin(mcp::mcp(global, command)).await,
        Command::Tools(command) => Box::pin(tools::tools(global, command)).await,
        Command::Pair(command) => Box::pin(pair::pair(global, command)).await,
        Command::ForgetUser(args) => Box::pin(forget_user::forget_user(global, args)).await,
        Command::Outbox(command) => Box::pin(outbox::outbox(global, command)).await,
        Command::Reload(args) => Box::pin(reload::reload(global, args)).await,
        Command::Store(command) => Box::pin(store::store(global, command)).await,
        Command::Config(command) => Box::pin(config::config(global, command)).await,
        Command::Doctor(args) => Box::pin(doctor::doctor(global, args)).await,
        Command::Init(args) => init::init(global, args),
        Command::Completions(args) => papers::completions(&args, Cli::command()),
        Command::Man(args) => papers::man(&args, Cli::command()),
    }
}
