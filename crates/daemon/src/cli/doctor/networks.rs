//! The bots on chat networks: token, intents, rights, what is in the way of their updates.

use cairn_platforms::checkup::{Checked, Grade};
use futures::future::join_all;
use tokio::time::timeout;

use super::report::Finding;
use super::{Examination, problem_of};
use crate::config::{Loaded, Network, NetworkKind};
use crate::networks::checkup;

/// A checkup is a handful of calls, each of which may take so long.
const CALLS: u32 = 6;

/// Asks both networks at the same time.
pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Some(loaded) = &x.loaded else { return Vec::new() };
    let used = |kind| loaded.config.network(kind).map(|network| (kind, network));
    let networks: Vec<_> = NetworkKind::ALL.into_iter().filter_map(used).collect();
    if networks.is_empty() {
        return vec![Finding::skipped("platforms", "neither [discord] nor [telegram] is configured")];
    }
    let asked = networks.into_iter().map(|(kind, network)| one(loaded, kind, network, x));
    join_all(asked).await.into_iter().flatten().collect()
}

async fn one(loaded: &Loaded, kind: NetworkKind, network: &Network, x: &Examination) -> Vec<Finding> {
    let check = kind.name();
    if !network.enabled {
        return vec![Finding::skipped(check, "switched off by `enabled = false`")];
    }
    let Some(token) = loaded.token(kind) else {
        let error = loaded.check_tokens().err();
        let problems = error.map(|error| error.problems).unwrap_or_default();
        let mine = |problem: &&crate::config::Problem| problem.message.contains(&format!("[{check}]"));
        let missing: Vec<_> =
            problems.iter().filter(mine).map(|problem| problem_of(check, problem)).collect();
        if missing.is_empty() {
            let remedy = "name it with `token_env` or `token_file`";
            return vec![Finding::failed(check, "the bot has no token", remedy)];
        }
        return missing;
    };
    if x.offline {
        return vec![Finding::skipped(check, "not checked (--offline)")];
    }
    let limit = x.limit * CALLS;
    match timeout(limit, checkup(&loaded.config, kind, network, token.clone())).await {
        Ok(Ok(checked)) => checked.into_iter().map(|checked| finding(check, checked)).collect(),
        Ok(Err(bad)) => vec![Finding::failed(check, bad.to_string(), format!("correct [{check}]"))],
        Err(_) => vec![Finding::failed(
            check,
            format!("no answer within {} s", limit.as_secs()),
            format!("is the network up, and `api_url` of [{check}] right?"),
        )],
    }
}

fn finding(check: &str, checked: Checked) -> Finding {
    match checked.grade {
        Grade::Fine => Finding::ok(check, checked.found),
        Grade::Doubtful => Finding::warning(check, checked.found, checked.remedy),
        Grade::Bad => Finding::failed(check, checked.found, checked.remedy),
    }
}
