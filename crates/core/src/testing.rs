//! What unit tests are made of.

use std::sync::Arc;

use jiff::Timestamp;

use crate::agent::{AgentSettings, WindowSize, WindowSource};
use crate::ids::{Generation, Seq};
use crate::memory::{Memory, MemoryKind, Source};
use crate::message::{Author, Entry, Part, Role};

pub(crate) fn author(id: &str, name: &str) -> Author {
    Author { id: id.to_owned(), name: name.to_owned() }
}

/// An entry of one part, by Ann where it is a person's.
pub(crate) fn entry(role: Role, text: &str) -> Entry {
    let at = "2026-02-02T02:40:00Z".parse().unwrap();
    let mut entry = Entry::new(Seq(1), &"t1".into(), Generation(1), at, role);
    entry.author = (role == Role::User).then(|| author("local/ann", "Ann"));
    entry.parts = vec![Part::text(text)];
    entry.tokens = crate::message::entry_tokens(&entry);
    entry
}

/// What people say, and after `bot: ` the model.
pub(crate) fn said(texts: &[&str]) -> Vec<Arc<Entry>> {
    let of = |text: &&str| match text.strip_prefix("bot: ") {
        Some(text) => Arc::new(entry(Role::Assistant, text)),
        None => Arc::new(entry(Role::User, text)),
    };
    texts.iter().map(of).collect()
}

pub(crate) fn memory(scope: &str, text: &str) -> Memory {
    Memory {
        id: "m1".into(),
        agent: "main".into(),
        scope: scope.parse().unwrap(),
        kind: MemoryKind::Fact,
        text: text.to_owned(),
        subject: None,
        importance: 0.5,
        sightings: 1,
        source: source(None, "gpt"),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        recalled_at: None,
        uses: 0,
        superseded_by: None,
    }
}

pub(crate) fn source(channel: Option<&str>, model: &str) -> Source {
    Source {
        channel: channel.map(|channel| channel.parse().unwrap()),
        from_seq: None,
        to_seq: None,
        summary: None,
        model: model.to_owned(),
        by: None,
        said_at: None,
    }
}

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
        tools: crate::tool_defs::ToolDefs::default(),
        recall_limit: 0,
        memory: crate::settings::MemorySettings::default(),
        trust: crate::trust::TrustSettings::default(),
        max_rounds: 8,
        timezone: "UTC".to_owned(),
    }
}
