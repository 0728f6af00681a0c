//! The configuration that holds after a reload: the new one, save what cannot change while the daemon runs.

use std::sync::Arc;

use cairn_core::ids::AgentId;

use crate::config::{Config, Limits, Loaded, Log, Network};

/// Puts the parts that cannot change live from the one that holds into the new one. Agents that are gone from the file
/// stay, with their models, until the next start: conversations of theirs may be under way.
pub fn merged(old: &Arc<Loaded>, new: Loaded) -> Loaded {
    let holds = &old.config;
    let mut merged = new.with_secrets_of(old);
    let config = &mut merged.config;
    config.mcp.clone_from(&holds.mcp);
    config.fetch.clone_from(&holds.fetch);
    config.store.clone_from(&holds.store);
    config.admin.clone_from(&holds.admin);
    config.log = Log { level: std::mem::take(&mut config.log.level), ..holds.log.clone() };
    config.limits = Limits {
        admitted_messages: holds.limits.admitted_messages,
        max_message_bytes: holds.limits.max_message_bytes,
        ..config.limits.clone()
    };
    config.discord = network(holds.discord.as_ref(), config.discord.take());
    config.telegram = network(holds.telegram.as_ref(), config.telegram.take());
    keep_agents(holds, config);
    merged
}

fn network(old: Option<&Network>, new: Option<Network>) -> Option<Network> {
    let old = old?;
    let new = new.unwrap_or_else(|| old.clone());
    Some(Network {
        enabled: old.enabled,
        token_env: old.token_env.clone(),
        token_file: old.token_file.clone(),
        api_url: old.api_url.clone(),
        gateway_url: old.gateway_url.clone(),
        ..new
    })
}

fn keep_agents(old: &Config, config: &mut Config) {
    let first: AgentId = old.default_agent();
    for before in &old.agents {
        match config.agents.iter_mut().find(|agent| agent.id == before.id) {
            Some(agent) => agent.engine.clone_from(&before.engine),
            None => config.agents.push(before.clone()),
        }
    }
    let needed = |id: &str| config.agents.iter().any(|agent| agent.chain().contains(&id));
    let gone = old.models.iter().filter(|model| config.model(&model.id).is_none() && needed(&model.id));
    let gone: Vec<_> = gone.cloned().collect();
    config.models.extend(gone);
    // The default agent stays the first.
    config.agents.sort_by_key(|agent| agent.id != first);
}
