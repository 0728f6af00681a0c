//! The state folder's contents: checked by the running daemon, else opened for a look.

use std::path::Path;

use cairn_core::ports::StoreError;
use cairn_store::{VerifyReport, verify_dir};
use serde::Deserialize;
use tokio::net::UnixStream;

use super::Facts;
use super::report::Finding;
use crate::admin::ServerRecord;
use crate::cli::client::{CallError, Client};
use crate::cli::connect::{Surroundings, store_failure};
use crate::cli::failure::Failure;
use crate::cli::who;
use crate::config::sockets_to_try;
use crate::text::counted;
use crate::wiring::{Reader, store_options};

/// Checks the state.
pub(super) async fn check(surroundings: &Surroundings, facts: &mut Facts) -> Vec<Finding> {
    let dir = &surroundings.state.path;
    if let Some(client) = surroundings.running().await {
        let report = client.get::<VerifyReport>("/v1/store/verify").await;
        return match report {
            Ok(report) => {
                read(&client, facts).await;
                vec![told(&report, "a daemon runs; ", dir, facts)]
            }
            Err(error) => vec![of_call(error)],
        };
    }
    if let Some(barred) = barred(surroundings).await {
        return vec![barred];
    }
    if let Some(found) = cannot_be_looked_at(dir) {
        return vec![found];
    }
    if !surroundings.state.is_there() {
        // Where nothing is begun nothing is approved.
        facts.servers = Some(Vec::new());
        return vec![not_begun(dir)];
    }
    if let Some(owner) = who::other_owner(dir) {
        return vec![not_ours(dir, &owner)];
    }
    if let Err(why) = writable(dir) {
        return vec![cannot_write(dir, &why)];
    }
    let options = store_options(&surroundings.loaded.config, &surroundings.state);
    match verify_dir(options, false).await {
        Ok(report) => {
            if report.ok {
                open_and_read(surroundings, facts).await;
            }
            vec![told(&report, "", dir, facts)]
        }
        Err(error) => of_store(error, facts),
    }
}

/// A daemon's socket is there, and not for us.
async fn barred(surroundings: &Surroundings) -> Option<Finding> {
    for socket in sockets_to_try(&surroundings.state, surroundings.env.as_ref()) {
        // In a state folder that is closed nobody can tell whether there is one.
        if socket.starts_with(&surroundings.state.path) && socket.symlink_metadata().is_err() {
            continue;
        }
        let refused = UnixStream::connect(&socket).await.err();
        if refused.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
            let found = format!("you may not ask the daemon at {}", socket.display());
            let remedy = "sudo usermod -aG cairn YOUR-NAME, then log in again; or ask by sudo";
            return Some(Finding::warning("state", found, remedy));
        }
    }
    None
}

/// It is no folder, or closed to whoever asks.
fn cannot_be_looked_at(dir: &Path) -> Option<Finding> {
    let shown = dir.display();
    if dir.is_file() {
        let remedy = "name a folder by --state or $CAIRN_STATE";
        return Some(Finding::failed("state", format!("{shown} is a file"), remedy));
    }
    who::may_not_enter(dir).then(|| {
        let found = format!(
            "you may not enter {shown}, which belongs to {}: no daemon that you may ask runs, and nothing was looked at",
            who::owner(dir)
        );
        Finding::failed("state", found, "ask again by sudo, or be put into its group and log in again")
    })
}

/// The state is not begun: can it be?
fn not_begun(dir: &Path) -> Finding {
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    match writable(there) {
        Ok(()) => Finding::ok("state", format!("nothing is begun in {} yet", dir.display())),
        Err(why) => cannot_write(dir, &why),
    }
}

fn not_ours(dir: &Path, owner: &str) -> Finding {
    let dir = dir.display();
    let found = format!(
        "{dir} belongs to the user {owner}, and no daemon runs: it was not opened, lest files are left that its owner \
         cannot read"
    );
    let verify = who::sudo(owner, &format!("store verify --state {dir}"));
    Finding::warning("state", found, format!("start the service and ask again; or {verify}"))
}

fn writable(dir: &Path) -> Result<(), String> {
    if !dir.is_dir() {
        return Err(format!("{} is not a folder", dir.display()));
    }
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
        .map_err(|error| error.to_string())
}

fn cannot_write(dir: &Path, why: &str) -> Finding {
    Finding::failed(
        "state",
        format!("{} cannot be written: {why}", dir.display()),
        "let the user that runs cairn write there (as a service: run this by sudo), or name another folder by --state",
    )
}

fn told(report: &VerifyReport, before: &str, dir: &Path, facts: &mut Facts) -> Finding {
    if report.ok {
        let found = format!(
            "{before}the store in {} is fine: {}, {}, {}",
            dir.display(),
            counted(report.journal.events, "event", "events"),
            counted(report.channels, "channel", "channels"),
            counted(report.memories, "memory", "memories"),
        );
        return Finding::ok("state", found);
    }
    let first = report.problems.first().map(String::as_str).unwrap_or("its report names no problem");
    let more = match report.problems.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    damaged(format!("the store is damaged: {first}{more}"), facts)
}

fn damaged(found: String, facts: &mut Facts) -> Finding {
    facts.damaged = true;
    let remedy = "`cairn store verify` shows all of it; stop the daemon, then --quarantine goes on without what is damaged or lost";
    Finding::failed("state", found, remedy)
}

fn of_store(error: StoreError, facts: &mut Facts) -> Vec<Finding> {
    if let StoreError::Damaged { .. } | StoreError::View { .. } = &error {
        return vec![damaged(error.to_string(), facts)];
    }
    match store_failure(error) {
        Failure::Said { message, hint, .. } => vec![Finding::failed("state", message, hint)],
        Failure::Silent(_) | Failure::OutputClosed => Vec::new(),
    }
}

fn of_call(error: CallError) -> Finding {
    let (found, remedy) = match error {
        CallError::Api { body, .. } => (body.error.message, body.error.hint),
        CallError::Broken(why) => (
            format!("a daemon runs, and did not answer: {why}"),
            "look at its log; `systemctl restart cairn` starts it again".to_owned(),
        ),
    };
    Finding::failed("state", found, remedy)
}

/// What the store says beside its being fine.
async fn open_and_read(surroundings: &Surroundings, facts: &mut Facts) {
    let reader = Reader::open(&surroundings.loaded, &surroundings.state, surroundings.tools()).await;
    // That it cannot be opened although it is fine leaves those facts unknown, which their checks say.
    let Ok(reader) = reader else { return };
    read(&Client::Embedded(reader.router()), facts).await;
    reader.close().await;
}

async fn read(client: &Client, facts: &mut Facts) {
    /// Of the list of channels only the times.
    #[derive(Deserialize)]
    struct Channel {
        last_at: jiff::Timestamp,
    }
    let channels = client.get::<Vec<Channel>>("/v1/channels").await.unwrap_or_default();
    facts.last_at = channels.iter().map(|channel| channel.last_at).max();
    facts.servers = client.get::<Vec<ServerRecord>>("/v1/mcp").await.ok();
}
