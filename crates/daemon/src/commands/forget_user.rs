//! `cairn forget-user`: erases a person.

use std::time::{Duration, Instant};

use axum::http::Method;
use cairn_core::erasure::check_person;
use cairn_core::registry::Erasure;
use cairn_store::{StoreOptions, erase_dir};
use cairn_types::event::ErasureFigures;
use cairn_types::ports::Clock;
use clap::Args;
use serde::Serialize;

use crate::commands::watch;
use crate::wiring::store_options;
use cairn_api::records::{ErasuresRecord, ForgetRecord, ForgetRequest};
use cairn_api::text::{counted, grouped};
use cairn_cli::args::Global;
use cairn_cli::client::{CallError, Client};
use cairn_cli::connect::{Connector, quiet_log};
use cairn_cli::failure::{Failure, exit};
use cairn_cli::out;
use cairn_config::clock::SystemClock;

/// Time between two questions to the daemon.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// After this time the command explains why it waits.
const NOTE_AFTER: Duration = Duration::from_secs(3);

/// Longest wait for the daemon.
const WAIT_MAX: Duration = Duration::from_secs(30 * 60);

/// Where an erasure has no effect.
const OUTSIDE: &str = "\
note: what others said about them, nicknames and misspellings stay. Nothing outside of the state folder is erased: earlier
backups and exports, what the chat network and the model servers keep, and entries of the config file that name them. What
they write from now on is kept like everyone's.";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn forget-user telegram/123456789 --dry-run
  cairn forget-user local/anna --yes --json

Erases the person's messages, the answers to them, their private chats,
memories, pairing and artifacts; masks their names and ids in other messages;
rebuilds summaries from the remaining messages. The journal is rewritten, and
databases and search index are rebuilt from it. A running daemon keeps working
meanwhile, and then restarts within its process, which takes a moment. This
cannot be undone.")]
pub(crate) struct ForgetUserArgs {
    /// The person: PLATFORM/USER, as `cairn history --json` and `cairn pair list` show them
    #[arg(value_name = "PLATFORM/USER")]
    user: String,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    yes: bool,
    /// Only show what would be erased
    #[arg(long)]
    dry_run: bool,
}

/// The output as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    user: &'a str,
    /// `None`: nothing was changed.
    pseudonym: Option<&'a str>,
    dry_run: bool,
    #[serde(flatten)]
    figures: ErasureFigures,
}

pub(crate) async fn forget_user(global: Global, args: ForgetUserArgs) -> Result<(), Failure> {
    let user = check_person(&args.user).map_err(|error| Failure::usage(error.to_string(), ""))?;
    quiet_log()?;
    let connector = Connector::configured(&global)?;
    let running = connector.running().await?;
    if running.is_none() {
        if !connector.has_state() {
            return Err(nobody(user));
        }
        connector.check_may_open()?;
    }
    let options = store_options(&connector.loaded, &connector.state)?;
    if args.dry_run || !args.yes {
        let figures = survey(&global, running.as_ref(), &options, user).await?;
        if args.dry_run {
            return tell(&global, user, None, figures);
        }
        out::note(drawn(figures).trim_end());
        let answer = watch::ask(format!("Erase {user} for good? Type yes to erase: ")).await?;
        if !answer.is_some_and(|answer| answer.eq_ignore_ascii_case("yes")) {
            return Err(Failure::failed("nothing was changed", "type yes in full, or add --yes"));
        }
    }
    let erasure = match running {
        Some(client) => by_daemon(&global, &connector, client, user).await?,
        None => erase(&global, &options, user, false).await?,
    };
    tell(&global, user, Some(&erasure.pseudonym), erasure.figures)?;
    out::note(OUTSIDE);
    Ok(())
}

fn no_longer_waited_for() -> Failure {
    Failure::failed(
        "stopped waiting; the erasure may be running",
        "when it is done, the same command with --dry-run says that nothing is stored about them",
    )
}

fn nobody(user: &str) -> Failure {
    Failure::new(
        exit::NOT_FOUND,
        format!("nothing is stored about {user}"),
        "write the id as PLATFORM/USER; `cairn history C --json` shows it as author",
    )
}

async fn survey(
    global: &Global,
    running: Option<&Client>,
    options: &StoreOptions,
    user: &str,
) -> Result<ErasureFigures, Failure> {
    match running {
        Some(client) => Ok(ask(global, client, user, true).await?.figures),
        None => Ok(erase(global, options, user, true).await?.figures),
    }
}

