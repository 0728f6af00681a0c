//! Parts of the status: the store, the agents, the day's cost.

use cairn_actors::{AgentRuntime, ModelStatus, Runtime};
use cairn_api::records::{AgentStatus, ChainStatus, EmbeddedStatus, SpendStatus, StoreStatus};
use cairn_config::Config;
use cairn_core::chain::ModelState;
use cairn_store::StoreStats;

/// The cost of the day; `None` if no model has a price.
pub fn spend_status(runtime: &Runtime, config: &Config) -> Option<SpendStatus> {
    let cap = config.limits.spend_per_day;
    let per_day = (cap > 0.0).then_some(cap);
    let currency = Some(config.limits.currency.clone()).filter(|currency| !currency.is_empty());
    (!config.prices().is_empty()).then(|| SpendStatus { today: runtime.spent_today(), per_day, currency })
}

/// The status of a store.
pub fn store_status(stats: &StoreStats, error: Option<String>) -> StoreStatus {
    StoreStatus {
        journal_bytes: stats.journal_bytes,
        segments: stats.segments,
        views_bytes: stats.views_bytes,
        last: stats.last_n,
        applied: stats.applied_n,
        indexed: stats.indexed_n,
        embedded: stats.embedded.as_ref().map(|of| EmbeddedStatus {
            model: of.model.clone(),
            entries: of.entries,
            upto: of.upto,
        }),
        error: error.or_else(|| damage_told(&stats.damage)),
    }
}

/// Damage found by the background check, or records that a copy has and its database lost, on one line.
fn damage_told(damage: &[String]) -> Option<String> {
    let first = damage.first()?;
    let more = damage.len() - 1;
    Some(if more == 0 {
        first.clone()
    } else {
        format!("{first}; and {more} more, which `/v1/health` names")
    })
}

/// The status of the agents. Without a runtime the state of their models is unknown.
pub fn agent_statuses(runtimes: &[AgentRuntime], runtime: Option<&Runtime>) -> Vec<AgentStatus> {
    let agents = runtimes.iter().map(|agent| {
        let models = runtime.map_or_else(|| agent.models_at_rest(), |runtime| runtime.models(agent));
        let chain: Vec<_> = models.into_iter().map(chain_status).collect();
        let asked = |one: &&ChainStatus| matches!(one.state, ModelState::Answers | ModelState::Down);
        let first = agent.first_settings();
        let (model, window_tokens) = match chain.iter().find(asked) {
            Some(one) => (one.model.clone(), one.window_tokens),
            None => (first.model.clone(), first.window.window_tokens),
        };
        AgentStatus { id: agent.id.clone(), model, window_tokens, chain }
    });
    agents.collect()
}

fn chain_status(model: ModelStatus) -> ChainStatus {
    ChainStatus {
        model: model.model,
        window_tokens: model.window.window_tokens,
        window_source: model.window.source,
        state: model.state,
        until: model.until,
        why: model.why.or_else(|| Some(model.trouble.as_ref()?.message.clone())),
        error: model.trouble.map(|trouble| trouble.code.to_owned()),
    }
}
