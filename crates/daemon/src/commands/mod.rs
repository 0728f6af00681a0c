//! The command line: its definition, and the dispatch to the commands.

mod bridge;
mod config;
mod doctor;
mod forget_user;
mod init;
mod man;
mod read_document;
mod run;
mod store;
mod version;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use cairn_cli::commands::{
    ban, channel, chat, demo, explain, history, import, mcp, memory, node, outbox, pair, private, reload,
    reminder, search, spend, status, summary, tools, tune, ui,
};
use cairn_cli::out;
use cairn_platforms::attach::READ_DOCUMENT;
use cairn_store::can_start_threads;
use cairn_types::ports::StoreError;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use cairn_cli::args::Global;
use cairn_cli::failure::{Failure, exit};

use crate::inside::OpenedHere;
use crate::wiring::Tools;

/// A chat bot that never freezes and never forgets: it answers while it compacts.
///
/// Without a configuration there is one agent, `main`, with the built-in model `offline`, which needs no key and no network.
/// Commands ask the running daemon over its socket. If none runs, they open the state folder themselves.
#[derive(Debug, Parser)]
#[command(
    name = "cairn",
    version,
    after_help = "\
Examples:
  cairn demo                   see what it does, in about a minute
  cairn init                   answer a few questions to configure it
  cairn doctor                 check everything, with remedies
  cairn chat                   talk, with the offline model unless configured
  cairn run                    run the daemon in the foreground
  cairn context main           show the window of the channel `main`
  cairn search main 'harbour'  find words in its history and memories
  cairn pair approve K7P2XMQA  let a person talk to the bot

A channel is a bare local name such as `main`, or a full name:
agent/platform/chat[/thread].

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 another daemon uses
the state, 4 no such channel, memory, range, code, person, delivery, artifact,
server, tool, turn, call or request, 5 damaged store, 6 a part of the daemon
hung: start it again (systemd does)."
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
    /// See three months of conversation pass through a small window, in about a minute
    Demo(demo::DemoArgs),
    /// Talk to an agent; piped input is one message per line, answered in order
    Chat(chat::ChatArgs),
    /// Import conversations from other programs, with their answers, or have them answered
    Import(import::ImportArgs),
    /// Show the state of the daemon
    Status(status::StatusArgs),
    /// Print a login link for the daemon's page
    Ui(ui::UiArgs),
    /// Show tokens and cost of model calls: by day, agent, channel, person, purpose or model
    Spend(spend::SpendArgs),
    /// List the channels
    Channels(channel::ChannelsArgs),
    /// Show a channel's window, summaries and compaction runs
    Context(channel::ContextArgs),
    /// Show the messages of a channel, from all sessions
    History(history::HistoryArgs),
    /// Explain a turn: recalled memories, calls, requests, times and cost
    Explain(explain::ExplainArgs),
    /// List the summaries of a channel, or show one with the details it leaves out
    #[command(subcommand)]
    Summary(summary::SummaryCommand),
    /// Search history, summaries and memories, in all channels or in one
    Search(search::SearchArgs),
    /// Compact a channel now
    Compact(channel::CompactArgs),
    /// Find settings that suit a conversation, by simulating it without a model
    Tune(tune::TuneArgs),
    /// Archive a channel's conversation and start a new one
    New(channel::NewArgs),
    /// List, search, show, add, edit, combine and forget memories
    #[command(subcommand)]
    Memory(memory::MemoryCommand),
    /// List and show artifacts: large tool results and messages, kept outside the window
    #[command(subcommand)]
    Artifact(channel::ArtifactCommand),
    /// Check a program that connects another chat network
    #[command(subcommand)]
    Bridge(bridge::BridgeCommand),
    /// Show, approve and revoke tool servers
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// List tools and their calls; approve or deny waiting calls
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// Manage who may talk to the bot privately: list, approve, revoke
    #[command(subcommand)]
    Pair(pair::PairCommand),
    /// Ban a person: ignore them everywhere; or list the banned people
    Ban(ban::BanArgs),
    /// Lift a ban
    Unban(ban::UnbanArgs),
    /// Learn nothing from a person or a chat, or list who is private
    Private(private::PrivateArgs),
    /// Erase a person: their messages, memories and chats
    ForgetUser(forget_user::ForgetUserArgs),
    /// List, set and cancel reminders
    #[command(subcommand)]
    Reminder(reminder::ReminderCommand),
    /// List, retry and drop messages not yet confirmed as delivered
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    /// Reload the running daemon's configuration without interrupting anything
    Reload(reload::ReloadArgs),
    /// Verify, rebuild, back up, restore or move the store; retain: remove old data
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Hand over to another machine that shares the database
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Check or show the configuration, or print its schema
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Check everything that Cairn needs, and print remedies
    Doctor(doctor::DoctorArgs),
    /// Ask a few questions and write a first configuration
    Init(init::InitArgs),
    /// Print a shell completion script
    Completions(man::CompletionsArgs),
    /// Print the man page, or write one for each command into a folder
    Man(man::ManArgs),
}

/// Parses the command line, runs the command and returns its exit code. Errors are printed to stderr.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    main_with(args, Tools::default())
}

