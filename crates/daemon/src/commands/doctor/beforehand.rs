//! The checks for `cairn init`, of one model and of one bot in a configuration that is not written yet.

use std::time::Duration;

use cairn_api::text::{cut, one_line};
use cairn_cli::out;
use cairn_config::{Loaded, ModelConfig};
use cairn_core::builtin_tools::builtin_tools;
use cairn_llm::{BadModel, Look};
use cairn_types::ids::ChannelId;
use cairn_types::ports::ServerWindow;
use jiff::SignedDuration;

use crate::commands::doctor::asking::greet;
use crate::commands::doctor::models::{Client, Found, missing_key, unanswered, unlisted};
use crate::commands::doctor::networks;
use crate::commands::doctor::report::{self, Finding};

/// Longest wait for a bot's network to answer a call.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Longest part of a model's answer that is shown, in columns.
const SAID_MAX: usize = 60;

/// A finding as `cairn doctor` prints it.
pub(in crate::commands) fn drawn(finding: &Finding) -> String {
    report::drawn(finding, out::room())
}

/// What is wrong with the key that the configuration names.
pub(in crate::commands) fn key_problem(loaded: &Loaded, model: &ModelConfig) -> Option<Finding> {
    missing_key(loaded, model, "key")
}

/// Looks at the server of a model: the names of its models.
///
/// # Errors
/// The model's address or key cannot be used.
pub(in crate::commands) async fn models(
    loaded: &Loaded,
    model: &ModelConfig,
) -> Result<(Look, Vec<String>), BadModel> {
    Ok(Client::of(loaded, model, CALL_LIMIT)?.models().await)
}

/// Sends a model one short message, as the first agent would.
pub(in crate::commands) async fn greeting(
    loaded: &Loaded,
    model: &ModelConfig,
    limit: Duration,
) -> Vec<Finding> {
    let check = "test message";
    let agent = loaded.config.agents.first();
    let channel = agent.and_then(|agent| ChannelId::local(&agent.id, "init").ok());
    let (Some(agent), Some(channel)) = (agent, channel) else { return Vec::new() };
    let client = match Client::of(loaded, model, limit) {
        Ok(client) => client,
        Err(error) => return vec![Finding::failed(check, error.to_string(), "correct the answers")],
    };
    let (look, _) = client.models().await;
    let settings = loaded.config.settings(agent, &model.id, client.window().await.tokens(), builtin_tools());
    let asked = greet(client.port(), channel, settings, limit).await;
    let found = Found { look, window: ServerWindow::Unlisted, offset: None::<SignedDuration>, asked, limit };
    if let Some((_, stopped)) = &found.asked.stopped {
        return vec![unanswered(model, &found, stopped, check)];
    }
    let (took, said) = (found.asked.took.as_secs_f64(), cut(one_line(&found.asked.said).trim(), SAID_MAX));
    let answers = Finding::ok(check, format!("{} answers ({took:.1} s): {said}", model.model));
    [answers].into_iter().chain(unlisted(model, &found, check)).collect()
}

/// The window of a model, as far as its server tells it.
pub(in crate::commands) struct Told {
    /// With which it answers now.
    pub(in crate::commands) window: ServerWindow,
    /// With which it can be loaded at most.
    pub(in crate::commands) trained: Option<u64>,
}

/// Asks the server of a model for its window.
///
/// # Errors
/// The model's address or key cannot be used.
pub(in crate::commands) async fn window(loaded: &Loaded, model: &ModelConfig) -> Result<Told, BadModel> {
    let client = Client::of(loaded, model, CALL_LIMIT)?;
    let window = client.window().await;
    let trained = match window {
        // Servers whose list tells it have one window.
        ServerWindow::Listed(_) => None,
        ServerWindow::Loaded(_) | ServerWindow::NotLoaded | ServerWindow::Unlisted if model.is_nearby() => {
            client.trained_window().await
        }
        ServerWindow::Loaded(_) | ServerWindow::NotLoaded | ServerWindow::Unlisted => None,
    };
    Ok(Told { window, trained })
}

/// Checks the bots of a configuration.
pub(in crate::commands) async fn bot(loaded: &Loaded) -> Vec<Finding> {
    let mut out = Vec::new();
    for bot in loaded.config.bots() {
        out.extend(networks::one(loaded, bot, false, CALL_LIMIT).await);
    }
    out
}
