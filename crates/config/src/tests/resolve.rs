//! What an agent ends up with.

use cairn_core::agent::WindowSource;
use cairn_types::memory::Share;
use cairn_types::tool::defs::ToolDef;
use rstest::rstest;

use super::fine;
use crate::{LogFormat, Provider};

const MODEL: &str = "[[models]]\nid = \"main\"\nmodel = \"any\"\n";

#[test]
fn an_agent_takes_each_key_by_itself_from_the_defaults() {
    let text = "[defaults]\nrecall_limit = 3\nmax_rounds = 2\ntimezone = \"Europe/Paris\"\n\
                [defaults.compaction]\nbackground_threshold = 0.5\nfan_out = 3\n\
                [defaults.memory]\nshare = \"chat\"\n\
                [[agents]]\nid = \"one\"\n[[agents]]\nid = \"two\"\nmax_rounds = 5\n\
                [agents.compaction]\nbackground_threshold = 0.6\n[agents.memory]\nshare = \"agent\"\n";
    let config = fine(text).config;
    let one = config.agent("one").unwrap();
    assert_eq!((one.recall_limit, one.max_rounds, one.timezone.as_str()), (3, 2, "Europe/Paris"));
    assert_eq!((one.compaction.background_threshold, one.compaction.fan_out), (0.5, 3));
    let two = config.agent("two").unwrap();
    assert_eq!((two.recall_limit, two.max_rounds), (3, 5));
    assert_eq!((one.memory.share, two.memory.share), (Share::Chat, Share::Agent));
    assert_eq!((two.compaction.background_threshold, two.compaction.fan_out), (0.6, 3));
    assert_eq!(two.compaction.aggressive_threshold, 0.85);
    assert_eq!(config.default_agent().as_str(), "one");
}

#[rstest]
#[case::nothing("", "", "", None, 128_000, WindowSource::Defaults)]
#[case::server("", "", "", Some(16_000), 16_000, WindowSource::Server)]
#[case::defaults("context_window = 8000", "", "", None, 8_000, WindowSource::Defaults)]
#[case::model(
    "context_window = 8000",
    "context_window = 32000",
    "",
    Some(16_000),
    32_000,
    WindowSource::Model
)]
#[case::smaller_agent(
    "",
    "context_window = 32000",
    "context_window = 9000",
    None,
    9_000,
    WindowSource::Agent
)]
#[case::smaller_model(
    "",
    "context_window = 9000",
    "context_window = 32000",
    None,
    9_000,
    WindowSource::Model
)]
fn the_window_is_the_smallest_set_else_the_servers_else_the_default(
    #[case] defaults: &str,
    #[case] model: &str,
    #[case] agent: &str,
    #[case] server: Option<u64>,
    #[case] expected: u64,
    #[case] source: WindowSource,
) {
    let text = format!(
        "[defaults]\n{defaults}\n{MODEL}{model}\n[[agents]]\nid = \"a\"\nmodels = [\"main\"]\n{agent}\n"
    );
    let config = fine(&text).config;
    let settings = config.settings(config.agent("a").unwrap(), "main", server, Vec::new());
    assert_eq!((settings.window.window_tokens, settings.window.source), (expected, source));
    assert_eq!(settings.window.output_reserve_tokens, (expected / 4).min(32_000));
}

#[test]
fn a_model_that_takes_no_tools_is_given_none() {
    let tool = ToolDef { name: "t".into(), description: String::new(), parameters: serde_json::json!({}) };
    let agent = "[[agents]]\nid = \"a\"\nmodels = [\"main\"]\n";
    for (line, expected) in [("tools = true\n", 1), ("tools = false\n", 0)] {
        let config = fine(&format!("{MODEL}{line}{agent}")).config;
        let settings = config.settings(config.agent("a").unwrap(), "main", None, vec![tool.clone()]);
        assert_eq!(settings.tools.len(), expected, "{line}");
    }
}

#[rstest]
#[case::openai("", "https://api.openai.com/v1")]
#[case::anthropic("provider = \"anthropic\"", "https://api.anthropic.com/v1")]
#[case::anthropic_elsewhere(
    "provider = \"anthropic\"\nbase_url = \"http://127.0.0.1:1/v1/\"",
    "http://127.0.0.1:1/v1"
)]
#[case::offline("provider = \"offline\"", "")]
fn a_model_without_an_address_is_at_its_providers(#[case] lines: &str, #[case] expected: &str) {
    let config = fine(&format!("[[models]]\nid = \"m\"\nmodel = \"x\"\n{lines}")).config;
    assert_eq!(config.model("m").unwrap().base_url, expected);
}

