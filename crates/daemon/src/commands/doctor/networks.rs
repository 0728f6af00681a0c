//! The bots on chat networks: tokens, intents, rights and webhooks; of bridges whether they are connected.

use std::time::Duration;

use cairn_platforms::checkup::{Checked, Grade};
use futures::future::join_all;
use serde_json::Value;
use tokio::time::timeout;

use crate::commands::doctor::report::Finding;
use crate::commands::doctor::{Examination, problem_of};
use cairn_config::{Bot, Loaded, NetworkKind};
use cairn_server::parts::networks::checkup;

/// A checkup makes several calls. Its time limit is this many times the limit per answer.
const CALLS: u32 = 6;

/// Checks all bots concurrently.
pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Some(loaded) = &x.loaded else { return Vec::new() };
    let bots: Vec<_> = loaded.config.bots().collect();
    if bots.is_empty() {
        return vec![Finding::skipped(
            "platforms",
            "neither [discord] nor [telegram] nor [[bridges]] is configured",
        )];
    }
    let bridges: Vec<_> =
        bots.iter().filter(|bot| bot.kind == NetworkKind::Bridge && bot.network.enabled).collect();
    let links = if bridges.is_empty() { Vec::new() } else { links(x, &bridges).await };
    let asked = bots.into_iter().map(|bot| one(loaded, bot, x.offline, x.limit));
    join_all(asked).await.into_iter().flatten().chain(links).collect()
}

/// Whether bridges are connected to the daemon that runs, if one does.
async fn links(x: &Examination, bridges: &[&Bot<'_>]) -> Vec<Finding> {
    let asked = async {
        let client = x.connector().ok()?.running().await.ok()??;
        client.get::<Value>("/v1/status").await.ok()
    };
    let Some(status) = timeout(x.limit, asked).await.ok().flatten() else { return Vec::new() };
    let platforms = status["platforms"].as_array().cloned().unwrap_or_default();
    let found = bridges.iter().filter_map(|bot| {
        let platform = bot.platform();
        let link = platforms.iter().find(|link| link["platform"] == platform.as_str())?;
        if link["state"] == "connected" {
            let since = link["connected_since"].as_str().unwrap_or("a while");
            return Some(Finding::ok(&platform, format!("the bridge is connected since {since}")));
        }
        let reason = link["reason"].as_str().unwrap_or("the bridge is not connected").to_owned();
        Some(Finding::warning(&platform, reason, "start the bridge; its own log says why it cannot connect"))
    });
    found.collect()
}

/// Checks a bot. `limit`: longest wait for an answer.
pub(super) async fn one(loaded: &Loaded, bot: Bot<'_>, offline: bool, limit: Duration) -> Vec<Finding> {
    let (platform, table) = (bot.platform(), bot.table());
    let check = platform.as_str();
    if !bot.network.enabled {
        return vec![Finding::skipped(check, "disabled by `enabled = false`")];
    }
    let Some(token) = loaded.token(check) else {
        let remedy = "set `token_env` or `token_file`";
        let missing = loaded.token_problem(check).map(|problem| problem_of(check, problem));
        return vec![missing.unwrap_or_else(|| Finding::failed(check, "the bot has no token", remedy))];
    };
    if offline {
        return vec![Finding::skipped(check, "not checked (--offline)")];
    }
    let limit = limit * CALLS;
    match timeout(limit, checkup(&loaded.config, bot, token.clone())).await {
        Ok(Ok(checked)) => checked.into_iter().map(|checked| finding(check, checked)).collect(),
        Ok(Err(bad)) => vec![Finding::failed(check, bad.to_string(), format!("correct {table}"))],
        Err(_) => vec![Finding::failed(
            check,
            format!("no answer within {} s", limit.as_secs()),
            format!("check the network, and `api_url` of {table}"),
        )],
    }
}

fn finding(check: &str, checked: Checked) -> Finding {
    let finding = match checked.grade {
        Grade::Fine => Finding::ok(check, checked.found),
        Grade::Doubtful => Finding::warning(check, checked.found, checked.remedy),
        Grade::Bad => Finding::failed(check, checked.found, checked.remedy),
    };
    Finding { link: checked.link, ..finding }
}
