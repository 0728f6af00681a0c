//! `cairn forget-user`: a person erased.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use cairn_core::erasure::check_person;
use cairn_core::event::ErasureFigures;
use cairn_core::pairing_store::Erasure;
use cairn_core::ports::{Clock, StoreError};
use cairn_store::{StoreOptions, erase_dir, erasures_dir};
use clap::Args;
use serde::Serialize;

use super::client::{CallError, Client};
use super::connect::{Surroundings, quiet_log, same_dir, store_failure};
use super::failure::Failure;
use super::global::Global;
use super::{exit, out};
use crate::admin::{ErasuresRecord, ForgetRecord, ForgetRequest, StatusRecord};
use crate::clock::SystemClock;
use crate::text::{counted, grouped};
use crate::wiring::store_options;

/// How often the daemon is asked whether it is done.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// A daemon that does not answer for so long is no longer there, and what it was asked for is done without it.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// When people are told what is waited for.
const TOLD_AFTER: Duration = Duration::from_secs(3);

/// How long is waited for at all.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// What no erasure reaches.
const OUTSIDE: &str = "\
note: facts that others told of them, nicknames and misspellings stay. What is outside of the state folder is not reached:
backups and exports made before, what the chat network and the servers of models keep, and lists in the config file that name
them. Whatever they write from now on is kept as anybody's.";

/// Arguments of `forget-user`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn forget-user telegram/123456789 --dry-run
  cairn forget-user local/anna --yes --json

Erases what the person said, what was said in answer to them, their private
chats, memories, pairing and artifacts; masks their names and ids in what
others said; has summaries made again from what is left. The journal is
rewritten, databases and search index are rebuilt from it. A running daemon
starts again for it, within its process. This cannot be undone.")]
pub(crate) struct ForgetUserArgs {
    /// The person: PLATFORM/USER, as `cairn history --json` and `cairn pair list` show them
    #[arg(value_name = "PLATFORM/USER")]
    user: String,
    /// Go ahead without a question
    #[arg(long, short = 'y')]
    yes: bool,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

/// What the command prints.
#[derive(Serialize)]
struct Told<'a> {
    user: &'a str,
    /// None: nothing was changed.
    pseudonym: Option<&'a str>,
    dry_run: bool,
    #[serde(flatten)]
    figures: ErasureFigures,
}

/// `cairn forget-user`.
pub(crate) async fn forget_user(global: Global, args: ForgetUserArgs) -> Result<(), Failure> {
    let user = check_person(&args.user).map_err(|error| Failure::usage(error.to_string(), ""))?;
    quiet_log()?;
    let surroundings = Surroundings::configured(&global)?;
    let running = surroundings.running().await;
    if running.is_none() && !surroundings.state.is_there() {
        return Err(nobody(user));
    }
    if running.is_none() {
        surroundings.may_do_without()?;
    }
    let options = store_options(&surroundings.loaded.config, &surroundings.state);
    if args.dry_run || !args.yes {
        let figures = survey(running.as_ref(), &options, user).await?;
        if args.dry_run {
            return tell(&global, user, None, figures);
        }
        confirm(user, figures)?;
    }
    let erasure = match running {
        Some(client) => {
            let own = is_own(&client, &surroundings).await && surroundings.may_do_without().is_ok();
            let options = own.then_some(options);
            by_daemon(&surroundings, &client, options, user).await?
        }
        None => erase(&options, user, false).await?,
    };
    tell(&global, user, Some(&erasure.pseudonym), erasure.figures)?;
    out::note(OUTSIDE);
    Ok(())
}

fn nobody(user: &str) -> Failure {
    Failure::new(
        exit::NOT_FOUND,
        format!("nothing is known of {user}"),
        "write the id as PLATFORM/USER; `cairn history C --json` shows it as author",
    )
}

async fn survey(
    running: Option<&Client>,
    options: &StoreOptions,
    user: &str,
) -> Result<ErasureFigures, Failure> {
    match running {
        Some(client) => Ok(ask(client, user, true).await?.figures),
        None => Ok(erase(options, user, true).await?.figures),
    }
}

async fn ask(client: &Client, user: &str, dry_run: bool) -> Result<ForgetRecord, Failure> {
    let request = ForgetRequest { user: user.to_owned(), dry_run };
    client.post("/v1/people/forget", &request).await.map_err(Failure::from)
}

