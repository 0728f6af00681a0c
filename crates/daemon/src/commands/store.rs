//! `cairn store`: verifies, rebuilds, backs up, restores, moves and shrinks the store.

use std::path::{Path, PathBuf};

use axum::http::Method;
use cairn_store::{
    BackupError, BackupReport, Moved, Progress, RestoreReport, StoreOptions, VerifyReport, move_from,
    move_to, rebuild_dir, restore_dir, verify_dir, verify_dir_quick,
};
use cairn_types::ports::{Clock as _, Shrunk, StoreError};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::commands::watch;
use crate::wiring::{Reader, Tools, store_options};
use cairn_api::records::{RetainRecord, RetainRequest};
use cairn_api::text::{counted, grouped, plain};
use cairn_cli::args::Global;
use cairn_cli::connect::{Connector, quiet_log};
use cairn_cli::failure::{Failure, MENDING_COPY, exit};
use cairn_cli::out;
use cairn_config::clock::SystemClock;
use cairn_server::api::backup_error;

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Check journal and databases; exit code 5 if something is damaged
    #[command(after_help = "\
Examples:
  cairn store verify
  cairn store verify --quick
  cairn store verify --quarantine --json

A running daemon checks itself; --quarantine needs it stopped.
Ctrl-C stops the check.")]
    Verify {
        /// Quarantine damaged journal lines and lost artifacts, and continue without them; the history shows the loss
        #[arg(long)]
        quarantine: bool,
        /// Check only records since the last full check
        #[arg(long, conflicts_with = "quarantine")]
        quick: bool,
    },
    /// Apply [retention] now: compress old journal segments, delete expired texts, forget old memories
    #[command(after_help = "\
Examples:
  cairn store retain --dry-run
  cairn store retain --json

