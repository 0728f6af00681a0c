//! Looks at a model's server and at bots while `init` asks, before anything is written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cairn_llm::Look as ServerLook;
use secrecy::{ExposeSecret as _, SecretString};

use crate::commands::doctor::{self, Finding, Told};
use crate::commands::init::answers::{Answers, Bot, Model};
use crate::commands::init::ask::Secret;
use crate::commands::init::text;
use cairn_config::{Config, Environment, Loaded, ModelConfig, ProcessEnvironment};

/// The variable that a typed secret is in, for this process's checks alone.
const TYPED: &str = "CAIRN_INIT_TYPED";

/// Longest wait for the answer to the test message: a server may have to load the model first.
pub(super) const GREETING_LIMIT: Duration = Duration::from_secs(60);

/// The environment, with a secret that is not in its file yet.
struct Beforehand<'a> {
    typed: Option<&'a SecretString>,
}

impl Environment for Beforehand<'_> {
    fn var(&self, name: &str) -> Option<OsString> {
        match self.typed {
            Some(secret) if name == TYPED => Some(secret.expose_secret().into()),
            Some(_) | None => ProcessEnvironment.var(name),
        }
    }

    fn current_dir(&self) -> Option<PathBuf> {
        ProcessEnvironment.current_dir()
    }
}

fn typed(secret: &Secret) -> Option<&SecretString> {
    match secret {
        Secret::Typed(secret) => Some(secret),
        Secret::None | Secret::Variable(_) | Secret::File(_) => None,
    }
}

/// The configuration that these answers would make. `None`: it has problems, which are reported when it is written.
fn loaded(file: &Path, answers: &Answers, secret: &Secret) -> Option<Loaded> {
    Config::of_text(file, &text::text(answers), &Beforehand { typed: typed(secret) }).ok()
}

/// A model's server, as the answers so far name it.
pub(super) struct Look {
    loaded: Loaded,
}

impl Look {
    /// `file`: the configuration to write. `None`: the answers name no usable server.
    pub(super) fn at(file: &Path, model: &Model) -> Option<Self> {
        let name = if model.name.is_empty() { "any" } else { &model.name };
        let beforehand = Model {
            provider: model.provider,
            base_url: model.base_url.clone(),
            name: name.to_owned(),
            key: model.key.beforehand(TYPED),
            window: model.window,
        };
        let answers = Answers { model: Some(beforehand), bots: Vec::new(), owners: Vec::new() };
        let loaded = loaded(file, &answers, &model.key)?;
        Some(Self { loaded }).filter(|look| !look.loaded.config.models.is_empty())
    }

    pub(super) fn model(&self) -> &ModelConfig {
        &self.loaded.config.models[0]
    }

    /// The window that holds where neither the configuration nor the server names one, and whether it grows.
    pub(super) fn window_without(&self) -> (u64, bool) {
        let config = &self.loaded.config;
        match config.assumes_window(self.model()) {
            true => (cairn_core::agent::ASSUMED_WINDOW, true),
            false => (config.default_window(), false),
        }
    }

    /// What is wrong with the key that is named: the server is not asked then.
    pub(super) fn key_problem(&self) -> Option<Finding> {
        doctor::key_problem(&self.loaded, self.model())
    }

    /// What the server says, and the names of its models.
    pub(super) async fn models(&self) -> Result<(ServerLook, Vec<String>), String> {
        doctor::models(&self.loaded, self.model()).await.map_err(|error| error.to_string())
    }

    /// Sends one test message.
    pub(super) async fn greeting(&self) -> Vec<Finding> {
        doctor::greeting(&self.loaded, self.model(), GREETING_LIMIT).await
    }

    pub(super) async fn window(&self) -> Option<Told> {
        doctor::window(&self.loaded, self.model()).await.ok()
    }
}

/// Checks a bot's token, and says how the bot is let in.
pub(super) async fn bot(file: &Path, bot: &Bot) -> Vec<Finding> {
    let beforehand = Bot {
        kind: bot.kind,
        token: bot.token.beforehand(TYPED),
        api_url: bot.api_url.clone(),
        servers: Vec::new(),
    };
    let answers = Answers { model: None, bots: vec![beforehand], owners: Vec::new() };
    match loaded(file, &answers, &bot.token) {
        Some(loaded) => doctor::bot(&loaded).await,
        None => Vec::new(),
    }
}