async fn erase(options: &StoreOptions, user: &str, dry_run: bool) -> Result<Erasure, Failure> {
    let done = erase_dir(options.clone(), user, SystemClock.now(), dry_run).await.map_err(store_failure)?;
    done.ok_or_else(|| nobody(user))
}

fn confirm(user: &str, figures: ErasureFigures) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "an erasure cannot be undone, and nobody is there to ask",
            "add --yes to go ahead, or --dry-run to see what would go",
        ));
    }
    out::note(drawn(figures).trim_end());
    eprint!("Erase {user} for good? Type yes to go ahead: ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if answer.trim().eq_ignore_ascii_case("yes") {
        return Ok(());
    }
    Err(Failure::failed("nothing was changed", "type yes in full, or add --yes"))
}

/// Whether the daemon's state is the one that this command would open, too.
async fn is_own(client: &Client, surroundings: &Surroundings) -> bool {
    let status = client.get::<StatusRecord>("/v1/status").await;
    status.is_ok_and(|status| same_dir(Path::new(&status.state_dir), &surroundings.state.path))
}

/// Has the daemon do it, and waits until it has. `options`: to look for oneself when the daemon is gone, where that is
/// possible.
async fn by_daemon(
    surroundings: &Surroundings,
    client: &Client,
    options: Option<StoreOptions>,
    user: &str,
) -> Result<Erasure, Failure> {
    let asked = ask(client, user, false).await?;
    let began = Instant::now();
    let mut answered = Instant::now();
    let (mut told, mut was_gone) = (false, false);
    while began.elapsed() < PATIENCE {
        tokio::time::sleep(ASK_EVERY).await;
        match client.get::<ErasuresRecord>("/v1/people/erased").await {
            Ok(record) => {
                answered = Instant::now();
                if let Some(done) = record.erasures.into_iter().find(|erasure| erasure.at == asked.at) {
                    return Ok(done);
                }
                if was_gone && record.pending {
                    return Err(Failure::failed(
                        "the daemon has restarted and could not carry it out; nothing was changed",
                        "its log says why; it is tried again at its next start",
                    ));
                }
            }
            // Starting or stopping.
            Err(CallError::Api { .. }) => answered = Instant::now(),
            Err(CallError::Broken(_)) if answered.elapsed() < GONE_AFTER => was_gone = true,
            Err(CallError::Broken(_)) => match (surroundings.running().await, &options) {
                (Some(_), _) => answered = Instant::now(),
                // Only the daemon can say.
                (None, None) => {}
                (None, Some(options)) => match erasures_dir(options.clone()).await {
                    Ok(erasures) => {
                        let done = erasures.into_iter().find(|erasure| erasure.at == asked.at);
                        return done.ok_or_else(|| nobody(user));
                    }
                    // It is being carried out.
                    Err(StoreError::InUse { .. }) => {}
                    Err(error) => return Err(store_failure(error)),
                },
            },
        }
        if !told && began.elapsed() > TOLD_AFTER {
            told = true;
            out::note(
                "waiting for the daemon to restart; what was asked for is kept, and done at its next start",
            );
        }
    }
    Err(Failure::failed(
        "the daemon has not restarted yet",
        "what was asked for is kept, and done at its next start: restart it",
    ))
}

fn tell(
    global: &Global,
    user: &str,
    pseudonym: Option<&str>,
    figures: ErasureFigures,
) -> Result<(), Failure> {
    if global.json {
        return out::json(&Told { user, pseudonym, dry_run: pseudonym.is_none(), figures });
    }
    let first = match pseudonym {
        Some(pseudonym) => format!("{user} is erased; what is left of them is called {pseudonym}"),
        None => format!("erasing {user} would do this; nothing was changed"),
    };
    out::raw(format!("{first}\n{}", drawn(figures)).as_bytes())
}

/// What cannot be told any more, in a line of its own.
fn of_expired(n: u64) -> String {
    match n {
        0 => String::new(),
        n => format!(
            "expired        {} of the messages: summaries of that time lose what may be theirs\n",
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
        "messages       {}\nanswers        {}\nprivate chats  {}\nmemories       {}{}\nsummaries      {} made again\n\
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

/// Of others, behind the number of those that go.
fn cleaned_of_others(n: u64) -> String {
    match n {
        0 => String::new(),
        n => format!("; taken out of {} of others", grouped(n)),
    }
}
