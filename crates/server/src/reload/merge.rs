//! The configuration after a reload: the new one, except for settings that need a restart. Every table is handled here;
//! in a live table all keys change at once, except those listed.

use std::sync::Arc;

use cairn_types::ids::AgentId;

use cairn_config::{AgentConfig, Bots, Config, Limits, Loaded, Log, McpConfig, Network};

/// Replaces the parts of `new` that need a restart by those of `old`. Agents missing from the new file are kept with
/// their models until the next start, because they may have conversations.
pub fn merged(old: &Arc<Loaded>, new: Loaded) -> Loaded {
    let holds = old.config.clone();
    let mut merged = new.with_secrets_of(old);
    let new = merged.config;
    merged.config = Config {
        watch: new.watch,
        defaults: AgentConfig { engine: holds.defaults.engine, ..new.defaults },
        models: new.models,
        agents: new.agents,
        mcp: servers(holds.mcp, new.mcp),
        fetch: holds.fetch,
        search: holds.search,
        schedules: new.schedules,
        discord: bots(holds.discord, &new.discord),
        telegram: bots(holds.telegram, &new.telegram),
        bridges: bots(holds.bridges, &new.bridges),
        transcribe: holds.transcribe,
        speak: holds.speak,
        commands: new.commands,
        limits: Limits {
            admitted_messages: holds.limits.admitted_messages,
            max_message_bytes: holds.limits.max_message_bytes,
            ..new.limits
        },
        log: Log { level: new.log.level, ..holds.log },
        admin: holds.admin,
        openai_api: holds.openai_api,
        store: holds.store,
        embeddings: holds.embeddings,
        rerank: holds.rerank,
        retention: new.retention,
        language_files: new.language_files,
    };
    keep_agents(&old.config, &mut merged.config);
    merged
}

/// Keeps the servers that are there as they are, and adds new ones.
fn servers(old: Vec<McpConfig>, new: Vec<McpConfig>) -> Vec<McpConfig> {
    let is_new = |server: &McpConfig| old.iter().all(|before| before.id != server.id);
    let added: Vec<McpConfig> = new.into_iter().filter(is_new).collect();
    old.into_iter().chain(added).collect()
}

/// Keeps the running bots, with their new settings where possible.
fn bots(old: Bots, new: &Bots) -> Bots {
    old.map(|old| match new.iter().find(|new| new.name == old.name) {
        None => old,
        Some(new) => Network {
            name: old.name,
            enabled: old.enabled,
            token_env: old.token_env,
            token_file: old.token_file,
            listen: old.listen,
            api_url: old.api_url,
            gateway_url: old.gateway_url,
            cdn_url: old.cdn_url,
            webhook_url: old.webhook_url,
            webhook_listen: old.webhook_listen,
            shards: old.shards,
            ..new.clone()
        },
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
    let needed = |id: &str| {
        let asks = |agent: &cairn_config::AgentConfig| {
            agent.chain().contains(&id) || agent.compaction.model.as_deref() == Some(id)
        };
        config.agents.iter().any(asks)
    };
    let gone = old.models.iter().filter(|model| config.model(&model.id).is_none() && needed(&model.id));
    let gone: Vec<_> = gone.cloned().collect();
    config.models.extend(gone);
    // The default agent must stay the first.
    config.agents.sort_by_key(|agent| agent.id != first);
}
