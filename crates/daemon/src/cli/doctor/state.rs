//! The state folder's contents: checked by the running daemon, else opened for a look.

use std::path::Path;

use cairn_core::ports::StoreError;
use cairn_store::{VerifyReport, verify_dir};
use serde::Deserialize;
use tokio::net::UnixStream;

use super::Seen;
use super::report::Finding;
use crate::admin::ServerRecord;
use crate::cli::client::{CallError, Client};
use crate::cli::connect::{Surroundings, store_failure};
use crate::cli::failure::Failure;
use crate::cli::who;
use crate::config::sockets_to_try;
use crate::text::counted;
use crate::wiring::{Reader, store_options};

#[derive(Default)]
pub(super) struct Looked {
    pub(super) findings: Vec<Finding>,
    pub(super) damaged: bool,
    /// What else was read on the way; none where nothing could be read.
    pub(super) seen: Option<Seen>,
}

pub(super) async fn look(surroundings: &Surroundings) -> Looked {
    let dir = &surroundings.state.path;
    if let Some(client) = surroundings.running().await {
        let report = client.get::<VerifyReport>("/v1/store/verify").await;
        return match report {
            Ok(report) => {
                let seen = Some(seen(&client).await);
                Looked { seen, ..told(&report, "a daemon runs; ", dir) }
            }
            Err(error) => of_call(error),
        };
    }
    if let Some(barred) = barred(surroundings).await {
        return Looked { findings: vec![barred], ..Looked::default() };
    }
    if let Some(found) = cannot_be_looked_at(dir) {
        return Looked { findings: vec![found], ..Looked::default() };
    }
    if !surroundings.state.is_there() {
        // Where nothing is begun nothing is approved.
        let seen = Some(Seen { last_at: None, servers: Some(Vec::new()) });
        return Looked { findings: vec![not_begun(dir)], seen, ..Looked::default() };
    }
    if let Some(owner) = who::other_owner(dir) {
        return Looked { findings: vec![not_ours(dir, &owner)], ..Looked::default() };
    }
    if let Err(why) = writable(dir) {
        return Looked { findings: vec![cannot_write(dir, &why)], ..Looked::default() };
    }
    let options = store_options(&surroundings.loaded.config, &surroundings.state);
    match verify_dir(options, false).await {
        Ok(report) if report.ok => Looked { seen: opened(surroundings).await, ..told(&report, "", dir) },
        Ok(report) => told(&report, "", dir),
        Err(error) => of_store(error),
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
            let remedy = "sudo usermod -aG cairn YOUR-NAME, then log in anew; or ask by sudo";
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
        Finding::failed("state", found, "ask again by sudo, or be put into its group and log in anew")
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

fn told(report: &VerifyReport, before: &str, dir: &Path) -> Looked {
    if report.ok {
        let found = format!(
            "{before}the store in {} is fine: {}, {}, {}",
            dir.display(),
            counted(report.journal.events, "event", "events"),
            counted(report.channels, "channel", "channels"),
            counted(report.memories, "memory", "memories"),
        );
        return Looked { findings: vec![Finding::ok("state", found)], ..Looked::default() };
    }
    let first = report.problems.first().map(String::as_str).unwrap_or("its report names no problem");
    let more = match report.problems.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    damaged(format!("the store is damaged: {first}{more}"))
}

fn damaged(found: String) -> Looked {
    let remedy = "`cairn store verify` shows all of it; stop the daemon, then --quarantine goes on without what is damaged or lost";
    Looked { findings: vec![Finding::failed("state", found, remedy)], damaged: true, seen: None }
}

fn of_store(error: StoreError) -> Looked {
    if let StoreError::Damaged { .. } | StoreError::View { .. } = &error {
        return damaged(error.to_string());
    }
    match store_failure(error) {
        Failure::Said { message, hint, .. } => {
            Looked { findings: vec![Finding::failed("state", message, hint)], ..Looked::default() }
        }
        Failure::Silent(_) | Failure::OutputClosed => Looked::default(),
    }
}

fn of_call(error: CallError) -> Looked {
    let (found, remedy) = match error {
        CallError::Api { body, .. } => (body.error.message, body.error.hint),
        CallError::Broken(why) => (
            format!("a daemon runs, and did not answer: {why}"),
            "look at its log; `systemctl restart cairn` starts it anew".to_owned(),
        ),
    };
    Looked { findings: vec![Finding::failed("state", found, remedy)], ..Looked::default() }
}

/// What the store says beside its being fine.
async fn opened(surroundings: &Surroundings) -> Option<Seen> {
    let session = Reader::open(&surroundings.loaded, &surroundings.state, surroundings.tools());
    let reader = session.await.ok()?;
    let seen = seen(&Client::Embedded(reader.router())).await;
    reader.close().await;
    Some(seen)
}

async fn seen(client: &Client) -> Seen {
    /// Of the list of channels only the times.
    #[derive(Deserialize)]
    struct Channel {
        last_at: jiff::Timestamp,
    }
    let channels = client.get::<Vec<Channel>>("/v1/channels").await.unwrap_or_default();
    let servers = client.get::<Vec<ServerRecord>>("/v1/mcp").await.ok();
    Seen { last_at: channels.iter().map(|channel| channel.last_at).max(), servers }
}
