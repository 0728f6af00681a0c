//! `cairn reload`.

use axum::http::{Method, StatusCode};
use clap::Args;
use serde_json::Value;

use super::client::CallError;
use super::connect::Surroundings;
use super::failure::Failure;
use super::global::Global;
use super::{exit, out};
use crate::reload::{Change, Reloaded};

/// Arguments of `reload`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn reload
  cairn reload --json | jq .needs_restart

Thresholds, prompts, allow lists, chains of models, limits and the log level
change at once, without dropping a connection, a turn or a run. What needs a
restart is named. A file that is wrong changes nothing: exit code 2. SIGHUP
does the same and reports to the log; `watch = true` does it whenever the file
changes.")]
pub(crate) struct ReloadArgs {}

/// `cairn reload`.
pub(crate) async fn reload(global: Global, _args: ReloadArgs) -> Result<(), Failure> {
    // The daemon reads the file, and says what is wrong with it.
    let surroundings = Surroundings::without_config(&global)?;
    let Some(client) = surroundings.running().await else {
        return Err(Failure::failed(
            "no daemon runs here",
            "`cairn run` starts one; it reads the configuration as it starts. --state names another state folder",
        ));
    };
    let answer = client.call::<Reloaded>(Method::POST, "/v1/reload", None::<&()>).await;
    let reloaded = match answer {
        Ok((_, reloaded)) => reloaded,
        Err(CallError::Api { status: StatusCode::UNPROCESSABLE_ENTITY, body, .. }) => {
            return Err(Failure::new(exit::USAGE, body.error.message, body.error.hint));
        }
        Err(error) => return Err(error.into()),
    };
    if global.json {
        return out::json(&reloaded);
    }
    for warning in &reloaded.warnings {
        out::note(&format!("warning: {warning}"));
    }
    if reloaded.changed.is_empty() {
        out::line("nothing is different")?;
    }
    for change in &reloaded.changed {
        out::line(&told(change))?;
    }
    if !reloaded.needs_restart.is_empty() {
        out::line("only after a restart:")?;
        for change in &reloaded.needs_restart {
            out::line(&format!("  {}", told(change)))?;
        }
    }
    Ok(())
}

fn told(change: &Change) -> String {
    let shown = |value: &Value| match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    format!("{}: {} -> {}", change.key, shown(&change.from), shown(&change.to))
}
