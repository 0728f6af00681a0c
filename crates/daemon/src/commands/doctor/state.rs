//! The contents of the state folder: checked by the running daemon, otherwise opened for reading.

use std::path::Path;

use cairn_store::{VerifyReport, verify_dir};
use cairn_types::ports::StoreError;
use tokio::net::UnixStream;

use crate::commands::doctor::report::Finding;
use crate::commands::doctor::{Examination, problem_of};
use crate::wiring::{Reader, nothing, store_options};
use cairn_api::records::{CHANGING, ServerRecord, StatusRecord};
use cairn_api::text::counted;
use cairn_cli::client::{CallError, Client};
use cairn_cli::connect::Connector;
use cairn_cli::failure::{Failure, MENDING_COPY};
use cairn_cli::owner;
use cairn_config::{sockets_to_try, state_dir};

pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    if let Err(error) = state_dir(x.global.state.as_deref(), &x.env) {
        return error.problems.iter().map(|problem| problem_of("state", problem)).collect();
    }
    let connector = match x.connector() {
        Ok(connector) => connector,
        Err(failure) => return of_failure(failure),
    };
    let dir = &connector.state.path;
    let running = match connector.running().await {
        Ok(running) => running,
        Err(failure) => return of_failure(failure),
    };
    if let Some(client) = running {
        let report = client.get::<VerifyReport>("/v1/store/verify").await;
        return match report {
            Ok(report) => {
                read(&client, x).await;
                vec![verified(&report, "a daemon runs; ", dir, x)]
            }
            Err(error) => vec![of_call(error)],
        };
    }
    if let Some(barred) = barred(&connector).await {
        return vec![barred];
    }
    if let Some(found) = cannot_be_looked_at(dir) {
        return vec![found];
    }
    if !cairn_store::is_there(&connector.state.path) {
        // Without a state no server is approved.
        x.servers = Some(Vec::new());
        if let Ok(router) = nothing(&connector.loaded, &connector.state, &x.linked) {
            x.tools = Client::Embedded(router).get("/v1/tools").await.ok();
        }
        return vec![not_created(dir)];
    }
    if let Some(owner) = owner::other_owner(dir) {
        return vec![not_ours(dir, &owner)];
    }
    if let Err(why) = writable(dir) {
        return vec![cannot_write(dir, &why)];
    }
    let options = match store_options(&connector.loaded, &connector.state) {
        Ok(options) => options,
        // Reported by the database check.
        Err(_) => return Vec::new(),
    };
    match verify_dir(options, false).await {
        Ok(report) => {
            if report.ok {
                open_and_read(&connector, x).await;
            }
            vec![verified(&report, "", dir, x)]
        }
        Err(error) => of_store(error, x),
    }
}

/// A warning if a daemon runs, but this user may not use its socket.
async fn barred(connector: &Connector) -> Option<Finding> {
    for socket in sockets_to_try(&connector.state, connector.env.as_ref()) {
        // A socket in a closed state folder cannot be seen.
        if socket.starts_with(&connector.state.path) && socket.symlink_metadata().is_err() {
            continue;
        }
        let refused = UnixStream::connect(&socket).await.err();
        if refused.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
            let found = format!("you may not ask the daemon at {}", socket.display());
            let remedy = "sudo usermod -aG cairn YOUR-NAME, then log in again; or use sudo";
            return Some(Finding::warning("state", found, remedy));
        }
    }
    None
}

/// A failure if the state is not a folder, or is closed to this user.
fn cannot_be_looked_at(dir: &Path) -> Option<Finding> {
    let shown = dir.display();
    if dir.is_file() {
        let remedy = "name a folder with --state or $CAIRN_STATE";
        return Some(Finding::failed("state", format!("{shown} is a file"), remedy));
    }
    owner::may_not_enter(dir).then(|| {
        let found = format!(
            "you may not enter {shown}, which belongs to {}; no daemon that you may ask runs, and nothing was checked",
            owner::other_owner(dir).unwrap_or_else(|| "you, but its mode forbids it".to_owned())
        );
        Finding::failed("state", found, "try again with sudo, or join its group and log in again")
    })
}

/// There is no state yet: checks whether it can be created.
fn not_created(dir: &Path) -> Finding {
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    match writable(there) {
        Ok(()) => {
            Finding::ok("state", format!("there is no state in {} yet; it can be created", dir.display()))
        }
        Err(why) => cannot_write(dir, &why),
    }
}

fn not_ours(dir: &Path, owner: &str) -> Finding {
    let dir = dir.display();
    let found = format!(
        "{dir} belongs to the user {owner}, and no daemon runs: it was not opened, since that would create files that \
         its owner cannot read"
    );
    let verify = owner::sudo(owner, &format!("store verify --state {dir}"));
    Finding::warning("state", found, format!("start the service and try again, or run {verify}"))
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
        "let the user that runs cairn write there (as a service: run this with sudo), or use another folder with --state",
    )
}

fn verified(report: &VerifyReport, before: &str, dir: &Path, x: &mut Examination) -> Finding {
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
    damaged(format!("the store is damaged: {first}{more}"), x)
}

fn damaged(found: String, x: &mut Examination) -> Finding {
    x.damaged = true;
    let is_copy = x.loaded.as_ref().is_some_and(|loaded| loaded.config.store.url.is_some());
    let remedy = if is_copy {
        MENDING_COPY
    } else {
        "`cairn store verify` shows all damage; with the daemon stopped, --quarantine removes what is damaged and continues"
    };
    Finding::failed("state", found, remedy)
}

fn of_store(error: StoreError, x: &mut Examination) -> Vec<Finding> {
    if let StoreError::Damaged { .. } | StoreError::View { .. } = &error {
        return vec![damaged(error.to_string(), x)];
    }
    of_failure(Failure::of_store(error))
}

fn of_failure(failure: Failure) -> Vec<Finding> {
    match failure {
        Failure::Said { message, hint, .. } => vec![Finding::failed("state", message, hint)],
        Failure::Silent(_) | Failure::OutputClosed => Vec::new(),
    }
}

fn of_call(error: CallError) -> Finding {
    if let CallError::Api { body, .. } = &error
        && body.error.code == CHANGING
    {
        return Finding::warning("state", &body.error.message, &body.error.hint);
    }
    let (found, remedy) = match error {
        CallError::Api { body, .. } => (body.error.message, body.error.hint),
        CallError::Broken(why) => (
            format!("a daemon runs but did not answer: {why}"),
            "look at its log; `systemctl restart cairn` restarts it".to_owned(),
        ),
    };
    Finding::failed("state", found, remedy)
}

/// Reads what later checks need. The store must be undamaged.
async fn open_and_read(connector: &Connector, x: &mut Examination) {
    let reader = Reader::open(&connector.loaded, &connector.state, &x.linked).await;
    // If it cannot be opened, later checks report that their data is unknown.
    let Ok(reader) = reader else { return };
    read(&Client::Embedded(reader.router()), x).await;
    reader.close().await;
}

async fn read(client: &Client, x: &mut Examination) {
    x.last_at = client.get::<StatusRecord>("/v1/status").await.ok().and_then(|status| status.last_at);
    x.servers = client.get::<Vec<ServerRecord>>("/v1/mcp").await.ok();
    x.tools = client.get("/v1/tools").await.ok();
}
