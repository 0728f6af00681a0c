//! What models' servers are asked, and what is kept of their answers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use axum::Json;
use axum::http::StatusCode;
use axum::routing::get;
use cairn_types::tool::mcp::pins::Pins;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use cairn_config::FixedEnvironment;
use cairn_config::clock::SystemClock;

/// A model's server, which counts how often it is asked for its list.
struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    status: Arc<AtomicU16>,
}

impl Server {
    async fn start(model: Value) -> Self {
        let (asked, status) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU16::new(200)));
        let (counter, said) = (Arc::clone(&asked), Arc::clone(&status));
        let models = get(async move || {
            counter.fetch_add(1, Ordering::SeqCst);
            let status = StatusCode::from_u16(said.load(Ordering::SeqCst)).unwrap();
            (status, Json(json!({ "data": [model, { "id": "other" }] })))
        });
        let router = axum::Router::new().route("/v1/models", models.clone()).route("/v2/models", models);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, asked, status }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// One agent with a model of this server.
    fn config(&self) -> String {
        format!(
            "[[models]]\nid = \"one\"\nbase_url = \"http://{}/v1\"\nmodel = \"m\"\napi_key_env = \"KEY\"\n\n\
             [[agents]]\nid = \"main\"\nmodels = [\"one\"]\n",
            self.address
        )
    }
}

fn loaded(text: &str) -> Arc<Loaded> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, text).unwrap();
    let env = FixedEnvironment::new("/").with("KEY", "k").with("ANOTHER", "other").with("SAME", "k");
    Arc::new(Config::load(Some(Path::new(&file)), &env).unwrap())
}

fn agent_registry(loaded: &Arc<Loaded>) -> AgentRegistry {
    let clock = Arc::new(SystemClock);
    let tools = ToolRegistry::new(loaded, Path::new("/nowhere"), Pins::default(), Vec::new(), clock).unwrap();
    AgentRegistry::new(Live::new(Arc::clone(loaded)), models::search_nowhere(), Arc::new(tools))
}

/// The window of the first agent, and who says so.
async fn window(agent_registry: &AgentRegistry, loaded: &Arc<Loaded>) -> (u64, WindowSource) {
    let runtimes = agent_registry.runtimes_of(loaded).await.unwrap();
    let window = runtimes[0].chain().next().unwrap().settings.window;
    (window.window_tokens, window.source)
}

#[rstest]
#[case::nothing("", "", false)]
#[case::a_threshold("[[agents]]", "[defaults.compaction]\nbackground_threshold = 0.5\n\n[[agents]]", false)]
#[case::a_price("model = \"m\"", "model = \"m\"\ninput_price = 3.0", false)]
#[case::a_key_from_elsewhere("\"KEY\"", "\"SAME\"", false)]
#[case::a_key("\"KEY\"", "\"ANOTHER\"", true)]
#[case::a_name("model = \"m\"", "model = \"other\"", true)]
#[case::an_address("/v1", "/v2", true)]
#[tokio::test]
async fn a_server_is_asked_again_only_when_it_is_asked_otherwise(
    #[case] from: &str,
    #[case] to: &str,
    #[case] again: bool,
    #[values(None, Some(16_500))] listed: Option<u64>,
) {
    let server = Server::start(json!({ "id": "m", "context_length": listed })).await;
    let text = server.config();
    assert!(text.contains(from));
    let (before, after) = (loaded(&text), loaded(&text.replacen(from, to, 1)));
    let agent_registry = agent_registry(&before);
    let found = window(&agent_registry, &before).await;
    assert_eq!(found, listed.map_or((8_192, WindowSource::Assumed), |n| (n, WindowSource::Server)));
    assert_eq!(server.asked(), 1);
    let same = window(&agent_registry, &after).await == found;
    assert_eq!(server.asked(), 1 + usize::from(again));
    // The other model of the server has no window.
    assert_eq!(same, !to.contains("other\"") || listed.is_none());
    window(&agent_registry, &after).await;
    assert_eq!(server.asked(), 1 + usize::from(again), "the same configuration asks nobody");
}

#[tokio::test]
async fn a_server_that_is_in_trouble_is_asked_again() {
    for status in [503, 401, 429] {
        let server = Server::start(json!({ "id": "m", "context_length": 16_500 })).await;
        server.status.store(status, Ordering::SeqCst);
        let text = server.config();
        let before = loaded(&text);
        let agent_registry = agent_registry(&before);
        assert_eq!(window(&agent_registry, &before).await, (8_192, WindowSource::Assumed), "{status}");
        server.status.store(200, Ordering::SeqCst);
        let after = loaded(&text);
        assert_eq!(window(&agent_registry, &after).await, (16_500, WindowSource::Server), "{status}");
        assert_eq!(server.asked(), 2);
    }
}

#[tokio::test]
async fn a_server_that_did_not_answer_is_asked_until_it_does() {
    let server = Server::start(json!({ "id": "m", "context_length": 16_500 })).await;
    server.status.store(503, Ordering::SeqCst);
    let config = loaded(&server.config());
    let agent_registry = agent_registry(&config);
    assert!(!agent_registry.lacks_windows(Due::Unanswered), "nobody has asked for an agent yet");
    assert_eq!(window(&agent_registry, &config).await, (8_192, WindowSource::Assumed));
    assert!(agent_registry.lacks_windows(Due::Unanswered));
    assert!(!agent_registry.ask_again(Due::Unanswered).await, "it is in trouble still");
    server.status.store(200, Ordering::SeqCst);
    assert!(agent_registry.ask_again(Due::Unanswered).await);
    assert_eq!(window(&agent_registry, &config).await, (16_500, WindowSource::Server));
    assert!(
        !agent_registry.lacks_windows(Due::Unanswered) && !agent_registry.ask_again(Due::Unanswered).await
    );
    assert_eq!(server.asked(), 3);
}

#[tokio::test]
async fn what_was_learnt_is_kept_while_nobody_needs_it() {
    let server = Server::start(json!({ "id": "m", "context_length": 16_500 })).await;
    let text = server.config();
    let (listed, set) = (loaded(&text), loaded(&format!("{text}context_window = 20000\n")));
    let agent_registry = agent_registry(&listed);
    assert_eq!(window(&agent_registry, &listed).await, (16_500, WindowSource::Server));
    assert_eq!(window(&agent_registry, &set).await, (20_000, WindowSource::Agent));
    assert_eq!(window(&agent_registry, &loaded(&text)).await, (16_500, WindowSource::Server));
    assert_eq!(server.asked(), 1);
}