/// Like [`main`], with additional tools for all agents.
pub fn main_with(args: impl IntoIterator<Item = OsString>, tools: Tools) -> ExitCode {
    let mut args = args.into_iter().peekable();
    let own_name = args.next();
    if args.next_if(|first| first == cairn_tools::mcp::LAUNCH).is_some() {
        // Returns only if the server cannot be started.
        eprintln!("cairn: {}", cairn_tools::mcp::become_server(args));
        return ExitCode::from(exit::FAILED);
    }
    if args.next_if(|first| first == READ_DOCUMENT).is_some() {
        return read_document::run();
    }
    // The man pages must not depend on the build, so only `--version` has the long text.
    let command = Cli::command().long_version(version::LONG);
    let mut args: Vec<OsString> = args.collect();
    if args.first().is_some_and(|first| first == "help") {
        // It is help already.
        args.retain(|arg| arg != "--help" && arg != "-h");
    }
    let matches = command.try_get_matches_from(own_name.into_iter().chain(args));
    let mut cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::DONE };
            // If printing this fails, nothing else can be printed.
            let _closed = error.print();
            return ExitCode::from(code);
        }
    };
    if matches!(cli.command, Command::Run(_))
        && let Err(error) = run::settle_allocator()
    {
        out::note(&format!("warning: the daemon takes more memory than it needs: {error}"));
    }
    cli.global.inside = Some(Arc::new(OpenedHere(tools.clone())));
    match block_on(dispatch(cli, tools)) {
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

/// Threads for disk access. More would not be faster, and each takes memory.
const BLOCKING_THREADS: usize = 8;

/// Threads needed besides the runtime's workers.
const MORE_THREADS: usize = 4;

fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let n_workers = std::thread::available_parallelism().map_or(1, usize::from);
    // Without enough threads the runtime panics or hangs.
    can_start_threads(n_workers + MORE_THREADS).map_err(|error| {
        let (path, message) = ("cairn".to_owned(), error.to_string());
        Failure::of_store(StoreError::Io { action: "start the threads of", path, message })
    })?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().max_blocking_threads(BLOCKING_THREADS).build().map_err(|error| {
        Failure::failed(format!("cannot start the runtime: {error}"), "check `ulimit -u`")
    })?;
    let result = runtime.block_on(work);
    // A line editor waiting for a key on its own thread must not delay the exit.
    runtime.shutdown_background();
    result
}

async fn dispatch(cli: Cli, tools: Tools) -> Result<(), Failure> {
    let global = cli.global;
    match cli.command {
        Command::Run(args) => Box::pin(run::run(global, tools, args)).await,
        Command::Demo(args) => Box::pin(demo::demo(global, args)).await,
        Command::Chat(args) => Box::pin(chat::chat(global, args)).await,
        Command::Import(args) => Box::pin(import::import(global, args)).await,
        Command::Status(args) => Box::pin(status::status(global, args)).await,
        Command::Ui(args) => Box::pin(ui::ui(global, args)).await,
        Command::Spend(args) => Box::pin(spend::spend(global, args)).await,
        Command::Channels(args) => Box::pin(channel::channels(global, args)).await,
        Command::Context(args) => Box::pin(channel::context(global, args)).await,
        Command::History(args) => Box::pin(history::history(global, args)).await,
        Command::Explain(args) => Box::pin(explain::explain(global, args)).await,
        Command::Search(args) => Box::pin(search::search(global, args)).await,
        Command::Compact(args) => Box::pin(channel::compact(global, args)).await,
        Command::Tune(args) => Box::pin(tune::tune(global, args)).await,
        Command::New(args) => Box::pin(channel::new(global, args)).await,
        Command::Memory(command) => Box::pin(memory::memory(global, command)).await,
        Command::Artifact(command) => Box::pin(channel::artifact(global, command)).await,
        Command::Mcp(command) => Box::pin(mcp::mcp(global, command)).await,
        Command::Bridge(command) => Box::pin(bridge::bridge(global, command)).await,
        Command::Tools(command) => Box::pin(tools::tools(global, command)).await,
        Command::Summary(command) => Box::pin(summary::summary(global, command)).await,
        Command::Pair(command) => Box::pin(pair::pair(global, command)).await,
        Command::Ban(args) => Box::pin(ban::ban(global, args)).await,
        Command::Unban(args) => Box::pin(ban::unban(global, args)).await,
        Command::Private(args) => Box::pin(private::private(global, args)).await,
        Command::ForgetUser(args) => Box::pin(forget_user::forget_user(global, args)).await,
        Command::Reminder(command) => Box::pin(reminder::reminder(global, command)).await,
        Command::Outbox(command) => Box::pin(outbox::outbox(global, command)).await,
        Command::Reload(args) => Box::pin(reload::reload(global, args)).await,
        Command::Store(command) => Box::pin(store::store(global, &tools, command)).await,
        Command::Node(command) => Box::pin(node::node(global, command)).await,
        Command::Config(command) => Box::pin(config::config(global, &tools, command)).await,
        Command::Doctor(args) => Box::pin(doctor::doctor(global, tools, args)).await,
        Command::Init(args) => Box::pin(init::init(global, args)).await,
        Command::Completions(args) => man::completions(&args, Cli::command()),
        Command::Man(args) => man::man(&args, Cli::command()),
    }
}
