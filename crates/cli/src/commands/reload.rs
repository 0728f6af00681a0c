//! `cairn reload`.

use axum::http::StatusCode;
use clap::Args;
use serde_json::{Value, json};

use crate::args::Global;
use crate::client::CallError;
use crate::connect::Connector;
use crate::failure::{Failure, exit};
use crate::out;
use cairn_api::records::{KeyChange, Reloaded};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn reload
  cairn reload --json | jq .needs_restart

Thresholds, prompts, allow-lists, model chains, limits, new tool servers and
the log level change immediately, without dropping a connection, a turn or a
run. Changes that need a restart are listed. An invalid file changes nothing:
exit code 2. SIGHUP does the same and reports to the log. With `watch = true`,
it happens whenever the file changes.")]
pub struct ReloadArgs {}

pub async fn reload(global: Global, _args: ReloadArgs) -> Result<(), Failure> {
    // The daemon reads the file, and says what is wrong with it.
    let Some(client) = Connector::without_config(&global)?.running().await? else {
        return Err(Failure::failed(
            "no daemon runs here",
            "start one with `cairn run`; use --state for another state folder",
        ));
    };
    let reloaded: Reloaded = match client.post("/v1/reload", &json!({})).await {
        Ok(reloaded) => reloaded,
        Err(CallError::Api { status: StatusCode::UNPROCESSABLE_ENTITY, body, .. }) => {
            return Err(Failure::new(exit::USAGE, body.error.message, body.error.hint));
        }
        Err(error) => return Err(error.into()),
    };
    if !global.json {
        reloaded.warnings.iter().for_each(|warning| out::note(&format!("warning: {warning}")));
    }
    out::record(global.json, &reloaded, changes)
}

fn changes(reloaded: &Reloaded) -> String {
    let mut lines: Vec<String> = reloaded.changed.iter().map(change).collect();
    if lines.is_empty() {
        lines.push("nothing changed".to_owned());
    }
    if !reloaded.needs_restart.is_empty() {
        lines.push("only after a restart:".to_owned());
        lines.extend(reloaded.needs_restart.iter().map(|one| format!("  {}", change(one))));
    }
    lines.join("\n") + "\n"
}

fn change(change: &KeyChange) -> String {
    let shown = |value: &Value| match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    format!("{}: {} -> {}", change.key, shown(&change.from), shown(&change.to))
}