#[test]
fn a_model_is_read_with_all_that_is_said_of_it() {
    let text = "[[models]]\nid = \"m\"\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:8080/v1/\"\nmodel = \"any\"\n\
                context_window = 32000\nmax_output_tokens = 1024\nimages = true\nstream = false\n\
                [log]\nformat = \"json\"\n";
    let config = fine(text).config;
    let model = config.model("m").unwrap();
    assert_eq!((model.provider, model.base_url.as_str()), (Provider::Openai, "http://127.0.0.1:8080/v1"));
    assert_eq!((model.context_window, model.max_output_tokens), (Some(32_000), Some(1024)));
    assert_eq!((model.images, model.stream), (true, false));
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(
        config.model("offline").unwrap().provider,
        Provider::Offline,
        "the embedded model is always there"
    );
}

#[test]
fn a_chain_is_taken_in_its_order_without_a_warning() {
    let text = format!("{MODEL}[[agents]]\nid = \"a\"\nmodels = [\"main\", \"offline\"]\n");
    let loaded = fine(&text);
    assert_eq!(loaded.config.agents[0].chain(), ["main", "offline"]);
    assert_eq!(loaded.warnings, Vec::<String>::new());
}

#[test]
fn a_limit_of_a_run_below_the_default_of_a_call_is_fine() {
    let config = fine("[defaults.compaction]\ntimeout_secs = 60\n").config;
    assert_eq!(config.agents[0].compaction.timeout_secs, 60);
}

#[test]
fn a_small_window_that_is_set_and_a_model_without_a_price_are_worth_a_warning() {
    let models = "[[models]]\nid = \"a\"\nmodel = \"x\"\ncontext_window = 31999\ninput_price = 1.0\n\
                  [[models]]\nid = \"b\"\nmodel = \"x\"\ncontext_window = 32000\n";
    let text = format!(
        "{models}[limits]\nspend_per_day = 2.0\n[[agents]]\nid = \"main\"\nmodels = [\"a\", \"b\"]\n"
    );
    let warnings = fine(&text).warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("the window of `a` is small: 31999 tokens (set by the model)"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("does not count what `b` cost"), "{warnings:?}");
}

#[test]
fn a_model_that_no_agent_names_is_worth_a_warning() {
    let warnings = fine(MODEL).warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("answers offline") && warnings[0].contains("models = [\"main\"]"),
        "{warnings:?}"
    );
}

#[rstest]
#[case::on_this_machine("http://127.0.0.1:11434/v1", "", "", None, 8_192, WindowSource::Assumed)]
#[case::in_the_network("http://192.168.0.7:8080/v1", "", "", None, 8_192, WindowSource::Assumed)]
#[case::public("https://api.example.com/v1", "", "", None, 128_000, WindowSource::Defaults)]
#[case::listed("http://127.0.0.1:11434/v1", "", "", Some(4_096), 4_096, WindowSource::Server)]
#[case::set("http://127.0.0.1:11434/v1", "", "context_window = 32000", None, 32_000, WindowSource::Model)]
#[case::by_default(
    "http://127.0.0.1:11434/v1",
    "context_window = 64000",
    "",
    None,
    64_000,
    WindowSource::Defaults
)]
fn a_window_of_which_nothing_is_known_is_small_where_the_server_is_nearby(
    #[case] base_url: &str,
    #[case] defaults: &str,
    #[case] model: &str,
    #[case] server: Option<u64>,
    #[case] expected: u64,
    #[case] source: WindowSource,
) {
    let text = format!(
        "[defaults]\n{defaults}\n[[models]]\nid = \"main\"\nbase_url = \"{base_url}\"\nmodel = \"m\"\n{model}\n\
         [[agents]]\nid = \"a\"\nmodels = [\"main\"]\n"
    );
    let config = fine(&text).config;
    let settings = config.settings(config.agent("a").unwrap(), "main", server, Vec::new());
    assert_eq!((settings.window.window_tokens, settings.window.source), (expected, source));
    assert_eq!(settings.growth.is_some(), source == WindowSource::Assumed);
}