async fn ask(global: &Global, client: &Client, user: &str, dry_run: bool) -> Result<ForgetRecord, Failure> {
    let request = ForgetRequest { user: user.to_owned(), dry_run };
    let stopped = if dry_run { watch::stopped } else { no_longer_waited_for };
    watch::by_daemon(global, client, (Method::POST, "/v1/people/forget"), Some(&request), stopped).await
}

async fn erase(
    global: &Global,
    options: &StoreOptions,
    user: &str,
    dry_run: bool,
) -> Result<Erasure, Failure> {
    let work = erase_dir(options.clone(), user, SystemClock.now(), dry_run);
    let done = watch::here(global, &options.progress, work).await.map_err(Failure::of_store)?;
    done.ok_or_else(|| nobody(user))
}

/// Requests the erasure from the daemon and waits for it. The daemon erases during a restart; with several nodes, the
/// next leader does.
async fn by_daemon(
    global: &Global,
    connector: &Connector,
    mut client: Client,
    user: &str,
) -> Result<Erasure, Failure> {
    let asked = ask(global, &client, user, false).await?;
    let line = watch::Line::new(global);
    let began = Instant::now();
    let (mut noted, mut begun, mut restarted) = (false, false, false);
    while began.elapsed() < WAIT_MAX {
        tokio::select! {
            () = tokio::time::sleep(ASK_EVERY) => {}
            _ = tokio::signal::ctrl_c() => {
                return Err(Failure::failed(
                    "stopped waiting; the erasure is ordered, and will be completed",
                    how_to_look(user),
                ));
            }
        }
        match client.get::<ErasuresRecord>("/v1/people/erased").await {
            Ok(record) => {
                if let Some(done) = record.erasures.into_iter().find(|erasure| erasure.at == asked.at) {
                    return Ok(done);
                }
                // A restarted daemon reports no progress.
                restarted |= begun && record.progress.phase.is_empty();
                begun |= !record.progress.phase.is_empty();
                if restarted && record.pending {
                    return Err(Failure::failed(
                        "the daemon has restarted and could not erase them; nothing was changed",
                        "its log has the reason; it tries again at its next start",
                    ));
                }
                line.show(&record.progress);
            }
            // The node is starting, stopping, or a standby without a copy.
            Err(CallError::Api { .. }) => {}
            Err(CallError::Broken(_)) => {
                restarted = true;
                client = connector.running().await.ok().flatten().unwrap_or(client);
            }
        }
        if !noted && began.elapsed() > NOTE_AFTER {
            noted = true;
            out::note(
                "the daemon erases them while it keeps working; the request is stored, and will be completed",
            );
        }
    }
    let minutes = WAIT_MAX.as_secs() / 60;
    Err(Failure::failed(
        format!("the erasure is ordered, but was not done within {minutes} minutes; the next start does it"),
        how_to_look(user),
    ))
}

fn how_to_look(user: &str) -> String {
    format!("when it is done, `cairn forget-user {user} --dry-run` says that nothing is stored about {user}")
}

fn tell(
    global: &Global,
    user: &str,
    pseudonym: Option<&str>,
    figures: ErasureFigures,
) -> Result<(), Failure> {
    if global.json {
        return out::json(&Printed { user, pseudonym, dry_run: pseudonym.is_none(), figures });
    }
    let first = match pseudonym {
        Some(pseudonym) => format!("{user} is erased; where a name is still needed, it is {pseudonym}"),
        None => format!("nothing was changed; erasing {user} would do this:"),
    };
    out::text(&format!("{first}\n{}", drawn(figures)))
}

/// The line about expired messages that may be the person's.
fn of_expired(n: u64) -> String {
    match n {
        0 => String::new(),
        n => format!(
            "expired        {} of the messages: summaries of that time lose text that may be theirs\n",
            grouped(n)
        ),
    }
}

fn drawn(figures: ErasureFigures) -> String {
    let ErasureFigures {
        entries,
        answers,
        memories,
        summaries,
        artifacts,
        mentions,
        conversations,
        seconds,
        ..
    } = figures;
    format!(
        "messages       {}\nanswers        {}\nprivate chats  {}\nmemories       {}{}\nsummaries      {} rebuilt\n\
         artifacts      {}\nmentions       taken out of {}\n{}seconds        {seconds:.1}\n",
        grouped(entries),
        grouped(answers),
        grouped(conversations),
        grouped(memories),
        cleaned_of_others(figures.memories_cleaned),
        grouped(summaries),
        grouped(artifacts),
        counted(mentions, "record", "records"),
        of_expired(figures.expired),
    )
}

/// The number of other people's memories that are cleaned, to follow the number of deleted ones.
fn cleaned_of_others(n: u64) -> String {
    match n {
        0 => String::new(),
        n => format!("; also removed from {} of others", grouped(n)),
    }
}
