//! Creates the clients of configured models.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::store_port::Store as _;
use cairn_llm::{Anthropic, BadModel, HistorySearch, Offline, OpenAi, ServerOptions, Timeouts};
use cairn_store::Store;
use cairn_types::ports::ChatModel;
use futures::FutureExt as _;
use futures::future::ready;

use cairn_config::{Api, Loaded, ModelConfig, Provider};

/// The offline model's search, in a store.
pub fn search_in(store: &Store) -> HistorySearch {
    let store = store.clone();
    Arc::new(move |query| {
        let store = store.clone();
        async move { store.search(query).await }.boxed()
    })
}

/// The offline model's search without a store; finds nothing.
pub fn search_nowhere() -> HistorySearch {
    Arc::new(|_| ready(Ok(Vec::new())).boxed())
}

/// The client of a model; `None`: the embedded offline model, which uses `search`. No server is asked.
///
/// # Errors
/// The model's address or key cannot be used.
pub fn client(
    loaded: &Loaded,
    model: Option<&ModelConfig>,
    search: &HistorySearch,
) -> Result<Arc<dyn ChatModel>, BadModel> {
    let Some(model) = model else { return Ok(Arc::new(Offline::new(Arc::clone(search)))) };
    Ok(match model.provider {
        Provider::Openai => Arc::new(openai(model, options(loaded, model))?),
        Provider::Anthropic => Arc::new(Anthropic::new(options(loaded, model))?),
        Provider::Offline => Arc::new(Offline::new(Arc::clone(search)).speaking_at(model.words_per_second)),
    })
}

/// The client of a model with `provider = "openai"`.
///
/// # Errors
/// The model's address or key cannot be used.
pub fn openai(model: &ModelConfig, options: ServerOptions) -> Result<OpenAi, BadModel> {
    match model.api() {
        Api::Responses => OpenAi::with_responses(options),
        Api::Chat => OpenAi::new(options),
    }
}

/// Checks the models of all agents, as far as possible without asking a server.
///
/// # Errors
/// The model's address or key cannot be used.
pub fn check(loaded: &Loaded) -> Result<(), BadModel> {
    let mut asked = loaded
        .config
        .agents
        .iter()
        .flat_map(|agent| agent.chain().into_iter().chain(agent.compaction.model.as_deref()));
    let search = search_nowhere();
    asked.try_for_each(|id| client(loaded, loaded.config.model(id), &search).map(drop))
}

/// The request options for a model behind a server, with its key.
pub fn options(loaded: &Loaded, model: &ModelConfig) -> ServerOptions {
    ServerOptions {
        api_key: loaded.api_key(&model.id).cloned(),
        context_window: model.context_window,
        max_output_tokens: model.max_output_tokens,
        images: model.images,
        tools: model.tools,
        stream: model.stream,
        timeouts: Timeouts {
            first: Duration::from_secs(model.first_timeout_secs),
            idle: Duration::from_secs(model.idle_timeout_secs),
            ..Timeouts::default()
        },
        cache_ttl: Duration::from_secs(model.cache_ttl_secs),
        cache_breakpoints: model.cache_breakpoints,
        extra_body: model.request_fields(),
        extra_headers: loaded.headers(model),
        ..ServerOptions::new(&*model.id, &*model.base_url, &*model.model)
    }
}
