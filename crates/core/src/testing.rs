//! What unit tests are made of.

pub(crate) use cairn_types::testing::{author, entry, memory, said, source};

use crate::agent::{AgentSettings, WindowSize, WindowSource};

pub(crate) fn agent(window_tokens: u64, output_reserve_tokens: u64) -> AgentSettings {
    AgentSettings {
        id: "main".into(),
        system_prompt: "You are a careful assistant.".to_owned(),
        compactor_prompt: "Summarise the transcript.".to_owned(),
        window: WindowSize { window_tokens, output_reserve_tokens, source: WindowSource::Agent },
        growth: None,
        compaction: crate::settings::CompactionSettings::default(),
        pruning: crate::settings::PruningSettings::default(),
        result_guard: crate::settings::ResultGuardSettings::default(),
        window_guard: crate::settings::WindowGuard::default(),
        engine: crate::engine::STANDARD.to_owned(),
        model: "fake".to_owned(),
        cache_ttl_secs: 300,
        tools: cairn_types::tool::defs::ToolDefs::default(),
        recall_limit: 0,
        quote_tokens: 0,
        memory: crate::settings::MemorySettings::default(),
        trust: crate::trust::TrustSettings::default(),
        max_rounds: 8,
        mid_turn_messages: true,
        timezone: "UTC".to_owned(),
        languages: cairn_types::texts::Languages::default(),
    }
}
