//! The table and the lines to paste.

use cairn_core::agent::{AgentSettings, WindowSize};
use cairn_core::tune::{
    Billing, ConversationSizes, ScriptTurn, TuneCandidate, TuneOutcome, TuneStep, presets, simulate,
};

use super::*;
use cairn_config::{Config, FixedEnvironment};

fn current() -> AgentSettings {
    let loaded = Config::load(None, &FixedEnvironment::new("/")).unwrap();
    let agent = loaded.config.agent("main").unwrap();
    loaded.config.settings(agent, "offline", None, Vec::new())
}

fn resize(tokens: u64) -> Option<WindowSize> {
    (tokens <= 128_000).then(|| WindowSize::resolve(Some(tokens), None, None, 128_000, None))
}

fn rows() -> Vec<(TuneCandidate, TuneOutcome)> {
    let turn = |idx: i64| ScriptTurn {
        at: jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_mins(idx),
        generation: 1,
        steps: vec![TuneStep::Message { tokens: 400 }, TuneStep::Answer { tokens: 600 }],
    };
    let script = ConversationSizes::new((0..400).map(turn).collect());
    let rows = presets(&current(), resize).into_iter().map(|candidate| {
        let outcome = simulate(&script, &candidate.settings, &Billing::anthropic(), &Runs::ASSUMED).unwrap();
        (candidate, outcome)
    });
    rows.collect()
}

#[test]
fn keys_of_a_candidate_are_read_and_checked() {
    let current = current();
    let candidate =
        candidate::parse("background_threshold=0.7, fan_out = 8,context_window=48_000", &current, resize);
    let candidate = candidate.unwrap();
    let compaction = &candidate.settings.compaction;
    assert_eq!((compaction.background_threshold, compaction.fan_out), (0.7, 8));
    assert_eq!(candidate.settings.window.window_tokens, 48_000);
    let target =
        candidate::parse("target_tokens=500,when_cold=true,identifiers=off", &current, resize).unwrap();
    assert_eq!(target.settings.compaction.target_tokens, Some(500));
    let wrong = [
        ("", "it is empty"),
        ("fan_out", "not KEY=VALUE"),
        ("fan_ot=8", "there is no key `fan_ot`"),
        ("fan_out=many", "fan_out"),
        ("fan_out=1", "2 or more"),
        ("background_threshold=0.9", "aggressive_threshold"),
        ("context_window=200000", "cannot be set here"),
        ("context_window=x", "cannot be set here"),
    ];
    for (text, expected) in wrong {
        match candidate::parse(text, &current, resize) {
            Err(bad) => {
                assert!(bad.message.contains(expected) && !bad.hint.is_empty(), "{text}: {bad:?}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn the_table_fits_eighty_columns_and_the_toml_is_a_config() {
    let rows = rows();
    let record = TuneRecord::new("a.jsonl".into(), "main".into(), "list".into(), Runs::ASSUMED, 9, &rows);
    let drawn = record.text(200, None);
    assert!(drawn.lines().all(|line| cairn_api::text::columns(line) <= 80), "{drawn}");
    let current = &rows[0].0;
    for (candidate, _) in &rows {
        let text = format!("[[agents]]\nid = \"main\"\n{}", candidate::toml(current, candidate));
        let table: toml::Table = text.parse().unwrap();
        let agent = &table["agents"][0];
        let window = agent.get("context_window").and_then(toml::Value::as_integer);
        let now = current.settings.window.window_tokens;
        assert_eq!(window.map_or(now, |tokens| tokens as u64), candidate.settings.window.window_tokens);
        let keys = agent.get("compaction").and_then(toml::Value::as_table).map_or(0, toml::Table::len);
        assert_eq!(keys == 0, candidate.settings.compaction == current.settings.compaction, "{text}");
    }
    assert_eq!(candidate::toml(current, current), "", "nothing differs from what is");
}
