//! Makes the clients of configured models.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::ports::{ChatModel, Search};
use cairn_llm::{Anthropic, BadModel, Offline, OpenAi, ServerOptions, Timeouts};

use crate::config::{Loaded, ModelConfig, Provider};

/// The client of a model; `None` stands for the embedded one, which looks things up by `search`. Nothing is asked of any
/// server.
///
/// # Errors
/// The model's address or key cannot be used.
pub(crate) fn client(
    loaded: &Loaded,
    model: Option<&ModelConfig>,
    search: &Arc<dyn Search>,
) -> Result<Arc<dyn ChatModel>, BadModel> {
    let Some(model) = model else { return Ok(Arc::new(Offline::new(Arc::clone(search)))) };
    Ok(match model.provider {
        Provider::Openai => Arc::new(OpenAi::new(options(loaded, model))?),
        Provider::Anthropic => Arc::new(Anthropic::new(options(loaded, model))?),
        Provider::Offline => Arc::new(Offline::new(Arc::clone(search))),
    })
}

/// How a model behind a server is asked, with its key.
pub(crate) fn options(loaded: &Loaded, model: &ModelConfig) -> ServerOptions {
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
        ..ServerOptions::new(&*model.id, &*model.base_url, &*model.model)
    }
}