`cairn run` does this once a day when [retention] is set.")]
    Retain {
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Rebuild databases and search index from the journal; the daemon must be stopped
    #[command(after_help = "\
Example:
  cairn store rebuild

It refuses to run if the databases show records that are missing from the
journal: see `cairn store verify`. Ctrl-C stops it and restores the old ones.")]
    Rebuild,
    /// Copy the state to a folder, with or without a running daemon
    Backup(BackupArgs),
    /// Restore the state from a backup; the daemon must be stopped
    Restore(RestoreArgs),
    /// Move the state into the database of [store], or back; the daemon must be stopped
    Move(MoveArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn store move --to-database
  cairn store move --to-folder --state /var/lib/cairn

`url` under [store] names the database, which must be empty for a move to it.
Every line is checked, and everything is counted. If the move is interrupted,
run the same command again. Afterwards the folder is a copy of the database.
After a move back, the folder has everything again: remove `url` from the
configuration. No other node may run meanwhile. All text also remains in the
database and in the other nodes' folders, where erasures no longer reach it:
drop the database, and remove those folders.")]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    to: MoveTo,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct MoveTo {
    /// From the state folder into the database
    #[arg(long)]
    to_database: bool,
    /// From the database into the state folder
    #[arg(long)]
    to_folder: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn store backup /srv/backups/cairn-monday
  cairn store backup ./before-upgrade --json

A running daemon makes the backup itself and keeps answering. It must be
able to write to DIR: under systemd with ProtectSystem=strict, add
ReadWritePaths= to the unit. The backup contains the journal up to one moment,
the artifacts that it names, and a manifest. It is complete once DIR exists;
until then it is DIR.partial. Ctrl-C stops it and removes everything.")]
pub(crate) struct BackupArgs {
    /// A folder that does not exist yet, or is empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn store restore /srv/backups/cairn-monday
  cairn store restore /srv/backups/cairn-monday --force --state /var/lib/cairn

The whole backup is checked first; a damaged one changes nothing (exit code
5). An existing state is moved to before-restore-TIME in the state folder,
never deleted. The next start rebuilds databases and search index. A folder
that is a copy of a database cannot be restored over: restore into another
folder, and move that into an empty database.")]
pub(crate) struct RestoreArgs {
    /// A folder that `cairn store backup` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Replace an existing state, which is moved aside
    #[arg(long)]
    force: bool,
}

pub(crate) async fn store(global: Global, tools: &Tools, command: StoreCommand) -> Result<(), Failure> {
    match command {
        StoreCommand::Verify { quarantine, quick } => verify(&global, quarantine, quick).await,
        StoreCommand::Retain { dry_run } => {
            let connector = Connector::load(&global).await?;
            let request = RetainRequest { dry_run };
            let record: RetainRecord = connector.change(Method::POST, "/v1/store/retain", &request).await?;
            out::record(global.json, &record, retained)
        }
        StoreCommand::Rebuild => {
            let connector = Connector::configured(&global)?;
            check_there(&connector)?;
            let options = store_options(&connector.loaded, &connector.state)?;
            let (progress, is_copy) = (options.progress.clone(), options.database.is_some());
            let rebuilt = watch::here(&global, &progress, rebuild_dir(options)).await;
            report(&global, &rebuilt.map_err(|error| damaged(error, is_copy))?, is_copy)
        }
        StoreCommand::Backup(args) => backup(&global, tools, args).await,
        StoreCommand::Move(args) => move_it(&global, args.to.to_database).await,
        StoreCommand::Restore(args) => {
            let dir = absolute(&args.dir)?;
            let connector = Connector::configured(&global)?;
            connector.check_may_open()?;
            let state = connector.state.path;
            let report = restore_dir(dir, state, args.force, SystemClock.now()).await.map_err(failure)?;
            out::record(global.json, &report, restored)
        }
    }
}

async fn move_it(global: &Global, to_database: bool) -> Result<(), Failure> {
    let connector = Connector::configured(global)?;
    quiet_log()?;
    connector.check_may_open()?;
    let options = store_options(&connector.loaded, &connector.state)?;
    let Some(database) = options.database.clone() else {
        return Err(Failure::usage(
            "no database is configured",
            "set `url` under [store], such as \"postgres://cairn@db.example.net/cairn\"",
        ));
    };
    let progress = options.progress.clone();
    let moved = if to_database {
        check_there(&connector)?;
        let folder = StoreOptions { database: None, ..options };
        watch::here(global, &progress, move_to(folder, database, &progress)).await
    } else {
        watch::here(global, &progress, move_from(options, &progress)).await
    };
    out::record(global.json, &moved.map_err(Failure::of_store)?, |moved| {
        let next = if to_database {
            "the folder is a copy of the database now; start the daemon"
        } else {
            "the folder has everything now; remove `url` from [store], then start the daemon; drop the database and \
             remove the folders of other nodes, which have every word still"
        };
        moved_text(moved, next)
    })
}

fn moved_text(moved: &Moved, next: &str) -> String {
    let mut text = format!(
        "moved     {}, {} bytes\nartifacts {}\n",
        counted(moved.records, "record", "records"),
        grouped(moved.bytes),
        grouped(moved.artifacts)
    );
    if moved.missing > 0 {
        text.push_str(&format!(
            "missing   {} that the journal names, but whose files were already missing\n",
            counted(moved.missing, "artifact", "artifacts")
        ));
    }
    text.push_str(&format!("next      {next}\n"));
    text
}

/// The remedy for a damaged store.
const MENDING: &str = "`cairn store verify --quarantine`, with the daemon stopped, removes damaged parts of the journal and \
    artifacts and continues; `cairn store rebuild` makes views and index again; `cairn store restore` restores a backup";

/// Verifies through the running daemon, or without one. Quarantine needs a stopped daemon.
async fn verify(global: &Global, quarantine: bool, quick: bool) -> Result<(), Failure> {
    let connector = if quarantine { Connector::configured(global)? } else { Connector::load(global).await? };
    let running = if quarantine { None } else { connector.running().await? };
    let is_copy = connector.loaded.config.store.url.is_some();
    let verified = match running {
        Some(client) => {
            let path = if quick { "/v1/store/verify?quick=true" } else { "/v1/store/verify" };
            watch::by_daemon(global, &client, (Method::GET, path), None::<&()>, watch::stopped).await?
        }
        None => {
            check_there(&connector)?;
            if quarantine && is_copy {
                return Err(Failure::failed("a copy of a database cannot be quarantined", MENDING_COPY));
            }
            let options = store_options(&connector.loaded, &connector.state)?;
            let progress = options.progress.clone();
            let work = async {
                if quick { verify_dir_quick(options).await } else { verify_dir(options, quarantine).await }
            };
            watch::here(global, &progress, work).await.map_err(|error| damaged(error, is_copy))?
        }
    };
    report(global, &verified, is_copy)
}

/// Chooses the hint for damage: the usual remedies do not repair a copy.
fn damaged(error: StoreError, is_copy: bool) -> Failure {
    match error {
        StoreError::Damaged { .. } if is_copy => Failure::new(exit::DAMAGED, error.to_string(), MENDING_COPY),
        error => Failure::of_store(error),
    }
}

fn report(global: &Global, report: &VerifyReport, is_copy: bool) -> Result<(), Failure> {
    out::record(global.json, report, verified)?;
    if report.ok {
        return Ok(());
    }
    out::note(&format!("hint: {}", if is_copy { MENDING_COPY } else { MENDING }));
    Err(Failure::Silent(exit::DAMAGED))
}

/// Checks that the state exists and that this command may open it.
fn check_there(connector: &Connector) -> Result<(), Failure> {
    if !connector.has_state() {
        return Err(Failure::failed(
            format!("there is no state in {} yet", connector.state.path.display()),
            "give the state folder with --state or $CAIRN_STATE",
        ));
    }
    connector.check_may_open()
}

async fn backup(global: &Global, tools: &Tools, args: BackupArgs) -> Result<(), Failure> {
    let dir = absolute(&args.dir)?;
    let connector = Connector::load(global).await?;
    let report: BackupReport = match connector.running().await? {
        Some(client) => {
            let call = (Method::POST, "/v1/store/backup");
            let report =
                watch::by_daemon(global, &client, call, Some(&json!({ "dir": dir })), watch::stopped).await?;
            is_seen(&dir)?;
            report
        }
        None => {
            check_there(&connector)?;
            quiet_log()?;
            // A standby's copy is backed up without leading.
            let reader = Reader::open(&connector.loaded, &connector.state, tools).await?;
            let progress = Progress::default();
            let work = reader.store().backup_watched(dir, SystemClock.now(), &progress);
            let made = watch::here(global, &progress, work).await;
            reader.close().await;
            made.map_err(failure)?
        }
    };
    out::record(global.json, &report, backed_up)
}

/// Checks that a backup is visible. A service may have a private `/tmp`, which is deleted when it stops.
fn is_seen(dir: &Path) -> Result<(), Failure> {
    match std::fs::symlink_metadata(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failure::failed(
            format!("the daemon made the backup in its private {}, which nobody else can see", dir.display()),
            "use a folder outside /tmp and /var/tmp that the unit may write to (ReadWritePaths=)",
        )),
        _ => Ok(()),
    }
}

fn failure(error: BackupError) -> Failure {
    match error {
        BackupError::Store(error) => Failure::of_store(error),
        error => backup_error(error).into(),
    }
}

fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(dir).map_err(|error| {
        Failure::usage(
            format!("cannot find the absolute path of {}: {error}", dir.display()),
            "give an absolute path",
        )
    })
}

fn retained(record: &RetainRecord) -> String {
    let RetainRecord { dry_run, compressed, expired, over_bytes, memories, seconds: _ } = record;
    let bytes = |shrunk: &Shrunk| {
        let (segments, before) =
            (counted(shrunk.segments, "segment", "segments"), grouped(shrunk.bytes_before));
        format!("{segments}, from {before} to {} bytes", grouped(shrunk.bytes_after))
    };
    let mut lines = Vec::new();
    if compressed.segments > 0 {
        lines.push(format!("compressed  {}", bytes(compressed)));
    }
    if expired.shrunk.segments > 0 {
        lines.push(format!(
            "expired     the text of {} and {} in {}",
            counted(expired.entries, "message", "messages"),
            counted(expired.summaries, "summary", "summaries"),
            bytes(&expired.shrunk)
        ));
    }
    if *memories > 0 {
        lines.push(format!("forgotten   {}", counted(*memories, "memory", "memories")));
    }
    let failed = compressed.failed + expired.shrunk.failed;
    if failed > 0 {
        let failed = counted(failed, "segment", "segments");
        lines.push(format!("failed      {failed}, left unchanged; the log has the reason"));
    }
    if lines.is_empty() {
        lines.push("nothing to do for [retention]".to_owned());
    } else if *dry_run {
        lines.insert(0, "nothing was changed; it would do this:".to_owned());
    }
    if *over_bytes > 0 {
        let over = grouped(*over_bytes);
        lines.push(format!(
            "over        journal_mib by {over} bytes: nothing more can be removed from closed segments"
        ));
    }
    lines.join("\n") + "\n"
}

fn verified(report: &VerifyReport) -> String {
    let mut text = format!(
        "{}\njournal   {} in {}, the last is {}\nviews     {}, {} bad, applied up to {}\nchannels  {}\nmemories  {}\n",
        if report.ok { "the store is fine" } else { "the store is damaged" },
        counted(report.journal.events, "event", "events"),
        counted(report.journal.segments, "segment", "segments"),
        grouped(report.journal.last),
        counted(report.views.records, "row", "rows"),
        grouped(report.views.bad),
        grouped(report.views.applied),
        grouped(report.channels),
        grouped(report.memories),
    );
    if let Some(since) = report.since {
        let since = grouped(since);
        text.push_str(&format!("checked   records after event {since}; earlier ones were checked before\n"));
    }
    for problem in &report.problems {
        text.push_str(&format!("problem   {}\n", plain(problem)));
    }
    text
}

fn backed_up(report: &BackupReport) -> String {
    let mut text = format!(
        "backed up to {}\nup to     record {}, {} in {}\nartifacts {}\nbytes     {}\n",
        report.dir.display(),
        grouped(report.last_record),
        counted(report.records, "record", "records"),
        counted(report.segments, "segment", "segments"),
        grouped(report.artifacts),
        grouped(report.bytes),
    );
    for missing in &report.missing {
        text.push_str(&format!("missing   {}\n", plain(missing)));
    }
    text
}

fn restored(report: &RestoreReport) -> String {
    let mut text = format!(
        "restored {} to {}\nmade at   {} by cairn {}\nup to     record {}, {}\nbytes     {} in {}\n",
        report.dir.display(),
        report.state.display(),
        report.created_at,
        plain(&report.version),
        grouped(report.last_record),
        counted(report.records, "record", "records"),
        grouped(report.bytes),
        counted(report.files, "file", "files"),
    );
    if let Some(moved) = &report.moved_to {
        text.push_str(&format!("before    the old state is in {}\n", moved.display()));
    }
    text
}
