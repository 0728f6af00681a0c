//! `cairn store backup` and `cairn store restore`.

use std::path::{Path, PathBuf};

use cairn_core::ports::Clock as _;
use cairn_store::{BackupError, BackupReport, RestoreReport, Store, restore_dir};
use clap::Args;
use serde_json::json;

use super::connect::{Surroundings, store_failure};
use super::failure::Failure;
use super::global::Global;
use super::out;
use crate::admin::backup_error;
use crate::clock::SystemClock;
use crate::text::{counted, grouped, plain};
use crate::wiring;

/// Arguments of `store backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn store backup /srv/backups/cairn-monday
  cairn store backup ./before-upgrade --json

A running daemon makes it and goes on answering meanwhile; then it must be
able to write to DIR: under systemd with ProtectSystem=strict that takes
ReadWritePaths= in the unit. The backup holds the journal up to one moment,
the artifacts that it names, and a manifest. It is whole once DIR is there:
until then it is DIR.partial.")]
pub(crate) struct BackupArgs {
    /// A folder that is not there yet, or empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Arguments of `store restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn store restore /srv/backups/cairn-monday
  cairn store restore /srv/backups/cairn-monday --force --state /var/lib/cairn

All of the backup is checked first; a damaged one changes nothing (exit code
5). A state that is there is moved to before-restore-TIME within the state
folder, never deleted. sled and the search index are rebuilt at the next
start.")]
pub(crate) struct RestoreArgs {
    /// A folder that `cairn store backup` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Move the state that is there aside
    #[arg(long)]
    force: bool,
}

/// `cairn store backup`.
pub(crate) async fn backup(global: &Global, args: BackupArgs) -> Result<(), Failure> {
    let dir = absolute(&args.dir)?;
    let surroundings = Surroundings::load(global).await?;
    let report: BackupReport = match surroundings.running().await {
        Some(client) => {
            let report: BackupReport = client.post("/v1/store/backup", &json!({ "dir": dir })).await?;
            is_seen(&dir)?;
            report
        }
        None => alone(&surroundings, dir).await?,
    };
    if global.json { out::json(&report) } else { out::raw(drawn(&report).as_bytes()) }
}

/// A service may have a `/tmp` of its own: what it writes there is nowhere for others, and gone when it stops.
fn is_seen(dir: &Path) -> Result<(), Failure> {
    match std::fs::symlink_metadata(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failure::failed(
            format!("the daemon made the backup in a {} of its own, which nobody else sees", dir.display()),
            "name a folder outside of /tmp and /var/tmp, and let the unit write there: ReadWritePaths=",
        )),
        _ => Ok(()),
    }
}

/// A backup of a state that no daemon has open.
async fn alone(surroundings: &Surroundings, dir: PathBuf) -> Result<BackupReport, Failure> {
    surroundings.may_do_without()?;
    if !surroundings.state.is_there() {
        return Err(Failure::failed(
            format!("there is no state in {} yet", surroundings.state.path.display()),
            "name the state folder by --state or $CAIRN_STATE",
        ));
    }
    super::connect::quiet_log()?;
    let store: Store =
        wiring::open(&surroundings.loaded.config, &surroundings.state).await.map_err(store_failure)?;
    let made = store.backup(dir, SystemClock.now()).await;
    store.close().await;
    made.map_err(failure)
}

/// `cairn store restore`.
pub(crate) async fn restore(global: &Global, args: RestoreArgs) -> Result<(), Failure> {
    let dir = absolute(&args.dir)?;
    let surroundings = Surroundings::configured(global)?;
    surroundings.may_do_without()?;
    let state = surroundings.state.path;
    let report = restore_dir(dir, state, args.force, SystemClock.now()).await.map_err(failure)?;
    if global.json { out::json(&report) } else { out::raw(drawn_restore(&report).as_bytes()) }
}

fn failure(error: BackupError) -> Failure {
    match error {
        BackupError::Store(error) => store_failure(error),
        error => backup_error(error).into(),
    }
}

fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(dir).map_err(|error| {
        Failure::usage(format!("cannot tell where {} is: {error}", dir.display()), "name it from / on")
    })
}

fn drawn(report: &BackupReport) -> String {
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

fn drawn_restore(report: &RestoreReport) -> String {
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
        text.push_str(&format!("before    what was there is in {}\n", moved.display()));
    }
    text
}
